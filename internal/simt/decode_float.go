package simt

import (
	"math"

	"github.com/ferrygpu/ferry/ptx"
)

// floatMode is how a float operation treats its operands and result.
type floatMode struct {
	round  rounding
	ftz    bool
	sat    bool
	relu   bool
	nan    bool // min and max: NaN wins
	xorsig bool
	absmag bool
}

func (d *decoder) floatMode() floatMode {
	m := floatMode{
		ftz: d.has("ftz"), sat: d.has("sat"), relu: d.has("relu"),
		nan: d.has("NaN"), xorsig: d.has("xorsign"), absmag: d.has("abs") && d.in.Op != "abs",
	}
	switch d.hasAny("rz", "rm", "rp") {
	case "rz":
		m.round = roundZero
	case "rm":
		m.round = roundDown
	case "rp":
		m.round = roundUp
	}
	return m
}

// floatArith emits add, sub, mul, fma, div, min or max on n floats.
func (d *decoder) floatArith(op string, t ptx.Type, n int) error {
	m := d.floatMode()
	types := []ptx.Type{t, t, t}[:min(n, 3)]
	if d.typ(1) != ptx.NoType {
		return d.floatMixed(op, m)
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
	return d.pure(v, nil, types...)
}

// floatMixed is the newer add, sub and fma that take an operand of another type.
func (d *decoder) floatMixed(op string, m floatMode) error {
	return missing("%s of mixed types is not supported", op)
}

// arithF32 picks the quickest loop that is right.
func arithF32(op string, m floatMode, approx string) vec {
	plain := m == floatMode{}
	general := func(a, b, c uint64) uint64 {
		x, y, z := decodeFloat(&formatF32, a, m.ftz), decodeFloat(&formatF32, b, m.ftz), decodeFloat(&formatF32, c, m.ftz)
		return finishNarrow(&formatF32, arith(op, x, y, z, m.round == roundDown), m)
	}
	switch {
	case op == "div" && approx != "":
		return lift2(func(a, b uint64) uint64 { return finish32(divApprox(uint32(a), uint32(b), approx, m.ftz), m) })
	case op == "add" && plain:
		return wide.addF32
	case op == "sub" && plain:
		return wide.subF32
	case op == "mul" && plain:
		return wide.mulF32
	case op == "fma" && plain:
		return wide.fmaF32
	case m.round != roundNearest:
		return lift3(general)
	}
	load := func(v uint64) float32 { return f32from(uint32(v)) }
	if m.ftz {
		load = func(v uint64) float32 { return f32from(flush32(uint32(v))) }
	}
	switch op {
	case "add":
		return lift2(func(a, b uint64) uint64 { return finish32(f32bits(load(a)+load(b)), m) })
	case "sub":
		return lift2(func(a, b uint64) uint64 { return finish32(f32bits(load(a)-load(b)), m) })
	case "mul":
		return lift2(func(a, b uint64) uint64 {
			u := f32bits(load(a) * load(b))
			if m.ftz && u&0x7fffffff == least32 {
				return general(a, b, 0)
			}
			return finish32(u, m)
		})
	case "div":
		return lift2(func(a, b uint64) uint64 { return finish32(f32bits(load(a)/load(b)), m) })
	case "fma":
		return lift3(func(a, b, c uint64) uint64 {
			u := f32bits(fma32(load(a), load(b), load(c)))
			if m.ftz && u&0x7fffffff == least32 {
				return general(a, b, c)
			}
			return finish32(u, m)
		})
	}
	return nil
}

// least32 is the magnitude that may have been rounded up to it from below: see
// [tiny]. No sum and, to nearest, no quotient is just below without being a denormal.
const least32 = 0x00800000

// finish32 canonicalises, flushes and saturates a result.
func finish32(u uint32, m floatMode) uint64 {
	if u&0x7fffffff > 0x7f800000 {
		if m.sat || m.relu && !m.nan {
			return 0
		}
		return nan32
	}
	if m.ftz {
		u = flush32(u)
	}
	if m.sat {
		f := f32from(u)
		switch {
		case f <= 0:
			return 0
		case f > 1:
			return 0x3f800000
		}
	}
	if m.relu && u>>31 != 0 {
		return 0
	}
	return uint64(u)
}

// divApprox is a/b as a*(1/b), whose reciprocal is zero for large b.
func divApprox(a, b uint32, kind string, ftz bool) uint32 {
	if ftz {
		a, b = flush32(a), flush32(b)
	}
	x, y := f32from(a), f32from(b)
	const large = 1 << 126
	if kind == "approx" && (y > large || y < -large) && !math.IsInf(float64(y), 0) {
		zero := f32from((a ^ b) & 0x80000000)
		if math.IsInf(float64(x), 0) || x != x {
			return nan32
		}
		return f32bits(zero)
	}
	return f32bits(x / y)
}

func vecAddF32(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = result32(f32from(uint32(a[i])) + f32from(uint32(b[i])))
			d[i+1] = result32(f32from(uint32(a[i+1])) + f32from(uint32(b[i+1])))
			d[i+2] = result32(f32from(uint32(a[i+2])) + f32from(uint32(b[i+2])))
			d[i+3] = result32(f32from(uint32(a[i+3])) + f32from(uint32(b[i+3])))
		}
		return
	}
	for i := range d[:n] {
		d[i] = result32(f32from(uint32(a[i])) + f32from(uint32(b[i])))
	}
}

