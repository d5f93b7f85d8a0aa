package api

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/softgpu"
)

// captures is a software GPU, a stream that captures, and what it fills.
type captures struct {
	*hookDriver
	faults *fault.Driver
	g      *ferry.GPU
	s      *ferry.Stream
	on     *ferry.Device[byte]
}

// newCaptures opens a GPU whose calls fail as o says.
func newCaptures(t *testing.T, o fault.Options) *captures {
	t.Helper()
	x := &captures{faults: fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), o)}
	x.hookDriver = newHookDriver(x.faults)
	x.g = must(ferry.OpenDriver(x.hookDriver, 0))(t)
	x.s = must(ferry.NewStream(x.g, nil))(t)
	x.on = must(ferry.Alloc[byte](x.g, 100))(t)
	return x
}

// capture captures a fill and what f queues, and closes the graph.
func (x *captures) capture(f func()) error {
	graph, err := x.s.Capture(func(s *ferry.Stream) error {
		f()
		return ferry.Fill(s, x.on, 1)
	})
	return errors.Join(err, graph.Close())
}

// close checks that no capture is left, that the context can be waited for, and that all can be
// closed.
func (x *captures) close(t *testing.T, more ...interface{ Close() error }) {
	t.Helper()
	if live := x.faults.Live(); slices.ContainsFunc(live, func(o string) bool { return strings.HasPrefix(o, "capture") }) {
		t.Errorf("left %v", live)
	}
	check(t, x.g.Wait(context.Background()))
	check(t, x.capture(func() {}))
	closeAll(t, more...)
	closeAll(t, x.on, x.s, x.g)
	if live := x.faults.Live(); len(live) > 0 {
		t.Errorf("left after all was closed: %v", live)
	}
}

// TestTwoCapturesAtOnce: while one goroutine begins a capture of a stream, another one does. One of
// them is refused, the other one captures, and nothing is left.
func TestTwoCapturesAtOnce(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	inside, over, second := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	x.during("StreamBeginCapture", func() error {
		go func() {
			second <- x.capture(func() { close(inside); <-over })
		}()
		select {
		case <-inside:
		case err := <-second:
			second <- err
		}
		return nil
	})
	first := x.capture(func() {})
	close(over)
	refused := first
	if err := <-second; err != nil {
		refused = errors.Join(refused, err)
	}
	wantError(t, refused, cu.ErrorIllegalState, "stream 1", "it captures already")
	if strings.Count(refused.Error(), "already") != 1 {
		t.Errorf("two captures are refused, want one: %v", refused)
	}
	x.close(t)
}

