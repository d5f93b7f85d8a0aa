package kerneltest

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/runner"
)

func f32(v float32) uint64 { return uint64(math.Float32bits(v)) }

func TestTolerance(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		tolerance Tolerance
		typ       runner.Type
		got, want uint64
		accepted  bool
	}{
		{Tolerance{}, runner.F32, f32(1), f32(1), true},
		{Tolerance{}, runner.F32, f32(1), f32(1) + 1, false},
		{Tolerance{ULP: 2}, runner.F32, f32(1) + 2, f32(1), true},
		{Tolerance{ULP: 2}, runner.F32, f32(1), f32(1) + 2, true},
		{Tolerance{ULP: 2}, runner.F32, f32(1) + 3, f32(1), false},
		{Tolerance{ULP: 2}, runner.F32, f32(1), f32(1) + 3, false},
		{Tolerance{ULP: 2}, runner.F32, 1, 1<<31 | 1, true}, // the smallest numbers of both signs
		{Tolerance{ULP: 1}, runner.F32, 1, 1<<31 | 1, false},
		{Tolerance{}, runner.F32, 0, 1 << 31, true},
		{Tolerance{Bits: true}, runner.F32, 0, 1 << 31, false},
		{Tolerance{Bits: true, ULP: 5, Abs: 5}, runner.F32, f32(1), f32(1) + 1, false},
		{Tolerance{Abs: 0.5}, runner.F32, f32(1.5), f32(1), true},
		{Tolerance{Abs: 0.5}, runner.F32, f32(1.5) + 1, f32(1), false},
		{Tolerance{Abs: 0.5}, runner.F32, f32(-0.25), f32(0.25), true},
		{Tolerance{Abs: 0.5, ULP: 1}, runner.F32, f32(1 << 30), f32(1<<30) + 1, true}, // 128 apart, 1 ulp
		{Tolerance{Abs: math.MaxFloat64, ULP: math.MaxUint64}, runner.F32, f32(float32(inf)), f32(math.MaxFloat32), false},
		{Tolerance{Abs: inf, ULP: math.MaxUint64}, runner.F32, f32(float32(inf)), f32(float32(-inf)), false},
		{Tolerance{Abs: inf}, runner.F32, f32(float32(inf)), f32(float32(inf)), true},
		{Tolerance{Abs: inf, ULP: math.MaxUint64}, runner.F32, f32(float32(nan)), f32(1), false},
		{Tolerance{Abs: inf, ULP: math.MaxUint64}, runner.F32, f32(1), f32(float32(nan)), false},
		{Tolerance{}, runner.F32, 0x7fc00001, 0xffc00000, true},
		{Tolerance{Bits: true}, runner.F32, 0x7fc00001, 0xffc00000, false},
		{Tolerance{}, runner.F32, fillPattern(runner.F32), 0x7fc00000, false}, // not written
		{Tolerance{}, runner.F64, math.Float64bits(math.Copysign(0, -1)), 0, true},
		{Tolerance{ULP: 1}, runner.F64, math.Float64bits(1), math.Float64bits(math.Nextafter(1, 2)), true},
		{Tolerance{ULP: 1}, runner.F64, math.Float64bits(math.MaxFloat64), math.Float64bits(-math.MaxFloat64), false},
		{Tolerance{ULP: 1}, runner.F16, 0x3c00, 0x3bff, true},
		{Tolerance{ULP: 1}, runner.F16, 0x3c00, 0x3c02, false},
		{Tolerance{Abs: 1.0 / 128}, runner.BF16, 0x3f80, 0x3f81, true},
		{Tolerance{Abs: 1.0 / 129}, runner.BF16, 0x3f80, 0x3f81, false},
		{Tolerance{ULP: 9}, runner.U8, 4, 5, false},
		{Tolerance{Abs: 1}, runner.U8, 4, 5, true},
		{Tolerance{Abs: 1}, runner.U8, 255, 0, false},
		{Tolerance{Abs: 1}, runner.S8, 255, 0, true}, // -1 and 0
		{Tolerance{Abs: 254}, runner.S8, 128, 127, false},
		{Tolerance{Abs: 255}, runner.S8, 128, 127, true},
		{Tolerance{Abs: 1}, runner.S64, 1 << 63, 1<<63 - 1, false},
		{Tolerance{Abs: 1}, runner.U64, 1 << 63, 1<<63 - 1, true},
		{Tolerance{Abs: 9, ULP: 9}, runner.B32, 4, 5, false},
	} {
		if got := c.tolerance.accepts(c.typ, c.got, c.want); got != c.accepted {
			t.Errorf("%+v, %v: got %#x, want %#x: accepted is %v", c.tolerance, c.typ, c.got, c.want, got)
		}
	}
}

// TestULPDistance steps through all numbers of the 16-bit types in order.
func TestULPDistance(t *testing.T) {
	for _, typ := range []runner.Type{runner.F16, runner.BF16} {
		last, count := uint64(0xffff), 0
		for i := range 1 << 16 {
			bits := uint64(i) // from 0 up
			if i >= 1<<15 {
				break
			}
			if v := typ.Float(bits); math.IsInf(v, 0) || math.IsNaN(v) {
				break
			}
			if i > 0 {
				if typ.Float(bits) <= typ.Float(last) {
					t.Fatalf("%v: %#x is not above %#x", typ, bits, last)
				}
				if got := ulpDistance(typ, bits, last); got != 1 {
					t.Fatalf("%v: the distance of %#x and %#x is %d", typ, bits, last, got)
				}
				if got := ulpDistance(typ, bits|1<<15, bits); got != 2*uint64(i) {
					t.Fatalf("%v: the distance of %#x and its negative is %d", typ, bits, got)
				}
			}
			last = bits
			count++
		}
		if count < 30000 {
			t.Errorf("%v: only %d numbers", typ, count)
		}
	}
}

// TestFillPatterns checks that the pattern of floats is a NaN.
func TestFillPatterns(t *testing.T) {
	for typ := runner.U8; typ <= runner.F64; typ++ {
		if typ.IsFloat() != math.IsNaN(typ.Float(fillPattern(typ))) {
			t.Errorf("%v: %#x", typ, fillPattern(typ))
		}
	}
}

func TestHalf(t *testing.T) {
	for _, v := range []float64{0, 1, -2, 0.5, 65504} {
		if got := NewF16(v).Float64(); got != v {
			t.Errorf("F16: got %g, want %g", got, v)
		}
	}
	for _, v := range []float64{0, 1, -2, 0.5, 65536} {
		if got := NewBF16(v).Float64(); got != v {
			t.Errorf("BF16: got %g, want %g", got, v)
		}
	}
	if NewF16(1) != 0x3c00 || NewBF16(1) != 0x3f80 || NewF16(1+1.0/4096) != 0x3c00 {
		t.Error("the bits are wrong")
	}
}
