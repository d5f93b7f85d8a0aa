package kernels_test

import (
	"math"
	"math/big"
	"testing"
)

// floats are edge values of float and double: bits of a float, of a double, and an integer.
func floats() [][3]uint64 {
	f := []float64{0, math.Copysign(0, -1), 0.5, -0.5, 1, -1, 1.5, 2.5, -2.5, 0.49999997, 0.9999999, 1e-45, -1e-45, 1e-300, 123456.789,
		-123456.789, 2147483520, 2147483647.5, 2147483648, -2147483648, -2147483649, 4294967040, 4294967296, 9.2233715e18,
		9.223372036854775e18, -9.3e18, 1.8446743e19, 1.9e19, 1e30, -1e30, 3.4028235e38, 3.5e38, 1e300, 16777217, 33554435,
		0.1, 1.0000000596046448, 1.00000017881393433, math.Inf(1), math.Inf(-1), math.NaN(), 65504, 65519.9, 65520, 5.9e-8, 3e-8, 1e-7, 1.00048828125}
	var all [][3]uint64
	for i, v := range f {
		n := integers[i%len(integers)] * (1 + uint64(i)/uint64(len(integers))*0x10000001)
		all = append(all, [3]uint64{uint64(math.Float32bits(float32(v))), math.Float64bits(v), n})
	}
	return all
}

// rounding is a rounding mode: its suffix and its name in math/big.
type rounding struct {
	suffix string
	mode   big.RoundingMode
}

var roundings = []rounding{{"_rn", big.ToNearestEven}, {"_rz", big.ToZero}, {"_ru", big.ToPositiveInf}, {"_rd", big.ToNegativeInf}}

// toInteger rounds v to an integer of size bits and cuts it to the range. NaN becomes nan.
func (r rounding) toInteger(v float64, size int, signed bool, nan uint64) uint64 {
	if math.IsNaN(v) {
		return nan
	}
	switch r.mode {
	case big.ToNearestEven:
		v = math.RoundToEven(v)
	case big.ToZero:
		v = math.Trunc(v)
	case big.ToPositiveInf:
		v = math.Ceil(v)
	default:
		v = math.Floor(v)
	}
	low, high := 0.0, math.Ldexp(1, size)
	mask := uint64(1)<<(size-1)<<1 - 1
	switch {
	case !signed && v <= low:
		return 0
	case !signed && v >= high:
		return mask
	case !signed:
		return uint64(v)
	case v >= high/2:
		return mask >> 1
	case v < -high/2:
		return uint64(1) << (size - 1)
	}
	return uint64(int64(v)) & mask
}

// round returns v rounded to a format of prec bits with exponents from emin to emax.
func (r rounding) round(v *big.Float, prec uint, emin, emax int) float64 {
	if v.Sign() == 0 {
		f, _ := v.Float64()
		return f
	}
	// The exponent of big.Float is that of a mantissa in [0.5, 1).
	bits := int(prec)
	if e := v.MantExp(nil) - 1; e < emin {
		bits -= emin - e
	}
	x := new(big.Float).SetMode(r.mode)
	if bits <= 0 {
		return r.tiny(v, bits, math.Ldexp(1, emin-int(prec)+1))
	}
	x.SetPrec(uint(bits)).Set(v)
	largest := math.Ldexp(2-math.Ldexp(1, 1-int(prec)), emax)
	if x.MantExp(nil)-1 > emax {
		up := r.mode == big.ToNearestEven || r.mode == big.ToPositiveInf && v.Sign() > 0 || r.mode == big.ToNegativeInf && v.Sign() < 0
		if up {
			return math.Inf(v.Sign())
		}
		return math.Copysign(largest, float64(v.Sign()))
	}
	f, _ := x.Float64()
	return f
}

// tiny rounds a number below the least of a format to 0 or the least. bits is 0 if it is at
// least half of the least.
func (r rounding) tiny(v *big.Float, bits int, least float64) float64 {
	half := new(big.Float).SetFloat64(least / 2)
	up := r.mode == big.ToPositiveInf && v.Sign() > 0 || r.mode == big.ToNegativeInf && v.Sign() < 0 ||
		r.mode == big.ToNearestEven && bits == 0 && new(big.Float).Abs(v).Cmp(half) > 0
	if up {
		return math.Copysign(least, float64(v.Sign()))
	}
	return math.Copysign(0, float64(v.Sign()))
}

