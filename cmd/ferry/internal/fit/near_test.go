package fit

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// tolerance is by how much the errors of a fitted profile may exceed those of the shipped
// one, on a run that was not used.
const tolerance = 0.01

// results is the folder of the runs on hardware.
const results = "../../../../docs/results/"

// quick accepts the cases that are predicted fast. Those of long computations take most of
// the time of a prediction: 2.9 of 3.3 s.
func quick(c grid.Case) bool {
	if c.Kind == "kernel computes" {
		return c.Size <= 64 // rounds
	}
	return c.Size <= 64*kib
}

// TestNumbersAreAccepted: a fit moves no number to a value that a profile may not have, whatever the
// times say.
func TestNumbersAreAccepted(t *testing.T) {
	for i := range groups {
		for _, n := range groups[i].numbers {
			for _, at := range []float64{n.start, 1e-6 * n.start, 1e6 * n.start} {
				for _, slope := range []float64{1e9, -1e9, 1e-9, -1e-9} {
					c := grid.Case{Kind: "x", Size: 1}
					g := &group{kinds: []string{"x"}, numbers: []number{n}}
					l := &lines{g: g, measured: map[grid.Case]float64{c: 1e6}, at: []float64{at}, cases: []grid.Case{c}, ns: []float64{1e9}, slopes: [][]float64{{slope}}}
					p := named(t, "h200")
					g.set(p, l.minimum())
					if err := p.Check(); err != nil {
						t.Errorf("from %g with the slope %g: %v", at, slope, err)
					}
				}
			}
			p := named(t, "h200")
			g := &group{numbers: []number{n}}
			for _, at := range []float64{1e-12, 3e-7, math.MaxFloat64} {
				g.set(p, []float64{at})
				if err := p.Check(); err != nil {
					t.Errorf("set to %g: %v", at, err)
				}
			}
		}
	}
}

