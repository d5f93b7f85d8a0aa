package api

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// graphFixture has what the tests of graphs capture: a copy to the GPU, a kernel that adds
// one, and a copy back.
type graphFixture struct {
	g       *ferry.GPU
	s       *ferry.Stream
	in, out *ferry.Host[float32]
	vec     *ferry.Device[float32]
	code    *ferry.Module
	k       *ferry.Kernel
}

const graphFloats = 1000

func newGraphFixture(t *testing.T, g *ferry.GPU) *graphFixture {
	t.Helper()
	x := &graphFixture{
		g:   g,
		s:   must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t),
		in:  must(ferry.AllocHost[float32](g, graphFloats, nil))(t),
		out: must(ferry.AllocHost[float32](g, graphFloats, nil))(t),
		vec: must(ferry.Alloc[float32](g, graphFloats))(t),
	}
	x.code, x.k = load(t, g, "increment")
	t.Cleanup(func() { closeAll(t, x.in, x.out, x.vec, x.code, x.s) })
	return x
}

func (x *graphFixture) queue(s *ferry.Stream) error {
	if err := ferry.Copy(s, x.vec, x.in); err != nil {
		return err
	}
	if err := s.Launch(x.k, ferry.Cover(graphFloats, 256), x.vec, uint64(graphFloats)); err != nil {
		return err
	}
	return ferry.Copy(s, x.out, x.vec)
}

// setInput sets the input. Each call must have another base.
func (x *graphFixture) setInput(base float32) {
	for i := range x.in.Slice() {
		x.in.Slice()[i] = base + float32(i)
	}
}

// wantValues compares an output with base, base+1, ...
func wantValues(t *testing.T, got []float32, base float32) {
	t.Helper()
	if len(got) != graphFloats {
		t.Fatalf("%d elements, want %d", len(got), graphFloats)
	}
	for i, v := range got {
		if v != base+float32(i) {
			t.Fatalf("element %d is %v, want %v", i, v, base+float32(i))
		}
	}
}

// TestGraph launches a graph several times with new input. Slice waits for each launch.
func TestGraph(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	x := newGraphFixture(t, openTest(t))
	x.setInput(1)
	check(t, ferry.Fill(x.s, x.out, -1))
	check(t, x.s.Wait(context.Background()))
	graph := must(x.s.Capture(x.queue))(t)
	defer closeAll(t, graph)
	if x.out.Slice()[0] != -1 {
		t.Error("the captured work has run")
	}
	for _, base := range []float32{10, 2000, 300} {
		x.setInput(base)
		open := gate(t, x.s)
		check(t, graph.Launch(x.s))
		if x.in.ReadSlice() == nil { // must return although the gate is shut, because the graph only reads it
			t.Error("ReadSlice is nil")
		}
		waits(t, "Slice of what a graph writes", open, func() { wantValues(t, x.out.Slice(), base+1) })
	}
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	waits(t, "Slice of what a graph reads", open, func() { x.in.Slice() })
}

// TestGraphOwns: a graph keeps things that were closed after the capture. Close of the last
// graph frees them.
func TestGraphOwns(t *testing.T) {
	g := openTest(t)
	x := newGraphFixture(t, g)
	big := must(ferry.Alloc[byte](g, 256<<20))(t)
	before, _, err := g.MemInfo()
	check(t, err)
	capture := func() *ferry.Graph {
		return must(x.s.Capture(func(s *ferry.Stream) error {
			return errors.Join(x.queue(s), ferry.Fill(s, big, byte(1)))
		}))(t)
	}
	first, second := capture(), capture()
	closeAll(t, big, x.vec, x.code)
	for _, graph := range []*ferry.Graph{first, second} {
		x.setInput(77)
		check(t, graph.Launch(x.s))
		wantValues(t, x.out.Slice(), 78)
		wantError(t, x.queue(x.s), ferry.ErrClosed)
		if now, _, err := g.MemInfo(); err != nil || now > before+128<<20 {
			t.Errorf("%d bytes are free, %d were with the buffer: it was freed before the graph (%v)", now, before, err)
		}
		closeAll(t, graph, graph)
		wantError(t, graph.Launch(x.s), ferry.ErrClosed, "graph")
	}
	if now, _, err := g.MemInfo(); err != nil || now < before+128<<20 {
		t.Errorf("%d bytes are free, %d were with a buffer of 256 MiB: the last graph did not free it (%v)", now, before, err)
	}
}

