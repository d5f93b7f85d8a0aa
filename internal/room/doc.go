// Package room says how much host memory this process can still take.
//
// [Read] combines what the machine has available with the limits of the control groups:
// that of the process, and those of all groups above it, in version 1 and version 2. Every
// estimate of room in Ferry comes from here, so that page-locking, "ferry doctor" and the
// software GPU agree.
//
// The package knows nothing of GPUs, and refuses nothing.
package room
