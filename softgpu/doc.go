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
// # Parts
//
// The calls of a chapter of the CUDA driver API stand in a file of its name, from device.go
// and context.go to graph.go and occupancy.go. driver.go has what every call begins with.
//
// The machine is in four parts. Memory: regions in the address table of space.go; view.go is
// what one kernel sees of them. Order: the ops of op.go, which schedule.go starts. Time:
// timeline.go has the engines, price.go the costs. Checks: check.go has what all of them find.
//
// The files race_*.go are for the race detector; system_*.go, hostmemory_*.go and backing_*.go
// for what systems do differently.
//
// What needs no driver stands under internal: simt runs kernels, kernelcost prices them,
// kernelrace and launchrace check them, uvm moves pages of managed memory, and accesspath
// describes one access.
package softgpu
