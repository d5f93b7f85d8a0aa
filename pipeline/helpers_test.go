package pipeline_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// timeout is longer than anything that a test waits for takes.
const timeout = 30 * time.Second

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With
// FERRY_REQUIRE_GPU=1 it is a real GPU or a failure.
func openTest(t testing.TB) *ferry.GPU {
	t.Helper()
	name := os.Getenv(ferry.DeviceVariable)
	switch {
	case os.Getenv("FERRY_REQUIRE_GPU") == "1":
		name = "cuda"
	case name == "":
		name = "soft"
	}
	g, err := ferry.Open(name)
	return closeLater(t, must(g, err)(t))
}

// openSoft opens a software GPU of a profile and a schedule.
func openSoft(t testing.TB, name string, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	return openDriver(t, softDriver(t, name, schedule))
}

// openDriver opens the first device of a driver.
func openDriver(t testing.TB, d cu.Driver) *ferry.GPU {
	t.Helper()
	return closeLater(t, must(ferry.OpenDriver(d, 0))(t))
}

func closeLater(t testing.TB, g *ferry.GPU) *ferry.GPU {
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openTimed opens a software GPU for tests that compare times. It has the eager schedule,
// whatever the environment says.
func openTimed(t testing.TB, name string) *ferry.GPU {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, softgpu.Eager.String())
	return openSoft(t, name, softgpu.Eager)
}

func softDriver(t testing.TB, name string, schedule softgpu.Schedule) cu.Driver {
	t.Helper()
	p := must(profile.Named(name))(t)
	return must(softgpu.Open(softgpu.Options{Profile: p, Devices: 1, Schedule: schedule}))(t)
}

// must returns v, or ends the test for an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// check ends the test for an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// last returns the error of two results.
func last[T any](_ T, err error) error { return err }

// closeAll closes things in this order.
func closeAll(t testing.TB, things ...interface{ Close() error }) {
	t.Helper()
	for _, c := range things {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// wantError checks that err wraps is, and that its text has all parts.
func wantError(t testing.TB, err, is error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", is)
		return
	}
	if !errors.Is(err, is) {
		t.Errorf("got %q, which does not wrap %v", err, is)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got %q, want %q in it", err, p)
		}
	}
}

// fakeDriver does nothing and returns no errors, so that only Ferry's own allocations are
// counted. Calls that it lacks are those of a nil interface.
type fakeDriver struct {
	cu.Driver
	next cu.DevicePtr
	host [][]byte // page-locked memory, kept for the garbage collector
}

func newFake() *fakeDriver { return &fakeDriver{next: 1 << 40} }

func (d *fakeDriver) Init(uint32) error                       { return nil }
func (d *fakeDriver) DriverGetVersion() (int32, error)        { return 13000, nil }
func (d *fakeDriver) DeviceGetCount() (int32, error)          { return 1, nil }
func (d *fakeDriver) DeviceGet(n int32) (cu.Device, error)    { return cu.Device(n), nil }
func (d *fakeDriver) DeviceGetName(cu.Device) (string, error) { return "fake", nil }
func (d *fakeDriver) DeviceGetAttribute(a cu.DeviceAttribute, _ cu.Device) (int32, error) {
	switch a {
	case cu.DeviceAttributeUnifiedAddressing, cu.DeviceAttributeCanMapHostMemory, cu.DeviceAttributeHostRegisterSupported:
		return 1, nil
	}
	return 0, nil
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
	d.host = append(d.host, b)
	return cu.HostPtr(&b[0]), nil
}
func (d *fakeDriver) MemFreeHost(cu.Context, cu.HostPtr) error                   { return nil }
func (d *fakeDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) { return 7, nil }
func (d *fakeDriver) StreamDestroy(cu.Context, cu.Stream) error                  { return nil }
func (d *fakeDriver) StreamSynchronize(cu.Context, cu.Stream) error              { return nil }
func (d *fakeDriver) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return nil
}
func (d *fakeDriver) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) { return 9, nil }
func (d *fakeDriver) EventRecord(cu.Context, cu.Event, cu.Stream) error       { return nil }
func (d *fakeDriver) EventQuery(cu.Context, cu.Event) error                   { return nil }
func (d *fakeDriver) EventSynchronize(cu.Context, cu.Event) error             { return nil }
func (d *fakeDriver) EventDestroy(cu.Context, cu.Event) error                 { return nil }
func (d *fakeDriver) ModuleLoadData(cu.Context, []byte) (cu.Module, error)    { return 3, nil }
func (d *fakeDriver) ModuleUnload(cu.Context, cu.Module) error                { return nil }
func (d *fakeDriver) ModuleGetFunction(cu.Context, cu.Module, string) (cu.Function, error) {
	return 5, nil
}
func (d *fakeDriver) FuncGetAttribute(cu.Context, cu.FunctionAttribute, cu.Function) (int32, error) {
	return 0, nil
}
func (d *fakeDriver) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return nil
}
func (d *fakeDriver) MemcpyDtoHAsync(cu.Context, cu.HostPtr, cu.DevicePtr, uintptr, cu.Stream) error {
	return nil
}
