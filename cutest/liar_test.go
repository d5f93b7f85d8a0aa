package cutest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// liar is a driver with one thing wrong.
type liar struct {
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
	hostFunc        func(d cu.Driver, ctx cu.Context, s cu.Stream, fn func()) error
	eventQuery      func(d cu.Driver, ctx cu.Context, e cu.Event) error
	elapsed         func(d cu.Driver, ctx cu.Context, a, b cu.Event) (float32, error)
	launch          func(d cu.Driver, ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error
	graphLaunch     func(d cu.Driver, ctx cu.Context, x cu.GraphExec, s cu.Stream) error
	memFreeAsync    func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, s cu.Stream) error
}

// Unwrap finds the driver that is lied about.
func (l *liar) Unwrap() cu.Driver { return l.Driver }

func (l *liar) MemAlloc(ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
	if l.memAlloc != nil {
		return l.memAlloc(l.Driver, ctx, n)
	}
	return l.Driver.MemAlloc(ctx, n)
}

func (l *liar) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	if l.memFree != nil {
		return l.memFree(l.Driver, ctx, p)
	}
	return l.Driver.MemFree(ctx, p)
}

func (l *liar) MemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) error {
	if l.memFreeAsync != nil {
		return l.memFreeAsync(l.Driver, ctx, p, s)
	}
	return l.Driver.MemFreeAsync(ctx, p, s)
}

func (l *liar) MemcpyDtoH(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr) error {
	if l.memcpyDtoH != nil {
		return l.memcpyDtoH(l.Driver, ctx, dst, src, n)
	}
	return l.Driver.MemcpyDtoH(ctx, dst, src, n)
}

func (l *liar) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if l.memcpyHtoDAsync != nil {
		return l.memcpyHtoDAsync(l.Driver, ctx, dst, src, n, s)
	}
	return l.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (l *liar) Memcpy2D(ctx cu.Context, p *cu.Memcpy2D) error {
	if l.memcpy2D != nil {
		return l.memcpy2D(l.Driver, ctx, p)
	}
	return l.Driver.Memcpy2D(ctx, p)
}

func (l *liar) MemsetD8(ctx cu.Context, p cu.DevicePtr, v uint8, n uintptr) error {
	if l.memsetD8 != nil {
		return l.memsetD8(l.Driver, ctx, p, v, n)
	}
	return l.Driver.MemsetD8(ctx, p, v, n)
}

func (l *liar) MemHostGetFlags(ctx cu.Context, p cu.HostPtr) (cu.MemHostAllocFlags, error) {
	if l.hostGetFlags != nil {
		return l.hostGetFlags(l.Driver, ctx, p)
	}
	return l.Driver.MemHostGetFlags(ctx, p)
}

func (l *liar) MemHostAlloc(ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
	if l.hostAlloc != nil {
		return l.hostAlloc(l.Driver, ctx, n, f)
	}
	return l.Driver.MemHostAlloc(ctx, n, f)
}

func (l *liar) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error {
	if l.register != nil {
		return l.register(l.Driver, ctx, p, n, f)
	}
	return l.Driver.MemHostRegister(ctx, p, n, f)
}

func (l *liar) PointerGetAttributes(ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error) {
	if l.attributes != nil {
		return l.attributes(l.Driver, ctx, p)
	}
	return l.Driver.PointerGetAttributes(ctx, p)
}

func (l *liar) MemPrefetchAsync(ctx cu.Context, p cu.DevicePtr, n uintptr, dev cu.Device, s cu.Stream) error {
	if l.prefetch != nil {
		return l.prefetch(l.Driver, ctx, p, n, dev, s)
	}
	return l.Driver.MemPrefetchAsync(ctx, p, n, dev, s)
}

func (l *liar) StreamCreate(ctx cu.Context, f cu.StreamFlags) (cu.Stream, error) {
	if l.streamCreate != nil {
		return l.streamCreate(l.Driver, ctx, f)
	}
	return l.Driver.StreamCreate(ctx, f)
}

func (l *liar) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if l.streamSync != nil {
		return l.streamSync(l.Driver, ctx, s)
	}
	return l.Driver.StreamSynchronize(ctx, s)
}

func (l *liar) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if l.streamQuery != nil {
		return l.streamQuery(l.Driver, ctx, s)
	}
	return l.Driver.StreamQuery(ctx, s)
}

func (l *liar) StreamDestroy(ctx cu.Context, s cu.Stream) error {
	if l.streamDestroy != nil {
		return l.streamDestroy(l.Driver, ctx, s)
	}
	return l.Driver.StreamDestroy(ctx, s)
}

func (l *liar) StreamWaitEvent(ctx cu.Context, s cu.Stream, e cu.Event, f cu.EventWaitFlags) error {
	if l.waitEvent != nil {
		return l.waitEvent(l.Driver, ctx, s, e, f)
	}
	return l.Driver.StreamWaitEvent(ctx, s, e, f)
}

