package summary

import (
	"encoding/json"
	"math"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Summary is what a result says about each kind. Fields are 0 or empty if not known.
type Summary struct {
	// Reference is the name of the machines with which times are compared, and
	// ReferenceDevice their product.
	Reference       string       `json:"reference"`
	ReferenceDevice string       `json:"reference_device"`
	Machine         grid.Machine `json:"machine"` // whose figures the ceilings are
	Kinds           []Kind       `json:"kinds"`
	Crossovers      []Crossover  `json:"crossovers"`
	// Causes explains the causes that occur.
	Causes map[string]string `json:"causes"`
}

// Kind is one kind of operation at its largest size.
type Kind struct {
	Kind string `json:"kind"`
	Unit string `json:"unit"` // of the size
	Size int    `json:"size"`
	// Ns is the time, and Rate the units of the size in a second. A kind of 32 copies in a row
	// has 32 times the size.
	Ns   float64 `json:"ns"`
	Rate float64 `json:"per_s"`
	// Ceiling is the highest rate. Per cent is the rate's part of it.
	Ceiling float64 `json:"ceiling_per_s"`
	Bound   Bound   `json:"bound"` // where the ceiling comes from
	Percent float64 `json:"percent"`
	Cause   string  `json:"cause"` // the first cause of a shortfall
	Fit     *Fit    `json:"fit"`   // null for fewer than three sizes
}

// Enough is the per cent of a ceiling that is no shortfall.
const Enough = 95

// Of summarizes a result. Its times are compared with a reference, which may be nil.
func Of(r *grid.Result, ref *normal.Reference) *Summary {
	s := &Summary{Machine: machineOf(r), Kinds: []Kind{}, Crossovers: []Crossover{}, Causes: map[string]string{}}
	if ref != nil {
		s.Reference, s.ReferenceDevice = ref.Name, ref.Device
	}
	for first := 0; first < len(r.Points); {
		end := first + 1
		for end < len(r.Points) && r.Points[end].Kind == r.Points[first].Kind {
			end++
		}
		k := s.kind(r, r.Points[first:end], ref)
		s.Kinds = append(s.Kinds, k)
		if k.Cause != "" {
			s.Causes[k.Cause] = causes[k.Cause]
		}
		first = end
	}
	s.Crossovers = crossovers(r)
	return s
}

// kind summarizes the times of one kind, by rising size.
func (s *Summary) kind(r *grid.Result, points []grid.Point, ref *normal.Reference) Kind {
	p := points[len(points)-1]
	times := max(1, inARow[p.Kind])
	k := Kind{Kind: p.Kind, Unit: p.Unit(), Size: p.Size, Ns: p.Median, Fit: fit(points, times)}
	k.Rate = math.Round(float64(times*p.Size) / max(p.Median, 1) * 1e9)
	k.Ceiling, k.Bound = rateOf(p.Kind, s.Machine)
	var row *normal.Row
	if ref != nil {
		row = ref.Row(p.Case)
	}
	if k.Ceiling == 0 && row != nil {
		k.Ceiling, k.Bound = float64(p.Size)/row.Median*1e9, Reference
	}
	k.Ceiling = math.Round(k.Ceiling)
	if k.Ceiling == 0 {
		k.Bound = ""
		return k
	}
	k.Percent = math.Round(1e3*k.Rate/k.Ceiling) / 10
	k.Cause = k.cause(p, row, ref != nil && ref.Device == r.Device.Name)
	return k
}

// cause returns the first cause that explains a shortfall, or "" if there is none. same is
// whether the reference is of the same type of machine.
func (k *Kind) cause(p grid.Point, row *normal.Row, same bool) string {
	mechanism := traffics[k.Kind].cause
	switch {
	case k.Percent > 102 && k.Bound == Memory:
		return "caches"
	case k.Percent >= Enough:
		return ""
	case same && row != nil && row.Slow(p):
		return "not normal"
	case k.Bound == Reference && !same:
		return "machine"
	case k.Bound != Reference && k.late(p.Median):
		return "fixed cost"
	case mechanism != "":
		return mechanism
	case row != nil && !row.Slow(p):
		return "spread"
	}
	return "unknown"
}

// late reports whether the fixed cost of an operation takes more from its rate than all the
// rest does, and at least 2 %. Without a fit it does so for less than a MiB.
func (k *Kind) late(ns float64) bool {
	switch {
	case k.Fit == nil:
		return k.Size < 1<<20
	case k.Fit.A >= ns:
		return false
	}
	fixed := ns / (ns - k.Fit.A)
	return fixed > max(1.02, k.Ceiling/k.Rate/fixed)
}

// Report is a result with its summary, and with the rows that are not normal if that was
// asked for.
type Report struct {
	*grid.Result
	Summary *Summary
	Normal  *normal.Report // may be nil
}

// JSON returns the result as one document, with the fields "summary" and "normal" beside
// those of [grid.Result].
func (r *Report) JSON() ([]byte, error) {
	text, err := r.Result.JSON()
	if err != nil {
		return nil, err
	}
	end := len(text) - len("}\n")
	text = text[:end:end]
	for _, part := range []struct {
		name string
		has  bool
		data any
	}{{"summary", r.Summary != nil, r.Summary}, {"normal", r.Normal != nil, r.Normal}} {
		if !part.has {
			continue
		}
		data, err := json.Marshal(part.data)
		if err != nil {
			return nil, err
		}
		text = append(append(text, ",\n\""+part.name+"\":"...), data...)
	}
	return append(text, "}\n"...), nil
}

// Page returns the table of all times, the summary, and what is not normal.
func (r *Report) Page() *layout.Page {
	p := r.Result.Page()
	if r.Summary != nil {
		p.Line("")
		p.Add(r.Summary.Page())
	}
	if r.Normal != nil {
		p.Line("")
		p.Add(r.Normal.Page())
	}
	return p
}
