package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/ptx"
)

// byType returns the operation for an integer type. The types .b count as unsigned.
func byType(t ptx.Type, s16, u16, s32, u32, s64, u64 vec) vec {
	switch t {
	case ptx.S16:
		return s16
	case ptx.U16, ptx.B16:
		return u16
	case ptx.S32:
		return s32
	case ptx.U32, ptx.B32:
		return u32
	case ptx.S64:
		return s64
	case ptx.U64, ptx.B64:
		return u64
	}
	return nil
}

func decodeAdd(d *decoder) error {
	t := d.typ(0)
	switch {
	case t.IsFloat():
		return d.floatArith("add", t, 2)
	case d.has("cc"):
		return decodeCarry(d)
	case d.isPacked():
		return d.packedInt()
	case d.has("sat"):
		return d.pure(lift2(func(a, b uint64) uint64 {
			return saturate32(int64(int32(a)) + int64(int32(b)))
		}), affNone, t, t)
	case !integral(t):
		return d.badType()
	}
	return d.pure(simd.add, affAdd, t, t)
}

func decodeSub(d *decoder) error {
	t := d.typ(0)
	switch {
	case t.IsFloat():
		return d.floatArith("sub", t, 2)
	case d.has("cc"):
		return decodeCarry(d)
	case d.has("sat"):
		return d.pure(lift2(func(a, b uint64) uint64 {
			return saturate32(int64(int32(a)) - int64(int32(b)))
		}), affNone, t, t)
	case !integral(t):
		return d.badType()
	}
	return d.pure(simd.sub, affSub, t, t)
}

func decodeMul(d *decoder) error {
	t := d.typ(0)
	switch {
	case t.IsFloat():
		return d.floatArith("mul", t, 2)
	case !integral(t):
		return d.badType()
	case d.has("wide"):
		v, aff := mulWide(t, vecMulWide[int16], vecMulWide[uint16], simd.mulS32, simd.mulU32)
		if v == nil {
			return d.badType()
		}
		return d.pure(v, aff, t, t)
	case d.has("hi"):
		return d.pure(mulHi(t), affNone, t, t)
	}
	if t.Size() <= 4 {
		return d.pure(simd.mulU32, affMul, t, t)
	}
	return d.pure(vecMul, affMul, t, t)
}

// mulWide returns a product of twice the width, and its affine form for 32 bits.
func mulWide(t ptx.Type, s16, u16, s32, u32 vec) (vec, affOp) {
	switch t {
	case ptx.S32:
		return s32, affMadWideS32
	case ptx.U32:
		return u32, affMadWideU32
	}
	return byType(t, s16, u16, nil, nil, nil, nil), affNone
}

func mulHi(t ptx.Type) vec {
	return byType(t, vecMadHi[int16], vecMadHi[uint16], vecMadHi[int32], vecMadHi[uint32], vecMadHiS64, vecMadHiU64)
}

func decodeMad(d *decoder) error {
	t := d.typ(0)
	switch {
	case t.IsFloat():
		return d.floatArith("fma", t, 3)
	case d.has("cc"):
		return decodeCarry(d)
	case !integral(t):
		return d.badType()
	case d.has("wide"):
		v, aff := mulWide(t, vecMadWide[int16], vecMadWide[uint16], simd.madS32, simd.madU32)
		if v == nil {
			return d.badType()
		}
		return d.pure(v, aff, t, t, ptx.S64)
	case d.has("hi") && d.has("sat"):
		return d.pure(lift3(func(a, b, c uint64) uint64 {
			return saturate32(int64(int32(a))*int64(int32(b))>>32 + int64(int32(c)))
		}), affNone, t, t, t)
	case d.has("hi"):
		return d.pure(mulHi(t), affNone, t, t, t)
	}
	if t.Size() <= 4 {
		return d.pure(simd.madU32, affMad, t, t, t)
	}
	return d.pure(vecMad, affMad, t, t, t)
}

func decodeFma(d *decoder) error {
	if t := d.typ(0); t.IsFloat() {
		return d.floatArith("fma", t, 3)
	}
	return d.badType()
}

func decodeDiv(d *decoder) error {
	t := d.typ(0)
	if t.IsFloat() {
		return d.floatArith("div", t, 2)
	}
	v := byType(t, vecDiv[int16], vecDiv[uint16], vecDiv[int32], vecDiv[uint32], vecDiv[int64], vecDiv[uint64])
	return d.typed(v, 2)
}

func decodeRem(d *decoder) error {
	return d.typed(byType(d.typ(0), vecRem[int16], vecRem[uint16], vecRem[int32], vecRem[uint32], vecRem[int64], vecRem[uint64]), 2)
}

