// Package uvm is the placement policy of managed memory. It decides which pages move,
// are copied, or are mapped over the link when a device or the CPU touches them. It
// follows NVIDIA's open kernel driver, release 580, as far as a machine shows the
// policy. Pages have 4 KiB, in blocks of 2 MiB, and faults are served in batches of
// 256. The policy has prefetch by density, throttling and pinning of pages that thrash,
// advice, and eviction. Names such as lapse, nap and epoch are the driver's.
//
// A [Space] is the managed memory of a process with its processors, a [Range] is
// one allocation. Each call returns the [Work] that it made the driver do. The
// caller prices each piece of work, so that virtual time advances between
// batches; thrashing depends on it. No bytes move here, no clock is read, and
// the same calls have the same result.
//
// Files: space.go has Space, Range and residency; block.go has a block and its
// sets of pages; serve.go has faults, prefetch and migration; thrash.go has the
// thrashing policy.
//
// Not here: access counters, which the driver leaves off unless the CPU shares
// its page tables with the device; range groups; heterogeneous memory management;
// faults of copy engines.
//
// A Space is not safe for concurrent use.
package uvm
