package simt

import "github.com/ferrygpu/ferry/ptx"

const (
	warpSize = 32
	allLanes = ^uint32(0)
)

// lanes holds one register of a warp. Bits above the width of the register are
// unspecified: whoever reads a lane truncates it to the type of the operation.
type lanes [warpSize]uint64

// What a tag says about a register.
const (
	kLanes   = 1 << iota // every lane is stored
	kUniform             // lane 0 stands for all
	kAffine              // lane i is lane 0 + i*stride
)

// tag says how a register is stored. Uniform registers have stride 0, so that
// they are affine ones too.
type tag struct {
	stride uint64
	kind   uint8
}

// vec computes d from a, b and c for lanes 0 to n-1. It must do no harm for
// lanes that hold garbage.
type vec func(d, a, b, c *lanes, n int)

// compareFunc is a comparison: bit i of the result is that of lane i.
type compareFunc func(a, b *lanes, n int) uint32

// kind of an instruction, for the main loop.
type kind uint8

const (
	kindExec        kind = iota // runs to its end for the active lanes
	kindBranch                  // to target
	kindIndexed                 // brx.idx
	kindCall                    //
	kindRet                     //
	kindExit                    //
	kindBarrier                 // bar, barrier
	kindSync                    // waits for the member lanes, then runs as kindExec does
	kindYield                   // lets other warps run
	kindUnsupported             // a launch with one is refused
)

// inst is a decoded instruction. Its operands are slots of the frame.
type inst struct {
	kind     kind
	guard    int32  // predicate slot, -1 for none
	guardNot uint32 // xor'ed to the guard
	cost     uint32 // PTX instructions it stands for

	d, a, b, c int32
	p, q       int32 // predicate operands: destinations of setp, sources of selp
	pNot       uint32
	target     int32

	exec func(w *warp, in *inst)
	vec  vec
	cmp  compareFunc
	aff  func(w *warp, in *inst) bool // true when it did the work with scalars

	mem   *access
	call  *callSite
	table []int32
	aux   any // what only one kind of instruction needs

	src *ptx.Instr
}
