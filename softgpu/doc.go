// Package softgpu is a GPU in software: a [cu.Driver] in pure Go that plays the
// machine of a [profile.Profile].
//
// Function is real. Memory holds real bytes, copies copy them, kernels run from
// their PTX on all cores. One 64-bit address space holds everything: under
// unified addressing the device address of page-locked memory is the host's;
// device memory lives at addresses from 1<<48 up that no host pointer has.
//
// Order is a choice among the legal ones. Every call that queues work makes an
// [op] with the operations it must follow. A [Schedule] says when ops start.
//
// Time is virtual. The host's clock moves by what calls and waits would cost on
// the profile's machine; ops are placed on engines in the order of virtual time
// by a discrete-event simulation that never looks at how fast this computer is.
// A single-goroutine program sees the same times on every run.
//
// Faults are the hardware's: after one all devices are lost for every context, old
// and new, until another driver is opened. A kernel that does not end can be
// ended: [Options.KernelLimit], [Driver.Interrupt].
//
// # Locks
//
// Driver.mu guards all state but bytes and the address table, whose readers
// need no lock. view.mu, private to a launch, is a leaf below it. Driver.mu is
// never held while user code, a kernel or a copy runs; calls that wait release
// it and look again.
package softgpu
