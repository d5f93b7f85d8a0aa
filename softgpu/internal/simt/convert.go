package simt

import (
	"math"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// decodeCvt decodes cvt between all types of numbers.
func decodeCvt(d *decoder) error {
	if d.has("pack") {
		return d.cvtPack()
	}
	for _, m := range d.in.Mods {
		switch m {
		case "e4m3x2", "e5m2x2":
			return d.cvt8(m)
		case "tf32":
			return d.cvtTF32()
		case "rs", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e4m3x4", "e5m2x4", "e2m1x4", "e2m3x4", "e3m2x4", "s2f6x2":
			return missing("conversion with .%s is not supported", m)
		}
	}
	if len(d.types) < 2 {
		return missing("two types expected")
	}
	dt, at := d.typ(0), d.typ(1)
	if dt == ptx.F16x2 || dt == ptx.BF16x2 {
		return d.cvtPair(dt)
	}
	if dt.Size() == 0 || dt.Size() > 8 || at.Size() == 0 || at.Size() > 8 || at == ptx.F16x2 || at == ptx.BF16x2 || dt == ptx.Pred || at == ptx.Pred {
		return missing("conversion from %v to %v is not supported", at, dt)
	}
	if !dt.IsFloat() && !at.IsFloat() {
		return d.cvtInt(dt, at)
	}
	if v := d.cvtCommon(dt, at); v != nil {
		return d.pure(v, affNone, at)
	}
	return d.pure(lift1(d.conversion(dt, at)), affNone, at)
}

func (d *decoder) cvtInt(dt, at ptx.Type) error {
	if d.has("sat") {
		return d.pure(lift1(func(a uint64) uint64 { return saturateInt(extend(a, at), at.IsSigned(), dt) }), affNone, at)
	}
	t := at
	if dt.Size() <= at.Size() {
		t = dt
	}
	switch t {
	case ptx.S8:
		return d.pure(vecExtend[int8], affNone, at)
	case ptx.U8, ptx.B8:
		return d.pure(vecExtend[uint8], affNone, at)
	case ptx.S16:
		return d.pure(vecExtend[int16], affNone, at)
	case ptx.U16, ptx.B16:
		return d.pure(vecExtend[uint16], affNone, at)
	case ptx.S32, ptx.U32, ptx.B32:
		if dt.Size() == 4 && d.registerSize(0) == 4 {
			return d.pure(vecMove, affMove, at)
		}
		if t == ptx.S32 {
			return d.pure(simd.signExtend32, affWidenS32, at)
		}
		return d.pure(simd.zeroExtend32, affWidenU32, at)
	}
	return d.pure(vecMove, affMove, at)
}

// registerSize returns the size of the register operand i, 0 for other operands.
func (d *decoder) registerSize(i int) int {
	if r, ok := d.operand(i).(ptx.Reg); ok {
		return d.f.regs[regName(r)].typ.Size()
	}
	return 0
}

// cvtCommon returns the loop of a frequent conversion, nil for others.
func (d *decoder) cvtCommon(dt, at ptx.Type) vec {
	for _, m := range d.in.Mods {
		switch m {
		case "rn", "rzi":
		default:
			if _, ok := ptx.ParseType(m); !ok {
				return nil
			}
		}
	}
	switch {
	case dt == ptx.F32 && at == ptx.S32 && d.has("rn"):
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = uint64(f32bits(float32(int32(a[i]))))
			}
		}
	case dt == ptx.F32 && at == ptx.U32 && d.has("rn"):
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = uint64(f32bits(float32(uint32(a[i]))))
			}
		}
	case dt == ptx.F64 && at == ptx.S32:
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = f64bits(float64(int32(a[i])))
			}
		}
	case dt == ptx.F64 && at == ptx.F32:
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				x := float64(f32from(uint32(a[i])))
				if x != x {
					x = softfloat.Propagate(x, 0, 0)
				}
				d[i] = f64bits(x)
			}
		}
	case dt == ptx.F32 && at == ptx.F64 && d.has("rn"):
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				x := f64from(a[i])
				if x != x {
					d[i] = softfloat.F32.NarrowNaN(a[i])
					continue
				}
				d[i] = uint64(f32bits(float32(x)))
			}
		}
	case dt == ptx.S32 && at == ptx.F32 && d.has("rzi"):
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				x := f32from(uint32(a[i]))
				if x > -2147483648 && x < 2147483648 {
					d[i] = uint64(int32(x))
				} else {
					d[i] = softfloat.ToInt(float64(x), 32, true)
				}
			}
		}
	}
	return nil
}

