package simt

import "math/bits"

// Divergence. Of the lanes that can run, those in the deepest call run first,
// and of these those with the lowest pc: in reducible code all lanes then meet
// again where the paths join. Lanes that loop for long give the others of their
// warp a slice out of turn, so that one lane can wait for another.

// park puts the active lanes among the others, to wait.
func (w *warp) park(g group) {
	g.mask, g.f, g.ran = w.active, w.f, w.turn
	for i := range w.others {
		o := &w.others[i]
		if o.f == g.f && o.pc == g.pc && o.wait == g.wait && o.barrier == g.barrier {
			o.mask |= g.mask
			return
		}
	}
	w.others = append(w.others, g)
}

// next makes the lanes that are to run the active ones. There are none active.
func (w *warp) next() {
	w.fair = false
	w.slice = laneBudget
	best := -1
	for i := range w.others {
		g := &w.others[i]
		if g.wait == waitSync && w.complete(g) {
			g.wait = waitNothing
		}
		if g.wait == waitNothing && (best < 0 || before(g, &w.others[best])) {
			best = i
		}
	}
	if best < 0 {
		if best = w.forced(); best < 0 {
			w.state = warpBlocked
			if len(w.others) == 0 {
				w.finish()
			}
			return
		}
		w.force = true
	}
	w.resume(best)
	w.meet()
}

// forced picks lanes that wait for members which can never come: for lanes that
// have gone elsewhere for good. Hardware leaves open what happens then.
func (w *warp) forced() int {
	best := -1
	for i := range w.others {
		g := &w.others[i]
		if g.wait == waitBarrier {
			return -1 // the members may be released from there
		}
		if best < 0 || before(g, &w.others[best]) {
			best = i
		}
	}
	return best
}

func before(a, b *group) bool {
	if a.f.depth != b.f.depth {
		return a.f.depth > b.f.depth
	}
	return a.pc < b.pc
}

// complete is true if no member of a group's mask is missing.
func (w *warp) complete(g *group) bool {
	in := &g.f.fn.code[g.pc]
	members := uint32(g.f.lane(in.c, bits.TrailingZeros32(g.mask)))
	return members&g.f.lanes&^g.mask == 0
}

// lane is one lane's value of a slot.
func (f *frame) lane(slot int32, i int) uint64 {
	r, t := &f.regs[slot], f.tags[slot]
	if t.kind&kLanes != 0 {
		return r[i&(warpSize-1)]
	}
	return r[0] + uint64(i)*t.stride
}

// resume takes group i from the others.
func (w *warp) resume(i int) {
	g := w.others[i]
	last := len(w.others) - 1
	w.others[i] = w.others[last]
	w.others[last] = group{}
	w.others = w.others[:last]
	w.f, w.pc = g.f, g.pc
	w.turn++
	w.setActive(g.mask)
}

// meet joins the active lanes with those that stand at the same place, and lets
// lanes at a lower one run first.
func (w *warp) meet() {
	for i := 0; i < len(w.others); {
		g := &w.others[i]
		if g.f == w.f && g.pc == w.pc && g.wait == waitNothing {
			mask := g.mask
			last := len(w.others) - 1
			w.others[i] = w.others[last]
			w.others = w.others[:last]
			w.setActive(w.active | mask)
			continue
		}
		i++
	}
	if !w.fair {
		best := -1
		for i := range w.others {
			g := &w.others[i]
			if g.wait == waitNothing && g.f == w.f && g.pc < w.pc && (best < 0 || g.pc < w.others[best].pc) {
				best = i
			}
		}
		if best >= 0 {
			g := w.others[best]
			w.others[best] = group{f: w.f, pc: w.pc, mask: w.active, ran: w.turn}
			w.pc = g.pc
			w.turn++
			w.setActive(g.mask)
		}
	}
	w.setLimit()
}

// setLimit finds the next place where the active lanes may meet others.
func (w *warp) setLimit() {
	w.limit = noLimit
	for i := range w.others {
		g := &w.others[i]
		if g.f == w.f && g.wait == waitNothing && g.pc < w.limit && g.pc >= w.pc {
			w.limit = g.pc
		}
	}
}

// rotate gives the lanes of this warp that have waited longest a slice, whatever
// their pc.
func (w *warp) rotate() {
	w.slice = laneBudget
	best := -1
	for i := range w.others {
		if g := &w.others[i]; g.wait == waitNothing && (best < 0 || g.ran < w.others[best].ran) {
			best = i
		}
	}
	if best < 0 {
		w.setLimit()
		return
	}
	g := w.others[best]
	w.turn++
	w.others[best] = group{f: w.f, pc: w.pc, mask: w.active, ran: w.turn}
	w.f, w.pc = g.f, g.pc
	w.setActive(g.mask)
	w.fair = true
	w.meet()
}

// finish ends the warp, whose lanes have all exited.
func (w *warp) finish() {
	w.state = warpDone
	w.b.done++
	if w.f != nil {
		w.k.freeFrame(w.f)
		w.f = nil
	}
}
