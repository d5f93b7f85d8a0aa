package tracereport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/trace"
)

// Line is a line of the summary: all operations or calls of one name. Times are
// nanoseconds.
type Line struct {
	Name    string  `json:"name"`
	Percent float64 `json:"percent"` // of the time of all lines of the table
	Total   int64   `json:"total_ns"`
	Calls   int     `json:"calls"`
	Avg     int64   `json:"avg_ns"`
	Min     int64   `json:"min_ns"`
	Max     int64   `json:"max_ns"`
	Bytes   uint64  `json:"bytes,omitempty"`

	// Part is the longest part of a kernel's predicted time, over all its launches, and
	// PartTotal its time in them. Parts overlap. Only on a software GPU.
	Part      string `json:"part,omitempty"`
	PartTotal int64  `json:"part_ns,omitempty"`

	parts map[string]int64 // the longest part of each launch
}

// addPart adds the longest part of a launch.
func (l *Line) addPart(name string, ns int64) {
	if name == "" {
		return
	}
	if l.parts == nil {
		l.parts = map[string]int64{}
	}
	l.parts[name] += ns
	if n := l.parts[name]; n > l.PartTotal || n == l.PartTotal && name < l.Part {
		l.Part, l.PartTotal = name, n
	}
}

// Summary is the report of a recording.
type Summary struct {
	Schema     string   `json:"schema"` // "ferry.trace-summary/1"
	Program    string   `json:"program"`
	PID        int      `json:"pid"`
	Devices    []string `json:"devices"`
	Predicted  bool     `json:"predicted"` // times are those of a software GPU
	Operations int      `json:"operations"`
	Calls      int      `json:"calls"`
	Untimed    int      `json:"untimed_operations"`
	LostCalls  uint64   `json:"lost_calls"`
	LostOps    uint64   `json:"lost_operations"`
	Notes      []string `json:"notes"` // what the reader must know: lost rows, a cut file
	Activities []Line   `json:"gpu_activities"`
	API        []Line   `json:"api_calls"`
	Sites      []Copies `json:"copies_by_line"`
}

// Copies are the copies of one kind that one line of the program has made.
type Copies struct {
	Site  string `json:"site"`
	Name  string `json:"name"`
	From  string `json:"from"`
	To    string `json:"to"`
	Calls int    `json:"calls"`
	Bytes uint64 `json:"bytes"`
	Total int64  `json:"total_ns"`
}

// Summarize returns the summary of a recording.
func Summarize(r *trace.Recording) *Summary {
	s := &Summary{Schema: "ferry.trace-summary/1", Program: r.Program, PID: r.PID, Operations: len(r.Operations), Calls: len(r.Calls),
		LostCalls: r.LostCalls, LostOps: r.LostOps, Devices: devices(r), Notes: []string{}}
	ops, calls := table{}, table{}
	for i := range r.Operations {
		o := &r.Operations[i]
		if o.Untimed != "" {
			s.Untimed++
			continue
		}
		ops.add(o.Name, o.End-o.Start, o.Bytes).addPart(o.Part, o.PartTime)
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		calls.add(c.Name, c.End-c.Start, 0)
	}
	s.Activities, s.API = ops.lines(), calls.lines()
	s.Sites = copiesByLine(r)
	for i := range r.Drivers {
		s.Predicted = s.Predicted || r.Drivers[i].Virtual()
	}
	s.note(r)
	return s
}

// note adds what the reader must know.
func (s *Summary) note(r *trace.Recording) {
	say := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	if r.LostCalls+r.LostOps > 0 || r.Why != "" {
		say("%d calls and %d operations were lost: %s", r.LostCalls, r.LostOps, r.Why)
	}
	if r.Cut != "" {
		say("the file is cut at %s; this is what is there", r.Cut)
	}
	if s.Untimed > 0 {
		say("%d operations have no times (%s)", s.Untimed, untimed(r))
	}
	if len(r.Calls) == 0 {
		say("there are no calls")
	}
	if s.Predicted {
		say("times are predictions of the software GPU")
	}
}

// untimed returns why operations have no times.
func untimed(r *trace.Recording) string {
	why := map[string]bool{}
	for i := range r.Operations {
		if w := r.Operations[i].Untimed; w != "" && len(why) < 3 {
			why[w] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(why)), "; ")
}

