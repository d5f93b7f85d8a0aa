package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestQueueLeft: an operation leaves nothing in use, whether it succeeds or fails. If it
// was queued, it has a number and is pending on what it uses.
func TestQueueLeft(t *testing.T) {
	g, s := softStream(t)
	host := closeLater(t, try(AllocHost[byte](g, 64, nil))(t))
	device := closeLater(t, try(Alloc[byte](g, 64))(t))
	gone := try(Alloc[byte](g, 64))(t)
	e := closeLater(t, try(NewEvent(g, nil))(t))
	m := closeLater(t, try(Load(g, []byte(".version 6.3\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n"), nil))(t))
	k := try(m.Kernel("k"))(t)
	graph := closeLater(t, try(s.Capture(func(s *Stream) error { return Copy[byte](s, device, host) }))(t))
	var b, bad, was Batch // was could be submitted once
	going := try(Alloc[byte](g, 64))(t)
	if err := errors.Join(gone.Close(), Copy[byte](&b, device, host), Copy[byte](&bad, gone, host), Copy[byte](&was, going, host),
		s.Submit(&was), s.Submit(&was), going.Close()); err != nil {
		t.Fatal(err)
	}
	other := closeLater(t, try(Alloc[byte](g, 64))(t))
	inHost, inDevice, inOther := &host.span.a.Tracker, &device.span.a.Tracker, &other.span.a.Tracker
	uses := map[string][]*inflight.Tracker{
		"copy in": {inHost, inDevice}, "copy out": {inHost, inDevice}, "copy on the device": {inDevice, inOther}, "fill": {inDevice},
		"launch": {inDevice, &m.tracker}, "launch of a graph": {inHost, inDevice}, "submit": {inHost, inDevice},
	}
	for _, c := range []struct {
		what   string
		f      func() error
		queued bool
	}{
		{"copy on the device", func() error { return Copy[byte](s, device, other) }, true},
		{"copy in", func() error { return Copy[byte](s, device, host) }, true},
		{"copy out", func() error { return Copy[byte](s, host, device) }, true},
		{"copy to a closed buffer", func() error { return Copy[byte](s, gone, host) }, false},
		{"copy of other lengths", func() error { return Copy[byte](s, device, host.Range(0, 3)) }, false},
		{"fill", func() error { return Fill(s, device, 1) }, true},
		{"fill of a closed buffer", func() error { return Fill(s, gone, 1) }, false},
		{"launch", func() error { return s.Launch(k, Cover(1, 1), device) }, true},
		{"launch with a closed buffer", func() error { return s.Launch(k, Cover(1, 1), gone) }, false},
		{"launch of nothing", func() error { return s.Launch(k, LaunchConfig{}, device) }, false},
		{"launch of another kind of argument", func() error { return s.Launch(k, Cover(1, 1), uint64(0)) }, true},
		{"launch of a wrong argument", func() error { return s.Launch(k, Cover(1, 1), float32(0)) }, false},
		{"launch of a graph", func() error { return graph.Launch(s) }, true},
		{"record", func() error { return s.Record(e) }, false}, // it is no operation that anything waits for
		{"wait for an event", func() error { return s.WaitEvent(e) }, true},
		{"submit", func() error { return s.Submit(&b) }, true},
		{"submit what worked before", func() error { return s.Submit(&was) }, false},
		{"submit what fails", func() error { return s.Submit(&bad) }, false},
	} {
		for range 3 { // the later times use caches
			before := s.state.Issued()
			err := c.f()
			want := before
			if c.queued {
				want++
			}
			if got := s.state.Issued(); got != want {
				t.Errorf("%s: %d operations, want %d", c.what, got, want)
			}
			for i, x := range uses[c.what] {
				if got := pendingOn(x, s); got != want {
					t.Errorf("%s: operation %d is pending on resource %d, want %d", c.what, got, i, want)
				}
			}
			checkUnused(t, c.what, s.state)
			if failed := err != nil; failed == c.queued && c.what != "record" {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	}
}

// leaving is a driver whose calls that queue do something else first, such as a panic, or
// return an error.
type leaving struct {
	cu.Driver
	first func() error
}

func (d *leaving) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, bytes, s)
}

func (d *leaving) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, bytes, s)
}

func (d *leaving) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemcpyBatchAsync(ctx, dsts, srcs, sizes, s)
}

