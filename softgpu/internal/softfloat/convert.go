package softfloat

import (
	"math"
	"math/bits"
)

// RoundIntegral rounds x to an integral value.
func RoundIntegral(x float64, mode Rounding) float64 {
	switch mode {
	case TowardZero:
		return math.Trunc(x)
	case Down:
		return math.Floor(x)
	case Up:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// ToInt converts an integral x to an integer of n bits and clamps it to the range.
// NaN becomes zero.
func ToInt(x float64, n int, signed bool) uint64 {
	if x != x {
		return 0
	}
	if signed {
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

// FromInt converts an integer, extended to 64 bits, with one rounding. sat clamps the
// result to 0..1.
func (f *Format) FromInt(v uint64, signed bool, mode Rounding, sat bool) uint64 {
	m, neg := magnitude(v, signed)
	x := float64(m)
	if n := bits.Len64(m); n > 53 {
		// 53 bits hold the number without its lowest bits. The last of them is set
		// where those are not all zero, so that the number is rounded to odd.
		cut := n - 53
		low := m & (1<<cut - 1)
		m >>= cut
		if low != 0 {
			m |= 1
		}
		x = math.Ldexp(float64(m), cut)
	}
	if neg {
		x = -x
	}
	if sat {
		x = Saturate(x)
	}
	return f.Encode(x, mode)
}

// FromInt64 converts an integer to f64, as [Format.FromInt] does to narrower formats.
func FromInt64(v uint64, signed bool, mode Rounding, sat bool) float64 {
	m, neg := magnitude(v, signed)
	cut := max(bits.Len64(m)-53, 0)
	kept, lost := m>>cut, m&(1<<cut-1)
	if cut > 0 && roundsUp(mode, neg, kept&1 != 0, lost, cut) {
		kept++
	}
	x := math.Ldexp(float64(kept), cut)
	if neg {
		x = -x
	}
	if sat {
		x = Saturate(x)
	}
	return x
}

func magnitude(v uint64, signed bool) (m uint64, neg bool) {
	if signed && int64(v) < 0 {
		return -v, true
	}
	return v, false
}

// NarrowNaN converts a NaN of f64 to the format. Its sign and upper bits stay.
func (f *Format) NarrowNaN(a uint64) uint64 {
	top := uint64(1)<<(f.size-1-f.mant) - 1
	return a>>63<<(f.size-1) | top<<f.mant | 1<<(f.mant-1) | a&(1<<52-1)>>(52-f.mant)
}

// WidenNaN converts a NaN of the format to f64. Its sign and bits stay.
func (f *Format) WidenNaN(a uint64) uint64 {
	sign, frac := a>>(f.size-1)&1, a&(1<<f.mant-1)
	return sign<<63 | 0x7ff<<52 | 1<<51 | frac<<(52-f.mant)
}

// TF32Away converts the bits of an f32 to tf32 as cvt.rna does. The GPU adds and cuts
// them as integers. finite clamps to the largest number. Without it NaN is only cut.
func TF32Away(a uint64, finite bool) uint64 {
	if a&0x7fffffff > 0x7f800000 && !finite {
		return a & 0xffffe000
	}
	v := a + 0x1000
	if finite && v>>23&0xff == 0xff {
		v -= 0x2000
	}
	return v & 0xffffe000
}
