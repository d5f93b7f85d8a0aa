package libcuda

import (
	"runtime"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes. So the memory stays alive and in place until C returns, and C keeps
// none of them.

// ipcWords are the 64 bytes of a handle.
type ipcWords [8]uintptr

// IpcOpenEventHandle calls cuIpcOpenEventHandle; see [cu.Sharing].
func (d *Driver) IpcOpenEventHandle(ctx cu.Context, handle cu.IpcEventHandle) (event cu.Event, err error) {
	err = d.withHandle(procIpcOpenEventHandle, ctx, uintptr(unsafe.Pointer(&event)), *(*ipcWords)(unsafe.Pointer(&handle)), 0)
	return event, err
}

// IpcOpenMemHandle calls cuIpcOpenMemHandle; see [cu.Sharing].
func (d *Driver) IpcOpenMemHandle(ctx cu.Context, handle cu.IpcMemHandle, flags cu.IpcMemFlags) (dptr cu.DevicePtr, err error) {
	err = d.withHandle(procIpcOpenMemHandle, ctx, uintptr(unsafe.Pointer(&dptr)), *(*ipcWords)(unsafe.Pointer(&handle)), uintptr(flags))
	return dptr, err
}

// withHandle calls a function with the address of its result, a handle by value, and flags, with ctx
// current. On arm64 C gets the address of such a struct. On amd64 it gets a copy on the stack, behind
// what does not fit in registers, so that the flags are the second argument in a register. The
// arguments are more than a call has.
//
//go:uintptrescapes
func (d *Driver) withHandle(id procID, ctx cu.Context, out uintptr, h ipcWords, flags uintptr) error {
	runtime.LockOSThread() // for the current context
	defer runtime.UnlockOSThread()
	var c call
	if err := d.prepareBound(&c, id, ctx); err != nil {
		return err
	}
	return d.between(ctx, func() error {
		if runtime.GOARCH == "arm64" {
			return d.failed(id, cu.Result(syscallN(c.step[0], out, uintptr(unsafe.Pointer(&h)), flags)))
		}
		return d.failed(id, cu.Result(syscallN(c.step[0], out, flags, 0, 0, 0, 0, h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7])))
	})
}

// MemGetHandleForAddressRange calls cuMemGetHandleForAddressRange; see [cu.Sharing]. What C writes
// depends on the type: a file descriptor is an int.
func (d *Driver) MemGetHandleForAddressRange(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, handleType cu.MemRangeHandleType, flags cu.MemRangeFlags) (int32, error) {
	if handleType != cu.MemRangeHandleTypeDMABufFD {
		return -1, cu.ErrorNotSupported
	}
	fd := int32(-1)
	err := d.bound6(procMemGetHandleForAddressRange, ctx, uintptr(unsafe.Pointer(&fd)), uintptr(dptr), bytes, uintptr(handleType), uintptr(flags), 0)
	return fd, err
}

// MemPoolExportToShareableHandle calls cuMemPoolExportToShareableHandle; see [cu.MemPools]. Unlike other
// descriptors of the driver, this one has no FD_CLOEXEC (driver 580).
func (d *Driver) MemPoolExportToShareableHandle(pool cu.MemPool, handleType cu.MemAllocationHandleType, flags uint64) (int32, error) {
	if handleType != cu.MemHandleTypePosixFileDescriptor {
		return -1, cu.ErrorNotSupported
	}
	fd := int32(-1)
	err := d.call6(procMemPoolExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(pool), uintptr(handleType), uintptr(flags), 0, 0)
	return closedOnExec(fd, err)
}

// MemPoolImportFromShareableHandle calls cuMemPoolImportFromShareableHandle; see [cu.MemPools]. C
// takes a file descriptor as the value of a pointer.
func (d *Driver) MemPoolImportFromShareableHandle(fd int32, handleType cu.MemAllocationHandleType, flags uint64) (pool cu.MemPool, err error) {
	if handleType != cu.MemHandleTypePosixFileDescriptor {
		return 0, cu.ErrorNotSupported
	}
	err = d.call6(procMemPoolImportFromShareableHandle, uintptr(unsafe.Pointer(&pool)), uintptr(fd), uintptr(handleType), uintptr(flags), 0, 0)
	return pool, err
}
