package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// ended is a context that has ended: a wait with it returns at once, and an error if it has to
// wait.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// foreignGate lets another library block a stream until open is called.
func foreignGate(t testing.TB, g *ferry.GPU, h cu.Stream) (open func()) {
	t.Helper()
	c := make(chan struct{})
	check(t, g.Driver().LaunchHostFunc(g.CUContext(), h, func() { <-c }))
	return func() { close(c) }
}

// softKinds opens software GPUs of which Ferry waits for work in both of its ways.
func softKinds(t *testing.T) map[string]func() cu.Driver {
	return map[string]func() cu.Driver{
		"emulated": func() cu.Driver { return softDriver(t, "h200", 1, softgpu.Lazy) },
		"polled":   func() cu.Driver { return &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Lazy)} },
	}
}

// handled has one object of each type with a handle, and a call of the driver about the handle.
// after is what the call returns when the object is closed.
type handled struct {
	object any
	gpu    func() *ferry.GPU
	use    func() error
	close  func() error
	after  cu.Result
}

func allHandled(t *testing.T, g *ferry.GPU) map[string]handled {
	t.Helper()
	d, ctx := g.Driver(), g.CUContext()
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	k := must(m.Kernel("increment"))(t)
	p := must(ferry.NewMemPool(g, nil))(t)
	on := must(ferry.Alloc[byte](g, 100))(t)
	x := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, on, 1) }))(t)
	return map[string]handled{
		"Stream":  {s, s.GPU, func() error { return last(d.StreamGetFlags(ctx, s.Handle())) }, s.Close, cu.ErrorInvalidHandle},
		"Event":   {e, e.GPU, func() error { return d.EventQuery(ctx, e.Handle()) }, e.Close, cu.ErrorInvalidHandle},
		"Module":  {m, m.GPU, func() error { return last(d.ModuleGetFunction(ctx, m.Handle(), "increment")) }, m.Close, cu.ErrorInvalidHandle},
		"Kernel":  {k, k.GPU, func() error { return last(d.FuncGetAttribute(ctx, cu.FuncAttributeNumRegs, k.Handle())) }, m.Close, cu.ErrorInvalidHandle},
		"MemPool": {p, p.GPU, func() error { return d.MemPoolTrimTo(p.Handle(), 0) }, p.Close, cu.ErrorInvalidHandle},
		"Graph":   {x, x.GPU, func() error { return d.GraphLaunch(ctx, x.Handle(), cu.StreamLegacy) }, x.Close, cu.ErrorInvalidValue},
	}
}

// TestHandles: each handle is that of the driver's object, and GPU returns the GPU. After Close the
// software GPU refuses the handle.
func TestHandles(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	for _, name := range []string{"Graph", "MemPool", "Kernel", "Module", "Event", "Stream"} {
		h := allHandled(t, g)
		c := h[name]
		if got := c.gpu(); got != g {
			t.Errorf("%s: GPU returns %v, want %v", name, got, g)
		}
		if err := c.use(); err != nil {
			t.Errorf("%s: the driver refuses the handle: %v", name, err)
		}
		check(t, g.Wait(context.Background()))
		check(t, c.close())
		if err := c.use(); !errors.Is(err, c.after) {
			t.Errorf("%s: the handle of a closed object: %v, want %v", name, err, c.after)
		}
		for _, other := range h {
			check(t, other.close())
		}
	}
}

// TestBuffersGPU: every buffer and range returns its GPU.
func TestBuffersGPU(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	d, h := must(ferry.Alloc[byte](g, 10))(t), must(ferry.AllocHost[byte](g, 10, nil))(t)
	m, p := must(ferry.AllocManaged[byte](g, 10, nil))(t), must(ferry.NewPinnedPool(g, nil))(t)
	for what, got := range map[string]*ferry.GPU{"Device": d.GPU(), "a range": d.Range(1, 2).GPU(), "MemoryView": ferry.View[uint16](d).GPU(), "Host": h.GPU(), "Managed": m.GPU(), "PinnedPool": p.GPU()} {
		if got != g {
			t.Errorf("%s: GPU returns %v, want %v", what, got, g)
		}
	}
	closeAll(t, d, h, m, p)
}