func (d *leaving) MemcpyDtoDAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemcpyDtoDAsync(ctx, dst, src, bytes, s)
}

func (d *leaving) MemsetD8Async(ctx cu.Context, dst cu.DevicePtr, value uint8, count uintptr, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemsetD8Async(ctx, dst, value, count, s)
}

func (d *leaving) StreamWriteValue32(ctx cu.Context, s cu.Stream, dst cu.DevicePtr, value uint32, flags cu.StreamWriteValueFlags) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.StreamWriteValue32(ctx, s, dst, value, flags)
}

func (d *leaving) StreamWaitValue32(ctx cu.Context, s cu.Stream, addr cu.DevicePtr, value uint32, flags cu.StreamWaitValueFlags) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.StreamWaitValue32(ctx, s, addr, value, flags)
}

func (d *leaving) MemPrefetchAsync(ctx cu.Context, p cu.DevicePtr, n uintptr, dev cu.Device, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.MemPrefetchAsync(ctx, p, n, dev, s)
}

func (d *leaving) StreamAttachMemAsync(ctx cu.Context, s cu.Stream, p cu.DevicePtr, n uintptr, flags cu.MemAttachFlags) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.StreamAttachMemAsync(ctx, s, p, n, flags)
}

func (d *leaving) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, shared uint32, s cu.Stream, params []byte) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.LaunchKernel(ctx, f, grid, block, shared, s, params)
}

func (d *leaving) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if err := d.first(); err != nil {
		return 0, err
	}
	return d.Driver.Submit(ctx, b)
}

func (d *leaving) GraphLaunch(ctx cu.Context, x cu.GraphExec, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.GraphLaunch(ctx, x, s)
}

func (d *leaving) GraphExecUpdate(ctx cu.Context, x cu.GraphExec, graph cu.Graph) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.GraphExecUpdate(ctx, x, graph)
}

func (d *leaving) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.EventRecord(ctx, e, s)
}

func (d *leaving) StreamWaitEvent(ctx cu.Context, s cu.Stream, e cu.Event, flags cu.EventWaitFlags) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.StreamWaitEvent(ctx, s, e, flags)
}

func (d *leaving) LaunchHostFunc(ctx cu.Context, s cu.Stream, fn func()) error {
	if err := d.first(); err != nil {
		return err
	}
	return d.Driver.LaunchHostFunc(ctx, s, fn)
}

// ending is how user code and drivers end a call.
var ending = map[string]func() error{
	"error":  func() error { return errEnding },
	"panic":  func() error { panic(errEnding) },
	"Goexit": func() error { runtime.Goexit(); return nil },
}

var errEnding = errors.New("planted")

// mustEnd runs a function, which must end as ending ends a call in it.
func mustEnd(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil && v != any(errEnding) {
				t.Errorf("%s: panic: %v", what, v)
			}
		}()
		if err := f(); !errors.Is(err, errEnding) {
			t.Errorf("%s: got %v, want %v", what, err, errEnding)
		}
	}()
	<-done
}

