package convert_test

import (
	"math"
	"sort"

	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
)

// format is a float format as its text defines it, without a bit trick: the reference of the tests.
type format struct {
	bits, bias int // of the significand, of the exponent
	width      int // bits in all
	infinite   bool
}

var formats = map[convert.Kind]format{
	convert.F32:  {23, 127, 32, true},
	convert.F16:  {10, 15, 16, true},
	convert.BF16: {7, 127, 16, true},
	convert.E4M3: {3, 7, 8, false},
	convert.E5M2: {2, 15, 8, true},
}

// overflow returns the least code, without a sign, that is not a finite number.
func (f format) overflow() uint32 {
	if !f.infinite {
		return 0x7f
	}
	return 1<<(f.width-1) - 1<<f.bits
}

// number returns what a code without a sign stands for, if the exponents had no end.
func (f format) number(code uint32) float64 {
	exponent, fraction := int(code>>f.bits), float64(code&(1<<f.bits-1))
	if exponent == 0 {
		return math.Ldexp(fraction, 1-f.bias-f.bits)
	}
	return math.Ldexp(fraction+float64(int(1)<<f.bits), exponent-f.bias-f.bits)
}

// split returns the sign bit of a code, moved to the lowest place, and the rest.
func (f format) split(code uint32) (sign, rest uint32) {
	return code >> (f.width - 1), code & (1<<(f.width-1) - 1)
}

// join is the inverse of split.
func (f format) join(sign, rest uint32) uint32 { return sign<<(f.width-1) | rest }

// convert returns the code in another format: the nearest, of two as near the even one. A NaN keeps
// its sign and has all other bits set.
func (f format) convert(code uint32, to format) uint32 {
	sign, code := f.split(code)
	inf, over := f.infinite && code == f.overflow(), to.overflow()
	switch {
	case !inf && code >= f.overflow():
		return to.join(sign, 1<<(to.width-1)-1)
	case inf:
		return to.join(sign, over)
	}
	v := f.number(code)
	// The first code above v, at most over, which here is the number that would follow the largest.
	above := uint32(sort.Search(int(over), func(c int) bool { return to.number(uint32(c)) > v }))
	if above == over && v >= to.number(over) {
		return to.join(sign, over)
	}
	down, up := v-to.number(above-1), to.number(above)-v
	if down < up || down == up && above%2 == 1 {
		above--
	}
	return to.join(sign, above)
}