func (l *liar) LaunchHostFunc(ctx cu.Context, s cu.Stream, fn func()) error {
	if l.hostFunc != nil {
		return l.hostFunc(l.Driver, ctx, s, fn)
	}
	return l.Driver.LaunchHostFunc(ctx, s, fn)
}

func (l *liar) EventQuery(ctx cu.Context, e cu.Event) error {
	if l.eventQuery != nil {
		return l.eventQuery(l.Driver, ctx, e)
	}
	return l.Driver.EventQuery(ctx, e)
}

func (l *liar) EventElapsedTime(ctx cu.Context, a, b cu.Event) (float32, error) {
	if l.elapsed != nil {
		return l.elapsed(l.Driver, ctx, a, b)
	}
	return l.Driver.EventElapsedTime(ctx, a, b)
}

func (l *liar) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error {
	if l.launch != nil {
		return l.launch(l.Driver, ctx, f, grid, block, shared, s, params)
	}
	return l.Driver.LaunchKernel(ctx, f, grid, block, shared, s, params)
}

func (l *liar) GraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
	if l.graphLaunch != nil {
		return l.graphLaunch(l.Driver, ctx, x, s)
	}
	return l.Driver.GraphLaunch(ctx, x, s)
}

// lies are drivers with one thing wrong, each with a case that must notice.
var lies = []struct {
	name   string
	caught string // by this case
	lie    liar
}{
	{"a wait that does not wait", "stream/synchronize", liar{
		streamSync: func(cu.Driver, cu.Context, cu.Stream) error { return nil }}},
	{"a wait that never ends", "stream/synchronize-one", liar{
		streamSync: func(d cu.Driver, ctx cu.Context, _ cu.Stream) error { return d.CtxSynchronize(ctx) }}},
	{"a query that is always ready", "stream/query", liar{
		streamQuery: func(cu.Driver, cu.Context, cu.Stream) error { return nil }}},
	{"an event that is always ready", "event/query", liar{
		eventQuery: func(cu.Driver, cu.Context, cu.Event) error { return nil }}},
	{"a time that is never negative", "event/elapsed-adds-up", liar{
		elapsed: func(d cu.Driver, ctx cu.Context, a, b cu.Event) (float32, error) {
			ms, err := d.EventElapsedTime(ctx, a, b)
			return max(ms, -ms), err
		}}},
	{"a wait-event that is forgotten", "stream/wait-event", liar{
		waitEvent: func(cu.Driver, cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error { return nil }}},
	{"a destroy that waits", "stream/destroy-busy", liar{
		streamDestroy: func(d cu.Driver, ctx cu.Context, s cu.Stream) error {
			_ = d.StreamSynchronize(ctx, s)
			return d.StreamDestroy(ctx, s)
		}}},
	{"blocking streams that do not block", "default/blocking-waits-for-legacy", liar{
		streamCreate: func(d cu.Driver, ctx cu.Context, _ cu.StreamFlags) (cu.Stream, error) {
			return d.StreamCreate(ctx, cu.StreamNonBlocking)
		}}},
	{"non-blocking streams that block", "default/non-blocking-free-of-legacy", liar{
		streamCreate: func(d cu.Driver, ctx cu.Context, _ cu.StreamFlags) (cu.Stream, error) {
			return d.StreamCreate(ctx, cu.StreamDefault)
		}}},
	{"a copy that loses its last byte", "copy/every-size", liar{
		memcpyDtoH: func(d cu.Driver, ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr) error {
			return d.MemcpyDtoH(ctx, dst, src, n-1)
		}}},
	{"a copy that waits", "async/page-locked-copies", liar{
		memcpyHtoDAsync: func(d cu.Driver, ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
			err := d.MemcpyHtoDAsync(ctx, dst, src, n, s)
			_ = d.StreamSynchronize(ctx, s)
			return err
		}}},
	{"a copy that forgets its stream", "async/destination-written-late", liar{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, _ cu.Stream, p []byte) error {
			return d.LaunchKernel(ctx, f, g, b, m, cu.StreamLegacy, p)
		}}},
	{"a 2D copy with a row too few", "copy2d/rectangles", liar{
		memcpy2D: func(d cu.Driver, ctx cu.Context, p *cu.Memcpy2D) error {
			q := *p
			q.Height--
			return d.Memcpy2D(ctx, &q)
		}}},
	{"a fill with a byte too many", "memset/device", liar{
		memsetD8: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr, v uint8, n uintptr) error {
			return d.MemsetD8(ctx, p, v, n+1)
		}}},
	{"flags that are not kept", "pinned/flags-read-back", liar{
		hostGetFlags: func(cu.Driver, cu.Context, cu.HostPtr) (cu.MemHostAllocFlags, error) { return 0, nil }}},
	{"memory for nothing", "pinned/zero-bytes", liar{
		hostAlloc: func(d cu.Driver, ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
			return d.MemHostAlloc(ctx, max(n, 1), f)
		}}},
	{"overlaps that are allowed", "register/twice", liar{
		register: func(d cu.Driver, ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error {
			if err := d.MemHostRegister(ctx, p, n, f); !isCode(err, cu.ErrorHostMemoryAlreadyRegistered) {
				return err
			}
			return nil
		}}},
	{"attributes without an extent", "pointer/interior", liar{
		attributes: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error) {
			a, err := d.PointerGetAttributes(ctx, p)
			a.RangeStart = p
			return a, err
		}}},
	{"a free that forgets", "memory/free-misuse", liar{
		memFree: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) error { _ = d.MemFree(ctx, p); return nil }}},
	{"memory that is not aligned", "memory/alignment", liar{
		memAlloc: func(d cu.Driver, ctx cu.Context, n uintptr) (cu.DevicePtr, error) {
			p, err := d.MemAlloc(ctx, n+64)
			return p + 64, err
		},
		memFree: func(d cu.Driver, ctx cu.Context, p cu.DevicePtr) error { return d.MemFree(ctx, p-64) }}},
	{"a prefetch that does nothing", "managed/prefetch", liar{
		prefetch: func(cu.Driver, cu.Context, cu.DevicePtr, uintptr, cu.Device, cu.Stream) error { return nil }}},
	{"a stream's free that does nothing", "pool/counters", liar{
		memFreeAsync: func(cu.Driver, cu.Context, cu.DevicePtr, cu.Stream) error { return nil }}},
	{"a host function that runs at once", "hostfunc/order", liar{
		hostFunc: func(_ cu.Driver, _ cu.Context, _ cu.Stream, fn func()) error { fn(); return nil }}},
	{"a host function that nobody waits for", "hostfunc/blocks-what-follows", liar{
		hostFunc: func(_ cu.Driver, _ cu.Context, _ cu.Stream, fn func()) error { go fn(); return nil }}},
	{"a graph that runs twice", "capture/records-and-does-not-run", liar{
		graphLaunch: func(d cu.Driver, ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
			_ = d.GraphLaunch(ctx, x, s)
			return d.GraphLaunch(ctx, x, s)
		}}},
	{"a launch that takes any block", "launch/block-too-large", liar{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, s cu.Stream, p []byte) error {
			if err := d.LaunchKernel(ctx, f, g, b, m, s, p); !isCode(err, cu.ErrorInvalidValue) {
				return err
			}
			return nil
		}}},
	{"a launch that loses a block", "launch/every-thread-once", liar{
		launch: func(d cu.Driver, ctx cu.Context, f cu.Function, g, b cu.Dim3, m uint32, s cu.Stream, p []byte) error {
			if g.X > 1 {
				g.X--
			}
			return d.LaunchKernel(ctx, f, g, b, m, s, p)
		}}},
}