// TestLeftInDriver: an error of the driver, a panic there, or the end of the goroutine
// there, leaves nothing in use: what the call used can be used, waited for and closed. That holds for
// short operations, and for the long ones that replace them during another short one.
func TestLeftInDriver(t *testing.T) {
	g, s := softStream(t)
	destroyed := &destroyer{Driver: g.driver}
	none := func() error { return nil }
	d := &leaving{destroyed, none}
	g.driver = d
	host, device, other := try(AllocHost[byte](g, 64, nil))(t), try(Alloc[byte](g, 64))(t), try(Alloc[byte](g, 64))(t)
	e, inBatch := try(NewEvent(g, nil))(t), try(NewEvent(g, nil))(t)
	words, managed := try(Alloc[uint32](g, 1))(t), try(AllocManaged[byte](g, 64, nil))(t)
	m := try(Load(g, []byte(kernels.PTX), nil))(t)
	k := try(m.Kernel("increment"))(t)
	graph := try(s.Capture(func(s *Stream) error { return Copy[byte](s, device, host) }))(t)
	var b Batch
	if err := errors.Join(Copy[byte](&b, device, host), b.Launch(k, Cover(1, 1), device, uint64(0)), b.Record(inBatch), b.WaitEvent(e)); err != nil {
		t.Fatal(err)
	}
	queues := map[string]bool{"copy": true, "copy back": true, "copy on the device": true, "many copies": true, "fill": true,
		"launch": true, "launch of a graph": true, "submit": true, "host function": true, "write a value": true, "wait for a value": true, "prefetch": true, "attach": true}
	for refused, f := range map[string]func() error{
		"copy":               func() error { return Copy[byte](s, device, host) },
		"copy back":          func() error { return Copy[byte](s, host, device) },
		"copy on the device": func() error { return Copy[byte](s, device, other) },
		"many copies":        func() error { return CopyAll(s, []Pair[byte]{{device, host}, {other, host}}) },
		"fill":               func() error { return Fill(s, device, 1) },
		"write a value":      func() error { return WriteValue(s, words, 1) },
		"wait for a value":   func() error { return WaitValue(s, words, cu.StreamWaitValueGEQ, 0) },
		"prefetch":           func() error { return managed.Prefetch(s, cu.CPUDevice) },
		"attach":             func() error { return managed.Attach(s, cu.MemAttachGlobal) },
		"launch":             func() error { return s.Launch(k, Cover(1, 1), device, uint64(0)) },
		"launch of a graph":  func() error { return graph.Launch(s) },
		"update of a graph": func() error {
			return graph.Update(s, func(s *Stream) error { return Copy[byte](s, device, other) })
		},
		"submit":            func() error { return s.Submit(&b) },
		"record":            func() error { return s.Record(e) },
		"wait for an event": func() error { return s.WaitEvent(e) },
		"host function":     func() error { return s.HostFunc(func() {}) },
	} {
		for how, first := range ending {
			for _, long := range []bool{false, true} {
				what := fmt.Sprintf("%s, %s, long %v", refused, how, long)
				if long && !s.state.BeginShort() {
					t.Fatalf("%s: no short operation can begin", what)
				}
				before := s.state.Issued()
				d.first = first
				mustEnd(t, what, f)
				d.first = none
				if long {
					s.state.EndShort(false)
				}
				switch counts := s.state.Issued() != before; {
				case counts && !queues[refused]:
					t.Errorf("%s: counts as queued", what)
				case !counts && queues[refused] && how == "error":
					t.Errorf("%s: what the call may have queued counts as not queued", what)
				}
				checkUnused(t, what, s.state)
				if e.state.Recorded() && refused == "record" && e.state.StandsFor().Stream() != nil {
					t.Errorf("%s: the event stands for a Record that the driver did not make", what)
				}
				for _, e := range []*Event{e, inBatch} {
					if err := s.Record(e); err != nil || e.state.StandsFor().Stream() != &s.state.Stream {
						t.Errorf("%s: %v; a Record is in progress", what, err)
					}
				}
			}
		}
	}
	if err := errors.Join(s.Submit(&b), graph.Launch(s), host.Close(), device.Close(), other.Close(), words.Close(), managed.Close(), graph.Close(), m.Close(), e.Close(), inBatch.Close()); err != nil {
		t.Error(err)
	}
	if destroyed.events != 2 {
		t.Errorf("%d events destroyed, want 2: one is in use", destroyed.events)
	}
}

// userCode is a reader, a writer and a context of a program. Each call of it runs a
// function, such as a panic.
type userCode struct {
	context.Context
	f func() error
}

func (u userCode) Read([]byte) (int, error)  { return 0, u.f() }
func (u userCode) Write([]byte) (int, error) { return 0, u.f() }
func (u userCode) Err() error                { return u.f() }

// Done returns a closed channel, unless the function does not return.
func (u userCode) Done() <-chan struct{} {
	c := make(chan struct{})
	_ = u.f()
	close(c)
	return c
}

