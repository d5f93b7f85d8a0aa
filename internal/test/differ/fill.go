package differ

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Fill generates the contents of a buffer.
type Fill func(r *rand.Rand, b []byte)

func poison(_ *rand.Rand, b []byte) {
	for i := range b {
		b[i] = 0xa5
	}
}

func zeros(*rand.Rand, []byte) {}

// anyBytes fills with uniform random bytes.
func anyBytes(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// bytesOf fills with bytes that are uniform among the letters.
func bytesOf(letters string) Fill {
	return func(r *rand.Rand, b []byte) {
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
	}
}

// words fills with 32-bit words. f returns word i.
func words(f func(r *rand.Rand, i int) uint32) Fill {
	return func(r *rand.Rand, b []byte) {
		for i := range len(b) / 4 {
			binary.LittleEndian.PutUint32(b[4*i:], f(r, i))
		}
	}
}

// longs fills with 64-bit words. f returns word i.
func longs(f func(r *rand.Rand, i int) uint64) Fill {
	return func(r *rand.Rand, b []byte) {
		for i := range len(b) / 8 {
			binary.LittleEndian.PutUint64(b[8*i:], f(r, i))
		}
	}
}

// anyWords fills with words of every magnitude, and edge cases.
var anyWords = words(func(r *rand.Rand, _ int) uint32 {
	if r.IntN(8) == 0 {
		return []uint32{0, 1, math.MaxUint32, math.MaxInt32, 1 << 31, 0x55555555, 31, 32}[r.IntN(8)]
	}
	return r.Uint32() >> r.IntN(32)
})

// anyLongs fills like anyWords, with 64-bit numbers.
var anyLongs = longs(func(r *rand.Rand, _ int) uint64 {
	if r.IntN(8) == 0 {
		return []uint64{0, 1, math.MaxUint64, math.MaxInt64, 1 << 63, 1 << 32, 63, 10}[r.IntN(8)]
	}
	return r.Uint64() >> r.IntN(64)
})

// randomWords and randomLongs fill with uniform random words.
var (
	randomWords = words(func(r *rand.Rand, _ int) uint32 { return r.Uint32() })
	randomLongs = longs(func(r *rand.Rand, _ int) uint64 { return r.Uint64() })
)

// wordsBelow fills with words that are uniform below n.
func wordsBelow(n int) Fill {
	return words(func(r *rand.Rand, _ int) uint32 { return uint32(r.IntN(n)) })
}

// same fills with copies of one word.
func same(v uint32) Fill { return words(func(*rand.Rand, int) uint32 { return v }) }

// sameLong fills with copies of one 64-bit number.
func sameLong(v uint64) Fill { return longs(func(*rand.Rand, int) uint64 { return v }) }

// shuffles fills each n words with the numbers below n in random order.
func shuffles(n int) Fill {
	return func(r *rand.Rand, b []byte) {
		for ; len(b) > 0; b = b[4*n:] {
			for i, v := range r.Perm(n) {
				binary.LittleEndian.PutUint32(b[4*i:], uint32(v))
			}
		}
	}
}

// sorted fills with words that rise as signed numbers.
var sorted = func(r *rand.Rand, b []byte) {
	v := int64(math.MinInt32)
	step := (1 << 32) / int64(len(b)/4+1)
	for i := range len(b) / 4 {
		v += r.Int64N(step)
		binary.LittleEndian.PutUint32(b[4*i:], uint32(int32(v)))
	}
}

// floats fills with floats that are uniform from lo to hi.
func floats(lo, hi float32) Fill {
	return words(func(r *rand.Rand, _ int) uint32 {
		return math.Float32bits(lo + float32((hi-lo)*r.Float32()))
	})
}

// doubles fills with doubles that are uniform from lo to hi.
func doubles(lo, hi float64) Fill {
	return longs(func(r *rand.Rand, _ int) uint64 {
		return math.Float64bits(lo + float64((hi-lo)*r.Float64()))
	})
}

// anyFloats fills with floats of every exponent, and edge cases with denormals and NaN.
var anyFloats = words(func(r *rand.Rand, _ int) uint32 {
	if r.IntN(6) == 0 {
		return []uint32{
			0, 1 << 31, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 1, 0x80000001,
			0x007fffff, 0x00800000, 0x7f7fffff, 0x4f000000, 0xcf000000, 0x3f000000, 0x3fc00000, 0x40200000,
		}[r.IntN(17)]
	}
	return r.Uint32()
})

// anyDoubles fills like anyFloats, with doubles.
var anyDoubles = longs(func(r *rand.Rand, _ int) uint64 {
	if r.IntN(6) == 0 {
		return []uint64{
			0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
			1, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x43e0000000000000, 0x41e0000000000000, 0x3fe0000000000000,
		}[r.IntN(14)]
	}
	if r.IntN(2) == 0 {
		return r.Uint64()
	}
	return math.Float64bits(r.NormFloat64())
})

// halves fills with integers from -n to n as binary16, or as bfloat16 if bf is set.
func halves(n int, bf bool) Fill {
	return func(r *rand.Rand, b []byte) {
		for i := range len(b) / 2 {
			f := float32(r.IntN(2*n+1) - n)
			bits := uint16(math.Float32bits(f) >> 16)
			if !bf {
				bits = smallHalf(f)
			}
			binary.LittleEndian.PutUint16(b[2*i:], bits)
		}
	}
}

// smallHalf returns an integer below 2048 as binary16.
func smallHalf(f float32) uint16 {
	b := math.Float32bits(f)
	if f == 0 {
		return uint16(b >> 16)
	}
	return uint16(b>>16&0x8000 | (b>>23&255-112)<<10 | b>>13&1023)
}

// unitHalves fills with binary16 from -1 to 1 with exponents from 2^-7 to 2^-1.
func unitHalves(r *rand.Rand, b []byte) {
	for i := range len(b) / 2 {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(r.UintN(2)<<15|(8+r.UintN(7))<<10|r.UintN(1024)))
	}
}

// numerals fills records of 16 bytes with a sign or a digit, up to 14 digits, and other
// characters.
func numerals(r *rand.Rand, b []byte) {
	bytesOf("0123456789 -x")(r, b)
	for i := 0; i < len(b); i += 16 {
		n := r.IntN(15)
		for k := range n {
			b[i+1+k] = byte('0' + r.IntN(10))
		}
		b[i] = "-012345"[r.IntN(7)]
	}
}

// utf8 fills records of 16 bytes with text that is mostly well-formed.
func utf8(r *rand.Rand, b []byte) {
	for i := 0; i < len(b); {
		s := string([]rune("aé€😀ü中ß\U0010ffff\u07ff\u0800")[r.IntN(10)])
		if i%16+len(s) > 16 {
			s = "."
		}
		i += copy(b[i:], s)
	}
	for range len(b) / 64 {
		b[r.IntN(len(b))] = byte(r.Uint32())
	}
}