// devices returns the names of the devices, each with what emulates it.
func devices(r *trace.Recording) []string {
	all, seen := []string{}, map[string]bool{}
	virtual := map[int]string{} // the profile, by driver
	for _, d := range r.Drivers {
		if d.Virtual() {
			virtual[d.ID] = d.Profile
		}
	}
	for _, d := range r.Devices {
		name := d.Name
		if profile, ok := virtual[d.Driver]; ok {
			name = "soft:" + profile + " (software, predicts " + name + ")"
		}
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// table collects lines by name.
type table map[string]*Line

func (t table) add(name string, ns int64, bytes uint64) *Line {
	l := t[name]
	if l == nil {
		l = &Line{Name: name, Min: ns, Max: ns}
		t[name] = l
	}
	l.Calls++
	l.Total += ns
	l.Bytes += bytes
	l.Min, l.Max = min(l.Min, ns), max(l.Max, ns)
	return l
}

// lines returns the lines, the longest first.
func (t table) lines() []Line {
	all, total := []Line{}, int64(0)
	for _, l := range t {
		total += l.Total
	}
	for _, l := range t {
		l.Avg = l.Total / int64(l.Calls)
		if total > 0 {
			l.Percent = 100 * float64(l.Total) / float64(total)
		}
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// copiesByLine returns the copies by the line of the program that made them, those that
// took longest first.
func copiesByLine(r *trace.Recording) []Copies {
	site := map[uint64]int{}
	for i := range r.Calls {
		site[r.Calls[i].ID] = r.Calls[i].Site
	}
	type key struct {
		site     int
		from, to string
	}
	by := map[key]*Copies{}
	for i := range r.Operations {
		o := &r.Operations[i]
		if o.From == "" || o.Untimed != "" {
			continue
		}
		k := key{site[o.Call], o.From, o.To}
		c := by[k]
		if c == nil {
			c = &Copies{Site: r.Sites[k.site].String(), Name: o.Name, From: o.From, To: o.To}
			by[k] = c
		}
		c.Calls++
		c.Bytes += o.Bytes
		c.Total += o.End - o.Start
	}
	all := []Copies{}
	for _, c := range by {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Copies) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Site, b.Site), cmp.Compare(a.From+a.To, b.From+b.To))
	})
	return all
}

// JSON returns the summary as one indented document.
func (s *Summary) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// maxSites is the number of lines of the program that the text shows.
const maxSites = 10

// Page returns the summary: a table of the operations and one of the calls, with the values of
// nvprof, the longest parts of kernels, and the copies by line of the program.
func (s *Summary) Page() *layout.Page {
	p := new(layout.Page)
	p.Linef("%s (process %d) on %s: %d calls, %d operations", s.Program, s.PID, cmp.Or(strings.Join(s.Devices, ", "), "no device"), s.Calls, s.Operations)
	for _, n := range s.Notes {
		p.Hang(2, "note: "+n)
	}
	addLines(p, "GPU activities", s.Activities)
	addLines(p, "API calls", s.API)
	s.addParts(p)
	s.addSites(p)
	return p
}

// addLines adds a table with a row for each name.
func addLines(p *layout.Page, title string, lines []Line) {
	if len(lines) == 0 {
		p.Linef("\n%s: none", title)
		return
	}
	p.Line("")
	t := &layout.Table{Columns: []layout.Column{{Name: title, Width: 24}, {Name: "time (%)", Right: true}, {Name: "time", Right: true, Width: 8},
		{Name: "calls", Right: true}, {Name: "avg", Right: true, Width: 8}, {Name: "min", Right: true, Width: 8}, {Name: "max", Right: true, Width: 8}}, Narrow: true}
	for _, l := range lines {
		t.Row(l.Name, fmt.Sprintf("%.2f%%", l.Percent), Duration(l.Total), fmt.Sprint(l.Calls), Duration(l.Avg), Duration(l.Min), Duration(l.Max))
	}
	p.Table(t)
}

// addParts adds the longest part of each kernel's predicted time.
func (s *Summary) addParts(p *layout.Page) {
	t := &layout.Table{Columns: []layout.Column{{Name: "kernel"}, {Name: "time", Right: true}, {Name: "longest part"}, {Name: "its time", Right: true}}}
	for _, l := range s.Activities {
		if l.Part != "" {
			t.Row(l.Name, Duration(l.Total), l.Part, Duration(l.PartTotal))
		}
	}
	if !t.Empty() {
		p.Line("\nLongest part of the predicted time of kernels:")
		p.Table(t)
	}
}

// addSites adds the copies by line of the program.
func (s *Summary) addSites(p *layout.Page) {
	if len(s.Sites) == 0 {
		return
	}
	p.Line("\nCopies by line of the program:")
	t := &layout.Table{Columns: []layout.Column{{Name: "line"}, {Name: "time", Right: true}, {Name: "calls", Right: true}, {Name: "bytes", Right: true},
		{Name: "GB/s", Right: true}, {Name: "memory"}}}
	for _, c := range s.Sites[:min(len(s.Sites), maxSites)] {
		t.Row(cmp.Or(c.Site, "(not known)"), Duration(c.Total), fmt.Sprint(c.Calls), Bytes(c.Bytes), rate(c.Bytes, c.Total), c.From+" -> "+c.To)
	}
	p.Table(t)
	if more := len(s.Sites) - maxSites; more > 0 {
		p.Linef("and %d more lines", more)
	}
}

// rate returns gigabytes per second as text.
func rate(bytes uint64, ns int64) string {
	if ns <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(bytes)/float64(ns))
}

// Duration formats nanoseconds with five digits, as nvprof does.
func Duration(ns int64) string {
	switch d := time.Duration(ns); {
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", ns)
	case d < time.Millisecond:
		return digits(float64(ns)/1e3, "us")
	case d < time.Second:
		return digits(float64(ns)/1e6, "ms")
	}
	return digits(float64(ns)/1e9, "s")
}

func digits(v float64, unit string) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.4f%s", v, unit)
	case v < 100:
		return fmt.Sprintf("%.3f%s", v, unit)
	}
	return fmt.Sprintf("%.2f%s", v, unit)
}

// Bytes formats a number of bytes.
func Bytes(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2fGiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.2fMiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.2fKiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%dB", n)
}
