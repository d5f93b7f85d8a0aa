package entry

import "github.com/ferrygpu/ferry/cu"

// Unsafe: A handle of another process stands on the stack of the stub, which copies it.

//c:call cuIpcOpenEventHandle (*ptr event, ipc handle)
func ipcOpenEvent(d cu.Driver, f *Frame) error {
	event, err := d.IpcOpenEventHandle(cu.Context(f.Ctx), *(*cu.IpcEventHandle)(f.pointer(0)))
	f.Out[0] = uint64(event)
	return err
}

//c:call cuIpcOpenMemHandle_v2 (*u64 dptr, ipc handle, u32 flags)
func ipcOpenMem(d cu.Driver, f *Frame) error {
	dptr, err := d.IpcOpenMemHandle(cu.Context(f.Ctx), *(*cu.IpcMemHandle)(f.pointer(0)), cu.IpcMemFlags(f.In[1]))
	f.Out[0] = uint64(dptr)
	return err
}

//c:call cuMemGetHandleForAddressRange (*i32 fd, u64 dptr, size bytes, u32 type, u64 flags)
func memGetHandleForRange(d cu.Driver, f *Frame) error {
	fd, err := d.MemGetHandleForAddressRange(cu.Context(f.Ctx), cu.DevicePtr(f.In[0]), uintptr(f.In[1]), cu.MemRangeHandleType(f.In[2]), cu.MemRangeFlags(f.In[3]))
	f.Out[0] = uint64(fd)
	return err
}

//c:call cuMemPoolExportToShareableHandle (*i32 fd, ptr pool, u32 type, u64 flags)
func poolExport(d cu.Driver, f *Frame) error {
	fd, err := d.MemPoolExportToShareableHandle(cu.MemPool(f.In[0]), cu.MemAllocationHandleType(f.In[1]), f.In[2])
	f.Out[0] = uint64(fd)
	return err
}

//c:call cuMemPoolImportFromShareableHandle (*ptr pool, ptr fd, u32 type, u64 flags)
func poolImport(d cu.Driver, f *Frame) error {
	pool, err := d.MemPoolImportFromShareableHandle(int32(f.In[0]), cu.MemAllocationHandleType(f.In[1]), f.In[2])
	f.Out[0] = uint64(pool)
	return err
}
