package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/trace"
)

// maxSpans is how many operations, and how many calls, a timeline shows.
const maxSpans = 1500

// OfRecording returns the page of a recording. The document is that of its summary.
func OfRecording(r *trace.Recording, s *tracereport.Summary) (*Page, error) {
	doc, err := s.JSON()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p := &Page{Title: "ferry trace: " + s.Program, Device: cmp.Or(strings.Join(s.Devices, "; "), "no device"), Name: "ferry-trace.json"}
	if s.Predicted {
		p.Marked = profiles(r)
		p.Mixed = slices.ContainsFunc(r.Drivers, func(d trace.DriverInfo) bool { return !d.Virtual() })
	}
	for _, n := range s.Notes {
		if s.Predicted && strings.HasPrefix(n, "times are predictions") {
			continue // p.Marked says so
		}
		p.note(first(n) + ".")
	}
	p.add(recordingChart(r))
	p.Tables = append(p.Tables, lineTable("GPU activities", s.Activities), lineTable("API calls", s.API))
	if len(s.Sites) > 0 {
		p.Tables = append(p.Tables, siteTable(s.Sites))
	}
	p.finish(doc, head{})
	return p, nil
}

// profiles returns the profiles of a recording's software GPUs.
func profiles(r *trace.Recording) string {
	var names []string
	for i := range r.Drivers {
		if d := &r.Drivers[i]; d.Virtual() && !slices.Contains(names, "profile "+d.Profile) {
			names = append(names, "profile "+d.Profile)
		}
	}
	return strings.Join(names, ", ")
}

// longest returns the numbers of the longest things, in the order of their starts.
func longest(n int, keep func(i int) bool, start, end func(i int) int64) []int {
	var all []int
	for i := range n {
		if keep(i) {
			all = append(all, i)
		}
	}
	if len(all) > maxSpans {
		slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(end(b)-start(b), end(a)-start(a)) })
		all = all[:maxSpans]
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(start(a), start(b)) })
	return all
}

// recordingChart returns the timeline of a recording.
func recordingChart(r *trace.Recording) *Chart {
	ops := longest(len(r.Operations), func(i int) bool { return r.Operations[i].Untimed == "" },
		func(i int) int64 { return r.Operations[i].Start }, func(i int) int64 { return r.Operations[i].End })
	calls := longest(len(r.Calls), func(int) bool { return true },
		func(i int) int64 { return r.Calls[i].Start }, func(i int) int64 { return r.Calls[i].End })
	b := &builder{rec: r, timeline: &Timeline{}, site: map[uint64]string{}, origin: origins(r),
		table: &Table{Title: "Operations in the order of their starts", Words: 5, Head: []string{"operation", "stream", "engine", "memory", "line", "bytes", "start (us)", "takes (us)"}}}
	for i := range r.Calls {
		b.site[r.Calls[i].ID] = r.Sites[r.Calls[i].Site].String()
	}
	for _, i := range ops {
		b.operation(&r.Operations[i])
	}
	for _, i := range calls {
		b.call(&r.Calls[i])
	}
	b.timeline.Lanes = b.lanes.names
	c := &Chart{ID: "timeline", Title: "What ran when", X: Axis{"time", Seconds}, Timeline: b.timeline.sorted(laneOrder), Table: b.table}
	c.Sentence = recordingSentence(r, ops, calls, b.origin)
	return c
}

// origins returns the first start of each driver. Drivers have clocks of their own.
func origins(r *trace.Recording) map[int]int64 {
	all := map[int]int64{}
	see := func(driver int, start int64) {
		if first, ok := all[driver]; !ok || start < first {
			all[driver] = start
		}
	}
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Untimed == "" {
			see(o.Driver, o.Start)
		}
	}
	for i := range r.Calls {
		see(r.Calls[i].Driver, r.Calls[i].Start)
	}
	return all
}

// recordingSentence says how long the device was busy.
func recordingSentence(r *trace.Recording, ops, calls []int, origin map[int]int64) string {
	var busy, end, from int64
	var longestOp *trace.Operation
	start := func(i int) int64 { return r.Operations[i].Start - origin[r.Operations[i].Driver] }
	ops = slices.SortedStableFunc(slices.Values(ops), func(a, b int) int { return cmp.Compare(start(a), start(b)) })
	for n, i := range ops {
		o := &r.Operations[i]
		begin, stop := start(i), start(i)+o.End-o.Start
		if n == 0 {
			from, end = begin, begin
		}
		busy += max(0, stop-max(begin, end))
		end = max(end, stop)
		if longestOp == nil || o.End-o.Start > longestOp.End-longestOp.Start {
			longestOp = o
		}
	}
	if longestOp == nil {
		return fmt.Sprintf("No operation of a device has times. %d calls are shown.", len(calls))
	}
	text := fmt.Sprintf("From the first operation to the last %s passed, and the devices were busy for %s of it", ns(end-from), ns(busy))
	if end > from {
		text += fmt.Sprintf(" (%.0f %%)", 100*float64(busy)/float64(end-from))
	}
	text += fmt.Sprintf(". The longest operation is %s, %s.", longestOp.Name, ns(longestOp.End-longestOp.Start))
	if len(ops) == maxSpans || len(calls) == maxSpans {
		text += fmt.Sprintf(" Shown are the longest %d operations of %d, and the longest %d calls of %d.", len(ops), len(r.Operations), len(calls), len(r.Calls))
	}
	return text
}

