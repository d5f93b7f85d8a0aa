package sfu

import "math/bits"

const (
	nan      = 0x7fffffff
	infinity = 0x7f800000
	sign     = 1 << 31
	one      = 1 << 23 // 1 as a significand
	fraction = one - 1
	bias     = 127
)

// Function returns what the unit does for an instruction: rcp, rsqrt, sqrt, lg2, ex2,
// tanh, sin or cos. The angle of sin and cos is in turns. Function returns nil if the
// coefficients are unknown.
func Function(op string) func(x uint32) uint32 { return loaded().Function(op) }

// Function returns what a unit with these tables does for an instruction.
func (t Tables) Function(op string) func(x uint32) uint32 {
	if op == "tanh" {
		return t.tanhFunction()
	}
	rows, width := t[op], 23
	switch op {
	case "cos":
		rows = t["sin"]
	case "rsqrt", "sqrt":
		width = 24
	}
	if rows == nil {
		return nil
	}
	at := newTable(rows, width)
	switch op {
	case "rcp":
		return func(x uint32) uint32 { return rcp(at, x) }
	case "rsqrt":
		return func(x uint32) uint32 { return rsqrt(at, x) }
	case "sqrt":
		return func(x uint32) uint32 { return sqrt(at, x) }
	case "lg2":
		return func(x uint32) uint32 { return lg2(at, x) }
	case "ex2":
		return func(x uint32) uint32 { return ex2(at, x) }
	case "sin":
		return func(x uint32) uint32 { return wave(at, x, 0) }
	}
	return func(x uint32) uint32 { return wave(at, x&^sign, 1) }
}

// exponent returns the biased exponent of x.
func exponent(x uint32) int { return int(x >> 23 & 0xff) }

func rcp(t *table, x uint32) uint32 {
	s := x & sign
	switch exp := exponent(x); {
	case x&^sign > infinity:
		return nan
	case exp == 0:
		return s | infinity
	case exp == 255:
		return s
	default:
		return s | assemble(2*bias-1-exp, uint32(t.at(x&fraction)>>16))
	}
}

// root returns the result of rsqrt, sqrt or lg2 for an argument that is no positive number:
// atZero, atInfinity or NaN. It returns false for the others.
func root(x, atZero, atInfinity uint32) (uint32, bool) {
	switch exp := exponent(x); {
	case x&^sign > infinity:
		return nan, true
	case exp == 0:
		return atZero, true
	case x&sign != 0:
		return nan, true
	case exp == 255:
		return atInfinity, true
	}
	return 0, false
}

// halve returns half of an exponent, and its lowest bit above the fraction f of the given
// width: the number is then in [1, 4).
func halve(exp int, f uint32, width int) (int, uint32) {
	return exp >> 1, uint32(exp&1)<<width | f
}

func rsqrt(t *table, x uint32) uint32 {
	if r, ok := root(x, x&sign|infinity, 0); ok {
		return r
	}
	half, argument := halve(exponent(x)-bias, x&fraction, 23)
	if argument == 0 {
		return assemble(bias-half, one)
	}
	return assemble(bias-1-half, uint32(t.at(argument)>>16))
}

func sqrt(t *table, x uint32) uint32 {
	if r, ok := root(x, x&sign, infinity); ok {
		return r
	}
	half, argument := halve(exponent(x)-bias, x&fraction, 23)
	return assemble(bias+half, uint32(t.at(argument)>>17))
}

func lg2(t *table, x uint32) uint32 {
	if r, ok := root(x, sign|infinity, infinity); ok {
		return r
	}
	if x == bias<<23 {
		return 0
	}
	v := t.at(x&fraction)>>2 + int64(exponent(x)-bias)<<36
	if v < 0 {
		return sign | normalize(^v, 36)
	}
	return normalize(v, 36)
}

func ex2(t *table, x uint32) uint32 {
	negative := x&sign != 0
	switch exp := exponent(x); {
	case x&^sign > infinity:
		return nan
	case exp >= bias+7 && negative:
		return 0
	case exp >= bias+7:
		return infinity
	}
	v := int32(fixed(x, 23))
	if f := uint32(v) & fraction; negative && f != 0 {
		v = ^v // one unit below -v
	} else if negative {
		v = -v
	}
	return assemble(bias+int(v>>23), uint32(t.at(uint32(v)&fraction)>>15))
}

// wave returns the sine of x turns and the given number of quarters of a turn.
func wave(t *table, x, quarter uint32) uint32 {
	if exponent(x) == 255 {
		return nan
	}
	angle := fixed(x, 25)
	quarter += angle >> 23
	if quarter&1 != 0 {
		angle = ^angle
	}
	return x&sign ^ quarter<<30&sign | normalize(t.at(angle&fraction), 37)
}

// fixed returns the magnitude of x with the given number of bits after the point. It
// cuts the bits below, and those above a word.
func fixed(x uint32, after int) uint32 {
	m := uint64(x&fraction | one)
	switch n := exponent(x) - bias + after - 23; {
	case exponent(x) == 0 || n >= 32:
		return 0
	case n >= 0:
		return uint32(m << n)
	default:
		return uint32(m >> -n)
	}
}

// assemble returns the f32 of a biased exponent and a significand in [one, 2*one]. Like
// the unit it returns zero for a denormal, and infinity for a number too large.
func assemble(exp int, m uint32) uint32 {
	if m >= 2*one {
		exp, m = exp+1, one
	}
	switch {
	case exp <= 0:
		return 0
	case exp >= 255:
		return infinity
	}
	return uint32(exp)<<23 | m&fraction
}

// normalize returns v with the given number of bits after the point as an f32. It cuts
// what an f32 cannot hold.
func normalize(v int64, after int) uint32 {
	if v == 0 {
		return 0
	}
	top := bits.Len64(uint64(v)) - 1
	if top >= 23 {
		v >>= top - 23
	} else {
		v <<= 23 - top
	}
	return assemble(bias+top-after, uint32(v))
}
