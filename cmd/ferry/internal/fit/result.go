package fit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// Schema is the version of the document that [Result.JSON] returns.
const Schema = "ferry.fit/1"

// Result is a fitted profile and its errors.
type Result struct {
	Schema  string      `json:"schema"`
	Base    string      `json:"base"`  // name of the profile from which the fit started
	Files   []string    `json:"files"` // of the measurements
	Out     string      `json:"out"`   // the file that was written; empty for none
	Before  Errors      `json:"before"`
	After   Errors      `json:"after"`
	Kinds   []KindError `json:"kinds"`   // on the cases that were not fitted
	Changes []Change    `json:"changes"` // the largest first

	document []byte
}

// Errors are the errors of a profile's predictions, relative to the measurements.
type Errors struct {
	Fitted Error `json:"fitted"` // on the half of the cases for fitting
	Held   Error `json:"held"`   // on the other half
}

// Error is the relative error of predictions, as an absolute value.
type Error struct {
	Cases  int     `json:"cases"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// KindError is the median error of one kind before and after the fit.
type KindError struct {
	Kind   string  `json:"kind"`
	Cases  int     `json:"cases"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Change is a number that the fit moved. Curves are not listed.
type Change struct {
	Path   string  `json:"path"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Profile returns the fitted profile as a document.
func (r *Result) Profile() []byte { return r.document }

// JSON returns the result as one document.
func (r *Result) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", " ")
	return append(text, '\n'), err
}

// Page returns the errors before and after the fit, by kind and of all cases, and the numbers
// that changed most.
func (r *Result) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s fitted to %s: relative errors of predicted times\n", r.Base, names(r.Files))
	column := func(name string) layout.Column { return layout.Column{Name: name, Right: true} }
	all := &layout.Table{Columns: []layout.Column{{}, column("cases"), column("median\nbefore"), column("median\nafter"), column("90 %\nbefore"), column("90 %\nafter")}}
	row := func(name string, before, after Error) {
		all.Row(name, fmt.Sprint(before.Cases), percent(before.Median), percent(after.Median), percent(before.P90), percent(after.P90))
	}
	row("fitted", r.Before.Fitted, r.After.Fitted)
	row("not fitted", r.Before.Held, r.After.Held)
	p.Table(all)
	p.Line("\nmedian errors of the cases that were not fitted:")
	kinds := &layout.Table{Columns: []layout.Column{{Name: "kind"}, column("cases"), column("before"), column("after")}}
	for _, k := range r.Kinds {
		kinds.Row(k.Kind, fmt.Sprint(k.Cases), percent(k.Before), percent(k.After))
	}
	p.Table(kinds)
	r.addChanged(p)
	return p
}

// percent formats a relative error.
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// mostChanges is how many changes a text shows.
const mostChanges = 12

// addChanged adds the table of changes, and where the profile is.
func (r *Result) addChanged(p *layout.Page) {
	t := &layout.Table{Columns: []layout.Column{{Name: "number"}, {Name: "before", Right: true}, {Name: "after", Right: true}}}
	for _, c := range r.Changes[:min(len(r.Changes), mostChanges)] {
		t.Row(c.Path, fmt.Sprintf("%.4g", c.Before), fmt.Sprintf("%.4g", c.After))
	}
	if !t.Empty() {
		p.Line("")
		p.Table(t)
	}
	if n := len(r.Changes) - mostChanges; n > 0 {
		p.Linef("and %d more", n)
	}
	if r.Out == "" {
		p.Line("\nThe profile was not written: give --out FILE.json.")
		return
	}
	p.Linef("\nThe profile is in %s. Use it as --device soft:%s", r.Out, r.Out)
}

// changes returns the numbers of the moved paths that differ from those of a profile.
func (f *fitter) changes(before *profile.Profile) []Change {
	out := []Change{}
	for i := range groups {
		for _, n := range groups[i].numbers {
			c := Change{n.path, n.in(before).Value, n.in(f.p).Value}
			if f.moved[c.Path] && c.size() > significantChange {
				out = append(out, c)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(b.size(), a.size()) })
	return out
}

// size returns by which part of the larger value a number changed.
func (c Change) size() float64 {
	largest := max(abs(c.Before), abs(c.After))
	if largest == 0 {
		return 0
	}
	return abs(c.After-c.Before) / largest
}

func abs(v float64) float64 { return max(v, -v) }

// cases returns the cases of times in the order of the sets, then those of steps.
func cases(times map[grid.Case]float64) (out []grid.Case) {
	for _, c := range append(grid.Operations.Cases(), grid.Patterns.Cases()...) {
		if _, ok := times[c]; ok {
			out = append(out, c)
		}
	}
	return out
}

// names returns the names of files without their folders.
func names(files []string) string {
	var all []string
	for _, f := range files {
		all = append(all, filepath.Base(f))
	}
	return strings.Join(all, ", ")
}
