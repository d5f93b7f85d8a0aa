package simt

// affOp is what an instruction that only computes does to affine registers. Arithmetic is modulo 2^64, which is
// also right for every narrower type.
type affOp uint8

const (
	affNone affOp = iota // the result need not be affine
	affMove
	affAdd
	affSub
	affNeg
	affMad
	affShl32
	affShl64
	affWidenS32
	affWidenU32
	affMadWideS32
	affMadWideU32

	affMul = affMad // with register 0 as c, which is zero
)

// affine is the contents of a register whose lane i has base + i*stride.
type affine struct{ base, stride uint64 }

// widen returns an affine register of 32-bit numbers as one of 64-bit numbers. ok is false if one of its lanes
// wraps around.
func (a affine) widen(signed bool) (d affine, ok bool) {
	stride := int64(int32(a.stride))
	if signed {
		base := int64(int32(a.base))
		last := base + stride*(warpSize-1)
		return affine{uint64(base), uint64(stride)}, last == int64(int32(last))
	}
	base := int64(uint32(a.base))
	last := base + stride*(warpSize-1)
	return affine{uint64(base), uint64(stride)}, last == int64(uint32(last))
}

// affine32 returns an affine register as 32-bit numbers. ok is false if one of its
// lanes wraps around.
func (w *warp) affine32(reg int32, signed bool) (base, stride int64, ok bool) {
	d, ok := affine{w.f.regs[reg][0], w.f.tags[reg].stride}.widen(signed)
	return int64(d.base), int64(d.stride), ok
}

// operation is an instruction that only computes, in the form in which it runs.
type operation struct {
	registers uint64 // d, a, b and c, from the lowest 16 bits up
	vec       vec
	aff       affOp
}

// mostRegisters bounds the registers that an operation can name.
const mostRegisters = 1 << 16

// stretch is where instructions in a row, none with a guard, only compute.
type stretch struct {
	end  int32  // the index behind them
	cost uint32 // of the instructions of the function before these
}

// findStretches fills f.operations and f.stretches.
func (f *function) findStretches() {
	f.operations, f.stretches = make([]operation, len(f.code)), make([]stretch, len(f.code)+1)
	cost := uint32(0)
	for i := range f.code {
		in := &f.code[i]
		if in.vec != nil {
			f.operations[i] = operation{uint64(in.d) | uint64(in.a)<<16 | uint64(in.b)<<32 | uint64(in.c)<<48, in.vec, in.aff}
		}
		f.stretches[i].cost = cost
		cost += in.cost
	}
	f.stretches[len(f.code)].cost = cost
	for i := len(f.code) - 1; i >= 0; i-- {
		end := int32(i)
		if in := &f.code[i]; in.kind == kindExec && in.vec != nil && in.guard < 0 && f.numRegs <= mostRegisters {
			end = max(f.stretches[i+1].end, end+1)
		}
		f.stretches[i].end = end
	}
	for i := range f.code { // one alone is faster by execPure
		if s := &f.stretches[i]; s.end == int32(i)+1 {
			s.end--
		}
	}
}

// compute runs the instructions from pc to before end, which only compute. All lanes are active. It does what execPure does for each, but looks at the state of the warp only once: that takes most of
// the time in builds with the race detector, which looks at each access to memory.
func (w *warp) compute(pc, end int) {
	f, n, k := w.f, w.n, w.k
	w.pc = end
	fn := f.fn
	k.instructions += uint64(fn.stretches[end].cost - fn.stretches[pc].cost)
	all, regs, tags := fn.operations[pc:end], f.regs, f.tags
	for i := range all {
		const mask = mostRegisters - 1
		o := &all[i]
		r := o.registers
		d, a, b, c := int(r&mask), int(r>>16&mask), int(r>>32&mask), int(r>>48)
		ka, kb, kc := tags[a].kind, uint8(kLanes|kUniform), uint8(kLanes|kUniform) // those of register 0
		if b|c != 0 {
			kb, kc = tags[b].kind, tags[c].kind
		}
		if ka&kKnown != 0 && kb&kKnown != 0 && kc&kKnown != 0 && f.few(d, a, b, c, o.vec, o.aff) {
			continue
		}
		if ka&kLanes == 0 {
			f.expand(int32(a))
		}
		if kb&kLanes == 0 {
			f.expand(int32(b))
		}
		if kc&kLanes == 0 {
			f.expand(int32(c))
		}
		o.vec(&regs[d], &regs[a], &regs[b], &regs[c], n)
		tags[d].kind = kLanes
	}
}

// few runs an operation on registers a, b and c, which are uniform or affine, without looking at all lanes. It
// reports whether that was possible.
func (f *frame) few(d, a, b, c int, v vec, op affOp) bool {
	regs, tags := f.regs, f.tags
	x, ok := affine{}, true
	switch op {
	case affMove:
		x = affine{regs[a][0], tags[a].stride}
	case affAdd:
		x = affine{regs[a][0] + regs[b][0], tags[a].stride + tags[b].stride}
	case affSub:
		x = affine{regs[a][0] - regs[b][0], tags[a].stride - tags[b].stride}
	case affNeg:
		x = affine{-regs[a][0], -tags[a].stride}
	case affMad:
		y, z := affine{regs[a][0], tags[a].stride}, affine{regs[b][0], tags[b].stride}
		x, ok = affine{y.base*z.base + regs[c][0], y.stride*z.base + z.stride*y.base + tags[c].stride}, y.stride == 0 || z.stride == 0
	case affShl32, affShl64:
		n := uint32(regs[b][0])
		x, ok = affine{regs[a][0] << n, tags[a].stride << n}, tags[b].stride == 0 && n < 32*uint32(op-affShl32+1)
	case affWidenS32, affWidenU32:
		x, ok = affine{regs[a][0], tags[a].stride}.widen(op == affWidenS32)
	case affMadWideS32, affMadWideU32:
		y, okY := affine{regs[a][0], tags[a].stride}.widen(op == affMadWideS32)
		z, okZ := affine{regs[b][0], tags[b].stride}.widen(op == affMadWideS32)
		x = affine{y.base*z.base + regs[c][0], y.stride*z.base + z.stride*y.base + tags[c].stride}
		ok = okY && okZ && (y.stride == 0 || z.stride == 0)
	default:
		ok = false
	}
	if ok {
		t := &tags[d]
		regs[d][0], t.stride, t.kind = x.base, x.stride, kAffine
		if x.stride == 0 {
			t.kind = kUniform
		}
		return true
	}
	if tags[a].kind&tags[b].kind&tags[c].kind&kUniform == 0 {
		return false
	}
	v(&regs[d], &regs[a], &regs[b], &regs[c], 1)
	t := &tags[d]
	t.stride, t.kind = 0, kUniform
	return true
}
