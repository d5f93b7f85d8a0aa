package simt

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// warpState says what a warp can do next.
type warpState uint8

const (
	warpReady   warpState = iota
	warpBlocked           // every lane waits at a barrier of the block
	warpDone
)

// What a group of lanes waits for.
type wait uint8

const (
	waitNothing wait = iota
	waitSync         // for the other members of its mask
	waitBarrier
)

// group is a set of lanes at one place of one activation.
type group struct {
	f       *frame
	pc      int
	mask    uint32
	wait    wait
	barrier int
	red     *inst  // the bar.red to be given its result
	ran     uint64 // when it last ran, for fairness
}

// warp is 32 threads. The lanes that run now are those of active, at pc of f;
// the others stand in others, in groups.
type warp struct {
	k     *worker
	b     *block
	index int
	state warpState

	f      *frame
	pc     int
	active uint32
	full   bool // active are all lanes of f: no other lane needs f's registers kept
	dense  bool // active are the lanes 0 to n-1, and full
	scalar bool // uniform and affine registers are made use of
	n      int  // one more than the highest lane of f
	limit  int  // pc at which the lanes may meet others
	fair   bool // running out of turn, so that lanes at a lower pc cannot starve others
	force  bool // run a synchronising instruction without waiting
	others []group

	live         uint32
	budget       int  // instructions until other warps have their turn
	slice        int  // and until other lanes of this one have
	polled       bool // since the last jump back
	polledGlobal bool // so that another block may be what it waits for
	turn         uint64

	issued, began uint64  // instructions before the turn, and the worker's when it began
	slept         uint64  // ns of sleep, and of looking at a clock
	looks         int     // at a clock, in a row
	hurry         float64 // ns that the last of them took
	watched       bool    // it has looked at memory since

	local    []byte // lane by lane, localCap bytes each
	localCap int

	fault *cu.Fault
}

const (
	warpBudget = 1 << 15 // instructions in loops until the next warp's turn
	laneBudget = 1 << 13
	pollCost   = 128 // what a loop that polls memory is charged a round
	noLimit    = math.MaxInt
)

// start makes w the index'th warp of b.
func (w *warp) start(b *block, index int) {
	k := b.k
	n := min(b.threads-index*warpSize, warpSize)
	w.k, w.b, w.index = k, b, index
	w.state = warpReady
	w.live = allLanes >> (warpSize - n)
	w.others = w.others[:0]
	w.scalar = !k.x.plain
	w.issued, w.slept, w.looks, w.hurry, w.watched = 0, 0, 0, 0, false
	w.fault, w.polled, w.force, w.fair = nil, false, false, false
	w.f = k.newFrame(k.x.fn)
	w.f.lanes, w.f.depth, w.f.local = w.live, 0, 0
	w.pc = 0
	w.setActive(w.live)
	w.limit = noLimit
	w.slice = laneBudget
	w.needLocal(w.f.fn.localBytes)
	clear(w.local)
	w.setSpecials()
}

func (w *warp) setSpecials() {
	f := w.f
	for i := range f.fn.specials {
		s := &f.fn.specials[i]
		s.set(w, &f.regs[s.slot], &f.tags[s.slot])
	}
}

// needLocal makes room for n bytes of local memory a lane.
func (w *warp) needLocal(n int) {
	if n <= w.localCap {
		return
	}
	size := max(alignUp(n, 64), 2*w.localCap)
	w.k.stack += (size - w.localCap) * warpSize
	local := make([]byte, size*warpSize)
	for i := range warpSize {
		copy(local[i*size:], w.local[i*w.localCap:(i+1)*w.localCap])
	}
	w.local, w.localCap = local, size
}

func (w *warp) setActive(mask uint32) {
	w.active = mask
	w.full = mask == w.f.lanes
	w.n = span(w.f.lanes)
	w.dense = w.full && mask&(mask+1) == 0
}

