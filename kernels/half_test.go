package kernels_test

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

// format is a float format of 16 bits.
type format struct {
	letter     string // of the function that makes it of bits: "H"
	name       string // in functions: "half", "bfloat16"
	prec       uint
	emin, emax int
}

var formats = []format{{"H", "half", 11, -14, 15}, {"B", "bfloat16", 8, -126, 127}}

// decode returns the value of bits.
func (f format) decode(v uint64) float64 {
	m := int(f.prec) - 1
	sign, exp, frac := v>>15&1, int(v>>m)&(1<<(15-m)-1), float64(v&(1<<m-1))
	var x float64
	switch {
	case exp == 1<<(15-m)-1 && frac != 0:
		return math.NaN()
	case exp == 1<<(15-m)-1:
		x = math.Inf(1)
	case exp == 0:
		x = math.Ldexp(frac, f.emin-m)
	default:
		x = math.Ldexp(frac+float64(int(1)<<m), exp-1+f.emin-m)
	}
	if sign == 1 {
		return -x
	}
	return x
}

// encode returns the bits of a value of the format.
func (f format) encode(v float64) uint64 {
	m := int(f.prec) - 1
	inf := uint64(1<<(15-m)-1) << m
	sign := b2i(math.Signbit(v)) << 15
	switch {
	case math.IsNaN(v):
		return 0x7fff
	case math.IsInf(v, 0):
		return sign | inf
	case v == 0:
		return sign
	}
	frac, exp := math.Frexp(math.Abs(v))
	if exp-1 < f.emin {
		return sign | uint64(math.Ldexp(math.Abs(v), m-f.emin))
	}
	return sign | uint64(exp-1-f.emin)<<m + uint64(math.Ldexp(frac, m+1))
}

// round returns the bits of v in a rounding mode. v has any precision.
func (f format) round(v *big.Float, r rounding) uint64 {
	return f.encode(r.round(v, f.prec, f.emin, f.emax))
}

// nearest returns the bits next to v.
func (f format) nearest(v float64) uint64 {
	if special(v) || v == 0 {
		return f.encode(v)
	}
	return f.round(big.NewFloat(v), roundings[0])
}

// fromDouble returns the bits next to v. The instruction for half keeps a NaN's payload.
func (f format) fromDouble(v float64) uint64 {
	if math.IsNaN(v) && f.letter == "H" {
		return 0x7e00
	}
	return f.nearest(v)
}

// fma returns the bits of a*b + c, rounded once.
func (f format) fma(a, b, c float64) uint64 {
	if special(a) || special(b) || special(c) || a*b+c == 0 && (a*b == 0 || c == 0) {
		return f.nearest(a*b + c)
	}
	x := new(big.Float).SetPrec(600)
	x.Add(x.Mul(big.NewFloat(a), big.NewFloat(b)), big.NewFloat(c))
	if x.Sign() == 0 {
		return 0
	}
	return f.round(x, roundings[0])
}

// minmax returns the lesser or greater of two values; -0 is less than 0.
func (f format) minmax(a, b float64, greater, nan bool) uint64 {
	switch {
	case math.IsNaN(a) && math.IsNaN(b) || nan && (math.IsNaN(a) || math.IsNaN(b)):
		return 0x7fff
	case math.IsNaN(a):
		return f.encode(b)
	case math.IsNaN(b):
		return f.encode(a)
	case greater:
		return f.encode(math.Max(a, b))
	}
	return f.encode(math.Min(a, b))
}

// halves are edge values of both formats, in pairs.
func halves() [][3]uint64 {
	edge := []uint64{0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7f, 0x80, 0x3c00, 0xbc00, 0x3c01, 0x3f80, 0xbf80, 0x3f81, 0x4248, 0x7bff, 0xfbff,
		0x7c00, 0xfc00, 0x7e00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x5555, 0xc123, 0x1234}
	var all [][3]uint64
	for i, a := range edge {
		for j, b := range edge {
			other := edge[(i*5+j)%len(edge)] << 16
			all = append(all, [3]uint64{a | other, b | edge[(j*3+i)%len(edge)]<<16, edge[(i*11+j*7)%len(edge)] | other})
		}
	}
	return all
}