// TestDefaultHandles: the default stream has a handle that means the same to every library, and the
// default pool has one before its first use.
func TestDefaultHandles(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	if h := g.DefaultStream().Handle(); h != cu.StreamLegacy {
		t.Errorf("the default stream has the handle %d, want %d", h, cu.StreamLegacy)
	}
	h := g.DefaultMemPool().Handle()
	want := must(g.Driver().DeviceGetDefaultMemPool(g.CUDevice()))(t)
	if h == 0 || h != want {
		t.Errorf("the default pool has the handle %d, want %d", h, want)
	}
	if h := openSoftWithout(t, cu.DeviceAttributeMemoryPoolsSupported).DefaultMemPool().Handle(); h != 0 {
		t.Errorf("the default pool of a device without pools has the handle %d, want 0", h)
	}
}

// openSoftWithout opens a software GPU that lacks what an attribute says.
func openSoftWithout(t *testing.T, a cu.DeviceAttribute) *ferry.GPU {
	t.Helper()
	return openDriver(t, &lackingDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager), lacks: a})
}

// lackingDriver says that devices lack something.
type lackingDriver struct {
	cu.Driver
	lacks cu.DeviceAttribute
}

func (d *lackingDriver) Unwrap() cu.Driver { return d.Driver }
func (d *lackingDriver) DeviceGetAttribute(a cu.DeviceAttribute, dev cu.Device) (int32, error) {
	if a == d.lacks {
		return 0, nil
	}
	return d.Driver.DeviceGetAttribute(a, dev)
}

// TestForeignWork: Wait and Done of a stream whose handle was taken are about the work that another
// library has queued there, and so is Wait after Close.
func TestForeignWork(t *testing.T) {
	for kind, open := range softKinds(t) {
		for _, closed := range []bool{false, true} {
			what := fmt.Sprintf("%s, closed %t", kind, closed)
			g := openDriver(t, open())
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			pass := foreignGate(t, g, s.Handle())
			if closed {
				check(t, s.Close())
			} else if done, err := s.Done(); done || err != nil {
				t.Errorf("%s: done %t, %v before the foreign work is done", what, done, err)
			}
			if err := s.Wait(ended()); kind == "polled" && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Wait returns %v, want that its context has ended", what, err)
			}
			waits(t, what+": Wait", pass, func() { check(t, s.Wait(context.Background())) })
			closeAll(t, s)
		}
	}
}

// TestForeignWorkHoldsNothing: a Close that frees memory waits for the work of another library in a
// way that holds no other call.
func TestForeignWorkHoldsNothing(t *testing.T) {
	d := &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	buffer, on := must(ferry.Alloc[byte](g, 4096))(t), must(ferry.Alloc[byte](g, 4096))(t)
	open := foreignGate(t, g, s.Handle())
	calls, closed := d.Calls(), make(chan error, 1)
	go func() { closed <- buffer.Close() }()
	eventually(t, "freed, or asked for the stream", func() bool { return d.Calls() > calls })
	ends(t, "another stream", func() { check(t, errors.Join(ferry.Fill(other, on, 1), other.Wait(context.Background()))) })
	open()
	check(t, <-closed)
	closeAll(t, on, s, other)
}

// TestForeignWorkOnDefault: Close of a GPU whose context another GPU has waits for what another
// library has queued in the default stream, in a way that holds no other call.
func TestForeignWorkOnDefault(t *testing.T) {
	d := &queryDriver{Holding: gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}}
	first, second := must(ferry.OpenDriver(d, 0))(t), openDriver(t, d)
	s := must(ferry.NewStream(second, &ferry.StreamOptions{NonBlocking: true}))(t)
	on := must(ferry.Alloc[byte](second, 100))(t)
	open := foreignGate(t, first, first.DefaultStream().Handle())
	var asked atomic.Bool
	d.record = func(q cu.Stream) { asked.Store(true) }
	calls, closed := d.Calls(), make(chan error, 1)
	go func() { closed <- first.Close() }()
	eventually(t, "released, or asked for the stream", func() bool { return asked.Load() || d.Calls() > calls })
	ends(t, "the other GPU", func() { check(t, errors.Join(ferry.Fill(s, on, 1), s.Wait(context.Background()))) })
	open()
	check(t, <-closed)
	closeAll(t, on, s)
}

