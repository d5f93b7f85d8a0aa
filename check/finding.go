package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// Finding is a wrong use of memory, streams or events.
type Finding struct {
	Kind    string `json:"kind"`    // one of the kinds of docs/check.md, such as "unordered"
	Note    bool   `json:"note"`    // it costs time, and is not a fault
	What    string `json:"what"`    // one line
	First   *Side  `json:"first"`   // the earlier use of the memory; nil for none
	Second  *Side  `json:"second"`  // the call that is reported
	Memory  string `json:"memory"`  // "device memory 2 (4096 bytes)"; "" for none
	Made    string `json:"made"`    // the line that allocated it
	Freed   string `json:"freed"`   // the line that freed it
	Missing string `json:"missing"` // the missing order; "" for other findings
	Mend    string `json:"mend"`    // the smallest change that mends it
	Count   int    `json:"count"`   // how often it was found
}

// Side is one of the two uses of a [Finding].
type Side struct {
	Call   string `json:"call"`   // "cuMemcpyHtoDAsync"
	Place  string `json:"place"`  // the line of the program: "main.go:62"
	Stream string `json:"stream"` // "stream 2", "the default stream", "" for the host
	Access string `json:"access"` // "reads", "writes", ...
	Offset uint64 `json:"offset"` // of the first byte, in the memory
	Bytes  uint64 `json:"bytes"`  // from the first to the last

	site int // the number of the line, which tells files with one name apart
}

// String returns the finding in lines, without a line break at the end.
func (f *Finding) String() string {
	if f == nil {
		return "no finding"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Kind, f.What)
	for _, s := range []*Side{f.First, f.Second} {
		if s != nil {
			fmt.Fprintf(&b, "\n  %s", s)
		}
	}
	if f.Memory != "" {
		fmt.Fprintf(&b, "\n  memory: %s", f.Memory)
		if f.Made != "" {
			fmt.Fprintf(&b, ", made at %s", f.Made)
		}
		if f.Freed != "" {
			fmt.Fprintf(&b, ", freed at %s", f.Freed)
		}
	}
	if f.Missing != "" {
		fmt.Fprintf(&b, "\n  missing: %s", f.Missing)
	}
	if f.Mend != "" {
		fmt.Fprintf(&b, "\n  mend: %s", f.Mend)
	}
	return b.String()
}

// String returns the side in one line.
func (s *Side) String() string {
	if s == nil {
		return "no use"
	}
	text := fmt.Sprintf("%s at %s", s.Call, s.Place)
	if s.Stream != "" {
		text += " in " + s.Stream
	}
	if s.Access != "" {
		text += " " + s.Access
	}
	if s.Bytes > 0 {
		text += fmt.Sprintf(" bytes %d to %d", s.Offset, s.Offset+s.Bytes-1)
	}
	return text
}

// Watched says what the driver's findings can be about, and what not. It is the first line of
// a report.
func (d *Driver) Watched() string {
	if d == nil || d.inner == nil {
		return "watched: nothing"
	}
	const memory = "the driver's copies, fills, allocations, frees, streams, events and graphs, and the arguments of kernels"
	watched, not := []string{memory}, []string{"memory made before or by others", "the work of other libraries, such as their kernels"}
	race := unordered.Enabled && cu.AsEmulated(d) != nil
	switch {
	case race:
		watched = append(watched, "the CPU's own loads and stores and the accesses of kernels, by Go's race detector")
	case d.exact:
		watched = append(watched, "the accesses of kernels")
		not = append(not, "the CPU's own loads and stores (race builds have them)")
	case cu.AsEmulated(d) != nil:
		not = append(not, "the accesses of kernels (FERRY_CHECK=races has them)", "the CPU's own loads and stores (race builds have them)")
	default:
		not = append(not, "the accesses of kernels and the CPU's own loads and stores (the software GPU has them)")
	}
	return "watched: " + strings.Join(watched, "; ") + "; not watched: " + strings.Join(not, ", ")
}

// mostFindings is how many different findings a driver keeps and writes.
const mostFindings = 1000

// findings are what a driver has found.
type findings struct {
	list  []Finding
	index map[string]int
	new   []Finding // not written yet
}

// Findings returns what was found so far, notes included, at most 1000.
func (d *Driver) Findings() []Finding {
	if d == nil {
		return nil
	}
	defer d.write()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.convict(0)
	return slices.Clone(d.found.list)
}

// said and told have the texts of [Driver.Watched] that were written.
var said, told sync.Map

// tell adds the text of Watched to the file of "ferry check".
func (d *Driver) tell() {
	text := d.Watched()
	if _, twice := told.LoadOrStore(text, true); !twice {
		checks.Append(checks.Row{Check: checks.Memory, Watched: text})
	}
}

// report adds a finding. It is written when the call returns, if it is the first of its kind at
// its places. The caller holds mu.
func (d *Driver) report(f Finding) {
	key := f.Kind
	for _, s := range []*Side{f.First, f.Second} {
		if s != nil {
			key += fmt.Sprintf(" %s %d", s.Call, s.site)
		}
	}
	if i, ok := d.found.index[key]; ok {
		d.found.list[i].Count++
		return
	}
	if len(d.found.list) >= mostFindings {
		d.gaveUp(gaveUpFindings, 1)
		return
	}
	f.Count = 1
	d.found.index[key] = len(d.found.list)
	d.found.list = append(d.found.list, f)
	d.found.new = append(d.found.new, f)
	d.unwritten.Store(true)
}

// write writes the findings that are new. It holds no lock that driver calls without a finding
// need, because the output may block.
func (d *Driver) write() {
	if !d.unwritten.Load() {
		return
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	list := d.found.new
	given := d.given
	d.found.new, d.given = nil, nil
	d.unwritten.Store(false)
	d.mu.Unlock()
	d.writeGiven(given)
	for i := range list {
		d.writeOne(&list[i])
	}
}

func (d *Driver) writeOne(f *Finding) {
	if d.o.Report {
		text, err := json.Marshal(f)
		if err == nil && checks.Append(checks.Row{Check: checks.Memory, Note: f.Note, Text: f.String(), Finding: text}) {
			return
		}
	}
	if d.o.Output != nil && (d.o.Notes || !f.Note) {
		watched := d.Watched()
		if _, twice := said.LoadOrStore(watched, true); !twice {
			fmt.Fprintf(d.o.Output, "ferry check: %s\n", watched)
		}
		fmt.Fprintf(d.o.Output, "ferry check: %s\n", f)
	}
}
