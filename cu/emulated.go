package cu

import "time"

// Emulated has the methods that a driver for emulated hardware has besides [Driver].
// Find it with [AsEmulated].
type Emulated interface {
	// Profile returns the name of the emulated machine, such as "h200".
	Profile() string
	// Now returns the virtual time of the host. It advances only by the time that
	// calls and waits would take on the emulated machine.
	Now() time.Duration
	// HostAccess announces that the host is about to read or write bytes at p. Hardware
	// would notice the access itself: managed pages move, which takes time. Where
	// CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0, HostAccess returns
	// [ErrorIllegalState] while a kernel that may use the memory is queued or running.
	// The host must not access the memory then. Hardware ends the process then.
	HostAccess(p HostPtr, bytes uintptr, write bool) error
}

// AsEmulated finds an [Emulated] driver in d or in the drivers that d wraps. It
// returns nil for hardware.
func AsEmulated(d Driver) Emulated {
	for d != nil {
		if e, ok := d.(Emulated); ok {
			return e
		}
		w, ok := d.(interface{ Unwrap() Driver })
		if !ok {
			return nil
		}
		d = w.Unwrap()
	}
	return nil
}
