package simt

import (
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// mmaShape describes the arithmetic of an mma. It multiplies small matrices in the
// registers of a warp: D = A*B + C. A has m rows and k columns, B k rows and n
// columns.
//
// In all shapes but m8n8k4 of f16, lane i has row i/4 of A and column i/4 of B. Its
// registers hold runs of elements along k, starting with run i%4. Further registers
// have row i/4+8, then the runs that start 4 runs later.
type mmaShape struct {
	m, n, k    int
	a, b, c, d elementType
	run        int    // elements of A and B in one register
	colA, rowB bool   // for m8n8k4: A is stored by columns, B by rows
	logic      string // "xor" or "and" for single bits
	satfinite  bool
	mode       softfloat.Rounding
}

// elementType is the type of matrix elements.
type elementType struct {
	name   string
	bits   int
	float  *softfloat.Format
	signed bool
}

var elementTypes = map[string]elementType{
	"f16": {"f16", 16, &softfloat.F16, true}, "bf16": {"bf16", 16, &softfloat.BF16, true},
	"tf32": {"tf32", 32, &softfloat.F32, true}, "f32": {"f32", 32, &softfloat.F32, true},
	"e4m3": {"e4m3", 8, &softfloat.E4M3, true}, "e5m2": {"e5m2", 8, &softfloat.E5M2, true},
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

// mmaValues holds the matrices of one mma, as the bits of their element types.
type mmaValues struct {
	a, b [32][256]uint64 // a by rows, b by columns
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
		at, n   int
		to      *[]int32
		resolve func(ptx.Operand) (int32, error)
	}{
		{0, nd, &op.rd, d.destOf},
		{1, na, &op.ra, d.readMatrix}, {2, nb, &op.rb, d.readMatrix}, {3, nc, &op.rc, d.readMatrix},
	} {
		if *r.to, err = d.registersOf(r.at, r.n, r.resolve); err != nil {
			return err
		}
	}
	out := inst{exec: execMMA, aux: op}
	d.wholeWarp(&out)
	d.emit(out)
	return nil
}

func (d *decoder) readMatrix(op ptx.Operand) (int32, error) { return d.value(op, ptx.B32) }

// mmaShape decodes the modifiers of mma.
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
		return nil, missing("unknown shape")
	}
	op.d, op.a, op.b, op.c = types[0], types[1], types[2], types[3]
	op.run = max(32/op.a.bits, 1)
	op.colA, op.rowB = order[0] == "col", order[1] == "row"
	op.logic = d.hasAny("xor", "and")
	op.satfinite = d.has("satfinite")
	op.mode = d.floatMode().Round
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

// quads reports whether the shape is m8n8k4 of f16, which is four products of 8 lanes
// each.
func (s *mmaShape) quads() bool { return s.m == 8 && s.k == 4 && s.a.name == "f16" }

// registers returns the number of registers that a lane has for each matrix.
func (s *mmaShape) registers() (a, b, c, d int) {
	if s.quads() {
		return 2, 2, accumulators(s.c, 8), accumulators(s.d, 8)
	}
	per := s.m * s.n / warpSize
	return s.m * s.k / warpSize / s.run, s.n * s.k / warpSize / s.run, accumulators(s.c, per), accumulators(s.d, per)
}

// accumulators returns the number of registers that n accumulators take.
func accumulators(t elementType, n int) int {
	if t.bits == 16 {
		return n / 2
	}
	return n
}

func execMMA(w *warp, in *inst) {
	op := in.aux.(*mmaOp)
	x := w.k.matrices()
	if op.quads() {
		op.runQuads(w)
		return
	}
	for r, reg := range op.ra {
		v := w.f.expand(reg)
		for i := range v {
			row, k := op.place(i, r, op.m/8)
			unpackRun(x.a[row][k:], v[i], op.a.bits, op.run)
		}
	}
	for r, reg := range op.rb {
		v := w.f.expand(reg)
		for i := range v {
			col, k := op.place(i, r, 1)
			unpackRun(x.b[col][k:], v[i], op.b.bits, op.run)
		}
	}
	readAccumulators(w, op.rc, op.c, &x.c)
	op.multiply(op, x)
	writeAccumulators(w, op.rd, op.d, &x.d)
}

// place returns the row of A, or column of B, and the first k of register r of lane
// i.
func (s *mmaShape) place(i, r, halves int) (row, k int) {
	return i/4 + 8*(r%halves), (r/halves*4 + i%4) * s.run
}

// unpackRun splits a register into elements.
func unpackRun(to []uint64, v uint64, bits, n int) {
	mask := ^uint64(0) >> (64 - bits)
	for e := range n {
		to[e] = v >> (e * bits) & mask
	}
}

// readAccumulators reads an accumulator matrix. Lane i has columns 2(i%4) and
// 2(i%4)+1 of row i/4, then of row i/4+8.

func readAccumulators(w *warp, regs []int32, t elementType, to *[32][32]uint64) {
	for r, reg := range regs {
		v := w.f.expand(reg)
		for i := range v {
			if t.bits == 16 {
				to[i/4+8*r][i%4*2], to[i/4+8*r][i%4*2+1] = v[i]&0xffff, v[i]>>16&0xffff
			} else {
				to[i/4+8*(r/2)][i%4*2+r%2] = v[i] & (^uint64(0) >> (64 - t.bits))
			}
		}
	}
}

func writeAccumulators(w *warp, regs []int32, t elementType, from *[32][32]uint64) {
	for r, reg := range regs {
		for i := range w.k.tmp {
			if t.bits == 16 {
				w.k.tmp[i] = from[i/4+8*r][i%4*2] | from[i/4+8*r][i%4*2+1]<<16
			} else {
				w.k.tmp[i] = from[i/4+8*(r/2)][i%4*2+r%2]
			}
		}
		w.write(reg)
	}
}

