package summary

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

func read(t *testing.T, name string) *grid.Result {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/results/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := grid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func h200(t *testing.T) *normal.Reference {
	t.Helper()
	ref, err := normal.Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// kindOf returns a kind of a summary.
func kindOf(t *testing.T, s *Summary, name string) Kind {
	t.Helper()
	for _, k := range s.Kinds {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("the summary has no %q", name)
	return Kind{}
}

// line returns points on T = a + V/b, with b in units per nanosecond.
func line(kind string, a, b float64, sizes ...int) (points []grid.Point) {
	for _, n := range sizes {
		ns := a + float64(n)/b
		points = append(points, grid.Point{Case: grid.Case{Kind: kind, Size: n}, Median: ns, P5: ns, P95: ns, Samples: 1})
	}
	return points
}

// TestFit fits a line that is known, one with noise that is known, and a constant.
func TestFit(t *testing.T) {
	exact := fit(line("fill", 8000, 50, 4096, 65536, 1<<20, 16<<20), 1)
	if exact.A != 8000 || exact.B != 50e9 || exact.AError != 0 || exact.BError > 1 || exact.Worst != 0 || exact.Sizes != 4 {
		t.Errorf("got %+v", exact)
	}
	noisy := line("fill", 8000, 50, 4096, 8192, 65536, 1<<18, 1<<20, 16<<20)
	for i := range noisy {
		noisy[i].Median *= 1 + 0.02*float64(1-2*(i%2))
	}
	f := fit(noisy, 1)
	if math.Abs(f.A-8000) > 2*f.AError || math.Abs(f.B-50e9) > 2*f.BError || f.AError < 50 || f.AError > 300 || f.BError < 0.3e9 || f.BError > 3e9 {
		t.Errorf("with noise of 2 %%: got %+v", f)
	}
	// Three points by hand: weights 1/y^2, and one degree of freedom.
	three := line("fill", 0, 1, 1000, 2000, 4000)
	three[0].Median, three[1].Median, three[2].Median = 100, 220, 390
	if f := fit(three, 1); f.A != 0.7 || f.AError != 16.2 || f.B != 9844730238 || math.Abs(f.BError/1046033194-1) > 1e-6 {
		t.Errorf("three points: got %+v", f)
	}
	if f := fit(line("fill", 8000, math.Inf(1), 1, 2, 4), 1); f.B != 0 || f.A != 8000 {
		t.Errorf("a constant: got %+v", f)
	}
	if f := fit(line("fill", 8000, 50, 4096, 8192), 1); f != nil {
		t.Errorf("two sizes: got %+v", f)
	}
	bent := line("fill", 8000, 50, 4096, 65536, 1<<20, 16<<20)
	bent[1].Median *= 3
	if f := fit(bent, 1); f.Worst < 0.25 {
		t.Errorf("one time tripled: got %+v", f)
	}
}

// TestMeasured summarizes a recorded run on an H200. The values are those of the file, and
// nothing is above its ceiling by more than 2 % but what stays in the caches.
func TestMeasured(t *testing.T) {
	r := read(t, "grid-h200-f1.json")
	s := Of(r, h200(t))
	if s.Reference != "h200" || len(s.Kinds) != 50 || s.Machine.Generation != 5 {
		t.Errorf("got %q, %d kinds, %+v", s.Reference, len(s.Kinds), s.Machine)
	}
	k := kindOf(t, s, "copy pinned in")
	if k.Size != 256<<20 || k.Bound != Link || k.Percent < 85 || k.Percent > 90 || k.Cause != "headers" {
		t.Errorf("got %+v", k)
	}
	if math.Abs(k.Fit.A-8000) > 3000 || math.Abs(k.Fit.B/55e9-1) > 0.1 || k.Fit.AError <= 0 || k.Fit.BError <= 0 {
		t.Errorf("got %+v", k.Fit)
	}
	if k := kindOf(t, s, "copy in, 32 in a row"); k.Percent < 75 || k.Percent > 95 || math.Abs(k.Fit.B/55e9-1) > 0.1 {
		t.Errorf("32 copies in a row: got %+v, %+v", k, k.Fit)
	}
	for _, k := range s.Kinds {
		if k.Ceiling == 0 || k.Percent <= 0 || k.Bound != Reference && k.Percent > 102 && k.Cause != "caches" {
			t.Errorf("got %+v", k)
		}
		if (k.Percent < Enough) != (k.Cause != "" && k.Cause != "caches") || k.Cause != "" && s.Causes[k.Cause] == "" {
			t.Errorf("%s: %.1f %%, cause %q", k.Kind, k.Percent, k.Cause)
		}
		if k.Cause == "not normal" {
			t.Errorf("a run that the reference has is not normal: %+v", k)
		}
	}
	for name, cause := range map[string]string{"copy pageable in, cuMemcpy": "staging", "kernel reads pinned words, stride 8": "sectors",
		"kernel reads pinned": "requests", "managed: kernel touches what the CPU wrote": "faults", "copy pinned in, just written": ""} {
		if k := kindOf(t, s, name); k.Cause != cause && cause != "" {
			t.Errorf("%s: cause %q, want %q", name, k.Cause, cause)
		}
	}
}

// TestCauses plants causes, and demands that the first of them is named.
func TestCauses(t *testing.T) {
	r := read(t, "grid-h200-f1.json")
	change := func(kind string, to func(p *grid.Point)) *grid.Result {
		out := *r
		out.Points = slices.Clone(r.Points)
		for i := range out.Points {
			if out.Points[i].Kind == kind {
				to(&out.Points[i])
			}
		}
		return &out
	}
	twice := func(p *grid.Point) { p.Median, p.P5, p.P95 = 2*p.Median, 2*p.P5, 2*p.P95 }
	late := func(p *grid.Point) { p.Median += 3e6; p.P95 += 3e6 }
	other := *h200(t)
	other.Device = "another"
	for _, c := range []struct {
		what, kind, want string
		r                *grid.Result
		ref              *normal.Reference
	}{
		{"half the rate", "copy pinned out", "not normal", change("copy pinned out", twice), h200(t)},
		{"half the rate, another machine", "copy pinned out", "headers", change("copy pinned out", twice), &other},
		{"3 ms before each", "copy pinned out", "fixed cost", change("copy pinned out", late), &other},
		{"slow launches", "launches, then a wait", "not normal", change("launches, then a wait", twice), h200(t)},
		{"slow launches, another machine", "launches, then a wait", "machine", change("launches, then a wait", twice), &other},
		{"no reference", "launches, then a wait", "", r, nil},
		{"above the ceiling", "fill", "caches", change("fill", func(p *grid.Point) { p.Median /= 3 }), h200(t)},
		{"a little slower", "graph of launches", "spread", change("graph of launches", func(p *grid.Point) { p.Median *= 1.1 }), h200(t)},
		{"sectors cost more than the start", "kernel reads words, stride 32", "sectors", r, h200(t)},
		{"the start costs more", "kernel fills", "fixed cost", r, h200(t)},
	} {
		if k := kindOf(t, Of(c.r, c.ref), c.kind); k.Cause != c.want {
			t.Errorf("%s: cause %q, want %q: %+v", c.what, k.Cause, c.want, k)
		}
	}
}

// TestCauseTexts: each cause of a kind is explained, and each kind exists.
func TestCauseTexts(t *testing.T) {
	for kind, tr := range traffics {
		if causes[tr.cause] == "" || !slices.Contains(grid.Operations.Kinds(), kind) {
			t.Errorf("%s: cause %q", kind, tr.cause)
		}
	}
	for _, group := range rivals {
		for _, kind := range group {
			if !slices.Contains(grid.Operations.Kinds(), kind) {
				t.Errorf("there is no kind %q", kind)
			}
		}
	}
}

// TestCrossover finds the crossing of two lines that are known: 4000 + V/10 and 9000 + V/50
// cross at 62500.
func TestCrossover(t *testing.T) {
	sizes := []int{4096, 8192, 16384, 32768, 65536, 131072, 1 << 20}
	a, b := line("copy pageable in, cuMemcpy", 4000, 10, sizes...), line("copy pinned in", 9000, 50, sizes...)
	for _, order := range [][2][]grid.Point{{a, b}, {b, a}} {
		c, ok := crossover(order[0], order[1])
		if !ok || c.Below != "copy pageable in, cuMemcpy" || c.Above != "copy pinned in" || math.Abs(c.Size/62500-1) > 0.15 {
			t.Errorf("got %+v, %v", c, ok)
		}
	}
	if c, ok := crossover(a, line("copy pinned in", 1000, 50, sizes...)); ok {
		t.Errorf("one that is always faster crosses at %+v", c)
	}
	near := line("copy pinned in", 4100, 10.2, sizes...)
	if c, ok := crossover(a, near); ok {
		t.Errorf("two that are the same cross at %+v", c)
	}
	s := Of(&grid.Result{Points: append(b, a...)}, nil)
	if len(s.Crossovers) != 1 || s.Crossovers[0].Unit != "bytes" {
		t.Errorf("got %+v", s.Crossovers)
	}
}

// TestDocument: the document is a result for those who read results, and has the summary.
func TestDocument(t *testing.T) {
	r := read(t, "grid-h200-f1.json")
	ref := h200(t)
	report := &Report{r, Of(r, ref), normal.Compare(r, ref)}
	text, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := grid.Parse(text); err != nil || len(back.Points) != len(r.Points) {
		t.Errorf("read as a result: %v", err)
	}
	var doc struct {
		Summary Summary
		Normal  normal.Report
	}
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Summary.Kinds) != 50 || doc.Normal.Normal < 700 || doc.Summary.Kinds[0].Fit == nil {
		t.Errorf("%v: %d kinds, %d rows normal", err, len(doc.Summary.Kinds), doc.Normal.Normal)
	}
	for _, want := range []string{"summary: at the largest size, against link 63.0 GB/s (PCIe 5 x16)", "crossovers\n", "normal? compared with h200"} {
		if got := report.Page().Text(0); !strings.Contains(got, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
}