// TestGraphCloseInFlight: a launch that is queued runs to its end after Close of the graph.
func TestGraphCloseInFlight(t *testing.T) {
	x := newGraphFixture(t, openTest(t))
	x.setInput(5)
	graph := must(x.s.Capture(x.queue))(t)
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	check(t, x.vec.Close())
	waits(t, "Close of the last graph that owns a buffer", open, func() { check(t, graph.Close()) })
	wantValues(t, x.out.Slice(), 6)
}

// TestGraphSeveralStreams captures work of two streams, with host functions.
func TestGraphSeveralStreams(t *testing.T) {
	g := openTest(t)
	x := newGraphFixture(t, g)
	side := must(ferry.NewStream(g, nil))(t)
	fork, join := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	other := must(ferry.AllocHost[byte](g, 64, nil))(t)
	there := must(ferry.Alloc[byte](g, 64))(t)
	var calls int
	graph := must(x.s.Capture(func(s *ferry.Stream) error {
		return errors.Join(
			s.Record(fork), side.WaitEvent(fork),
			ferry.Fill(side, there, byte(9)), ferry.Copy(side, other, there),
			side.HostFunc(func() { calls++ }), side.Record(join),
			x.queue(s), s.WaitEvent(join))
	}))(t)
	defer closeAll(t, other, there, fork, join, side, graph)
	for n := range 3 {
		x.setInput(float32(100 * n))
		clear(other.Slice())
		check(t, graph.Launch(x.s))
		check(t, x.s.Wait(context.Background()))
		wantValues(t, x.out.Slice(), float32(100*n+1))
		if got := other.Slice(); !bytes.Equal(got, bytes.Repeat([]byte{9}, 64)) {
			t.Errorf("the part of the other stream wrote %v, want nines", got)
		}
		if calls != n+1 {
			t.Errorf("the host function was called %d times, want %d", calls, n+1)
		}
	}
	// The streams run again. Events of the capture must be recorded again.
	check(t, ferry.Fill(side, there, 3))
	check(t, side.Wait(context.Background()))
	wantError(t, side.WaitEvent(fork), cu.ErrorInvalidValue, "record it again")
	wantError(t, join.Wait(context.Background()), cu.ErrorInvalidValue, "record it again")
	check(t, side.Record(join))
	check(t, join.Wait(context.Background()))
}

