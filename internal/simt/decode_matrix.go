package simt

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// ldmatrix, stmatrix and movmatrix move 8x8 matrices of 16-bit elements between
// shared memory and the registers of a warp. Lane i holds elements 2i and 2i+1 of
// a matrix, rows first; transposed, those of its columns.

// wholeWarp makes an instruction one that waits for all lanes.
func (d *decoder) wholeWarp(out *inst) {
	out.kind = kindSync
	out.c = d.f.constSlot(uint64(allLanes))
}

// matrixMove is what a load or store of matrices has besides its address.
type matrixMove struct {
	slots []int32
	trans bool
}

// decodeMatrixAccess reads what loads and stores have in common: operand at is
// the address, operand val the registers.
func (d *decoder) decodeMatrixAccess(at, val int, exec func(*warp, *inst), slot func(ptx.Operand) (int32, error)) error {
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
		s, err := slot(r)
		if err != nil {
			return err
		}
		move.slots = append(move.slots, s)
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

// sharedAt is the n bytes of shared memory, n a power of two, whose address lane i
// holds; nil with a fault noted if they are not there or not aligned to n.
func (w *warp) sharedAt(in *inst, i int, n uint64) []byte {
	m := in.mem
	addr := w.f.lane(in.a, i)
	if m.addr32 {
		addr &= 0xffffffff
	}
	addr += w.offset(m)
	at := addr + m.base() - sharedWindow
	switch {
	case addr&(n-1) != 0:
		w.trap(in, 1<<i, cu.ErrorMisalignedAddress, addr, int(n))
	case at >= uint64(len(w.b.shared)) || at+n > w.b.window.size:
		w.trap(in, 1<<i, cu.ErrorIllegalAddress, addr, int(n))
	default:
		return w.b.shared[at : at+n]
	}
	return nil
}

// element is where in a matrix lane i's k'th element is.
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
	for x := range m.slots {
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
	for x, s := range m.slots {
		w.k.tmp = all[x]
		w.write(s)
	}
}

func execStoreMatrix(w *warp, in *inst) {
	m := in.aux.(*matrixMove)
	for x, s := range m.slots {
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

// decodeMoveMatrix transposes a matrix in registers.
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
