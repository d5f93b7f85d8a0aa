package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// operation is what a report says of a launch, copy or fill.
type operation struct {
	id      uint64 // of the op
	kernel  string // "" for copies and fills
	what    string
	kind    cu.GraphNodeType
	dev     *device
	stream  string         // such as "stream 0x1003"
	graph   bool           // it is a node of a graph
	site    callsite.Place // the line that queued it
	touched *simt.Touched
}

// newOperation describes o.
func newOperation(o *op) operation {
	p := operation{id: o.id, what: o.work.what, kind: o.kind, dev: o.ctx.dev, graph: o.stream == nil, stream: o.stream.title(), site: o.work.site}
	if l := o.work.launch; l != nil {
		p.kernel = l.fn.name
	}
	return p
}

// title returns the name of s in reports. A nil s stands for a graph.
func (s *streamState) title() string {
	switch {
	case s == nil:
		return "a graph"
	case s.handle == cu.StreamLegacy:
		return "the legacy stream"
	case s.handle == cu.StreamPerThread:
		return "a per-thread stream"
	}
	return fmt.Sprintf("stream %#x", uintptr(s.handle))
}

// conflict is a pair of accesses of two operations that touch the same bytes.
type conflict struct {
	first, second *footprint
	a, b          kernelrace.Run
	addr          uint64 // the first of the bytes
	bytes         int    // how many there are
}

// conflicts are those that an operation has with others, one for each pair of instructions.
type conflicts struct {
	list []*conflict
	by   map[conflictKey]*conflict
}

type conflictKey struct {
	first *footprint
	a, b  uint16 // instructions
}

// add adds the conflicts of two operations in a page.
func (c *conflicts) add(first, second *footprint, number uint64, p, q *kernelrace.Page) {
	need := kernelrace.Device
	if first.op.dev != second.op.dev {
		need = kernelrace.System
	}
	p.Conflicts(q, func(a, b *kernelrace.Run, off, n uint16) {
		if !kernelrace.Conflict(a.Kind, b.Kind, need) || first.ordered(second.standing, a.Kind, b.Kind) {
			return
		}
		key := conflictKey{first, a.Inst, b.Inst}
		x, addr := c.by[key], number*writtenSize+uint64(off)
		if x == nil {
			if c.by == nil {
				c.by = map[conflictKey]*conflict{}
			}
			x = &conflict{first: first, second: second, a: *a, b: *b, addr: addr}
			c.by[key] = x
			c.list = append(c.list, x)
		}
		if addr < x.addr {
			x.a, x.b, x.addr = *a, *b, addr
		}
		x.bytes += int(n)
	})
}

// finding returns the report of x. The access of the operation that was queued first is its
// first, whatever ran first.
func (x *conflict) finding(d *Driver) *Finding {
	if x.first.op.id > x.second.op.id {
		x.first, x.second, x.a, x.b = x.second, x.first, x.b, x.a
	}
	first := x.first.op.side(&x.a, x.addr)
	f := &Finding{Check: "races", Kind: x.kind(), First: &first, Second: x.second.op.side(&x.b, x.addr), Bytes: x.bytes, Missing: x.missing(), Count: 1}
	if f.Kernel = x.second.op.kernel; f.Kernel == "" {
		f.Kernel = x.first.op.kernel
	}
	f.Memory, f.Offset = d.place(x.addr)
	return f
}

// kind returns what Finding.Kind says.
func (x *conflict) kind() string {
	for _, p := range []*operation{&x.first.op, &x.second.op} {
		switch {
		case p.kernel != "":
		case p.kind == cu.GraphNodeTypeMemcpy:
			return "race between a launch and a copy"
		case p.kind == cu.GraphNodeTypeMemset:
			return "race between a launch and a fill"
		default:
			return "race between a launch and a written value"
		}
	}
	return betweenLaunches
}

const betweenLaunches = "race between launches"

