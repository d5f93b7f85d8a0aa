// Package simt runs a ptx program, a warp at a time.
//
// [Link] decodes a module once: every operand becomes a slot of a frame, every
// instruction a function over 32 lanes. [Run] then executes a launch with a
// goroutine a core, each taking whole blocks.
//
// Lanes that took different paths stand in groups; of those that can run, the
// one in the deepest call with the lowest position runs first, so that
// structured code meets again. A group that loops for long gives the others of
// its warp a slice, a warp that loops for long gives its block's other warps a
// turn, and while blocks poll memory (by volatile, relaxed or acquiring loads, by
// atomics that change nothing, or sleeping) their worker begins further blocks, up
// to 4096 and, of those that take much memory, 64 (fewer only above 4 GiB). Threads
// of a grid may wait for each other as long as its blocks are no more than that a
// worker.
//
// A register is stored as lanes, or as one value with a stride where all lanes
// agree or differ evenly, which saves most of the work of indexing. Loads and
// stores through such an address are checked once for the whole warp. The loops
// over lanes that matter have a twin in the CPU's wide registers (operations).
//
// Memory belongs to the caller, who answers [Memory.Find]. What does not live
// here: allocation, streams, time.
package simt
