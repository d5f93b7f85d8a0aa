package page

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// reuseRows is the rows with a number of launches on the same inputs.
type reuseRows struct {
	Times int
	Rows  []comparisonRow
}

// byReuse returns all rows by the number of launches, from one on.
func (c *comparison) byReuse() []reuseRows {
	all := []reuseRows{{1, c.Rows}}
	for _, r := range c.Reuse {
		known := slices.ContainsFunc(all, func(x reuseRows) bool { return x.Times == r.Times })
		if r.Times > 1 && !known {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b reuseRows) int { return cmp.Compare(a.Times, b.Times) })
	return all
}

// row returns the row of a size, or nil.
func (r *reuseRows) row(bytes float64) *comparisonRow {
	for i := range r.Rows {
		if r.Rows[i].bytes == bytes {
			return &r.Rows[i]
		}
	}
	return nil
}

// best returns the kind with the least time, without the kernel alone. ok is false if there
// is none.
func (r *comparisonRow) best() (best bench.Kind, ns float64, ok bool) {
	for _, k := range measuredKinds() {
		if t := r.ns[k.Key()]; k != bench.KernelAlone && t != nil && *t > 0 && (!ok || *t < ns) {
			best, ns, ok = k, *t, true
		}
	}
	return best, ns, ok
}

// flip returns the largest size at which another kind is best with the most launches than
// with one, or the largest size that has both if there is none.
func flip(all []reuseRows) (bytes float64, found bool) {
	last := &all[len(all)-1]
	var most float64
	for i := range all[0].Rows {
		once := &all[0].Rows[i]
		often := last.row(once.bytes)
		if often == nil || once.bytes <= 0 {
			continue
		}
		most = max(most, once.bytes)
		a, _, ok := once.best()
		b, _, also := often.best()
		if ok && also && a != b {
			bytes = max(bytes, once.bytes)
		}
	}
	if bytes > 0 {
		return bytes, true
	}
	return most, false
}

// reuse returns the chart of time against the number of launches at one size, with the best
// kinds of all sizes, or nil if there was only one launch.
func (c *comparison) reuse() *Chart {
	all := c.byReuse()
	if len(all) < 2 {
		return nil
	}
	bytes, found := flip(all)
	chart := &Chart{ID: "reuse", Title: c.subject() + " with several launches on the same inputs, at " + sizeText(bytes),
		X: Axis{"launches on the same inputs", Count}, Y: Axis{"time", Time}}
	for _, k := range measuredKinds() {
		s := Series{Name: k.String(), Dashed: k == bench.KernelAlone}
		for i := range all {
			if r := all[i].row(bytes); r != nil && r.ns[k.Key()] != nil && *r.ns[k.Key()] > 0 {
				s.Points = append(s.Points, Point{float64(all[i].Times), *r.ns[k.Key()]})
			}
		}
		if len(s.Points) > 0 {
			chart.Series = append(chart.Series, s)
		}
	}
	if len(chart.Series) == 0 {
		return nil
	}
	why := "The best kind is the same at all sizes, however often the inputs are read. This is the largest size."
	if found {
		why = "This is the largest size at which reuse changes the best kind."
	}
	chart.Sentence = join(chart.fastest(), chart.crossovers(nil), why, "Zero-copy crosses the link in each launch, a copy once.")
	return chart
}

// bestKinds returns the table of the best kind by size and number of launches, or nil if there
// was only one.
func (c *comparison) bestKinds() *Table {
	all := c.byReuse()
	if len(all) < 2 {
		return nil
	}
	t := &Table{Title: "Best kind by size and launches on the same inputs", Words: 1 + len(all), Head: []string{vectorSize.Label}}
	for _, r := range all {
		t.Head = append(t.Head, fmt.Sprint(count(r.Times, "launch"), " (us)"))
	}
	for i := range all[0].Rows {
		bytes := all[0].Rows[i].bytes
		row := Row{Cells: []string{sizeText(bytes)}}
		for k := range all {
			text := "-"
			if r := all[k].row(bytes); r != nil {
				if best, ns, ok := r.best(); ok {
					text = best.String() + ", " + Time.cell(ns)
				}
			}
			row.Cells = append(row.Cells, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
