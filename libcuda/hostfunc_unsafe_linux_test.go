//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// driverThreads runs C functions as the driver does: in order, each on a thread that
// Go did not create.
type driverThreads struct {
	t        *testing.T
	lib      library
	mu       sync.Mutex
	launched [][2]uintptr // function and argument
}

func newDriverThreads(t *testing.T, f *fakeCUDA) *driverThreads {
	t.Helper()
	lib, err := openLibc()
	if err != nil {
		t.Fatal(err)
	}
	threads := &driverThreads{t: t, lib: lib}
	f.on("cuLaunchHostFunc", func(a []uintptr) cu.Result {
		threads.mu.Lock()
		defer threads.mu.Unlock()
		threads.launched = append(threads.launched, [2]uintptr{a[1], a[2]})
		return cu.Success
	})
	return threads
}

// run runs every function that was launched. With keep they stay launched, as in a
// graph.
func (d *driverThreads) run(keep bool) {
	d.t.Helper()
	d.mu.Lock()
	launched := d.launched
	if !keep {
		d.launched = nil
	}
	d.mu.Unlock()
	create, err := d.lib.symbol("pthread_create")
	if err != nil {
		d.t.Skip("libc.so.6 has no pthread_create: ", err)
	}
	join, err := d.lib.symbol("pthread_join")
	if err != nil {
		d.t.Skip("libc.so.6 has no pthread_join: ", err)
	}
	for _, l := range launched {
		var thread uintptr
		if r := syscallN(create, uintptr(unsafe.Pointer(&thread)), 0, l[0], l[1]); uint32(r) != 0 {
			d.t.Fatalf("pthread_create: %d", r)
		}
		syscallN(join, thread, 0)
	}
}

func pendingHostCalls() int {
	hostCalls.mu.Lock()
	defer hostCalls.mu.Unlock()
	return len(hostCalls.byID)
}

