package ferry_test

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
)

// step is what the tests of graphs capture: page-locked memory to the GPU, a
// kernel that adds one, and back.
type step struct {
	g       *ferry.GPU
	s       *ferry.Stream
	in, out *ferry.Host[float32]
	vec     *ferry.Device[float32]
	code    *ferry.Module
	k       *ferry.Kernel
}

const stepSize = 1000

func newStep(t *testing.T, g *ferry.GPU) *step {
	t.Helper()
	x := &step{
		g:   g,
		s:   must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t),
		in:  must(ferry.AllocHost[float32](g, stepSize, nil))(t),
		out: must(ferry.AllocHost[float32](g, stepSize, nil))(t),
		vec: must(ferry.Alloc[float32](g, stepSize))(t),
	}
	x.code, x.k = load(t, g, "increment")
	t.Cleanup(func() { closeAll(t, x.in, x.out, x.vec, x.code, x.s) })
	return x
}

func (x *step) queue(s *ferry.Stream) error {
	if err := ferry.Copy(s, x.vec, x.in); err != nil {
		return err
	}
	if err := s.Launch(x.k, ferry.Grid(stepSize, 256), x.vec, uint64(stepSize)); err != nil {
		return err
	}
	return ferry.Copy(s, x.out, x.vec)
}

// set gives the input values that no other call gives.
func (x *step) set(base float32) {
	for i := range x.in.Slice() {
		x.in.Slice()[i] = base + float32(i)
	}
}

// wantValues compares with what set gave, more added.
func wantValues(t *testing.T, got []float32, base float32) {
	t.Helper()
	if len(got) != stepSize {
		t.Fatalf("%d elements, want %d", len(got), stepSize)
	}
	for i, v := range got {
		if v != base+float32(i) {
			t.Fatalf("element %d is %v, want %v", i, v, base+float32(i))
		}
	}
}

// TestGraph launches a captured step several times with new input; Slice waits for
// each.
func TestGraph(t *testing.T) {
	x := newStep(t, openTest(t))
	x.set(1)
	check(t, ferry.Fill(x.s, x.out, -1))
	check(t, x.s.Wait(context.Background()))
	graph := must(x.s.Capture(x.queue))(t)
	defer closeAll(t, graph)
	if x.out.Slice()[0] != -1 {
		t.Error("what was captured has run")
	}
	for _, base := range []float32{10, 2000, 300} {
		x.set(base)
		open := gate(t, x.s)
		check(t, graph.Launch(x.s))
		if x.in.ReadSlice() == nil { // must return although the gate is shut: the graph only reads it
			t.Error("ReadSlice is nil")
		}
		waits(t, "Slice of what a graph writes", open, func() { wantValues(t, x.out.Slice(), base+1) })
	}
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	waits(t, "Slice of what a graph reads", open, func() { x.in.Slice() })
}

// TestGraphOwns: a graph keeps what was closed after the capture, and the last
// graph frees it.
func TestGraphOwns(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
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
		x.set(77)
		check(t, graph.Launch(x.s))
		wantValues(t, x.out.Slice(), 78)
		wantError(t, x.queue(x.s), ferry.ErrClosed)
		if now, _, err := g.MemInfo(); err != nil || now > before+128<<20 {
			t.Errorf("%d bytes are free, %d were with the buffer: it was freed under the graph (%v)", now, before, err)
		}
		closeAll(t, graph, graph)
		wantError(t, graph.Launch(x.s), ferry.ErrClosed, "graph")
	}
	if now, _, err := g.MemInfo(); err != nil || now < before+128<<20 {
		t.Errorf("%d bytes are free, %d were with a buffer of 256 MiB: the last graph did not free it (%v)", now, before, err)
	}
}

// TestGraphCloseInFlight: closing a graph that runs loses nothing.
func TestGraphCloseInFlight(t *testing.T) {
	x := newStep(t, openTest(t))
	x.set(5)
	graph := must(x.s.Capture(x.queue))(t)
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	check(t, x.vec.Close())
	waits(t, "Close of a graph that has the last of a buffer", open, func() { check(t, graph.Close()) })
	wantValues(t, x.out.Slice(), 6)
}

