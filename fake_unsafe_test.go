package ferry_test

import "github.com/ferrygpu/ferry/cu"

// fakeAddress is a host address as a device has it under unified addressing.
func fakeAddress(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }
