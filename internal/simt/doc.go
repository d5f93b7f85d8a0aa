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
// turn, and a block that only polls memory lets the worker begin further blocks:
// threads may wait for each other across the grid as long as it has no more than
// 4096 blocks a worker.
//
// A register is stored as lanes, or as one value with a stride where all lanes
// agree or differ evenly, which saves most of the work of indexing. Loads and
// stores through such an address are checked once for the whole warp.
//
// Memory belongs to the caller, who answers [Memory.Find]. What does not live
// here: allocation, streams, time.
package simt