// TestCaptureRefused: operations that cannot be captured are refused, and the capture goes
// on.
func TestCaptureRefused(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	g := openTest(t)
	x := newGraphFixture(t, g)
	inside, outside := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	blocking := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, inside, outside, blocking)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_, err := x.s.Capture(nil)
	wantError(t, err, cu.ErrorInvalidValue, "no function")
	_, err = (*ferry.Stream)(nil).Capture(x.queue)
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
	check(t, outside.Wait(ctx))
	check(t, x.s.Record(outside))

	inner := must(x.s.Capture(x.queue))(t)
	managed, _ := ferry.AllocManaged[byte](g, 64, nil) // nil where the device has none
	defer closeAll(t, inner, managed)
	graph := must(x.s.Capture(func(s *ferry.Stream) error {
		check(t, s.Record(inside))
		wantError(t, inner.Launch(s), cu.ErrorStreamCaptureUnsupported, "call what was captured")
		if managed != nil {
			for _, err := range []error{managed.Prefetch(s, g.CUDevice()), managed.Attach(s, cu.MemAttachGlobal)} {
				if !errors.Is(err, cu.ErrorNotSupported) { // the device may lack it
					wantError(t, err, cu.ErrorStreamCaptureUnsupported, "before")
				}
			}
		}
		pageable := ferry.Pageable(make([]float32, graphFloats))
		wantError(t, ferry.Copy(s, x.vec, pageable), cu.ErrorInvalidValue, "pageable slice", "AllocHost")
		wantError(t, ferry.Copy(s, pageable, x.vec), cu.ErrorInvalidValue, "pageable slice", "AllocHost")
		_, err := s.Capture(x.queue)
		wantError(t, err, cu.ErrorIllegalState, "captures already")
		wantError(t, s.Wait(ctx), cu.ErrorStreamCaptureUnsupported, "runs when the graph is launched")
		_, err = s.Done()
		wantError(t, err, cu.ErrorStreamCaptureUnsupported, "runs when the graph is launched")
		wantError(t, g.Wait(ctx), cu.ErrorStreamCaptureUnsupported, "a stream captures")
		wantError(t, inside.Wait(ctx), cu.ErrorCapturedEvent, "nothing runs")
		_, err = inside.Done()
		wantError(t, err, cu.ErrorCapturedEvent)
		_, err = inside.Since(outside)
		wantError(t, err, cu.ErrorCapturedEvent)
		wantError(t, s.WaitEvent(outside), cu.ErrorStreamCaptureIsolation, "wait for it before")
		_, err = s.Notify()
		wantError(t, err, cu.ErrorStreamCaptureUnsupported, "HostFunc")
		check(t, ferry.Fill(g.DefaultStream(), x.out, 1))
		if x.out.Slice() == nil {
			t.Error("Slice is nil within a capture")
		}
		return x.queue(s)
	}))(t)
	x.setInput(3)
	check(t, graph.Launch(x.s))
	wantValues(t, x.out.Slice(), 4)
	closeAll(t, graph)

	graph = must(g.DefaultStream().Capture(func(s *ferry.Stream) error {
		check(t, ferry.Fill(blocking, x.out, 1)) // the default stream waits for it
		wantError(t, s.Wait(ctx), cu.ErrorStreamCaptureUnsupported)
		return x.queue(s)
	}))(t)
	x.setInput(8)
	check(t, graph.Launch(g.DefaultStream()))
	wantValues(t, x.out.Slice(), 9)
	closeAll(t, graph)
}

// TestCaptureWaitsForEarlierWork: within a capture, Slice and Close wait for work that was
// queued before it, on the stream and on one that joins.
func TestCaptureWaitsForEarlierWork(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	g := openTest(t)
	x := newGraphFixture(t, g)
	side := must(ferry.NewStream(g, nil))(t)
	fork, join := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	a, b := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.AllocHost[byte](g, 64, nil))(t)
	there := must(ferry.Alloc[byte](g, 64))(t)
	check(t, ferry.Fill(x.s, there, 7))
	open := gate(t, x.s)
	check(t, ferry.Copy(x.s, a, there))
	check(t, x.s.Record(fork))
	check(t, side.WaitEvent(fork))
	check(t, ferry.Fill(side, b, 8))
	graph := must(x.s.Capture(func(s *ferry.Stream) error {
		check(t, errors.Join(s.Record(fork), side.WaitEvent(fork), side.HostFunc(func() {}), side.Record(join), s.WaitEvent(join)))
		waits(t, "Slice within a capture", open, func() {
			if got := a.Slice(); got == nil || got[5] != 7 {
				t.Errorf("the bytes are %v", got)
			}
		})
		check(t, b.Close())
		check(t, there.Close())
		return x.queue(s)
	}))(t)
	x.setInput(1)
	check(t, graph.Launch(side))
	wantValues(t, x.out.Slice(), 2)
	closeAll(t, graph, a, fork, join, side)
}

