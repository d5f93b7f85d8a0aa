package simt

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/ptx"
)

// decodeCvt is cvt between all types of numbers.
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
		return missing("two types are wanted")
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
		return d.pure(v, nil, at)
	}
	return d.pure(lift1(d.conversion(dt, at)), nil, at)
}

func (d *decoder) cvtInt(dt, at ptx.Type) error {
	if d.has("sat") {
		return d.pure(lift1(func(a uint64) uint64 { return saturateInt(extend(a, at), at.IsSigned(), dt) }), nil, at)
	}
	t := at
	if dt.Size() <= at.Size() {
		t = dt
	}
	switch t {
	case ptx.S8:
		return d.pure(vecExtend[int8], nil, at)
	case ptx.U8, ptx.B8:
		return d.pure(vecExtend[uint8], nil, at)
	case ptx.S16:
		return d.pure(vecExtend[int16], nil, at)
	case ptx.U16, ptx.B16:
		return d.pure(vecExtend[uint16], nil, at)
	case ptx.S32, ptx.U32, ptx.B32:
		if dt.Size() == 4 && d.wide(0) == 4 {
			return d.pure(vecMove, affMove, at)
		}
		if t == ptx.S32 {
			return d.pure(wide.signExtend32, affWidenS32, at)
		}
		return d.pure(wide.zeroExtend32, affWidenU32, at)
	}
	return d.pure(vecMove, affMove, at)
}

// wide is the size of the register that operand i is.
func (d *decoder) wide(i int) int {
	if r, ok := d.operand(i).(ptx.Reg); ok {
		return d.f.regs[regName(r)].typ.Size()
	}
	return 0
}

// saturateInt clamps a number, extended to 64 bits, to the range of t.
func saturateInt(v uint64, isSigned bool, t ptx.Type) uint64 {
	n := 8 * t.Size()
	if isSigned {
		s := int64(v)
		if t.IsSigned() {
			return uint64(min(max(s, -1<<(n-1)), 1<<(n-1)-1))
		}
		if s < 0 {
			return 0
		}
		v = uint64(s)
	}
	if t.IsSigned() {
		return min(v, 1<<(n-1)-1)
	}
	return min(v, ^uint64(0)>>(64-n))
}

// cvtCommon has the loops of conversions that are met often.
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
					x = propagate(x, 0, 0)
				}
				d[i] = f64bits(x)
			}
		}
	case dt == ptx.F32 && at == ptx.F64 && d.has("rn"):
		return func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				x := f64from(a[i])
				if x != x {
					d[i] = narrowNaN(a[i], ptx.F32)
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
					d[i] = floatToInt(float64(x), ptx.S32)
				}
			}
		}
	}
	return nil
}

// conversion is the general conversion from or to a float.
func (d *decoder) conversion(dt, at ptx.Type) func(uint64) uint64 {
	mode, integral := d.cvtRounding()
	if integral && dt == ptx.F32 && at == ptx.F32 {
		return d.integralF32(mode)
	}
	ftz, sat, relu, satfinite := d.has("ftz"), d.has("sat"), d.has("relu"), d.has("satfinite")
	if dt == ptx.F16 {
		ftz = false // hardware keeps denormals here, whatever the modifier says
	}
	from := decoderOf(at, ftz)
	switch {
	case !dt.IsFloat():
		if !integral {
			mode = roundZero
		}
		nan := nanAsInt(dt, at)
		return func(a uint64) uint64 {
			x := from(a)
			if x != x {
				return nan
			}
			return floatToInt(roundIntegral(x, mode), dt)
		}
	case at == ptx.BF16 && dt == ptx.F32:
		return func(a uint64) uint64 { return a & 0xffff << 16 }
	case at == dt && at != ptx.F16 && !integral && !ftz && !sat:
		return func(a uint64) uint64 { return a }
	case !at.IsFloat():
		return func(a uint64) uint64 { return intToFloat(extend(a, at), at.IsSigned(), dt, mode, sat) }
	}
	return func(a uint64) uint64 {
		x := from(a)
		if x != x && !sat && !relu {
			return convertNaN(a, dt, at, ftz)
		}
		if integral {
			x = roundIntegral(x, mode)
		}
		if sat {
			x = saturate(x)
		}
		if relu && x <= 0 {
			x = 0
		}
		if satfinite {
			limit := decodeFloat(formatOf(dt), formatOf(dt).maxBits, false)
			x = pickFloat(false, pickFloat(true, x, -limit, true), limit, true)
		}
		if dt == ptx.F64 {
			if x != x {
				return f64bits(propagate(x, 0, 0))
			}
			return f64bits(x)
		}
		f := formatOf(dt)
		if ftz && tiny(f, x, mode) {
			x = math.Copysign(0, x)
		}
		return encode(f, x, mode)
	}
}

