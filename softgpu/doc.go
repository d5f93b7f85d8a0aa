// Package softgpu is a GPU in software: a [cu.Driver] in pure Go that emulates the
// machine of a [profile.Profile].
//
// Memory, copies and kernels are real: memory holds bytes, copies copy them, and
// kernels run from their PTX on all cores. One 64-bit address space contains all
// memory. With unified addressing the device address of page-locked memory is the
// host's. Device memory has addresses from 1<<48 up, which no host pointer has.
//
// Every call that queues work makes an [op] with the ops that it must follow. A
// [Schedule] chooses when ops start, among the orders that CUDA allows.
//
// Time is virtual. The host's clock advances by the cost of calls and waits on the
// profile's machine. A discrete-event simulation places ops on engines in the order
// of virtual time. It does not depend on the speed of this computer: a program with
// one goroutine sees the same times on every run.
//
// Faults are those of hardware: after one, all devices are lost for every context,
// old and new, until another driver is opened. A kernel that does not end can be
// stopped; see [Options.KernelLimit] and [Driver.Interrupt].
//
// # Locks
//
// Driver.mu guards all state except the bytes of memory and the address table,
// whose readers need no lock. The lock view.mu belongs to one launch and is
// locked after Driver.mu. Driver.mu is never held while user code, a kernel or
// a copy runs. Calls that wait release it, and check their state again
// afterwards.
//
// # Files
//
// Chapters of the CUDA driver API:
//
//   - driver.go: Options, Open, the start of every call, handles, errors
//   - device.go: devices and primary contexts
//   - context.go: contexts, their streams, limits, peer access, destruction
//   - module.go: modules, their variables and functions
//   - memory.go: device memory, pitched memory, memsets, real memory behind both
//   - contents.go: what new memory holds
//   - written.go: which bytes of device memory have values, for the check of kernels
//   - touch.go: what is free of this computer's memory, when device memory is written
//   - host.go: page-locked memory, and reports of the host's accesses
//   - copy.go: copies in one, two and three dimensions; transfer.go queues them
//   - managed.go: managed memory, its advice and prefetches
//   - pool.go: allocations in stream order, and memory pools
//   - stream.go, capture.go, event.go, graph.go: one chapter each
//   - launch.go: kernel launches, host functions, printf, Interrupt
//   - heap.go: malloc and free in kernels
//
// The machine:
//
//   - space.go: regions of memory and the table of their addresses
//   - view.go: the address space that a kernel sees
//   - op.go: work, ops and their dependencies, time slices of contexts
//   - schedule.go: when ops start, and how calls wait for them
//   - late.go: errors of ops whose call has returned; guard.go: memory that has gone
//   - timeline.go: virtual time and engines
//   - price.go: what kernels, copies and faults cost
//   - walk.go: Walk, the path of one access; tables.go: the page tables it reads
//
// The platform: system_*.go asks the system about memory, hostmemory_*.go how much
// there is. The files backing_*.go reserve it, host_unsafe.go converts pointers.
// The files race_*.go report accesses to the race detector. In builds without it
// race_off.go replaces them.
package softgpu
