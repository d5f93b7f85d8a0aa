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
// for it. Pool.sourceLock is held while the source gives a segment, and while a goroutine
// that found no memory polls the blocks in flight. Those that wait for it are served in the
// order of arrival.
//
// Pool.look holds shard.mu of all shards, which it takes in the order of Pool.shards, and
// then Pool.mu. Pool.steal holds that of one shard and tries that of others. Elsewhere
// shard.mu and Pool.mu are leaves.
//
// # Waiting
//
// Requests that wait at a limit (Pool.GetWait) are a queue, of which the first looks for memory. It
// counts itself before it looks, and what gives memory back looks at that count afterwards, so no
// memory is overlooked. The first looks under Pool.sourceLock, and chooses there the block in flight
// that it waits for. Others who poll blocks without that lock tell the queue when they put them back.
//
// # Growth
//
// A pool asks its source only after one look at all caches and free extents, under all
// locks, that finds no block of the class and no extent large enough. What other goroutines
// give back later was in use or in flight at that moment. So for blocks of one size, a pool
// takes less than a segment more than was in use or in flight at once, and the ends of
// segments where no block fits: the caches and processors add nothing. With several sizes,
// used blocks can lie between free extents that are too small.
package pin
