package cutest

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// brokenDriver is a driver with one error. A function that is not nil replaces the
// method of the driver.
type brokenDriver struct {
	cu.Driver
	memAlloc        func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, error)
	memFree         func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) error
	memcpyDtoH      func(d cu.Driver, ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr) error
	memcpyHtoDAsync func(d cu.Driver, ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error
	memcpy2D        func(d cu.Driver, ctx cu.Context, p *cu.Memcpy2D) error
	memsetD8        func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, v uint8, n uintptr) error
	hostGetFlags    func(d cu.Driver, ctx cu.Context, p cu.HostPtr) (cu.MemHostAllocFlags, error)
	hostAlloc       func(d cu.Driver, ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error)
	register        func(d cu.Driver, ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error
	attributes      func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error)
	prefetch        func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, n uintptr, dev cu.Device, s cu.Stream) error
	streamCreate    func(d cu.Driver, ctx cu.Context, f cu.StreamFlags) (cu.Stream, error)
	streamSync      func(d cu.Driver, ctx cu.Context, s cu.Stream) error
	streamQuery     func(d cu.Driver, ctx cu.Context, s cu.Stream) error
	streamDestroy   func(d cu.Driver, ctx cu.Context, s cu.Stream) error
	waitEvent       func(d cu.Driver, ctx cu.Context, s cu.Stream, e cu.Event, f cu.EventWaitFlags) error
	waitValue       func(d cu.Driver, ctx cu.Context, s cu.Stream, p cu.DevicePtr, v uint32, f cu.StreamWaitValueFlags) error
	hostFunc        func(d cu.Driver, ctx cu.Context, s cu.Stream, fn func()) error
	eventQuery      func(d cu.Driver, ctx cu.Context, e cu.Event) error
	elapsed         func(d cu.Driver, ctx cu.Context, a, b cu.Event) (float32, error)
	launch          func(d cu.Driver, ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error
	graphLaunch     func(d cu.Driver, ctx cu.Context, x cu.GraphExec, s cu.Stream) error
	memFreeAsync    func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, s cu.Stream) error
	exchangeMode    func(d cu.Driver, mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error)
}

// Unwrap returns the correct driver.
func (w *brokenDriver) Unwrap() cu.Driver { return w.Driver }

func (w *brokenDriver) MemAlloc(ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
	if w.memAlloc != nil {
		return w.memAlloc(w.Driver, ctx, n)
	}
	return w.Driver.MemAlloc(ctx, n)
}

func (w *brokenDriver) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	if w.memFree != nil {
		return w.memFree(w.Driver, ctx, p)
	}
	return w.Driver.MemFree(ctx, p)
}

func (w *brokenDriver) ThreadExchangeStreamCaptureMode(mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
	if w.exchangeMode != nil {
		return w.exchangeMode(w.Driver, mode)
	}
	return w.Driver.ThreadExchangeStreamCaptureMode(mode)
}

func (w *brokenDriver) MemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) error {
	if w.memFreeAsync != nil {
		return w.memFreeAsync(w.Driver, ctx, p, s)
	}
	return w.Driver.MemFreeAsync(ctx, p, s)
}

func (w *brokenDriver) MemcpyDtoH(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr) error {
	if w.memcpyDtoH != nil {
		return w.memcpyDtoH(w.Driver, ctx, dst, src, n)
	}
	return w.Driver.MemcpyDtoH(ctx, dst, src, n)
}

