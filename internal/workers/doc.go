// Package workers provides goroutines that copy together.
//
// A [Pool] keeps goroutines and wakes all of them at once. A [Queue] has workers copy
// tasks, block by block, the oldest task first. [For] divides a loop among the
// processors. [Settings] hold what depends on the machine.
//
// The package knows nothing of devices. Packages staging and pipeline decide what a block
// is, and call the driver.
//
// # Locks
//
// Pool.mu is a leaf. No lock is held while a worker works.
package workers
