package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

const barriers = 16

// barrier is one of the block's.
type barrier struct {
	arrived  int
	expected int // 0: all threads of the block that have not exited
	parked   int // lanes that wait
	count    int // of true predicates
	all, any bool
}

// barrierOp is what a barrier instruction does besides waiting.
type barrierOp struct {
	arrive bool
	red    string // "popc", "and", "or"
	hasN   bool
}

// barrier makes the active lanes arrive.
func (w *warp) barrier(in *inst) {
	op := in.aux.(*barrierOp)
	lane := bits.TrailingZeros32(w.active)
	id := uint32(w.f.lane(in.a, lane))
	if id >= barriers {
		w.trap(in, w.active, cu.ErrorIllegalInstruction, 0, 0)
		return
	}
	bar := &w.b.bars[id]
	if bar.arrived == 0 {
		*bar = barrier{all: true}
	}
	n := bits.OnesCount32(w.active)
	if op.hasN {
		bar.expected = int(uint32(w.f.lane(in.b, lane)))
		if w.active == w.live {
			n = warpSize // lanes that do not exist count as arrived with their warp
		}
	}
	bar.arrived += n
	if op.red != "" {
		p := (w.f.preds[in.p] ^ in.pNot) & w.active
		bar.count += bits.OnesCount32(p)
		bar.all = bar.all && p == w.active
		bar.any = bar.any || p != 0
	}
	if !op.arrive {
		g := group{pc: w.pc, wait: waitBarrier, barrier: int(id)}
		if op.red != "" {
			g.red = in
		}
		bar.parked += bits.OnesCount32(w.active)
		w.b.waiting += bits.OnesCount32(w.active)
		w.park(g)
		w.active = 0
	}
	w.b.checkBarrier(int(id))
	if !op.arrive {
		w.next()
	}
}

func (b *block) checkBarriers() {
	for id := range b.bars {
		if b.bars[id].arrived > 0 {
			b.checkBarrier(id)
		}
	}
}

// expects is how many threads have to arrive.
func (b *block) expects(bar *barrier) int {
	if bar.expected == 0 {
		return b.live
	}
	return bar.expected
}

// checkBarrier opens a barrier that all have arrived at.
func (b *block) checkBarrier(id int) {
	bar := &b.bars[id]
	if bar.arrived < b.expects(bar) || bar.arrived == 0 {
		return
	}
	for _, w := range b.warps {
		for i := range w.others {
			g := &w.others[i]
			if g.wait != waitBarrier || g.barrier != id {
				continue
			}
			g.wait = waitNothing
			if g.red != nil {
				b.reduced(bar, g)
			}
			g.red = nil
			if w.state == warpBlocked {
				w.state = warpReady
			}
		}
	}
	b.waiting -= bar.parked
	*bar = barrier{}
}

// reduced gives lanes that waited at a bar.red its result.
func (b *block) reduced(bar *barrier, g *group) {
	op := g.red.aux.(*barrierOp)
	if op.red == "popc" {
		r := g.f.expandFor(g.red.d)
		for m := g.mask; m != 0; m &= m - 1 {
			r[bits.TrailingZeros32(m)] = uint64(bar.count)
		}
		return
	}
	set := bar.all
	if op.red == "or" {
		set = bar.any
	}
	p := &g.f.preds[g.red.q]
	*p &^= g.mask
	if set {
		*p |= g.mask
	}
}
