package simt

// execPure runs an instruction that only computes: once when its sources are
// uniform, else for every lane, active or not, and keeps what the active ones get.
func execPure(w *warp, in *inst) {
	f := w.f
	if !w.full {
		execMasked(w, in)
		return
	}
	ka, kb, kc := f.tags[in.a].kind, f.tags[in.b].kind, f.tags[in.c].kind
	if ka&kb&kc&kUniform != 0 && w.scalar {
		in.vec(&f.regs[in.d], &f.regs[in.a], &f.regs[in.b], &f.regs[in.c], 1)
		f.tags[in.d] = tag{kind: kUniform}
		return
	}
	if in.aff != nil && w.scalar && ka&(kUniform|kAffine) != 0 && kb&(kUniform|kAffine) != 0 && kc&(kUniform|kAffine) != 0 && in.aff(w, in) {
		return
	}
	if ka&kLanes == 0 {
		f.expand(in.a)
	}
	if kb&kLanes == 0 {
		f.expand(in.b)
	}
	if kc&kLanes == 0 {
		f.expand(in.c)
	}
	in.vec(&f.regs[in.d], &f.regs[in.a], &f.regs[in.b], &f.regs[in.c], w.n)
	f.tags[in.d] = tag{kind: kLanes}
}

func execMasked(w *warp, in *inst) {
	f := w.f
	a, b, c := f.expand(in.a), f.expand(in.b), f.expand(in.c)
	in.vec(&w.k.tmp, a, b, c, span(w.active))
	w.keep(in.d)
}

// keep writes the active lanes of the worker's scratch register to slot d.
func (w *warp) keep(d int32) {
	r := w.f.expand(d)
	w.f.tags[d] = tag{kind: kLanes}
	wide.keep(r, &w.k.tmp, w.active)
}

// write gives slot d the scratch register for the active lanes.
func (w *warp) write(d int32) {
	if w.full {
		w.f.regs[d] = w.k.tmp
		w.f.tags[d] = tag{kind: kLanes}
		return
	}
	w.keep(d)
}

// writeUniform gives the active lanes of slot d one value.
func (w *warp) writeUniform(d int32, v uint64) {
	if w.full && w.scalar {
		w.f.regs[d][0] = v
		w.f.tags[d] = tag{kind: kUniform}
		return
	}
	for i := range w.k.tmp {
		w.k.tmp[i] = v
	}
	w.write(d)
}

// dest is the register that a full-warp operation writes, every lane stored.
func (w *warp) dest(d int32) *lanes {
	if w.full {
		w.f.tags[d] = tag{kind: kLanes}
		return &w.f.regs[d]
	}
	return w.f.expandFor(d)
}

// expandFor stores every lane of d and forgets what else was known of it.
func (f *frame) expandFor(d int32) *lanes {
	r := f.expand(d)
	f.tags[d] = tag{kind: kLanes}
	return r
}

// affine writes base + i*stride to in.d.
func (w *warp) affine(in *inst, base, stride uint64) bool {
	w.f.regs[in.d][0] = base
	t := &w.f.tags[in.d]
	t.stride = stride
	t.kind = kAffine
	if stride == 0 {
		t.kind = kUniform
	}
	return true
}

// The operations that keep affine registers affine. Arithmetic is modulo 2^64,
// which is right for every narrower type too.

func affMove(w *warp, in *inst) bool {
	return w.affine(in, w.f.regs[in.a][0], w.f.tags[in.a].stride)
}

func affAdd(w *warp, in *inst) bool {
	f := w.f
	return w.affine(in, f.regs[in.a][0]+f.regs[in.b][0], f.tags[in.a].stride+f.tags[in.b].stride)
}

func affSub(w *warp, in *inst) bool {
	f := w.f
	return w.affine(in, f.regs[in.a][0]-f.regs[in.b][0], f.tags[in.a].stride-f.tags[in.b].stride)
}

func affNeg(w *warp, in *inst) bool {
	f := w.f
	return w.affine(in, -f.regs[in.a][0], -f.tags[in.a].stride)
}

func affMul(w *warp, in *inst) bool { return affMad(w, in) }

// affMad has slot 0, which is zero, as c of a plain multiplication.
func affMad(w *warp, in *inst) bool {
	f := w.f
	a, b, c := f.regs[in.a][0], f.regs[in.b][0], f.regs[in.c][0]
	sa, sb := f.tags[in.a].stride, f.tags[in.b].stride
	if sa != 0 && sb != 0 {
		return false
	}
	return w.affine(in, a*b+c, sa*b+sb*a+f.tags[in.c].stride)
}

func affShl32(w *warp, in *inst) bool { return affShl(w, in, 32) }
func affShl64(w *warp, in *inst) bool { return affShl(w, in, 64) }

func affShl(w *warp, in *inst, width uint32) bool {
	f := w.f
	n := uint32(f.regs[in.b][0])
	if f.tags[in.b].stride != 0 || n >= width {
		return false
	}
	return w.affine(in, f.regs[in.a][0]<<n, f.tags[in.a].stride<<n)
}

// wide is an affine register as 32-bit numbers, if none of its lanes wraps.
func (w *warp) wide(slot int32, signed bool) (base, stride int64, ok bool) {
	v := w.f.regs[slot][0]
	stride = int64(int32(w.f.tags[slot].stride))
	if signed {
		base = int64(int32(v))
		last := base + stride*(warpSize-1)
		return base, stride, last == int64(int32(last))
	}
	base = int64(uint32(v))
	last := base + stride*(warpSize-1)
	return base, stride, last == int64(uint32(last))
}

func affWidenS32(w *warp, in *inst) bool { return affWiden(w, in, true) }
func affWidenU32(w *warp, in *inst) bool { return affWiden(w, in, false) }

func affWiden(w *warp, in *inst, signed bool) bool {
	base, stride, ok := w.wide(in.a, signed)
	return ok && w.affine(in, uint64(base), uint64(stride))
}

func affMadWideS32(w *warp, in *inst) bool { return affMadWide(w, in, true) }
func affMadWideU32(w *warp, in *inst) bool { return affMadWide(w, in, false) }

func affMadWide(w *warp, in *inst, signed bool) bool {
	a, sa, ok := w.wide(in.a, signed)
	if !ok {
		return false
	}
	b, sb, ok := w.wide(in.b, signed)
	if !ok || sa != 0 && sb != 0 {
		return false
	}
	f := w.f
	return w.affine(in, uint64(a*b)+f.regs[in.c][0], uint64(sa*b+sb*a)+f.tags[in.c].stride)
}
