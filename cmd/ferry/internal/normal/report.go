package normal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Report says which times are not normal.
type Report struct {
	Reference string  `json:"reference"` // its name
	Device    string  `json:"reference_device"`
	Machines  int     `json:"machines"` // of the reference
	Runs      int     `json:"runs"`
	Normal    int     `json:"normal"` // counts of rows
	Slower    int     `json:"slower"`
	Faster    int     `json:"faster"`
	Unknown   int     `json:"unknown"` // rows that the reference lacks
	Rows      []Entry `json:"rows"`    // those that the reference has
}

// Entry compares a case with the reference. Times are in nanoseconds.
type Entry struct {
	grid.Case
	Ns     float64 `json:"ns"`
	Normal float64 `json:"normal_ns"`
	Low    float64 `json:"low_ns"`  // the shortest normal time
	High   float64 `json:"high_ns"` // the longest normal time
	Ratio  float64 `json:"ratio"`   // of the time to the reference
	State  State   `json:"state"`
}

// State says how a time compares with the reference.
type State string

// The states of an entry.
const (
	Normal State = "normal"
	Slower State = "slower"
	Faster State = "faster"
)

// Abnormal returns how many rows are not normal.
func (r *Report) Abnormal() int { return r.Slower + r.Faster }

// Compare compares times with a reference.
func Compare(r *grid.Result, ref *Reference) *Report {
	out := &Report{Reference: ref.Name, Device: ref.Device, Machines: ref.Machines, Runs: ref.Runs, Rows: []Entry{}}
	for _, p := range r.Points {
		row := ref.Row(p.Case)
		if row == nil {
			out.Unknown++
			continue
		}
		e := row.compare(p)
		out.Rows = append(out.Rows, e)
		switch e.State {
		case Slower:
			out.Slower++
		case Faster:
			out.Faster++
		default:
			out.Normal++
		}
	}
	return out
}

// compare compares a time with a row. A time is slower than normal if its median is beyond
// the limit, and nearly all of its samples are beyond half of the way there.
func (row *Row) compare(p grid.Point) Entry {
	low, high := row.Limits()
	e := Entry{Case: p.Case, Ns: p.Median, Normal: row.Median, Low: math.Round(low), High: math.Round(high), State: Normal}
	e.Ratio = math.Round(1e3*p.Median/row.Median) / 1e3
	half := func(limit float64) float64 { return math.Sqrt(limit * row.Median) }
	switch {
	case p.Median > high && p.P5 > half(high):
		e.State = Slower
	case p.Median < low && p.P95 < half(low):
		e.State = Faster
	}
	return e
}

// maxRows is how many rows the text has.
const maxRows = 20

// Page returns the rows that are not normal as a table, the furthest first.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("normal? compared with %s: %s, %d machines, %d runs", r.Reference, r.Device, r.Machines, r.Runs)
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(e Entry) bool { return e.State == Normal })
	slices.SortStableFunc(rows, func(x, y Entry) int { return cmp.Compare(y.far(), x.far()) })
	t := &layout.Table{Columns: []layout.Column{{Name: "kind"}, {Name: "size", Right: true}, {Name: "us", Right: true}, {Name: "normal us", Right: true}, {Name: "state"}}}
	for _, e := range rows[:min(len(rows), maxRows)] {
		t.Row(e.Kind, e.SizeText(), fmt.Sprintf("%.2f", e.Ns/1e3), fmt.Sprintf("%.2f to %.2f", e.Low/1e3, e.High/1e3), string(e.State))
	}
	p.Table(t)
	if n := len(rows) - maxRows; n > 0 {
		p.Linef("and %d more; --json has all", n)
	}
	unknown := ""
	if r.Unknown > 0 {
		unknown = fmt.Sprintf("; %d rows are not in the reference", r.Unknown)
	}
	p.Linef("%d rows: %d normal, %d slower, %d faster%s", len(r.Rows), r.Normal, r.Slower, r.Faster, unknown)
	return p
}

// far returns how far a time is from normal, as a factor of at least 1.
func (e Entry) far() float64 { return max(e.Ratio, 1/max(e.Ratio, 1e-9)) }

// Slow reports whether a time of the row's case is slower than normal.
func (row *Row) Slow(p grid.Point) bool { return row.compare(p).State == Slower }
