package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// wmma: matrices in fragments, whose layout in registers is nobody's business but
// ours. A lane holds a run of elements, rows first. Where hardware has registers for
// each element twice, the second half repeats the first.

// fragment is a matrix in the registers of a warp.
type fragment struct {
	elementType
	rows, cols int
	regs       int
}

// wmmaShapes are m, n and k by name.
var wmmaShapes = map[string][3]int{
	"m16n16k16": {16, 16, 16}, "m32n8k16": {32, 8, 16}, "m8n32k16": {8, 32, 16}, "m16n16k8": {16, 16, 8}, "m8n8k4": {8, 8, 4},
}

// fragmentOf is the fragment of matrix a, b, c or d.
func fragmentOf(which string, shape [3]int, t elementType) fragment {
	f := fragment{elementType: t}
	switch which {
	case "a":
		f.rows, f.cols = shape[0], shape[2]
	case "b":
		f.rows, f.cols = shape[2], shape[1]
	default:
		f.rows, f.cols = shape[0], shape[1]
	}
	f.regs = max(f.each()*t.bits/max(32, t.bits), 1)
	if t.name == "f16" && (which == "a" || which == "b") {
		f.regs = 8
	}
	return f
}

// each is how many elements a lane has.
func (f *fragment) each() int { return f.rows * f.cols / warpSize }

// run is how many elements a register has.
func (f *fragment) run() int { return max(32/f.bits, 1) }

func decodeWmma(d *decoder) error {
	shape := wmmaShapes[d.hasAny("m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8", "m8n8k4")]
	switch {
	case d.has("mma"):
		return d.wmmaMultiply(shape)
	case d.has("store"):
		return d.wmmaAccess(0, 1, fragmentOf("d", shape, d.elementType()))
	}
	return d.wmmaAccess(1, 0, fragmentOf(d.hasAny("a", "b", "c"), shape, d.elementType()))
}

// elementType is the last of the modifiers that names one.
func (d *decoder) elementType() elementType {
	for _, m := range slices.Backward(d.in.Mods) {
		if t, ok := elementTypes[m]; ok {
			return t
		}
	}
	return elementType{}
}

