package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/overlap"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
)

// lanes places spans so that those of a lane do not overlap.
type lanes struct {
	names []string
	by    map[string][]int // lanes of a name
	ends  []int64          // of the last span, by lane
}

// place returns the lane for a span. Spans must come in the order of their starts.
func (l *lanes) place(name string, start, end int64) int {
	if l.by == nil {
		l.by = map[string][]int{}
	}
	for _, i := range l.by[name] {
		if l.ends[i] <= start {
			l.ends[i] = end
			return i
		}
	}
	i := len(l.names)
	label := name
	if n := len(l.by[name]); n > 0 {
		label = fmt.Sprintf("%s (%d)", name, n+1)
	}
	l.names, l.ends = append(l.names, label), append(l.ends, end)
	l.by[name] = append(l.by[name], i)
	return i
}

// sorted returns the timeline with the lanes sorted by a key, then by their names.
func (t *Timeline) sorted(key func(lane string) int) *Timeline {
	order := make([]int, len(t.Lanes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(key(t.Lanes[a]), key(t.Lanes[b])), natural(t.Lanes[a], t.Lanes[b]))
	})
	place, names := make([]int, len(order)), make([]string, len(order))
	for to, from := range order {
		place[from], names[to] = to, t.Lanes[from]
	}
	for i := range t.Spans {
		t.Spans[i].Lane = place[t.Spans[i].Lane]
	}
	t.Lanes = names
	return t
}

// natural compares names that may differ in a number: the shorter number is the smaller.
func natural(a, b string) int {
	if strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789") {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

// kind returns the number of a kind, and adds it if it is new.
func (t *Timeline) kind(name string) int {
	if i := slices.Index(t.Kinds, name); i >= 0 {
		return i
	}
	t.Kinds = append(t.Kinds, name)
	return len(t.Kinds) - 1
}

// callsLane is the name of the lane of driver calls.
const callsLane = "driver calls"

// Places of lanes from the top.
const (
	callLane = iota
	streamLane
	engineLane // and the next, in the order of engineLanes
)

// engineLanes are the engines in the order of the way of data.
var engineLanes = []string{"engine: copy", "engine: copy in", "engine: compute", "engine: copy out"}

// laneOrder returns the place of a lane by its name.
func laneOrder(name string) int {
	switch {
	case strings.HasPrefix(name, callsLane):
		return callLane
	case strings.HasPrefix(name, "engine"):
		engine, _, _ := strings.Cut(name, ", ")
		return engineLane + 1 + slices.Index(engineLanes, strings.TrimRight(engine, " ()0123456789"))
	}
	return streamLane
}

// overlapPage returns the page of ferry trace overlap.
func overlapPage(r *overlap.Report) *Page {
	p := &Page{Title: "ferry trace overlap", Device: r.Device, Name: "ferry-overlap.json"}
	if r.Predicted {
		p.Marked = profileOf(r.Device)
	}
	c := &Chart{ID: "overlap", Title: fmt.Sprintf("%s-first issue: what ran when", first(r.Order)), X: Axis{"time", Seconds}, Timeline: overlapTimeline(r)}
	c.Sentence = join(r.Sentence, fmt.Sprintf("The total is %s and the bound %s; one after the other the operations take %s.", ns(r.TotalNs), ns(r.BoundNs), ns(r.SerialNs)),
		fmt.Sprintf("%.0f %% of what can overlap does. The same work in the other order takes %s.", 100*r.Overlap, ns(r.OtherNs)))
	c.Table = overlapTable(r)
	p.add(c)
	return p
}

// profileOf returns what predicts the times of a device that is named "soft:NAME (...)".
func profileOf(device string) string {
	opened, _, _ := strings.Cut(device, " ")
	if name, ok := strings.CutPrefix(opened, "soft:"); ok {
		return "profile " + name
	}
	return "the profile of " + opened
}

func ns(v int64) string { return tracereport.Duration(v) }

// overlapTimeline shows each operation in the lane of its stream and in that of its engine.
func overlapTimeline(r *overlap.Report) *Timeline {
	t := &Timeline{Kinds: []string{"copy in", "kernel", "copy out"}}
	var l lanes
	for _, i := range byStart(len(r.Operations), func(i int) int64 { return r.Operations[i].StartNs }) {
		o := &r.Operations[i]
		more := fmt.Sprintf("stream %d, engine %s", o.Stream, o.Engine)
		if o.BlockedBy != nil && *o.BlockedBy >= 0 && *o.BlockedBy < len(r.Operations) {
			more += ", waited for " + nameOf(r, *o.BlockedBy)
		}
		for _, name := range []string{fmt.Sprintf("stream %d", o.Stream), "engine: " + o.Engine} {
			t.Spans = append(t.Spans, Span{l.place(name, o.StartNs, o.EndNs), t.kind(o.Kind), o.StartNs, o.EndNs, o.Kind + " " + fmt.Sprint(o.Stream), more})
		}
	}
	t.Lanes = l.names
	return t.sorted(laneOrder)
}

// nameOf returns the name of an operation, such as "copy in of stream 0".
func nameOf(r *overlap.Report, i int) string {
	return fmt.Sprintf("%s of stream %d", r.Operations[i].Kind, r.Operations[i].Stream)
}

// byStart returns the numbers below n in the order of starts.
func byStart(n int, start func(i int) int64) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(start(a), start(b)) })
	return order
}

func overlapTable(r *overlap.Report) *Table {
	t := &Table{Title: "Operations in the order of issue", Words: 5, Head: []string{"operation", "stream", "engine", "waited for", "reason", "start (us)", "end (us)", "takes (us)"}}
	for i := range r.Operations {
		o := &r.Operations[i]
		by := "-"
		if o.BlockedBy != nil && *o.BlockedBy >= 0 && *o.BlockedBy < len(r.Operations) {
			by = nameOf(r, *o.BlockedBy)
		}
		t.Rows = append(t.Rows, Row{Cells: []string{o.Kind, fmt.Sprint(o.Stream), o.Engine, by, o.Reason, micros(o.StartNs), micros(o.EndNs), micros(o.EndNs - o.StartNs)}})
	}
	return t
}

// micros formats nanoseconds as microseconds, exactly.
func micros(v int64) string { return fmt.Sprintf("%d.%03d", v/1000, v%1000) }
