package simt

import "github.com/ferrygpu/ferry/ptx"

func integral(t ptx.Type) bool {
	return t >= ptx.U8 && t <= ptx.B64
}

// extend is v, truncated to t and sign- or zero-extended to 64 bits.
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