// TestNearIsNoWorseOnAnotherRun fits the profile h200 to two runs on a machine. On a third
// run it must not be worse than the shipped profile, which was fitted to that run, too.
func TestNearIsNoWorseOnAnotherRun(t *testing.T) {
	if testing.Short() {
		t.Skip("predicts hundreds of cases several times")
	}
	text, err := profile.Text("h200")
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{Base: text, Files: []string{results + "grid-h200-a1.json", results + "grid-h200-a2.json"}, only: quick}
	r, err := Near(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(r.Profile())
	if err != nil {
		t.Fatal(err)
	}
	other, err := readFiles([]string{results + "grid-h200-a3.json"}, o.accepts)
	if err != nil {
		t.Fatal(err)
	}
	shipped, _, err := errorsOf(t.Context(), named(t, "h200"), other, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	fitted, _, err := errorsOf(t.Context(), p, other, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the third run: shipped %+v, fitted %+v\n%s", shipped, fitted, r.Page().Text(0))
	if fitted.Held.Cases < 100 || fitted.Held.Median > shipped.Held.Median+tolerance || fitted.Held.P90 > shipped.Held.P90+tolerance {
		t.Errorf("on the third run: got %+v, the shipped profile has %+v", fitted.Held, shipped.Held)
	}
	if r.Before.Held.Cases < 100 || r.After.Held.Median > r.Before.Held.Median {
		t.Errorf("on the runs themselves: got %+v, before %+v", r.After, r.Before)
	}
}

// machine writes the times that another profile predicts to a file, as if a machine were
// like that, and returns the file's name.
func machine(t *testing.T, p *profile.Profile, kinds ...string) string {
	t.Helper()
	measured := map[grid.Case]float64{}
	for _, c := range grid.Operations.Cases() {
		for _, kind := range kinds {
			if c.Kind == kind && c.Size <= 32*mib {
				measured[c] = 1
			}
		}
	}
	f := &fitter{p: p, measured: measured}
	times, err := f.predict(t.Context(), func(grid.Case) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	r := &grid.Result{Schema: grid.Schema}
	r.Device.Name = "NVIDIA H200"
	for _, c := range cases(times) {
		r.Points = append(r.Points, grid.Point{Case: c, Median: times[c]})
	}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "machine.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNearFindsAnotherMachine fits to a machine whose event records take three times as
// long, and whose fills take four times as long. The fit must find both, keep what the cases do
// not depend on, and say by how much the errors fell.
func TestNearFindsAnotherMachine(t *testing.T) {
	other := named(t, "h200")
	other.Calls.Record.Value *= 3
	for i := range other.Copy.Memset.Points {
		other.Copy.Memset.Points[i].Ns *= 4
	}
	file := machine(t, other, "event records", "fill", "copy pinned in")
	text, _ := profile.Text("h200")
	r, err := Near(t.Context(), &Options{Base: text, Files: []string{file}, Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(r.Profile())
	if err != nil {
		t.Fatal(err)
	}
	base := named(t, "h200")
	if got, want := p.Calls.Record, other.Calls.Record.Value; math.Abs(got.Value/want-1) > 0.02 || got.Source != ownSource {
		t.Errorf("event records: got %+v, want %.0f ns", got, want)
	}
	if got, want := p.Copy.Memset.Ns(mib), other.Copy.Memset.Ns(mib); math.Abs(got/want-1) > 0.1 || p.Copy.Memset.Source != ownSource {
		t.Errorf("fill of 1 MiB: got %.0f ns, want %.0f", got, want)
	}
	if p.Copy.PinnedHtoD.Source != base.Copy.PinnedHtoD.Source || p.Copy.PinnedHtoD.Ns(mib) != base.Copy.PinnedHtoD.Ns(mib) || p.Queue != base.Queue {
		t.Error("the fit moved what was right")
	}
	if p.Name != "mine" || !strings.Contains(p.Sources[ownSource].Text, "machine.json") || p.Sources["fit"] != base.Sources["fit"] {
		t.Errorf("got %q, %+v", p.Name, p.Sources)
	}
	if r.Before.Held.Median < 0.05 || r.After.Held.Median > 0.05 || r.After.Fitted.P90 > 0.05 || len(r.Changes) != 1 || r.Changes[0].Path != "calls.event_record_ns" {
		t.Errorf("got %+v, before %+v, %+v", r.After, r.Before, r.Changes)
	}
	document, err := r.JSON()
	var doc struct {
		Schema        string
		Before, After Errors
	}
	if err != nil || json.Unmarshal(document, &doc) != nil || doc.Schema != Schema || doc.Before.Held != r.Before.Held || doc.After.Held != r.After.Held {
		t.Errorf("%v: %s", err, document)
	}
	for _, want := range []string{"event records", "calls.event_record_ns", "give --out"} {
		if !strings.Contains(r.Page().Text(0), want) {
			t.Errorf("the text lacks %q:\n%s", want, r.Page().Text(0))
		}
	}
}

// TestNearRefuses files that are no measurements of one machine.
func TestNearRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, _ := profile.Text("h200")
	for file, want := range map[string]string{
		results + "grid-soft-h200.json":                              "predictions, not measurements",
		write("cut.json", `{"schema":"ferry.grid/1","points":[`):     "cut.json:1:36: the file is truncated",
		write("other.json", `{"schema":"ferry.info/1"}`):             "the schema is",
		write("empty.json", `{"schema":"ferry.grid/1","points":[]}`): "no case for fitting",
		filepath.Join(dir, "absent.json"):                            "no such file",
	} {
		if _, err := Near(t.Context(), &Options{Base: text, Files: []string{file}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
	other := write("h100.json", `{"schema":"ferry.grid/1","device":{"name":"NVIDIA H100"},"points":[]}`)
	if _, err := DeviceOf([]string{results + "grid-h200-d1.json", other}); err == nil || !strings.Contains(err.Error(), "one machine") {
		t.Errorf("two devices: got %v", err)
	}
}
