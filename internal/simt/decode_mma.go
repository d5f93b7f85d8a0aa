package simt

import (
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// mma.sync multiplies small matrices that lie in the registers of a warp:
// D = A*B + C, with A of m rows and k columns and B of k rows and n columns.
//
// In all shapes but m8n8k4 of f16, lane i stands for row i/4 of A and column i/4
// of B (the group), and its registers for runs of elements along k that start at
// i%4 runs; further registers have row i/4+8, then the runs 4 further on.

// mmaShape is the arithmetic of an mma.
type mmaShape struct {
	m, n, k    int
	a, b, c, d elementType
	run        int    // elements of A and B in a register
	colA, rowB bool   // of m8n8k4: A is stored by columns, B by rows
	logic      string // "xor" or "and" of single bits
	satfinite  bool
	mode       rounding
}

// elementType is a type of matrix elements.
type elementType struct {
	name   string
	bits   int
	float  *format
	signed bool
}

var elementTypes = map[string]elementType{
	"f16": {"f16", 16, &formatF16, true}, "bf16": {"bf16", 16, &formatBF16, true},
	"tf32": {"tf32", 32, &formatF32, true}, "f32": {"f32", 32, &formatF32, true},
	"e4m3": {"e4m3", 8, &formatE4M3, true}, "e5m2": {"e5m2", 8, &formatE5M2, true},
	"f64": {"f64", 64, nil, true}, "s32": {"s32", 32, nil, true},
	"u8": {"u8", 8, nil, false}, "s8": {"s8", 8, nil, true},
	"u4": {"u4", 4, nil, false}, "s4": {"s4", 4, nil, true}, "b1": {"b1", 1, nil, false},
}

// mmaOp is an mma with its registers.
type mmaOp struct {
	mmaShape
	ra, rb, rc, rd []int32
	multiply       func(op *mmaOp, x *mmaValues)
}

// mmaValues are the matrices of one mma, as bits of their element types.
type mmaValues struct {
	a, b [32][256]uint64 // a by row, b by column
	c, d [32][32]uint64
}

func decodeMMA(d *decoder) error {
	op, err := d.mmaShape()
	if err != nil {
		return err
	}
	if err := d.want(4); err != nil {
		return err
	}
	na, nb, nc, nd := op.registers()
	for _, r := range []struct {
		at, n int
		to    *[]int32
		slot  func(ptx.Operand) (int32, error)
	}{
		{0, nd, &op.rd, d.destOf},
		{1, na, &op.ra, d.readMatrix}, {2, nb, &op.rb, d.readMatrix}, {3, nc, &op.rc, d.readMatrix},
	} {
		if *r.to, err = d.registersOf(r.at, r.n, r.slot); err != nil {
			return err
		}
	}
	out := inst{exec: execMMA, aux: op}
	d.wholeWarp(&out)
	d.emit(out)
	return nil
}

func (d *decoder) readMatrix(op ptx.Operand) (int32, error) { return d.value(op, ptx.B32) }

// mmaShape reads the modifiers.
func (d *decoder) mmaShape() (*mmaOp, error) {
	op := &mmaOp{}
	var types []elementType
	var order []string
	for _, m := range d.in.Mods {
		if t, ok := elementTypes[m]; ok {
			types = append(types, t)
		}
		if m == "row" || m == "col" {
			order = append(order, m)
		}
		if strings.HasPrefix(m, "m8n8k") || strings.HasPrefix(m, "m16n8k") {
			op.n = 8
			op.m, _ = strconv.Atoi(m[1:strings.Index(m, "n")])
			op.k, _ = strconv.Atoi(m[strings.Index(m, "k")+1:])
		}
	}
	if len(types) != 4 || len(order) != 2 || op.k == 0 {
		return nil, missing("no shape that is known")
	}
	op.d, op.a, op.b, op.c = types[0], types[1], types[2], types[3]
	op.run = max(32/op.a.bits, 1)
	op.colA, op.rowB = order[0] == "col", order[1] == "row"
	op.logic = d.hasAny("xor", "and")
	op.satfinite = d.has("satfinite")
	op.mode = d.floatMode().round
	switch {
	case op.quads():
		op.multiply = multiplyQuads
	case op.a.bits == 8 && op.a.float != nil:
		op.multiply = multiplyBytes
	default:
		op.choose()
	}
	return op, nil
}

// quads is true of m8n8k4 of f16, four products of 8 lanes each.
func (s *mmaShape) quads() bool { return s.m == 8 && s.k == 4 && s.a.name == "f16" }

// registers are how many of them a lane has of each matrix.
func (s *mmaShape) registers() (a, b, c, d int) {
	if s.quads() {
		return 2, 2, accumulators(s.c, 8), accumulators(s.d, 8)
	}
	per := s.m * s.n / warpSize
	return s.m * s.k / warpSize / s.run, s.n * s.k / warpSize / s.run, accumulators(s.c, per), accumulators(s.d, per)
}

// accumulators are the registers that n accumulators take.
func accumulators(t elementType, n int) int {
	if t.bits == 16 {
		return n / 2
	}
	return n
}

func execMMA(w *warp, in *inst) {
	op := in.aux.(*mmaOp)
	x := w.matrices()
	if op.quads() {
		op.runQuads(w)
		return
	}
	for r, slot := range op.ra {
		v := w.f.expand(slot)
		for i := range v {
			row, k := op.place(i, r, op.m/8)
			unpackRun(x.a[row][k:], v[i], op.a.bits, op.run)
		}
	}
	for r, slot := range op.rb {
		v := w.f.expand(slot)
		for i := range v {
			col, k := op.place(i, r, 1)
			unpackRun(x.b[col][k:], v[i], op.b.bits, op.run)
		}
	}
	readAccumulators(w, op.rc, op.c, &x.c)
	op.multiply(op, x)
	writeAccumulators(w, op.rd, op.d, &x.d)
}

// place is the row, or column of B, and the first k of lane i's register r.
func (s *mmaShape) place(i, r, halves int) (row, k int) {
	return i/4 + 8*(r%halves), (r/halves*4 + i%4) * s.run
}

// unpackRun parts a register into elements.
func unpackRun(to []uint64, v uint64, bits, n int) {
	mask := ^uint64(0) >> (64 - bits)
	for e := range n {
		to[e] = v >> (e * bits) & mask
	}
}

// Of the accumulators, lane i has columns 2(i%4) and 2(i%4)+1 of row i/4, and
// then of row i/4+8.

func readAccumulators(w *warp, slots []int32, t elementType, to *[32][32]uint64) {
	for r, slot := range slots {
		v := w.f.expand(slot)
		for i := range v {
			if t.bits == 16 {
				to[i/4+8*r][i%4*2], to[i/4+8*r][i%4*2+1] = v[i]&0xffff, v[i]>>16&0xffff
			} else {
				to[i/4+8*(r/2)][i%4*2+r%2] = v[i] & (^uint64(0) >> (64 - t.bits))
			}
		}
	}
}

func writeAccumulators(w *warp, slots []int32, t elementType, from *[32][32]uint64) {
	for r, slot := range slots {
		for i := range w.k.tmp {
			if t.bits == 16 {
				w.k.tmp[i] = from[i/4+8*r][i%4*2] | from[i/4+8*r][i%4*2+1]<<16
			} else {
				w.k.tmp[i] = from[i/4+8*(r/2)][i%4*2+r%2]
			}
		}
		w.write(slot)
	}
}

// runQuads is m8n8k4 of f16. Lanes q*4 to q*4+3 and those 16 further on make one
// product, for q of 0 to 3.
func (op *mmaOp) runQuads(w *warp) {
	a, b := [2]*lanes{w.f.expand(op.ra[0]), w.f.expand(op.ra[1])}, [2]*lanes{w.f.expand(op.rb[0]), w.f.expand(op.rb[1])}
	var out [8]lanes
	for q := range 4 {
		x := w.k.mma
		for half := range 8 {
			lane := q*4 + half%4 + half/4*16
			for e := range 4 {
				va, vb := a[e/2][lane]>>(16*(e&1))&0xffff, b[e/2][lane]>>(16*(e&1))&0xffff
				if op.colA {
					x.a[e+half/4*4][half%4] = va
				} else {
					x.a[half][e] = va
				}
				if op.rowB {
					x.b[e+half/4*4][half%4] = vb
				} else {
					x.b[half][e] = vb
				}
			}
			for e := range 8 {
				row, col := op.quadPlace(half, e, op.c)
				x.c[row][col] = accumulator(w, op.rc, op.c, e, lane)
			}
		}
		op.multiply(op, x)
		for half := range 8 {
			lane := q*4 + half%4 + half/4*16
			for e := range 8 {
				row, col := op.quadPlace(half, e, op.d)
				if op.d.bits == 16 {
					out[e/2][lane] |= x.d[row][col] << (16 * (e & 1))
				} else {
					out[e][lane] = x.d[row][col]
				}
			}
		}
	}
	for r, slot := range op.rd {
		w.k.tmp = out[r]
		w.write(slot)
	}
}

// quadPlace is where the e'th accumulator of a lane lies, half being its number
// among the eight lanes.
func (op *mmaOp) quadPlace(half, e int, t elementType) (row, col int) {
	if t.bits == 16 {
		return half, e
	}
	return half&1 + e&2 + half/4*4, e&4 + half&2 + e&1
}

func accumulator(w *warp, slots []int32, t elementType, e, lane int) uint64 {
	if t.bits == 16 {
		return w.f.lane(slots[e/2], lane) >> (16 * (e & 1)) & 0xffff
	}
	return w.f.lane(slots[e], lane) & 0xffffffff
}
