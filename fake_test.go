package ferry_test

import (
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// fakeDriver does nothing and says yes: it shows what Ferry itself costs. Calls
// that no test makes are those of a nil interface.
type fakeDriver struct {
	cu.Driver
	attributes map[cu.DeviceAttribute]int32
	next       cu.DevicePtr
}

// fakeHost keeps page-locked memory that a test loses, as a driver does.
var fakeHost sync.Map

func newFake() *fakeDriver {
	return &fakeDriver{next: 1 << 40, attributes: map[cu.DeviceAttribute]int32{
		cu.DeviceAttributeUnifiedAddressing:     1,
		cu.DeviceAttributeCanMapHostMemory:      1,
		cu.DeviceAttributeMaxThreadsPerBlock:    1024,
		cu.DeviceAttributeMaxBlockDimX:          1024,
		cu.DeviceAttributeMaxBlockDimY:          1024,
		cu.DeviceAttributeMaxBlockDimZ:          64,
		cu.DeviceAttributeMaxGridDimX:           1<<31 - 1,
		cu.DeviceAttributeMaxGridDimY:           65535,
		cu.DeviceAttributeMaxGridDimZ:           65535,
		cu.DeviceAttributeHostRegisterSupported: 1,
	}}
}

func (d *fakeDriver) Init(uint32) error                       { return nil }
func (d *fakeDriver) DriverGetVersion() (int32, error)        { return 13000, nil }
func (d *fakeDriver) DeviceGetCount() (int32, error)          { return 1, nil }
func (d *fakeDriver) DeviceGet(n int32) (cu.Device, error)    { return cu.Device(n), nil }
func (d *fakeDriver) DeviceGetName(cu.Device) (string, error) { return "fake", nil }
func (d *fakeDriver) DeviceGetAttribute(a cu.DeviceAttribute, _ cu.Device) (int32, error) {
	return d.attributes[a], nil
}
func (d *fakeDriver) DevicePrimaryCtxGetState(cu.Device) (cu.CtxFlags, int32, error) {
	return cu.CtxMapHost, 1, nil
}
func (d *fakeDriver) DevicePrimaryCtxRetain(cu.Device) (cu.Context, error) { return 1, nil }
func (d *fakeDriver) DevicePrimaryCtxRelease(cu.Device) error              { return nil }
func (d *fakeDriver) CtxSynchronize(cu.Context) error                      { return nil }
func (d *fakeDriver) MemAlloc(_ cu.Context, bytes uintptr) (cu.DevicePtr, error) {
	p := d.next
	d.next += cu.DevicePtr(bytes)
	return p, nil
}
func (d *fakeDriver) MemFree(cu.Context, cu.DevicePtr) error { return nil }
func (d *fakeDriver) MemHostAlloc(_ cu.Context, bytes uintptr, _ cu.MemHostAllocFlags) (cu.HostPtr, error) {
	b := make([]byte, bytes)
	fakeHost.Store(&b[0], b)
	return cu.HostPtr(&b[0]), nil
}
func (d *fakeDriver) MemFreeHost(cu.Context, cu.HostPtr) error                   { return nil }
func (d *fakeDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) { return 7, nil }
func (d *fakeDriver) StreamDestroy(cu.Context, cu.Stream) error                  { return nil }
func (d *fakeDriver) StreamSynchronize(cu.Context, cu.Stream) error              { return nil }
func (d *fakeDriver) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error)    { return 9, nil }
func (d *fakeDriver) EventRecord(cu.Context, cu.Event, cu.Stream) error          { return nil }
func (d *fakeDriver) EventSynchronize(cu.Context, cu.Event) error                { return nil }
func (d *fakeDriver) EventDestroy(cu.Context, cu.Event) error                    { return nil }
func (d *fakeDriver) ModuleLoadData(cu.Context, []byte) (cu.Module, error)       { return 3, nil }
func (d *fakeDriver) ModuleUnload(cu.Context, cu.Module) error                   { return nil }
func (d *fakeDriver) ModuleGetFunction(cu.Context, cu.Module, string) (cu.Function, error) {
	return 5, nil
}
func (d *fakeDriver) FuncGetAttribute(_ cu.Context, a cu.FunctionAttribute, _ cu.Function) (int32, error) {
	if a == cu.FuncAttributeMaxThreadsPerBlock {
		return 1024, nil
	}
	return 0, nil
}
func (d *fakeDriver) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return nil
}
func (d *fakeDriver) MemcpyDtoHAsync(cu.Context, cu.HostPtr, cu.DevicePtr, uintptr, cu.Stream) error {
	return nil
}
func (d *fakeDriver) LaunchKernel(cu.Context, cu.Function, cu.Dim3, cu.Dim3, uint32, cu.Stream, []byte) error {
	return nil
}
func (d *fakeDriver) StreamBeginCapture(cu.Context, cu.Stream, cu.StreamCaptureMode) error {
	return nil
}
func (d *fakeDriver) StreamEndCapture(cu.Context, cu.Stream) (cu.Graph, error) { return 11, nil }
func (d *fakeDriver) GraphInstantiate(cu.Context, cu.Graph, uint64) (cu.GraphExec, error) {
	return 13, nil
}
func (d *fakeDriver) Submit(_ cu.Context, b *cu.Batch) (int, error)         { return b.Len(), nil }
func (d *fakeDriver) GraphDestroy(cu.Graph) error                           { return nil }
func (d *fakeDriver) GraphExecDestroy(cu.GraphExec) error                   { return nil }
func (d *fakeDriver) GraphLaunch(cu.Context, cu.GraphExec, cu.Stream) error { return nil }

// openFake opens a fake GPU.
func openFake(t testing.TB, d cu.Driver) *ferry.GPU {
	t.Helper()
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, g) })
	return g
}
