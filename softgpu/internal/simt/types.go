package simt

import (
	"math"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

func f32from(u uint32) float32 { return math.Float32frombits(u) }

func f32bits(f float32) uint32 { return math.Float32bits(f) }

func f64from(u uint64) float64 { return math.Float64frombits(u) }

func f64bits(f float64) uint64 { return math.Float64bits(f) }

// formatOf returns the format of a type narrower than f64, nil for other types.
func formatOf(t ptx.Type) *softfloat.Format {
	switch t {
	case ptx.F16, ptx.F16x2:
		return &softfloat.F16
	case ptx.BF16, ptx.BF16x2:
		return &softfloat.BF16
	case ptx.F32:
		return &softfloat.F32
	}
	return nil
}

func integral(t ptx.Type) bool {
	return t >= ptx.U8 && t <= ptx.B64
}

// extend truncates v to type t and extends it to 64 bits, with the sign of a signed
// type.
func extend(v uint64, t ptx.Type) uint64 {
	n := 8 * t.Size()
	if n == 0 || n >= 64 {
		return v
	}
	if t.IsSigned() {
		return uint64(int64(v<<(64-n)) >> (64 - n))
	}
	return v & (1<<n - 1)
}

func widthType(bits int) ptx.Type {
	switch bits {
	case 8:
		return ptx.B8
	case 16:
		return ptx.B16
	case 32:
		return ptx.B32
	}
	return ptx.B64
}

// floatBits returns the bits of a floating constant for an operation of type t.
func floatBits(f ptx.Float, t ptx.Type) uint64 {
	switch {
	case f.Width == 64 && (t == ptx.F32 || t == ptx.B32):
		return uint64(f32bits(float32(f64from(f.Bits))))
	case f.Width == 32 && (t == ptx.F64 || t == ptx.B64):
		return f64bits(float64(f32from(uint32(f.Bits))))
	case t == ptx.F16:
		return softfloat.F16.Encode(map[bool]float64{true: f64from(f.Bits), false: float64(f32from(uint32(f.Bits)))}[f.Width == 64], softfloat.NearestEven)
	}
	return f.Bits
}

// saturateInt clamps an integer, extended to 64 bits, to the range of t.
func saturateInt(v uint64, isSigned bool, t ptx.Type) uint64 {
	n := 8 * t.Size()
	if isSigned {
		s := int64(v)
		if t.IsSigned() {
			return uint64(min(max(s, -1<<(n-1)), 1<<(n-1)-1))
		}
		if s < 0 {
			return 0
		}
		v = uint64(s)
	}
	if t.IsSigned() {
		return min(v, 1<<(n-1)-1)
	}
	return min(v, ^uint64(0)>>(64-n))
}

func saturate32(v int64) uint64 {
	return uint64(uint32(int32(min(max(v, -1<<31), 1<<31-1))))
}

func mask(b bool) uint32 {
	if b {
		return allLanes
	}
	return 0
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
