package simt

// frame is an activation of a function by some lanes of a warp.
type frame struct {
	fn     *function
	regs   []lanes
	tags   []tag
	preds  []uint32
	parent *frame
	ret    int // index in the parent's code of the instruction after the call
	call   *inst
	depth  int
	local  uint64 // local address of its variables
	lanes  uint32 // lanes that entered and have neither returned nor exited
	top    int    // end of what alloca has given, 0 if nothing
}

// newFrame takes a frame of fn from the pool, or makes one with the constants
// filled in.
func (k *worker) newFrame(fn *function) *frame {
	pool := k.frames[fn.id]
	if n := len(pool); n > 0 {
		f := pool[n-1]
		k.frames[fn.id] = pool[:n-1]
		f.clear()
		return f
	}
	k.stack += fn.frameBytes()
	f := &frame{
		fn:    fn,
		regs:  make([]lanes, fn.slots),
		tags:  make([]tag, fn.slots),
		preds: make([]uint32, fn.preds),
	}
	for _, c := range fn.consts {
		v := c.value
		switch {
		case c.param != nil:
			v = c.param(k.x.l.Params)
		case c.launch != nil:
			v = c.launch(k.x)
		}
		f.setUniform(c.slot, v)
	}
	f.clear()
	return f
}

// frameBytes is what a frame takes.
func (f *function) frameBytes() int { return int(f.slots) * (warpSize*8 + 16) }

func (k *worker) freeFrame(f *frame) {
	f.parent, f.call, f.top = nil, nil, 0
	k.frames[f.fn.id] = append(k.frames[f.fn.id], f)
}

// setUniform fills a slot that is never written again.
func (f *frame) setUniform(slot int32, v uint64) {
	r := &f.regs[slot]
	for i := range r {
		r[i] = v
	}
	f.tags[slot] = tag{kind: kLanes | kUniform}
}

// clear gives every register the value zero, so that programs which read one
// before they write it do the same in each run.
func (f *frame) clear() {
	for s := f.fn.firstReg; s < f.fn.endReg; s++ {
		f.regs[s][0] = 0
		f.tags[s] = tag{kind: kUniform}
	}
	clear(f.preds)
}

// expand stores every lane of slot s.
func (f *frame) expand(s int32) *lanes {
	r, t := &f.regs[s], &f.tags[s]
	if t.kind&kLanes != 0 {
		return r
	}
	v, step := r[0], t.stride
	if step == 0 {
		for i := range r {
			r[i] = v
		}
	} else {
		for i := range r {
			r[i] = v
			v += step
		}
	}
	t.kind |= kLanes
	return r
}