// op is a function of up to three values: its name in CUDA and its bits in Go.
type op struct {
	name string
	args int
	want func(a, b, c float64) uint64
}

// ops returns the arithmetic that elements and pairs have: NAME and, for pairs, NAME2.
func (f format) ops() []op {
	return []op{
		{"__hadd", 2, func(a, b, _ float64) uint64 { return f.nearest(a + b) }},
		{"__hsub", 2, func(a, b, _ float64) uint64 { return f.nearest(a - b) }},
		{"__hmul", 2, func(a, b, _ float64) uint64 { return f.nearest(a * b) }},
		{"__hfma", 3, f.fma},
		{"__hfma_relu", 3, func(a, b, c float64) uint64 { return f.minmax(f.decode(f.fma(a, b, c)), 0, true, true) }},
		{"__hneg", 1, func(a, _, _ float64) uint64 { return f.encode(-a) }},
		{"__habs", 1, func(a, _, _ float64) uint64 { return f.encode(math.Abs(a)) }},
		{"__hmin", 2, func(a, b, _ float64) uint64 { return f.minmax(a, b, false, false) }},
		{"__hmax", 2, func(a, b, _ float64) uint64 { return f.minmax(a, b, true, false) }},
		{"__hmin_nan", 2, func(a, b, _ float64) uint64 { return f.minmax(a, b, false, true) }},
		{"__hmax_nan", 2, func(a, b, _ float64) uint64 { return f.minmax(a, b, true, true) }},
	}
}

// pairName returns the name of a function of pairs: __hfma2_relu for __hfma_relu.
func pairName(name string) string {
	if i := strings.LastIndex(name, "_"); i > 2 {
		return name[:i] + "2" + name[i:]
	}
	return name + "2"
}

// rows returns the row of op on elements and the row on pairs.
func (f format) rows(o op) []row {
	l := f.letter
	call := func(name, t string) string {
		return name + "(" + strings.Join([]string{t + "(a)", t + "(b)", t + "(c)"}[:o.args], ", ") + ")"
	}
	one := func(a, b, c uint64) uint64 { return o.want(f.decode(a), f.decode(b), f.decode(c)) }
	return []row{
		{call(o.name, l), one},
		{call(pairName(o.name), l+"2"), func(a, b, c uint64) uint64 { return one(a, b, c) | one(a>>16, b>>16, c>>16)<<16 }},
	}
}

// comparisons are the comparisons and their values for numbers.
var comparisons = []struct {
	name, op string
	want     func(a, b float64) bool
}{
	{"eq", "==", func(a, b float64) bool { return a == b }}, {"ne", "!=", func(a, b float64) bool { return a != b }},
	{"lt", "<", func(a, b float64) bool { return a < b }}, {"le", "<=", func(a, b float64) bool { return a <= b }},
	{"gt", ">", func(a, b float64) bool { return a > b }}, {"ge", ">=", func(a, b float64) bool { return a >= b }},
}

// comparisonRows returns the rows of all comparisons.
func (f format) comparisonRows() []row {
	var rows []row
	l, one := f.letter, f.encode(1)
	for _, c := range comparisons {
		for _, unordered := range []bool{false, true} {
			is := func(a, b uint64) bool {
				x, y := f.decode(a), f.decode(b)
				if math.IsNaN(x) || math.IsNaN(y) {
					return unordered
				}
				return c.want(x, y)
			}
			name := c.name + map[bool]string{true: "u"}[unordered]
			rows = append(rows,
				row{"__h" + name + "(" + l + "(a), " + l + "(b))", func(a, b, _ uint64) uint64 { return b2i(is(a, b)) }},
				row{"__h" + name + "2(" + l + "2(a), " + l + "2(b))", func(a, b, _ uint64) uint64 {
					return b2i(is(a, b))*one | b2i(is(a>>16, b>>16))*one<<16
				}},
				row{"__hb" + name + "2(" + l + "2(a), " + l + "2(b))", func(a, b, _ uint64) uint64 { return b2i(is(a, b) && is(a>>16, b>>16)) }})
			if unordered == (c.name == "ne") {
				rows = append(rows, row{"(" + l + "(a) " + c.op + " " + l + "(b))", func(a, b, _ uint64) uint64 { return b2i(is(a, b)) }})
			}
		}
	}
	return rows
}

