package oracle

import (
	"math"
	"math/rand/v2"
	"strings"
)

// threads is the number of threads of a kernel. Each has operands of its own.
const threads = 512

// maxRegs is the most registers that an operand has.
const maxRegs = 8

// classes lists the classes of operand values. The name of a class ends with the
// number of bits of a value.
var classes = []string{
	"b16", "b32", "b64", "shift32", "shift64", "field32", "pos32", "f32", "f64", "f16x16", "f16x32", "bf16x16", "bf16x32", "fp8x16", "fp8x32", "angle32",
	"mmaf16x32", "mmabf16x32", "mmatf32x32", "mmafp8x32", "mmaf32x32", "mmaf64", "even32", "even64",
	"leastf16x16", "leastf16x32", "leastbf16x16", "leastbf16x32", "leastf32", "leastf64",
}

func classBits(c string) int {
	switch {
	case strings.HasSuffix(c, "64"):
		return 64
	case strings.HasSuffix(c, "16"):
		return 16
	}
	return 32
}

var specials = map[string][]uint64{
	"b16":  {0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x5555, 0xaaaa, 0x1234},
	"b32":  {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0xffffff, 0x800000, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff},
	"b64":  {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1<<53 + 1, 1<<24 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, ^uint64(1), ^uint64(0), 0x5555555555555555, 0x8000000080000000},
	"f32":  {0, 1 << 31, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffa00001, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f000001, 0x4b000001},
	"f64":  {0, 1 << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000001, 0xfff4000000000003, 1, 1<<63 | 1, 0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff, 0x3ff0000010000000, 0x41dfffffffe00000},
	"f16":  {0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfd01, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x3801, 0x1000},
	"bf16": {0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xffa1, 1, 0x8001, 0x7f, 0x80, 0x7f7f, 0xff7f, 0x3f01, 0x4b01},
	"fp8":  {0, 0x80, 0x7f, 0xff, 0x7e, 0x7c, 0x7b, 0xfc, 1, 0x81, 7, 8, 0x38, 0x3c, 0xbc, 0x7d},
}

// input returns the value of thread i for register j of operand k, of the given
// class.
func input(class string, k, j, i int) uint64 {
	r := rand.New(rand.NewPCG(uint64(len(class))<<32|uint64(class[0])<<24|uint64(k)<<16|uint64(j), uint64(i)+uint64(class[len(class)-3])<<40))
	v := value(class, k, i, r)
	if n := classBits(class); n < 64 {
		v &= 1<<n - 1
	}
	return v
}

// special returns, for the first 256 threads, every pair of special values of
// operands 0 and 1.
func special(list []uint64, k, i int, r *rand.Rand) (uint64, bool) {
	switch {
	case i >= 256:
		return 0, false
	case k == 0:
		return list[i%16], true
	case k == 1:
		return list[i/16], true
	}
	return list[r.IntN(16)], r.IntN(2) == 0
}

func value(class string, k, i int, r *rand.Rand) uint64 {
	if name, ok := strings.CutPrefix(class, "least"); ok {
		return least(name, k, i)
	}
	switch class {
	case "b16", "b32", "b64":
		if v, ok := special(specials[class], k, i, r); ok {
			return v
		}
		return r.Uint64() >> r.IntN(classBits(class))
	case "f32", "f64":
		return float(class, k, i, r)
	case "f16x16", "bf16x16":
		return half(strings.TrimSuffix(class, "x16"), k, i, r)
	case "f16x32", "bf16x32":
		name := strings.TrimSuffix(class, "x32")
		return half(name, k, i, r)<<16 | half(name, k, (i+37)%threads, r)
	case "fp8x16", "fp8x32":
		v, _ := special(specials["fp8"], k, i, r)
		return r.Uint64()<<8 | v
	case "shift32", "shift64":
		return []uint64{0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000000, 0xffffffff, r.Uint64() & 63}[r.IntN(16)]
	case "field32":
		return r.Uint64()&0xff | r.Uint64()&0x3f<<8
	case "pos32":
		return r.Uint64() & 31
	case "even32":
		return r.Uint64() & 3
	case "even64":
		return r.Uint64() & 3 << 33
	case "angle32":
		if i < 256 {
			return specials["f32"][i%16]
		}
		return uint64(math.Float32bits(float32((r.Float64() - 0.5) * 200)))
	}
	return matrix(class, i, r)
}

