package softgpu

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/checks"
	refusals "github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/launchrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// CheckVariable names the environment variable with the checks of drivers that are
// opened without Options.Check.
const CheckVariable = checks.Variable

// maxFindings is how many findings a driver keeps and writes.
const maxFindings = 1000

// ParseCheck reads a list of checks, such as "races". 1 stands for all checks, 0 and the
// empty list for none. It returns the names.
func ParseCheck(text string) ([]string, error) {
	list, err := checks.Parse(text)
	if err != nil {
		return nil, refusals.Invalid("%v", err)
	}
	return list, nil
}

// check returns whether kernels are checked for races.
func (o *Options) check() (bool, error) {
	text, from := o.Check, "check"
	if text == "" {
		text, from = os.Getenv(CheckVariable), CheckVariable
	}
	names, err := ParseCheck(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", from, err)
	}
	if !slices.Contains(names, checks.Races) {
		return false, nil
	}
	return true, checks.Ready()
}

// Finding is a fault of a kernel that a check has found, such as a race. A launch reports
// each pair of instructions once. So does a driver, of races between launches, for each two lines
// of the program that queued them.
type Finding struct {
	Check   string       `json:"check"` // "races"
	Kind    string       `json:"kind"`  // "race", "race between launches", "stale data", ...: see findingKinds and conflict.kind
	Kernel  string       `json:"kernel"`
	First   *FindingSide `json:"first"` // nil for uninitialized memory and for conflicts with the host
	Second  FindingSide  `json:"second"`
	Memory  string       `json:"memory"`            // the allocation, or "shared memory"; "no allocation"; "" for barriers
	Offset  uint64       `json:"offset"`            // in bytes, in the allocation or in shared memory
	Address uint64       `json:"address,omitempty"` // where there is no allocation; Offset is 0 then
	Bytes   int          `json:"bytes"`             // between launches, all that both have used
	Missing string       `json:"missing"`           // what would order the accesses
	Count   int          `json:"count"`             // how often in the launch; between launches, for how many pairs of them
}

// FindingSide is one of the two threads of a [Finding], and what it did.
type FindingSide struct {
	Access string    `json:"access"` // "read", "write", "atomic operation", "barrier"
	Value  *uint64   `json:"value"`  // the bytes read or written, nil if not known
	Block  [3]uint32 `json:"block"`
	Thread [3]uint32 `json:"thread"`
	Line   int       `json:"ptx_line"`
	Source string    `json:"source"`           // the line by .loc, such as "shift.cu:20", or "" if not known
	Op     string    `json:"op"`               // the instruction; or the copy or fill, which has no thread and no line
	Kernel string    `json:"kernel,omitempty"` // of a finding between launches; "" for a copy or fill
	Stream string    `json:"stream,omitempty"` // of a finding between launches, such as "stream 0x1003"
	At     string    `json:"at,omitempty"`     // the line of the program that made the launch, copy or fill: "main.go:62", or "" if not known
}

// String returns the finding in some lines, without a line break at the end.
func (f *Finding) String() string {
	var b strings.Builder
	b.WriteString(f.title())
	switch {
	case f.Address != 0:
		fmt.Fprintf(&b, ": %d bytes at address %#x, where no allocation is", f.Bytes, f.Address)
	case f.Memory != "":
		fmt.Fprintf(&b, ": %d bytes at offset %d of %s", f.Bytes, f.Offset, f.Memory)
	}
	if f.Count > 1 {
		fmt.Fprintf(&b, " (%d times)", f.Count)
	}
	if f.First != nil {
		fmt.Fprintf(&b, "\n  %s", f.First)
	}
	fmt.Fprintf(&b, "\n  %s", &f.Second)
	if f.Second.Stream == "" && f.Second.At != "" { // both sides are threads of one launch
		fmt.Fprintf(&b, "\n  launched at %s", f.Second.At)
	}
	fmt.Fprintf(&b, "\n  missing: %s", f.Missing)
	return b.String()
}

