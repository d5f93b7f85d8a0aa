package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// hookDriver runs functions of a test within calls of another driver. So the test can close
// things while an operation is in progress. It counts the calls by name.
type hookDriver struct {
	cu.Driver
	mu    sync.Mutex
	hooks map[string]func() error
	calls map[string]int
	late  []string // calls after the release of the context
}

func newHookDriver(d cu.Driver) *hookDriver {
	return &hookDriver{Driver: d, hooks: map[string]func() error{}, calls: map[string]int{}}
}

// softHooks opens a software GPU with a hookDriver.
func softHooks(t *testing.T) (*hookDriver, *ferry.GPU) {
	t.Helper()
	d := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
	return d, openDriver(t, d)
}

// during runs f once, at the start of the next call with a name. If f returns an error, the
// call returns it and does nothing else.
func (d *hookDriver) during(call string, f func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hooks[call] = f
}

// count returns how many calls with a name there were.
func (d *hookDriver) count(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

// begin starts a call.
func (d *hookDriver) begin(call string) error {
	d.mu.Lock()
	if d.calls["DevicePrimaryCtxRelease"] > 0 {
		d.late = append(d.late, call)
	}
	d.calls[call]++
	f := d.hooks[call]
	delete(d.hooks, call)
	d.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// wantReleased checks that the context is released, once, and that no call came after that.
func (d *hookDriver) wantReleased(t *testing.T, what string) {
	t.Helper()
	if _, active, err := d.DevicePrimaryCtxGetState(0); err != nil || active != 0 {
		t.Errorf("%s: the context is still retained (%v)", what, err)
	}
	if n := d.count("DevicePrimaryCtxRelease"); n != 1 {
		t.Errorf("%s: the context was released %d times, want once", what, n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.late) > 0 {
		t.Errorf("%s: calls after the release of the context: %v", what, d.late)
	}
	for call := range d.hooks {
		t.Errorf("%s: no call of %s was made: the test is void", what, call)
	}
}

func (d *hookDriver) Unwrap() cu.Driver { return d.Driver }

func (d *hookDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if err := d.begin("MemcpyHtoDAsync"); err != nil {
		return err
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *hookDriver) MemsetD8Async(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr, s cu.Stream) error {
	if err := d.begin("MemsetD8Async"); err != nil {
		return err
	}
	return d.Driver.MemsetD8Async(ctx, dst, value, n, s)
}

func (d *hookDriver) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	if err := d.begin("EventCreate"); err != nil {
		return 0, err
	}
	return d.Driver.EventCreate(ctx, flags)
}

func (d *hookDriver) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if err := d.begin("EventRecord"); err != nil {
		return err
	}
	return d.Driver.EventRecord(ctx, e, s)
}

func (d *hookDriver) EventDestroy(ctx cu.Context, e cu.Event) error {
	if err := d.begin("EventDestroy"); err != nil {
		return err
	}
	return d.Driver.EventDestroy(ctx, e)
}

func (d *hookDriver) StreamWaitEvent(ctx cu.Context, s cu.Stream, e cu.Event, flags cu.EventWaitFlags) error {
	if err := d.begin("StreamWaitEvent"); err != nil {
		return err
	}
	return d.Driver.StreamWaitEvent(ctx, s, e, flags)
}

func (d *hookDriver) StreamBeginCapture(ctx cu.Context, s cu.Stream, mode cu.StreamCaptureMode) error {
	if err := d.begin("StreamBeginCapture"); err != nil {
		return err
	}
	return d.Driver.StreamBeginCapture(ctx, s, mode)
}

func (d *hookDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if err := d.begin("StreamSynchronize"); err != nil {
		return err
	}
	return d.Driver.StreamSynchronize(ctx, s)
}

func (d *hookDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if err := d.begin("StreamQuery"); err != nil {
		return err
	}
	return d.Driver.StreamQuery(ctx, s)
}

func (d *hookDriver) StreamDestroy(ctx cu.Context, s cu.Stream) error {
	if err := d.begin("StreamDestroy"); err != nil {
		return err
	}
	return d.Driver.StreamDestroy(ctx, s)
}

func (d *hookDriver) CtxSynchronize(ctx cu.Context) error {
	if err := d.begin("CtxSynchronize"); err != nil {
		return err
	}
	return d.Driver.CtxSynchronize(ctx)
}

func (d *hookDriver) DevicePrimaryCtxRelease(device cu.Device) error {
	if err := d.begin("DevicePrimaryCtxRelease"); err != nil {
		return err
	}
	return d.Driver.DevicePrimaryCtxRelease(device)
}

func (d *hookDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if err := d.begin("Submit"); err != nil {
		return 0, err
	}
	return d.Driver.Submit(ctx, b)
}

func (d *hookDriver) GraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
	if err := d.begin("GraphLaunch"); err != nil {
		return err
	}
	return d.Driver.GraphLaunch(ctx, x, s)
}

func (d *hookDriver) GraphExecDestroy(x cu.GraphExec) error {
	if err := d.begin("GraphExecDestroy"); err != nil {
		return err
	}
	return d.Driver.GraphExecDestroy(x)
}

func (d *hookDriver) MemAllocAsync(ctx cu.Context, n uintptr, s cu.Stream) (cu.DevicePtr, error) {
	if err := d.begin("MemAllocAsync"); err != nil {
		return 0, err
	}
	return d.Driver.MemAllocAsync(ctx, n, s)
}

func (d *hookDriver) MemAllocFromPoolAsync(ctx cu.Context, n uintptr, p cu.MemPool, s cu.Stream) (cu.DevicePtr, error) {
	if err := d.begin("MemAllocFromPoolAsync"); err != nil {
		return 0, err
	}
	return d.Driver.MemAllocFromPoolAsync(ctx, n, p, s)
}

func (d *hookDriver) MemPoolDestroy(p cu.MemPool) error {
	if err := d.begin("MemPoolDestroy"); err != nil {
		return err
	}
	return d.Driver.MemPoolDestroy(p)
}

func (d *hookDriver) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	if err := d.begin("MemFree"); err != nil {
		return err
	}
	return d.Driver.MemFree(ctx, p)
}

