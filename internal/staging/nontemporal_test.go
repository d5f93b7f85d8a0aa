package staging

import (
	"bytes"
	"testing"
)

// TestCopies compares the ways to copy with copy at every alignment. They must not change
// what is around the destination.
func TestCopies(t *testing.T) {
	for name, way := range map[string]func(dst, src []byte){"non-temporal": copyNonTemporal, "demote": copyDemote} {
		for _, n := range []int{0, 1, 63, minNonTemporal - 1, minNonTemporal, 129, 191, 192, 193, 255, 256, 1000, 4096, 70_001} {
			for at := range 65 {
				for _, from := range []int{0, 1, 17, 63} {
					src := random(int64(n + 130))
					got := random(int64(n + 130))
					want := bytes.Clone(got)
					copy(want[at:at+n], src[from:from+n])
					way(got[at:at+n], src[from:from+n])
					if !bytes.Equal(got, want) {
						t.Fatalf("%s: %d bytes from %d to %d differ from copy", name, n, from, at)
					}
				}
			}
		}
	}
}

// TestCopyToRing: the last bytes of a transfer are kept out of the caches of the cores.
func TestCopyToRing(t *testing.T) {
	set := DefaultSettings()
	dirty := make([]byte, 1<<10)
	src := random(1 << 10)
	for _, n := range []int64{1, int64(set.LastBytes), int64(set.DemoteFrom) - 1, int64(set.DemoteFrom), 1 << 30} {
		for _, off := range []int64{0, max(0, n-int64(set.LastBytes)-1), n - 1} {
			clear(dirty)
			if set.copyToRing(off, n)(dirty, src); !bytes.Equal(dirty, src) {
				t.Errorf("byte %d of %d: the copy differs", off, n)
			}
		}
	}
}
