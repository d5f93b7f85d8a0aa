package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/ptx"
)

// decodeCarry is the extended-precision arithmetic: add.cc, addc, sub.cc, subc,
// mad.cc and madc. The carry flag is a predicate of the frame, made on first use.
func decodeCarry(d *decoder) error {
	t := d.typ(0)
	if !integral(t) || t.Size() < 4 {
		return d.badType()
	}
	if d.f.carry == 0 {
		d.f.carry = d.f.preds
		d.f.preds++
	}
	n := 2
	if d.in.Op == "mad" || d.in.Op == "madc" {
		n = 3
	}
	if err := d.want(n + 1); err != nil {
		return err
	}
	op := &carryOp{
		in:   d.in.Op == "addc" || d.in.Op == "subc" || d.in.Op == "madc",
		out:  d.has("cc"),
		sub:  d.in.Op == "sub" || d.in.Op == "subc",
		mul:  n == 3,
		hi:   d.has("hi"),
		typ:  t,
		flag: d.f.carry,
	}
	out := inst{exec: execCarry, aux: op}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	at := [...]*int32{&out.a, &out.b, &out.c}
	for i := range n {
		if *at[i], err = d.source(i+1, t); err != nil {
			return err
		}
	}
	d.emit(out)
	return nil
}

type carryOp struct {
	in, out, sub, mul, hi bool
	typ                   ptx.Type
	flag                  int32
}

func execCarry(w *warp, in *inst) {
	op := in.aux.(*carryOp)
	f := w.f
	a, b, c := f.expand(in.a), f.expand(in.b), f.expand(in.c)
	flags := f.preds[op.flag]
	var set uint32
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		x, y := a[i], b[i]
		if op.mul {
			x, y = mulPart(x, y, op), c[i]
		}
		var carry uint64
		if op.in {
			carry = uint64(flags >> i & 1)
		}
		r, out := addCarry(x, y, carry, op)
		w.k.tmp[i] = r
		set |= uint32(out) << i
	}
	w.write(in.d)
	if op.out {
		f.preds[op.flag] = flags&^w.active | set
	}
}

func mulPart(x, y uint64, op *carryOp) uint64 {
	if op.typ.Size() == 4 {
		p := uint64(uint32(x)) * uint64(uint32(y))
		if op.typ.IsSigned() {
			p = uint64(int64(int32(x)) * int64(int32(y)))
		}
		if op.hi {
			return p >> 32
		}
		return p
	}
	hi, lo := bits.Mul64(x, y)
	if op.typ.IsSigned() {
		hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
	}
	if op.hi {
		return hi
	}
	return lo
}

// addCarry adds, or subtracts with a borrow.
func addCarry(x, y, carry uint64, op *carryOp) (r, out uint64) {
	if op.typ.Size() == 8 {
		if op.sub {
			return bits.Sub64(x, y, carry)
		}
		return bits.Add64(x, y, carry)
	}
	x, y = x&0xffffffff, y&0xffffffff
	if op.sub {
		r = x - y - carry
	} else {
		r = x + y + carry
	}
	return r & 0xffffffff, r >> 32 & 1
}
