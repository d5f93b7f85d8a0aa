// Package stage moves ordinary memory, files and readers to a device and back at
// nearly the speed of the link: several goroutines copy between them and a ring
// of page-locked slots, from and to which the device's copy engine works.
//
// A [Ring] belongs to one context. Its slots are taken when transfers first need
// them and kept. A transfer is cut into chunks, small ones where the device would
// wait for the first or the CPU for the last; a chunk has a slot, and is cut into
// blocks, which goroutines take in order. Who copies the last block of a chunk
// gives it to the device. A slot is free again when an event says so, never
// because a call returned. Chunks are large, as each costs the engine some
// microseconds, and blocks are small, so that all goroutines work on the same
// chunk and the ring stays in the caches: see docs/PERFORMANCE.md.
//
// Transfers at the same time share slots and goroutines equally. A transfer that
// gets no slot, as others hold them in streams that stand still, says [ErrBusy]
// and how far it came, so that it can go on by another way.
//
// # Locks
//
// Ring.mu and transfer.mu are leaves. Neither is held across a call of the driver
// or of a reader or writer.
package stage
