package simt

import (
	"fmt"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// trap records a fault of the lowest of the given lanes.
func (w *warp) trap(in *inst, lanes uint32, result cu.Result, addr uint64, bytes int) {
	w.fault = w.at(in, lanes)
	w.fault.Result, w.fault.Addr, w.fault.Bytes = result, cu.DevicePtr(addr), bytes
	if result == cu.ErrorIllegalAddress && in.mem != nil {
		if w.fault.Why = w.readOnly(in.mem, addr); w.fault.Why == "" {
			w.fault.Why = w.beyondShared(in.mem, addr)
		}
	}
}

// readOnly says what a store wanted to change, if that is memory which kernels can only read.
func (w *warp) readOnly(m *access, addr uint64) string {
	full := addr + m.base()
	if !m.write {
		return ""
	}
	ref := w.segment(m, full)
	switch {
	case ref == nil || !ref.readOnly || m.bytes > ref.size-(full-ref.base):
		return ""
	case full >= paramWindow:
		return "the parameters of a kernel are read only: copy the parameter to a register or to local memory"
	case ref.counter == none || w.k.x.l.Memory.Find(full).Data == nil:
		return "the memory is read only"
	}
	return "constant memory is read only in kernels: the host writes it, or use a .global variable"
}

// Windowed reports whether an address is that of shared or local memory, of a parameter or of
// code, where no allocation is.
func Windowed(addr uint64) bool { return addr >= windows }

// beyondShared says how much shared memory there is, if an access goes beyond it.
func (w *warp) beyondShared(m *access, addr uint64) string {
	if m.space != ptx.SharedSpace && (addr < sharedWindow || addr >= localWindow) {
		return ""
	}
	l := w.k.x.l
	for v := range l.Kernel.shared {
		if v.Size() == 0 && l.SharedBytes == 0 {
			return "the kernel uses dynamic shared memory, but SharedBytes is 0"
		}
	}
	return fmt.Sprintf("the block has %d bytes of shared memory, %d of them dynamic", w.k.x.sharedBytes, l.SharedBytes)
}

// at returns a fault without a result that says where the lowest of the given lanes
// is.
func (w *warp) at(in *inst, lanes uint32) *cu.Fault {
	kernel := w.k.x.l.Kernel
	return &cu.Fault{
		Kernel: kernel.Name,
		Block:  w.b.at,
		Thread: threadAt(uint32(w.index*warpSize+bits.TrailingZeros32(lanes)), w.k.x.l.Block),
		Line:   in.src.Pos.Line,
		Source: kernel.program.source(in.src.Loc),
		Op:     opText(in.src),
	}
}

// position returns a fault that says where a lane of the warp is. The warp must not be
// done.
func (w *warp) position() *cu.Fault {
	if w.active != 0 {
		return w.at(&w.f.fn.code[w.pc], w.active)
	}
	g := &w.others[0]
	pc := g.pc
	if g.wait == waitBarrier {
		pc-- // pc is after the barrier
	}
	return w.at(&g.f.fn.code[pc], g.mask)
}
