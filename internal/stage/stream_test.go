package stage

import (
	"bytes"
	"testing"
)

// TestStream holds stream against copy at every alignment, and what is around.
func TestStream(t *testing.T) {
	for _, n := range []int{leastStream, 129, 191, 192, 193, 255, 256, 1000, 4096, 70_001} {
		for at := range 65 {
			for _, from := range []int{0, 1, 17, 63} {
				src := random(int64(n + 130))
				got := random(int64(n + 130))
				want := bytes.Clone(got)
				copy(want[at:at+n], src[from:from+n])
				stream(got[at:at+n], src[from:from+n])
				if !bytes.Equal(got, want) {
					t.Fatalf("%d bytes from %d to %d differ from copy", n, from, at)
				}
			}
		}
	}
}