// run executes until the warp blocks, ends, faults or has used its budget.
func (w *warp) run() {
	w.budget = warpBudget
	w.polled, w.polledGlobal = false, false
	if w.active == 0 {
		w.next() // from a barrier
	}
	for w.state == warpReady {
		if w.pc >= w.limit {
			w.meet()
		}
		in := &w.f.fn.code[w.pc]
		w.pc++
		w.k.instructions += uint64(in.cost)
		taken := w.active
		if in.guard >= 0 {
			taken &= w.f.preds[in.guard] ^ in.guardNot
			if taken == 0 {
				continue
			}
		}
		switch in.kind {
		case kindExec:
			if taken == w.active {
				in.exec(w, in)
			} else {
				active, full, dense := w.active, w.full, w.dense
				w.active, w.full, w.dense = taken, false, false
				in.exec(w, in)
				w.active, w.full, w.dense = active, full, dense
			}
			if w.fault != nil {
				return
			}
		case kindBranch:
			if taken == w.active {
				w.jump(int(in.target))
			} else {
				w.split(taken, int(in.target))
			}
			if w.budget <= 0 {
				return
			}
		default:
			w.control(in, taken)
			if w.fault != nil || w.budget <= 0 {
				return
			}
		}
	}
}

// jump moves the active lanes. Going back costs what the loop is long, and more
// if it looks like one that waits for somebody.
func (w *warp) jump(target int) {
	if target < w.pc {
		n := w.pc - target
		if w.polled {
			n += pollCost
			if w.polledGlobal {
				w.k.polls++
			}
			w.polled, w.polledGlobal = false, false
		}
		w.budget -= n
		if len(w.others) > 0 {
			w.slice -= n
			if w.slice <= 0 {
				w.pc = target
				w.rotate()
				return
			}
		}
	}
	w.pc = target
	if w.fair {
		w.setLimit()
	}
}

// split sends some of the active lanes to target. Those that would only exit
// there do so at once, so that the rest stays a full warp.
func (w *warp) split(taken uint32, target int) {
	if w.ends(target) {
		w.k.instructions++
		w.exit(taken)
		return
	}
	rest := w.active &^ taken
	w.others = append(w.others, group{f: w.f, pc: w.pc, mask: rest, ran: w.turn})
	w.setActive(taken)
	w.jump(target)
	w.meet()
}

// ends is true if the instruction at pc ends the kernel for whoever gets there.
func (w *warp) ends(pc int) bool {
	in := &w.f.fn.code[pc]
	return in.guard < 0 && (in.kind == kindExit || in.kind == kindRet && w.f.parent == nil)
}

// exit ends lanes, which are active ones.
func (w *warp) exit(mask uint32) {
	for f := w.f; f != nil; {
		up := f.parent
		f.lanes &^= mask
		if f.lanes == 0 && up != nil {
			w.k.freeFrame(f)
			if f == w.f {
				w.f = up
			}
		}
		f = up
	}
	w.live &^= mask
	w.b.live -= bits.OnesCount32(mask)
	rest := w.active &^ mask
	if rest != 0 {
		w.setActive(rest)
	} else {
		w.active = 0
		w.next()
	}
	if w.b.waiting > 0 {
		w.b.checkBarriers()
	}
}

// trap is a fault of the lowest of the given lanes.
func (w *warp) trap(in *inst, lanes uint32, result cu.Result, addr uint64, bytes int) {
	w.fault = w.at(in, lanes)
	w.fault.Result, w.fault.Addr, w.fault.Bytes = result, cu.DevicePtr(addr), bytes
}

// at says where the lowest of the given lanes is.
func (w *warp) at(in *inst, lanes uint32) *cu.Fault {
	kernel := w.k.x.l.Kernel
	return &cu.Fault{
		Kernel: kernel.Name,
		Block:  w.b.at,
		Thread: threadAt(uint32(w.index*warpSize+bits.TrailingZeros32(lanes)), w.k.x.l.Block),
		Line:   in.src.Pos.Line,
		Source: kernel.program.source(in.src.Loc),
		Op:     opText(in.src),
	}
}

// position is where a lane is of a warp that is not done.
func (w *warp) position() *cu.Fault {
	if w.active != 0 {
		return w.at(&w.f.fn.code[w.pc], w.active)
	}
	g := &w.others[0]
	pc := g.pc
	if g.wait == waitBarrier {
		pc-- // it stands behind it
	}
	return w.at(&g.f.fn.code[pc], g.mask)
}
