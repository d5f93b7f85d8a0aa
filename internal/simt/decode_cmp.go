package simt

import (
	"math"

	"github.com/ferrygpu/ferry/ptx"
)

// combine is what a comparison does with its result.
type combine struct {
	op    string // "and", "or", "xor" with predicate c, or ""
	c     int32
	cNot  uint32
	order uint8 // for affine integers: which of less, equal, greater is true
	typ   ptx.Type
}

const (
	less = 1 << iota
	equal
	greater
)

// execSetp compares and writes one or two predicates.
func execSetp(w *warp, in *inst) {
	m, c := w.compare(in), in.aux.(*combine)
	not := ^m
	if c.op != "" {
		p := w.f.preds[c.c] ^ c.cNot
		m, not = c.join(m, p), c.join(not, p)
	}
	active := w.active
	p := &w.f.preds[in.p]
	*p = *p&^active | m&active
	if in.q >= 0 {
		q := &w.f.preds[in.q]
		*q = *q&^active | not&active
	}
}

func (c *combine) join(m, p uint32) uint32 {
	switch c.op {
	case "and":
		return m & p
	case "or":
		return m | p
	}
	return m ^ p
}

// compare is the mask of lanes for which in's comparison is true.
func (w *warp) compare(in *inst) uint32 {
	f := w.f
	ta, tb := &f.tags[in.a], &f.tags[in.b]
	n := span(w.active)
	if w.full && w.scalar {
		if ta.kind&tb.kind&kUniform != 0 {
			return -in.cmp(&f.regs[in.a], &f.regs[in.b], 1)
		}
		if c := in.aux.(*combine); c.order != 0 && ta.kind&(kUniform|kAffine) != 0 && tb.kind&(kUniform|kAffine) != 0 {
			if m, ok := w.compareEnds(in, c); ok {
				return m
			}
		}
	}
	return in.cmp(f.expand(in.a), f.expand(in.b), n)
}

// compareEnds compares affine integers by their first and last lanes.
func (w *warp) compareEnds(in *inst, c *combine) (uint32, bool) {
	var first, last int64
	switch c.typ {
	case ptx.S32, ptx.U32, ptx.B32:
		a, sa, ok := w.wide(in.a, c.typ == ptx.S32)
		b, sb, ok2 := w.wide(in.b, c.typ == ptx.S32)
		if !ok || !ok2 {
			return 0, false
		}
		first = a - b
		last = first + (sa-sb)*int64(w.n-1)
	default:
		return 0, false
	}
	switch {
	case first < 0 && last < 0:
		return mask(c.order&less != 0), true
	case first > 0 && last > 0:
		return mask(c.order&greater != 0), true
	case first == 0 && last == 0:
		return mask(c.order&equal != 0), true
	case c.order == less|equal|greater:
		return allLanes, true
	}
	return 0, false
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

func cmpEq[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) == T(b[i])) << i
	}
	return m
}

func cmpNe[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) != T(b[i])) << i
	}
	return m
}

func cmpLt[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) < T(b[i])) << i
	}
	return m
}

func cmpLe[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) <= T(b[i])) << i
	}
	return m
}

func swap(f compareFunc) compareFunc { return func(a, b *lanes, n int) uint32 { return f(b, a, n) } }

// integerCompare is the comparison of that name for integers of type T.
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

// unorderedMark is true of a comparison that holds when an operand is NaN.
var floatOrders = map[string]struct {
	order     uint8
	unordered bool
}{
	"eq": {equal, false}, "ne": {less | greater, false}, "lt": {less, false}, "le": {less | equal, false},
	"gt": {greater, false}, "ge": {greater | equal, false}, "num": {less | equal | greater, false},
	"equ": {equal, true}, "neu": {less | greater, true}, "ltu": {less, true}, "leu": {less | equal, true},
	"gtu": {greater, true}, "geu": {greater | equal, true}, "nan": {0, true},
}

// compareValues is whether a comparison of floats holds.
func compareValues[T float32 | float64](a, b T, order uint8, unordered bool) bool {
	switch {
	case a < b:
		return order&less != 0
	case a > b:
		return order&greater != 0
	case a == b:
		return order&equal != 0
	}
	return unordered
}

func compareF32(order uint8, unordered, ftz bool) compareFunc {
	if ftz {
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				x, y := f32from(flush32(uint32(a[i]))), f32from(flush32(uint32(b[i])))
				m |= bit(compareValues(x, y, order, unordered)) << i
			}
			return m
		}
	}
	switch {
	case order == less && !unordered:
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				m |= bit(f32from(uint32(a[i])) < f32from(uint32(b[i]))) << i
			}
			return m
		}
	case order == greater && !unordered:
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				m |= bit(f32from(uint32(a[i])) > f32from(uint32(b[i]))) << i
			}
			return m
		}
	}
	return func(a, b *lanes, n int) (m uint32) {
		for i := range a[:n] {
			m |= bit(compareValues(f32from(uint32(a[i])), f32from(uint32(b[i])), order, unordered)) << i
		}
		return m
	}
}

func compareF64(order uint8, unordered bool) compareFunc {
	return func(a, b *lanes, n int) (m uint32) {
		for i := range a[:n] {
			m |= bit(compareValues(math.Float64frombits(a[i]), math.Float64frombits(b[i]), order, unordered)) << i
		}
		return m
	}
}

// comparison is what a setp or set compares with, t being the sources' type.
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
					x, y := decodeFloat(fm, a[i], ftz), decodeFloat(fm, b[i], ftz)
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
		f = wide.comparison(t, op, f)
	}
	return f, c, nil
}

// combined decodes the predicate that the comparison is combined with.
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

// setpPacked compares both halves: p for the low ones, q for the high ones.
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

func vecHigh(d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(uint32(a[i]) >> 16)
	}
}

// decodeSet is set: all ones or 1.0 where the comparison holds, else zero.
func decodeSet(d *decoder) error {
	if err := d.want(3); err != nil {
		return err
	}
	if len(d.types) < 2 {
		return missing("two types are wanted")
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

// setPacked is set of two halves: 1.0, or all ones where the result is an integer.
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

// writeSelected writes yes to the lanes of m and no to the others.
func (w *warp) writeSelected(d int32, m uint32, yes, no uint64) {
	if v := m & w.active; v == w.active {
		w.writeUniform(d, yes)
		return
	} else if v == 0 {
		w.writeUniform(d, no)
		return
	}
	for i := range w.k.tmp {
		if m>>i&1 != 0 {
			w.k.tmp[i] = yes
		} else {
			w.k.tmp[i] = no
		}
	}
	w.write(d)
}

func decodeSelp(d *decoder) error {
	if err := d.want(4); err != nil {
		return err
	}
	t := d.typ(0)
	var out inst
	var err error
	if t == ptx.Pred {
		return missing("selp.pred is no instruction")
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
		wide.choose(w.dest(in.d), a, b, m)
		return
	}
	wide.choose(&w.k.tmp, a, b, m)
	w.keep(in.d)
}

// decodeSlct picks a where c is not negative, b elsewhere.
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
				u = flush32(u)
			}
			if f32from(u) >= 0 { // false for NaN
				return a
			}
			return b
		})
	default:
		return missing("selection by %v is not supported", tc)
	}
	return d.pure(v, nil, t, t, tc)
}
