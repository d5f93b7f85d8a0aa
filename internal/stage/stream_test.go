package stage

import (
	"bytes"
	"testing"
)

// TestWays holds the ways to copy against copy at every alignment, and what is around.
func TestWays(t *testing.T) {
	for name, way := range map[string]func(dst, src []byte){"stream": stream, "demoted": demoted} {
		for _, n := range []int{0, 1, 63, leastStream - 1, leastStream, 129, 191, 192, 193, 255, 256, 1000, 4096, 70_001} {
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
