package simt

import (
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// integerCompare returns the comparison of that name for integers of type T, nil if
// there is none.
func integerCompare[T integer](op string) compareFunc {
	switch op {
	case "eq":
		return cmpEq[T]
	case "ne":
		return cmpNe[T]
	case "lt", "lo":
		return cmpLt[T]
	case "le", "ls":
		return cmpLe[T]
	case "gt", "hi":
		return swap(cmpLt[T])
	case "ge", "hs":
		return swap(cmpLe[T])
	}
	return nil
}

var orders = map[string]uint8{
	"eq": equal, "ne": less | greater, "lt": less, "le": less | equal, "gt": greater, "ge": greater | equal,
	"lo": less, "ls": less | equal, "hi": greater, "hs": greater | equal,
}

// floatOrders has the comparisons of floats. The field order has the bits of less,
// equal and greater for which the comparison holds. The field unordered is set if it
// holds when an operand is NaN.
var floatOrders = map[string]struct {
	order     uint8
	unordered bool
}{
	"eq": {equal, false}, "ne": {less | greater, false}, "lt": {less, false}, "le": {less | equal, false},
	"gt": {greater, false}, "ge": {greater | equal, false}, "num": {less | equal | greater, false},
	"equ": {equal, true}, "neu": {less | greater, true}, "ltu": {less, true}, "leu": {less | equal, true},
	"gtu": {greater, true}, "geu": {greater | equal, true}, "nan": {0, true},
}

// comparison returns the comparison of a setp or set whose sources have type t.
func (d *decoder) comparison(t ptx.Type) (compareFunc, *combine, error) {
	c := &combine{typ: t}
	var op string
	for _, m := range d.in.Mods {
		switch m {
		case "and", "or", "xor":
			c.op = m
			continue
		}
		_, isInt := orders[m]
		_, isFloat := floatOrders[m]
		if op == "" && (isInt || isFloat) {
			op = m
		}
	}
	var f compareFunc
	switch t {
	case ptx.S16:
		f = integerCompare[int16](op)
	case ptx.U16, ptx.B16:
		f = integerCompare[uint16](op)
	case ptx.S32:
		f = integerCompare[int32](op)
	case ptx.U32, ptx.B32:
		f = integerCompare[uint32](op)
	case ptx.S64:
		f = integerCompare[int64](op)
	case ptx.U64, ptx.B64:
		f = integerCompare[uint64](op)
	case ptx.F32, ptx.F64, ptx.F16, ptx.BF16:
		o, ok := floatOrders[op]
		if !ok {
			break
		}
		switch t {
		case ptx.F32:
			f = compareF32(o.order, o.unordered, d.has("ftz"))
		case ptx.F64:
			f = compareF64(o.order, o.unordered)
		default:
			fm := formatOf(t)
			ftz := d.has("ftz")
			f = func(a, b *lanes, n int) (m uint32) {
				for i := range a[:n] {
					x, y := fm.Decode(a[i], ftz), fm.Decode(b[i], ftz)
					m |= bit(compareValues(x, y, o.order, o.unordered)) << i
				}
				return m
			}
		}
	}
	if f == nil {
		return nil, nil, missing("comparison %s of %v is not supported", op, t)
	}
	if !t.IsFloat() {
		c.order = orders[op]
	}
	if !d.has("ftz") {
		f = simd.comparison(t, op, f)
	}
	return f, c, nil
}

// combined decodes the predicate that the result is combined with.
func (d *decoder) combined(c *combine) (err error) {
	if c.op != "" {
		if err = d.want(4); err != nil {
			return err
		}
		c.c, c.cNot, err = d.predicate(d.in.Operands[3])
	}
	return err
}

func decodeSetp(d *decoder) error {
	if err := d.want(3); err != nil {
		return err
	}
	t := d.typ(0)
	if t == ptx.F16x2 || t == ptx.BF16x2 {
		return d.setpPacked(t)
	}
	f, c, err := d.comparison(t)
	if err != nil {
		return err
	}
	out := inst{exec: execSetp, cmp: f, aux: c, q: -1}
	if err := d.combined(c); err != nil {
		return err
	}
	dst := d.in.Operands[0]
	if pair, ok := dst.(ptx.Pair); ok {
		if out.q, err = d.predicateDest(pair.Second); err != nil {
			return err
		}
		dst = pair.First
	}
	if out.p, err = d.predicateDest(dst); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	if out.b, err = d.source(2, t); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

// setpPacked decodes setp of two halves: p is for the low halves, q for the high
// ones.
func (d *decoder) setpPacked(t ptx.Type) error {
	half := ptx.F16
	if t == ptx.BF16x2 {
		half = ptx.BF16
	}
	f, c, err := d.comparison(half)
	if err != nil {
		return err
	}
	if err := d.combined(c); err != nil {
		return err
	}
	dsts := []ptx.Operand{d.in.Operands[0]}
	if pair, ok := dsts[0].(ptx.Pair); ok {
		dsts = []ptx.Operand{pair.First, pair.Second}
	}
	a, err := d.source(1, t)
	if err != nil {
		return err
	}
	b, err := d.source(2, t)
	if err != nil {
		return err
	}
	for i, dst := range dsts {
		p, err := d.predicateDest(dst)
		if err != nil {
			return err
		}
		x, y := a, b
		if i == 1 {
			x, y = d.temp(), d.temp()
			d.emit(inst{exec: execPure, d: x, a: a, vec: vecHigh})
			d.emit(inst{exec: execPure, d: y, a: b, vec: vecHigh})
		}
		d.emit(inst{exec: execSetp, cmp: f, aux: c, p: p, q: -1, a: x, b: y})
	}
	return nil
}

// decodeSet decodes set. The result is all ones or 1.0 where the comparison holds,
// zero elsewhere.
func decodeSet(d *decoder) error {
	if err := d.want(3); err != nil {
		return err
	}
	if len(d.types) < 2 {
		return missing("two types expected")
	}
	dt, t := d.typ(0), d.typ(1)
	var one uint64
	switch dt {
	case ptx.F16x2, ptx.BF16x2: // see setPacked
	case ptx.U32, ptx.S32, ptx.B32:
		one = 0xffffffff
	case ptx.U16, ptx.S16, ptx.B16:
		one = 0xffff
	case ptx.F32:
		one = 0x3f800000
	case ptx.F16:
		one = 0x3c00
	case ptx.BF16:
		one = 0x3f80
	default:
		return missing("a result of type %v is not supported", dt)
	}
	if t == ptx.F16x2 || t == ptx.BF16x2 {
		return d.setPacked(dt, t)
	}
	f, c, err := d.comparison(t)
	if err != nil {
		return err
	}
	if err := d.combined(c); err != nil {
		return err
	}
	out := inst{cmp: f, aux: c}
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	if out.b, err = d.source(2, t); err != nil {
		return err
	}
	out.exec = func(w *warp, in *inst) {
		m := w.compare(in)
		if c.op != "" {
			m = c.join(m, w.f.preds[c.c]^c.cNot)
		}
		w.writeSelected(in.d, m, one, 0)
	}
	d.emit(out)
	return nil
}

// setPacked decodes set of two halves. The result is 1.0, or all ones for an integer
// type.
func (d *decoder) setPacked(dt, t ptx.Type) error {
	half, one := ptx.F16, uint64(0x3c00)
	if t == ptx.BF16x2 {
		half, one = ptx.BF16, 0x3f80
	}
	if !dt.IsFloat() {
		one = 0xffff
	}
	f, c, err := d.comparison(half)
	if err != nil {
		return err
	}
	if err := d.combined(c); err != nil {
		return err
	}
	var out inst
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	if out.b, err = d.source(2, t); err != nil {
		return err
	}
	out.exec = func(w *warp, in *inst) {
		a, b := w.f.expand(in.a), w.f.expand(in.b)
		var ah, bh lanes
		vecHigh(&ah, a, nil, nil, warpSize)
		vecHigh(&bh, b, nil, nil, warpSize)
		lo, hi := f(a, b, warpSize), f(&ah, &bh, warpSize)
		if c.op != "" {
			p := w.f.preds[c.c] ^ c.cNot
			lo, hi = c.join(lo, p), c.join(hi, p)
		}
		for i := range w.k.tmp {
			w.k.tmp[i] = one*uint64(lo>>i&1) | one*uint64(hi>>i&1)<<16
		}
		w.write(in.d)
	}
	d.emit(out)
	return nil
}

func decodeSelp(d *decoder) error {
	if err := d.want(4); err != nil {
		return err
	}
	t := d.typ(0)
	var out inst
	var err error
	if t == ptx.Pred {
		return missing("selp.pred does not exist")
	}
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.a, err = d.source(1, t); err != nil {
		return err
	}
	if out.b, err = d.source(2, t); err != nil {
		return err
	}
	if out.p, out.pNot, err = d.predicate(d.in.Operands[3]); err != nil {
		return err
	}
	out.exec = execSelp
	d.emit(out)
	return nil
}

func execSelp(w *warp, in *inst) {
	f := w.f
	m := (f.preds[in.p] ^ in.pNot) & w.active
	if w.full && w.scalar && (m == w.active || m == 0) {
		s := in.a
		if m == 0 {
			s = in.b
		}
		if t := f.tags[s]; t.kind&(kUniform|kAffine) != 0 {
			f.regs[in.d][0] = f.regs[s][0]
			f.tags[in.d] = tag{stride: t.stride, kind: t.kind &^ kLanes}
			return
		}
		f.regs[in.d] = f.regs[s]
		f.tags[in.d] = tag{kind: kLanes}
		return
	}
	a, b := f.expand(in.a), f.expand(in.b)
	if w.full {
		simd.choose(w.dest(in.d), a, b, m)
		return
	}
	simd.choose(&w.k.tmp, a, b, m)
	w.keep(in.d)
}

// decodeSlct decodes slct, which selects a where c is not negative, and b elsewhere.
func decodeSlct(d *decoder) error {
	t, tc := d.typ(0), d.typ(1)
	var v vec
	switch tc {
	case ptx.S32:
		v = lift3(func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a
			}
			return b
		})
	case ptx.F32:
		ftz := d.has("ftz")
		v = lift3(func(a, b, c uint64) uint64 {
			u := uint32(c)
			if ftz {
				u = softfloat.Flush32(u)
			}
			if f32from(u) >= 0 { // false for NaN
				return a
			}
			return b
		})
	default:
		return missing("selection by %v is not supported", tc)
	}
	return d.pure(v, affNone, t, t, tc)
}