func (w *brokenDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if w.memcpyHtoDAsync != nil {
		return w.memcpyHtoDAsync(w.Driver, ctx, dst, src, n, s)
	}
	return w.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (w *brokenDriver) Memcpy2D(ctx cu.Context, p *cu.Memcpy2D) error {
	if w.memcpy2D != nil {
		return w.memcpy2D(w.Driver, ctx, p)
	}
	return w.Driver.Memcpy2D(ctx, p)
}

func (w *brokenDriver) MemsetD8(ctx cu.Context, p cu.DevicePtr, v uint8, n uintptr) error {
	if w.memsetD8 != nil {
		return w.memsetD8(w.Driver, ctx, p, v, n)
	}
	return w.Driver.MemsetD8(ctx, p, v, n)
}

func (w *brokenDriver) MemHostGetFlags(ctx cu.Context, p cu.HostPtr) (cu.MemHostAllocFlags, error) {
	if w.hostGetFlags != nil {
		return w.hostGetFlags(w.Driver, ctx, p)
	}
	return w.Driver.MemHostGetFlags(ctx, p)
}

func (w *brokenDriver) MemHostAlloc(ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
	if w.hostAlloc != nil {
		return w.hostAlloc(w.Driver, ctx, n, f)
	}
	return w.Driver.MemHostAlloc(ctx, n, f)
}

func (w *brokenDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error {
	if w.register != nil {
		return w.register(w.Driver, ctx, p, n, f)
	}
	return w.Driver.MemHostRegister(ctx, p, n, f)
}

func (w *brokenDriver) PointerGetAttributes(ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error) {
	if w.attributes != nil {
		return w.attributes(w.Driver, ctx, p)
	}
	return w.Driver.PointerGetAttributes(ctx, p)
}

func (w *brokenDriver) MemPrefetchAsync(ctx cu.Context, p cu.DevicePtr, n uintptr, dev cu.Device, s cu.Stream) error {
	if w.prefetch != nil {
		return w.prefetch(w.Driver, ctx, p, n, dev, s)
	}
	return w.Driver.MemPrefetchAsync(ctx, p, n, dev, s)
}

func (w *brokenDriver) StreamCreate(ctx cu.Context, f cu.StreamFlags) (cu.Stream, error) {
	if w.streamCreate != nil {
		return w.streamCreate(w.Driver, ctx, f)
	}
	return w.Driver.StreamCreate(ctx, f)
}

func (w *brokenDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if w.streamSync != nil {
		return w.streamSync(w.Driver, ctx, s)
	}
	return w.Driver.StreamSynchronize(ctx, s)
}

func (w *brokenDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if w.streamQuery != nil {
		return w.streamQuery(w.Driver, ctx, s)
	}
	return w.Driver.StreamQuery(ctx, s)
}

func (w *brokenDriver) StreamDestroy(ctx cu.Context, s cu.Stream) error {
	if w.streamDestroy != nil {
		return w.streamDestroy(w.Driver, ctx, s)
	}
	return w.Driver.StreamDestroy(ctx, s)
}

func (w *brokenDriver) StreamWaitEvent(ctx cu.Context, s cu.Stream, e cu.Event, f cu.EventWaitFlags) error {
	if w.waitEvent != nil {
		return w.waitEvent(w.Driver, ctx, s, e, f)
	}
	return w.Driver.StreamWaitEvent(ctx, s, e, f)
}

func (w *brokenDriver) StreamWaitValue32(ctx cu.Context, s cu.Stream, p cu.DevicePtr, v uint32, f cu.StreamWaitValueFlags) error {
	if w.waitValue != nil {
		return w.waitValue(w.Driver, ctx, s, p, v, f)
	}
	return w.Driver.StreamWaitValue32(ctx, s, p, v, f)
}

func (w *brokenDriver) LaunchHostFunc(ctx cu.Context, s cu.Stream, fn func()) error {
	if w.hostFunc != nil {
		return w.hostFunc(w.Driver, ctx, s, fn)
	}
	return w.Driver.LaunchHostFunc(ctx, s, fn)
}

func (w *brokenDriver) EventQuery(ctx cu.Context, e cu.Event) error {
	if w.eventQuery != nil {
		return w.eventQuery(w.Driver, ctx, e)
	}
	return w.Driver.EventQuery(ctx, e)
}

func (w *brokenDriver) EventElapsedTime(ctx cu.Context, a, b cu.Event) (float32, error) {
	if w.elapsed != nil {
		return w.elapsed(w.Driver, ctx, a, b)
	}
	return w.Driver.EventElapsedTime(ctx, a, b)
}

func (w *brokenDriver) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error {
	if w.launch != nil {
		return w.launch(w.Driver, ctx, f, grid, block, shared, s, params)
	}
	return w.Driver.LaunchKernel(ctx, f, grid, block, shared, s, params)
}

func (w *brokenDriver) GraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
	if w.graphLaunch != nil {
		return w.graphLaunch(w.Driver, ctx, x, s)
	}
	return w.Driver.GraphLaunch(ctx, x, s)
}

// brokenDrivers lists drivers with one error each, and a case that must fail on it.
var brokenDrivers = []struct {
	name   string
	id     string // of the case that must fail
	driver brokenDriver
}{
	{"a wait that does not wait", "stream/synchronize", brokenDriver{
		streamSync: func(cu.Driver, cu.Context, cu.Stream) error { return nil }}},
	{"a wait that never ends", "stream/synchronize-one", brokenDriver{
		streamSync: func(d cu.Driver, ctx cu.Context, _ cu.Stream) error { return d.CtxSynchronize(ctx) }}},
	{"a query that is always ready", "stream/query", brokenDriver{
		streamQuery: func(cu.Driver, cu.Context, cu.Stream) error { return nil }}},
	{"an event that is always ready", "event/query", brokenDriver{
		eventQuery: func(cu.Driver, cu.Context, cu.Event) error { return nil }}},
	{"a time that is never negative", "event/elapsed-adds-up", brokenDriver{
		elapsed: func(d cu.Driver, ctx cu.Context, a, b cu.Event) (float32, error) {
			ms, err := d.EventElapsedTime(ctx, a, b)
			return max(ms, -ms), err
		}}},
	{"a wait for an event that does nothing", "stream/wait-event", brokenDriver{
		waitEvent: func(cu.Driver, cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error { return nil }}},
	{"a wait for a value that waits for nothing", "valuewait/other-stream", brokenDriver{
		waitValue: func(cu.Driver, cu.Context, cu.Stream, cu.DevicePtr, uint32, cu.StreamWaitValueFlags) error {
			return nil
		}}},
	{"a wait that flushes where it cannot", "valuewait/flush-attribute", brokenDriver{
		waitValue: func(d cu.Driver, ctx cu.Context, s cu.Stream, p cu.DevicePtr, v uint32, f cu.StreamWaitValueFlags) error {
			return d.StreamWaitValue32(ctx, s, p, v, f&^cu.StreamWaitValueFlush)
		}}},
	{"a wait for too small a value", "valuewait/capture", brokenDriver{
		waitValue: func(d cu.Driver, ctx cu.Context, s cu.Stream, p cu.DevicePtr, v uint32, f cu.StreamWaitValueFlags) error {
			return d.StreamWaitValue32(ctx, s, p, v-100, f)
		}}},
	{"a destroy that waits", "stream/destroy-busy", brokenDriver{
		streamDestroy: func(d cu.Driver, ctx cu.Context, s cu.Stream) error {
			_ = d.StreamSynchronize(ctx, s)
			return d.StreamDestroy(ctx, s)
		}}},
	{"blocking streams that do not block", "default/blocking-waits-for-legacy", brokenDriver{
		streamCreate: func(d cu.Driver, ctx cu.Context, _ cu.StreamFlags) (cu.Stream, error) {
			return d.StreamCreate(ctx, cu.StreamNonBlocking)
		}}},
	{"non-blocking streams that block", "default/non-blocking-free-of-legacy", brokenDriver{
		streamCreate: func(d cu.Driver, ctx cu.Context, _ cu.StreamFlags) (cu.Stream, error) {
			return d.StreamCreate(ctx, cu.StreamDefault)
		}}},
	{"a copy that loses its last byte", "copy/every-size", brokenDriver{
		memcpyDtoH: func(d cu.Driver, ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr) error {
			return d.MemcpyDtoH(ctx, dst, src, n-1)
		}}},
	{"a copy that waits", "async/page-locked-copies", brokenDriver{
		memcpyHtoDAsync: func(d cu.Driver, ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
			err := d.MemcpyHtoDAsync(ctx, dst, src, n, s)
			_ = d.StreamSynchronize(ctx, s)
			return err
		}}},
	{"launches that ignore their stream", "async/destination-written-late", brokenDriver{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, _ cu.Stream, p []byte) error {
			return d.LaunchKernel(ctx, f, g, b, m, cu.StreamLegacy, p)
		}}},
	{"a 2D copy without its last row", "copy2d/rectangles", brokenDriver{
		memcpy2D: func(d cu.Driver, ctx cu.Context, p *cu.Memcpy2D) error {
			q := *p
			q.Height--
			return d.Memcpy2D(ctx, &q)
		}}},
	{"a fill of one byte too many", "memset/device", brokenDriver{
		memsetD8: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, v uint8, n uintptr) error {
			return d.MemsetD8(ctx, p, v, n+1)
		}}},
	{"flags that read back as zero", "pinned/flags-read-back", brokenDriver{
		hostGetFlags: func(cu.Driver, cu.Context, cu.HostPtr) (cu.MemHostAllocFlags, error) { return 0, nil }}},
	{"memory for zero bytes", "pinned/zero-bytes", brokenDriver{
		hostAlloc: func(d cu.Driver, ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
			return d.MemHostAlloc(ctx, max(n, 1), f)
		}}},
	{"overlaps that are allowed", "register/twice", brokenDriver{
		register: func(d cu.Driver, ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error {
			if err := d.MemHostRegister(ctx, p, n, f); !isCode(err, cu.ErrorHostMemoryAlreadyRegistered) {
				return err
			}
			return nil
		}}},
	{"attributes without an extent", "pointer/interior", brokenDriver{
		attributes: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error) {
			a, err := d.PointerGetAttributes(ctx, p)
			a.RangeStart = p
			return a, err
		}}},
	{"a free that returns no error", "memory/free-misuse", brokenDriver{
		memFree: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) error { _ = d.MemFree(ctx, p); return nil }}},
	{"memory that is not aligned", "memory/alignment", brokenDriver{
		memAlloc: func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
			p, err := d.MemAlloc(ctx, n+64)
			return p + 64, err
		},
		memFree: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) error { return d.MemFree(ctx, p-64) }}},
	{"a prefetch that does nothing", "managed/prefetch", brokenDriver{
		prefetch: func(cu.Driver, cu.Context, cu.DevicePtr, uintptr, cu.Device, cu.Stream) error { return nil }}},
	{"a stream's free that does nothing", "pool/counters", brokenDriver{
		memFreeAsync: func(cu.Driver, cu.Context, cu.DevicePtr, cu.Stream) error { return nil }}},
	{"a host function that runs at once", "hostfunc/order", brokenDriver{
		hostFunc: func(_ cu.Driver, _ cu.Context, _ cu.Stream, fn func()) error { fn(); return nil }}},
	{"a host function that the stream does not wait for", "hostfunc/blocks-what-follows", brokenDriver{
		hostFunc: func(_ cu.Driver, _ cu.Context, _ cu.Stream, fn func()) error { go fn(); return nil }}},
	{"a graph that runs twice", "capture/records-and-does-not-run", brokenDriver{
		graphLaunch: func(d cu.Driver, ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
			_ = d.GraphLaunch(ctx, x, s)
			return d.GraphLaunch(ctx, x, s)
		}}},
	{"an exchange that returns the new mode", "capture/mode-exchange", brokenDriver{
		exchangeMode: func(d cu.Driver, mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
			_, err := d.ThreadExchangeStreamCaptureMode(mode)
			return mode, err
		}}},
	{"a capture mode that all threads share", "capture/mode-of-each-thread", brokenDriver{exchangeMode: sharedCaptureMode()}},
	{"a capture mode without effect", "capture/mode-relaxed", brokenDriver{
		exchangeMode: func(d cu.Driver, mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error) { return mode, nil }}},
	{"a launch that accepts any block", "launch/block-too-large", brokenDriver{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, s cu.Stream, p []byte) error {
			if err := d.LaunchKernel(ctx, f, g, b, m, s, p); !isCode(err, cu.ErrorInvalidValue) {
				return err
			}
			return nil
		}}},
	{"a launch that loses a block", "launch/every-thread-once", brokenDriver{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, s cu.Stream, p []byte) error {
			if g.X > 1 {
				g.X--
			}
			return d.LaunchKernel(ctx, f, g, b, m, s, p)
		}}},
}

