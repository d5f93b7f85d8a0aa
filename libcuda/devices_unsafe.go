package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// DeviceGetName calls cuDeviceGetName; see [cu.Devices].
func (d *Driver) DeviceGetName(dev cu.Device) (name string, err error) {
	buf := make([]byte, 256)
	err = d.call3(procDeviceGetName, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(dev))
	return goString(buf), err
}

// DeviceGetPCIBusId calls cuDeviceGetPCIBusId; see [cu.Devices].
func (d *Driver) DeviceGetPCIBusId(dev cu.Device) (id string, err error) {
	buf := make([]byte, 64)
	err = d.call3(procDeviceGetPCIBusId, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(dev))
	return goString(buf), err
}
