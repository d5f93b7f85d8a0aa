package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/ptx"
)

func decodeLogic(d *decoder) error {
	t := d.typ(0)
	if t == ptx.Pred {
		return d.logicPredicate()
	}
	if !integral(t) {
		return d.badType()
	}
	switch d.in.Op {
	case "and":
		return d.pure(simd.and, affNone, t, t)
	case "or":
		return d.pure(simd.or, affNone, t, t)
	case "xor":
		return d.pure(simd.xor, affNone, t, t)
	case "not":
		return d.pure(vecNot, affNone, t)
	}
	return d.pure(lift1(func(a uint64) uint64 {
		if extend(a, t) == 0 {
			return 1
		}
		return 0
	}), affNone, t)
}

// logic is the predicate that an instruction writes, and the two that it reads.
type logic struct{ p, a, b int32 }

// logicPredicate decodes and, or, xor and not of predicates.
func (d *decoder) logicPredicate() error {
	n := 3
	if d.in.Op == "not" || d.in.Op == "cnot" {
		n = 2
	}
	if err := d.want(n); err != nil {
		return err
	}
	p, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	a, aNot, err := d.predicate(d.in.Operands[1])
	if err != nil {
		return err
	}
	b, bNot := int32(0), uint32(0)
	if n == 3 {
		if b, bNot, err = d.predicate(d.in.Operands[2]); err != nil {
			return err
		}
	}
	var f func(a, b uint32) uint32
	switch d.in.Op {
	case "and":
		f = func(a, b uint32) uint32 { return a & b }
	case "or":
		f = func(a, b uint32) uint32 { return a | b }
	case "xor":
		f = func(a, b uint32) uint32 { return a ^ b }
	default:
		f = func(a, _ uint32) uint32 { return ^a }
	}
	d.emit(inst{aux: logic{p, a, b}, exec: func(w *warp, _ *inst) {
		v := f(w.f.preds[a]^aNot, w.f.preds[b]^bNot)
		w.f.preds[p] = w.f.preds[p]&^w.active | v&w.active
	}})
	return nil
}

func decodeShift(d *decoder) error {
	t := d.typ(0)
	if d.in.Op == "shl" {
		switch t.Size() {
		case 2:
			return d.pure(vecShl16, affNone, t, ptx.U32)
		case 4:
			return d.pure(simd.shl32, affShl32, t, ptx.U32)
		case 8:
			return d.pure(vecShl64, affShl64, t, ptx.U32)
		}
		return d.badType()
	}
	v := byType(t, vecShr[int16], vecShr[uint16], simd.shrS32, simd.shrU32, vecShr[int64], vecShr[uint64])
	if v == nil {
		return d.badType()
	}
	return d.pure(v, affNone, t, ptx.U32)
}

// decodeFunnel decodes shf. It shifts the 64 bits of b:a and keeps the upper or lower
// half.
func decodeFunnel(d *decoder) error {
	amount := func(c uint64) uint64 { return c & 31 }
	if d.has("clamp") {
		amount = func(c uint64) uint64 { return min(c&0xffffffff, 32) }
	}
	f := func(a, b, c uint64) uint64 { return (b<<32 | a&0xffffffff) >> amount(c) }
	if d.has("l") {
		f = func(a, b, c uint64) uint64 { return (b<<32 | a&0xffffffff) << amount(c) >> 32 }
	}
	return d.pure(lift3(f), affNone, ptx.B32, ptx.B32, ptx.U32)
}

func decodeLop3(d *decoder) error {
	if err := d.want(5); err != nil {
		return err
	}
	table, ok := d.in.Operands[4].(ptx.Imm)
	if !ok {
		return missing("the table must be a constant")
	}
	t := table.Value
	v := func(d, a, b, c *lanes, n int) {
		for i := range d[:n] {
			d[i] = lop3(a[i], b[i], c[i], t)
		}
	}
	if pair, ok := d.in.Operands[0].(ptx.Pair); ok {
		return d.lop3Predicate(v, pair)
	}
	return d.pure(v, affNone, ptx.B32, ptx.B32, ptx.B32)
}