// nanAsInt is what NaN becomes as an integer: zero, or the lowest bits of hardware's
// "indefinite" number where 64 bits are involved.
func nanAsInt(dt, at ptx.Type) uint64 {
	switch {
	case dt.Size() == 8:
		return 1 << 63
	case at == ptx.F64:
		return extend(1<<(8*dt.Size()-1), dt)
	}
	return 0
}

// convertNaN is what a NaN becomes as another type: those from and to f64 keep the bits
// that fit.
func convertNaN(a uint64, dt, at ptx.Type, ftz bool) uint64 {
	switch {
	case at == ptx.F64 && dt == ptx.F64:
		return a | 1<<51
	case at == ptx.F64:
		return narrowNaN(a, dt)
	case dt == ptx.F64 && ftz:
		return 0x7fffffffe0000000
	case dt == ptx.F64:
		f := formatOf(at)
		sign, frac := a>>(f.size-1)&1, a&(1<<f.mant-1)
		return sign<<63 | 0x7ff<<52 | 1<<51 | frac<<(52-f.mant)
	}
	return formatOf(dt).nan
}

// narrowNaN is a NaN of f64 in a smaller format: its sign and upper bits stay.
func narrowNaN(a uint64, dt ptx.Type) uint64 {
	f := formatOf(dt)
	top := uint64(1)<<(f.size-1-f.mant) - 1
	return a>>63<<(f.size-1) | top<<f.mant | 1<<(f.mant-1) | a&(1<<52-1)>>(52-f.mant)
}

// integralF32 rounds f32 to integral values, which need no rounding to f32 then.
func (d *decoder) integralF32(mode rounding) func(uint64) uint64 {
	m := floatMode{ftz: d.has("ftz"), sat: d.has("sat")}
	return func(a uint64) uint64 {
		u := uint32(a)
		if m.ftz {
			u = flush32(u)
		}
		return finish32(f32bits(float32(roundIntegral(float64(f32from(u)), mode))), m)
	}
}

// cvtRounding is the direction, and whether it is to an integral value.
func (d *decoder) cvtRounding() (mode rounding, integral bool) {
	switch d.hasAny("rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi") {
	case "rna":
		return roundAway, false
	case "rz":
		return roundZero, false
	case "rm":
		return roundDown, false
	case "rp":
		return roundUp, false
	case "rni":
		return roundNearest, true
	case "rzi":
		return roundZero, true
	case "rmi":
		return roundDown, true
	case "rpi":
		return roundUp, true
	}
	return roundNearest, false
}

// decoderOf reads a float of type t.
func decoderOf(t ptx.Type, ftz bool) func(uint64) float64 {
	if t == ptx.F64 {
		return f64from
	}
	if f := formatOf(t); f != nil {
		return func(a uint64) float64 { return decodeFloat(f, a, ftz && t == ptx.F32) }
	}
	return nil
}

