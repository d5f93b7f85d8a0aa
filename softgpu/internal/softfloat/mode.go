package softfloat

import "math"

// Mode holds the modifiers of an instruction: how an operation treats its operands
// and its result.
type Mode struct {
	Round   Rounding
	FTZ     bool // .ftz: denormals count as zero, and tiny results become zero
	Sat     bool // .sat: the result is clamped to 0..1
	ReLU    bool // .relu: a negative result becomes zero
	NaN     bool // .NaN of min and max: NaN wins over a number
	XorSign bool // .xorsign of min and max: the sign is the product of both signs
	Abs     bool // .abs of min and max: magnitudes are compared
}

// Least32 is the magnitude of the smallest normal f32. A product of this magnitude
// may have been rounded up to it (see [Format.IsTiny]). No sum and, to nearest, no
// quotient lies just below it without being a denormal.
const Least32 = 0x00800000

// Canonical32 returns the bits of f. Every NaN becomes [NaN32].
func Canonical32(f float32) uint64 {
	if f != f {
		return NaN32
	}
	return uint64(math.Float32bits(f))
}

// Flush32 turns a denormal into a zero of the same sign.
func Flush32(u uint32) uint32 {
	if u&0x7f800000 == 0 {
		return u & 0x80000000
	}
	return u
}

// Finish32 applies m to the bits of an f32 result that is rounded already.
func Finish32(u uint32, m Mode) uint64 {
	if u&0x7fffffff > 0x7f800000 {
		if m.Sat || m.ReLU && !m.NaN {
			return 0
		}
		return NaN32
	}
	if m.FTZ {
		u = Flush32(u)
	}
	if m.Sat {
		f := math.Float32frombits(u)
		switch {
		case f <= 0:
			return 0
		case f > 1:
			return 0x3f800000
		}
	}
	if m.ReLU && u>>31 != 0 {
		return 0
	}
	return uint64(u)
}

// Finish applies m to a result that is exact or rounded to odd, and rounds it.
func (f *Format) Finish(x float64, m Mode) uint64 {
	if m.Sat {
		x = Saturate(x)
	}
	if m.ReLU && x <= 0 {
		x = 0
	}
	if m.FTZ && f.IsTiny(x, m.Round) {
		x = math.Copysign(0, x)
	}
	return f.Encode(x, m.Round)
}

// Saturate clamps x to 0..1. NaN becomes 0.
func Saturate(x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case x > 1:
		return 1
	}
	return x
}
