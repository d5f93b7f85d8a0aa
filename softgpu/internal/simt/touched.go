package simt

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// Between asks for what a launch touches of global memory.
type Between struct {
	// Wants reports whether a page of kernelrace.WrittenShift bits is of interest.
	Wants func(page uint64) bool
	// OnHost reports whether the host can read and write a page.
	OnHost func(page uint64) bool
	// Signals is called once, before the launch releases a word of a page of the host.
	Signals func()
}

// Touched is what a launch has touched of global memory.
type Touched struct {
	*kernelrace.Footprint
	insts   []*inst
	program *Program
	grid    cu.Dim3
	block   cu.Dim3
	shift   uint
}

// Side describes the access of a run to the byte at an offset in its page.
func (t *Touched) Side(r *kernelrace.Run, off uint16) FindingSide {
	s := kernelrace.SideOf(r, off, t.shift)
	return describe(t.program, t.grid, t.block, t.insts[min(s.Inst, len(t.insts)-1)], uint64(s.Block), uint32(s.Thread), s.Kind)
}

// touched returns what the launch has touched.
func (c *checker) touched() *Touched {
	l := c.x.l
	return &Touched{
		Footprint: c.Footprint(l.Between.Wants), insts: c.insts, program: l.Kernel.program,
		grid: l.Grid, block: l.Block, shift: c.Shift(),
	}
}