// otherRows returns rows of operators, pairs and tests.
func (f format) otherRows() []row {
	l := f.letter
	at := func(v uint64) float64 { return f.decode(v) }
	div := func(a, b uint64) uint64 { return f.nearest(float64(float32(at(a)) / float32(at(b)))) }
	n := f.name
	float := func(v uint64) uint64 {
		if math.IsNaN(at(v)) && f.letter == "B" {
			return v & 0xffff << 16
		}
		return bits32(at(v))
	}
	n2 := map[string]string{"half": "half2", "bfloat16": "bfloat162"}[n]
	return []row{
		{l + "(a) + " + l + "(b)", func(a, b, _ uint64) uint64 { return f.nearest(at(a) + at(b)) }},
		{l + "(a) - " + l + "(b)", func(a, b, _ uint64) uint64 { return f.nearest(at(a) - at(b)) }},
		{l + "(a) * " + l + "(b)", func(a, b, _ uint64) uint64 { return f.nearest(at(a) * at(b)) }},
		{l + "(a) / " + l + "(b)", func(a, b, _ uint64) uint64 { return div(a, b) }},
		{"-" + l + "(a)", func(a, b, _ uint64) uint64 { return f.encode(-at(a)) }},
		{l + "2(a) * " + l + "2(b)", func(a, b, _ uint64) uint64 { return f.nearest(at(a)*at(b)) | f.nearest(at(a>>16)*at(b>>16))<<16 }},
		{"__h2div(" + l + "2(a), " + l + "2(b))", func(a, b, _ uint64) uint64 { return div(a, b) | div(a>>16, b>>16)<<16 }},
		{"([](auto x, auto y) { x += y; ++x; x -= y; return x--; })(" + l + "(a), " + l + "(b))", func(a, b, _ uint64) uint64 {
			x := at(f.nearest(at(a) + at(b)))
			x = at(f.nearest(x + 1))
			return f.nearest(x - at(b))
		}},
		{"__hisnan(" + l + "(a))", func(a, _, _ uint64) uint64 { return b2i(math.IsNaN(at(a))) }},
		{"__hisinf(" + l + "(a))", func(a, _, _ uint64) uint64 {
			return s32(int64(b2i(math.IsInf(at(a), 1))) - int64(b2i(math.IsInf(at(a), -1))))
		}},
		{"__low2" + n + "(" + l + "2(a))", func(a, _, _ uint64) uint64 { return a & 0xffff }},
		{"__high2" + n + "(" + l + "2(a))", func(a, _, _ uint64) uint64 { return a >> 16 & 0xffff }},
		{"__halves2" + n2 + "(" + l + "(a), " + l + "(b))", func(a, b, _ uint64) uint64 { return a&0xffff | b&0xffff<<16 }},
		{"__lowhigh2highlow(" + l + "2(a))", func(a, _, _ uint64) uint64 { return a>>16&0xffff | a&0xffff<<16 }},
		{"__" + n + "2" + n2 + "(" + l + "(a))", func(a, _, _ uint64) uint64 { return a & 0xffff * 0x10001 }},
		{"__lows2" + n2 + "(" + l + "2(a), " + l + "2(b))", func(a, b, _ uint64) uint64 { return a&0xffff | b&0xffff<<16 }},
		{"__highs2" + n2 + "(" + l + "2(a), " + l + "2(b))", func(a, b, _ uint64) uint64 { return a>>16&0xffff | b&0xffff0000 }},
		{"__low2float(" + l + "2(a))", func(a, _, _ uint64) uint64 { return float(a) }},
		{"__high2float(" + l + "2(a))", func(a, _, _ uint64) uint64 { return float(a >> 16) }},
		{"__" + n2 + "2float2(" + l + "2(a)).y", func(a, _, _ uint64) uint64 { return float(a >> 16) }},
		{"(float)" + l + "(a)", func(a, _, _ uint64) uint64 { return float(a) }},
		{"hsqrt(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Sqrt(at(a))) }},
		{"hrsqrt(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(1 / math.Sqrt(at(a))) }},
		{"hrcp(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(1 / at(a)) }},
		{"hexp(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Exp(at(a))) }},
		{"hexp2(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Exp2(at(a))) }},
		{"hexp10(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Pow(10, at(a))) }},
		{"hlog(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Log(at(a))) }},
		{"hlog2(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Log2(at(a))) }},
		{"hlog10(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Log10(at(a))) }},
		{"hsin(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Sin(at(a))) }},
		{"hcos(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Cos(at(a))) }},
		{"htanh(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Tanh(at(a))) }},
		{"hfloor(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Floor(at(a))) }},
		{"hceil(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Ceil(at(a))) }},
		{"htrunc(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.Trunc(at(a))) }},
		{"hrint(" + l + "(a))", func(a, _, _ uint64) uint64 { return f.nearest(math.RoundToEven(at(a))) }},
		{"h2rint(" + l + "2(a))", func(a, _, _ uint64) uint64 {
			return f.nearest(math.RoundToEven(at(a))) | f.nearest(math.RoundToEven(at(a>>16)))<<16
		}},
	}
}

// TestHalf compares the arithmetic of half and bfloat16 with math/big. Below sm_80 the
// header computes it in other ways.
func TestHalf(t *testing.T) {
	for _, f := range formats {
		rows := append(f.comparisonRows(), f.otherRows()...)
		for _, o := range f.ops() {
			rows = append(rows, f.rows(o)...)
		}
		t.Run(f.name, func(t *testing.T) { check(t, halves(), rows, "sm_52", "sm_70", "sm_80") })
	}
}

// TestHalfSaturation compares the functions of half that cut results to 0 and 1.
func TestHalfSaturation(t *testing.T) {
	f := formats[0]
	sat := func(v float64) uint64 {
		if math.IsNaN(v) || v <= 0 {
			return 0
		}
		return f.nearest(min(v, 1))
	}
	var rows []row
	for _, o := range []op{
		{"__hadd_sat", 2, func(a, b, _ float64) uint64 { return sat(a + b) }},
		{"__hsub_sat", 2, func(a, b, _ float64) uint64 { return sat(a - b) }},
		{"__hmul_sat", 2, func(a, b, _ float64) uint64 { return sat(a * b) }},
		{"__hfma_sat", 3, func(a, b, c float64) uint64 { return sat(a*b + c) }},
	} {
		rows = append(rows, f.rows(o)...)
	}
	check(t, halves(), rows, "sm_52", "sm_80")
}

// TestHalfConversions compares the conversions of half and bfloat16 with math/big.
func TestHalfConversions(t *testing.T) {
	for _, f := range formats {
		var rows []row
		for _, r := range roundings {
			rows = append(rows, row{"__float2" + f.name + r.suffix + "(F(a))", func(a, _, _ uint64) uint64 {
				if v := f32(a); special(v) {
					return f.encode(v)
				}
				return f.round(big.NewFloat(f32(a)), r)
			}})
			for _, i := range integerTypes {
				rows = append(rows, row{"__" + i.name + "2" + f.name + r.suffix + "((" + i.c + ")c)", func(_, _, c uint64) uint64 {
					return f.round(bigInt(extend(c, i.size, i.signed), i.signed), r)
				}})
				nan := uint64(0)
				if i.size == 64 {
					nan = 1 << 63
				}
				rows = append(rows, row{"__" + f.name + "2" + i.name + r.suffix + "(" + f.letter + "(c))", func(_, _, c uint64) uint64 {
					return r.toInteger(f.decode(c), i.size, i.signed, nan)
				}})
			}
			rows = append(rows, row{"__short2" + f.name + r.suffix + "((short)c)", func(_, _, c uint64) uint64 { return f.round(bigInt(extend(c, 16, true), true), r) }},
				row{"__ushort2" + f.name + r.suffix + "((unsigned short)c)", func(_, _, c uint64) uint64 { return f.round(bigInt(extend(c, 16, false), false), r) }})
		}
		rows = append(rows, row{"__double2" + f.name + "(D(b))", func(_, b, _ uint64) uint64 { return f.fromDouble(f64(b)) }},
			row{"__float2" + f.name + "(F(a))", func(a, _, _ uint64) uint64 { return f.nearest(f32(a)) }})
		t.Run(f.name, func(t *testing.T) { check(t, floats(), rows, "sm_52", "sm_80") })
	}
}
