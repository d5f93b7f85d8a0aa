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

// lend gives such a call a context that the program does not see. It is made once.
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