func (d *hookDriver) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	if err := d.begin("MemFreeHost"); err != nil {
		return err
	}
	return d.Driver.MemFreeHost(ctx, p)
}

func (d *hookDriver) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	if err := d.begin("MemHostUnregister"); err != nil {
		return err
	}
	return d.Driver.MemHostUnregister(ctx, p)
}

func (d *hookDriver) LinkDestroy(ctx cu.Context, link cu.LinkState) error {
	if err := d.begin("LinkDestroy"); err != nil {
		return err
	}
	return d.Driver.LinkDestroy(ctx, link)
}

func (d *hookDriver) ModuleUnload(ctx cu.Context, m cu.Module) error {
	if err := d.begin("ModuleUnload"); err != nil {
		return err
	}
	return d.Driver.ModuleUnload(ctx, m)
}

// EventSynchronize runs a function of the test at its end.
func (d *hookDriver) EventSynchronize(ctx cu.Context, e cu.Event) error {
	return errors.Join(d.Driver.EventSynchronize(ctx, e), d.begin("EventSynchronize"))
}

// fakeDriver does nothing and returns no errors.
type fakeDriver = gputest.Fake

func newFake() *fakeDriver { return gputest.NewFake() }

// exclusiveDriver has managed memory that the host may not touch while the device works:
// it has no concurrent managed access. It counts waits for streams.
type exclusiveDriver struct {
	*fakeDriver
	waits   int
	streams cu.Stream
}

func newExclusiveDriver() *exclusiveDriver {
	d := &exclusiveDriver{fakeDriver: newFake()}
	d.Attributes[cu.DeviceAttributeManagedMemory] = 1
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
func (d *exclusiveDriver) StreamQuery(cu.Context, cu.Stream) error {
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

// pinningDriver counts what a driver has registered, and how often it released a context.
type pinningDriver struct {
	cu.Driver
	registered, released atomic.Int64
	onRegister           atomic.Pointer[context.CancelFunc] // called after each registration
}

func (d *pinningDriver) Unwrap() cu.Driver { return d.Driver }

func (d *pinningDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error {
	err := d.Driver.MemHostRegister(ctx, p, bytes, flags)
	if err == nil {
		d.registered.Add(1)
	}
	if cancel := d.onRegister.Load(); cancel != nil {
		(*cancel)()
	}
	return err
}

func (d *pinningDriver) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemHostUnregister(ctx, p)
	if err == nil {
		d.registered.Add(-1)
	}
	return err
}

func (d *pinningDriver) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.released.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}
