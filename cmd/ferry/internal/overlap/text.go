package overlap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Widths of the timeline in columns.
const (
	minWidth     = 40
	defaultWidth = 80
	maxWidth     = 200
	labelWidth   = 10
)

// marks are the characters of the kinds of operations.
var marks = map[string]byte{"copy in": 'i', "kernel": 'K', "copy out": 'o'}

// Page returns the report: a row for each stream, then a row for each engine.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s first on %s\n%s, %s, copies of %s, kernels of %s\n", r.Order, r.Device, plural(r.Streams, "stream"),
		plural(r.Engines, "copy engine"), refusal.Size(uintptr(r.CopyBytes)), tracereport.Duration(r.KernelNs))
	p.Draw(r.timeline)
	p.Line(legend)
	p.Linef("total %s, bound %s, one after the other %s: %.0f %% of what can overlap does", tracereport.Duration(r.TotalNs), tracereport.Duration(r.BoundNs),
		tracereport.Duration(r.SerialNs), 100*r.Overlap)
	p.Linef("the same work %s first: %s", map[string]string{Depth: Breadth, Breadth: Depth}[r.Order], tracereport.Duration(r.OtherNs))
	p.Line(r.Sentence)
	if r.Predicted {
		p.Line("Times are predictions of the software GPU.")
	}
	return p
}

// timeline draws the rows in a width, 0 for the default.
func (r *Report) timeline(width int) string {
	if width <= 0 {
		width = defaultWidth
	}
	columns := max(minWidth, min(width, maxWidth)) - labelWidth - 2
	var b strings.Builder
	for s := range r.Streams {
		fmt.Fprintf(&b, "%-*s|%s|\n", labelWidth, fmt.Sprintf("stream %d", s), r.streamRow(s, columns))
	}
	b.WriteString("\n")
	for _, e := range r.engines() {
		for i, row := range r.engineRows(e, columns) {
			label := e
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(&b, "%-*s|%s|\n", labelWidth, label, row)
		}
	}
	fmt.Fprintf(&b, "%-*s0%*s\n\n", labelWidth, "", columns, tracereport.Duration(r.TotalNs))
	return b.String()
}

const legend = `i copy in, K kernel, o copy out, . issued and waiting
rows of engines: the number of the stream (a is 10)
`

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// columnsOf returns the columns of a time span, at least one.
func (r *Report) columnsOf(start, end int64, columns int) (from, to int) {
	if r.TotalNs == 0 {
		return 0, 1
	}
	from = min(columns-1, int(start*int64(columns)/r.TotalNs))
	to = max(from+1, min(columns, int((end*int64(columns)+r.TotalNs/2)/r.TotalNs)))
	return from, to
}

// streamRow draws the operations of a stream.
func (r *Report) streamRow(stream, columns int) string {
	row := []byte(strings.Repeat(" ", columns))
	for i := range r.Operations { // first the waits, which operations cover
		if o := &r.Operations[i]; o.Stream == stream {
			if waited := r.waited(i); waited > 0 {
				from, to := r.columnsOf(o.StartNs-waited, o.StartNs, columns)
				paint(row, from, to, '.')
			}
		}
	}
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Stream == stream {
			from, to := r.columnsOf(o.StartNs, o.EndNs, columns)
			paint(row, from, to, marks[o.Kind])
		}
	}
	return string(row)
}

func paint(row []byte, from, to int, with byte) {
	for i := from; i < to; i++ {
		row[i] = with
	}
}

// engines returns the engines in the order of the way of data.
func (r *Report) engines() (all []string) {
	for i := range r.Operations {
		if e := r.Operations[i].Engine; !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	order := []string{"copy", "copy in", "compute", "copy out"}
	slices.SortFunc(all, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return all
}

// engineRows draws the operations of an engine, those that overlap in several rows.
func (r *Report) engineRows(engine string, columns int) (rows []string) {
	var ends []int64
	var drawn [][]byte
	index := make([]int, 0, len(r.Operations))
	for i := range r.Operations {
		if r.Operations[i].Engine == engine {
			index = append(index, i)
		}
	}
	slices.SortStableFunc(index, func(a, b int) int { return int(r.Operations[a].StartNs - r.Operations[b].StartNs) })
	for _, i := range index {
		o := &r.Operations[i]
		n := slices.IndexFunc(ends, func(end int64) bool { return end <= o.StartNs+inferred })
		if n < 0 {
			n = len(ends)
			ends = append(ends, 0)
			drawn = append(drawn, []byte(strings.Repeat(" ", columns)))
		}
		ends[n] = o.EndNs
		from, to := r.columnsOf(o.StartNs, o.EndNs, columns)
		paint(drawn[n], from, to, "0123456789abcdef"[o.Stream%16])
	}
	for _, row := range drawn {
		rows = append(rows, string(row))
	}
	return rows
}
