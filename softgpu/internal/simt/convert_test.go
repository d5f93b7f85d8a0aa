package simt

import (
	"math"
	"math/big"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
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
		{"cvt.rn.f32.u64 $d, $a;", "f32", u64, func(a, _, _ uint64) uint64 { return b32(roundInt(new(big.Int).SetUint64(a), softfloat.NearestEven)) }},
		{"cvt.rp.f32.s64 $d, $a;", "f32", u64, func(a, _, _ uint64) uint64 { return b32(roundInt(big.NewInt(int64(a)), softfloat.Up)) }},
		{"cvt.rz.f32.u32 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(roundInt(new(big.Int).SetUint64(a), softfloat.TowardZero)) }},
		{"cvt.rm.f32.s32 $d, $a;", "f32", u32, func(a, _, _ uint64) uint64 { return b32(roundInt(big.NewInt(s32(a)), softfloat.Down)) }},
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
			lowest := uint64(1) << (n - 1) // what the hardware makes of NaN; for f32 in 64 bits only
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
	for name, mode := range map[string]softfloat.Rounding{"rz": softfloat.TowardZero, "rm": softfloat.Down, "rp": softfloat.Up} {
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

func roundInt(v *big.Int, mode softfloat.Rounding) float32 {
	if v.Sign() == 0 {
		return 0
	}
	return round32(new(big.Float).SetPrec(2000).SetInt(v), mode)
}