// TestManyCapturesAtOnce: of captures of one stream by several goroutines at any time, those that
// are not refused are good, and nothing is left.
func TestManyCapturesAtOnce(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	captured := make([]int, 4)
	var all sync.WaitGroup
	for i := range captured {
		all.Go(func() {
			for range 200 {
				switch err := x.capture(func() {}); {
				case err == nil:
					captured[i]++
				case !errors.Is(err, cu.ErrorIllegalState):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if slices.Max(captured) == 0 {
		t.Error("all captures were refused")
	}
	x.close(t)
}

// TestJoinTwiceAtOnce: two goroutines make a stream part of a capture at the same time. The one that
// is refused does not invalidate the capture.
func TestJoinTwiceAtOnce(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	side, fork, join := must(ferry.NewStream(x.g, nil))(t), must(ferry.NewEvent(x.g, nil))(t), must(ferry.NewEvent(x.g, nil))(t)
	var second error
	check(t, x.capture(func() {
		check(t, x.s.Record(fork))
		x.during("StreamWaitEvent", func() error { second = side.WaitEvent(fork); return nil })
		check(t, side.WaitEvent(fork))
		check(t, ferry.Fill(side, x.on, 2))
		check(t, side.Record(join))
		check(t, x.s.WaitEvent(join))
	}))
	wantError(t, second, cu.ErrorIllegalState, "it captures already")
	x.close(t, side, fork, join)
}

// TestCaptureEndRefused: the driver refuses the end of a capture. The capture ends all the same.
func TestCaptureEndRefused(t *testing.T) {
	for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
		x := newCaptures(t, fault.Options{Call: "cuStreamEndCapture", Nth: 1, Mode: mode, Code: cu.ErrorUnknown})
		wantError(t, x.capture(func() {}), cu.ErrorUnknown, "stream 1")
		x.close(t)
	}
}

// TestCaptureOfClosedGPU: a stream that has joined a capture is closed, and its GPU. The context
// stays until the capture is over.
func TestCaptureOfClosedGPU(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	other := must(ferry.OpenDriver(x.hookDriver, 0))(t)
	side, fork := must(ferry.NewStream(other, nil))(t), must(ferry.NewEvent(x.g, nil))(t)
	check(t, x.capture(func() {
		check(t, x.s.Record(fork))
		check(t, side.WaitEvent(fork))
		closeAll(t, side, other)
		if x.count("DevicePrimaryCtxRelease") != 0 {
			t.Error("the context was released in the capture")
		}
	}))
	if n := x.count("DevicePrimaryCtxRelease"); n != 1 {
		t.Errorf("the context was released %d times after the capture, want once", n)
	}
	x.close(t, fork)
}

// TestWaitBesideCapture: a goroutine begins a capture while another one waits for all work of the
// context, with the same GPU or another one of the context. The driver looks for captures a little
// later than the wait begins. The capture is good.
func TestWaitBesideCapture(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	other := must(ferry.OpenDriver(x.hookDriver, 0))(t)
	for i := range 100 {
		g := []*ferry.GPU{x.g, other}[i%2]
		captured, inside, waited := make(chan error, 1), make(chan struct{}), make(chan struct{})
		late := false
		x.during("CtxSynchronize", func() error {
			began := time.Now()
			go func() { captured <- x.capture(func() { close(inside); <-waited }) }()
			for range 100 {
				select {
				case <-inside:
				default:
					runtime.Gosched()
				}
			}
			late = time.Since(began) > 50*time.Millisecond // no driver takes so long
			return nil
		})
		err := g.Wait(context.Background())
		close(waited)
		if err = errors.Join(err, <-captured); err != nil && !late {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	x.close(t, other)
}

// TestWaitInCapture: while a stream captures, waits for its context are refused, with any GPU of the
// context, and the capture goes on.
func TestWaitInCapture(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	other := must(ferry.OpenDriver(x.hookDriver, 0))(t)
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	check(t, x.capture(func() {
		for _, g := range []*ferry.GPU{x.g, other} {
			for _, ctx := range []context.Context{context.Background(), canEnd} {
				wantError(t, g.Wait(ctx), cu.ErrorStreamCaptureUnsupported, "a stream captures")
			}
		}
	}))
	check(t, other.Wait(context.Background()))
	x.close(t, other)
}

// TestCloseInCapture: a GPU is closed while a stream of another GPU of the context captures. Close
// waits for the work of its GPU, and the capture goes on.
func TestCloseInCapture(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	for _, name := range []string{"idle", "default stream", "closed stream"} {
		other := must(ferry.OpenDriver(x.hookDriver, 0))(t)
		s := other.DefaultStream()
		if name == "closed stream" {
			s = must(ferry.NewStream(other, &ferry.StreamOptions{NonBlocking: true}))(t)
		}
		open, ran := func() {}, name == "idle"
		if name != "idle" {
			open = gate(t, s)
			check(t, s.HostFunc(func() { ran = true }))
			closeAll(t, s)
		}
		check(t, x.capture(func() {
			closed := make(chan error, 1)
			go func() { closed <- other.Close() }()
			if name != "idle" {
				select {
				case err := <-closed:
					t.Errorf("%s: Close returns %v before the work of the GPU is done", name, err)
				case <-time.After(shortWait):
				}
			}
			open()
			check(t, <-closed)
			if !ran {
				t.Errorf("%s: the work is not done after Close", name)
			}
		}))
	}
	x.close(t)
}

// TestNoStaleErrorOfCapture: nobody is left to return the error of a wait that was refused because a
// stream captured, or because the GPU was closed. No later call returns it.
func TestNoStaleErrorOfCapture(t *testing.T) {
	for _, stale := range []error{cu.ErrorStreamCaptureUnsupported, cu.ErrorStreamCaptureImplicit, ferry.ErrClosed} {
		x := newCaptures(t, fault.Options{})
		for call, wait := range map[string]func(context.Context) error{
			"CtxSynchronize": x.g.Wait, "StreamSynchronize": x.s.Wait,
		} {
			ctx, cancel := context.WithCancel(context.Background())
			returns, before := make(chan struct{}), runtime.NumGoroutine()
			x.during(call, func() error { cancel(); <-returns; return stale })
			wantError(t, wait(ctx), context.Canceled)
			close(returns)
			eventually(t, "the call has returned", func() bool { return runtime.NumGoroutine() <= before })
			check(t, wait(context.Background()))
		}
		x.close(t)
	}
}

// TestWaitAfterRefusedWait: a wait that begins after a capture is not refused because it shares the
// driver call of a wait that began in the capture.
func TestWaitAfterRefusedWait(t *testing.T) {
	x := newCaptures(t, fault.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entered, returns, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	x.during("CtxSynchronize", func() error { close(entered); <-returns; return cu.ErrorStreamCaptureUnsupported })
	go func() { first <- x.g.Wait(ctx) }()
	<-entered
	second := make(chan error, 1)
	go func() { second <- x.g.Wait(ctx) }()
	time.Sleep(shortWait) // so that the second shares the call; the test holds if it does not
	close(returns)
	check(t, <-first) // its second try is not refused
	check(t, <-second)
	x.close(t)
}
