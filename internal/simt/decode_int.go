package simt

import "github.com/ferrygpu/ferry/ptx"

// byType picks the operation of an integer type; b types count as unsigned.
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

func (d *decoder) badType() error { return missing("type %v is not supported for it", d.typ(0)) }

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
		}), nil, t, t)
	case !integral(t):
		return d.badType()
	}
	return d.pure(wide.add, affAdd, t, t)
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
		}), nil, t, t)
	case !integral(t):
		return d.badType()
	}
	return d.pure(wide.sub, affSub, t, t)
}

func saturate32(v int64) uint64 {
	return uint64(uint32(int32(min(max(v, -1<<31), 1<<31-1))))
}

func decodeMul(d *decoder) error {
	t := d.typ(0)
	switch {
	case t.IsFloat():
		return d.floatArith("mul", t, 2)
	case !integral(t):
		return d.badType()
	case d.has("wide"):
		v, aff := mulWide(t, vecMulWide[int16], vecMulWide[uint16], wide.mulS32, wide.mulU32)
		if v == nil {
			return d.badType()
		}
		return d.pure(v, aff, t, t)
	case d.has("hi"):
		return d.pure(mulHi(t), nil, t, t)
	}
	if t.Size() <= 4 {
		return d.pure(wide.mulU32, affMul, t, t)
	}
	return d.pure(vecMul, affMul, t, t)
}

// mulWide is a product of twice the width, with its affine form for 32 bits.
func mulWide(t ptx.Type, s16, u16, s32, u32 vec) (vec, func(*warp, *inst) bool) {
	switch t {
	case ptx.S32:
		return s32, affMadWideS32
	case ptx.U32:
		return u32, affMadWideU32
	}
	return byType(t, s16, u16, nil, nil, nil, nil), nil
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
		v, aff := mulWide(t, vecMadWide[int16], vecMadWide[uint16], wide.madS32, wide.madU32)
		if v == nil {
			return d.badType()
		}
		return d.pure(v, aff, t, t, ptx.S64)
	case d.has("hi") && d.has("sat"):
		return d.pure(lift3(func(a, b, c uint64) uint64 {
			return saturate32(int64(int32(a))*int64(int32(b))>>32 + int64(int32(c)))
		}), nil, t, t, t)
	case d.has("hi"):
		return d.pure(mulHi(t), nil, t, t, t)
	}
	if t.Size() <= 4 {
		return d.pure(wide.madU32, affMad, t, t, t)
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

// typed emits an operation of n sources of the instruction's type, if there is one.
func (d *decoder) typed(v vec, n int) error {
	if v == nil {
		return d.badType()
	}
	t := d.typ(0)
	return d.pure(v, nil, []ptx.Type{t, t, t}[:n]...)
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
	return d.typed(byType(t, vecMin[int16], vecMin[uint16], wide.minS32, wide.minU32, vecMin[int64], vecMin[uint64]), 2)
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
	return d.typed(byType(t, vecMax[int16], vecMax[uint16], wide.maxS32, wide.maxU32, vecMax[int64], vecMax[uint64]), 2)
}

func decodeMul24(d *decoder) error { return d.mul24(2) }
func decodeMad24(d *decoder) error { return d.mul24(3) }

// mul24 multiplies the low 24 bits; .hi gives bits 16 to 47 of the product.
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
	return d.pure(v, nil, []ptx.Type{t, t, t}[:n]...)
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

// decodeDot is dp4a, four products of bytes, and dp2a, two of a half and a byte.
func decodeDot(d *decoder) error {
	ta, tb := d.typ(0), d.typ(1)
	if ta != ptx.S32 && ta != ptx.U32 || tb != ptx.S32 && tb != ptx.U32 {
		return missing("types %v and %v are not supported for it", ta, tb)
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
	return d.pure(v, nil, ta, tb, ptx.U32)
}