// TestCaptureEnds: a capture ends with its function, also after an error, a panic or
// runtime.Goexit. Then nothing is retained.
func TestCaptureEnds(t *testing.T) {
	g := openTest(t)
	x := newGraphFixture(t, g)
	side := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	defer closeAll(t, side, e)
	cause := errors.New("planted")
	_, err := x.s.Capture(func(s *ferry.Stream) error { return errors.Join(x.queue(s), cause) })
	wantError(t, err, cause, "capture on stream 1")

	_, err = x.s.Capture(func(s *ferry.Stream) error {
		return errors.Join(s.Record(e), side.WaitEvent(e), ferry.Fill(side, x.vec, 1))
	})
	wantError(t, err, cu.ErrorStreamCaptureUnjoined, "record an event on each stream that joined")

	func() {
		defer func() {
			if v := recover(); v != cause {
				t.Errorf("recovered %v, want the panic", v)
			}
		}()
		_, _ = x.s.Capture(func(s *ferry.Stream) error {
			check(t, x.queue(s))
			panic(cause)
		})
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = x.s.Capture(func(s *ferry.Stream) error {
			check(t, x.queue(s))
			runtime.Goexit()
			return nil
		})
	}()
	<-done

	x.setInput(40)
	check(t, x.queue(x.s))
	wantValues(t, x.out.Slice(), 41)
	check(t, ferry.Fill(side, x.vec, 1))
	check(t, g.Wait(context.Background()))
}

// TestCaptureClosedStream: closing the stream within its capture is an error of the capture.
// Nothing hangs.
func TestCaptureClosedStream(t *testing.T) {
	x := newGraphFixture(t, openTest(t))
	s := must(ferry.NewStream(x.g, nil))(t)
	x.setInput(40)
	check(t, ferry.Copy(s, x.vec, x.in))
	_, err := s.Capture(func(s *ferry.Stream) error {
		check(t, s.HostFunc(func() {}))
		check(t, s.Close())
		if x.in.Slice() == nil {
			t.Error("Slice is nil")
		}
		return x.queue(s)
	})
	wantError(t, err, ferry.ErrClosed, "stream 2")
	_, err = s.Capture(x.queue)
	wantError(t, err, ferry.ErrClosed, "stream 2")
}

// TestGraphUpdate gives a graph other buffers and arguments.
func TestGraphUpdate(t *testing.T) {
	g := openTest(t)
	x := newGraphFixture(t, g)
	graph := must(x.s.Capture(x.queue))(t)
	out := must(ferry.AllocHost[float32](g, graphFloats, nil))(t)
	half := func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, x.vec, x.in),
			s.Launch(x.k, ferry.Cover(graphFloats/2, 128), x.vec, uint64(graphFloats/2)),
			ferry.Copy(s, out, x.vec))
	}
	x.setInput(50)
	check(t, graph.Launch(x.s))
	wantValues(t, x.out.Slice(), 51)
	check(t, graph.Update(x.s, half))
	check(t, x.out.Close()) // only the first launch uses it
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	wantError(t, graph.Update(x.s, func(s *ferry.Stream) error { return ferry.Fill(s, x.vec, 0) }), cu.ErrorGraphExecUpdateFailure, "Capture makes a new graph")
	cause := errors.New("planted")
	wantError(t, graph.Update(x.s, func(*ferry.Stream) error { return cause }), cause, "update graph 1")
	waits(t, "Slice of the new buffer", open, func() {
		for i, v := range out.Slice() {
			want := float32(50 + i)
			if i < graphFloats/2 {
				want++
			}
			if v != want {
				t.Fatalf("element %d is %v, want %v", i, v, want)
			}
		}
	})
	closeAll(t, graph, out)
	wantError(t, graph.Update(x.s, half), ferry.ErrClosed)
	wantError(t, (*ferry.Graph)(nil).Update(x.s, half), cu.ErrorInvalidValue, "no graph")
	wantError(t, (*ferry.Graph)(nil).Launch(x.s), cu.ErrorInvalidValue, "no graph")
	check(t, (*ferry.Graph)(nil).Close())
}

