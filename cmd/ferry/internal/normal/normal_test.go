package normal

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

var update = flag.Bool("update", false, "write the references")

// results is where the runs are from which the references are made.
const results = "../../../../docs/results"

// runsOf reads the runs of a type of machine, by machine: grid-NAME-a1.json is the first run
// of machine a.
func runsOf(t *testing.T, name string) map[string][]*grid.Result {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "grid-"+name+"-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	all := map[string][]*grid.Result{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := grid.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(file), ".json")
		machine := strings.TrimRight(base, "0123456789")
		all[machine] = append(all[machine], r)
	}
	return all
}

// machines returns the runs in the order of the machines' names, without one machine.
func machines(runs map[string][]*grid.Result, without string) (out [][]*grid.Result) {
	var names []string
	for name := range runs {
		if name != without {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, runs[name])
	}
	return out
}

// TestGenerated compares the shipped references with the runs. It writes them with -update.
func TestGenerated(t *testing.T) {
	for _, name := range []string{"h200"} {
		want, err := New(name, machines(runsOf(t, name), "")...).JSON()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(name+".json", want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(name + ".json"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the reference %s is stale: run this test with -update (%v)", name, err)
		}
	}
}

// TestOwnRuns: a run compared with the reference that has it is normal, and so is a run
// compared with itself.
func TestOwnRuns(t *testing.T) {
	ref, err := Named("h200")
	if err != nil {
		t.Fatal(err)
	}
	if ref.Machines != 7 || ref.Runs != 15 || ref.Device != "NVIDIA H200" {
		t.Errorf("got %d machines, %d runs of %s", ref.Machines, ref.Runs, ref.Device)
	}
	for machine, runs := range runsOf(t, "h200") {
		for i, r := range runs {
			for what, with := range map[string]*Reference{"the reference": ref, "itself": New("itself", []*grid.Result{r})} {
				if n := Compare(r, with); n.Abnormal() > 0 || n.Normal < 600 {
					t.Errorf("%s%d with %s: %d normal, %d slower, %d faster", machine, i+1, what, n.Normal, n.Slower, n.Faster)
				}
			}
		}
	}
}

// TestOtherMachines compares the runs of each machine with the reference made from the other
// machines. Nearly all rows are normal: 10 of 700 may differ in a run, and 4 of 1000 in all.
func TestOtherMachines(t *testing.T) {
	all := runsOf(t, "h200")
	rows, abnormal := 0, 0
	for machine, runs := range all {
		ref := New("others", machines(all, machine)...)
		for i, r := range runs {
			n := Compare(r, ref)
			rows += len(n.Rows)
			abnormal += n.Abnormal()
			if n.Abnormal() > 10 {
				t.Errorf("%s%d: %s", machine, i+1, n.Page().Text(0))
			}
		}
	}
	t.Logf("%d of %d rows are not normal", abnormal, rows)
	if rows < 9000 || 1000*abnormal > 4*rows {
		t.Errorf("%d of %d rows are not normal", abnormal, rows)
	}
}

// slowed returns a copy of a result in which the times of some cases are multiplied.
func slowed(r *grid.Result, by float64, which func(grid.Case) bool) *grid.Result {
	out := *r
	out.Points = slices.Clone(r.Points)
	for i := range out.Points {
		if p := &out.Points[i]; which(p.Case) {
			p.Median, p.P5, p.P95 = p.Median*by, p.P5*by, p.P95*by
		}
	}
	return &out
}

// TestPlanted slows or speeds up some rows of a run. Exactly those are not normal: large
// copies at two thirds of the link's rate are found.
func TestPlanted(t *testing.T) {
	all := runsOf(t, "h200")
	const machine = "grid-h200-f"
	ref := New("others", machines(all, machine)...)
	run := all[machine][0]
	copies := func(c grid.Case) bool {
		return (c.Kind == "copy pinned in" || c.Kind == "copy pinned out") && c.Size >= 4<<20
	}
	for _, by := range []float64{1.5, 2, 0.6} {
		for _, e := range Compare(slowed(run, by, copies), ref).Rows {
			want := Normal
			switch {
			case copies(e.Case) && by > 1:
				want = Slower
			case copies(e.Case):
				want = Faster
			}
			if e.State != want {
				t.Errorf("times %.2f: %v is %s, want %s: %+v", by, e.Case, e.State, want, e)
			}
		}
	}
	half := Compare(slowed(run, 2, func(grid.Case) bool { return true }), ref)
	if 100*half.Slower < 75*len(half.Rows) {
		t.Errorf("a machine of half the speed: only %d of %d rows are slower", half.Slower, len(half.Rows))
	}
	t.Logf("a machine of half the speed: %d of %d rows are slower", half.Slower, len(half.Rows))
	noisy := slowed(run, 2, copies)
	for i := range noisy.Points {
		noisy.Points[i].P5 = run.Points[i].P5
	}
	if n := Compare(noisy, ref); n.Slower > 0 {
		t.Errorf("samples within the normal range: %s", n.Page().Text(0))
	}
}

// TestNoisyFast: a short median is normal if some samples are within the normal range. The
// text has the rows that are furthest from the reference first.
func TestNoisyFast(t *testing.T) {
	all := grid.Operations.Cases()
	run := func(first, second, late float64) *grid.Result {
		return &grid.Result{Points: []grid.Point{{Case: all[0], Median: first, P5: first, P95: late}, {Case: all[len(all)-1], Median: second, P5: second, P95: second}}}
	}
	ref := New("x", []*grid.Result{run(100, 100, 100)})
	if n := Compare(run(50, 100, 99), ref); n.Faster != 0 {
		t.Errorf("with late samples: %s", n.Page().Text(0))
	}
	n := Compare(run(50, 1000, 51), ref)
	near, far := strings.Index(n.Page().Text(0), all[0].Kind), strings.Index(n.Page().Text(0), all[len(all)-1].Kind)
	if n.Faster != 1 || n.Slower != 1 || near < 0 || far < 0 || near < far {
		t.Errorf("%d faster, %d slower: %s", n.Faster, n.Slower, n.Page().Text(0))
	}
}

func TestNearest(t *testing.T) {
	run := runsOf(t, "h200")["grid-h200-a"][0]
	if ref := Nearest(run); ref == nil || ref.Name != "h200" {
		t.Errorf("got %+v", ref)
	}
	if ref := Nearest(&grid.Result{}); ref != nil {
		t.Errorf("a result without times is near %s", ref.Name)
	}
	if _, err := Named("h201"); err == nil || !strings.Contains(err.Error(), "h200") {
		t.Errorf("got %v", err)
	}
}

// TestRows checks medians, ranges and spreads by hand.
func TestRows(t *testing.T) {
	c := grid.Operations.Cases()[0]
	run := func(ns float64) *grid.Result {
		return &grid.Result{Points: []grid.Point{{Case: c, Median: ns, P5: ns - 2, P95: ns + 3}}}
	}
	ref := New("x", []*grid.Result{run(100), run(110), run(300)}, []*grid.Result{run(120)}, []*grid.Result{run(90)})
	row := ref.Row(c)
	if row == nil || row.Median != 110 || row.Low != 90 || row.High != 300 || row.Machines != 3 || ref.Runs != 5 {
		t.Errorf("got %+v", row)
	}
	low, high := row.Limits()
	if want := 110 * math.Pow(300.0/110, 1.5) * 1.1; math.Abs(high-want) > 1e-6 {
		t.Errorf("the limit is %v, want %v", high, want)
	}
	if want := 110 / (300.0 / 110) / 1.1; math.Abs(low-want) > 1e-6 {
		t.Errorf("the lower limit is %v, want %v", low, want)
	}
	fast := New("x", []*grid.Result{run(100), run(100), run(25)}).Row(c)
	if low, _ := fast.Limits(); math.Abs(low-100/8.8) > 1e-6 {
		t.Errorf("the lower limit is %v, want %v", low, 100/8.8)
	}
	alone := New("x", []*grid.Result{run(100)}).Row(c)
	if alone.Low != 98 || alone.High != 103 {
		t.Errorf("one run: got %+v", alone)
	}
}
