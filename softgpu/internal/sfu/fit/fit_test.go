package fit

import (
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/sfu"
)

// hidden returns the bounds that the results of a row show, at n points.
func hidden(r *sfu.Row, shift uint, n int) []Point {
	points := make([]Point, n)
	for i := range points {
		x := uint32(i * (1 << 17) / n)
		result := r.At(x) >> shift
		points[i] = Point{x, result << shift, (result+1)<<shift - 1}
	}
	return points
}

// TestRow hides rows of the size that the unit has, and of random ones. The row that it
// finds gives all their results.
func TestRow(t *testing.T) {
	for n := range 24 {
		r := sfu.Row{
			C0: 1<<39 + rand.Int64N(1<<39),
			C1: int32(rand.IntN(1<<18) - 1<<17),
			C2: int32(rand.IntN(1<<12) - 1<<11),
		}
		shift := uint(14 + n%4)
		points := hidden(&r, shift, 1<<17)
		got, ok := Row(points)
		if !ok {
			t.Errorf("%v: no row is found", r)
			continue
		}
		for _, p := range points {
			if s := got.At(p.X); s < p.Low || s > p.High {
				t.Fatalf("%v: found %v, wrong at %d: %d is not in %d to %d", r, got, p.X, s, p.Low, p.High)
			}
		}
	}
}

// TestNoRow: results that no row gives are found to be so.
func TestNoRow(t *testing.T) {
	r := sfu.Row{C0: 1 << 39, C1: -60000, C2: 700}
	points := hidden(&r, 16, 1<<17)
	points[70000].Low += 3 << 16
	points[70000].High += 3 << 16
	if got, ok := Row(points); ok {
		t.Errorf("found %v", got)
	}
	if _, ok := Row(nil); ok {
		t.Error("found a row of no points")
	}
}
