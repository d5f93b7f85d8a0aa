package gputest

import (
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// Fake is a driver that does nothing and returns no errors, so that only Ferry's own
// allocations and calls are counted. A call that it lacks panics.
type Fake struct {
	cu.Driver
	Attributes map[cu.DeviceAttribute]int32 // the others are 0
	next       cu.DevicePtr
}

// fakeHost keeps page-locked memory that a test leaks, as a driver does.
var fakeHost sync.Map

// NewFake returns a driver of one device with unified addressing.
func NewFake() *Fake {
	return &Fake{next: 1 << 40, Attributes: map[cu.DeviceAttribute]int32{
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

func (d *Fake) Init(uint32) error                       { return nil }
func (d *Fake) DriverGetVersion() (int32, error)        { return 13000, nil }
func (d *Fake) DeviceGetCount() (int32, error)          { return 1, nil }
func (d *Fake) DeviceGet(n int32) (cu.Device, error)    { return cu.Device(n), nil }
func (d *Fake) DeviceGetName(cu.Device) (string, error) { return "fake", nil }
func (d *Fake) DeviceGetAttribute(a cu.DeviceAttribute, _ cu.Device) (int32, error) {
	return d.Attributes[a], nil
}
func (d *Fake) DevicePrimaryCtxGetState(cu.Device) (cu.CtxFlags, int32, error) {
	return cu.CtxMapHost, 1, nil
}
func (d *Fake) DevicePrimaryCtxRetain(cu.Device) (cu.Context, error) { return 1, nil }
func (d *Fake) DevicePrimaryCtxRelease(cu.Device) error              { return nil }
func (d *Fake) CtxSynchronize(cu.Context) error                      { return nil }
func (d *Fake) MemAlloc(_ cu.Context, bytes uintptr) (cu.DevicePtr, error) {
	p := d.next
	d.next += cu.DevicePtr(bytes)
	return p, nil
}
func (d *Fake) MemFree(cu.Context, cu.DevicePtr) error { return nil }
func (d *Fake) MemHostAlloc(_ cu.Context, bytes uintptr, _ cu.MemHostAllocFlags) (cu.HostPtr, error) {
	b := make([]byte, bytes)
	fakeHost.Store(&b[0], b)
	return cu.HostPtr(&b[0]), nil
}
func (d *Fake) MemFreeHost(cu.Context, cu.HostPtr) error                   { return nil }
func (d *Fake) DeviceGetDefaultMemPool(cu.Device) (cu.MemPool, error)      { return 15, nil }
func (d *Fake) MemPoolCreate(*cu.MemPoolProps) (cu.MemPool, error)         { return 17, nil }
func (d *Fake) MemPoolDestroy(cu.MemPool) error                            { return nil }
func (d *Fake) MemPoolTrimTo(cu.MemPool, uintptr) error                    { return nil }
func (d *Fake) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) { return 7, nil }
func (d *Fake) StreamDestroy(cu.Context, cu.Stream) error                  { return nil }
func (d *Fake) StreamSynchronize(cu.Context, cu.Stream) error              { return nil }
func (d *Fake) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return nil
}
func (d *Fake) StreamWriteValue32(cu.Context, cu.Stream, cu.DevicePtr, uint32, cu.StreamWriteValueFlags) error {
	return nil
}
func (d *Fake) StreamWriteValue64(cu.Context, cu.Stream, cu.DevicePtr, uint64, cu.StreamWriteValueFlags) error {
	return nil
}
func (d *Fake) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) { return 9, nil }
func (d *Fake) EventRecord(cu.Context, cu.Event, cu.Stream) error       { return nil }
func (d *Fake) StreamQuery(cu.Context, cu.Stream) error                 { return nil }
func (d *Fake) EventQuery(cu.Context, cu.Event) error                   { return nil }
func (d *Fake) EventSynchronize(cu.Context, cu.Event) error             { return nil }
func (d *Fake) EventDestroy(cu.Context, cu.Event) error                 { return nil }
func (d *Fake) ModuleLoadData(cu.Context, []byte) (cu.Module, error)    { return 3, nil }
func (d *Fake) ModuleLoadDataEx(cu.Context, []byte, *cu.JITOptions) (cu.Module, string, error) {
	return 3, "", nil
}
func (d *Fake) ModuleUnload(cu.Context, cu.Module) error { return nil }
func (d *Fake) ModuleGetFunction(cu.Context, cu.Module, string) (cu.Function, error) {
	return 5, nil
}
func (d *Fake) FuncGetAttribute(_ cu.Context, a cu.FunctionAttribute, _ cu.Function) (int32, error) {
	if a == cu.FuncAttributeMaxThreadsPerBlock {
		return 1024, nil
	}
	return 0, nil
}
func (d *Fake) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return nil
}
func (d *Fake) MemcpyDtoHAsync(cu.Context, cu.HostPtr, cu.DevicePtr, uintptr, cu.Stream) error {
	return nil
}
func (d *Fake) LaunchKernel(cu.Context, cu.Function, cu.Dim3, cu.Dim3, uint32, cu.Stream, []byte) error {
	return nil
}
func (d *Fake) StreamBeginCapture(cu.Context, cu.Stream, cu.StreamCaptureMode) error {
	return nil
}
func (d *Fake) ThreadExchangeStreamCaptureMode(cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
	return cu.StreamCaptureModeGlobal, nil
}
func (d *Fake) StreamEndCapture(cu.Context, cu.Stream) (cu.Graph, error) { return 11, nil }
func (d *Fake) GraphInstantiate(cu.Context, cu.Graph, uint64) (cu.GraphExec, error) {
	return 13, nil
}
func (d *Fake) Submit(_ cu.Context, b *cu.Batch) (int, error)         { return b.Len(), nil }
func (d *Fake) GraphDestroy(cu.Graph) error                           { return nil }
func (d *Fake) GraphExecDestroy(cu.GraphExec) error                   { return nil }
func (d *Fake) GraphLaunch(cu.Context, cu.GraphExec, cu.Stream) error { return nil }

// BindThread implements cu.ThreadBinder.
func (*Fake) BindThread(cu.Context) (func() error, error) { return func() error { return nil }, nil }

// WithContext implements cu.ThreadBinder.
func (*Fake) WithContext(_ cu.Context, f func() error) error { return f() }

// PointerGetAttributes knows no memory.
func (*Fake) PointerGetAttributes(cu.Context, cu.DevicePtr) (cu.PointerAttributes, error) {
	return cu.PointerAttributes{Device: cu.InvalidDevice}, nil
}
