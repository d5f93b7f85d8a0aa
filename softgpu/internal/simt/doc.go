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
// A [Program] is decoded in steps: functions and their basic blocks (flow.go, access.go,
// liveness.go), what joins instructions (fuse.go), what a thread takes (pressure.go,
// stack.go), and which loads it looks at (looks.go). A launch that runs is an execution: its
// workers have blocks, these have warps, and a warp has groups of lanes and frames of calls.
//
// Each chapter of the PTX ISA has a file with its instructions, decoding and execution beside
// each other. Arithmetic of floating-point numbers is in package softfloat.
//
// What a launch reports beside its results has files of its own: the transfers that a GPU
// would make (traffic.go), the time of some blocks (trace.go, by a [Model]), races and wrong
// barriers (check*.go, for package kernelrace), and weak accesses to memory that the host
// shares (mapped*.go).
package simt
