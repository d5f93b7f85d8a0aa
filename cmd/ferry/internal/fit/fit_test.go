package fit

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

func named(t *testing.T, name string) *profile.Profile {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFitRecoversProfile fits numbers to times that were predicted with a known profile.
// The fitted profile must predict the same times, and a second fit must be equal.
func TestFitRecoversProfile(t *testing.T) {
	for only, kinds := range map[string][]string{
		"calls.event_record":       {"event records"},
		"copy.write_combined_htod": {"copy write-combined in"},
		"queue.gap":                {"copy in, 32 in a row", "copy both ways"},
	} {
		want := named(t, "h200")
		f := &fitter{p: want, measured: map[grid.Case]float64{}, only: only, log: t.Logf}
		for _, c := range grid.Operations.Cases() {
			if slices.Contains(kinds, c.Kind) && c.Size <= mib && !c.Test() {
				f.measured[c] = 1
			}
		}
		var err error
		all := func(grid.Case) bool { return true }
		if f.measured, err = f.predict(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		var found [2]map[grid.Case]float64
		for i := range found {
			f.p = named(t, "h200")
			if err := f.anew(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			if found[i], err = f.predict(t.Context(), all); err != nil {
				t.Fatal(err)
			}
		}
		for c, ns := range f.measured {
			if got := found[0][c]; math.Abs(got/ns-1) > 0.01 {
				t.Errorf("%v: fitted %.0f ns to %.0f", c, got, ns)
			}
			if found[0][c] != found[1][c] {
				t.Errorf("%v: the second fit predicts %.0f ns, the first %.0f", c, found[1][c], found[0][c])
			}
		}
	}
}

// TestFittedFields checks that this program fits each value of the profile with the
// source "fit".
func TestFittedFields(t *testing.T) {
	text, err := os.ReadFile("../../../../profile/h200.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	f := &fitter{p: named(t, "h200"), source: fitSource}
	fitted := f.results()
	var check func(path string, v any)
	check = func(path string, v any) {
		o, _ := v.(map[string]any)
		if _, known := fitted[path]; o["source"] == fitSource && !known {
			t.Errorf("%s has the source %q, but is not fitted", path, fitSource)
		}
		for key, inner := range o {
			check(strings.TrimPrefix(path+"."+key, "."), inner)
		}
	}
	check("", doc)
}

func TestRising(t *testing.T) {
	raw := []profile.Point{{Bytes: 1, Ns: 10}, {Bytes: 2, Ns: 30}, {Bytes: 2, Ns: 40}, {Bytes: 4, Ns: 20}, {Bytes: 8, Ns: 50}}
	want := []profile.Point{{}, {Bytes: 1, Ns: 10}, {Bytes: 2, Ns: 30}, {Bytes: 4, Ns: 30}, {Bytes: 8, Ns: 50}}
	if got := rising(raw, true); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestMediansOverMachines checks that a machine counts once, however many files it has. The
// late machine counts only for cases that the others lack.
func TestMediansOverMachines(t *testing.T) {
	fit := func(cs []grid.Case) (out []grid.Case) {
		return slices.DeleteFunc(cs, grid.Case.Test)
	}(grid.Operations.Cases())
	dir := t.TempDir()
	write := func(name string, ns ...float64) {
		r := &grid.Result{Schema: grid.Schema}
		for i, v := range ns {
			r.Points = append(r.Points, grid.Point{Case: fit[i], Median: v})
		}
		text, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a1", "a2", "a3"} {
		write(name, 10)
	}
	write("b1", 20)
	write("c1", 30)
	write("d1", 99, 7)
	got, err := Read([]string{dir + "/a?", dir + "/b?", dir + "/c?"}, dir+"/d1")
	if err != nil {
		t.Fatal(err)
	}
	if got[fit[0]] != 20 || got[fit[1]] != 7 || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
