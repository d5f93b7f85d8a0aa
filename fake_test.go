package ferry_test

import (
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// fakeDriver does nothing and returns no errors, so that only Ferry's own allocations and
// calls are counted. Calls that it lacks are those of a nil interface.
type fakeDriver struct {
	cu.Driver
	attributes map[cu.DeviceAttribute]int32
	next       cu.DevicePtr
}

// fakeHost keeps page-locked memory that a test leaks, as a driver does.
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
func (d *fakeDriver) DeviceGetDefaultMemPool(cu.Device) (cu.MemPool, error)      { return 15, nil }
func (d *fakeDriver) MemPoolCreate(*cu.MemPoolProps) (cu.MemPool, error)         { return 17, nil }
func (d *fakeDriver) MemPoolDestroy(cu.MemPool) error                            { return nil }
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

// exclusiveDriver has managed memory that the host may not touch while the device works:
// it has no concurrent managed access. It counts waits for streams.
type exclusiveDriver struct {
	*fakeDriver
	waits   int
	streams cu.Stream
}

func newExclusiveDriver() *exclusiveDriver {
	d := &exclusiveDriver{fakeDriver: newFake()}
	d.attributes[cu.DeviceAttributeManagedMemory] = 1
	return d
}

func (d *exclusiveDriver) MemAllocManaged(cu.Context, uintptr, cu.MemAttachFlags) (cu.DevicePtr, error) {
	p, err := d.MemHostAlloc(1, 64, 0)
	return deviceAddress(p), err
}
func (d *exclusiveDriver) StreamAttachMemAsync(cu.Context, cu.Stream, cu.DevicePtr, uintptr, cu.MemAttachFlags) error {
	return nil
}
func (d *exclusiveDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.streams++
	return d.streams, nil
}
func (d *exclusiveDriver) StreamSynchronize(cu.Context, cu.Stream) error {
	d.waits++
	return nil
}

// registerDriver counts the registrations of another driver, and can refuse them.
type registerDriver struct {
	cu.Driver
	below  uintptr             // registrations of this size or more are not counted; 0 counts all
	refuse func(now int) error // if not nil: the result for a registration while there are now others

	mu        sync.Mutex
	now, most int
	uncounted map[cu.HostPtr]bool
}

func (d *registerDriver) Unwrap() cu.Driver { return d.Driver }

func (d *registerDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, flags cu.MemHostRegisterFlags) error {
	counted := d.below == 0 || n < d.below
	if counted && d.refuse != nil {
		if err := d.refuse(d.count()); err != nil {
			return err
		}
	}
	err := d.Driver.MemHostRegister(ctx, p, n, flags)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if counted {
		d.now++
		d.most = max(d.most, d.now)
	} else {
		d.uncounted[p] = true
	}
	return nil
}

func (d *registerDriver) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemHostUnregister(ctx, p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !d.uncounted[p] {
		d.now--
	}
	return err
}

// count returns how many registrations there are.
func (d *registerDriver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// wantRegistrations checks how many registrations there are.
func wantRegistrations(t *testing.T, d *registerDriver, want int) {
	t.Helper()
	if got := d.count(); got != want {
		t.Errorf("there are %d registrations, want %d", got, want)
	}
}

// countRegistrations wraps a driver. The slots of the staging ring are larger than what
// these tests register, and not counted.
func countRegistrations(d cu.Driver) *registerDriver {
	return &registerDriver{Driver: d, below: 1 << 20, uncounted: map[cu.HostPtr]bool{}}
}
