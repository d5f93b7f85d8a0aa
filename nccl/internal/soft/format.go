package soft

import (
	"math"
	"sync"
)

// format is a binary floating-point format of 8 or 16 bits.
type format struct {
	bits, fraction, bias int
	nan                  uint32 // what operations return
	most                 uint32 // the largest finite number
	finite               bool   // no infinities: the largest exponent holds numbers
	saturates            bool   // results beyond the largest number become that number

	once  sync.Once
	table []float32
}

var (
	float16    = format{bits: 16, fraction: 10, bias: 15, nan: 0x7fff, most: 0x7bff}
	bfloat16   = format{bits: 16, fraction: 7, bias: 127, nan: 0x7fff, most: 0x7f7f}
	float8e4m3 = format{bits: 8, fraction: 3, bias: 7, nan: 0x7f, most: 0x7e, finite: true, saturates: true}
	float8e5m2 = format{bits: 8, fraction: 2, bias: 15, nan: 0x7f, most: 0x7b, saturates: true}
)

// decoded returns the number of each pattern of bits.
func (f *format) decoded() []float32 {
	f.once.Do(func() {
		f.table = make([]float32, 1<<f.bits)
		for v := range f.table {
			f.table[v] = f.decode(uint32(v))
		}
	})
	return f.table
}

func (f *format) decode(v uint32) float32 {
	top := uint32(1)<<(f.bits-1-f.fraction) - 1
	fraction, exponent := v&(1<<f.fraction-1), v>>f.fraction&top
	var x float64
	switch {
	case f.finite && v&(1<<(f.bits-1)-1) == f.nan, !f.finite && exponent == top && fraction != 0:
		return float32(math.NaN())
	case !f.finite && exponent == top:
		x = math.Inf(1)
	case exponent == 0:
		x = math.Ldexp(float64(fraction), 1-f.bias-f.fraction)
	default:
		x = math.Ldexp(float64(fraction|1<<f.fraction), int(exponent)-f.bias-f.fraction)
	}
	if v>>(f.bits-1)&1 != 0 {
		x = -x
	}
	return float32(x)
}

// encode rounds x to nearest even.
func (f *format) encode(x float32) uint32 {
	u := math.Float32bits(x)
	sign := u >> 31 << (f.bits - 1)
	u &= 1<<31 - 1
	switch {
	case u > 0x7f800000:
		return f.nan
	case u == 0x7f800000:
		return sign | f.beyond()
	case u == 0:
		return sign
	}
	exponent, mantissa := int(u>>23), u&(1<<23-1)
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa |= 1 << 23
	}
	e, drop := exponent-127+f.bias, 23-f.fraction
	if e < 1 {
		drop = min(drop+1-e, 31)
		e = 1
	}
	kept, lost, half := mantissa>>drop, mantissa&(1<<drop-1), uint32(1)<<(drop-1)
	if lost > half || lost == half && kept&1 != 0 {
		kept++
	}
	v := kept + uint32(e-1)<<f.fraction
	if v > f.most {
		return sign | f.beyond()
	}
	return sign | v
}

// beyond returns what numbers beyond the largest one become.
func (f *format) beyond() uint32 {
	switch {
	case f.saturates:
		return f.most
	case f.finite:
		return f.nan
	}
	return f.most + 1 // infinity
}
