package simt

import (
	"encoding/binary"
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// matrixMove is an ldmatrix or stmatrix without its address. Both move 8x8 matrices
// of 16-bit elements between shared memory and the registers of a warp. Lane i holds
// elements 2i and 2i+1 of a matrix, row by row; if transposed, column by column.
type matrixMove struct {
	regs  []int32
	trans bool
}

// decodeMatrixAccess decodes what ldmatrix and stmatrix have in common. Operand at is
// the address, operand val the registers.
func (d *decoder) decodeMatrixAccess(at, val int, exec func(*warp, *inst), resolve func(ptx.Operand) (int32, error)) error {
	if err := d.want(2); err != nil {
		return err
	}
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[d.hasAny("x1", "x2", "x4")]
	regs := []ptx.Operand{d.in.Operands[val]}
	if v, ok := d.in.Operands[val].(ptx.Vec); ok {
		regs = v.Elems
	}
	if len(regs) != n {
		return missing("%d registers for %d matrices", len(regs), n)
	}
	space := ptx.Generic
	if d.hasAny("shared", "shared::cta") != "" {
		space = ptx.SharedSpace
	}
	m, a, err := d.address(d.in.Operands[at], space)
	if err != nil {
		return err
	}
	m.typ, m.size, m.bytes = ptx.B64, 8, 16
	m.write = at == 0
	out := inst{exec: exec, a: a, mem: m}
	d.wholeWarp(&out)
	move := &matrixMove{trans: d.has("trans")}
	for _, r := range regs {
		s, err := resolve(r)
		if err != nil {
			return err
		}
		move.regs = append(move.regs, s)
	}
	out.aux = move
	d.emit(out)
	return nil
}

func decodeLoadMatrix(d *decoder) error {
	return d.decodeMatrixAccess(1, 0, execLoadMatrix, d.destOf)
}

func decodeStoreMatrix(d *decoder) error {
	return d.decodeMatrixAccess(0, 1, execStoreMatrix, func(op ptx.Operand) (int32, error) { return d.value(op, ptx.B32) })
}

// element returns the position in the matrix of element k of lane i.
func (m *matrixMove) element(i, k int) (row, col int) {
	row, col = i/4, i%4*2+k
	if m.trans {
		row, col = col, row
	}
	return row, col
}

func execLoadMatrix(w *warp, in *inst) {
	m := in.aux.(*matrixMove)
	var all [4]lanes
	for x := range m.regs {
		var rows [8][]byte
		for r := range rows {
			if rows[r] = w.sharedAt(in, 8*x+r, 16); rows[r] == nil {
				return
			}
		}
		for i := range all[x] {
			r0, c0 := m.element(i, 0)
			r1, c1 := m.element(i, 1)
			lo, hi := binary.LittleEndian.Uint16(rows[r0][2*c0:]), binary.LittleEndian.Uint16(rows[r1][2*c1:])
			all[x][i] = uint64(hi)<<16 | uint64(lo)
		}
	}
	for x, s := range m.regs {
		w.k.tmp = all[x]
		w.write(s)
	}
}

func execStoreMatrix(w *warp, in *inst) {
	m := in.aux.(*matrixMove)
	for x, s := range m.regs {
		v := w.f.expand(s)
		for i := range v {
			for k := range 2 {
				row, col := m.element(i, k)
				to := w.sharedAt(in, 8*x+row, 16)
				if to == nil {
					return
				}
				binary.LittleEndian.PutUint16(to[2*col:], uint16(v[i]>>(16*k)))
			}
		}
	}
}

// decodeMoveMatrix decodes movmatrix, which transposes a matrix in registers.
func decodeMoveMatrix(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	src, err := d.source(1, ptx.B32)
	if err != nil {
		return err
	}
	out := inst{d: dst, a: src, exec: func(w *warp, in *inst) {
		v := w.f.expand(in.a)
		for i := range w.k.tmp {
			r := uint64(0)
			for k := range 2 {
				row, col := i%4*2+k, i/4 // of the source
				r |= v[4*row+col/2] >> (16 * (col & 1)) & 0xffff << (16 * k)
			}
			w.k.tmp[i] = r
		}
		w.write(in.d)
	}}
	d.wholeWarp(&out)
	d.emit(out)
	return nil
}

// fragment is a matrix of wmma in the registers of a warp. PTX leaves its layout to
// the implementation: here a lane holds a run of elements, row by row. If the
// hardware has twice as many registers as needed, the second half repeats the first.
type fragment struct {
	elementType
	rows, cols int
	regs       int
}

// wmmaShapes has m, n and k by name.
var wmmaShapes = map[string][3]int{
	"m16n16k16": {16, 16, 16}, "m32n8k16": {32, 8, 16}, "m8n32k16": {8, 32, 16}, "m16n16k8": {16, 16, 8}, "m8n8k4": {8, 8, 4},
}

// fragmentOf returns the fragment of matrix a, b, c or d.
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

// each returns the number of elements that a lane has.
func (f *fragment) each() int { return f.rows * f.cols / warpSize }

// run returns the number of elements in a register.
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

// elementType returns the type of the last modifier that names one.
func (d *decoder) elementType() elementType {
	for _, m := range slices.Backward(d.in.Mods) {
		if t, ok := elementTypes[m]; ok {
			return t
		}
	}
	return elementType{}
}

// wmmaAccess decodes wmma.load and wmma.store, one element of each lane at a time.
// Operand at is the address, operand val the registers.
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
	stride := d.f.constReg(uint64(f.cols))
	if d.has("col") {
		stride = d.f.constReg(uint64(f.rows))
	}
	if len(d.in.Operands) > 2 {
		if stride, err = d.source(2, ptx.U32); err != nil {
			return err
		}
	}
	resolve := d.destOf
	if m.write {
		resolve = d.readMatrix
	}
	regs, err := d.registersOf(val, f.regs, resolve)
	if err != nil {
		return err
	}
	sync := inst{exec: func(*warp, *inst) {}}
	d.wholeWarp(&sync)
	d.emit(sync)
	// The base address may be one of the destination registers.
	addr, value := d.temp(), d.temp()
	from := d.temp()
	d.emit(inst{d: from, a: base, exec: execPure, vec: vecMove, aff: affMove})
	for e := range f.each() {
		d.emit(inst{d: addr, a: from, b: stride, exec: f.elementAddress(e, d.has("col"))})
		reg, shift := regs[e/f.run()], e%f.run()*f.bits
		own := *m
		own.regs = []int32{value}
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

// repeatFragment fills the registers that repeat other registers.
func (d *decoder) repeatFragment(f *fragment, regs []int32, stored bool) error {
	n := f.each() / f.run()
	for i := n; i < len(regs) && !stored && n > 0; i++ {
		d.emit(inst{d: regs[i], a: regs[i%n], exec: execPure, vec: vecMove, aff: affMove})
	}
	return nil
}

// elementAddress returns an instruction that computes the address of element e of
// each lane.
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

// wmmaMultiply decodes wmma.mma.
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
	case 2: // for f16 only the types of d and c are named
		op.d, op.a, op.b, op.c = types[0], elementTypes["f16"], elementTypes["f16"], types[1]
	case 4:
		op.d, op.a, op.b, op.c = types[0], types[1], types[2], types[3]
	default:
		return missing("two or four types expected")
	}
	op.satfinite, op.mode = d.has("satfinite"), d.floatMode().Round
	op.choose()
	for i, f := range []fragment{
		fragmentOf("d", shape, op.d), fragmentOf("a", shape, op.a), fragmentOf("b", shape, op.b), fragmentOf("c", shape, op.c),
	} {
		resolve := d.readMatrix
		if i == 0 {
			resolve = d.destOf
		}
		var err error
		if op.regs[i], err = d.registersOf(i, f.regs, resolve); err != nil {
			return err
		}
		op.fragments[i] = f
	}
	out := inst{exec: execWmma, aux: op}
	d.wholeWarp(&out)
	d.emit(out)
	return nil
}

