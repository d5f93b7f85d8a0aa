// Package kernelrace finds data races between the threads of one kernel launch.
//
// A [Detector] belongs to a launch, a [Block] to one of its blocks. The interpreter
// reports what threads do: accesses, fences, barriers, exits. The detector keeps vector
// clocks of what each thread has seen, and for each word of memory the latest accesses.
// Two accesses race if they touch a byte that one of them writes, neither came before the
// other, and they are not both strong with scopes that include each other. This is the
// memory model of the PTX ISA. The order in which the interpreter runs threads does not
// matter, and neither do warps: lanes are ordered by bar.warp.sync only.
//
// Intervals divide the accesses of a thread at its releases. A clock says for each thread
// the last interval that was seen.
//
//	clock.go     vector clocks, compact where all threads of a block or warp are alike
//	block.go     threads: barriers, fences, release and acquire
//	line.go      the accesses of 32 words, while they are alike
//	strip.go     those that warps have at regular distances
//	cell.go      the latest accesses of a word of memory
//	observe.go   what strong reads have found
//	object.go    mbarrier objects
//	copy.go      copies that are under way
//	heap.go      malloc in kernels
//	record.go    what races, and which accesses are kept
//	detector.go  accesses
//	finding.go   what was found
//	written.go   which bytes of a page have been written
//	footprint.go what a launch has touched, to compare it with other launches
//
// Nothing here is safe for concurrent use: one worker runs the launch.
package kernelrace