// sharedCaptureMode returns an exchange with one mode for all threads.
func sharedCaptureMode() func(cu.Driver, cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
	var shared atomic.Uint32
	return func(_ cu.Driver, mode cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
		return cu.StreamCaptureMode(shared.Swap(uint32(mode))), nil
	}
}

// chances is how often a case may miss an error of a driver. Cases that watch for 25 ms that nothing
// happens miss it when a busy machine does not do the wrong work in that time.
const chances = 10

// TestBrokenDriversFail runs the cases on drivers with one error.
func TestBrokenDriversFail(t *testing.T) {
	notUnderRace(t)
	checks := allChecks()
	for _, b := range brokenDrivers {
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(checks, func(k check) bool { return k.id == b.id })
			if i < 0 {
				t.Fatalf("no case %q", b.id)
			}
			began := time.Now()
			if failures := failuresOf(t, openSoftgpu(t), checks[i], time.Minute); len(failures) > 0 {
				t.Fatalf("%s fails on a correct driver: %s", b.id, failures[0])
			}
			limit := 1500*time.Millisecond + 10*time.Since(began) // longer on a busy machine
			for range chances {
				b.driver.Driver = openSoftgpu(t)
				if failures := failuresOf(t, &b.driver, checks[i], limit); len(failures) > 0 {
					t.Logf("failed: %s", failures[0])
					return
				}
			}
			t.Fatalf("%s does not fail", b.id)
		})
	}
}

// failuresOf returns the failures of one case on a driver. The limit is for the case; each of its
// calls that must not wait has two thirds of it.
func failuresOf(t *testing.T, d cu.Driver, k check, limit time.Duration) []string {
	s := &suite{open: func(testing.TB) cu.Driver { return d }, times: times{limit: limit, grace: limit, returnLimit: limit * 2 / 3}, parent: t}
	s.start(t)
	c := s.runCase(t, k)
	if c.skipped != "" {
		t.Fatalf("%s was skipped: %s", k.id, c.skipped)
	}
	return c.failures
}

// TestHangIsReported runs a case that waits for ever.
func TestHangIsReported(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	defer close(release)
	s := &suite{open: func(testing.TB) cu.Driver { return d }, times: times{50 * time.Millisecond, 50 * time.Millisecond, time.Second}, parent: t}
	s.start(t)
	c := s.runCase(t, check{id: "test/hang", run: func(c *trial) {
		c.step("an event that never happens")
		<-release
	}})
	if len(c.failures) < 2 || !strings.Contains(c.failures[0], "an event that never happens") || s.hangs != 1 {
		t.Fatalf("failures %q, %d hangs", c.failures, s.hangs)
	}
}
