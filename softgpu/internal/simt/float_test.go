package simt

import (
	"math"
	"math/big"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// exactly and the functions after it are exact arithmetic, to compare results with.

func exactly(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }

// round32 rounds an exact number to f32 once. The number must not be zero.
func round32(v *big.Float, mode softfloat.Rounding) float32 {
	f, acc := v.Float32()
	switch {
	case acc == big.Exact || mode == softfloat.NearestEven:
		return f
	case mode == softfloat.Up && acc == big.Below, mode == softfloat.TowardZero && acc == big.Below && v.Sign() < 0:
		return math.Nextafter32(f, float32(math.Inf(1)))
	case mode == softfloat.Down && acc == big.Above, mode == softfloat.TowardZero && acc == big.Above && v.Sign() > 0:
		return math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func notFinite(v ...float32) bool {
	for _, x := range v {
		if x != x || math.IsInf(float64(x), 0) {
			return true
		}
	}
	return false
}

func exactAdd(x, y float32, mode softfloat.Rounding) float32 {
	if notFinite(x, y) || x == -y || x == 0 && y == 0 {
		if mode == softfloat.Down && !notFinite(x) && x == -y && math.Signbit(float64(x)) != math.Signbit(float64(y)) {
			return float32(math.Copysign(0, -1))
		}
		return x + y
	}
	return round32(new(big.Float).SetPrec(2000).Add(exactly(float64(x)), exactly(float64(y))), mode)
}

func exactMul(x, y float32, mode softfloat.Rounding) float32 {
	if notFinite(x, y) || x == 0 || y == 0 {
		return x * y
	}
	return round32(new(big.Float).SetPrec(2000).Mul(exactly(float64(x)), exactly(float64(y))), mode)
}

func exactFMA(x, y, z float32) float32 { return exactFMAMode(x, y, z, softfloat.NearestEven) }

func exactFMAMode(x, y, z float32, mode softfloat.Rounding) float32 {
	if notFinite(x, y, z) {
		return float32(float64(float64(x)*float64(y)) + float64(z))
	}
	v := new(big.Float).SetPrec(2000).Mul(exactly(float64(x)), exactly(float64(y)))
	v.Add(v, exactly(float64(z)))
	if v.Sign() == 0 {
		p := float64(x) * float64(y)
		if mode == softfloat.Down && math.Signbit(p) != math.Signbit(float64(z)) {
			return float32(math.Copysign(0, -1))
		}
		return float32(float64(p) + float64(z))
	}
	return round32(v, mode)
}

func TestSaxpy(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		x, y := pairs(edgeFloats, 500, randomFloat)
		const a = 1.0000001
		want := make([]float32, len(x))
		for i := range x {
			want[i] = exactFMA(a, x[i], y[i])
		}
		sx, sy := put(m.mem, x), put(m.mem, y)
		mustRun(t, m.launch(t, "saxpy", blocks(len(x), 96), 96, float32(a), sx, sy, len(x)))
		for i, got := range valuesOf[float32](sy.Data) {
			if !same32(got, want[i]) {
				t.Fatalf("%v*%v+%v: got %v, want %v", float32(a), x[i], y[i], got, want[i])
			}
		}
	})
}

func clampInt(x float64, lo, hi float64) float64 {
	if x != x {
		return 0
	}
	return min(max(math.Trunc(x), lo), hi) + 0 // integers have no -0
}

// indefinite returns v, or the lowest int32 if x is NaN: the hardware converts f64
// like this.
func indefinite(x, v float64) float64 {
	if x != x {
		return math.MinInt32
	}
	return v
}

func fmin32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	}
	return min(a, b)
}

func fmax32(a, b float32) float32 { return -fmin32(-a, -b) }

