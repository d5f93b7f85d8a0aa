package workers

import (
	"fmt"
	"math"
	"testing"
)

// TestForVisitsEachOnce: the ranges cover every element once.
func TestForVisitsEachOnce(t *testing.T) {
	for _, n := range []int{0, 1, elementsPerWorker - 1, elementsPerWorker, 5*elementsPerWorker + 3} {
		seen := make([]uint8, n)
		For(n, func(first, end int) {
			for i := first; i < end; i++ {
				seen[i]++
			}
		})
		for i, times := range seen {
			if times != 1 {
				t.Fatalf("%d elements: element %d was visited %d times", n, i, times)
			}
		}
	}
}

// TestForRanges: the first range begins at 0 and the last ends at n, also near overflow.
func TestForRanges(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1 << 20, math.MaxInt} {
		if first, end := rangeStart(n, 0, 7), rangeStart(n, 7, 7); first != 0 || end != n {
			t.Errorf("%d elements: the ranges go from %d to %d", n, first, end)
		}
	}
}

func BenchmarkFor(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("elements=%d", n), func(b *testing.B) {
			x := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				For(n, func(first, end int) { clear(x[first:end]) })
			}
		})
	}
}