// registersOf are the slots of operand i, a vector of n.
func (d *decoder) registersOf(i, n int, slot func(ptx.Operand) (int32, error)) ([]int32, error) {
	regs := []ptx.Operand{d.in.Operands[i]}
	if v, ok := d.in.Operands[i].(ptx.Vec); ok {
		regs = v.Elems
	}
	if len(regs) != n {
		return nil, missing("operand %d has %d registers, %d are wanted", i+1, len(regs), n)
	}
	out := make([]int32, n)
	for j, o := range regs {
		var err error
		if out[j], err = slot(o); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wmmaAccess loads or stores a fragment, an element of each lane at a time: operand
// at is the address, operand val the registers.
func (d *decoder) wmmaAccess(at, val int, f fragment) error {
	if err := d.want(2); err != nil {
		return err
	}
	m, base, err := d.address(d.in.Operands[at], d.space())
	if err != nil {
		return err
	}
	m.typ = widthType(f.bits)
	m.size = uint64(f.bits / 8)
	m.bytes, m.write = m.size, at == 0
	stride := d.f.constSlot(uint64(f.cols))
	if d.has("col") {
		stride = d.f.constSlot(uint64(f.rows))
	}
	if len(d.in.Operands) > 2 {
		if stride, err = d.source(2, ptx.U32); err != nil {
			return err
		}
	}
	slot := d.destOf
	if m.write {
		slot = d.readMatrix
	}
	regs, err := d.registersOf(val, f.regs, slot)
	if err != nil {
		return err
	}
	meet := inst{exec: func(*warp, *inst) {}}
	d.wholeWarp(&meet)
	d.emit(meet)
	// The address may be one of the registers.
	addr, value := d.temp(), d.temp()
	from := d.temp()
	d.emit(inst{d: from, a: base, exec: execPure, vec: vecMove, aff: affMove})
	for e := range f.each() {
		d.emit(inst{d: addr, a: from, b: stride, exec: f.elementAddress(e, d.has("col"))})
		reg, shift := regs[e/f.run()], e%f.run()*f.bits
		own := *m
		own.slots = []int32{value}
		if m.write {
			d.emit(inst{d: value, a: reg, exec: execPure, vec: lift1(func(a uint64) uint64 { return a >> shift })})
			d.emit(inst{a: addr, mem: &own, exec: execStore})
			continue
		}
		d.emit(inst{a: addr, mem: &own, exec: execLoad})
		keep, mask := ^uint64(0)>>(64-shift), ^uint64(0)>>(64-f.bits)
		if shift == 0 {
			keep = 0
		}
		d.emit(inst{d: reg, a: reg, b: value, exec: execPure, vec: lift2(func(a, b uint64) uint64 { return a&keep | b&mask<<shift })})
	}
	return d.repeatFragment(&f, regs, m.write)
}

// repeatFragment fills the registers that repeat others.
func (d *decoder) repeatFragment(f *fragment, regs []int32, stored bool) error {
	n := f.each() / f.run()
	for i := n; i < len(regs) && !stored && n > 0; i++ {
		d.emit(inst{d: regs[i], a: regs[i%n], exec: execPure, vec: vecMove, aff: affMove})
	}
	return nil
}

// elementAddress computes where each lane's e'th element is.
func (f *fragment) elementAddress(e int, byColumn bool) func(*warp, *inst) {
	each, cols, size := f.each(), f.cols, uint64(f.bits/8)
	return func(w *warp, in *inst) {
		for i := range w.k.tmp {
			n := i*each + e
			row, col := uint64(n/cols), uint64(n%cols)
			if byColumn {
				row, col = col, row
			}
			w.k.tmp[i] = w.f.lane(in.a, i) + (row*(w.f.lane(in.b, i)&0xffffffff)+col)*size
		}
		w.write(in.d)
	}
}

// wmmaMultiply is an mma on fragments.
func (d *decoder) wmmaMultiply(shape [3]int) error {
	if err := d.want(4); err != nil {
		return err
	}
	op := &wmmaOp{}
	op.m, op.n, op.k = shape[0], shape[1], shape[2]
	types := []elementType{}
	for _, m := range d.in.Mods {
		if t, ok := elementTypes[m]; ok {
			types = append(types, t)
		}
	}
	switch len(types) {
	case 2: // of f16 the results' types alone are named
		op.d, op.a, op.b, op.c = types[0], elementTypes["f16"], elementTypes["f16"], types[1]
	case 4:
		op.d, op.a, op.b, op.c = types[0], types[1], types[2], types[3]
	default:
		return missing("two types or four are wanted")
	}
	op.satfinite, op.mode = d.has("satfinite"), d.floatMode().round
	op.choose()
	for i, f := range []fragment{
		fragmentOf("d", shape, op.d), fragmentOf("a", shape, op.a), fragmentOf("b", shape, op.b), fragmentOf("c", shape, op.c),
	} {
		slot := d.readMatrix
		if i == 0 {
			slot = d.destOf
		}
		var err error
		if op.slots[i], err = d.registersOf(i, f.regs, slot); err != nil {
			return err
		}
		op.fragments[i] = f
	}
	out := inst{exec: execWmma, aux: op}
	d.wholeWarp(&out)
	d.emit(out)
	return nil
}

// wmmaOp is a wmma.mma: the fragments are those of d, a, b and c.
type wmmaOp struct {
	mmaOp
	fragments [4]fragment
	slots     [4][]int32
}

func execWmma(w *warp, in *inst) {
	op := in.aux.(*wmmaOp)
	x := w.matrices()
	op.fragments[1].read(w, op.slots[1], func(row, col int, v uint64) { x.a[row][col] = v })
	op.fragments[2].read(w, op.slots[2], func(row, col int, v uint64) { x.b[col][row] = v })
	op.fragments[3].read(w, op.slots[3], func(row, col int, v uint64) { x.c[row][col] = v })
	op.multiply(&op.mmaOp, x)
	f := &op.fragments[0]
	for r, slot := range op.slots[0] {
		for i := range w.k.tmp {
			var v uint64
			for e := range f.run() {
				n := i*f.each() + r*f.run() + e
				v |= x.d[n/f.cols][n%f.cols] << (e * f.bits)
			}
			w.k.tmp[i] = v
		}
		w.write(slot)
	}
}

// read gives put every element of a fragment.
func (f *fragment) read(w *warp, slots []int32, put func(row, col int, v uint64)) {
	mask := ^uint64(0) >> (64 - f.bits)
	for r, slot := range slots[:f.each()/f.run()] {
		v := w.f.expand(slot)
		for i := range v {
			for e := range f.run() {
				n := i*f.each() + r*f.run() + e
				put(n/f.cols, n%f.cols, v[i]>>(e*f.bits)&mask)
			}
		}
	}
}

// choose sets how an operation multiplies.
func (op *mmaOp) choose() {
	switch {
	case op.a.float != nil:
		op.multiply = multiplyFloats
	case op.a.name == "f64":
		op.multiply = multiplyDoubles
	default:
		op.multiply = multiplyIntegers
	}
}

// matrices are the worker's, made when first needed.
func (w *warp) matrices() *mmaValues {
	if w.k.mma == nil {
		w.k.mma = new(mmaValues)
	}
	return w.k.mma
}