// lop3Predicate decodes lop3 with a predicate as second result: whether the first is
// not zero, combined with another predicate.
func (d *decoder) lop3Predicate(v vec, dst ptx.Pair) error {
	if err := d.want(6); err != nil {
		return err
	}
	out := inst{exec: execPure, vec: v, d: d.temp()}
	for i, at := range []*int32{&out.a, &out.b, &out.c} {
		var err error
		if *at, err = d.source(i+1, ptx.B32); err != nil {
			return err
		}
	}
	c := &combine{op: d.hasAny("and", "or")}
	test := inst{exec: execSetp, cmp: cmpNe[uint32], a: out.d, q: -1, aux: c}
	var err error
	if c.c, c.cNot, err = d.predicate(d.in.Operands[5]); err != nil {
		return err
	}
	if test.p, err = d.predicateDest(dst.Second); err != nil {
		return err
	}
	result, err := d.destOf(dst.First)
	if err != nil {
		return err
	}
	d.emit(out)
	d.emit(inst{exec: execPure, vec: vecMove, aff: affMove, d: result, a: out.d})
	d.emit(test) // last, because it may write the guard
	return nil
}

// lop3 computes any function of three bits. Bit 4a+2b+c of the table is the result.
func lop3(a, b, c, table uint64) uint64 {
	var r uint64
	if table&1 != 0 {
		r |= ^a & ^b & ^c
	}
	if table&2 != 0 {
		r |= ^a & ^b & c
	}
	if table&4 != 0 {
		r |= ^a & b & ^c
	}
	if table&8 != 0 {
		r |= ^a & b & c
	}
	if table&16 != 0 {
		r |= a & ^b & ^c
	}
	if table&32 != 0 {
		r |= a & ^b & c
	}
	if table&64 != 0 {
		r |= a & b & ^c
	}
	if table&128 != 0 {
		r |= a & b & c
	}
	return r
}

func decodePrmt(d *decoder) error {
	mode := d.hasAny("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	return d.pure(lift3(func(a, b, c uint64) uint64 { return prmt(a, b, c, mode) }), affNone, ptx.B32, ptx.B32, ptx.B32)
}

// prmt selects four bytes of b:a.
func prmt(a, b, c uint64, mode string) uint64 {
	v := b<<32 | a&0xffffffff
	var r uint64
	k := int(c & 3)
	for i := range 4 {
		var s uint64
		switch mode {
		case "":
			s = c >> (4 * i) & 15
		case "f4e":
			s = uint64(k+i) & 7
		case "b4e":
			s = uint64(k-i) & 7
		case "rc8":
			s = uint64(k)
		case "ecl":
			s = uint64(max(k, i))
		case "ecr":
			s = uint64(min(k, i))
		case "rc16":
			s = uint64(k&1*2 + i&1)
		}
		x := v >> (8 * (s & 7)) & 0xff
		if s&8 != 0 {
			x = uint64(uint8(int8(x) >> 7))
		}
		r |= x << (8 * i)
	}
	return r
}

func decodeBfe(d *decoder) error {
	t := d.typ(0)
	if t.Size() < 4 || !integral(t) {
		return d.badType()
	}
	return d.pure(lift3(func(a, b, c uint64) uint64 { return bfe(a, b, c, t) }), affNone, t, ptx.U32, ptx.U32)
}

// fieldArg returns a position or a length. For 32-bit fields the low byte counts. For
// 64-bit fields, which the GPU composes of other instructions, the whole operand
// counts.
func fieldArg(v uint64, width int) int {
	if width == 64 {
		return int(min(v&0xffffffff, 255))
	}
	return int(v & 0xff)
}

// bfe returns the field of c bits from bit b, sign-extended for signed types.
func bfe(a, b, c uint64, t ptx.Type) uint64 {
	width := 8 * t.Size()
	pos, n := fieldArg(b, width), fieldArg(c, width)
	if n == 0 {
		return 0
	}
	v := extend(a, t)
	if !t.IsSigned() {
		if pos >= width {
			return 0
		}
		v >>= pos
		if n < 64 {
			v &= 1<<n - 1
		}
		return v
	}
	last := min(pos+n-1, width-1) // position of the sign
	sign := uint64(int64(v<<(63-last)) >> 63)
	if pos >= width {
		return sign
	}
	v = uint64(int64(v) >> pos)
	if m := min(n, width-pos); m < 64 {
		v &= 1<<m - 1
		v |= sign &^ (1<<m - 1)
	}
	return v
}

func decodeBfi(d *decoder) error {
	t := d.typ(0)
	if t.Size() < 4 || !integral(t) {
		return d.badType()
	}
	if err := d.want(5); err != nil {
		return err
	}
	out := inst{exec: execBfi}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	var s [4]int32
	for i := range s {
		ti := t
		if i >= 2 {
			ti = ptx.U32
		}
		if s[i], err = d.source(i+1, ti); err != nil {
			return err
		}
	}
	out.a, out.b, out.c = s[0], s[1], s[2]
	out.aux = bfiArgs{length: s[3], width: 8 * t.Size()}
	d.emit(out)
	return nil
}

type bfiArgs struct {
	length int32
	width  int
}

func execBfi(w *warp, in *inst) {
	x := in.aux.(bfiArgs)
	f := w.f
	a, b, c, l := f.expand(in.a), f.expand(in.b), f.expand(in.c), f.expand(x.length)
	for i := range w.k.tmp {
		w.k.tmp[i] = bfi(a[i], b[i], fieldArg(c[i], x.width), fieldArg(l[i], x.width), x.width)
	}
	w.write(in.d)
}

// bfi inserts the low n bits of a into b, from bit pos on.
func bfi(a, b uint64, pos, n, width int) uint64 {
	if pos >= width || n == 0 {
		return b
	}
	m := ^uint64(0)
	if n < 64 {
		m = 1<<n - 1
	}
	m <<= pos
	return b&^m | a<<pos&m
}

func decodeBfind(d *decoder) error {
	t := d.typ(0)
	if t.Size() < 4 || !integral(t) {
		return d.badType()
	}
	shift := d.has("shiftamt")
	return d.pure(lift1(func(a uint64) uint64 { return bfind(a, t, shift) }), affNone, t)
}

// bfind returns the position of the highest bit that differs from the sign.
func bfind(a uint64, t ptx.Type, shift bool) uint64 {
	v := extend(a, t)
	if t.IsSigned() && int64(v) < 0 {
		v = ^v
	}
	n := bits.Len64(v)
	switch {
	case n == 0:
		return 0xffffffff
	case shift:
		return uint64(8*t.Size() - n)
	}
	return uint64(n - 1)
}

func decodeBits(d *decoder) error {
	t := d.typ(0)
	var f func(a uint64) uint64
	is64 := t.Size() == 8
	switch d.in.Op {
	case "popc":
		f = func(a uint64) uint64 { return uint64(bits.OnesCount32(uint32(a))) }
		if is64 {
			f = func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }
		}
	case "clz":
		f = func(a uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }
		if is64 {
			f = func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }
		}
	case "brev":
		f = func(a uint64) uint64 { return uint64(bits.Reverse32(uint32(a))) }
		if is64 {
			f = bits.Reverse64
		}
	}
	if t.Size() < 4 {
		return d.badType()
	}
	return d.pure(lift1(f), affNone, t)
}

