// Package stage moves ordinary memory, files and readers to a device and back at
// nearly the speed of the link: several goroutines copy between them and a ring
// of page-locked slots, from and to which the device's copy engine works.
//
// A [Ring] belongs to one context. Its slots are taken when transfers first need
// them and kept. A transfer is cut into chunks, shorter ones where the device would
// wait for the first or the CPU for the last; a chunk has a slot, and is cut into
// blocks, which the ring's crew takes in order. Who called leads: it takes slots, gives
// full ones to the device and calls the driver, for all, so that nobody waits for a
// lock of the driver's. Small transfers and such as come in order from a reader it
// copies itself. A slot is free again when an event says so, or its stream is known to
// be done, never because a call returned. Chunks are large, as each costs the engine
// some microseconds, and blocks are small, so that all work on the same chunk. A
// transfer to the device has few slots, and the end of it is moved out of the cores' own
// caches, which a device reads slowly: see docs/PERFORMANCE.md.
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
