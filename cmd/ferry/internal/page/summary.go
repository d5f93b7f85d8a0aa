package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/normal"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/summary"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// benchDocument is a document of ferry bench. Its summary and its rows that are not normal
// may be absent.
type benchDocument struct {
	grid.Result
	Summary *summary.Summary `json:"summary"`
	Normal  *normal.Report   `json:"normal"`
}

// summaryTables returns the tables of a summary: the kinds, the causes of shortfalls, and the
// crossovers.
func summaryTables(s *summary.Summary) []*Table {
	kinds := &Table{Title: "Summary: each kind at its largest size", Words: 2,
		Head: []string{"kind", "cause of the shortfall", "value", "ceiling", "% of it", "a (us)", "b"}}
	reached, known := 0, 0
	for i := range s.Kinds {
		k := &s.Kinds[i]
		c := k.Cells()
		kinds.Rows = append(kinds.Rows, Row{Cells: []string{k.Kind, cmp.Or(k.Cause, "-"), c.Value, c.Ceiling, c.Percent, signed(c.A), signed(c.B)}})
		if k.Ceiling > 0 {
			known++
		}
		if k.Ceiling > 0 && k.Percent >= summary.Enough {
			reached++
		}
	}
	kinds.Sentence = fmt.Sprintf("%d of %d kinds with a ceiling reach %d %% of it or more: %s. "+
		"The time of a size V is T = a + V/b, with standard errors; \"bends\" means that a time is over 25 %% from that line.", reached, known, summary.Enough, s.Ceilings())
	causes := &Table{Title: "Causes of shortfalls", Closed: true, Words: 2, Head: []string{"cause", "what it means"}}
	for _, c := range slices.Sorted(maps.Keys(s.Causes)) {
		causes.Rows = append(causes.Rows, Row{Cells: []string{c, s.Causes[c]}})
	}
	crossings := &Table{Title: "Sizes at which one kind overtakes another", Closed: true, Words: 3, Head: []string{"from this size on", "faster", "slower"}}
	for i := range s.Crossovers {
		c := &s.Crossovers[i]
		crossings.Rows = append(crossings.Rows, Row{Cells: []string{c.SizeText(), c.Above, c.Below}})
	}
	return slices.DeleteFunc([]*Table{kinds, causes, crossings}, func(t *Table) bool { return len(t.Rows) == 0 })
}

// signed writes the sign of a standard error. The text of a terminal has +- for it.
func signed(cell string) string { return strings.ReplaceAll(cell, "+-", "±") }

// The numbers of rows that the table of what is normal has.
const (
	maxAbnormal = 50 // at most
	nearest     = 10 // if all rows are normal
)

// normalTable returns the rows that are not normal, the furthest first. If all are normal, it
// has the furthest of them. It returns nil if no row was compared.
func normalTable(r *normal.Report) *Table {
	if len(r.Rows) == 0 {
		return nil
	}
	t := &Table{Title: "Is this normal?", Words: 3,
		Head: []string{"kind", "size, or number", "state", "time (us)", "normal from (us)", "to (us)", "of the median"}}
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(e normal.Entry) bool { return e.State == normal.Normal })
	abnormal := len(rows)
	if abnormal == 0 {
		rows = slices.Clone(r.Rows)
	}
	slices.SortStableFunc(rows, func(a, b normal.Entry) int { return cmp.Compare(distance(b), distance(a)) })
	most := maxAbnormal
	if abnormal == 0 {
		most = nearest
	}
	for _, e := range rows[:min(len(rows), most)] {
		t.Rows = append(t.Rows, Row{Bar: barOf(e.Ratio),
			Cells: []string{e.Kind, e.SizeText(), string(e.State), Time.cell(e.Ns), Time.cell(e.Low), Time.cell(e.High), digits(e.Ratio) + " times"}})
	}
	t.Sentence = fmt.Sprintf("%d of %d rows are normal for %s, %d are slower and %d faster. The range of normal is that of %d measured machines (%s).",
		r.Normal, len(r.Rows), r.Reference, r.Slower, r.Faster, r.Machines, r.Device)
	switch {
	case abnormal == 0:
		t.Sentence += " Below are the rows that are furthest from the median."
	case abnormal > most:
		t.Sentence += fmt.Sprintf(" Below are the %d that are furthest from the median.", most)
	}
	if r.Unknown > 0 {
		t.Sentence += fmt.Sprintf(" %d rows are not in the reference.", r.Unknown)
	}
	return t
}

// distance returns how far a time is from the median of the reference.
func distance(e normal.Entry) float64 {
	if e.Ratio <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(e.Ratio))
}

// missing notes what was not measured, and returns a table of it, or nil.
func (p *Page) missing(r *grid.Result) *Table {
	t := &Table{Title: "Not measured", Words: 2, Head: []string{"kind", "why", "sizes"}}
	for _, s := range r.Skipped {
		t.Rows = append(t.Rows, Row{Cells: []string{s.Kind, s.Why, fmt.Sprint(len(s.Sizes))}})
	}
	if n := len(t.Rows); n > 0 {
		p.note(fmt.Sprintf("Skipped: %s. The last table says why.", count(n, "kind")))
	}
	left := map[string]int{}
	var kinds []string
	for _, c := range r.LeftOut {
		if left[c.Kind]++; left[c.Kind] == 1 {
			kinds = append(kinds, c.Kind)
		}
	}
	for _, k := range kinds {
		t.Rows = append(t.Rows, Row{Cells: []string{k, "the time was over", fmt.Sprint(left[k])}})
	}
	if len(kinds) > 0 {
		p.note(fmt.Sprintf("Left out, because the time was over: %s of %s. The last table names them.", count(len(r.LeftOut), "case"), count(len(kinds), "kind")))
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

// count returns a number of things.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	if strings.HasSuffix(of, "ch") {
		of += "e"
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// unreliable notes the families of patterns whose predictions are not to be relied on.
func (p *Page) unreliable(r *grid.Result) {
	for _, family := range slices.Sorted(maps.Keys(r.Marked)) {
		p.note(fmt.Sprintf("Do not rely on the predictions of the family %q: %s.", family, r.Marked[family]))
	}
}