// wmmaOp is a wmma.mma with the fragments of d, a, b and c.
type wmmaOp struct {
	mmaOp
	fragments [4]fragment
	regs      [4][]int32
}

func execWmma(w *warp, in *inst) {
	op := in.aux.(*wmmaOp)
	x := w.k.matrices()
	op.fragments[1].read(w, op.regs[1], func(row, col int, v uint64) { x.a[row][col] = v })
	op.fragments[2].read(w, op.regs[2], func(row, col int, v uint64) { x.b[col][row] = v })
	op.fragments[3].read(w, op.regs[3], func(row, col int, v uint64) { x.c[row][col] = v })
	op.multiply(&op.mmaOp, x)
	f := &op.fragments[0]
	for r, reg := range op.regs[0] {
		for i := range w.k.tmp {
			var v uint64
			for e := range f.run() {
				n := i*f.each() + r*f.run() + e
				v |= x.d[n/f.cols][n%f.cols] << (e * f.bits)
			}
			w.k.tmp[i] = v
		}
		w.write(reg)
	}
}

// read calls put for every element of a fragment.
func (f *fragment) read(w *warp, regs []int32, put func(row, col int, v uint64)) {
	mask := ^uint64(0) >> (64 - f.bits)
	for r, reg := range regs[:f.each()/f.run()] {
		v := w.f.expand(reg)
		for i := range v {
			for e := range f.run() {
				n := i*f.each() + r*f.run() + e
				put(n/f.cols, n%f.cols, v[i]>>(e*f.bits)&mask)
			}
		}
	}
}
