package differ

import (
	"encoding/binary"
	"math"
)

// Type is the type of a buffer's elements.
type Type uint8

// The types of elements. Only floats have bounds. All others must be equal.
const (
	U8 Type = iota
	U16
	U32
	U64
	F16
	F32
	F64
)

// Size returns the size of an element in bytes.
func (t Type) Size() int { return [...]int{1, 2, 4, 8, 2, 4, 8}[t] }

// float returns the value of the float of type t at the start of b.
func (t Type) float(b []byte) float64 {
	switch t {
	case F16:
		return halfFloat(binary.LittleEndian.Uint16(b))
	case F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// halfFloat returns the value of a binary16.
func halfFloat(h uint16) float64 {
	sign, exp, frac := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		return math.Inf(int(sign))
	case exp == 0:
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
