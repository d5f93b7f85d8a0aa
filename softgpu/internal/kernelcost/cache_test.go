package kernelcost

import (
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Device memory transfers two sectors at a time.
func TestNarrowAccess(t *testing.T) {
	scattered := &simt.Traffic{ReadSectors: 8, Reads: [4]uint64{8}}
	dense := &simt.Traffic{ReadSectors: 8, Reads: [4]uint64{3: 2}}
	if got, want := accessBytes(scattered, false), uint64(512); got != want {
		t.Errorf("8 words apart: %d bytes, want %d", got, want)
	}
	if got, want := accessBytes(dense, false), uint64(256); got != want {
		t.Errorf("8 sectors together: %d bytes, want %d", got, want)
	}
	stores := &simt.Traffic{WriteSectors: 8, Writes: [4]uint64{8}}
	for _, cached := range []bool{false, true} {
		if got, want := accessBytes(stores, cached), uint64(512); got != want {
			t.Errorf("8 stores of a word apart: %d bytes, want %d", got, want)
		}
	}
	if got, want := accessBytes(scattered, true), uint64(256); got != want {
		t.Errorf("8 words apart, in the cache: %d bytes, want %d", got, want)
	}
}