// special returns v itself if it has no big.Float.
func special(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

func bits32(v float64) uint64 {
	if math.IsNaN(v) {
		return 0x7fffffff
	}
	return uint64(math.Float32bits(float32(v)))
}

func f32(v uint64) float64 { return float64(math.Float32frombits(uint32(v))) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

func bigInt(v uint64, signed bool) *big.Float {
	if signed {
		return new(big.Float).SetPrec(64).SetInt64(int64(v))
	}
	return new(big.Float).SetPrec(64).SetUint64(v)
}

// integerTypes are the integers of conversions, by their names in functions.
var integerTypes = []struct {
	name, c string
	size    int
	signed  bool
}{{"int", "int", 32, true}, {"uint", "u32", 32, false}, {"ll", "long long", 64, true}, {"ull", "u64", 64, false}}

// extend returns the lower size bits of v as a number of 64 bits.
func extend(v uint64, size int, signed bool) uint64 {
	if signed {
		return uint64(int64(v) << (64 - size) >> (64 - size))
	}
	return v << (64 - size) >> (64 - size)
}

// TestConversions compares the conversions between integers and floats with math/big.
func TestConversions(t *testing.T) {
	var rows []row
	for _, r := range roundings {
		for _, i := range integerTypes {
			nan32 := uint64(0)
			if i.size == 64 {
				nan32 = 1 << 63
			}
			nan64 := uint64(1) << (i.size - 1)
			rows = append(rows,
				row{"__float2" + i.name + r.suffix + "(F(a))", func(a, b, c uint64) uint64 { return r.toInteger(f32(a), i.size, i.signed, nan32) }},
				row{"__double2" + i.name + r.suffix + "(D(b))", func(a, b, c uint64) uint64 { return r.toInteger(f64(b), i.size, i.signed, nan64) }},
				row{"__" + i.name + "2float" + r.suffix + "((" + i.c + ")c)", func(a, b, c uint64) uint64 {
					return bits32(r.round(bigInt(extend(c, i.size, i.signed), i.signed), 24, -126, 127))
				}})
			if i.size == 64 {
				rows = append(rows, row{"__" + i.name + "2double" + r.suffix + "((" + i.c + ")c)", func(a, b, c uint64) uint64 {
					return math.Float64bits(r.round(bigInt(c, i.signed), 53, -1022, 1023))
				}})
			}
		}
		rows = append(rows, row{"__double2float" + r.suffix + "(D(b))", func(a, b, c uint64) uint64 {
			if v := f64(b); math.IsNaN(v) {
				return 0x7fc00000
			} else if special(v) {
				return bits32(v)
			}
			return bits32(r.round(big.NewFloat(f64(b)), 24, -126, 127))
		}})
	}
	rows = append(rows,
		row{"__int2double_rn((int)c)", func(a, b, c uint64) uint64 { return math.Float64bits(float64(int32(c))) }},
		row{"__uint2double_rn((u32)c)", func(a, b, c uint64) uint64 { return math.Float64bits(float64(uint32(c))) }})
	check(t, floats(), rows, "sm_52", "sm_80")
}

// TestBitCasts compares the functions that give bits another type.
func TestBitCasts(t *testing.T) {
	low := func(a, b, c uint64) uint64 { return a & 0xffffffff }
	same := func(a, b, c uint64) uint64 { return a }
	check(t, triples(integers), []row{
		{"__float_as_int(__int_as_float((int)a))", low},
		{"__float_as_uint(__uint_as_float((u32)a))", low},
		{"__double_as_longlong(__longlong_as_double((long long)a))", same},
		{"__double2hiint(D(a))", func(a, b, c uint64) uint64 { return a >> 32 }},
		{"__double2loint(D(a))", low},
		{"__hiloint2double((int)a, (int)b)", func(a, b, c uint64) uint64 { return a<<32 | b&0xffffffff }},
	}, "sm_52")
}
