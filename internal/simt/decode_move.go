package simt

import "github.com/ferrygpu/ferry/ptx"

// decodeMove is mov: between registers, of constants and addresses, and of
// vectors that are packed into or unpacked from one register.
func decodeMove(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	t := d.typ(0)
	if t == ptx.Pred {
		return d.movePredicate()
	}
	if t == ptx.B128 {
		return missing("128-bit registers are not supported")
	}
	dst, src := d.in.Operands[0], d.in.Operands[1]
	dv, dVec := dst.(ptx.Vec)
	sv, sVec := src.(ptx.Vec)
	switch {
	case d.vector() > 1:
		return d.moveVector()
	case dVec && sVec:
		return missing("a move from vector to vector is not supported")
	case dVec:
		return d.unpack(dv.Elems, src, t)
	case sVec:
		return d.pack(dst, sv.Elems, t)
	}
	s, err := d.value(src, t)
	if err != nil {
		return err
	}
	return d.copyTo(dst, s)
}

// moveVector is the old mov.v4.
func (d *decoder) moveVector() error {
	n := d.vector()
	dst, err := d.components(d.in.Operands[0], n)
	if err != nil {
		return err
	}
	src, err := d.components(d.in.Operands[1], n)
	if err != nil {
		return err
	}
	temps := make([]int32, n)
	for i, s := range src {
		slot, err := d.value(s, d.typ(0))
		if err != nil {
			return err
		}
		temps[i] = d.temp()
		d.emit(inst{d: temps[i], a: slot, exec: execPure, vec: vecMove, aff: affMove})
	}
	for i, o := range dst {
		slot, err := d.destOf(o)
		if err != nil {
			return err
		}
		d.emit(inst{d: slot, a: temps[i], exec: execPure, vec: vecMove, aff: affMove})
	}
	return nil
}

// components are the n parts of a vector, in braces or a vector register.
func (d *decoder) components(op ptx.Operand, n int) ([]ptx.Operand, error) {
	switch op := op.(type) {
	case ptx.Vec:
		if len(op.Elems) == n {
			return op.Elems, nil
		}
	case ptx.Reg:
		out := make([]ptx.Operand, n)
		for i := range out {
			if op.Special {
				out[i] = ptx.Reg{Name: op.Name + "." + "xyzw"[i&3:i&3+1], Special: true}
			} else {
				out[i] = ptx.Reg{Name: op.Name, Comp: "xyzw"[i&3]}
			}
		}
		return out, nil
	}
	return nil, missing("this operand is no vector of %d", n)
}

// pack puts the elements together, the first lowest.
func (d *decoder) pack(dst ptx.Operand, elems []ptx.Operand, t ptx.Type) error {
	width := 8 * t.Size() / max(len(elems), 1)
	if t.Size() == 0 || width == 0 || width*len(elems) != 8*t.Size() {
		return missing("%d elements into %v is not supported", len(elems), t)
	}
	slot, err := d.destOf(dst)
	if err != nil {
		return err
	}
	acc := int32(0)
	for i, e := range elems {
		s, err := d.value(e, widthType(width))
		if err != nil {
			return err
		}
		to := slot
		if i < len(elems)-1 {
			to = d.temp()
		}
		shift, mask := width*i, uint64(1)<<width-1
		d.emit(inst{d: to, a: s, b: acc, exec: execPure, vec: func(d, a, b, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = a[i]&mask<<shift | b[i]
			}
		}})
		acc = to
	}
	return nil
}

func (d *decoder) unpack(elems []ptx.Operand, src ptx.Operand, t ptx.Type) error {
	width := 8 * t.Size() / max(len(elems), 1)
	if t.Size() == 0 || width == 0 || width*len(elems) != 8*t.Size() {
		return missing("%v into %d elements is not supported", t, len(elems))
	}
	s, err := d.value(src, t)
	if err != nil {
		return err
	}
	// The source may be among the destinations.
	temp := d.temp()
	d.emit(inst{d: temp, a: s, exec: execPure, vec: vecMove, aff: affMove})
	for i, e := range elems {
		if _, ok := e.(ptx.Sink); ok {
			continue
		}
		slot, err := d.destOf(e)
		if err != nil {
			return err
		}
		shift, mask := width*i, uint64(1)<<width-1
		d.emit(inst{d: slot, a: temp, exec: execPure, vec: func(d, a, _, _ *lanes, n int) {
			for i := range d[:n] {
				d[i] = a[i] >> shift & mask
			}
		}})
	}
	return nil
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

// floatBits is a floating constant as an operation of type t reads it.
func floatBits(f ptx.Float, t ptx.Type) uint64 {
	switch {
	case f.Width == 64 && (t == ptx.F32 || t == ptx.B32):
		return uint64(f32bits(float32(f64from(f.Bits))))
	case f.Width == 32 && (t == ptx.F64 || t == ptx.B64):
		return f64bits(float64(f32from(uint32(f.Bits))))
	case t == ptx.F16:
		return encode(&formatF16, map[bool]float64{true: f64from(f.Bits), false: float64(f32from(uint32(f.Bits)))}[f.Width == 64], roundNearest)
	}
	return f.Bits
}

func decodeCvta(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	space := d.space()
	window := (&access{space: space}).base()
	if d.has("to") {
		window = -window
	}
	s, err := d.address1(d.in.Operands[1])
	if err != nil {
		return err
	}
	if window == 0 {
		return d.copyTo(d.in.Operands[0], s)
	}
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, a: s, b: d.f.constSlot(window), exec: execPure, vec: vecAdd, aff: affAdd})
	return nil
}

// address1 is the slot of a register or symbol, with an offset or without.
func (d *decoder) address1(op ptx.Operand) (int32, error) {
	if m, ok := op.(ptx.Mem); ok && !m.IsReg {
		op = ptx.Sym{Name: m.Base, Offset: m.Offset}
	}
	return d.value(op, ptx.U64)
}

// decodeIsSpace asks whether a generic address lies in a window.
func decodeIsSpace(d *decoder) error {
	if err := d.want(2); err != nil {
		return err
	}
	space := d.space()
	window := (&access{space: space}).base()
	p, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	a, err := d.address1(d.in.Operands[1])
	if err != nil {
		return err
	}
	var test compareFunc
	switch space {
	case ptx.GlobalSpace, ptx.ConstSpace:
		// Constant variables lie in global memory here, and are told from it by nothing.
		global := space == ptx.GlobalSpace
		test = func(a, _ *lanes, n int) (m uint32) {
			for i := range a[:n] {
				if global && a[i] < windows {
					m |= 1 << i
				}
			}
			return m
		}
	default:
		test = func(a, _ *lanes, n int) (m uint32) {
			for i := range a[:n] {
				if a[i]-window < 1<<windowBits {
					m |= 1 << i
				}
			}
			return m
		}
	}
	d.emit(inst{p: p, q: -1, a: a, exec: execSetp, cmp: test, aux: &combine{}})
	return nil
}

func (d *decoder) movePredicate() error {
	src, not, err := d.predicate(d.in.Operands[1])
	if err != nil {
		return err
	}
	dst, err := d.predicateDest(d.in.Operands[0])
	if err != nil {
		return err
	}
	d.emit(inst{p: dst, exec: func(w *warp, in *inst) {
		p := &w.f.preds[dst]
		*p = *p&^w.active | (w.f.preds[src]^not)&w.active
	}})
	return nil
}
