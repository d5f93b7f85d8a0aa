// Package pin page-locks host memory fast, and keeps page-locked memory in pools.
//
// An [Engine] takes memory from the operating system, and many goroutines touch it. It
// uses huge pages where they measure faster, and the NUMA node asked for. It registers
// the memory with the driver in parts of at most 256 MiB (Settings.MaxRegistration),
// while the rest is still being touched. A driver serves no other process of the machine
// while it registers, so several registrations let others in. Some kernels of the system
// refuse registrations of more than 2 GiB. A request can be stopped between two
// registrations, and after an error nothing is left. [Engine.Predict] finds requests that
// cannot succeed before they start.
//
// A [Pool] takes such memory in segments, divides it into blocks, and takes blocks back.
// A block is larger than asked for by less than an eighth, or by less than 256 bytes. Freed
// blocks go to caches that goroutines seldom share. What the caches lack is cut from free
// extents, and free extents next to each other are joined.
//
// Neither knows what is in flight. Package ferry puts a block back when the device is
// done with it, or has the pool ask for that.
//
// # Locks
//
// No lock is held across a call of the driver or of the operating system, with two
// exceptions. Engine.trials is held during a trial; only goroutines that want a trial wait
// for it. Pool.sourceLock is held while the source gives a segment. shard.mu and Pool.mu
// are leaves.
package pin
