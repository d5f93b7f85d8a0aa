package fit

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// Anew fits the values of a profile whose path begins with only, from the starts in this
// package. It returns the text of the profile with the fitted values, and writes its
// progress to standard error.
func Anew(ctx context.Context, text []byte, measured map[grid.Case]float64, rounds int, only string) ([]byte, error) {
	p, err := profile.Parse(text)
	if err != nil {
		return nil, err
	}
	f := &fitter{p: p, measured: measured, only: only, log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}}
	if err := f.anew(ctx, rounds); err != nil {
		return nil, err
	}
	return finished(text, f.results())
}

// finished returns the text of a profile with other values, and checks it.
func finished(text []byte, values map[string]any) ([]byte, error) {
	out, err := rewrite(text, values)
	if err != nil {
		return nil, err
	}
	_, err = profile.Parse(out)
	return out, err
}

// Options are the options of [Near].
type Options struct {
	Base   []byte   // the profile from which the fit starts, as a document
	Files  []string // of "bench --json" and "compare --json", runs on one machine
	Name   string   // of the fitted profile
	Rounds int      // how often all values are moved; 0 means 1
	// Progress, if not nil, is called with a line about each step.
	Progress func(text string)

	only func(grid.Case) bool // the cases to use, for tests; nil means all
}

// accepts reports whether a case is used.
func (o *Options) accepts(c grid.Case) bool { return o.only == nil || o.only(c) }

// ownSource is the source of the values that [Near] moved.
const ownSource = "fitted"

// Near fits a profile to the runs on one machine. It starts from the values of the profile
// and moves those that the measured cases depend on. It compares both profiles with the
// runs, on the cases that were fitted and on those that were not.
func Near(ctx context.Context, o *Options) (*Result, error) {
	before, err := profile.Parse(o.Base)
	if err != nil {
		return nil, err
	}
	runs, err := readRuns(o.Files, func(c grid.Case) bool { return c.Fits() && o.accepts(c) })
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("fit: no case for fitting in %s", names(o.Files))
	}
	all, err := readFiles(o.Files, func(c grid.Case) bool { return !strings.HasPrefix(c.Kind, step) && o.accepts(c) })
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(o.Base)
	if err != nil {
		return nil, err
	}
	f := &fitter{p: p, measured: medians(runs), spans: spansOf(runs), near: true, source: ownSource, moved: map[string]bool{}, log: func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf(format, args...))
		}
	}}
	r := &Result{Schema: Schema, Base: before.Name, Files: o.Files}
	if r.Before, r.Kinds, err = errorsOf(ctx, before, all, r.Kinds, 0); err != nil {
		return nil, err
	}
	if err := f.rounds(ctx, max(1, o.Rounds)); err != nil {
		return nil, err
	}
	if r.After, r.Kinds, err = errorsOf(ctx, p, all, r.Kinds, 1); err != nil {
		return nil, err
	}
	r.Changes = f.changes(before)
	r.document, err = f.document(o)
	return r, err
}

// document returns the fitted profile as a document.
func (f *fitter) document(o *Options) ([]byte, error) {
	values := f.results()
	if o.Name != "" {
		values["name"] = o.Name
	}
	values["sources."+ownSource] = map[string]string{
		"confidence": "derived",
		"text":       fmt.Sprintf("fitted by ferry profile fit to half of the cases of %s", names(o.Files)),
	}
	return finished(o.Base, values)
}

// significantChange is the least relative change that a report shows.
const significantChange = 1e-3

// round4 rounds an error to four digits after the point.
func round4(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// at returns the value below which a percentage of sorted values lies.
func at(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return round4(sorted[max((percent*len(sorted)+99)/100, 1)-1])
}

// errorsOf compares the predictions of a profile with measurements. It adds the errors of
// each kind to kinds, before (0) or after (1) the fit.
func errorsOf(ctx context.Context, p *profile.Profile, measured map[grid.Case]float64, kinds []KindError, which int) (Errors, []KindError, error) {
	f := &fitter{p: p, measured: measured, log: func(string, ...any) {}}
	got, err := f.predict(ctx, func(grid.Case) bool { return true })
	if err != nil {
		return Errors{}, nil, err
	}
	var fitted, held []float64
	byKind := map[string][]float64{}
	for _, c := range cases(got) {
		e := math.Abs(got[c]/measured[c] - 1)
		if c.Fits() {
			fitted = append(fitted, e)
			continue
		}
		held = append(held, e)
		byKind[c.Kind] = append(byKind[c.Kind], e)
	}
	if kinds == nil {
		for _, c := range cases(got) {
			if n := len(kinds); !c.Fits() && (n == 0 || kinds[n-1].Kind != c.Kind) {
				kinds = append(kinds, KindError{Kind: c.Kind, Cases: len(byKind[c.Kind])})
			}
		}
	}
	for i := range kinds {
		k := &kinds[i]
		slices.Sort(byKind[k.Kind])
		*[]*float64{&k.Before, &k.After}[which] = at(byKind[k.Kind], 50)
	}
	return Errors{Fitted: summary(fitted), Held: summary(held)}, kinds, nil
}

func summary(errors []float64) Error {
	slices.Sort(errors)
	return Error{Cases: len(errors), Median: at(errors, 50), P90: at(errors, 90)}
}
