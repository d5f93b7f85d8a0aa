// Package staging copies ordinary memory, files and readers to a device and back at
// nearly the speed of the link. Several goroutines copy between them and a ring of
// page-locked slots, and the copy engine of the device works on the slots.
//
// A [Ring] belongs to one context. It allocates slots when transfers first need them, and
// keeps them. A transfer is divided into chunks. They are shorter where the device would
// wait for the first chunk or the CPU for the last one. Each chunk gets a slot, and is
// divided into blocks, which the workers of the ring take in order. The goroutine that
// calls In or Out is the coordinator: it alone takes slots, submits full ones to the
// device and calls the driver, so that no goroutine waits for a lock of the driver. It
// also copies small transfers, and those of a reader that must be read in order.
//
// A [List] is many parts of memory that go in one transfer. The caller of In or Out queues
// the copies of each chunk ([Job.Copy]), because package ferry knows the fastest call for many
// small copies.
//
// A slot is free again when its event has completed, or when its stream is known to have
// completed, never because a call returned. Chunks are large, because each costs the copy
// engine some microseconds. Blocks are small, so that all workers copy the same chunk. A
// transfer to the device has few slots, and its end is moved out of the caches of the
// single cores, which a device reads slowly: see docs/notes/staging.md.
//
// Of the transfers of memory, few are active at a time: Settings.MaxTransfers. The others
// are parked in a queue, in the order of arrival, because more goroutines than processors
// only slow each other and the driver. An active transfer has a place in the queue's gate.
// It goes to the end of the queue when it has begun the bytes of one slot. It gives its place
// back while it waits for the device, because its stream may wait for a queued transfer.
// Transfers of readers and writers need no place, because those may hang.
//
// Active transfers share slots and workers equally. A transfer that its coordinator copies
// alone uses small slots, so that it does not wait for the slots of large transfers. Other
// transfers can hold all slots, in streams that do not advance. A transfer then returns
// [ErrBusy] and how many bytes it has copied, so that the caller can copy the rest in
// another way. One of a reader or writer does so with [Job.Yields].
//
// A Read or Write may fail, panic or end its goroutine. In all cases the transfer accounts
// for every block, releases its slots and calls Job.Done: see [Catch].
//
// A ring keeps its transfers, and later calls use them again, so a transfer of memory allocates nothing.
// Each counts its users: the coordinator, and every worker from Start until it has looked for blocks,
// which a late one does when the transfer has ended. A slot in flight does not count.
//
// # Locks
//
// Ring.mu, gate.mu and transfer.mu are leaves. None is held across a call of the driver or of
// a reader or writer.
package staging