// title returns the kind of the finding, and its kernels.
func (f *Finding) title() string {
	switch {
	case f.First == nil || f.First.Stream == "":
		return f.Kind + " in kernel " + f.Kernel
	case f.Kind == launchrace.BetweenLaunches && f.First.Kernel != f.Second.Kernel:
		return f.Kind + " of kernels " + f.First.Kernel + " and " + f.Second.Kernel
	case f.Kind == launchrace.BetweenLaunches:
		return f.Kind + " of kernel " + f.Kernel
	}
	return f.Kind + ", kernel " + f.Kernel
}

// String returns what a thread, a copy or a fill did in one line.
func (s *FindingSide) String() string {
	text := s.Access
	if s.Stream != "" && s.Kernel == "" {
		text += " in " + s.Stream + ": " + s.Op
		if s.At != "" {
			text += ", at " + s.At
		}
		return text
	}
	if s.Value != nil {
		text += fmt.Sprintf(" of %#x", *s.Value)
	}
	text += fmt.Sprintf(" by thread (%d,%d,%d) of block (%d,%d,%d)", s.Thread[0], s.Thread[1], s.Thread[2], s.Block[0], s.Block[1], s.Block[2])
	if s.Stream != "" {
		text += " of " + s.Kernel + " in " + s.Stream
	}
	text += fmt.Sprintf(": %s, PTX line %d", s.Op, s.Line)
	if s.Source != "" {
		text += ", " + s.Source
	}
	if s.Stream != "" && s.At != "" {
		text += ", launched at " + s.At
	}
	return text
}

// findings are what the checks of a driver have found.
type findings struct {
	mu    sync.Mutex
	list  []Finding
	shown map[string]bool
	pairs map[string]int // findings between launches, by their instructions: the place in list

	limits checks.Limits
}

// What the check for races can give up.
const (
	gaveUpFindings  = "findings were left out, because there are 1000 already"
	gaveUpIntervals = "releases of a thread were not told apart, because it has made 2^20: races with what it did since are not found"
	gaveUpWords     = "accesses of words were not kept, because there are too many: races with them are not found"
)

// GaveUp is what a check did not follow any more, because it would have needed too much memory:
// there may be faults that it has not found.
type GaveUp = checks.GaveUp

// GaveUp returns what the checks have given up so far, and how often.
func (d *Driver) GaveUp() []GaveUp { return d.found.limits.List() }

// gaveUp counts something that the check for races gave up. The first time it says so on
// standard error, unless the file of "ferry check" has it.
func (a *findings) gaveUp(what string, n int) {
	if a.limits.Add(checks.Races, what, n) {
		fmt.Fprintf(os.Stderr, "softgpu: the check for races gave up something: %s\n", what)
	}
}

// Checks reports whether the driver checks kernels.
func (d *Driver) Checks() bool { return d != nil && d.races }

// Findings returns what the checks have found so far, at most 1000 findings.
func (d *Driver) Findings() []Finding {
	d.found.mu.Lock()
	defer d.found.mu.Unlock()
	return slices.Clone(d.found.list)
}

// add keeps a finding, and writes it to the standard error if it is the first of its kind
// at its place.
func (a *findings) add(f *Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) < maxFindings {
		a.list = append(a.list, *f)
	} else {
		a.gaveUp(gaveUpFindings, 1)
	}
	a.show(f)
}

// addPair keeps a finding between launches. Of a pair of instructions, and the two lines that
// queued them, it keeps the first and counts the others.
func (a *findings) addPair(f *Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sides := []string{f.First.key(), f.Second.key()}
	slices.Sort(sides)
	key := f.Kind + strings.Join(sides, "")
	if i, ok := a.pairs[key]; ok {
		a.list[i].Count++
		return
	}
	if len(a.list) >= maxFindings {
		a.gaveUp(gaveUpFindings, 1)
		return
	}
	if a.pairs == nil {
		a.pairs = map[string]int{}
	}
	a.pairs[key] = len(a.list)
	a.list = append(a.list, *f)
	fmt.Fprintf(os.Stderr, "softgpu: %s\n", f)
	a.write(f)
}

// key returns what is the same in all findings of one instruction, copy or fill that a line of
// the program has queued.
func (s *FindingSide) key() string { return fmt.Sprintf("%q %q %d %q ", s.Kernel, s.Op, s.Line, s.At) }