func vecSubF32(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = result32(f32from(uint32(a[i])) - f32from(uint32(b[i])))
	}
}

func vecMulF32(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = result32(f32from(uint32(a[i])) * f32from(uint32(b[i])))
			d[i+1] = result32(f32from(uint32(a[i+1])) * f32from(uint32(b[i+1])))
			d[i+2] = result32(f32from(uint32(a[i+2])) * f32from(uint32(b[i+2])))
			d[i+3] = result32(f32from(uint32(a[i+3])) * f32from(uint32(b[i+3])))
		}
		return
	}
	for i := range d[:n] {
		d[i] = result32(f32from(uint32(a[i])) * f32from(uint32(b[i])))
	}
}

func vecFmaF32(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		d[i] = result32(fma32(f32from(uint32(a[i])), f32from(uint32(b[i])), f32from(uint32(c[i]))))
	}
}

// arithF64 has loops for what is common, and the general form.
func arithF64(op string, m floatMode) vec {
	if m.round == roundNearest && !m.sat {
		switch op {
		case "add":
			return wide.addF64
		case "mul":
			return wide.mulF64
		case "fma":
			return wide.fmaF64
		}
	}
	return lift3(func(a, b, c uint64) uint64 {
		r := arith64(op, f64from(a), f64from(b), f64from(c), m.round)
		if m.sat {
			r = saturate(r)
		}
		return f64bits(r)
	})
}

func vecAddF64(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		x, y := f64from(a[i]), f64from(b[i])
		r := x + y
		if r != r {
			r = propagate(x, y, 0)
		}
		d[i] = f64bits(r)
	}
}

func vecMulF64(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		x, y := f64from(a[i]), f64from(b[i])
		r := x * y
		if r != r {
			r = propagate(x, y, 0)
		}
		d[i] = f64bits(r)
	}
}

func vecFmaF64(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		x, y, z := f64from(a[i]), f64from(b[i]), f64from(c[i])
		r := math.FMA(x, y, z)
		if r != r {
			r = propagate(x, y, z)
		}
		d[i] = f64bits(r)
	}
}

// saturate clamps to 0..1, NaN to 0.
func saturate(x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case x > 1:
		return 1
	}
	return x
}

// arithNarrow is arithmetic on f16 and bf16, one or two to a register.
func arithNarrow(op string, t ptx.Type, m floatMode) vec {
	f := formatOf(t)
	if f == nil {
		return nil
	}
	one := func(a, b, c uint64) uint64 {
		x, y, z := decodeFloat(f, a, m.ftz), decodeFloat(f, b, m.ftz), decodeFloat(f, c, m.ftz)
		return finishNarrow(f, arith(op, x, y, z, m.round == roundDown), m)
	}
	return lift3(packed(t, one))
}

// finishNarrow saturates, flushes and rounds a result that is exact or rounded to odd.
func finishNarrow(f *format, x float64, m floatMode) uint64 {
	if m.sat {
		x = saturate(x)
	}
	if m.relu && x <= 0 {
		x = 0
	}
	if m.ftz && tiny(f, x, m.round) {
		x = math.Copysign(0, x)
	}
	return encode(f, x, m.round)
}

// tiny is true of numbers that would be below the least normal one, had they its
// precision and no least exponent: some that encode makes the least normal are tiny.
func tiny(f *format, x float64, mode rounding) bool {
	least := math.Ldexp(1, 1-f.bias)
	return math.Abs(x) < least && encode(f, 4*x, mode)&(1<<(f.size-1)-1) < encode(f, 4*least, roundNearest)
}

// packed makes a function of 16-bit values one of the registers that hold them.
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

