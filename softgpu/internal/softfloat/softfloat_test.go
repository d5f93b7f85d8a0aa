package softfloat

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

var rng = rand.New(rand.NewPCG(1, 2))

var edges = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.4028235e38, -3.4028235e38, math.Inf(1), math.Inf(-1), math.NaN(),
	1e-45, -1e-45, 1.1754944e-38, 5.877e-39, 2147483648, -2147483648, 4294967296, 1e10, -1e10, 0.99999994, 16777217, 8388608.5,
}

// operand returns an edge of the number formats, a number of ordinary size, or any bits.
func operand() float64 {
	switch rng.IntN(3) {
	case 0:
		return edges[rng.IntN(len(edges))]
	case 1:
		return rng.NormFloat64() * 1e6
	}
	return math.Float64frombits(rng.Uint64() >> rng.UintN(64))
}

func exactly(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }

func same64(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }

// TestNarrowFormats rounds numbers to all narrow formats, and compares with a search
// through all numbers of the format.
func TestNarrowFormats(t *testing.T) {
	formats := map[string]*Format{"f16": &F16, "bf16": &BF16, "e4m3": &E4M3, "e5m2": &E5M2}
	for name, s := range smallFormats {
		f := formats[name]
		for v := range uint64(1) << s.size {
			got, want := f.Decode(v, false), s.value(v)
			if !same64(got, want) {
				t.Fatalf("%s %#x: got %v, want %v", name, v, got, want)
			}
			if want == want && f.Encode(want, NearestEven) != v && !(math.IsInf(want, 0) && f.finite) {
				t.Fatalf("%s %v: got %#x, want %#x", name, want, f.Encode(want, NearestEven), v)
			}
		}
		if s.size > 8 && testing.Short() {
			continue
		}
		for range map[bool]int{true: 400, false: 12}[s.size == 8] {
			v := rng.Uint64N(1<<s.size - 1)
			a, b := s.value(v), s.value(v+1)
			x := a + (b-a)*[]float64{0.5, 0.25, 0.5 + 1e-9, 0.5 - 1e-9, rng.Float64()}[rng.IntN(5)]
			if x != x || math.IsInf(x, 0) || x == 0 || math.Abs(x) > s.value(f.max) {
				continue
			}
			if got, want := f.Encode(x, NearestEven), s.nearest(exactly(x)); got != want {
				t.Fatalf("%s %v: got %#x, want %#x", name, x, got, want)
			}
		}
	}
}

// TestNarrowArithmetic checks f16 and bf16 arithmetic, which must round once.
func TestNarrowArithmetic(t *testing.T) {
	for _, name := range []string{"f16", "bf16"} {
		s := smallFormats[name]
		f := map[string]*Format{"f16": &F16, "bf16": &BF16}[name]
		var all []float64 // the positive numbers in ascending order
		for v := range uint64(1) << 15 {
			if x := s.value(v); x == x && !math.IsInf(x, 0) {
				all = append(all, x)
			}
		}
		round := func(x *big.Float) uint64 {
			f, acc := new(big.Float).Abs(x).Float64()
			i, exact := slices.BinarySearch(all, f)
			var v uint64
			switch {
			case exact && acc == big.Exact:
				v = uint64(i)
			default:
				// x is between all[i-1] and all[i], or next to all[i]: compare it
				// with the middle, exactly.
				if exact && acc == big.Below {
					i++
				}
				lo := all[max(i-1, 0)]
				hi := 2*lo - all[max(i-2, 0)]
				if i < len(all) {
					hi = all[i]
				}
				mid := new(big.Float).SetPrec(2000).Add(exactly(lo), exactly(hi))
				mid.Quo(mid, exactly(2))
				c := new(big.Float).Abs(x).Cmp(mid)
				v = uint64(i - 1)
				if c > 0 || c == 0 && v&1 != 0 {
					v++
				}
			}
			if x.Signbit() {
				v |= 0x8000
			}
			return v
		}
		for op, n := range map[string]int{"add": 2, "sub": 2, "mul": 2, "fma": 3} {
			for range 3000 {
				var in [3]uint64
				var x [3]*big.Float
				for k := range in {
					v := uint64(rng.Uint32N(1 << 16))
					for s.value(v) != s.value(v) || math.IsInf(s.value(v), 0) {
						v = uint64(rng.Uint32N(1 << 16))
					}
					if rng.IntN(2) == 0 {
						v = v&0x83ff | 0x3800 // of similar size
					}
					in[k], x[k] = v, exactly(s.value(v))
				}
				r := new(big.Float).SetPrec(2000)
				switch op {
				case "add":
					r.Add(x[0], x[1])
				case "sub":
					r.Sub(x[0], x[1])
				case "mul":
					r.Mul(x[0], x[1])
				case "fma":
					r.Mul(x[0], x[1])
					r.Add(r, x[2])
				}
				if r.Sign() == 0 {
					continue // the tests of f32 check its sign
				}
				got := f.Finish(Arith(op, s.value(in[0]), s.value(in[1]), s.value(in[2]), false), Mode{})
				if want := round(r); got != want {
					t.Fatalf("%s.%s of %#x (%d operands): got %#x, want %#x", op, name, in, n, got, want)
				}
			}
		}
	}
}