// TestForeignManaged: without concurrent managed access, Slice of managed memory waits for a stream
// whose handle was taken, though Ferry has queued nothing there.
func TestForeignManaged(t *testing.T) {
	for _, attached := range []bool{false, true} {
		for _, taken := range []bool{false, true} {
			d := newExclusiveDriver()
			g := openDriver(t, d)
			s, m := must(ferry.NewStream(g, nil))(t), must(ferry.AllocManaged[byte](g, 64, nil))(t)
			if attached {
				check(t, m.Attach(s, cu.MemAttachSingle))
				check(t, s.Wait(context.Background()))
			}
			want := 0
			if taken {
				_, want = s.Handle(), 1
			}
			d.waits = 0
			m.Slice()
			if d.waits != want {
				t.Errorf("attached %t, handle taken %t: Slice waited for %d streams, want %d", attached, taken, d.waits, want)
			}
			closeAll(t, m, s)
		}
	}
}

// queryDriver calls a function in each query of a stream, and in each record of an event.
type queryDriver struct {
	gputest.Holding
	query, record func(s cu.Stream)
}

func (d *queryDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if d.query != nil {
		d.query(s)
	}
	return d.Holding.StreamQuery(ctx, s)
}

func (d *queryDriver) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	err := d.Holding.EventRecord(ctx, e, s)
	if d.record != nil {
		d.record(s)
	}
	return err
}

// TestWaitBesideForeignWork: Wait is about the work that is queued when it begins. It ends although
// another library queues more after that, also if the driver has memory to give back then.
func TestWaitBesideForeignWork(t *testing.T) {
	d := &queryDriver{Holding: gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}}
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	m := must(ferry.AllocAsync[byte](s, 100, nil))(t)
	check(t, m.Close()) // a wait gives memory back from now on
	h := s.Handle()
	first := foreignGate(t, g, h)
	queries, marked := 0, make(chan func(), 1)
	d.query = func(q cu.Stream) {
		if q == h {
			queries++
		}
	}
	d.record = func(q cu.Stream) {
		if q == h && queries < 5 { // before a wait without the knowledge would do it
			d.record = nil
			marked <- foreignGate(t, g, h)
			first()
		}
	}
	ends(t, "Wait", func() { check(t, s.Wait(context.Background())) })
	select {
	case second := <-marked:
		second()
	default:
		t.Errorf("Wait did not mark the end of the work within 5 of %d queries", queries)
		first()
	}
	ends(t, "the rest", func() { closeAll(t, s); check(t, g.Wait(context.Background())) })
}