func roundIntegral(x float64, mode rounding) float64 {
	switch mode {
	case roundZero:
		return math.Trunc(x)
	case roundDown:
		return math.Floor(x)
	case roundUp:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// floatToInt clamps to the range of t; NaN becomes zero.
func floatToInt(x float64, t ptx.Type) uint64 {
	n := 8 * t.Size()
	if x != x {
		return 0
	}
	if t.IsSigned() {
		limit := math.Ldexp(1, n-1)
		switch {
		case x >= limit:
			return 1<<(n-1) - 1
		case x <= -limit:
			return ^uint64(0) << (n - 1)
		}
		return uint64(int64(x))
	}
	switch {
	case x <= 0:
		return 0
	case x >= math.Ldexp(1, n):
		return ^uint64(0) >> (64 - n)
	}
	return uint64(x)
}

// intToFloat converts a number, extended to 64 bits, with one rounding.
func intToFloat(v uint64, isSigned bool, dt ptx.Type, mode rounding, sat bool) uint64 {
	neg := isSigned && int64(v) < 0
	m := v
	if neg {
		m = -v
	}
	if dt == ptx.F64 {
		x := intToF64(m, neg, mode)
		if sat {
			x = saturate(x)
		}
		return f64bits(x)
	}
	// 53 bits hold the number with all but its lowest bits in their places, and
	// the last one says whether those are not zero.
	if n := bits.Len64(m); n > 53 {
		cut := n - 53
		low := m & (1<<cut - 1)
		m >>= cut
		if low != 0 {
			m |= 1
		}
		return finishInt(math.Ldexp(float64(m), cut), neg, dt, mode, sat)
	}
	return finishInt(float64(m), neg, dt, mode, sat)
}

func finishInt(x float64, neg bool, dt ptx.Type, mode rounding, sat bool) uint64 {
	if neg {
		x = -x
	}
	if sat {
		x = saturate(x)
	}
	return encode(formatOf(dt), x, mode)
}

func intToF64(m uint64, neg bool, mode rounding) float64 {
	n := bits.Len64(m)
	cut := max(n-53, 0)
	kept, lost := m>>cut, m&(1<<cut-1)
	if cut > 0 && roundsUp(mode, neg, kept&1 != 0, lost, cut) {
		kept++
	}
	x := math.Ldexp(float64(kept), cut)
	if neg {
		x = -x
	}
	return x
}

// cvtPair is cvt.f16x2.f32 and cvt.bf16x2.f32: a is the upper half.
func (d *decoder) cvtPair(dt ptx.Type) error {
	half, f := ptx.F16, &formatF16
	if dt == ptx.BF16x2 {
		half, f = ptx.BF16, &formatBF16
	}
	if d.typ(1) != ptx.F32 {
		return missing("conversion from %v to %v is not supported", d.typ(1), dt)
	}
	if d.has("satfinite") && f == nil {
		return d.badType()
	}
	one := d.conversion(half, ptx.F32)
	return d.pure(lift2(func(a, b uint64) uint64 { return one(a)<<16 | one(b)&0xffff }), nil, ptx.F32, ptx.F32)
}

// cvt8 converts to or from pairs of 8-bit floats.
func (d *decoder) cvt8(name string) error {
	f := &formatE4M3
	if name == "e5m2x2" {
		f = &formatE5M2
	}
	relu := d.has("relu")
	if d.typ(0) == ptx.F16x2 && d.in.Mods[len(d.in.Mods)-1] == name {
		one := func(a uint64) uint64 {
			x := decodeFloat(f, a, false)
			if relu && x <= 0 {
				x = 0
			}
			return encode(&formatF16, x, roundNearest)
		}
		return d.pure(lift1(func(a uint64) uint64 { return one(a>>8&0xff)<<16 | one(a&0xff) }), nil, ptx.B16)
	}
	to := func(x float64) uint64 {
		if relu && x <= 0 {
			x = 0
		}
		limit := decodeFloat(f, f.maxBits, false)
		if x > limit || x < -limit { // .satfinite, which it must have
			x = math.Copysign(limit, x)
		}
		return encode(f, x, roundNearest)
	}
	switch d.typ(0) {
	case ptx.F32:
		return d.pure(lift2(func(a, b uint64) uint64 {
			return to(float64(f32from(uint32(a))))<<8 | to(float64(f32from(uint32(b))))
		}), nil, ptx.F32, ptx.F32)
	case ptx.F16x2:
		return d.pure(lift1(func(a uint64) uint64 {
			return to(decodeFloat(&formatF16, a>>16, false))<<8 | to(decodeFloat(&formatF16, a, false))
		}), nil, ptx.B32)
	}
	return missing("conversion from %v to .%s is not supported", d.typ(0), name)
}

// cvtTF32 keeps 10 bits of the fraction of an f32. With .rna hardware adds and cuts
// integers; a NaN is cut alone.
func (d *decoder) cvtTF32() error {
	relu, finite := d.has("relu"), d.has("satfinite")
	if d.has("rna") {
		return d.pure(lift1(func(a uint64) uint64 {
			if a&0x7fffffff > 0x7f800000 && !finite {
				return a & 0xffffe000
			}
			v := a + 0x1000
			if finite && v>>23&0xff == 0xff {
				v -= 0x2000
			}
			return v & 0xffffe000
		}), nil, ptx.F32)
	}
	mode, _ := d.cvtRounding()
	f := format{size: 19, mant: 10, bias: 127, nan: nan32 >> 13, maxBits: 0x7f7fe000 >> 13}
	return d.pure(lift1(func(a uint64) uint64 {
		x := float64(f32from(uint32(a)))
		if relu && x <= 0 {
			x = 0
		}
		return encode(&f, x, mode) << 13
	}), nil, ptx.F32)
}

// cvtPack puts two saturated integers into the low bits and c above them.
func (d *decoder) cvtPack() error {
	if len(d.types) < 2 {
		return missing("two types are wanted")
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
	return d.pure(v, nil, types[:min(len(d.in.Operands)-1, 3)]...)
}
