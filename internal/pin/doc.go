// Package pin page-locks host memory fast, and keeps what is page-locked for the
// next who needs some.
//
// An [Engine] takes memory from the operating system, has many goroutines touch
// it, on huge pages where they measure faster and on the NUMA node asked for, and
// registers it with the driver in pieces of at most 1 GiB, while the rest is still
// being touched. A driver serves nobody else on the machine while it registers, so
// pieces let neighbours in; and some kernels refuse pieces of more than 2 GiB. It
// can be stopped between pieces, and after an error nothing is left. What cannot
// succeed is refused before it starts: [Engine.Predict].
//
// A [Pool] divides such memory into blocks and takes them back. Its sizes waste at
// most an eighth. Blocks come from caches that goroutines seldom share; what those
// lack is cut from larger ones, and what is free next to each other is joined.
//
// Neither knows what is in flight: package ferry gives a block back when the
// hardware is done with it.
//
// # Locks
//
// No lock is held across a call of the driver or of the operating system, but for
// Engine.trials during a trial, which only those wait for who want another. shard.mu
// and Pool.mu are leaves.
package pin