// TestGraphForks captures work of two streams, host functions among it.
func TestGraphForks(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
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
		x.set(float32(100 * n))
		clear(other.Slice())
		check(t, graph.Launch(x.s))
		check(t, x.s.Wait(context.Background()))
		wantValues(t, x.out.Slice(), float32(100*n+1))
		if got := other.Slice(); !bytes.Equal(got, bytes.Repeat([]byte{9}, 64)) {
			t.Errorf("the other stream's part gave %v", got)
		}
		if calls != n+1 {
			t.Errorf("the host function was called %d times, want %d", calls, n+1)
		}
	}
	// The streams are free again, and events of the capture must be recorded anew.
	check(t, ferry.Fill(side, there, 3))
	check(t, side.Wait(context.Background()))
	wantError(t, side.WaitEvent(fork), cu.ErrorCapturedEvent, "record it again")
	wantError(t, join.Wait(context.Background()), cu.ErrorCapturedEvent, "record it again")
	check(t, side.Record(join))
	check(t, join.Wait(context.Background()))
}

// TestCaptureRefusals: what cannot be captured is refused without spoiling the
// capture.
func TestCaptureRefusals(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
	inside, outside := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	blocking := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, inside, outside, blocking)
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	_, err := x.s.Capture(nil)
	wantError(t, err, cu.ErrorInvalidValue, "no function")
	_, err = (*ferry.Stream)(nil).Capture(x.queue)
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
	check(t, outside.Wait(ctx))
	check(t, x.s.Record(outside))

	inner := must(x.s.Capture(x.queue))(t)
	managed, _ := ferry.AllocManaged[byte](g, 64, nil) // where there is any
	defer closeAll(t, inner, managed)
	graph := must(x.s.Capture(func(s *ferry.Stream) error {
		check(t, s.Record(inside))
		wantError(t, inner.Launch(s), cu.ErrorStreamCaptureUnsupported, "call what was captured")
		if managed != nil {
			for _, err := range []error{managed.Prefetch(s, g.Device()), managed.Attach(s, cu.MemAttachGlobal)} {
				if !errors.Is(err, cu.ErrorNotSupported) { // the device may lack it
					wantError(t, err, cu.ErrorStreamCaptureUnsupported, "before")
				}
			}
		}
		plain := ferry.Pageable(make([]float32, stepSize))
		wantError(t, ferry.Copy(s, x.vec, plain), cu.ErrorInvalidValue, "pageable slice", "AllocHost")
		wantError(t, ferry.Copy(s, plain, x.vec), cu.ErrorInvalidValue, "pageable slice", "AllocHost")
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
		_, err = ferry.AllocAsync[byte](s, 10, nil)
		wantError(t, err, cu.ErrorStreamCaptureUnsupported, "allocate before")
		check(t, ferry.Fill(ferry.DefaultStream(g), x.out, 1))
		if x.out.Slice() == nil {
			t.Error("Slice is nil within a capture")
		}
		return x.queue(s)
	}))(t)
	x.set(3)
	check(t, graph.Launch(x.s))
	wantValues(t, x.out.Slice(), 4)
	closeAll(t, graph)

	graph = must(ferry.DefaultStream(g).Capture(func(s *ferry.Stream) error {
		check(t, ferry.Fill(blocking, x.out, 1)) // which the default stream waits for
		wantError(t, s.Wait(ctx), cu.ErrorStreamCaptureUnsupported)
		return x.queue(s)
	}))(t)
	x.set(8)
	check(t, graph.Launch(ferry.DefaultStream(g)))
	wantValues(t, x.out.Slice(), 9)
	closeAll(t, graph)
}

// TestCaptureWaitsForEarlierWork: work queued before a capture can be waited for
// within, by Slice and by Close, on the stream and on one that joins.
func TestCaptureWaitsForEarlierWork(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
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
	x.set(1)
	check(t, graph.Launch(side))
	wantValues(t, x.out.Slice(), 2)
	closeAll(t, graph, a, fork, join, side)
}

// TestCaptureEnds: a capture ends with its function, whatever that does, and what
// was used is not kept.
func TestCaptureEnds(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
	side := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	defer closeAll(t, side, e)
	cause := errors.New("changed my mind")
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

	x.set(40)
	check(t, x.queue(x.s))
	wantValues(t, x.out.Slice(), 41)
	check(t, ferry.Fill(side, x.vec, 1))
	check(t, g.Wait(context.Background()))
}

