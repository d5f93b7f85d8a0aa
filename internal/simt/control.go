package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// control runs the instructions that decide where lanes go. taken are the active
// lanes that it applies to.
func (w *warp) control(in *inst, taken uint32) {
	if taken != w.active && in.kind != kindExit && in.kind != kindRet {
		// The rest goes on behind it; the lanes that it applies to come first.
		w.others = append(w.others, group{f: w.f, pc: w.pc, mask: w.active &^ taken, ran: w.turn})
		w.setActive(taken)
		w.setLimit()
	}
	switch in.kind {
	case kindExit:
		w.exit(taken)
	case kindRet:
		if w.f.parent == nil {
			w.exit(taken)
		} else {
			w.ret(taken)
		}
	case kindIndexed:
		w.indexed(in)
	case kindCall:
		w.enter(in)
	case kindBarrier:
		w.barrier(in)
	case kindSync:
		w.sync(in)
	case kindYield:
		w.sleep(uint32(w.f.lane(in.a, bits.TrailingZeros32(taken))))
		w.budget = 0
		w.k.polls++
	default:
		w.trap(in, taken, cu.ErrorIllegalInstruction, 0, 0)
	}
}

// indexed is brx.idx: every lane goes where its index says.
func (w *warp) indexed(in *inst) {
	f := w.f
	index := f.expand(in.a)
	var first int32 = -1
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		n := uint32(index[i])
		if n >= uint32(len(in.table)) {
			w.trap(in, 1<<i, cu.ErrorIllegalInstruction, 0, 0)
			return
		}
		if first < 0 {
			first = in.table[n]
		}
	}
	same := uint32(0)
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		t := in.table[uint32(index[i])]
		if t == first {
			same |= 1 << i
			continue
		}
		w.others = append(w.others, group{f: f, pc: int(t), mask: 1 << i, ran: w.turn})
	}
	w.setActive(same)
	w.jump(int(first))
	w.meet()
}

// sync runs a warp-wide instruction when all lanes that it names have arrived.
func (w *warp) sync(in *inst) {
	if !w.full && !w.force {
		members := uint32(w.f.lane(in.c, bits.TrailingZeros32(w.active)))
		if members&w.f.lanes&^w.active != 0 {
			w.park(group{pc: w.pc - 1, wait: waitSync})
			w.active = 0
			w.next()
			return
		}
	}
	w.force = false
	in.exec(w, in)
}
