package grid

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func result(t *testing.T, name string) *Result {
	t.Helper()
	text, err := os.ReadFile("../../docs/results/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The committed predictions hold what docs/softgpu/accuracy.md says of them, on
// cases, and on a machine, that the profile was not fitted to.
func TestPredictionsAreNearMeasurements(t *testing.T) {
	predicted := result(t, "grid-soft-h200.json")
	for _, name := range []string{"grid-h200-7.json", "grid-h200-8.json"} {
		a := Compare(predicted, result(t, name))
		if a.All.Cases < 300 || a.All.Median > 0.10 || a.All.P90 > 0.45 {
			t.Errorf("%s: got %+v, want a median of 10 %% and a 90th percentile of 45 %% at most", name, a.All)
		}
		if a.Pairs < 1000 || len(a.Inversions) > a.Pairs*4/100 {
			t.Errorf("%s: %d of %d pairs are the other way round", name, len(a.Inversions), a.Pairs)
		}
	}
}

// The committed predictions are those of this code and this profile.
func TestPredictionsAreOfToday(t *testing.T) {
	fixed := map[Case]float64{}
	for _, p := range result(t, "grid-soft-h200.json").Points {
		fixed[p.Case] = p.Median
	}
	r, err := Measure(t.Context(), open(t, "soft:h200"), &Options{Only: func(c Case) bool {
		return c.Size == 4*kib || c.Size == 16
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Points {
		if want := fixed[p.Case]; math.Abs(p.Median-want) > 0.02*want+2 {
			t.Errorf("%v: got %.0f ns, docs/results has %.0f", p.Case, p.Median, want)
		}
	}
}

func TestCompareAccuracy(t *testing.T) {
	var points []Point
	for _, c := range Cases() {
		if c.Test() && c.Size == 1*mib && kindOf(c).unit == "bytes" {
			n := float64(100 * (len(points) + 1))
			points = append(points, Point{Case: c, Median: n, P5: n - 10, P95: n + 10})
		}
	}
	measured := &Result{Points: points}
	off := &Result{Points: slices.Clone(points)}
	for i := range off.Points {
		off.Points[i].Median *= 1.2
	}
	a := Compare(off, measured)
	n := len(points)
	if a.All.Cases != n || a.All.Median != 0.2 || a.All.P90 != 0.2 || a.Pairs != n*(n-1)/2 || len(a.Inversions) != 0 {
		t.Errorf("all off by a fifth: got %+v", a)
	}
	off.Points[0].Median = points[1].Median*1.2 + 1
	if a := Compare(off, measured); len(a.Inversions) != 1 || !strings.Contains(a.Inversions[0], points[0].Kind) {
		t.Errorf("one pair the other way round: got %v", a.Inversions)
	}
}
