package ptx_test

import (
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/ptx"
)

// TestHostile parses and links texts that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	for name, text := range hostile.PTX() {
		hostile.Check(t, name, func() {
			m, err := ptx.Parse("f.ptx", text)
			if (m == nil) == (err == nil) {
				t.Errorf("%s: module %v, error %v", name, m, err)
			}
			if err != nil && len(err.Error()) > 2*hostile.Bytes {
				t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
			}
		})
	}
}
