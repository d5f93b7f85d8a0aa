package simt

const (
	warpSize = 32
	allLanes = ^uint32(0)
)

// lanes holds one register of a warp. Bits above the width of the register are
// unspecified. An operation truncates what it reads to its own type.
type lanes [warpSize]uint64

// The kinds of a tag are bits: what is known about a register.
const (
	kLanes   = 1 << iota // every lane is stored
	kUniform             // lane 0 holds the value of all lanes
	kAffine              // lane i is lane 0 + i*stride

	kKnown = kUniform | kAffine // lane 0 and the stride say all
)

// tag says how a register is stored. A uniform register has stride 0, so it can also
// be used as an affine register.
type tag struct {
	stride uint64
	kind   uint8
}

// frame is the call frame of a function, shared by the lanes that called it together.
type frame struct {
	fn               *function
	regs             []lanes
	tags             []tag
	preds            []uint32
	parent           *frame
	ret              int // index in the parent's code of the instruction after the call
	call             *inst
	depth            int
	local            uint64  // local address of its variables
	stack            int     // predicted bytes of stack with those of its callers
	folds            bool    // it is a part of the frame of the kernel, or that frame
	lanes            uint32  // lanes that entered and have neither returned nor exited
	ready, readyPred []int64 // when registers and predicates are ready, if the warp is followed

	top int // end of the memory that alloca returned, 0 if it was not called
}

// setUniform fills a register that is never written again.
func (f *frame) setUniform(reg int32, v uint64) {
	r := &f.regs[reg]
	for i := range r {
		r[i] = v
	}
	f.tags[reg] = tag{kind: kLanes | kUniform}
}

// clear sets every register to zero, so that programs which read a register before
// they write it behave the same in each run.
func (f *frame) clear() {
	first, end := f.fn.firstReg, f.fn.endReg
	regs, tags := f.regs[first:end], f.tags[first:end]
	for i := range regs {
		regs[i][0] = 0
		tags[i].stride, tags[i].kind = 0, kUniform
	}
	clear(f.preds)
}

// expand makes sure that every lane of register s is stored.
func (f *frame) expand(s int32) *lanes {
	r, t := &f.regs[s], &f.tags[s]
	if t.kind&kLanes != 0 {
		return r
	}
	simd.spread(r, r[0], t.stride)
	t.kind |= kLanes
	return r
}

// expandFor stores every lane of register d, which is then written: nothing else is
// known about it.
func (f *frame) expandFor(d int32) *lanes {
	r := f.expand(d)
	f.tags[d] = tag{kind: kLanes}
	return r
}

// lane returns the value of one lane of a register.
func (f *frame) lane(reg int32, i int) uint64 {
	r, t := &f.regs[reg], f.tags[reg]
	if t.kind&kLanes != 0 {
		return r[i&(warpSize-1)]
	}
	return r[0] + uint64(i)*t.stride
}

// stackTop returns the first byte of local memory that the frame does not use.
func (f *frame) stackTop() int { return max(f.top, int(f.local)+f.fn.localBytes) }
