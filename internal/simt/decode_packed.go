package simt

import "github.com/ferrygpu/ferry/ptx"

// Integers of 16 bits, two to a register.

// packedInt is the operation of that name on both halves of a register, nil if
// there is none.
func packedInt(op string, isSigned, relu bool) func(a, b uint64) uint64 {
	t := ptx.U16
	if isSigned {
		t = ptx.S16
	}
	one := reduction(op, t)
	if one == nil {
		return nil
	}
	half := func(a, b uint64) uint64 {
		v := one(a, b) & 0xffff
		if relu && v&0x8000 != 0 {
			v = 0
		}
		return v
	}
	return func(a, b uint64) uint64 {
		return half(a>>16&0xffff, b>>16&0xffff)<<16 | half(a&0xffff, b&0xffff)
	}
}

// isPacked is true of an instruction on u16x2 or s16x2.
func (d *decoder) isPacked() bool { return d.hasAny("u16x2", "s16x2") != "" }

func (d *decoder) packedInt() error {
	f := packedInt(d.in.Op, d.has("s16x2"), d.has("relu"))
	if f == nil {
		return d.badType()
	}
	return d.pure(lift2(f), nil, ptx.B32, ptx.B32)
}

// reluS32 is min or max of s32, at least zero.
func (d *decoder) reluS32() error {
	f := reduction(d.in.Op, ptx.S32)
	return d.pure(lift2(func(a, b uint64) uint64 {
		if v := f(a, b); int32(v) > 0 {
			return v
		}
		return 0
	}), nil, ptx.S32, ptx.S32)
}