func TestFloatOps(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		a, b := pairs(edgeFloats, 2000, randomFloat)
		out := put(m.mem, make([]float32, 24*len(a)))
		mustRun(t, m.launch(t, "float_ops", blocks(len(a), 256), 256, put(m.mem, a), put(m.mem, b), out, len(a)))
		got := valuesOf[float32](out.Data)
		for i := range a {
			x, y := a[i], b[i]
			less := y
			if x < y {
				less = x
			}
			one := float32(0)
			if x != x {
				one = 1
			}
			sat := float32(0)
			if x > 0 {
				sat = min(x, 1)
			}
			want := []float32{
				x + y, x - y, x * y, x / y, exactFMA(x, y, 1.5), float32(math.Sqrt(float64(x))),
				fmin32(x, y), fmax32(x, y), float32(math.Abs(float64(x))), -x,
				float32(math.RoundToEven(float64(x))), float32(math.Floor(float64(x))), float32(math.Ceil(float64(x))),
				float32(math.Trunc(float64(x))), float32(clampInt(float64(x), math.MinInt32, math.MaxInt32)),
				float32(clampInt(float64(y), 0, math.MaxUint32)), x / y, less, 1 / x,
				exactAdd(x, y, softfloat.TowardZero), exactMul(x, y, softfloat.Up), float32(math.Copysign(float64(x), float64(y))), one, sat,
			}
			for k, w := range want {
				g := got[24*i+k]
				if k == 16 && (y > 1<<126 || y < -1<<126) { // __fdividef gives zero there
					continue
				}
				if k == 16 && math.Abs(float64(g-w)) <= 0x1p-22*math.Abs(float64(w))+0x1p-148 { // it is not exact
					continue
				}
				if !same32(g, w) {
					t.Fatalf("operation %d of %v and %v: got %v, want %v", k, x, y, g, w)
				}
			}
		}
	})
}

func same64(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }

func TestDoubleOps(t *testing.T) {
	edges := []float64{0, math.Copysign(0, -1), 1, -1.5, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 5e-324, 1e300, -1e19, 3e9, 0.1}
	eachCorpus(t, func(t *testing.T, m *module) {
		a, b := pairs(edges, 500, func() float64 { return math.Float64frombits(rng.Uint64()) })
		out := put(m.mem, make([]float64, 12*len(a)))
		mustRun(t, m.launch(t, "double_ops", blocks(len(a), 64), 64, put(m.mem, a), put(m.mem, b), out, len(a)))
		got := valuesOf[float64](out.Data)
		for i := range a {
			x, y := a[i], b[i]
			lo, hi := min(x, y), max(x, y)
			if x != x {
				lo, hi = y, y
			} else if y != y {
				lo, hi = x, x
			}
			whole := float64(math.MinInt64) // for NaN too
			switch {
			case x >= math.MaxInt64:
				whole = math.MaxInt64
			case x > math.MinInt64:
				whole = float64(int64(x))
			}
			want := []float64{
				x + y, x - y, x * y, x / y, math.FMA(x, y, 1.5), math.Sqrt(x), lo, hi, float64(float32(x)), whole,
				math.Floor(x), indefinite(y, clampInt(y, math.MinInt32, math.MaxInt32)),
			}
			for k, w := range want {
				if g := got[12*i+k]; !same64(g, w) {
					t.Fatalf("operation %d of %v and %v: got %v, want %v", k, x, y, g, w)
				}
			}
		}
	})
}

func TestApproxOps(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		a := append([]float32{}, edgeFloats...)
		for range 500 {
			a = append(a, float32(rng.NormFloat64()*3))
		}
		out := put(m.mem, make([]float32, 8*len(a)))
		mustRun(t, m.launch(t, "approx_ops", blocks(len(a), 64), 64, put(m.mem, a), out, len(a)))
		got := valuesOf[float32](out.Data)
		for i, v := range a {
			x := float64(v)
			e := v * float32(1.4426950408889634)
			want := []float64{math.Sin(x), math.Cos(x), math.Exp2(float64(e)), math.Log2(x), 1 / math.Sqrt(x), 1 / x, math.Exp2(x), math.Sqrt(x)}
			for k, w := range want {
				g := float64(got[8*i+k])
				if k < 2 && math.Abs(x) > 100 {
					continue // as on the GPU, few bits of such an angle are left
				}
				if k == 4 && x == 0 {
					w = math.Copysign(math.Inf(1), x)
				}
				if same64(g, w) || math.Abs(g-w) <= 1e-6*math.Abs(w)+1e-6 || math.IsInf(float64(float32(w)), 0) && math.IsInf(g, 0) {
					continue
				}
				t.Fatalf("operation %d of %v: got %v, want %v", k, v, g, w)
			}
		}
	})
}
