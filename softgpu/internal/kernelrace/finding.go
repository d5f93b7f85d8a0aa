package kernelrace

import "math/bits"

// Sort is the sort of a finding.
type Sort uint8

const (
	Race          Sort = iota // two accesses without an order
	Uninitialized             // a read of memory that was never written; First is absent
	Divergent                 // lanes of a warp wait at different instructions for one barrier
	Stale                     // a non-coherent load of memory that the launch has written
	HostWrote                 // a weak load is repeated, and the host has changed the bytes; First is absent
	Unallocated               // an access to memory that is in no allocation of malloc in kernels; First is the free, if known
	HostLost                  // the host has changed a word during an atomic operation; First is absent
)

// Finding is a race or another fault, as found first for a pair of instructions.
type Finding struct {
	Sort          Sort
	First, Second Side
	Shared        bool
	Addr          uint64 // in shared memory, an offset
	Bytes         int
	Missing       string // what would order the accesses
	Count         int    // how often

	far int // the largest distance of two threads
}

// Side is one access of a finding.
type Side struct {
	Block  uint32
	Thread int // in the block
	Inst   int
	Kind   Kind
	Value  uint64 // what it read or wrote
	Known  bool   // whether Value is known
}

// pair is what findings are grouped by.
type pair struct {
	sort          Sort
	first, second int
}

// Findings returns what was found, in the order in which it was found.
func (d *Detector) Findings() []*Finding { return d.order }

// count returns the finding for a pair, and whether it is new.
func (d *Detector) count(sort Sort, first, second int) (*Finding, bool) {
	p := pair{sort, min(first, second), max(first, second)}
	if f := d.findings[p]; f != nil {
		f.Count++
		return f, false
	}
	f := &Finding{Sort: sort, Count: 1}
	d.findings[p] = f
	d.order = append(d.order, f)
	return f, true
}

// side returns the access of an entry.
func (d *Detector) side(e entry) Side {
	return Side{Block: e.who >> d.shift, Thread: int(e.who & (1<<d.shift - 1)), Inst: int(e.when & mostInst), Kind: e.tag.kind()}
}

func (x *check) reportStale(e entry, addr uint64, n int) {
	d := x.b.d
	first := d.side(e)
	f, fresh := d.count(Stale, first.Inst, x.a.Inst)
	if !fresh {
		return
	}
	f.First, f.Second = first, Side{Block: x.b.number, Thread: x.t, Inst: x.a.Inst, Kind: x.a.Kind}
	f.Shared, f.Addr, f.Bytes = x.a.Shared, addr, n
	f.Missing = "a load that is coherent: ld.global without .nc (no __ldg, and no const __restrict__ parameter), or two launches"
}

func (x *check) report(e entry, addr uint64, n int) {
	d, a := x.b.d, x.a
	first := d.side(e)
	inst := first.Inst
	mine, ok := d.Values.Stores(x.t, a.Shared, addr, n)
	if e.tag.kind()&Write != 0 {
		first.Value, first.Known = x.storedBy(first, addr, n)
		if a.Kind&(Write|Strong) == Write && e.tag.kind()&Strong == 0 && ok && first.Known && first.Value == mine {
			return // both write the same value
		}
	}
	f, fresh := d.count(Race, inst, a.Inst)
	if far := d.distance(e, entry{who: x.me}); fresh || far > f.far {
		f.far, f.Missing = far, x.missing(e)
	}
	if !fresh {
		return
	}
	f.First, f.Second = first, Side{Block: x.b.number, Thread: x.t, Inst: a.Inst, Kind: a.Kind, Value: mine, Known: ok}
	if a.Kind&Write == 0 {
		f.Second.Value, f.Second.Known = d.Values.Memory(a.Shared, addr, n)
	}
	f.Shared, f.Addr, f.Bytes = a.Shared, addr, n
}

// storedBy returns what an earlier write stored.
func (x *check) storedBy(s Side, addr uint64, n int) (uint64, bool) {
	if s.Inst == x.a.Inst && s.Block == x.b.number && s.Thread/warpSize == x.t/warpSize && s.Thread < x.t {
		if v, ok := x.b.d.Values.Stores(s.Thread, x.a.Shared, addr, n); ok {
			return v, true // another lane of the same instruction
		}
	}
	return x.b.d.Values.Memory(x.a.Shared, addr, n)
}

// missing says what would order the accesses.
func (x *check) missing(e entry) string {
	d, k := x.b.d, x.a.Kind
	near := e.who>>d.shift == x.b.number
	switch {
	case k&e.tag.kind()&Strong != 0:
		return "the scope .cta does not include the other block: use .gpu"
	case (k|e.tag.kind())&Atomic != 0 && near:
		return "a plain access beside an atomic one: a barrier between them, or make both atomic"
	case (k|e.tag.kind())&Atomic != 0:
		return "a plain access beside an atomic one: make both atomic, or order them by a flag with release and acquire"
	case x.th.pending[narrow] != nil || x.th.pending[wide] != nil:
		return "a fence (__threadfence) after the read of the flag, or ld.acquire"
	case near && e.who/warpSize == x.me/warpSize:
		return "__syncwarp (bar.warp.sync) between them: lanes of a warp do not run in lock step"
	case near:
		return "__syncthreads (bar.sync) between them"
	}
	return "blocks of one launch are not ordered: a flag with release and acquire, a grid barrier, atomics, or two launches"
}

func (b *Block) unwritten(t int, a *Access) {
	f, fresh := b.d.count(Uninitialized, a.Inst, a.Inst)
	if fresh {
		f.Second = Side{Block: b.number, Thread: t, Inst: a.Inst, Kind: a.Kind}
		f.Shared, f.Addr, f.Bytes = a.Shared, a.Addr, a.Bytes
		f.Missing = "a copy, a fill or a write before the read: new device memory is not zero on a GPU"
		if a.Shared {
			f.Missing = "a write before the read: shared memory is not zero on a GPU"
		}
	}
}

func (b *Block) divergent(warp int, lanes uint32, inst int, with uint32, at int) {
	f, fresh := b.d.count(Divergent, inst, at)
	if fresh {
		f.First = Side{Block: b.number, Thread: warp*warpSize + bits.TrailingZeros32(lanes), Inst: inst}
		f.Second = Side{Block: b.number, Thread: warp*warpSize + bits.TrailingZeros32(with), Inst: at}
		f.Missing = "one barrier instruction that all threads of the warp execute"
	}
}
