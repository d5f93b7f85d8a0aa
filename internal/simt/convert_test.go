package simt

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

func TestConversions(t *testing.T) {
	yes := func(b bool) uint64 { return uint64(bit(b)) }
	f64 := math.Float64frombits
	u32, u64, f32s, f64s := []string{"u32"}, []string{"u64"}, []string{"f32"}, []string{"f64"}
	toInt := func(x float64, lo, hi *big.Int, nan uint64) uint64 {
		if x != x {
			return nan
		}
		if math.IsInf(x, 1) || !math.IsInf(x, 0) && exactly(x).Cmp(new(big.Float).SetInt(hi)) > 0 {
			return hi.Uint64()
		}
		if math.IsInf(x, -1) || exactly(x).Cmp(new(big.Float).SetInt(lo)) < 0 {
			return uint64(lo.Int64())
		}
		v, _ := exactly(x).Int(nil)
		if v.Sign() < 0 {
			return uint64(v.Int64())
		}
		return v.Uint64()
	}
	signedRange := func(n uint) (*big.Int, *big.Int) {
		one := big.NewInt(1)
		hi := new(big.Int).Lsh(one, n-1)
		return new(big.Int).Neg(hi), new(big.Int).Sub(hi, one)
	}
	unsignedRange := func(n uint) (*big.Int, *big.Int) {
		one := big.NewInt(1)
		return new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(one, n), one)
	}
	tests := []opTest{
		{"cvt.s64.s32 $d, $a;", "u64", u32, func(a, _, _ uint64) uint64 { return uint64(s32(a)) }},
		{"cvt.u64.u32 $d, $a;", "u64", u32, func(a, _, _ uint64) uint64 { return a }},
		{"cvt.u32.u64 $d, $a;", "u32", u64, func(a, _, _ uint64) uint64 { return a }},
		{"cvt.s32.s8 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(int8(a)) }},
		{"cvt.u32.u8 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return a & 255 }},
		{"cvt.s8.s32 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(int8(a)) }},
		{"cvt.u16.u32 $d, $a;", "u16", u32, func(a, _, _ uint64) uint64 { return a }},
		{"cvt.s64.s16 $d, $a;", "u64", []string{"u16"}, func(a, _, _ uint64) uint64 { return uint64(int16(a)) }},
		{"cvt.sat.u8.s32 $d, $a;", "u32", u32, func(a, _, _ uint64) uint64 { return uint64(min(max(s32(a), 0), 255)) }},
		{"cvt.sat.s16.u64 $d, $a;", "u16", u64, func(a, _, _ uint64) uint64 { return min(a, 32767) }},
		{"cvt.sat.s32.s64 $d, $a;", "u32", u64, func(a, _, _ uint64) uint64 { return sat32(int64(a)) }},
		{"cvt.pack.sat.s8.s32.b32 $d, $a, $b, $c;", "u32", []string{"u32", "u32", "u32"}, func(a, b, c uint64) uint64 {
			f := func(v uint64) uint64 { return uint64(uint8(min(max(s32(v), -128), 127))) }
			return c<<16 | f(a)<<8 | f(b)
		}},
		{"cvt.f64.f32 $d, $a;", "f64", f32s, func(a, _, _ uint64) uint64 { return math.Float64bits(float64(f32(a))) }},
		{"cvt.rn.f32.f64 $d, $a;", "f32", f64s, func(a, _, _ uint64) uint64 { return b32(float32(f64(a))) }},
		{"cvt.sat.f32.f32 $d, $a;", "f32", f32s, func(a, _, _ uint64) uint64 { return b32(float32(saturateRef(float64(f32(a))))) }},
		{"cvt.rni.f64.f64 $d, $a;", "f64", f64s, func(a, _, _ uint64) uint64 { return math.Float64bits(math.RoundToEven(f64(a))) }},
		{"cvt.rpi.ftz.f32.f32 $d, $a;", "f32", f32s, func(a, _, _ uint64) uint64 { return b32(float32(math.Ceil(float64(flushed(f32(a)))))) }},
		{"cvt.rn.f64.u64 $d, $a;", "f64", u64, func(a, _, _ uint64) uint64 { return math.Float64bits(float64(a)) }},
		{"cvt.rn.f64.s64 $d, $a;", "f64", u64, func(a, _, _ uint64) uint64 { return math.Float64bits(float64(int64(a))) }},
		{"cvt.rn.f32.u64 $d, $a;", "f32", u64, func(a, _, _ uint64) uint64 { return b32(roundInt(new(big.Int).SetUint64(a), roundNearest)) }},
		{"cvt.rp.f32.s64 $d, $a;", "f32", u64, func(a, _, _ uint64) uint64 { return b32(roundInt(big.NewInt(int64(a)), roundUp)) }},
		{"cvt.rz.f32.u32 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(roundInt(new(big.Int).SetUint64(a), roundZero)) }},
		{"cvt.rm.f32.s32 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(roundInt(big.NewInt(s32(a)), roundDown)) }},
		{"cvt.rn.f32.s32 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(float32(int32(a))) }},
		{"cvt.rn.f32.u8 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(float32(uint8(a))) }},
		{"cvt.rn.f64.s32 $d, $a;", "f64", u32, func(a, _, _ uint64) uint64 { return math.Float64bits(float64(int32(a))) }},
		{"setp.eq.u64 $p, $a, 3;", "", u64, func(a, _, _ uint64) uint64 { return yes(a == 3) }},
	}
	for name, round := range map[string]func(float64) float64{"rzi": math.Trunc, "rni": math.RoundToEven, "rmi": math.Floor, "rpi": math.Ceil} {
		for _, n := range []uint{8, 16, 32, 64} {
			reg := map[uint]string{8: "u32", 16: "u16", 32: "u32", 64: "u64"}[n]
			sl, sh := signedRange(n)
			ul, uh := unsignedRange(n)
			size := map[uint]string{8: "8", 16: "16", 32: "32", 64: "64"}[n]
			lowest := uint64(1) << (n - 1) // what hardware makes of NaN, of f32 in 64 bits only
			nan32 := lowest >> 63 << 63
			tests = append(tests,
				opTest{"cvt." + name + ".s" + size + ".f32 $d, $a;", reg, f32s, func(a, _, _ uint64) uint64 { return toInt(round(float64(f32(a))), sl, sh, nan32) }},
				opTest{"cvt." + name + ".u" + size + ".f32 $d, $a;", reg, f32s, func(a, _, _ uint64) uint64 { return toInt(round(float64(f32(a))), ul, uh, nan32) }},
				opTest{"cvt." + name + ".s" + size + ".f64 $d, $a;", reg, f64s, func(a, _, _ uint64) uint64 {
					return toInt(round(f64(a)), sl, sh, uint64(int64(lowest<<(64-n))>>(64-n)))
				}},
				opTest{"cvt." + name + ".u" + size + ".f64 $d, $a;", reg, f64s, func(a, _, _ uint64) uint64 { return toInt(round(f64(a)), ul, uh, lowest) }})
		}
	}
	for name, mode := range map[string]rounding{"rz": roundZero, "rm": roundDown, "rp": roundUp} {
		tests = append(tests, opTest{"cvt." + name + ".f32.f64 $d, $a;", "f32", f64s, func(a, _, _ uint64) uint64 {
			x := f64(a)
			if x != x || x == 0 || math.IsInf(x, 0) {
				return b32(float32(x))
			}
			return b32(round32(exactly(x), mode))
		}})
	}
	runOps(t, tests)
}

func saturateRef(x float64) float64 {
	if x != x || x <= 0 {
		return 0
	}
	return min(x, 1)
}

func roundInt(v *big.Int, mode rounding) float32 {
	if v.Sign() == 0 {
		return 0
	}
	return round32(new(big.Float).SetPrec(2000).SetInt(v), mode)
}

// TestNarrowFormats rounds numbers to all narrow formats, and checks against a
// search through all numbers of the format.
func TestNarrowFormats(t *testing.T) {
	formats := map[string]*format{"f16": &formatF16, "bf16": &formatBF16, "e4m3": &formatE4M3, "e5m2": &formatE5M2}
	for name, s := range smallFormats {
		f := formats[name]
		for v := range uint64(1) << s.size {
			got, want := decodeFloat(f, v, false), s.value(v)
			if !same64(got, want) {
				t.Fatalf("%s %#x: got %v, want %v", name, v, got, want)
			}
			if want == want && encode(f, want, roundNearest) != v && !(math.IsInf(want, 0) && f.finite) {
				t.Fatalf("%s %v: got %#x, want %#x", name, want, encode(f, want, roundNearest), v)
			}
		}
		if s.size > 8 && testing.Short() {
			continue
		}
		for range map[bool]int{true: 400, false: 12}[s.size == 8] {
			v := rng.Uint64N(1<<s.size - 1)
			a, b := s.value(v), s.value(v+1)
			x := a + (b-a)*[]float64{0.5, 0.25, 0.5 + 1e-9, 0.5 - 1e-9, rng.Float64()}[rng.IntN(5)]
			if x != x || math.IsInf(x, 0) || x == 0 || math.Abs(x) > s.value(f.maxBits) {
				continue
			}
			if got, want := encode(f, x, roundNearest), s.nearest(exactly(x)); got != want {
				t.Fatalf("%s %v: got %#x, want %#x", name, x, got, want)
			}
		}
	}
}

// TestNarrowArithmetic checks f16 and bf16 arithmetic, which must round once.
func TestNarrowArithmetic(t *testing.T) {
	for _, name := range []string{"f16", "bf16"} {
		s := smallFormats[name]
		ty := ptx.F16
		if name == "bf16" {
			ty = ptx.BF16
		}
		var all []float64 // positive numbers, ascending
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
				// Between i-1 and i, or next to i: compare with the middle, exactly.
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
			f := arithNarrow(op, ty, floatMode{})
			for range 3000 {
				var in [3]lanes
				var x [3]*big.Float
				for k := range in {
					v := uint64(rng.Uint32N(1 << 16))
					for s.value(v) != s.value(v) || math.IsInf(s.value(v), 0) {
						v = uint64(rng.Uint32N(1 << 16))
					}
					if rng.IntN(2) == 0 {
						v = v&0x83ff | 0x3800 // of like size
					}
					in[k][0], x[k] = v, exactly(s.value(v))
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
					continue // its sign is checked with f32
				}
				var d lanes
				f(&d, &in[0], &in[1], &in[2], 1)
				if want := round(r); d[0]&0xffff != want {
					t.Fatalf("%s.%s of %#x (%d operands): got %#x, want %#x", op, name, in, n, d[0], want)
				}
			}
		}
	}
}

// TestDirectedF64 checks the directions by enclosing the exact result.
func TestDirectedF64(t *testing.T) {
	for range 2000 {
		x, y, z := math.Float64frombits(operandOf("f64")), math.Float64frombits(operandOf("f64")), math.Float64frombits(operandOf("f64"))
		if math.IsNaN(x+y+z) || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsInf(z, 0) {
			continue
		}
		for _, op := range []string{"add", "sub", "mul", "div", "fma", "sqrt"} {
			if op == "div" && y == 0 || op == "sqrt" && x < 0 {
				continue
			}
			exact := exactOf(op, x, y, z)
			down, up, zero := arith64(op, x, y, z, roundDown), arith64(op, x, y, z, roundUp), arith64(op, x, y, z, roundZero)
			if !math.IsInf(down, 0) && exactly(down).Cmp(exact) > 0 || !math.IsInf(up, 0) && exactly(up).Cmp(exact) < 0 {
				t.Fatalf("%s of %v, %v, %v: got %v to %v", op, x, y, z, down, up)
			}
			if down != up && math.Nextafter(down, math.Inf(1)) != up {
				t.Fatalf("%s of %v, %v, %v: %v and %v are no neighbours", op, x, y, z, down, up)
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