// TestCaptureClosedStream: closing the stream within its capture is no way to hang.
func TestCaptureClosedStream(t *testing.T) {
	x := newStep(t, openTest(t))
	s := must(ferry.NewStream(x.g, nil))(t)
	x.set(40)
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

// TestGraphUpdate gives a graph other buffers and arguments of the same shape.
func TestGraphUpdate(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
	graph := must(x.s.Capture(x.queue))(t)
	out := must(ferry.AllocHost[float32](g, stepSize, nil))(t)
	half := func(s *ferry.Stream) error {
		return errors.Join(
			ferry.Copy(s, x.vec, x.in),
			s.Launch(x.k, ferry.Grid(stepSize/2, 128), x.vec, uint64(stepSize/2)),
			ferry.Copy(s, out, x.vec))
	}
	x.set(50)
	check(t, graph.Launch(x.s))
	wantValues(t, x.out.Slice(), 51)
	check(t, graph.Update(x.s, half))
	check(t, x.out.Close()) // only the first launch had it
	open := gate(t, x.s)
	check(t, graph.Launch(x.s))
	wantError(t, graph.Update(x.s, func(s *ferry.Stream) error { return ferry.Fill(s, x.vec, 0) }), cu.ErrorGraphExecUpdateFailure, "Capture makes a new graph")
	cause := errors.New("never mind")
	wantError(t, graph.Update(x.s, func(*ferry.Stream) error { return cause }), cause, "update graph 1")
	waits(t, "Slice of the new buffer", open, func() {
		for i, v := range out.Slice() {
			want := float32(50 + i)
			if i < stepSize/2 {
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
	m := must(ferry.Load(g, []byte(".version 6.3\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b32 counter[4];\n.visible .entry nothing() { ret; }\n")))(t)
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

// TestCaptureByCPU: without unified addressing the CPU copies between buffers of
// the host, and a graph cannot have that done.
func TestCaptureByCPU(t *testing.T) {
	d := newFake()
	d.attributes[cu.DeviceAttributeUnifiedAddressing] = 0
	g := openFake(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	a, b := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.AllocHost[byte](g, 64, nil))(t)
	_, err := s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, a, b) })
	wantError(t, err, cu.ErrorInvalidValue, "the CPU copies", "Device buffer")
	closeAll(t, a, b, s)
}

// TestGraphHostPanic: a panic in a graph's host function is told by a wait.
func TestGraphHostPanic(t *testing.T) {
	x := newStep(t, openTest(t))
	cause := errors.New("in a graph")
	graph := must(x.s.Capture(func(s *ferry.Stream) error { return s.HostFunc(func() { panic(cause) }) }))(t)
	defer closeAll(t, graph)
	for range 2 {
		check(t, graph.Launch(x.s))
		wantError(t, x.s.Wait(context.Background()), cause)
		check(t, x.s.Wait(context.Background()))
	}
}

// TestGraphConcurrent launches, updates and captures from several goroutines.
func TestGraphConcurrent(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
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
			ctx, cancel := context.WithTimeout(context.Background(), late)
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

// TestCaptureAmongOthers: captures that begin and end while others queue and wait
// on the stream lose nothing: each operation runs or is captured.
func TestCaptureAmongOthers(t *testing.T) {
	g := openTest(t)
	x := newStep(t, g)
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
		x.set(float32(i))
		check(t, graph.Launch(x.s))
		wantValues(t, x.out.Slice(), float32(i+1))
		check(t, graph.Close())
	}
	check(t, x.s.Wait(context.Background()))
	if ran == 0 || called != ran {
		t.Errorf("%d host functions were called, want %d: each once, when queued or with its graph", called, ran)
	}
}

// TestCaptureNothing: an empty graph is one.
func TestCaptureNothing(t *testing.T) {
	x := newStep(t, openTest(t))
	graph := must(x.s.Capture(func(*ferry.Stream) error { return nil }))(t)
	check(t, graph.Launch(x.s))
	check(t, x.s.Wait(context.Background()))
	closeAll(t, graph)
}