// runQuads runs m8n8k4 of f16. For q of 0 to 3, lanes 4q to 4q+3 and the lanes 16
// higher compute one product.
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
	for r, reg := range op.rd {
		w.k.tmp = out[r]
		w.write(reg)
	}
}

// quadPlace returns the position of accumulator e of a lane. half is the number of
// the lane among the eight lanes.
func (op *mmaOp) quadPlace(half, e int, t elementType) (row, col int) {
	if t.bits == 16 {
		return half, e
	}
	return half&1 + e&2 + half/4*4, e&4 + half&2 + e&1
}

func accumulator(w *warp, regs []int32, t elementType, e, lane int) uint64 {
	if t.bits == 16 {
		return w.f.lane(regs[e/2], lane) >> (16 * (e & 1)) & 0xffff
	}
	return w.f.lane(regs[e], lane) & 0xffffffff
}

// choose sets the multiplication for the types of the operation. The arithmetic is as
// an H200 computes it: integers are exact, f64 is rounded after each product, floats
// are added by softfloat.TensorSum. For two shapes (multiplyQuads and multiplyBytes)
// the hardware has no unit and composes them of other operations.
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

// multiplyIntegers wraps around, or clamps at the end if satfinite is set.
func multiplyIntegers(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := int64(int32(x.c[row][col]))
			for k := range op.k {
				sum += integerProduct(op, x.a[row][k], x.b[col][k])
			}
			if op.satfinite {
				x.d[row][col] = saturate32(sum)
			} else {
				x.d[row][col] = uint64(uint32(sum))
			}
		}
	}
}

func integerProduct(op *mmaOp, a, b uint64) int64 {
	switch op.logic {
	case "xor":
		return int64(a ^ b)
	case "and":
		return int64(a & b)
	}
	return widen(a, op.a) * widen(b, op.b)
}

// widen returns the value of an integer element.
func widen(v uint64, t elementType) int64 {
	if t.signed {
		return int64(v<<(64-t.bits)) >> (64 - t.bits)
	}
	return int64(v)
}

// multiplyDoubles adds one product after the other, each with one rounding.
func multiplyDoubles(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := f64from(x.c[row][col])
			for k := range op.k {
				sum = softfloat.Arith64("fma", f64from(x.a[row][k]), f64from(x.b[col][k]), sum, op.mode)
			}
			x.d[row][col] = f64bits(sum)
		}
	}
}

// multiplyFloats computes a tensorSum for each element of the result.
func multiplyFloats(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := op.c.float.Decode(x.c[row][col], false)
			for k := 0; k < op.k; k += op.step() {
				sum = op.tensorSum(&x.a[row], &x.b[col], k, 1, k+op.step(), sum)
			}
			x.d[row][col] = op.d.float.Encode(sum, softfloat.NearestEven)
		}
	}
}

// step returns how many products are added at once: all, except for the tf32 of wmma,
// which is two products of half the length.
func (op *mmaOp) step() int {
	if op.n == 16 && op.k == 8 {
		return 4
	}
	return op.k
}

// multiplyQuads computes m8n8k4 of f16: products and sums of f32, the accumulator
// last.
func multiplyQuads(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			var sum float32
			for k := range op.k {
				p := float32(elementValue(x.a[row][k], op.a)) * float32(elementValue(x.b[col][k], op.b)) // exact
				if k == 0 {
					sum = p
				} else {
					sum += float32(p)
				}
			}
			sum += float32(op.c.float.Decode(x.c[row][col], false))
			x.d[row][col] = op.d.float.Encode(float64(sum), softfloat.NearestEven)
		}
	}
}

// multiplyBytes multiplies 8-bit floats. The hardware makes two products of f16 of
// it: the first from elements 0 and 1 of every four, the second from the others. It
// adds the accumulator last.
func multiplyBytes(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := op.tensorSum(&x.a[row], &x.b[col], 0, 2, op.k, 0)
			sum = op.tensorSum(&x.a[row], &x.b[col], 2, 2, op.k, sum)
			d := float32(sum) + float32(op.c.float.Decode(x.c[row][col], false))
			x.d[row][col] = op.d.float.Encode(float64(d), softfloat.NearestEven)
		}
	}
}

// tensorSum adds acc and the products of a row and a column from first on: all
// products, or, with step 2, two of every four.
func (op *mmaOp) tensorSum(a, b *[256]uint64, first, step, end int, acc float64) float64 {
	var t softfloat.TensorSum
	t.Add(acc, softfloat.Exponent(acc))
	for k := first; k < end; k++ {
		if step == 2 && (k-first)&2 != 0 {
			continue
		}
		x, y := elementValue(a[k], op.a), elementValue(b[k], op.b)
		t.Add(x*y, op.exponent(x, op.a)+op.exponent(y, op.b))
	}
	if op.c.bits == 32 {
		return t.Result(op.c.float)
	}
	return t.Result(op.d.float)
}

// elementValue returns a matrix element. For tf32 only the upper 19 bits count.
func elementValue(v uint64, t elementType) float64 {
	if t.name == "tf32" {
		v &^= 0x1fff
	}
	return t.float.Decode(v, false)
}

// exponent returns the exponent of an element as it is stored. For denormals it is
// the lowest of the format.
func (op *mmaOp) exponent(x float64, t elementType) int {
	return max(softfloat.Exponent(x), t.float.MinExponent())
}