// TestLeftInUserCode: an error of a reader, a writer, a context or a captured function, a
// panic there, or the end of the goroutine there, leaves nothing in use. The contexts of readers
// and writers never end: otherwise another goroutine calls them.
func TestLeftInUserCode(t *testing.T) {
	const n = 1 << 20
	type memories struct {
		s      *Stream
		host   *Host[byte]
		device *Device[byte]
	}
	for code, f := range map[string]func(memories, userCode) error{
		"read to the host": func(m memories, u userCode) error {
			_, err := CopyFrom(context.Background(), m.s, m.host, u)
			return err
		},
		"read to the device": func(m memories, u userCode) error {
			_, err := CopyFrom(context.Background(), m.s, m.device, u)
			return err
		},
		"write from the host": func(m memories, u userCode) error {
			_, err := CopyTo(context.Background(), m.s, u, m.host)
			return err
		},
		"write from the device": func(m memories, u userCode) error {
			_, err := CopyTo(context.Background(), m.s, u, m.device)
			return err
		},
		"context of a copy": func(m memories, u userCode) error {
			return CopyContext(u, m.s, Memory[byte](m.device), Memory[byte](Pageable(make([]byte, n))))
		},
		"context of a read":  func(m memories, u userCode) error { _, err := CopyFrom(u, m.s, m.host, u); return err },
		"context of a wait":  func(m memories, u userCode) error { return m.s.Wait(u) },
		"context of a slice": func(m memories, u userCode) error { _, err := m.host.SliceContext(u); return err },
		"capture": func(m memories, u userCode) error {
			_, err := m.s.Capture(func(s *Stream) error {
				if err := Copy[byte](s, m.device, m.host); err != nil {
					return err
				}
				return u.f()
			})
			return err
		},
	} {
		for how, end := range ending {
			what, polls := code+", "+how, code == "context of a wait"
			g, s := softStream(t)
			m := memories{s, try(AllocHost[byte](g, n, nil))(t), try(Alloc[byte](g, n))(t)}
			if err := errors.Join(Fill(s, m.device, 1), Copy[byte](s, m.host, m.device)); err != nil { // to wait for
				t.Fatal(err)
			}
			emulated := g.emulated
			if polls {
				g.emulated = nil // as for hardware, which is polled first
			}
			mustEnd(t, what, func() error { return f(m, userCode{t.Context(), end}) })
			g.emulated = emulated
			checkUnused(t, what, s.state)
			if err := errors.Join(Copy[byte](s, m.host, m.device), s.Wait(t.Context())); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, c := range []interface{ Close() error }{m.host, m.device} {
				closed := make(chan error)
				go func() { closed <- c.Close() }()
				select {
				case err := <-closed:
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("%s: a buffer is in use", what)
				}
			}
		}
	}
}

// TestReaderEndsItsGoroutine: for a context that can end, another goroutine calls the
// reader. If the reader ends that goroutine, CopyFrom returns an error and leaves nothing in
// use.
func TestReaderEndsItsGoroutine(t *testing.T) {
	g, s := softStream(t)
	device := try(Alloc[byte](g, 1<<20))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := CopyFrom(ctx, s, device, userCode{ctx, ending["Goexit"]}); !errors.Is(err, staging.ErrGoexit) {
		t.Errorf("got %v, want %v", err, staging.ErrGoexit)
	}
	checkUnused(t, "read", s.state)
	if err := errors.Join(Copy[byte](s, device, Pageable(make([]byte, 1<<20))), device.Close()); err != nil {
		t.Error(err)
	}
}

// slowDriver stops in a copy to the device and in a fill, and notes when it frees memory.
type slowDriver struct {
	cu.Driver
	in, out chan struct{}
	freed   atomic.Bool
}

func (d *slowDriver) stop() error {
	d.in <- struct{}{}
	<-d.out
	if d.freed.Load() {
		return errors.New("the memory was freed")
	}
	return nil
}

func (d *slowDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, s cu.Stream) error {
	return errors.Join(d.stop(), d.Driver.MemcpyHtoDAsync(ctx, dst, src, bytes, s))
}

func (d *slowDriver) MemsetD8Async(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr, s cu.Stream) error {
	return errors.Join(d.stop(), d.Driver.MemsetD8Async(ctx, dst, value, n, s))
}

func (d *slowDriver) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	d.freed.Store(true)
	return d.Driver.MemFree(ctx, p)
}

