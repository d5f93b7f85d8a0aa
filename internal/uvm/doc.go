// Package uvm is the placement policy of managed memory: which pages move, are
// copied or are mapped over the link when a device or the CPU touches them. It is
// that of NVIDIA's open kernel driver, release 580, as far as a machine shows it:
// 4 KiB pages in blocks of 2 MiB, faults served in batches of 256, prefetch by
// density, throttling and pinning of pages that thrash, advice, eviction.
//
// A [Space] is the managed memory of a process with the processors that use it, a
// [Range] is one allocation. What each call made the driver do is a [Work]; what
// that costs is the caller's business, who prices each piece so that virtual time
// goes on between batches (thrashing depends on it). No bytes move here, no time
// is read, and one sequence of calls has one result.
//
// Not here: access counters (the driver leaves them off where the CPU does not
// share its page tables with the device), range groups, heterogeneous memory
// management, and faults of copy engines.
//
// A Space is not safe for concurrent use.
package uvm
