package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// alloca and its stack. What a thread allocates lies behind the variables of its
// activation and goes with it. All lanes of an activation share one stack pointer,
// moved on by the largest size that a lane asks for.

// decodeAlloca is alloca ptr, size{, align}: an address in local memory.
func decodeAlloca(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	size, err := d.source(1, ptx.U64)
	if err != nil {
		return err
	}
	align := 16
	if len(d.in.Operands) > 2 {
		a, ok := d.in.Operands[2].(ptx.Imm)
		if !ok || a.Value == 0 || a.Value&(a.Value-1) != 0 || a.Value > 1<<16 {
			return missing("the alignment must be a power of two")
		}
		align = max(align, int(a.Value))
	}
	narrow := d.typ(0).Size() == 4
	d.emit(inst{d: dst, a: size, exec: func(w *warp, in *inst) {
		var n uint64
		for m := w.active; m != 0; m &= m - 1 {
			v := w.f.lane(in.a, bits.TrailingZeros32(m))
			if narrow {
				v &= 0xffffffff
			}
			n = max(n, v)
		}
		at := alignUp(w.f.stackTop(), align)
		if n > maxLocal || at+int(n) > maxLocal {
			w.trap(in, w.active, cu.ErrorHardwareStackError, 0, 0)
			return
		}
		w.f.top = at + int(n)
		w.needLocal(w.f.top)
		w.writeUniform(in.d, uint64(at))
	}})
	return nil
}

// stackTop is the first byte of local memory that the activation does not use.
func (f *frame) stackTop() int { return max(f.top, int(f.local)+f.fn.localBytes) }

func decodeStackSave(d *decoder) error {
	dst, err := d.dest(0)
	if err != nil {
		return err
	}
	d.emit(inst{d: dst, exec: func(w *warp, in *inst) { w.writeUniform(in.d, uint64(w.f.stackTop())) }})
	return nil
}

// decodeStackRestore gives back what was allocated since the stacksave.
func decodeStackRestore(d *decoder) error {
	src, err := d.source(0, ptx.U64)
	if err != nil {
		return err
	}
	d.emit(inst{a: src, exec: func(w *warp, in *inst) {
		if w.active != w.f.lanes {
			return // others may still use theirs
		}
		at := 0
		for m := w.active; m != 0; m &= m - 1 {
			at = max(at, int(w.f.lane(in.a, bits.TrailingZeros32(m))&0xffffffff))
		}
		w.f.top = min(w.f.top, at)
	}})
	return nil
}
