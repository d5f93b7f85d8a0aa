// Package occupancy computes how many blocks of a kernel a multiprocessor runs at once.
//
// The rules are those of CUDA's occupancy calculator: a multiprocessor has a number of
// warps, blocks, registers, barriers and bytes of shared memory. Each block takes some of
// each, rounded up to the unit in which the hardware gives them out. The software GPU
// uses this package. A test compares it with what the driver of a GPU answered.
//
// The package knows nothing of kernels but their numbers. Where the number of registers
// is an estimate, so are its results.
package occupancy