func TestHostFuncRunsOnce(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	before := pendingHostCalls()
	var order []int
	for i := range 5 {
		if err := d.LaunchHostFunc(1, 2, func() { order = append(order, i) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(order) != 0 || pendingHostCalls() != before+5 {
		t.Errorf("%d ran early, %d wait", len(order), pendingHostCalls()-before)
	}
	threads.run(true)
	if err := d.StreamSynchronize(1, 2); err != nil {
		t.Error(err)
	}
	if len(order) != 5 || order[0] != 0 || order[4] != 4 {
		t.Errorf("ran %d, want 0 to 4", order)
	}
	threads.run(false) // a second run must find no function
	if len(order) != 5 || pendingHostCalls() != before {
		t.Errorf("ran %d, %d still wait", order, pendingHostCalls()-before)
	}
}

func TestHostFuncLaunchFails(t *testing.T) {
	f, d := newFake(t)
	before := pendingHostCalls()
	f.on("cuLaunchHostFunc", func([]uintptr) cu.Result { return cu.ErrorInvalidHandle })
	if err := d.LaunchHostFunc(1, 2, func() {}); err != cu.ErrorInvalidHandle {
		t.Errorf("error %v, want the driver's", err)
	}
	f.on("cuStreamIsCapturing", func([]uintptr) cu.Result { return cu.ErrorStreamCaptureImplicit })
	if err := d.LaunchHostFunc(1, 0, func() {}); err != cu.ErrorStreamCaptureImplicit {
		t.Errorf("error %v, want the driver's", err)
	}
	if err := d.LaunchHostFunc(1, 2, nil); err != cu.ErrorInvalidValue {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_VALUE", err)
	}
	if n := pendingHostCalls() - before; n != 0 {
		t.Errorf("%d functions are kept that will never run", n)
	}
}

func TestHostFuncInGraphRunsAgain(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	f.on("cuStreamIsCapturing", func(a []uintptr) cu.Result {
		store(a[1], cu.StreamCaptureStatusActive)
		return cu.Success
	})
	runs := 0
	if err := d.LaunchHostFunc(1, 2, func() {
		if runs++; runs == 3 {
			panic("third run")
		}
	}); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 3; want++ {
		threads.run(true)
		if runs != want {
			t.Fatalf("ran %d times, want %d", runs, want)
		}
	}
	// The stream that the graph ran in is not known, so any stream of the context reports.
	if err := d.StreamSynchronize(9, 2); err != nil {
		t.Errorf("another context reports %v", err)
	}
	wantPanic(t, d.StreamQuery(1, 77), "third run")
	if err := d.CtxSynchronize(1); err != nil {
		t.Errorf("reported twice: %v", err)
	}
}

// wantPanic demands that err is one HostPanic with this value.
func wantPanic(t *testing.T, err error, value any) *cu.HostPanic {
	t.Helper()
	p, ok := errors.AsType[*cu.HostPanic](err)
	if !ok || p.Value != value {
		t.Fatalf("error %v, want a panic with %v", err, value)
	}
	return p
}

func TestHostFuncPanic(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	launch := func(stream cu.Stream, value any) {
		t.Helper()
		if err := d.LaunchHostFunc(1, stream, func() { panicInHostFunc(value) }); err != nil {
			t.Fatal(err)
		}
	}
	launch(2, io.ErrUnexpectedEOF)
	threads.run(false)
	if err := d.StreamSynchronize(1, 3); err != nil {
		t.Errorf("another stream reports %v", err)
	}
	f.on("cuStreamQuery", func([]uintptr) cu.Result { return cu.ErrorNotReady })
	if err := d.StreamQuery(1, 2); err != cu.ErrorNotReady {
		t.Errorf("error %v, want CUDA_ERROR_NOT_READY", err)
	}
	err := d.StreamSynchronize(1, 2)
	p := wantPanic(t, err, io.ErrUnexpectedEOF)
	if !strings.Contains(string(p.Stack), "panicInHostFunc") {
		t.Errorf("the stack does not show the function:\n%s", p.Stack)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, cu.ErrorUnknown) {
		t.Errorf("error %v wraps neither the value nor a result", err)
	}
	if err := d.StreamSynchronize(1, 2); err != nil {
		t.Errorf("reported twice: %v", err)
	}

	launch(0, "default stream") // the wait has its other name
	threads.run(false)
	wantPanic(t, d.StreamSynchronize(1, cu.StreamLegacy), "default stream")

	launch(4, "first")
	launch(4, "second")
	threads.run(false)
	f.on("cuCtxSynchronize", func([]uintptr) cu.Result { return cu.ErrorIllegalAddress })
	err = d.CtxSynchronize(1)
	if !errors.Is(err, cu.ErrorIllegalAddress) || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "second") {
		t.Errorf("error %v, want the result and both panics", err)
	}
	if d.panics.waiting.Load() != 0 {
		t.Errorf("%d panics are left", d.panics.waiting.Load())
	}
}

func panicInHostFunc(value any) { panic(value) }

// TestHostFuncPanicOfDestroyedStream checks that a new stream with the same handle does
// not report the panic.
func TestHostFuncPanicOfDestroyedStream(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	for _, when := range []string{"before", "after"} {
		if err := d.LaunchHostFunc(1, 2, func() { panic(when) }); err != nil {
			t.Fatal(err)
		}
		if when == "before" {
			threads.run(false)
		}
		if err := d.StreamDestroy(1, 2); err != nil {
			t.Fatal(err)
		}
		threads.run(false)
		if err := d.LaunchHostFunc(1, 2, func() {}); err != nil {
			t.Fatal(err)
		}
		threads.run(false)
		if err := d.StreamSynchronize(1, 2); err != nil {
			t.Errorf("%s: the new stream reports %v", when, err)
		}
		wantPanic(t, d.CtxSynchronize(1), when)
	}
}

// TestHostFuncPanicOfDestroyedContext checks that CtxDestroy reports the panic once.
func TestHostFuncPanicOfDestroyedContext(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	if err := d.LaunchHostFunc(1, 2, func() { panic("late") }); err != nil {
		t.Fatal(err)
	}
	threads.run(false)
	f.on("cuCtxDestroy", func([]uintptr) cu.Result { return cu.ErrorContextIsDestroyed })
	if err := d.CtxDestroy(1); err != cu.ErrorContextIsDestroyed {
		t.Errorf("error %v, want the driver's alone", err)
	}
	f.on("cuCtxDestroy", func([]uintptr) cu.Result { return cu.Success })
	wantPanic(t, d.CtxDestroy(1), "late")
	if len(d.panics.lists) != 0 || d.panics.waiting.Load() != 0 {
		t.Errorf("%d streams of a destroyed context are kept", len(d.panics.lists))
	}
}

// TestDriverCallInHostFunc checks that calls by a host function are refused, and calls
// by others at the same time are not.
func TestDriverCallInHostFunc(t *testing.T) {
	f, d := newFake(t)
	threads := newDriverThreads(t, f)
	var bound, unbound, launch, elsewhere error
	if err := d.LaunchHostFunc(1, 2, func() {
		bound = d.EventRecord(1, 3, 2)
		_, unbound = d.DeviceGetCount()
		launch = d.LaunchHostFunc(1, 2, func() {})
		done := make(chan error)
		go func() { done <- d.EventRecord(1, 4, 2) }()
		select {
		case elsewhere = <-done:
		case <-time.After(10 * time.Second):
			elsewhere = errors.New("no answer")
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.take()
	threads.run(false)
	for _, c := range []struct {
		err  error
		name string
	}{{bound, "cuEventRecord"}, {unbound, "cuDeviceGetCount"}, {launch, "cuLaunchHostFunc"}} {
		if !errors.Is(c.err, cu.ErrorNotPermitted) || !strings.Contains(c.err.Error(), c.name) {
			t.Errorf("error %v, want CUDA_ERROR_NOT_PERMITTED that names %s", c.err, c.name)
		}
	}
	if elsewhere != nil {
		t.Errorf("another goroutine's call: %v", elsewhere)
	}
	var recorded []uintptr
	for _, c := range f.take() {
		if c.symbol == "cuEventRecord" {
			recorded = append(recorded, c.args[0])
		}
	}
	if len(recorded) != 1 || recorded[0] != 4 {
		t.Errorf("events %d reached the driver, want only 4", recorded)
	}
	if err := d.EventRecord(1, 3, 2); err != nil {
		t.Errorf("refused after the function has returned: %v", err)
	}
}
