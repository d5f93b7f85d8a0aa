package entry

// contextless has the calls about memory that belongs to no context. CUDA makes them without a
// current one, and a cu.Driver demands one.
var contextless = map[string]bool{
	"cuMemGetAllocationGranularity": true, "cuMemGetAllocationPropertiesFromHandle": true,
	"cuMemCreate": true, "cuMemRelease": true, "cuMemRetainAllocationHandle": true,
	"cuMemExportToShareableHandle": true, "cuMemImportFromShareableHandle": true,
	"cuMemAddressReserve": true, "cuMemAddressFree": true, "cuMemMap": true, "cuMemUnmap": true,
	"cuMemSetAccess": true, "cuMemGetAccess": true,
}

// byHandle has calls that use the context of a stream or an event where none is current, with the
// place of the handle among the arguments, as seen on an H200 with driver 580.159.04. A cu.Driver
// demands a context of them. Calls whose line //cu:call says context= are not here.
var byHandle = map[string]int{
	"cuStreamQuery": 0, "cuStreamSynchronize": 0, "cuStreamDestroy_v2": 0, "cuStreamGetCtx": 0, "cuStreamGetFlags": 0,
	"cuStreamGetPriority": 0, "cuStreamGetId": 0, "cuStreamGetDevice": 0, "cuStreamIsCapturing": 0,
	"cuStreamBeginCapture_v2": 0, "cuStreamEndCapture": 0,
	"cuEventSynchronize": 0, "cuEventElapsedTime": 0, "cuEventDestroy_v2": 0,
	"cuMemcpy2DAsync_v2": 1, "cuMemcpy3DAsync_v2": 1, "cuMemcpyPeerAsync": 5, "cuMemAllocAsync": 1, "cuMemFreeAsync": 1,
}

// findContext gives a call without a current context the one that it can do with.
func (d *opened) findContext(c *call, f *Frame) error {
	if contextless[c.name] {
		return d.lend(f)
	}
	if i, ok := byHandle[c.name]; ok {
		f.Ctx = uint64(f.contextOf(d.Driver, f.In[i]))
	}
	return nil
}

// lend gives a call of contextless a context that the program does not see. It is made once.
func (d *opened) lend(f *Frame) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lent == 0 {
		ctx, err := d.CtxCreate(0, 0)
		if err != nil {
			return err
		}
		d.lent = ctx
	}
	f.Ctx = uint64(d.lent)
	return nil
}

// takeBack ends the context that was lent. The process ends, so nobody uses it any more.
func (d *opened) takeBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lent != 0 {
		_ = d.CtxDestroy(d.lent) // its memory goes with the process
		d.lent = 0
	}
}
