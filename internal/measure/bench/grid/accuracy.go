package grid

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/internal/layout"
)

// AccuracySchema is the version of the document that [Accuracy.JSON] returns.
const AccuracySchema = "ferry.accuracy/1"

// Accuracy is the difference between predictions and measurements.
type Accuracy struct {
	Schema    string  `json:"schema"`
	Predicted string  `json:"predicted"` // device of the predictions
	Measured  string  `json:"measured"`  // device of the measurements
	Half      string  `json:"half"`      // "test": only cases that no profile was fitted to
	All       Error   `json:"all"`
	Kinds     []Error `json:"kinds"`
	// Pairs counts the pairs of kinds at one size whose measured times clearly differ: the
	// ranges from the 5th to the 95th percentile do not overlap. Inversions are the pairs
	// that are predicted in the opposite order.
	Pairs      int      `json:"pairs"`
	Inversions []string `json:"inversions"`
}

// Error is the relative error of predictions, as an absolute value.
type Error struct {
	Kind   string  `json:"kind"`
	Cases  int     `json:"cases"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// Merge merges results of one kind of machine. A case has the median of its medians, the
// smallest 5th and the largest 95th percentile.
func Merge(results ...*Result) *Result {
	out := *results[0]
	all := map[Case][]Point{}
	for _, r := range results {
		for _, p := range r.Points {
			all[p.Case] = append(all[p.Case], p)
		}
	}
	out.Points = nil
	for _, c := range allCases() {
		points := all[c]
		if len(points) == 0 {
			continue
		}
		slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.Median, b.Median) })
		n := len(points)
		m := Point{Case: c, Median: (points[(n-1)/2].Median + points[n/2].Median) / 2, P5: points[0].P5}
		for _, p := range points {
			m.P5, m.P95 = min(m.P5, p.P5), max(m.P95, p.P95)
			m.Samples += p.Samples
		}
		out.Points = append(out.Points, m)
	}
	return &out
}

// Compare compares predictions with measurements, for the cases for tests that both have.
func Compare(predicted, measured *Result) *Accuracy {
	a := &Accuracy{Schema: AccuracySchema, Predicted: predicted.Device.Opened, Measured: measured.Device.Opened, Half: "test", Inversions: []string{}}
	got := map[Case]float64{}
	for _, p := range predicted.Points {
		got[p.Case] = p.Median
	}
	var all []float64
	off := map[string][]float64{}
	for _, p := range measured.Points {
		if ns, ok := got[p.Case]; ok && p.Test() && p.Median > 0 {
			e := math.Abs(ns/p.Median - 1)
			off[p.Kind] = append(off[p.Kind], e)
			all = append(all, e)
		}
	}
	for _, k := range operations {
		if len(off[k.name]) > 0 {
			a.Kinds = append(a.Kinds, errorOf(k.name, off[k.name]))
		}
	}
	if len(all) > 0 {
		a.All = errorOf("all", all)
	}
	a.rank(got, measured)
	return a
}

func errorOf(kind string, off []float64) Error {
	slices.Sort(off)
	at := func(percent int) float64 {
		e := off[max((percent*len(off)+99)/100, 1)-1]
		return math.Round(e*1e4) / 1e4
	}
	return Error{kind, len(off), at(50), at(90)}
}

// rank counts pairs and inversions of the kinds that move bytes, at each size.
func (a *Accuracy) rank(got map[Case]float64, measured *Result) {
	bySize := map[int][]Point{}
	for _, p := range measured.Points {
		if _, ok := got[p.Case]; ok && p.Test() && kindOf(p.Case).unit == "bytes" {
			bySize[p.Size] = append(bySize[p.Size], p)
		}
	}
	for _, points := range bySize {
		for i, p := range points {
			for _, q := range points[:i] {
				fast, slow := p, q
				if p.Median > q.Median {
					fast, slow = q, p
				}
				if fast.P95 >= slow.P5 {
					continue
				}
				a.Pairs++
				if got[fast.Case] > got[slow.Case] {
					a.Inversions = append(a.Inversions, fmt.Sprintf("%d: %s before %s", p.Size, fast.Kind, slow.Kind))
				}
			}
		}
	}
	slices.SortFunc(a.Inversions, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
}

// Page returns the accuracy as a table.
func (a *Accuracy) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s compared with %s: relative errors of the times, on the cases for tests\n", a.Predicted, a.Measured)
	t := &layout.Table{Columns: []layout.Column{{Name: "kind"}, {Name: "cases", Right: true}, {Name: "median", Right: true}, {Name: "90 %", Right: true}}}
	for _, e := range append(a.Kinds, a.All) {
		t.Row(e.Kind, fmt.Sprint(e.Cases), fmt.Sprintf("%.1f %%", 100*e.Median), fmt.Sprintf("%.1f %%", 100*e.P90))
	}
	p.Table(t)
	p.Linef("\n%d of %d pairs of kinds that clearly differ at a size are in the opposite order", len(a.Inversions), a.Pairs)
	return p
}

// JSON returns the accuracy as one document.
func (a *Accuracy) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(a, "", " ")
	return append(text, '\n'), err
}
