package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Text returns the rows that differ as a table, the greatest change first, and the counts.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A: %s\nB: %s\n", r.A.line(), r.B.line())
	var rows []Row
	for _, row := range r.Rows {
		if row.State != Same {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(x, y Row) int { return cmp.Compare(change(y), change(x)) })
	if len(rows) > 0 {
		fmt.Fprintf(&b, "\n%-44s %10s %12s %12s %12s %7s\n", "kind", "size", "A us", "B us", "noise us", "B/A")
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "%-44s %10d %12.2f %12.2f %12.2f %7.2f  %s\n",
			row.Kind, row.Size, row.A/1e3, row.B/1e3, row.Noise/1e3, row.Ratio, row.State)
	}
	fmt.Fprintf(&b, "\n%d rows: %d slower in B than the noise, %d faster, %d the same\n", len(r.Rows), r.Slower, r.Faster, r.Same)
	if len(r.OnlyA)+len(r.OnlyB) > 0 {
		fmt.Fprintf(&b, "only in A: %d rows; only in B: %d\n", len(r.OnlyA), len(r.OnlyB))
	}
	return b.String()
}

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