func float(class string, k, i int, r *rand.Rand) uint64 {
	if v, ok := special(specials[class], k, i, r); ok {
		return v
	}
	is64 := class == "f64"
	switch r.IntN(4) {
	case 0:
		return r.Uint64() >> (32 * uint(bit(!is64)))
	case 1: // a number with few bits, so that sums are exact or half-way
		x := float64(r.IntN(64)-32) / 8
		if is64 {
			return math.Float64bits(x * math.Ldexp(1, -r.IntN(60)))
		}
		return uint64(math.Float32bits(float32(x * math.Ldexp(1, -r.IntN(30)))))
	}
	x := r.NormFloat64() * math.Ldexp(1, r.IntN(70)-35)
	if is64 {
		return math.Float64bits(x)
	}
	return uint64(math.Float32bits(float32(x)))
}

func half(name string, k, i int, r *rand.Rand) uint64 {
	if v, ok := special(specials[name], k, i, r); ok {
		return v
	}
	if r.IntN(2) == 0 {
		return r.Uint64() & 0xffff
	}
	if name == "f16" {
		return r.Uint64()&0x83ff | uint64(13+r.IntN(5))<<10
	}
	return r.Uint64()&0x807f | uint64(125+r.IntN(5))<<7
}

// matrix returns an element, or a register of elements. The first warps have numbers
// of similar size. Then come wider ranges and denormals, and in the last four warps
// NaN and infinity.
func matrix(class string, i int, r *rand.Rand) uint64 {
	warp := i / 32
	spread := []int{1, 2, 4, 8}[warp%4]
	if warp >= 8 {
		spread = 12
	}
	rare := warp >= 12 && r.IntN(100) == 0
	small := warp >= 10 && r.IntN(3) == 0
	element := func(mant, bias, top int) uint64 {
		sign, frac := r.Uint64()&1, r.Uint64()&(1<<mant-1)
		exp := min(max(bias-spread/2+r.IntN(spread+1), 1), top-1)
		switch {
		case rare:
			exp = top
			frac = []uint64{0, 1 << (mant - 1)}[r.IntN(2)]
		case small:
			exp = 0
		case r.IntN(10) == 0:
			exp, frac = 0, 0
		}
		bits := map[int]int{10: 5, 7: 8, 23: 8, 52: 11}[mant]
		return sign<<(mant+bits) | uint64(exp)<<mant | frac
	}
	switch class {
	case "mmaf16x32":
		return element(10, 15, 31)<<16 | element(10, 15, 31)
	case "mmabf16x32":
		return element(7, 127, 255)<<16 | element(7, 127, 255)
	case "mmatf32x32":
		return element(23, 127, 255)
	case "mmaf32x32":
		return element(23, 127+r.IntN(9)-4, 255)
	case "mmaf64":
		return element(52, 1023, 2047)
	case "mmafp8x32":
		var v uint64
		for range 4 {
			b := r.Uint64() & 0xff
			if b&0x7f > 0x77 && warp < 12 {
				b &^= 0x40
			}
			v = v<<8 | b
		}
		return v
	}
	panic("BUG: class " + class)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// table returns all inputs by class, operand, register and thread, 8 bytes each.
func table() []uint64 {
	out := make([]uint64, 0, len(classes)*3*maxRegs*threads)
	for _, c := range classes {
		for k := range 3 {
			for j := range maxRegs {
				for i := range threads {
					out = append(out, input(c, k, j, i))
				}
			}
		}
	}
	return out
}

// at returns the offset in table of a register of an operand.
func at(class string, k, j int) int {
	for n, c := range classes {
		if c == class {
			return ((n*3+k)*maxRegs + j) * threads * 8
		}
	}
	panic("BUG: class " + class)
}