// typed emits an operation of n sources of the instruction's type. It fails if v is
// nil.
func (d *decoder) typed(v vec, n int) error {
	if v == nil {
		return d.badType()
	}
	t := d.typ(0)
	return d.pure(v, affNone, []ptx.Type{t, t, t}[:n]...)
}

func decodeAbs(d *decoder) error {
	t := d.typ(0)
	if t.IsFloat() {
		return d.floatSign("abs", t)
	}
	return d.typed(byType(t, vecAbs[int16], nil, vecAbs[int32], nil, vecAbs[int64], nil), 1)
}

func decodeNeg(d *decoder) error {
	t := d.typ(0)
	if t.IsFloat() {
		return d.floatSign("neg", t)
	}
	if !integral(t) {
		return d.badType()
	}
	return d.pure(vecNeg, affNeg, t)
}

func decodeMin(d *decoder) error {
	t := d.typ(0)
	if t.IsFloat() {
		return d.floatArith("min", t, len(d.in.Operands)-1)
	}
	switch {
	case d.isPacked():
		return d.packedInt()
	case d.has("relu"):
		return d.reluS32()
	}
	return d.typed(byType(t, vecMin[int16], vecMin[uint16], simd.minS32, simd.minU32, vecMin[int64], vecMin[uint64]), 2)
}

func decodeMax(d *decoder) error {
	t := d.typ(0)
	if t.IsFloat() {
		return d.floatArith("max", t, len(d.in.Operands)-1)
	}
	switch {
	case d.isPacked():
		return d.packedInt()
	case d.has("relu"):
		return d.reluS32()
	}
	return d.typed(byType(t, vecMax[int16], vecMax[uint16], simd.maxS32, simd.maxU32, vecMax[int64], vecMax[uint64]), 2)
}

func decodeMul24(d *decoder) error { return d.mul24(2) }

func decodeMad24(d *decoder) error { return d.mul24(3) }

// mul24 multiplies the low 24 bits. With .hi the result is bits 16 to 47 of the
// product.
func (d *decoder) mul24(n int) error {
	t := d.typ(0)
	cut := func(v uint64) int64 { return int64(v & 0xffffff) }
	if t == ptx.S32 {
		cut = func(v uint64) int64 { return int64(int32(v<<8) >> 8) }
	} else if t != ptx.U32 {
		return d.badType()
	}
	shift := 0
	if d.has("hi") {
		shift = 16
	}
	sat := d.has("sat")
	v := lift3(func(a, b, c uint64) uint64 {
		p := cut(a) * cut(b) >> shift
		if sat {
			return saturate32(int64(int32(p)) + int64(int32(c)))
		}
		return uint64(p) + c
	})
	return d.pure(v, affNone, []ptx.Type{t, t, t}[:n]...)
}

func sad[T integer](a, b, c uint64) uint64 {
	x, y := T(a), T(b)
	if x < y {
		x, y = y, x
	}
	return c + uint64(x) - uint64(y)
}

func decodeSad(d *decoder) error {
	return d.typed(byType(d.typ(0), lift3(sad[int16]), lift3(sad[uint16]), lift3(sad[int32]), lift3(sad[uint32]), lift3(sad[int64]), lift3(sad[uint64])), 3)
}

// decodeDot decodes dp4a (four products of bytes) and dp2a (two products of a 16-bit
// number and a byte).
func decodeDot(d *decoder) error {
	ta, tb := d.typ(0), d.typ(1)
	if ta != ptx.S32 && ta != ptx.U32 || tb != ptx.S32 && tb != ptx.U32 {
		return missing("types %v and %v are not supported here", ta, tb)
	}
	part := func(v uint64, i, bits int, t ptx.Type) uint64 {
		v = v >> (i * bits) << (64 - bits)
		if t == ptx.S32 {
			return uint64(int64(v) >> (64 - bits))
		}
		return v >> (64 - bits)
	}
	n, width, first := 4, 8, 0
	if d.in.Op == "dp2a" {
		n, width = 2, 16
		if d.has("hi") {
			first = 2
		}
	}
	v := lift3(func(a, b, c uint64) uint64 {
		for i := range n {
			c += part(a, i, width, ta) * part(b, first+i, 8, tb)
		}
		return c
	})
	return d.pure(v, affNone, ta, tb, ptx.U32)
}