// minMax is min and max of two, or three, floats of any type.
func minMax(op string, t ptx.Type, m floatMode) vec {
	pick := func(a, b float64) float64 {
		if m.absmag {
			a, b = math.Abs(a), math.Abs(b)
		}
		return pickFloat(op == "max", a, b, m.nan)
	}
	if t == ptx.F64 {
		return lift2(func(a, b uint64) uint64 {
			x, y := f64from(a), f64from(b)
			r := pick(x, y)
			if r != r {
				r = propagate(x, y, 0)
			}
			return f64bits(r)
		})
	}
	f := formatOf(t)
	if f == nil {
		return nil
	}
	if t == ptx.F32 && m == (floatMode{}) {
		if op == "max" {
			return lift2(func(a, b uint64) uint64 { return maxF32(uint32(a), uint32(b)) })
		}
		return lift2(func(a, b uint64) uint64 { return minF32(uint32(a), uint32(b)) })
	}
	return lift3(packed(t, func(a, b, _ uint64) uint64 {
		x, y := decodeFloat(f, a, m.ftz), decodeFloat(f, b, m.ftz)
		r := pick(x, y)
		if m.xorsig && r == r {
			r = math.Copysign(r, sign(x)*sign(y))
		}
		return finishNarrow(f, r, floatMode{ftz: m.ftz, relu: m.relu})
	}))
}

// pickFloat is the larger or smaller; -0 is smaller than +0, and a number wins
// over NaN unless nan is set.
func pickFloat(larger bool, a, b float64, nan bool) float64 {
	switch {
	case a != a && b != b || nan && (a != a || b != b):
		return math.NaN()
	case a != a:
		return b
	case b != b:
		return a
	case larger:
		return math.Max(a, b)
	}
	return math.Min(a, b)
}

// floatSign is neg and abs, which only touch the sign bit.
func (d *decoder) floatSign(op string, t ptx.Type) error {
	var signs uint64
	switch t {
	case ptx.F16, ptx.BF16:
		signs = 0x8000
	case ptx.F16x2, ptx.BF16x2:
		signs = 0x80008000
	case ptx.F32:
		signs = 1 << 31
	case ptx.F64:
		signs = 1 << 63
	}
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
	}), nil, t)
}

// canonical is b, and where a is NaN what an addition would make of that: the sign
// of a NaN does not change.
func canonical(a, b uint64, t ptx.Type) uint64 {
	switch t {
	case ptx.F64:
		if x := f64from(a); x != x {
			return a | 1<<51
		}
	case ptx.F32:
		if a&0x7fffffff > 0x7f800000 {
			return nan32
		}
	case ptx.F16x2, ptx.BF16x2:
		half := ptx.F16
		if t == ptx.BF16x2 {
			half = ptx.BF16
		}
		return canonical(a>>16, b>>16, half)&0xffff<<16 | canonical(a, b, half)&0xffff
	case ptx.F16:
		if a&0x7fff > 0x7c00 {
			return formatF16.nan
		}
	case ptx.BF16:
		if a&0x7fff > 0x7f80 {
			return formatBF16.nan
		}
	}
	return b
}

// flush turns denormals of t into zeros.
func flush(a uint64, t ptx.Type) uint64 {
	switch t {
	case ptx.F32:
		return uint64(flush32(uint32(a)))
	case ptx.F16:
		if a&0x7c00 == 0 {
			return a & 0x8000
		}
	case ptx.F16x2:
		return flush(a&0xffff, ptx.F16) | flush(a>>16&0xffff, ptx.F16)<<16
	}
	return a
}

// decodeCopysign gives b the sign of a.
func decodeCopysign(d *decoder) error {
	t := d.typ(0)
	s := uint64(1) << 31
	if t == ptx.F64 {
		s = 1 << 63
	} else if t != ptx.F32 {
		return d.badType()
	}
	return d.pure(lift2(func(a, b uint64) uint64 { return a&s | b&^s }), nil, t, t)
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

// maxF32 is max.f32: a number wins over NaN, +0 over -0.
func maxF32(a, b uint32) uint64 {
	x, y := f32from(a), f32from(b)
	switch {
	case x > y:
		return uint64(a)
	case x < y:
		return uint64(b)
	case x == y:
		return uint64(a & b) // of zeros the positive one; equal numbers else
	case x == x:
		return uint64(a)
	case y == y:
		return uint64(b)
	}
	return nan32
}

func minF32(a, b uint32) uint64 {
	x, y := f32from(a), f32from(b)
	switch {
	case x < y:
		return uint64(a)
	case x > y:
		return uint64(b)
	case x == y:
		return uint64(a | b)
	case x == x:
		return uint64(a)
	case y == y:
		return uint64(b)
	}
	return nan32
}