// TestDirectedF64 checks that the directed results enclose the exact result.
func TestDirectedF64(t *testing.T) {
	for range 2000 {
		x, y, z := operand(), operand(), operand()
		if math.IsNaN(x+y+z) || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsInf(z, 0) {
			continue
		}
		for _, op := range []string{"add", "sub", "mul", "div", "fma", "sqrt"} {
			if op == "div" && y == 0 || op == "sqrt" && x < 0 {
				continue
			}
			exact := exactOf(op, x, y, z)
			down, up, zero := Arith64(op, x, y, z, Down), Arith64(op, x, y, z, Up), Arith64(op, x, y, z, TowardZero)
			if !math.IsInf(down, 0) && exactly(down).Cmp(exact) > 0 || !math.IsInf(up, 0) && exactly(up).Cmp(exact) < 0 {
				t.Fatalf("%s of %v, %v, %v: got %v to %v", op, x, y, z, down, up)
			}
			if down != up && math.Nextafter(down, math.Inf(1)) != up {
				t.Fatalf("%s of %v, %v, %v: %v and %v are not neighbours", op, x, y, z, down, up)
			}
			if math.IsInf(down, 1) || math.IsInf(up, -1) {
				t.Fatalf("%s of %v, %v, %v: got %v to %v", op, x, y, z, down, up)
			}
			toward := down
			if exact.Sign() < 0 {
				toward = up
			}
			if zero != toward {
				t.Fatalf("%s of %v, %v, %v towards zero: got %v, want %v", op, x, y, z, zero, toward)
			}
		}
	}
}

func exactOf(op string, x, y, z float64) *big.Float {
	a, b, c := exactly(x), exactly(y), exactly(z)
	r := new(big.Float).SetPrec(5000)
	switch op {
	case "add":
		return r.Add(a, b)
	case "sub":
		return r.Sub(a, b)
	case "mul":
		return r.Mul(a, b)
	case "div":
		return r.Quo(a, b)
	case "sqrt":
		return r.Sqrt(a)
	}
	r.Mul(a, b)
	return r.Add(r, c)
}

// small describes a narrow format independently of the code under test.
type small struct {
	size, mant, bias int
	ieee             bool // the largest exponent means infinity and NaN
}

var smallFormats = map[string]small{
	"f16": {16, 10, 15, true}, "bf16": {16, 7, 127, true}, "e4m3": {8, 3, 7, false}, "e5m2": {8, 2, 15, true},
}

// value returns the number that the bits v stand for.
func (s small) value(v uint64) float64 {
	frac, exp := float64(v&(1<<s.mant-1)), int(v>>s.mant)&(1<<(s.size-1-s.mant)-1)
	x := math.Ldexp(frac, 1-s.bias-s.mant)
	if exp > 0 {
		x = math.Ldexp(frac+math.Ldexp(1, s.mant), exp-s.bias-s.mant)
	}
	if top := 1<<(s.size-1-s.mant) - 1; exp == top {
		switch {
		case s.ieee && frac == 0:
			x = math.Inf(1)
		case s.ieee || frac == math.Ldexp(1, s.mant)-1:
			x = math.NaN()
		}
	}
	if v>>(s.size-1)&1 != 0 {
		x = -x
	}
	return x
}

// nearest returns the number of the format that is nearest to an exact number, by a
// search through all numbers. Ties go to even. Beyond the largest number it rounds as
// if another number followed.
func (s small) nearest(x *big.Float) uint64 {
	best, bestDiff := uint64(0), new(big.Float)
	limit := uint64(1) << (s.size - 1)
	for v := uint64(0); v < limit; v++ {
		y := s.value(v)
		if math.IsInf(y, 0) {
			y = math.Ldexp(1, 1<<(s.size-2-s.mant)) // where the next number would be
		}
		if y != y {
			continue
		}
		diff := new(big.Float).SetPrec(4000).Sub(new(big.Float).Abs(x), exactly(y))
		diff.Abs(diff)
		if c := diff.Cmp(bestDiff); v == 0 || c < 0 || c == 0 && v&1 == 0 {
			best, bestDiff = v, diff
		}
	}
	if x.Signbit() {
		best |= limit
	}
	return best
}