// show writes a finding to the standard error if it is the first of its kind at its place.
// The caller holds mu.
func (a *findings) show(f *Finding) {
	key := fmt.Sprint(f.Kernel, f.Kind, f.Second.At, f.Second.Line)
	if f.First != nil {
		key += fmt.Sprint(" ", f.First.Line)
	}
	if a.shown[key] || len(a.shown) >= maxFindings {
		return
	}
	if a.shown == nil {
		a.shown = map[string]bool{}
	}
	a.shown[key] = true
	if !a.write(f) {
		fmt.Fprintf(os.Stderr, "softgpu: %s\n", f)
	}
}

// write adds a finding to the file of "ferry check", and reports whether it is there.
func (a *findings) write(f *Finding) bool {
	text, err := json.Marshal(f)
	return err == nil && checks.Append(checks.Row{Check: checks.Races, Text: f.String(), Finding: text})
}

// report adds what the check of a launch has found.
func (l *launch) report(o *op, v *view, all []simt.Finding) {
	at := atLine(o.work.site)
	for i := range all {
		f := l.finding(v, &all[i])
		f.Second.At = at
		if f.First != nil {
			f.First.At = at
		}
		o.ctx.drv.found.add(f)
	}
}

var findingKinds = map[kernelrace.Sort]string{
	kernelrace.Race: "race", kernelrace.Uninitialized: "uninitialized device memory", kernelrace.Divergent: "divergent barrier",
	kernelrace.Stale: "stale data", kernelrace.HostWrote: "stale read of mapped memory", kernelrace.HostLost: "lost update of the host",
	kernelrace.Unallocated: "memory that is not allocated",
}

func (l *launch) finding(v *view, f *simt.Finding) *Finding {
	out := &Finding{
		Check: "races", Kind: findingKinds[f.Sort], Kernel: l.fn.name, Second: newSide(f.Sort, &f.Second),
		Bytes: f.Bytes, Offset: f.Addr, Missing: f.Missing, Count: f.Count,
	}
	if f.Sort == kernelrace.Race || f.Sort == kernelrace.Divergent || f.Sort == kernelrace.Unallocated && f.First.Kind != 0 {
		first := newSide(f.Sort, &f.First)
		out.First = &first
	}
	switch {
	case f.Sort == kernelrace.Divergent:
	case f.Shared:
		out.Memory = "shared memory"
		if f.Sort == kernelrace.Uninitialized {
			out.Kind = "uninitialized shared memory"
		}
	case v.heap.holds(f.Addr):
		out.Memory, out.Offset = "the heap of malloc in kernels", f.Addr-heapBase
	default:
		out.Memory, out.Offset, out.Address = v.drv.place(f.Addr)
		if f.Sort == kernelrace.Uninitialized {
			out.Memory += v.drv.allocatedAt(f.Addr)
		}
	}
	return out
}

func newSide(sort kernelrace.Sort, s *simt.FindingSide) FindingSide {
	out := FindingSide{
		Block: [3]uint32{s.Block.X, s.Block.Y, s.Block.Z}, Thread: [3]uint32{s.Thread.X, s.Thread.Y, s.Thread.Z},
		Line: s.Line, Source: s.Source, Op: s.Op, Access: "read",
	}
	switch {
	case sort == kernelrace.Divergent:
		out.Access = "barrier"
	case s.Kind&kernelrace.Atomic != 0:
		out.Access = "atomic operation"
	case s.Kind&kernelrace.Write != 0:
		out.Access = "write"
	}
	if s.Known {
		out.Value = &s.Value
	}
	return out
}

// place returns the allocation that holds addr and the offset in it, or the address if there is
// none.
func (d *Driver) place(addr uint64) (memory string, offset, address uint64) {
	if x, ok := d.space.find(addr); ok {
		return x.String(), addr - x.base, 0
	}
	return "no allocation", 0, addr
}

// allocatedAt names the line that allocated the memory at addr, for the end of a sentence.
func (d *Driver) allocatedAt(addr uint64) string {
	x, ok := d.space.find(addr)
	if !ok || x.region.site.File == "" {
		return ""
	}
	return ", allocated" + byLine(x.region.site)
}
