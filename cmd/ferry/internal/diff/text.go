package diff

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/internal/layout"
)

// Page returns the rows that differ as a table, the greatest change first, and the counts.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Hang(3, "A: "+r.A.line())
	p.Hang(3, "B: "+r.B.line())
	var rows []Row
	for _, row := range r.Rows {
		if row.State != Same {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(x, y Row) int { return cmp.Compare(change(y), change(x)) })
	t := &layout.Table{Columns: []layout.Column{{Name: "kind"}, {Name: "size", Right: true}, {Name: "A us", Right: true}, {Name: "B us", Right: true},
		{Name: "noise us", Right: true}, {Name: "B/A", Right: true}, {Name: "state"}}}
	for _, row := range rows {
		t.Row(row.Kind, fmt.Sprint(row.Size), us(row.A), us(row.B), us(row.Noise), fmt.Sprintf("%.2f", row.Ratio), string(row.State))
	}
	if !t.Empty() {
		p.Line("")
		p.Table(t)
	}
	p.Linef("\n%d rows: %d slower in B than the noise, %d faster, %d the same", len(r.Rows), r.Slower, r.Faster, r.Same)
	if len(r.OnlyA)+len(r.OnlyB) > 0 {
		p.Linef("only in A: %d rows; only in B: %d", len(r.OnlyA), len(r.OnlyB))
	}
	return p
}

// us formats nanoseconds as microseconds.
func us(ns float64) string { return fmt.Sprintf("%.2f", ns/1e3) }

// line describes a side.
func (s *Side) line() string {
	how := "measured"
	if s.Predicted {
		how = "predicted"
	}
	return fmt.Sprintf("%s, %s on %s (%s)", s.Name, how, s.Opened, s.Device)
}

// change returns how much a time has changed, as a factor of at least 1.
func change(r Row) float64 {
	if r.Ratio == 0 {
		return 0
	}
	return max(r.Ratio, 1/r.Ratio)
}
