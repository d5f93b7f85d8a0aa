package simt

import (
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// floatMode reads the modifiers of a floating-point instruction.
func (d *decoder) floatMode() softfloat.Mode {
	m := softfloat.Mode{
		FTZ: d.has("ftz"), Sat: d.has("sat"), ReLU: d.has("relu"),
		NaN: d.has("NaN"), XorSign: d.has("xorsign"), Abs: d.has("abs") && d.in.Op != "abs",
	}
	switch d.hasAny("rz", "rm", "rp") {
	case "rz":
		m.Round = softfloat.TowardZero
	case "rm":
		m.Round = softfloat.Down
	case "rp":
		m.Round = softfloat.Up
	}
	return m
}

// floatArith decodes add, sub, mul, fma, div, min or max of n floats.
func (d *decoder) floatArith(op string, t ptx.Type, n int) error {
	m := d.floatMode()
	types := []ptx.Type{t, t, t}[:min(n, 3)]
	if d.typ(1) != ptx.NoType {
		return missing("%s of mixed types is not supported", op)
	}
	var v vec
	switch {
	case op == "min" || op == "max":
		v = minMax(op, t, m)
	case t == ptx.F32:
		v = arithF32(op, m, d.hasAny("approx", "full"))
	case t == ptx.F64:
		v = arithF64(op, m)
	case op == "div":
		return d.badType()
	default:
		v = arithNarrow(op, t, m)
	}
	if v == nil {
		return d.badType()
	}
	return d.pure(v, affNone, types...)
}

// arithF32 returns the fastest loop that is exact for the modifiers.
func arithF32(op string, m softfloat.Mode, approx string) vec {
	unmodified := m == softfloat.Mode{}
	general := func(a, b, c uint64) uint64 {
		x, y, z := softfloat.F32.Decode(a, m.FTZ), softfloat.F32.Decode(b, m.FTZ), softfloat.F32.Decode(c, m.FTZ)
		return softfloat.F32.Finish(softfloat.Arith(op, x, y, z, m.Round == softfloat.Down), m)
	}
	switch {
	case op == "div" && approx != "":
		f := softfloat.DivApprox32(approx, m.FTZ)
		return lift2(func(a, b uint64) uint64 { return softfloat.Finish32(f(uint32(a), uint32(b)), m) })
	case op == "add" && unmodified:
		return simd.addF32
	case op == "sub" && unmodified:
		return simd.subF32
	case op == "mul" && unmodified:
		return simd.mulF32
	case op == "fma" && unmodified:
		return simd.fmaF32
	case m.Round != softfloat.NearestEven:
		return lift3(general)
	}
	load := func(v uint64) float32 { return f32from(uint32(v)) }
	if m.FTZ {
		load = func(v uint64) float32 { return f32from(softfloat.Flush32(uint32(v))) }
	}
	switch op {
	case "add":
		return lift2(func(a, b uint64) uint64 { return softfloat.Finish32(f32bits(load(a)+load(b)), m) })
	case "sub":
		return lift2(func(a, b uint64) uint64 { return softfloat.Finish32(f32bits(load(a)-load(b)), m) })
	case "mul":
		return lift2(func(a, b uint64) uint64 {
			u := f32bits(load(a) * load(b))
			if m.FTZ && u&0x7fffffff == softfloat.Least32 {
				return general(a, b, 0)
			}
			return softfloat.Finish32(u, m)
		})
	case "div":
		return lift2(func(a, b uint64) uint64 { return softfloat.Finish32(f32bits(load(a)/load(b)), m) })
	case "fma":
		return lift3(func(a, b, c uint64) uint64 {
			u := f32bits(softfloat.FMA32(load(a), load(b), load(c)))
			if m.FTZ && u&0x7fffffff == softfloat.Least32 {
				return general(a, b, c)
			}
			return softfloat.Finish32(u, m)
		})
	}
	return nil
}

// arithF64 returns a special loop for the frequent operations, a general loop for the
// others.
func arithF64(op string, m softfloat.Mode) vec {
	if m.Round == softfloat.NearestEven && !m.Sat {
		switch op {
		case "add":
			return simd.addF64
		case "mul":
			return simd.mulF64
		case "fma":
			return simd.fmaF64
		}
	}
	return lift3(func(a, b, c uint64) uint64 {
		r := softfloat.Arith64(op, f64from(a), f64from(b), f64from(c), m.Round)
		if m.Sat {
			r = softfloat.Saturate(r)
		}
		return f64bits(r)
	})
}

// arithNarrow returns the loop of an operation on f16 and bf16, one or two in a
// register.
func arithNarrow(op string, t ptx.Type, m softfloat.Mode) vec {
	f := formatOf(t)
	if f == nil {
		return nil
	}
	one := func(a, b, c uint64) uint64 {
		x, y, z := f.Decode(a, m.FTZ), f.Decode(b, m.FTZ), f.Decode(c, m.FTZ)
		return f.Finish(softfloat.Arith(op, x, y, z, m.Round == softfloat.Down), m)
	}
	return lift3(packed(t, one))
}

// packed turns a function of 16-bit values into a function of registers that hold one
// or two of them.
func packed(t ptx.Type, one func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	if t != ptx.F16x2 && t != ptx.BF16x2 {
		return one
	}
	return func(a, b, c uint64) uint64 {
		lo := one(a&0xffff, b&0xffff, c&0xffff)
		hi := one(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)
		return hi<<16 | lo&0xffff
	}
}

// minMax returns min or max of two floats of any type.
func minMax(op string, t ptx.Type, m softfloat.Mode) vec {
	larger := op == "max"
	if t == ptx.F64 {
		return lift2(func(a, b uint64) uint64 { return f64bits(softfloat.MinMax64(larger, f64from(a), f64from(b), m)) })
	}
	f := formatOf(t)
	if f == nil {
		return nil
	}
	if t == ptx.F32 && m == (softfloat.Mode{}) {
		if larger {
			return lift2(func(a, b uint64) uint64 { return softfloat.Max32(uint32(a), uint32(b)) })
		}
		return lift2(func(a, b uint64) uint64 { return softfloat.Min32(uint32(a), uint32(b)) })
	}
	return lift3(packed(t, func(a, b, _ uint64) uint64 { return f.MinMax(larger, a, b, m) }))
}

// floatSign decodes neg and abs, which change the sign bit only.
func (d *decoder) floatSign(op string, t ptx.Type) error {
	signs := signsOf(t)
	ftz := d.has("ftz")
	neg := op == "neg"
	return d.pure(lift1(func(a uint64) uint64 {
		if ftz {
			a = flush(a, t)
		}
		b := a &^ signs
		if neg {
			b = a ^ signs
		}
		return canonical(a, b, t)
	}), affNone, t)
}

// signsOf returns the sign bits of a register of type t.
func signsOf(t ptx.Type) uint64 {
	switch t {
	case ptx.F16, ptx.BF16:
		return 0x8000
	case ptx.F16x2, ptx.BF16x2:
		return 0x80008000
	case ptx.F32:
		return 1 << 31
	case ptx.F64:
		return 1 << 63
	}
	return 0
}

// canonical returns b. If a is NaN, it returns what an addition would make of a: the
// sign of a NaN does not change.
func canonical(a, b uint64, t ptx.Type) uint64 {
	switch t {
	case ptx.F64:
		if x := f64from(a); x != x {
			return a | 1<<51
		}
	case ptx.F32:
		if a&0x7fffffff > 0x7f800000 {
			return softfloat.NaN32
		}
	case ptx.F16x2, ptx.BF16x2:
		half := ptx.F16
		if t == ptx.BF16x2 {
			half = ptx.BF16
		}
		return canonical(a>>16, b>>16, half)&0xffff<<16 | canonical(a, b, half)&0xffff
	case ptx.F16:
		if a&0x7fff > 0x7c00 {
			return softfloat.F16.NaN()
		}
	case ptx.BF16:
		if a&0x7fff > 0x7f80 {
			return softfloat.BF16.NaN()
		}
	}
	return b
}

// flush turns denormals of type t into zeros.
func flush(a uint64, t ptx.Type) uint64 {
	switch t {
	case ptx.F32:
		return uint64(softfloat.Flush32(uint32(a)))
	case ptx.F16:
		if a&0x7c00 == 0 {
			return a & 0x8000
		}
	case ptx.F16x2:
		return flush(a&0xffff, ptx.F16) | flush(a>>16&0xffff, ptx.F16)<<16
	}
	return a
}

// decodeCopysign decodes copysign, which gives b the sign of a.
func decodeCopysign(d *decoder) error {
	t := d.typ(0)
	s := uint64(1) << 31
	if t == ptx.F64 {
		s = 1 << 63
	} else if t != ptx.F32 {
		return d.badType()
	}
	return d.pure(lift2(func(a, b uint64) uint64 { return a&s | b&^s }), affNone, t, t)
}

func decodeTestp(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	t := d.typ(0)
	if t != ptx.F32 && t != ptx.F64 {
		return d.badType()
	}
	kind := d.hasAny("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	p, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	a, err := d.source(1, t)
	if err != nil {
		return err
	}
	mant, top := 23, uint64(0xff)
	if t == ptx.F64 {
		mant, top = 52, 0x7ff
	}
	test := func(a, _ *lanes, n int) (m uint32) {
		for i := range a[:n] {
			exp, frac := a[i]>>mant&top, a[i]&(1<<mant-1)
			var r bool
			switch kind {
			case "finite":
				r = exp != top
			case "infinite":
				r = exp == top && frac == 0
			case "number":
				r = exp != top || frac == 0
			case "notanumber":
				r = exp == top && frac != 0
			case "normal":
				r = exp != top && exp != 0 || exp == 0 && frac == 0
			case "subnormal":
				r = exp == 0 && frac != 0
			}
			m |= bit(r) << i
		}
		return m
	}
	d.emit(inst{exec: execSetp, cmp: test, p: p, q: -1, a: a, aux: &combine{}})
	return nil
}

// decodeUnaryFloat decodes rcp, sqrt, rsqrt, and the approximations sin, cos, lg2, ex2
// and tanh.
func decodeUnaryFloat(d *decoder) error {
	t := d.typ(0)
	m := d.floatMode()
	op := d.in.Op
	switch t {
	case ptx.F64:
		if d.has("approx") {
			return d.pure(lift1(softfloat.Approx64(op, m.FTZ)), affNone, t)
		}
		return d.pure(lift1(func(a uint64) uint64 { return f64bits(softfloat.Exact64(op, f64from(a), m.Round)) }), affNone, t)
	case ptx.F32:
		if d.has("approx") || op != "rcp" && op != "sqrt" {
			f := softfloat.Approx32(op, m.FTZ)
			return d.pure(lift1(func(a uint64) uint64 { return uint64(f(uint32(a))) }), affNone, t)
		}
		return d.pure(lift1(func(a uint64) uint64 { return softfloat.Exact32(op, a, m) }), affNone, t)
	case ptx.F16, ptx.F16x2, ptx.BF16, ptx.BF16x2:
		f := formatOf(t)
		if op != "ex2" && op != "tanh" {
			break
		}
		half := softfloat.ApproxHalf(op, f, m.FTZ)
		one := packed(t, func(a, _, _ uint64) uint64 { return half(a) })
		return d.pure(lift1(func(a uint64) uint64 { return one(a, 0, 0) }), affNone, t)
	}
	return d.badType()
}
