package launchrace

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Operation is what a report says of a launch, copy or fill. It does not change once made.
type Operation struct {
	ID     uint64 // rises in the order of queueing
	Kernel string // "" for copies and fills
	What   string // such as "copy 4.0 KiB"
	Kind   cu.GraphNodeType
	Device int
	Stream string         // such as "stream 0x1003"
	Graph  bool           // it is a node of a graph
	Site   callsite.Place // the line that queued it
}

// Race is two operations that have accessed the same bytes, and that nothing orders.
type Race struct {
	Kind          string // such as BetweenLaunches
	First, Second Side   // in the order of queueing
	Addr          uint64 // the first of the bytes
	Memory        string // the allocation that holds them
	Offset        uint64 // where they begin in it
	Nowhere       uint64 // their address, if no allocation holds them any more
	Bytes         int    // how many both have accessed
	Missing       string // what would order them
}

// Side is one of the two accesses of a Race.
type Side struct {
	*Operation
	Write  bool
	Access *simt.FindingSide // of a thread; nil for copies and fills
}

// BetweenLaunches is the Kind of a race of two launches.
const BetweenLaunches = "race between launches"

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
	if first.op.Device != second.op.Device {
		need = kernelrace.System
	}
	p.Conflicts(q, func(a, b *kernelrace.Run, off, n uint16) {
		if !kernelrace.Conflict(a.Kind, b.Kind, need) || first.ordered(second.standing, a.Kind, b.Kind) {
			return
		}
		kernelrace.Pieces(a, b, off, n, func(off, n, instA, instB uint16) {
			x := c.of(conflictKey{first, instA, instB})
			addr := number*pageSize + uint64(off)
			if x.second == nil || addr < x.addr {
				x.second, x.a, x.b, x.addr = second, *a, *b, addr
			}
			x.bytes += int(n)
		})
	})
}

// of returns the conflict with a key.
func (c *conflicts) of(key conflictKey) *conflict {
	x := c.by[key]
	if x == nil {
		if c.by == nil {
			c.by = map[conflictKey]*conflict{}
		}
		x = &conflict{first: key.first}
		c.by[key] = x
		c.list = append(c.list, x)
	}
	return x
}

// race describes x. The access of the operation that was queued first is its first, whatever ran
// first.
func (x *conflict) race(m Memory) *Race {
	if x.first.op.ID > x.second.op.ID {
		x.first, x.second, x.a, x.b = x.second, x.first, x.b, x.a
	}
	r := &Race{
		Kind: x.kind(), First: x.first.access(&x.a, x.addr), Second: x.second.access(&x.b, x.addr),
		Addr: x.addr, Bytes: x.bytes, Missing: x.missing(),
	}
	r.Memory, r.Offset, r.Nowhere = m.Place(x.addr)
	return r
}

// kind returns what Race.Kind says.
func (x *conflict) kind() string {
	for _, p := range []*Operation{x.first.op, x.second.op} {
		switch {
		case p.Kernel != "":
		case p.Kind == cu.GraphNodeTypeMemcpy:
			return "race between a launch and a copy"
		case p.Kind == cu.GraphNodeTypeMemset:
			return "race between a launch and a fill"
		default:
			return "race between a launch and a written value"
		}
	}
	return BetweenLaunches
}

// access describes the access of a run to the byte at an address.
func (f *footprint) access(r *kernelrace.Run, addr uint64) Side {
	s := Side{Operation: f.op, Write: r.Kind&kernelrace.Write != 0}
	if f.side != nil {
		thread := f.side(r, uint16(addr%pageSize))
		s.Access = &thread
	}
	return s
}

// missing says what would order the accesses.
func (x *conflict) missing() string {
	a, b := x.first.op, x.second.op
	both := x.a.Kind & x.b.Kind
	switch {
	case both&kernelrace.Strong != 0 && a.Device != b.Device:
		return "the scope does not include another device: use .sys"
	case both&kernelrace.Strong != 0:
		return "the scope .cta does not include another launch: use .gpu"
	}
	text := "an event or a wait between the two streams"
	switch {
	case a.Graph && b.Graph:
		text = "an edge between the two nodes of the graph; or of two graphs, an event or a wait between their streams"
	case a.Graph || b.Graph:
		text = "an event or a wait between the stream and that of the graph"
	case a.Stream == b.Stream:
		text = "an event or a wait between the two"
	}
	if (x.a.Kind|x.b.Kind)&kernelrace.Atomic != 0 && a.Kernel != "" && b.Kernel != "" {
		text += "; or make both accesses atomic"
	}
	return text
}