// TestLiesAreCaught gives the suite drivers with one thing wrong.
func TestLiesAreCaught(t *testing.T) {
	notUnderRace(t)
	checks := allChecks()
	for _, l := range lies {
		t.Run(strings.ReplaceAll(l.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(checks, func(k check) bool { return k.id == l.caught })
			if i < 0 {
				t.Fatalf("no case %q", l.caught)
			}
			honest, err := softgpu.Open(softgpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if failures := verdict(t, honest, checks[i]); len(failures) > 0 {
				t.Fatalf("%s fails on a driver that does not lie: %s", l.caught, failures[0])
			}
			l.lie.Driver, err = softgpu.Open(softgpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			failures := verdict(t, &l.lie, checks[i])
			if len(failures) == 0 {
				t.Fatalf("%s does not notice", l.caught)
			}
			t.Logf("noticed: %s", failures[0])
		})
	}
}

// verdict is what one case says of a driver.
func verdict(t *testing.T, d cu.Driver, k check) []string {
	s := &suite{open: func(testing.TB) cu.Driver { return d }, times: times{limit: 1500 * time.Millisecond, grace: 2 * time.Second, patience: time.Second}, parent: t}
	s.start(t)
	c := s.judge(t, k)
	if c.skipped != "" {
		t.Fatalf("%s was skipped: %s", k.id, c.skipped)
	}
	return c.failures
}

// TestHangIsReported leaves a case in a wait that nothing ends.
func TestHangIsReported(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	defer close(release)
	s := &suite{open: func(testing.TB) cu.Driver { return d }, times: times{50 * time.Millisecond, 50 * time.Millisecond, time.Second}, parent: t}
	s.start(t)
	c := s.judge(t, check{id: "test/hang", run: func(c *T) {
		c.step("something that does not come")
		<-release
	}})
	if len(c.failures) < 2 || !strings.Contains(c.failures[0], "something that does not come") || s.hangs != 1 {
		t.Fatalf("failures %q, %d hangs", c.failures, s.hangs)
	}
}