// decodeCarry decodes the extended-precision arithmetic: add.cc, addc, sub.cc, subc,
// mad.cc and madc. The carry flag is a predicate of the frame, created on first use. All
// of them share it, so a chain can mix them.
func decodeCarry(d *decoder) error {
	t := d.typ(0)
	if !integral(t) || t.Size() < 4 {
		return d.badType()
	}
	if d.f.carry == 0 {
		d.f.carry = d.f.numPreds
		d.f.numPreds++
	}
	n := 2
	if d.in.Op == "mad" || d.in.Op == "madc" {
		n = 3
	}
	if err := d.want(n + 1); err != nil {
		return err
	}
	op := &carryOp{
		in:   d.in.Op == "addc" || d.in.Op == "subc" || d.in.Op == "madc",
		out:  d.has("cc"),
		sub:  d.in.Op == "sub" || d.in.Op == "subc",
		mul:  n == 3,
		hi:   d.has("hi"),
		typ:  t,
		flag: d.f.carry,
	}
	out := inst{exec: execCarry, aux: op}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	at := [...]*int32{&out.a, &out.b, &out.c}
	for i := range n {
		if *at[i], err = d.source(i+1, t); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

type carryOp struct {
	in, out, sub, mul, hi bool
	typ                   ptx.Type
	flag                  int32
}

func execCarry(w *warp, in *inst) {
	op := in.aux.(*carryOp)
	f := w.f
	a, b, c := f.expand(in.a), f.expand(in.b), f.expand(in.c)
	flags := f.preds[op.flag]
	var set uint32
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		x, y := a[i], b[i]
		if op.mul {
			x, y = mulPart(x, y, op), c[i]
		}
		var carry uint64
		if op.in {
			carry = uint64(flags >> i & 1)
		}
		r, out := addCarry(x, y, carry, op)
		w.k.tmp[i] = r
		set |= uint32(out) << i
	}
	w.write(in.d)
	if op.out {
		f.preds[op.flag] = flags&^w.active | set
	}
}

func mulPart(x, y uint64, op *carryOp) uint64 {
	if op.typ.Size() == 4 {
		p := uint64(uint32(x)) * uint64(uint32(y))
		if op.typ.IsSigned() {
			p = uint64(int64(int32(x)) * int64(int32(y)))
		}
		if op.hi {
			return p >> 32
		}
		return p
	}
	hi, lo := bits.Mul64(x, y)
	if op.typ.IsSigned() {
		hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
	}
	if op.hi {
		return hi
	}
	return lo
}

// addCarry adds x, y and the carry flag. A subtraction adds the complement of y, so the
// flag is the inverse of a borrow: 1 before a subtraction without a flag.
func addCarry(x, y, carry uint64, op *carryOp) (r, out uint64) {
	if op.sub {
		y = ^y
		if !op.in {
			carry = 1
		}
	}
	if op.typ.Size() == 8 {
		return bits.Add64(x, y, carry)
	}
	r = x&0xffffffff + y&0xffffffff + carry
	return r & 0xffffffff, r >> 32
}

// packedInt returns the operation of that name on both 16-bit halves of a register,
// nil if there is none.
func packedInt(op string, isSigned, relu bool) func(a, b uint64) uint64 {
	t := ptx.U16
	if isSigned {
		t = ptx.S16
	}
	one := reduction(op, t)
	if one == nil {
		return nil
	}
	half := func(a, b uint64) uint64 {
		v := one(a, b) & 0xffff
		if relu && v&0x8000 != 0 {
			v = 0
		}
		return v
	}
	return func(a, b uint64) uint64 {
		return half(a>>16&0xffff, b>>16&0xffff)<<16 | half(a&0xffff, b&0xffff)
	}
}

// isPacked reports whether the instruction works on u16x2 or s16x2.
func (d *decoder) isPacked() bool { return d.hasAny("u16x2", "s16x2") != "" }

func (d *decoder) packedInt() error {
	f := packedInt(d.in.Op, d.has("s16x2"), d.has("relu"))
	if f == nil {
		return d.badType()
	}
	return d.pure(lift2(f), affNone, ptx.B32, ptx.B32)
}

// reluS32 emits min or max of s32, where a negative result becomes zero.
func (d *decoder) reluS32() error {
	f := reduction(d.in.Op, ptx.S32)
	return d.pure(lift2(func(a, b uint64) uint64 {
		if v := f(a, b); int32(v) > 0 {
			return v
		}
		return 0
	}), affNone, ptx.S32, ptx.S32)
}

// reduction returns the operation of that name on two integers, nil if there is none.
func reduction(op string, t ptx.Type) func(a, b uint64) uint64 {
	if !integral(t) {
		return nil
	}
	switch op {
	case "add":
		return func(a, b uint64) uint64 { return a + b }
	case "and":
		return func(a, b uint64) uint64 { return a & b }
	case "or":
		return func(a, b uint64) uint64 { return a | b }
	case "xor":
		return func(a, b uint64) uint64 { return a ^ b }
	case "min", "max":
		return func(a, b uint64) uint64 {
			x, y := extend(a, t), extend(b, t)
			smaller := x < y
			if t.IsSigned() {
				smaller = int64(x) < int64(y)
			}
			if smaller == (op == "min") {
				return x
			}
			return y
		}
	}
	return nil
}
