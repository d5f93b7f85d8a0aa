// Package simt runs a PTX program, one warp at a time.
//
// [Link] decodes a module once. Every operand becomes the index of a register in a call
// frame. Every instruction becomes a function over the 32 lanes of a warp. [Run] then
// executes a launch with one goroutine per core. A block stays on one goroutine.
//
// Lanes that took different paths form groups. The group in the deepest call runs
// first. In the same call the group with the lowest position does, so that structured
// code reconverges. Lanes that make the same call share a frame, whenever they come to
// it. A group that loops for long gives the other groups of its warp a time slice. A
// warp that loops for long gives the other warps of its block a turn. Blocks that poll
// memory make their worker begin further blocks, up to 4096. If they take much memory
// it begins up to 64 (fewer only above 4 GiB). Polling is volatile, relaxed or
// acquiring loads, atomics that change nothing, and sleeping. So threads of a grid may
// wait for each other as long as the grid has no more blocks than that per worker.
//
// A register is stored lane by lane, or as one value with a stride if all lanes agree
// or differ evenly. The second form saves most of the work of computing indices, and
// loads and stores through such an address are checked once for the whole warp. The
// hot loops over lanes exist twice: in Go, and in AVX2.
//
// The caller implements memory as a [Memory]. It also has allocation, streams and time.
//
// The files:
//
//	simt.go, program.go             what callers use: memory, launches, linked programs
//	function.go, decode.go          a function in decoded form; the decoder's common part
//	alias.go                        registers that are other names of constants
//	flow.go, access.go, liveness.go basic blocks; the registers that an instruction reads and writes, and that are needed
//	pressure.go, stack.go           how many registers and how much stack a thread needs
//	fuse.go, uses.go                which multiplications are joined with additions
//	looks.go                        whether a thread looks at what it loads
//	execution.go, worker.go         a launch; its goroutines
//	block.go, warp.go, frame.go     a block; a warp with its groups of lanes; a call frame
//	exec.go, vec.go, simd*          register access; the loops over lanes, in Go and AVX2
//	mem*.go, traffic.go             loads and stores; what a GPU would transfer for them
//	types.go, race_*.go             helpers for PTX types; whether the race detector is on
//
// One file for each chapter of the PTX ISA has its instructions, decoding and
// execution:
//
//	integer.go, bits.go             integer arithmetic, logic and shifts
//	float.go, convert.go            floating point, conversions (numbers: package softfloat)
//	compare.go                      comparison and selection
//	movement.go                     mov, ld, st, cvta, isspacep, addresses
//	control.go, builtin.go          branches, calls, the stack; vprintf and __assertfail
//	barrier.go, async.go            bar, barrier, fences; mbarrier, cp.async
//	atomic*.go, collective.go       atom, red; shfl, vote, match, redux, elect
//	matrix.go, mma.go               ldmatrix, wmma; mma and the arithmetic of both
//	special.go                      special registers and the clocks
package simt
