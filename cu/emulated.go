package cu

import "time"

// Emulated is what a driver that is not hardware has besides [Driver].
// Find it with [AsEmulated].
type Emulated interface {
	// Profile names the machine that is played, such as "h200".
	Profile() string
	// Now is the virtual time of the host, which advances with what calls and
	// waits would cost on that machine, and with nothing else.
	Now() time.Duration
	// HostAccess tells that the host is about to read or write bytes at p, which
	// hardware would notice by itself: managed pages move, and their move costs time.
	// Where CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0 it is an error,
	// [ErrorIllegalState], while a kernel that may use the memory is queued or
	// running; hardware ends the process there. The host must not touch it then.
	HostAccess(p HostPtr, bytes uintptr, write bool) error
}

// AsEmulated looks for an [Emulated] driver in d and in what it wraps.
// It is nil on hardware.
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
