package parallel

import (
	"math"
	"testing"
)

func TestForVisitsEachOnce(t *testing.T) {
	for _, n := range []int{0, 1, worthwhile - 1, worthwhile, 5*worthwhile + 3} {
		seen := make([]uint8, n)
		For(n, func(first, end int) {
			for i := first; i < end; i++ {
				seen[i]++
			}
		})
		for i, times := range seen {
			if times != 1 {
				t.Fatalf("n=%d: %d was visited %d times", n, i, times)
			}
		}
	}
}

func TestPartReachesTheEnd(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1 << 20, math.MaxInt} {
		if part(n, 0, 7) != 0 || part(n, 7, 7) != n {
			t.Errorf("%d: from %d to %d", n, part(n, 0, 7), part(n, 7, 7))
		}
	}
}