// builder makes the timeline and the table of a recording.
type builder struct {
	rec      *trace.Recording
	timeline *Timeline
	lanes    lanes
	table    *Table
	site     map[uint64]string // the line of the program, by call
	origin   map[int]int64     // by driver
}

func (b *builder) operation(o *trace.Operation) {
	start, end := o.Start-b.origin[o.Driver], o.End-b.origin[o.Driver]
	of, memory := b.of(o), "-"
	if o.From != "" {
		memory = o.From + " to " + o.To
	}
	stream, line := streamText(o.Stream)+of, b.site[o.Call]
	more := joinWords(stream, o.Engine, memory, line)
	kind := b.timeline.kind(kindOf(o.Name))
	b.span(stream, kind, start, end, o.Name, more)
	if o.Engine != "" {
		b.span("engine: "+o.Engine+of, kind, start, end, o.Name, more)
	}
	b.table.Rows = append(b.table.Rows, Row{Cells: []string{o.Name, stream, cmp.Or(o.Engine, "-"), memory, cmp.Or(line, "-"), fmt.Sprint(o.Bytes), micros(start), micros(end - start)}})
}

// of returns the device of an operation for the name of a lane: "" if there is only one.
func (b *builder) of(o *trace.Operation) string {
	switch {
	case len(b.rec.Drivers) > 1:
		return fmt.Sprintf(", device %d of driver %d", o.Device, o.Driver)
	case len(b.rec.Devices) > 1:
		return fmt.Sprintf(", device %d", o.Device)
	}
	return ""
}

func (b *builder) call(c *trace.Call) {
	start, end := c.Start-b.origin[c.Driver], c.End-b.origin[c.Driver]
	lane := callsLane
	if len(b.rec.Drivers) > 1 {
		lane += fmt.Sprintf(", driver %d", c.Driver)
	}
	b.span(lane, b.timeline.kind("driver call"), start, end, c.Name, joinWords(b.site[c.ID], c.Error))
}

func (b *builder) span(lane string, kind int, start, end int64, text, more string) {
	b.timeline.Spans = append(b.timeline.Spans, Span{b.lanes.place(lane, start, end), kind, start, end, text, more})
}

// joinWords joins the words that say something.
func joinWords(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" || w == "-" }), ", ")
}

// kindOf returns the kind of an operation by its name in the tables of nvprof.
func kindOf(name string) string {
	switch {
	case strings.Contains(name, "memcpy HtoD"):
		return "copy in"
	case strings.Contains(name, "memcpy DtoH"):
		return "copy out"
	case strings.Contains(name, "memcpy"):
		return "other copy"
	case strings.HasPrefix(name, "["):
		return "other"
	}
	return "kernel"
}

// streamText returns the name of a stream.
func streamText(stream int) string {
	switch stream {
	case 0:
		return "default stream"
	case trace.NoStream:
		return "nodes of graphs"
	case -1:
		return "per-thread default streams"
	}
	return fmt.Sprintf("stream %d", stream)
}

// lineTable returns one of the tables of nvprof.
func lineTable(title string, all []tracereport.Line) *Table {
	t := &Table{Title: title, Words: 1, Head: []string{"name", "time (%)", "time (us)", "calls", "avg (us)", "min (us)", "max (us)"}}
	for _, l := range all {
		t.Rows = append(t.Rows, Row{Cells: []string{l.Name, fmt.Sprintf("%.2f", l.Percent), micros(l.Total), fmt.Sprint(l.Calls), micros(l.Avg), micros(l.Min), micros(l.Max)}})
	}
	return t
}

// maxSites is how many lines of the program the table has.
const maxSites = 100

func siteTable(all []tracereport.Copies) *Table {
	t := &Table{Title: "Copies by line of the program", Words: 3, Head: []string{"line", "from", "to", "calls", "bytes", "time (us)", "GB/s"}}
	for i, c := range all {
		if i == maxSites {
			break
		}
		rate := "-"
		if c.Total > 0 {
			rate = digits(float64(c.Bytes) / float64(c.Total))
		}
		t.Rows = append(t.Rows, Row{Cells: []string{cmp.Or(c.Site, "(not known)"), c.From, c.To, fmt.Sprint(c.Calls), fmt.Sprint(c.Bytes), micros(c.Total), rate}})
	}
	return t
}
