package explain

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/trace"
)

// allocation is a buffer of a recording, from its allocation until it is freed.
type allocation struct {
	call *trace.Call
	free *trace.Call // nil if it is not freed
	kind string
}

func (a *allocation) end() uint64 { return a.call.Address + a.call.Bytes }

// holds reports whether an address is in the buffer.
func (a *allocation) holds(at uint64) bool { return a.call.Address <= at && at < a.end() }

// during reports whether a call of a driver began while the buffer was there.
func (a *allocation) during(c *trace.Call) bool {
	return c.Driver == a.call.Driver && c.Start >= a.call.Start && (a.free == nil || c.Start <= a.free.Start)
}

// kinds are the calls that allocate or page-lock memory, with its kind if the recording does not
// name it.
var kinds = map[string]string{
	"cuMemAlloc": device, "cuMemAllocPitch": device, "cuMemAllocAsync": device, "cuMemAllocFromPoolAsync": device, "cuModuleGetGlobal": device,
	"cuMemHostAlloc": pageLocked, "cuMemHostRegister": registered, "cuMemAllocManaged": managed,
}

// allocations are the buffers of a recording.
type allocations struct {
	all []*allocation
	at  map[uint64][]*allocation // those that hold an address, once it was asked for
}

// allocationsOf finds the buffers, and what frees each.
func allocationsOf(rec *trace.Recording) *allocations {
	m := &allocations{at: map[uint64][]*allocation{}}
	type key struct {
		driver int
		base   uint64
	}
	open := map[key]*allocation{}
	for i := range rec.Calls {
		c := &rec.Calls[i]
		k := key{c.Driver, c.Address}
		switch {
		case c.Address == 0 || c.Error != "":
		case kinds[c.Name] != "" && c.Bytes > 0:
			a := &allocation{call: c, kind: cmp.Or(c.Memory, kinds[c.Name])}
			m.all, open[k] = append(m.all, a), a
		case strings.HasPrefix(c.Name, "cuMemFree") || c.Name == "cuMemHostUnregister":
			if a := open[k]; a != nil {
				a.free = c
				delete(open, k)
			}
		}
	}
	return m
}

// holding returns the buffers that hold an address.
func (m *allocations) holding(at uint64) []*allocation {
	if found, known := m.at[at]; known {
		return found
	}
	var found []*allocation
	for _, a := range m.all {
		if a.holds(at) {
			found = append(found, a)
		}
	}
	m.at[at] = found
	return found
}

// node returns the NUMA node of the host memory of a transfer, or NoNode.
func (m *allocations) node(t *transfer) int {
	side, kind := t.call.Address, t.To
	if t.in() {
		side, kind = t.call.Source, t.From
	}
	if side == 0 || kind != pageLocked && kind != registered {
		return trace.NoNode
	}
	for _, a := range m.holding(side) {
		if a.during(t.call) && a.kind != device {
			return a.call.Node
		}
	}
	return trace.NoNode
}

// SplitAddress splits FILE:ADDRESS, with the address in decimal, or hexadecimal after 0x.
// A word that is the name of a file, or has no colon after one, is returned as it is. The
// error says that what is after the colon is no address.
func SplitAddress(word string) (file string, address uint64, has bool, err error) {
	i := strings.LastIndexByte(word, ':')
	if _, missing := os.Stat(word); i < 0 || missing == nil {
		return word, 0, false, nil
	}
	n, err := strconv.ParseUint(word[i+1:], 0, 64)
	if err == nil {
		return word[:i], n, true, nil
	}
	if _, missing := os.Stat(word[:i]); missing != nil {
		return word, 0, false, nil
	}
	return "", 0, false, fmt.Errorf("%q is no address; want one such as 0x7f5c3c001240 after the colon", word[i+1:])
}

// Buffer explains the buffers of a recording that had an address. name is that of the file.
func Buffer(name string, rec *trace.Recording, address uint64) (*Report, error) {
	subject := fmt.Sprintf("%s:%#x", name, address)
	lines := timelines(rec)
	m := allocationsOf(rec)
	if len(m.all) == 0 {
		return nil, fmt.Errorf("explain %s: the recording has no allocation with an address; recordings of older versions have none", subject)
	}
	found := m.holding(address)
	if len(found) == 0 {
		return nil, fmt.Errorf("explain %s: no buffer had this address; %s", subject, m.nearest(address))
	}
	r := reportOf(subject, rec)
	touched := map[uint64]bool{} // calls
	for _, a := range found {
		a.explain(r, rec, lines, touched)
	}
	r.Findings = findings(lines, func(t *transfer) bool { return touched[t.call.ID] })
	return r, nil
}