// TestGraphOwnsGlobals: a graph that uses a variable keeps its module.
func TestGraphOwnsGlobals(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(".version 6.3\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b32 counter[4];\n.visible .entry nothing() { ret; }\n"), nil))(t)
	v := must(ferry.Global[uint32](m, "counter"))(t)
	host := must(ferry.AllocHost[uint32](g, 4, nil))(t)
	var n uint32 = 5
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(ferry.Fill(s, v, n), ferry.Copy(s, host, v))
	}))(t)
	check(t, m.Close())
	wantError(t, ferry.Fill(s, v, n), ferry.ErrClosed)
	for range 2 {
		clear(host.Slice())
		check(t, graph.Launch(s))
		if got := host.Slice()[3]; got != n {
			t.Errorf("got %d, want %d", got, n)
		}
	}
	closeAll(t, graph, host, s)
}

// TestCaptureCopyByCPU: without unified addressing the CPU copies between host buffers, which
// cannot be captured.
func TestCaptureCopyByCPU(t *testing.T) {
	d := newFake()
	d.Attributes[cu.DeviceAttributeUnifiedAddressing] = 0
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	a, b := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.AllocHost[byte](g, 64, nil))(t)
	_, err := s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, a, b) })
	wantError(t, err, cu.ErrorInvalidValue, "the CPU copies", "Device buffer")
	closeAll(t, a, b, s)
}

// TestGraphHostPanic: Wait returns the panic of a graph's host function.
func TestGraphHostPanic(t *testing.T) {
	x := newGraphFixture(t, openTest(t))
	cause := errors.New("planted")
	graph := must(x.s.Capture(func(s *ferry.Stream) error { return s.HostFunc(func() { panic(cause) }) }))(t)
	defer closeAll(t, graph)
	for range 2 {
		check(t, graph.Launch(x.s))
		wantError(t, x.s.Wait(context.Background()), cause)
		check(t, x.s.Wait(context.Background()))
	}
}

// TestGraphConcurrent launches, updates and captures on several goroutines.
func TestGraphConcurrent(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanMapHostMemory)
	gputest.NeedsCall(t, "cuGraphExecUpdate", 12000)
	g := openTest(t)
	x := newGraphFixture(t, g)
	graph := must(x.s.Capture(x.queue))(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
			if err != nil {
				t.Error(err)
				return
			}
			mine, err := ferry.AllocHost[byte](g, 64, &ferry.HostOptions{Mapped: true})
			if err != nil {
				t.Error(err)
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			for range 10 {
				own, err := s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, mine, 1) })
				if err := errors.Join(err, graph.Launch(s), s.Wait(ctx), own.Launch(s), graph.Update(s, x.queue), own.Close(), x.out.Wait(ctx), mine.Wait(ctx)); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(mine.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	closeAll(t, graph)
}

// TestCaptureAmongOthers: while captures begin and end, another goroutine queues on the
// stream. Each of its operations runs at once or is captured.
func TestCaptureAmongOthers(t *testing.T) {
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	g := openTest(t)
	x := newGraphFixture(t, g)
	stop := make(chan struct{})
	var all sync.WaitGroup
	var ran, called int
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := x.s.HostFunc(func() { called++ }); err != nil {
				t.Error(err)
				return
			}
			ran++
			time.Sleep(50 * time.Microsecond)
		}
	})
	var graphs []*ferry.Graph
	for range 20 {
		graph, err := x.s.Capture(func(s *ferry.Stream) error {
			time.Sleep(time.Millisecond)
			return x.queue(s)
		})
		check(t, err)
		graphs = append(graphs, graph)
	}
	close(stop)
	all.Wait()
	for i, graph := range graphs {
		x.setInput(float32(i))
		check(t, graph.Launch(x.s))
		wantValues(t, x.out.Slice(), float32(i+1))
		check(t, graph.Close())
	}
	check(t, x.s.Wait(context.Background()))
	if ran == 0 || called != ran {
		t.Errorf("%d host functions were called, want %d: each once, at once or by its graph", called, ran)
	}
}

// TestCaptureNothing: a graph without operations can be launched.
func TestCaptureNothing(t *testing.T) {
	x := newGraphFixture(t, openTest(t))
	graph := must(x.s.Capture(func(*ferry.Stream) error { return nil }))(t)
	check(t, graph.Launch(x.s))
	check(t, x.s.Wait(context.Background()))
	closeAll(t, graph)
}