// TestCloseWaitsForCall: Close waits for calls of the driver that use the buffer, of
// each kind, and meanwhile no other call can use it.
func TestCloseWaitsForCall(t *testing.T) {
	for what, kind := range map[string]func(*Stream, Memory[byte], Memory[byte]) error{
		"direct": func(s *Stream, dst, src Memory[byte]) error { return Copy(s, dst, src) },
		"short":  func(s *Stream, dst, src Memory[byte]) error { return Fill(s, dst, 1) },
		"long": func(s *Stream, dst, src Memory[byte]) error {
			s.state.BeginShort() // so that the copy is long
			defer s.state.EndShort(false)
			return Copy(s, dst, src)
		},
	} {
		g, s := softStream(t)
		d := &slowDriver{Driver: g.driver, in: make(chan struct{}), out: make(chan struct{})}
		host, device := try(AllocHost[byte](g, 64, nil))(t), try(Alloc[byte](g, 64))(t)
		g.driver = d
		copied, closed := make(chan error), make(chan error)
		go func() { copied <- kind(s, device, host) }()
		<-d.in
		go func() { closed <- device.Close() }()
		for device.span.a.OpenIn(0) {
			runtime.Gosched()
		}
		if err := Fill(s, device, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: fill of a closed buffer: %v", what, err)
		}
		select {
		case <-closed:
			t.Errorf("%s: Close did not wait", what)
		default:
		}
		close(d.out)
		if err := errors.Join(<-copied, <-closed, host.Close()); err != nil || !d.freed.Load() {
			t.Errorf("%s: %v; freed %v", what, err, d.freed.Load())
		}
	}
}

// TestDestroyedWithoutEvent: a stream is destroyed while it has work, and the driver can neither
// record an event behind the work nor wait for it. Its memory stays in use until the work is done.
func TestDestroyedWithoutEvent(t *testing.T) {
	for _, call := range []string{"cuEventCreate", "cuEventRecord"} {
		soft := try(softgpu.Open(softgpu.Options{}))(t)
		g := try(OpenDriver(fault.Wrap(soft, fault.Options{Call: call, Nth: 1,
			More: []fault.Failure{{Call: "cuStreamSynchronize", Nth: 1}}}), 0))(t)
		s, device := try(NewStream(g, nil))(t), try(Alloc[byte](g, 64))(t)
		gate := make(chan struct{})
		if err := errors.Join(s.HostFunc(func() { <-gate }), Fill(s, device, 1)); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		ended := make(chan error)
		go func() { ended <- device.Wait(context.Background()) }()
		select {
		case err := <-ended:
			t.Fatalf("%s fails: the memory is not in use: %v", call, err)
		case <-time.After(20 * time.Millisecond):
		}
		close(gate)
		<-ended // the error of cuStreamSynchronize
		if err := errors.Join(device.Close(), g.Close()); err != nil {
			t.Errorf("%s fails: %v", call, err)
		}
	}
}

// eventCounter counts the events of a driver that exist.
type eventCounter struct {
	cu.Driver
	n atomic.Int64
}

func (d *eventCounter) Unwrap() cu.Driver { return d.Driver }

func (d *eventCounter) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	d.n.Add(1)
	return d.Driver.EventCreate(ctx, flags)
}

func (d *eventCounter) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.n.Add(-1)
	return d.Driver.EventDestroy(ctx, e)
}

// TestStreamPerRequest: a program makes a stream for each request, and closes everything that it
// makes for the request. A buffer that all requests read knows few streams, and few events of the
// driver remain, whether a request waits by Notify or does not wait.
func TestStreamPerRequest(t *testing.T) {
	const requests, few = 600, 80
	for _, notify := range []bool{true, false} {
		d := &eventCounter{Driver: try(softgpu.Open(softgpu.Options{}))(t)}
		g := try(OpenDriver(d, 0))(t)
		shared := try(Alloc[byte](g, 1000))(t)
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for range requests {
			s := try(NewStream(g, &StreamOptions{NonBlocking: true}))(t)
			own := try(AllocAsync[byte](s, 1000, nil))(t)
			ok(Copy[byte](s, own, shared))
			if notify {
				<-try(s.Notify())(t)
			}
			ok(own.Close())
			ok(s.Close())
		}
		known := 0
		for range shared.span.a.Pending(inflight.Write) {
			known++
		}
		if known > few {
			t.Errorf("notify %t: the buffer waits for %d streams after %d requests", notify, known, requests)
		}
		if n := d.n.Load(); n > few {
			t.Errorf("notify %t: %d events are left after %d requests", notify, n, requests)
		}
		if n := len(g.unfinished.all); n > few {
			t.Errorf("notify %t: the GPU knows %d closed streams after %d requests", notify, n, requests)
		}
		ok(shared.Close())
		ok(g.Close())
		if n := d.n.Load(); n > few {
			t.Errorf("notify %t: %d events are left at the end", notify, n)
		}
	}
}
