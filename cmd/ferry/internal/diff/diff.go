package diff

import (
	"encoding/json"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Schema is the version of the document that [Report.JSON] returns.
const Schema = "ferry.diff/1"

// Report is how the times of B differ from those of A.
type Report struct {
	Schema string `json:"schema"`
	A      Side   `json:"a"`
	B      Side   `json:"b"`
	Slower int    `json:"slower"` // rows
	Faster int    `json:"faster"`
	Same   int    `json:"same"`
	Rows   []Row  `json:"rows"`   // the cases that both have, in the order of A
	OnlyA  []Case `json:"only_a"` // the cases that B lacks
	OnlyB  []Case `json:"only_b"`
}

// Case is one operation at one size.
type Case = grid.Case

// Side is one of the two results.
type Side struct {
	Name      string `json:"name"` // its files
	Device    string `json:"device"`
	Opened    string `json:"opened"`
	Predicted bool   `json:"predicted"`
}

// Row is a case that both results have.
type Row struct {
	Case
	A     float64 `json:"a_ns"` // medians
	B     float64 `json:"b_ns"`
	Ratio float64 `json:"ratio"`    // of B to A; 0 if A is 0
	Noise float64 `json:"noise_ns"` // differences up to this are called the same
	State State   `json:"state"`
}

// State says how B compares with A.
type State string

// The states of a row.
const (
	Slower State = "slower"
	Faster State = "faster"
	Same   State = "same"
)

// Compare compares the results b with the results a. Their names are those of their files.
func Compare(nameA string, a *grid.Result, nameB string, b *grid.Result) *Report {
	r := &Report{Schema: Schema, A: side(nameA, a), B: side(nameB, b), Rows: []Row{}, OnlyA: []Case{}, OnlyB: []Case{}}
	of := map[Case]grid.Point{}
	for _, p := range b.Points {
		of[p.Case] = p
	}
	for _, p := range a.Points {
		q, ok := of[p.Case]
		if !ok {
			r.OnlyA = append(r.OnlyA, p.Case)
			continue
		}
		delete(of, p.Case)
		r.add(compare(p, q))
	}
	for _, p := range b.Points {
		if _, ok := of[p.Case]; ok {
			r.OnlyB = append(r.OnlyB, p.Case)
		}
	}
	return r
}

// side describes one of the results.
func side(name string, r *grid.Result) Side {
	return Side{Name: name, Device: r.Device.Name, Opened: r.Device.Opened, Predicted: r.Predicted}
}

// add adds a row and counts its state.
func (r *Report) add(row Row) {
	r.Rows = append(r.Rows, row)
	switch row.State {
	case Slower:
		r.Slower++
	case Faster:
		r.Faster++
	default:
		r.Same++
	}
}

// compare compares a case. Each result has a range of samples, from the 5th to the 95th
// percentile, and between the ranges of two runs is a gap. B differs from A if the gap is
// wider than the wider range. Ranges that only do not overlap are too weak a sign: of 700
// cases, two runs of one program on one H200 had 23 to 140 such pairs, and 8 to 38 with
// this rule. A prediction has no range.
func compare(p, q grid.Point) Row {
	width := max(p.P95-p.P5, q.P95-q.P5)
	row := Row{Case: p.Case, A: p.Median, B: q.Median, State: Same, Noise: width + noiseOf(p, q)}
	if p.Median > 0 {
		row.Ratio = q.Median / p.Median
	}
	switch {
	case q.P5-p.P95 > width:
		row.State = Slower
	case p.P5-q.P95 > width:
		row.State = Faster
	}
	return row
}

// noiseOf returns the parts of both ranges between the medians.
func noiseOf(p, q grid.Point) float64 {
	if q.Median >= p.Median {
		return p.P95 - p.Median + q.Median - q.P5
	}
	return p.Median - p.P5 + q.P95 - q.Median
}

// JSON returns the report as one document.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }
