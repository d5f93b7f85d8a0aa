package diff

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// result returns a result with a point of each kind: median, 5th and 95th percentile.
func result(points ...grid.Point) *grid.Result { return &grid.Result{Points: points} }

func point(kind string, median, p5, p95 float64) grid.Point {
	return grid.Point{Case: grid.Case{Kind: kind, Size: 4096}, Median: median, P5: p5, P95: p95}
}

// TestStates compares one row with several others.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		name         string
		a, b         grid.Point
		state        State
		ratio, noise float64
	}{
		{"equal", point("k", 100, 90, 110), point("k", 100, 90, 110), Same, 1, 40},
		{"the ranges overlap", point("k", 100, 90, 110), point("k", 115, 105, 125), Same, 1.15, 40},
		{"the gap is as wide as the ranges", point("k", 100, 90, 110), point("k", 140, 130, 150), Same, 1.4, 40},
		{"the gap is wider", point("k", 100, 90, 110), point("k", 141, 131, 151), Slower, 1.41, 40},
		{"faster", point("k", 141, 131, 151), point("k", 100, 90, 110), Faster, 100. / 141, 40},
		{"the gap is narrower than the other range", point("k", 100, 99, 101), point("k", 150, 120, 180), Same, 1.5, 91},
		{"predictions have no range", point("k", 100, 100, 100), point("k", 101, 101, 101), Slower, 1.01, 0},
		{"a measurement around the prediction", point("k", 100, 100, 100), point("k", 104, 98, 110), Same, 1.04, 18},
		{"a prediction of nothing", point("k", 0, 0, 0), point("k", 1, 1, 1), Slower, 0, 0},
	} {
		r := Compare("a", result(c.a), "b", result(c.b))
		if len(r.Rows) != 1 {
			t.Fatalf("%s: got %+v", c.name, r)
		}
		row := r.Rows[0]
		if row.State != c.state || row.Ratio != c.ratio || row.Noise != c.noise {
			t.Errorf("%s: got %+v, want %s, ratio %v, noise %v", c.name, row, c.state, c.ratio, c.noise)
		}
	}
}

// TestCompare counts rows, and names the cases of one side only.
func TestCompare(t *testing.T) {
	a := result(point("slow", 10, 10, 10), point("fast", 10, 10, 10), point("same", 10, 9, 11), point("a", 1, 1, 1))
	b := result(point("b", 1, 1, 1), point("same", 10, 9, 11), point("fast", 5, 5, 5), point("slow", 40, 40, 40))
	r := Compare("A.json", a, "B.json", b)
	if r.Slower != 1 || r.Faster != 1 || r.Same != 1 || len(r.Rows) != 3 || r.Rows[0].Kind != "slow" {
		t.Errorf("got %+v", r)
	}
	if len(r.OnlyA) != 1 || r.OnlyA[0].Kind != "a" || len(r.OnlyB) != 1 || r.OnlyB[0].Kind != "b" {
		t.Errorf("only in A %v, only in B %v", r.OnlyA, r.OnlyB)
	}
	text := r.Page().Text(0)
	slow, fast := strings.Index(text, "\nslow "), strings.Index(text, "\nfast ")
	if slow < 0 || fast < slow || strings.Contains(text, "\nsame ") || !strings.Contains(text, "3 rows: 1 slower in B than the noise, 1 faster, 1 the same\nonly in A: 1 rows; only in B: 1\n") {
		t.Errorf("got\n%s", text)
	}
}