// TestForeignEvent: an event whose handle was taken may stand for work of any stream. So its end
// says nothing about the work that Ferry has recorded, and Wait is about the record in the driver.
func TestForeignEvent(t *testing.T) {
	for kind, open := range softKinds(t) {
		for _, taken := range []bool{false, true} {
			g := openDriver(t, open())
			s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			idle := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
			host, on := must(ferry.AllocHost[byte](g, 100, nil))(t), must(ferry.Alloc[byte](g, 100))(t)
			e := must(ferry.NewEvent(g, nil))(t)
			check(t, errors.Join(ferry.Fill(s, on, 7), ferry.Copy(s, host, on), s.Record(e)))
			if taken {
				again := foreignGate(t, g, s.Handle())
				check(t, errors.Join(ferry.Fill(s, on, 8), ferry.Copy(s, host, on), s.Record(e)))
				check(t, g.Driver().EventRecord(g.CUContext(), e.Handle(), idle.Handle()))
				check(t, e.Wait(context.Background()))
				if done, err := e.Done(); !done || err != nil {
					t.Errorf("%s: done %t, %v: the record of the other library is done", kind, done, err)
				}
				_, err := host.SliceContext(ended())
				if !errors.Is(err, context.Canceled) && kind == "polled" {
					t.Errorf("%s: Slice did not wait for the copy: %v", kind, err)
				}
				waits(t, kind+": Slice", again, func() { host.Slice() })
				if got := host.Slice()[99]; got != 8 {
					t.Errorf("%s: %d was copied, want 8", kind, got)
				}
			} else {
				check(t, e.Wait(context.Background()))
				if _, err := host.SliceContext(ended()); err != nil {
					t.Errorf("%s: Slice waits although the event says that the copy is done: %v", kind, err)
				}
			}
			closeAll(t, e, host, on, s, idle)
		}
	}
}

// TestForeignEventTimes: an event that only another library has recorded can be waited for, and
// measured from and to.
func TestForeignEventTimes(t *testing.T) {
	for kind, open := range softKinds(t) {
		g := openDriver(t, open())
		s := must(ferry.NewStream(g, nil))(t)
		first, second := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		wantError(t, last(second.Since(first)), cu.ErrorInvalidHandle, "never recorded")
		for _, e := range []*ferry.Event{first, second} {
			check(t, g.Driver().EventRecord(g.CUContext(), e.Handle(), s.Handle()))
		}
		check(t, second.Wait(context.Background()))
		if _, err := second.Since(first); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		pass := foreignGate(t, g, s.Handle())
		check(t, g.Driver().EventRecord(g.CUContext(), second.Handle(), s.Handle()))
		waits(t, kind+": Wait", pass, func() { check(t, second.Wait(context.Background())) })
		closeAll(t, first, second, s)
	}
}

// TestForeignEventAfterCapture: an event that Ferry recorded last in a capture, which is over, and
// that another library has recorded since stands for the record of that library.
func TestForeignEventAfterCapture(t *testing.T) {
	for kind, open := range softKinds(t) {
		g := openDriver(t, open())
		s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
		first, e := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		check(t, s.Record(first))
		x := must(s.Capture(func(s *ferry.Stream) error { return s.Record(e) }))(t)
		wantError(t, e.Wait(context.Background()), cu.ErrorInvalidValue, "record it again")
		wantError(t, s.WaitEvent(e), cu.ErrorInvalidValue, "record it again")
		h := e.Handle()
		pass := foreignGate(t, g, other.Handle())
		check(t, g.Driver().EventRecord(g.CUContext(), h, other.Handle()))
		if done, err := e.Done(); done || err != nil {
			t.Errorf("%s: done %t, %v before the work of the other library is", kind, done, err)
		}
		check(t, s.WaitEvent(e))
		var b ferry.Batch
		b.WaitEvent(e)
		check(t, s.Submit(&b))
		if done, err := s.Done(); done || err != nil {
			t.Errorf("%s: the stream that waits for it is done %t, %v", kind, done, err)
		}
		waits(t, kind+": Wait", pass, func() { check(t, e.Wait(context.Background())) })
		if _, err := e.Since(first); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		_, err := s.Capture(func(s *ferry.Stream) error {
			check(t, s.Record(e))
			wantError(t, e.Wait(context.Background()), cu.ErrorCapturedEvent)
			return nil
		})
		check(t, err)
		closeAll(t, x, first, e, s, other)
	}
}

// eventDriver counts the questions about events, and the waits for them.
type eventDriver struct {
	gputest.Holding
	queries, waits atomic.Int32
}

func (d *eventDriver) EventQuery(ctx cu.Context, e cu.Event) error {
	d.queries.Add(1)
	return d.Holding.EventQuery(ctx, e)
}