// side describes the access of a run to the byte at an address.
func (p *operation) side(r *kernelrace.Run, addr uint64) FindingSide {
	if p.touched != nil {
		s := p.touched.Side(r, uint16(addr%writtenSize))
		out := newSide(kernelrace.Race, &s)
		out.Kernel, out.Stream, out.At = p.kernel, p.stream, atLine(p.site)
		return out
	}
	out := FindingSide{Access: "read", Op: p.what, Stream: p.stream, At: atLine(p.site)}
	if r.Kind&kernelrace.Write != 0 {
		out.Access = "write"
	}
	return out
}

// missing says what would order the accesses.
func (x *conflict) missing() string {
	a, b := &x.first.op, &x.second.op
	both := x.a.Kind & x.b.Kind
	switch {
	case both&kernelrace.Strong != 0 && a.dev != b.dev:
		return "the scope does not include another device: use .sys"
	case both&kernelrace.Strong != 0:
		return "the scope .cta does not include another launch: use .gpu"
	}
	text := "an event or a wait between the two streams"
	switch {
	case a.graph && b.graph:
		text = "an edge between the two nodes of the graph; or of two graphs, an event or a wait between their streams"
	case a.graph || b.graph:
		text = "an event or a wait between the stream and that of the graph"
	case a.stream == b.stream:
		text = "an event or a wait between the two"
	}
	if (x.a.Kind|x.b.Kind)&kernelrace.Atomic != 0 && a.kernel != "" && b.kernel != "" {
		text += "; or make both accesses atomic"
	}
	return text
}

// between ends a launch for the check of launches, and reports what it has found.
func (l *launch) between(o *op, touched *simt.Touched) {
	if touched == nil {
		return
	}
	f := &footprint{Footprint: touched.Footprint, op: newOperation(o)}
	f.op.touched = touched
	o.reportConflicts(f)
}

func (o *op) reportConflicts(f *footprint) {
	d := o.ctx.drv
	var found []*waiting
	for _, x := range d.launches.end(o, f) {
		w := &waiting{a: x.a.Kind, b: x.b.Kind, first: x.first.standing, second: x.second.standing}
		w.finding = x.finding(d)
		found = append(found, w)
	}
	d.addPairs(d.launches.judge(found))
}

// addPairs reports findings between launches.
func (d *Driver) addPairs(list []*Finding) {
	for _, f := range list {
		d.found.addPair(f)
	}
}

// betweenLaunches returns what the check of launches needs to know of launch o, nil if there
// is none.
func (c *launchCheck) betweenLaunches(o *op) *simt.Between {
	if c == nil {
		return nil
	}
	return &simt.Between{Wants: c.wants, OnHost: c.onHost, Signals: func() { c.hostSees(o) }}
}

// endSpans ends a copy or fill, or the write of a value, for the check of launches.
func (o *op) endSpans() {
	if o.work.spans == nil || o.ctx.drv.launches == nil {
		return
	}
	f := &footprint{Footprint: &kernelrace.Footprint{Pages: map[uint64]kernelrace.Page{}}, op: newOperation(o)}
	o.work.spans(f.span)
	o.reportConflicts(f)
}

// span adds the access of a copy or fill to n bytes of a place from an offset on.
func (f *footprint) span(p place, off, n uint64, kind kernelrace.Kind) {
	if p.region == nil || p.region.device == 0 {
		return
	}
	addr := p.region.device + p.off + off
	if kind&kernelrace.Strong != 0 {
		f.Released = append(f.Released, addr)
	}
	for end := addr + n; addr < end; {
		number, at := addr/writtenSize, addr%writtenSize
		part := min(end-addr, writtenSize-at)
		page := f.Pages[number]
		if run := kernelrace.NewRun(at, part, kind); kind&kernelrace.Write != 0 {
			page.Writes = append(page.Writes, run)
		} else {
			page.Reads = append(page.Reads, run)
		}
		f.Pages[number] = page
		addr += part
	}
}
