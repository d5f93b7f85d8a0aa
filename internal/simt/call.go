package simt

import (
	"fmt"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

const (
	maxDepth = 4096      // activations a thread
	maxLocal = 512 << 10 // bytes a thread, as hardware has it
)

// callSite is a call. Arguments and results travel through local memory, where
// .param variables live, or from register to register.
type callSite struct {
	fn      *function // nil for a call by address
	args    []place
	results []place
	builtin func(w *warp, in *inst)
}

// place is where an argument or result is in the caller: a local variable, or a slot.
type place struct {
	local int
	slot  int32
	reg   bool
	size  int
}

// calleePlaces are the places of a function's parameters or results in its frame.
func (f *function) calleePlaces(vars []*ptx.Var) []place {
	out := make([]place, len(vars))
	for i, v := range vars {
		if v.Space == ptx.RegSpace {
			out[i] = place{slot: f.regs[v.Name].slot, reg: true, size: v.Size()}
		} else {
			out[i] = place{local: f.local[v.Name], size: v.Size()}
		}
	}
	return out
}

// enter calls a function for the active lanes.
func (w *warp) enter(in *inst) {
	c := in.call
	if c.builtin != nil {
		c.builtin(w, in)
		return
	}
	fn := c.fn
	if fn == nil {
		if fn = w.callee(in); fn == nil {
			return
		}
	}
	up := w.f
	local := uint64(alignUp(up.stackTop(), 16))
	if up.depth >= maxDepth || int(local)+fn.localBytes > maxLocal {
		w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
		w.fault.Why = fmt.Sprintf("%d calls deep, with %d bytes of local memory, of at most %d calls and %d bytes: is there an end to the recursion?",
			up.depth, local, maxDepth, maxLocal)
		return
	}
	if w.k.stack > w.k.x.stack/w.k.x.workers {
		w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
		w.fault.Why = fmt.Sprintf("the calls that threads are in hold over %d MiB: is there an end to the recursion?", w.k.x.stack>>20)
		return
	}
	w.needLocal(int(local) + fn.localBytes)
	f := w.k.newFrame(fn)
	f.parent, f.ret, f.call, f.depth, f.local, f.lanes = up, w.pc, in, up.depth+1, local, w.active
	w.move(up, c.args, f, fn.paramPlaces)
	w.f, w.pc = f, 0
	w.setActive(w.active)
	w.setSpecials()
	w.budget -= 16
	w.setLimit()
}

// callee is what an indirect call calls. Lanes that call something else do so later.
func (w *warp) callee(in *inst) *function {
	lane := bits.TrailingZeros32(w.active)
	addr := w.f.lane(in.a, lane)
	var rest uint32
	for m := w.active; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m); w.f.lane(in.a, i) != addr {
			rest |= 1 << i
		}
	}
	if rest != 0 {
		w.others = append(w.others, group{f: w.f, pc: w.pc - 1, mask: rest, ran: w.turn})
		w.setActive(w.active &^ rest)
	}
	list := w.f.fn.program.list
	id := (addr - codeWindow) / codeStep
	if addr < codeWindow || id >= uint64(len(list)) || list[id].src.Entry {
		w.trap(in, w.active, cu.ErrorInvalidPC, addr, 0)
		return nil
	}
	fn := list[id]
	if len(fn.paramPlaces) != len(in.call.args) || len(fn.resultPlaces) != len(in.call.results) {
		w.trap(in, w.active, cu.ErrorInvalidPC, addr, 0)
		return nil
	}
	return fn
}

// ret returns taken, which are active lanes, to their caller.
func (w *warp) ret(taken uint32) {
	f := w.f
	up := f.parent
	rest := w.active &^ taken
	active := w.active
	w.active = taken
	w.move(f, f.fn.resultPlaces, up, f.call.call.results)
	w.active = active
	f.lanes &^= taken
	pc := f.ret
	switch {
	case f.lanes == 0:
		w.k.freeFrame(f)
		w.f, w.pc = up, pc
		w.setActive(taken)
		w.meet()
	case rest != 0:
		w.others = append(w.others, group{f: up, pc: pc, mask: taken, ran: w.turn})
		w.setActive(rest)
	default:
		w.others = append(w.others, group{f: up, pc: pc, mask: taken, ran: w.turn})
		w.active = 0
		w.next()
	}
}

// move copies values of the active lanes from one activation to another.
func (w *warp) move(from *frame, src []place, to *frame, dst []place) {
	for i := range min(len(src), len(dst)) {
		s, d := src[i], dst[i]
		switch {
		case s.reg && d.reg:
			a, r := from.expand(s.slot), to.expandFor(d.slot)
			for m := w.active; m != 0; m &= m - 1 {
				l := bits.TrailingZeros32(m)
				r[l] = a[l]
			}
		case !s.reg && !d.reg:
			for m := w.active; m != 0; m &= m - 1 {
				l := w.lane(bits.TrailingZeros32(m))
				copy(l[int(to.local)+d.local:][:min(s.size, d.size)], l[int(from.local)+s.local:][:s.size])
			}
		case s.reg:
			a := from.expand(s.slot)
			for m := w.active; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				storeBytes(w.lane(i)[int(to.local)+d.local:][:d.size], a[i])
			}
		default:
			r := to.expandFor(d.slot)
			for m := w.active; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m)
				r[i] = loadBytes(w.lane(i)[int(from.local)+s.local:][:s.size])
			}
		}
	}
}

// lane is the local memory of one lane.
func (w *warp) lane(i int) []byte {
	return w.local[i*w.localCap : (i+1)*w.localCap]
}

// loadBytes reads up to 8 bytes, the lowest first.
func loadBytes(b []byte) uint64 {
	var v uint64
	for i := range min(len(b), 8) {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

func storeBytes(b []byte, v uint64) {
	for i := range min(len(b), 8) {
		b[i] = byte(v >> (8 * i))
	}
}