func (d *eventDriver) EventSynchronize(ctx cu.Context, e cu.Event) error {
	d.waits.Add(1)
	return d.Holding.EventSynchronize(ctx, e)
}

// TestForeignEventIsNotPolled: another library can record an event again at any time, so that
// questions about it would never end. Wait waits in the driver, for the record that is there.
func TestForeignEventIsNotPolled(t *testing.T) {
	for _, taken := range []bool{false, true} {
		d := &eventDriver{Holding: gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)}}
		g := openDriver(t, d)
		s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		check(t, s.Record(e))
		if taken {
			e.Handle()
		}
		check(t, e.Wait(context.Background()))
		if d.queries.Load() > 0 == taken || d.waits.Load() > 0 != taken {
			t.Errorf("handle taken %t: %d questions and %d waits", taken, d.queries.Load(), d.waits.Load())
		}
		closeAll(t, e, s)
	}
}

// TestHandleInCapture: while a stream captures, its handle is that of the stream itself. What
// another library queues there runs, and the graph does not have it.
func TestHandleInCapture(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	s, on := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, 4))(t)
	check(t, ferry.Fill(s, on, 1))
	before := s.Handle()
	x := must(s.Capture(func(s *ferry.Stream) error {
		if s.Handle() != before {
			t.Error("a stream that captures has another handle")
		}
		check(t, ferry.Fill(s, on.Range(2, 4), 3))
		return g.Driver().MemsetD8Async(g.CUContext(), on.Pointer(), 2, 4, s.Handle())
	}))(t)
	check(t, s.Wait(context.Background()))
	if got := must(ferry.Download(on))(t); string(got) != "\x02\x02\x02\x02" {
		t.Errorf("the memory has %v, want the work of the other library alone", got)
	}
	check(t, errors.Join(ferry.Fill(s, on, 0), x.Launch(s)))
	if got := must(ferry.Download(on))(t); string(got) != "\x00\x00\x03\x03" {
		t.Errorf("the graph left %v, want what Ferry captured alone", got)
	}
	closeAll(t, x, on, s)
}

// TestForeignKernelBlamed: the error of a lost context says that another library may have launched
// the kernel.
func TestForeignKernelBlamed(t *testing.T) {
	for _, taken := range []bool{false, true} {
		d := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
		g := openDriver(t, d)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		on := must(ferry.Alloc[uint32](g, 1))(t)
		check(t, s.Launch(k, ferry.Cover(1, 32), on, uint64(1)))
		if taken {
			s.Handle()
		}
		d.during("StreamSynchronize", func() error { return cu.ErrorIllegalAddress })
		err := s.Wait(context.Background())
		wantError(t, err, cu.ErrorIllegalAddress, "the last kernel launched there was increment")
		if got := strings.Contains(err.Error(), "another library has the stream's handle"); got != taken {
			t.Errorf("handle taken %t: %v", taken, err)
		}
		closeAll(t, on, m, s)
	}
}

// losingDriver remembers the faults that a test reports.
type losingDriver struct {
	*hookDriver
	loss cu.Loss
}

func (d *losingDriver) Loss() *cu.Loss { return &d.loss }

// TestForeignKernelBlamedAlone: the same where Ferry has launched nothing, and later errors of the
// lost context repeat it.
func TestForeignKernelBlamedAlone(t *testing.T) {
	d := &losingDriver{hookDriver: newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))}
	g := openDriver(t, d)
	s, quiet := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	s.Handle()
	lost := func() error { return d.loss.Report(cu.ErrorIllegalAddress) }
	const blamed = "another library has the stream's handle, and may have launched a kernel there"
	d.during("StreamSynchronize", lost)
	err := s.Wait(context.Background())
	wantError(t, err, cu.ErrorIllegalAddress, "("+blamed+"): the process must restart")
	d.during("StreamSynchronize", lost)
	wantError(t, quiet.Wait(context.Background()), cu.ErrorIllegalAddress, "an earlier fault lost the context ("+s.String()+" reported it, and "+blamed+")")
	closeAll(t, s, quiet)
}
