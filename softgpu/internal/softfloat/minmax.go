package softfloat

import "math"

// MinMax returns the larger or the smaller of two numbers of the format, as m says.
func (f *Format) MinMax(larger bool, a, b uint64, m Mode) uint64 {
	x, y := f.Decode(a, m.FTZ), f.Decode(b, m.FTZ)
	r := pick(larger, x, y, m)
	if m.XorSign && r == r {
		r = math.Copysign(r, sign(x)*sign(y))
	}
	return f.Finish(r, Mode{FTZ: m.FTZ, ReLU: m.ReLU})
}

// MinMax64 returns the minimum or maximum of two f64, as [Format.MinMax] does for
// narrower formats.
func MinMax64(larger bool, x, y float64, m Mode) float64 {
	r := pick(larger, x, y, m)
	if r != r {
		return Propagate(x, y, 0)
	}
	return r
}

func pick(larger bool, x, y float64, m Mode) float64 {
	if m.Abs {
		x, y = math.Abs(x), math.Abs(y)
	}
	return Pick(larger, x, y, m.NaN)
}

// Pick returns the larger or the smaller of two numbers; -0 is smaller than +0. A
// number wins over NaN unless nan is set.
func Pick(larger bool, a, b float64, nan bool) float64 {
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

// Max32 computes max.f32 without modifiers: a number wins over NaN, +0 over -0.
func Max32(a, b uint32) uint64 {
	x, y := math.Float32frombits(a), math.Float32frombits(b)
	switch {
	case x > y:
		return uint64(a)
	case x < y:
		return uint64(b)
	case x == y:
		return uint64(a & b) // the positive one of two zeros
	case x == x:
		return uint64(a)
	case y == y:
		return uint64(b)
	}
	return NaN32
}

// Min32 computes min.f32 without modifiers: a number wins over NaN, -0 over +0.
func Min32(a, b uint32) uint64 {
	x, y := math.Float32frombits(a), math.Float32frombits(b)
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
	return NaN32
}