func decodeFns(d *decoder) error {
	return d.pure(lift3(func(a, b, c uint64) uint64 {
		return uint64(fns(uint32(a), uint32(b), int32(c)))
	}), affNone, ptx.B32, ptx.B32, ptx.S32)
}

// fns returns the position of the n'th set bit from base on, upwards or downwards.
func fns(mask, base uint32, n int32) uint32 {
	const not = 0xffffffff
	if base > 31 {
		return not
	}
	at, step := int32(base), int32(1)
	if n == 0 {
		if mask>>base&1 != 0 {
			return base
		}
		return not
	}
	if n < 0 {
		step, n = -1, -n
	}
	for ; at >= 0 && at < 32; at += step {
		if mask>>at&1 != 0 {
			if n--; n == 0 {
				return uint32(at)
			}
		}
	}
	return not
}

// decodeBmsk decodes bmsk, a mask of b bits from bit a on.
func decodeBmsk(d *decoder) error {
	clamp := d.has("clamp")
	return d.pure(lift2(func(a, b uint64) uint64 {
		pos, n := a&0xffffffff, b&0xffffffff
		if !clamp {
			pos, n = pos&31, n&31
		}
		if pos >= 32 || n == 0 {
			return 0
		}
		if n >= 32 {
			return 0xffffffff << pos
		}
		return (1<<n - 1) << pos
	}), affNone, ptx.U32, ptx.U32)
}

// decodeSzext decodes szext, which cuts a to b bits and extends it again.
func decodeSzext(d *decoder) error {
	t := d.typ(0)
	clamp := d.has("clamp")
	return d.pure(lift2(func(a, b uint64) uint64 {
		n := b & 0xffffffff
		if !clamp {
			n &= 31
		}
		if n >= 32 {
			return a
		}
		if n == 0 {
			return 0
		}
		v := a << (64 - n)
		if t == ptx.S32 {
			return uint64(int64(v) >> (64 - n))
		}
		return v >> (64 - n)
	}), affNone, t, ptx.U32)
}