// conversion returns the general conversion from or to a float.
func (d *decoder) conversion(dt, at ptx.Type) func(uint64) uint64 {
	mode, integral := d.cvtRounding()
	if integral && dt == ptx.F32 && at == ptx.F32 {
		return d.integralF32(mode)
	}
	ftz, sat, relu, satfinite := d.has("ftz"), d.has("sat"), d.has("relu"), d.has("satfinite")
	if dt == ptx.F16 {
		ftz = false // the GPU keeps denormals here, whatever the modifier says
	}
	from := decoderOf(at, ftz)
	switch {
	case !dt.IsFloat():
		if !integral {
			mode = softfloat.TowardZero
		}
		nan := nanAsInt(dt, at)
		return func(a uint64) uint64 {
			x := from(a)
			if x != x {
				return nan
			}
			return softfloat.ToInt(softfloat.RoundIntegral(x, mode), 8*dt.Size(), dt.IsSigned())
		}
	case at == ptx.BF16 && dt == ptx.F32 && ftz:
		return func(a uint64) uint64 {
			if a&0x7fff > 0x7f80 {
				return 0x7fffffff // with the modifier the GPU keeps no bits of a NaN
			}
			return uint64(softfloat.Flush32(uint32(a) << 16))
		}
	case at == ptx.BF16 && dt == ptx.F32:
		return func(a uint64) uint64 { return a & 0xffff << 16 }
	case at == dt && at != ptx.F16 && !integral && !ftz && !sat:
		return func(a uint64) uint64 { return a }
	case !at.IsFloat() && dt == ptx.F64:
		return func(a uint64) uint64 { return f64bits(softfloat.FromInt64(extend(a, at), at.IsSigned(), mode, sat)) }
	case !at.IsFloat():
		f := formatOf(dt)
		return func(a uint64) uint64 { return f.FromInt(extend(a, at), at.IsSigned(), mode, sat) }
	}
	return func(a uint64) uint64 {
		x := from(a)
		if x != x && !sat && !relu {
			return convertNaN(a, dt, at, ftz)
		}
		if integral {
			x = softfloat.RoundIntegral(x, mode)
		}
		if sat {
			x = softfloat.Saturate(x)
		}
		if relu && x <= 0 {
			x = 0
		}
		if satfinite {
			limit := formatOf(dt).Max()
			x = softfloat.Pick(false, softfloat.Pick(true, x, -limit, true), limit, true)
		}
		if dt == ptx.F64 {
			if x != x {
				return f64bits(softfloat.Propagate(x, 0, 0))
			}
			return f64bits(x)
		}
		f := formatOf(dt)
		if ftz && f.IsTiny(x, mode) {
			x = math.Copysign(0, x)
		}
		return f.Encode(x, mode)
	}
}

// nanAsInt returns what NaN becomes as an integer: zero, or the lowest bits of the
// hardware's "indefinite" number if 64 bits are involved.
func nanAsInt(dt, at ptx.Type) uint64 {
	switch {
	case dt.Size() == 8:
		return 1 << 63
	case at == ptx.F64:
		return extend(1<<(8*dt.Size()-1), dt)
	}
	return 0
}

// convertNaN returns what a NaN becomes as another floating type. Conversions from
// and to f64 keep the bits that fit.
func convertNaN(a uint64, dt, at ptx.Type, ftz bool) uint64 {
	switch {
	case at == ptx.F64 && dt == ptx.F64:
		return a | 1<<51
	case at == ptx.F64:
		return formatOf(dt).NarrowNaN(a)
	case dt == ptx.F64 && ftz:
		return 0x7fffffffe0000000
	case dt == ptx.F64:
		return formatOf(at).WidenNaN(a)
	}
	return formatOf(dt).NaN()
}

// integralF32 returns the rounding of f32 to integral values. The result needs no
// rounding to f32.
func (d *decoder) integralF32(mode softfloat.Rounding) func(uint64) uint64 {
	m := softfloat.Mode{FTZ: d.has("ftz"), Sat: d.has("sat")}
	return func(a uint64) uint64 {
		u := uint32(a)
		if m.FTZ {
			u = softfloat.Flush32(u)
		}
		return softfloat.Finish32(f32bits(float32(softfloat.RoundIntegral(float64(f32from(u)), mode))), m)
	}
}