// nearest describes the buffer that is nearest to an address.
func (m *allocations) nearest(address uint64) string {
	distance := func(a *allocation) uint64 {
		if address >= a.end() {
			return address - a.end() + 1
		}
		return a.call.Address - address
	}
	a := slices.MinFunc(m.all, func(a, b *allocation) int { return cmp.Compare(distance(a), distance(b)) })
	return fmt.Sprintf("the nearest is %#x to %#x (%s)", a.call.Address, a.end(), a.kind)
}

// use is what one line of the program does with a buffer.
type use struct {
	verb  string
	site  int
	low   uint64
	n     int
	bytes uint64
	ns    int64
	timed int
	call  string
}

// explain adds the steps of a buffer, and the calls that touched it.
func (a *allocation) explain(r *Report, rec *trace.Recording, lines []*timeline, touched map[uint64]bool) {
	path := fmt.Sprintf("%#x to %#x: %s of %s memory", a.call.Address, a.end(), tracereport.Bytes(a.call.Bytes), a.kind)
	source := Observed
	for _, d := range rec.Drivers {
		if d.ID == a.call.Driver && d.Virtual() {
			source = Predicted
		}
	}
	step := func(place string, address uint64, ns int64, format string, args ...any) {
		r.Steps = append(r.Steps, Step{Path: path, Place: place, Address: hex(address), CostNs: cost(float64(ns)), Source: source, Text: fmt.Sprintf(format, args...)})
	}
	step("allocation", a.call.Address, a.call.End-a.call.Start, "%s%s%s", a.call.Name, at(rec, a.call.Site), a.nodeText())
	for _, u := range a.uses(rec, lines, touched) {
		text := fmt.Sprintf("%d %s of %s%s, %s", u.n, plural(u.n, "call"), u.call, at(rec, u.site), tracereport.Bytes(u.bytes))
		if u.timed > 0 && u.ns > 0 && u.timed == u.n {
			text += ": " + rate(float64(u.bytes), float64(u.ns))
		}
		if u.timed < u.n {
			text += fmt.Sprintf("; %d of them have no times", u.n-u.timed)
		}
		step(u.verb, u.low, u.ns, "%s", text)
	}
	if a.free == nil {
		r.Notes = append(r.Notes, fmt.Sprintf("%#x is not freed in the recording", a.call.Address))
		return
	}
	step("free", a.free.Address, a.free.End-a.free.Start, "%s%s, %s after its allocation", a.free.Name, at(rec, a.free.Site),
		tracereport.Duration(a.free.Start-a.call.End))
}

func (a *allocation) nodeText() string {
	if a.kind != pageLocked && a.kind != registered || a.call.Node == trace.NoNode {
		return ""
	}
	return fmt.Sprintf(", on NUMA node %d", a.call.Node)
}

// at returns " at main.go:12", or "".
func at(rec *trace.Recording, site int) string {
	if s := rec.Sites[site].String(); s != "" {
		return " at " + s
	}
	return ""
}

// uses returns what the program did with the buffer, by lines, in the order of the first
// call.
func (a *allocation) uses(rec *trace.Recording, lines []*timeline, touched map[uint64]bool) (all []*use) {
	times := map[uint64]int64{}
	for _, l := range lines {
		for _, t := range l.ops {
			times[t.call.ID] += t.ns()
		}
	}
	type key struct {
		verb, call string
		site       int
	}
	by := map[key]*use{}
	for i := range rec.Calls {
		c := &rec.Calls[i]
		verb, low := a.touchedBy(c)
		if verb == "" {
			continue
		}
		touched[c.ID] = true
		k := key{verb, c.Name, c.Site}
		u := by[k]
		if u == nil {
			u = &use{verb: verb, site: c.Site, low: low, call: c.Name}
			by[k], all = u, append(all, u)
		}
		u.n++
		u.low = min(u.low, low)
		u.bytes += c.Bytes
		if ns, timed := times[c.ID]; timed {
			u.timed++
			u.ns += ns
		}
	}
	return all
}

// touchedBy says what a call does with the buffer: "copied to", "copied from", "filled",
// "prefetched" or nothing.
func (a *allocation) touchedBy(c *trace.Call) (verb string, low uint64) {
	overlaps := func(base uint64) bool { return base != 0 && base < a.end() && a.call.Address < base+max(c.Bytes, 1) }
	if c == a.call || c == a.free || !a.during(c) || c.Error != "" {
		return "", 0
	}
	switch {
	case strings.HasPrefix(c.Name, "cuMemcpy") && overlaps(c.Address):
		return "copied to", max(c.Address, a.call.Address)
	case strings.HasPrefix(c.Name, "cuMemcpy") && overlaps(c.Source):
		return "copied from", max(c.Source, a.call.Address)
	case strings.HasPrefix(c.Name, "cuMemset") && overlaps(c.Address):
		return "filled", c.Address
	case strings.HasPrefix(c.Name, "cuMemPrefetch") && overlaps(c.Address):
		return "prefetched", c.Address
	}
	return "", 0
}
