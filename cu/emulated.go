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
	e, _ := As[Emulated](d)
	return e
}

// As finds the first driver of type T in d and the drivers that it wraps. T can be an
// interface. A driver that wraps another one has a method Unwrap() Driver.
func As[T any](d Driver) (found T, ok bool) {
	for d != nil {
		if found, ok = d.(T); ok {
			return found, true
		}
		w, wraps := d.(interface{ Unwrap() Driver })
		if !wraps {
			break
		}
		d = w.Unwrap()
	}
	return found, false
}
