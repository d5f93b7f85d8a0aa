package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// MemSetAccess calls cuMemSetAccess; see [cu.VirtualMemory].
func (d *Driver) MemSetAccess(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, access []cu.MemAccessDesc) error {
	return d.bound6(procMemSetAccess, ctx, uintptr(dptr), bytes,
		uintptr(unsafe.Pointer(unsafe.SliceData(access))), uintptr(len(access)), 0, 0)
}

// MemGetAccess calls cuMemGetAccess; see [cu.VirtualMemory]. In C the flags have 64 bits here.
func (d *Driver) MemGetAccess(ctx cu.Context, location *cu.MemLocation, dptr cu.DevicePtr) (cu.MemAccessFlags, error) {
	if location == nil {
		return 0, cu.ErrorInvalidValue
	}
	var flags uint64
	err := d.bound3(procMemGetAccess, ctx, uintptr(unsafe.Pointer(&flags)), uintptr(unsafe.Pointer(location)), uintptr(dptr))
	return cu.MemAccessFlags(flags), err
}

// MemGetAllocationPropertiesFromHandle calls cuMemGetAllocationPropertiesFromHandle; see
// [cu.VirtualMemory].
func (d *Driver) MemGetAllocationPropertiesFromHandle(ctx cu.Context, handle cu.MemHandle) (props cu.MemAllocationProp, err error) {
	err = d.bound3(procMemGetAllocationPropertiesFromHandle, ctx, uintptr(unsafe.Pointer(&props)), uintptr(handle), 0)
	return props, err
}

// MemExportToShareableHandle calls cuMemExportToShareableHandle; see [cu.VirtualMemory]. What
// C writes depends on the type: a file descriptor is an int.
func (d *Driver) MemExportToShareableHandle(ctx cu.Context, handle cu.MemHandle, handleType cu.MemAllocationHandleType, flags uint64) (int32, error) {
	if handleType != cu.MemHandleTypePosixFileDescriptor {
		return -1, cu.ErrorNotSupported
	}
	fd := int32(-1)
	err := d.bound6(procMemExportToShareableHandle, ctx, uintptr(unsafe.Pointer(&fd)), uintptr(handle), uintptr(handleType), uintptr(flags), 0, 0)
	return fd, err
}

// MemImportFromShareableHandle calls cuMemImportFromShareableHandle; see [cu.VirtualMemory]. C
// takes a file descriptor as the value of a pointer.
func (d *Driver) MemImportFromShareableHandle(ctx cu.Context, fd int32, handleType cu.MemAllocationHandleType) (handle cu.MemHandle, err error) {
	if handleType != cu.MemHandleTypePosixFileDescriptor {
		return 0, cu.ErrorNotSupported
	}
	err = d.bound3(procMemImportFromShareableHandle, ctx, uintptr(unsafe.Pointer(&handle)), uintptr(fd), uintptr(handleType))
	return handle, err
}