// cvtRounding returns the rounding direction, and whether the result is an integral
// value.
func (d *decoder) cvtRounding() (mode softfloat.Rounding, integral bool) {
	switch d.hasAny("rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi") {
	case "rna":
		return softfloat.NearestAway, false
	case "rz":
		return softfloat.TowardZero, false
	case "rm":
		return softfloat.Down, false
	case "rp":
		return softfloat.Up, false
	case "rni":
		return softfloat.NearestEven, true
	case "rzi":
		return softfloat.TowardZero, true
	case "rmi":
		return softfloat.Down, true
	case "rpi":
		return softfloat.Up, true
	}
	return softfloat.NearestEven, false
}

// decoderOf returns a function that reads a float of type t.
func decoderOf(t ptx.Type, ftz bool) func(uint64) float64 {
	if t == ptx.F64 {
		return f64from
	}
	if f := formatOf(t); f != nil {
		return func(a uint64) float64 { return f.Decode(a, ftz && t == ptx.F32) }
	}
	return nil
}

// cvtPair decodes cvt.f16x2.f32 and cvt.bf16x2.f32. Operand a becomes the upper half.
func (d *decoder) cvtPair(dt ptx.Type) error {
	half := ptx.F16
	if dt == ptx.BF16x2 {
		half = ptx.BF16
	}
	if d.typ(1) != ptx.F32 {
		return missing("conversion from %v to %v is not supported", d.typ(1), dt)
	}
	one := d.conversion(half, ptx.F32)
	return d.pure(lift2(func(a, b uint64) uint64 { return one(a)<<16 | one(b)&0xffff }), affNone, ptx.F32, ptx.F32)
}

// cvt8 decodes conversions to and from pairs of 8-bit floats.
func (d *decoder) cvt8(name string) error {
	f := &softfloat.E4M3
	if name == "e5m2x2" {
		f = &softfloat.E5M2
	}
	relu := d.has("relu")
	if d.typ(0) == ptx.F16x2 && d.in.Mods[len(d.in.Mods)-1] == name {
		one := func(a uint64) uint64 {
			x := f.Decode(a, false)
			if relu && x <= 0 {
				x = 0
			}
			return softfloat.F16.Encode(x, softfloat.NearestEven)
		}
		return d.pure(lift1(func(a uint64) uint64 { return one(a>>8&0xff)<<16 | one(a&0xff) }), affNone, ptx.B16)
	}
	to := func(x float64) uint64 {
		if relu && x <= 0 {
			x = 0
		}
		limit := f.Max()
		if x > limit || x < -limit { // .satfinite is required
			x = math.Copysign(limit, x)
		}
		return f.Encode(x, softfloat.NearestEven)
	}
	switch d.typ(0) {
	case ptx.F32:
		return d.pure(lift2(func(a, b uint64) uint64 {
			return to(float64(f32from(uint32(a))))<<8 | to(float64(f32from(uint32(b))))
		}), affNone, ptx.F32, ptx.F32)
	case ptx.F16x2:
		return d.pure(lift1(func(a uint64) uint64 {
			return to(softfloat.F16.Decode(a>>16, false))<<8 | to(softfloat.F16.Decode(a, false))
		}), affNone, ptx.B32)
	}
	return missing("conversion from %v to .%s is not supported", d.typ(0), name)
}

// cvtTF32 decodes cvt to tf32, which keeps 10 bits of the fraction of an f32.
func (d *decoder) cvtTF32() error {
	relu, finite := d.has("relu"), d.has("satfinite")
	if d.has("rna") {
		return d.pure(lift1(func(a uint64) uint64 { return softfloat.TF32Away(a, finite) }), affNone, ptx.F32)
	}
	mode, _ := d.cvtRounding()
	return d.pure(lift1(func(a uint64) uint64 {
		x := float64(f32from(uint32(a)))
		if relu && x <= 0 {
			x = 0
		}
		return softfloat.TF32.Encode(x, mode) << 13
	}), affNone, ptx.F32)
}

// cvtPack decodes cvt.pack, which puts two saturated integers into the low bits and c
// above them.
func (d *decoder) cvtPack() error {
	if len(d.types) < 2 {
		return missing("two types expected")
	}
	dt, at := d.typ(0), d.typ(1)
	n := 8 * dt.Size()
	if at != ptx.S32 || n > 16 {
		return missing("packing %v into %v is not supported", at, dt)
	}
	m := uint64(1)<<n - 1
	v := lift3(func(a, b, c uint64) uint64 {
		hi := saturateInt(extend(a, at), true, dt) & m
		lo := saturateInt(extend(b, at), true, dt) & m
		return (c<<(2*n) | hi<<n | lo) & 0xffffffff
	})
	types := []ptx.Type{at, at, ptx.B32}
	return d.pure(v, affNone, types[:min(len(d.in.Operands)-1, 3)]...)
}
