package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes. So the memory stays alive and in place until C returns, and C keeps
// none of them.

// DeviceGetHostAtomicCapabilities calls cuDeviceGetHostAtomicCapabilities; see [cu.Links].
func (d *Driver) DeviceGetHostAtomicCapabilities(operations []cu.AtomicOperation, dev cu.Device) ([]cu.AtomicCapabilities, error) {
	c := make([]cu.AtomicCapabilities, len(operations))
	err := d.call6(procDeviceGetHostAtomicCapabilities, uintptr(unsafe.Pointer(unsafe.SliceData(c))),
		uintptr(unsafe.Pointer(unsafe.SliceData(operations))), uintptr(len(c)), uintptr(dev), 0, 0)
	return orNone(c, err)
}

// DeviceGetP2PAtomicCapabilities calls cuDeviceGetP2PAtomicCapabilities; see [cu.Links].
func (d *Driver) DeviceGetP2PAtomicCapabilities(operations []cu.AtomicOperation, srcDevice, dstDevice cu.Device) ([]cu.AtomicCapabilities, error) {
	c := make([]cu.AtomicCapabilities, len(operations))
	err := d.call6(procDeviceGetP2PAtomicCapabilities, uintptr(unsafe.Pointer(unsafe.SliceData(c))),
		uintptr(unsafe.Pointer(unsafe.SliceData(operations))), uintptr(len(c)), uintptr(srcDevice), uintptr(dstDevice), 0)
	return orNone(c, err)
}

// orNone returns the capabilities, or none after an error.
func orNone(c []cu.AtomicCapabilities, err error) ([]cu.AtomicCapabilities, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
