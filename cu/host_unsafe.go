package cu

import "unsafe"

// Unsafe: Only a name for a pointer: nothing is converted.

// HostPtr is an address in host memory, as the CUDA driver API takes and
// returns it. Device addresses are [DevicePtr], which Go cannot dereference.
type HostPtr = unsafe.Pointer
