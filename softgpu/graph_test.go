package softgpu

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// capturing captures what f queues on a new stream.
func (r *rig) capturing(f func(s cu.Stream)) cu.Graph {
	r.t.Helper()
	s := r.stream(cu.StreamNonBlocking)
	r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
	f(s)
	g, err := r.StreamEndCapture(r.ctx, s)
	r.ok(err)
	return g
}

func TestGraphLaunches(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		dev := r.alloc(8)
		hp, host := r.pinned(8)
		clear(host)
		store := r.function("store")
		ran := 0
		g := r.capturing(func(s cu.Stream) {
			side, e := r.stream(cu.StreamNonBlocking), r.event()
			r.ok(r.MemsetD32Async(r.ctx, dev, 1, 2, s))
			r.ok(r.EventRecord(r.ctx, e, s))
			r.ok(r.StreamWaitEvent(r.ctx, side, e, 0)) // fork
			r.ok(r.run(store, 1, 1, side, dev, uint32(5)))
			r.ok(r.run(store, 1, 1, s, dev+4, uint32(6)))
			r.ok(r.EventRecord(r.ctx, e, side))
			r.ok(r.StreamWaitEvent(r.ctx, s, e, 0)) // join
			r.ok(r.MemcpyDtoHAsync(r.ctx, hp, dev, 8, s))
			r.ok(r.LaunchHostFunc(r.ctx, s, func() { ran++ }))
		})
		if host[0] != 0 || ran != 0 {
			t.Fatal("capturing ran the work")
		}
		nodes, err := r.GraphGetNodes(g)
		r.ok(err)
		var kinds []cu.GraphNodeType
		for _, n := range nodes {
			k, err := r.GraphNodeGetType(n)
			r.ok(err)
			kinds = append(kinds, k)
		}
		slices.Sort(kinds)
		if want := []cu.GraphNodeType{0, 0, 1, 2, 3}; !slices.Equal(kinds, want) {
			t.Errorf("nodes %v, want %v", kinds, want)
		}
		x, err := r.GraphInstantiate(r.ctx, g, 0)
		r.ok(err)
		r.ok(r.GraphExecKernelNodeSetParams(r.ctx, x, nodes[1], store, one, one, 0, params(dev, uint32(50))))
		r.ok(r.GraphDestroy(g))
		s := r.stream(0)
		for range 3 {
			r.ok(r.GraphLaunch(r.ctx, x, s))
		}
		r.sync(s)
		if ran != 3 || binary.LittleEndian.Uint32(host) != 50 || binary.LittleEndian.Uint32(host[4:]) != 6 {
			t.Errorf("ran %d times, host % x", ran, host)
		}
		r.ok(r.GraphExecDestroy(x))
		r.want(cu.ErrorInvalidValue, r.GraphLaunch(r.ctx, x, s))
		r.want(cu.ErrorInvalidValue, r.GraphDestroy(g))
	})
}

func TestGraphUpdate(t *testing.T) {
	r := newRig(t, Options{})
	dev := r.alloc(4)
	store := r.function("store")
	graph := func(v uint32, twice bool) cu.Graph {
		return r.capturing(func(s cu.Stream) {
			r.ok(r.run(store, 1, 1, s, dev, v))
			if twice {
				r.ok(r.run(store, 1, 1, s, dev, v))
			}
		})
	}
	x, err := r.GraphInstantiate(r.ctx, graph(1, false), 0)
	r.ok(err)
	r.ok(r.GraphExecUpdate(r.ctx, x, graph(2, false)))
	r.want(cu.ErrorGraphExecUpdateFailure, r.GraphExecUpdate(r.ctx, x, graph(3, true)))
	r.ok(r.GraphLaunch(r.ctx, x, 0))
	got := make([]byte, 4)
	r.ok(r.MemcpyDtoH(r.ctx, ptr(got), dev, 4))
	if got[0] != 2 {
		t.Errorf("got %d, want 2", got[0])
	}
}

// An H200 captures neither a graph launch nor a prefetch: both invalidate the
// capture.
func TestNotCaptured(t *testing.T) {
	r := newRig(t, Options{})
	m, err := r.MemAllocManaged(r.ctx, 4096, cu.MemAttachGlobal)
	r.ok(err)
	x, err := r.GraphInstantiate(r.ctx, r.capturing(func(cu.Stream) {}), 0)
	r.ok(err)
	for what, call := range map[string]func(s cu.Stream) error{
		"graph launch": func(s cu.Stream) error { return r.GraphLaunch(r.ctx, x, s) },
		"prefetch":     func(s cu.Stream) error { return r.MemPrefetchAsync(r.ctx, m, 4096, 0, s) },
	} {
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
		if err := call(s); !errors.Is(err, cu.ErrorStreamCaptureUnsupported) {
			t.Errorf("%s: got %v, want %v", what, err, cu.ErrorStreamCaptureUnsupported)
		}
		if _, err := r.StreamEndCapture(r.ctx, s); !errors.Is(err, cu.ErrorStreamCaptureInvalidated) {
			t.Errorf("%s: the capture ends with %v, want %v", what, err, cu.ErrorStreamCaptureInvalidated)
		}
	}
}

func TestGraphOwnsItsAllocations(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		hp, host := r.pinned(4)
		g := r.capturing(func(s cu.Stream) {
			p, err := r.MemAllocAsync(r.ctx, 4, s)
			r.ok(err)
			r.ok(r.MemsetD32Async(r.ctx, p, 9, 1, s))
			r.ok(r.MemcpyDtoHAsync(r.ctx, hp, p, 4, s))
			r.ok(r.MemFreeAsync(r.ctx, p, s))
		})
		x, err := r.GraphInstantiate(r.ctx, g, 0)
		r.ok(err)
		for range 2 {
			host[0] = 0
			r.ok(r.GraphLaunch(r.ctx, x, 0))
			r.sync(0)
			if host[0] != 9 {
				t.Errorf("got %d", host[0])
			}
		}
	})
}

func TestCaptureErrors(t *testing.T) {
	r := newRig(t, Options{})
	begin := func(mode cu.StreamCaptureMode) cu.Stream {
		t.Helper()
		s := r.stream(0)
		r.ok(r.StreamBeginCapture(r.ctx, s, mode))
		return s
	}
	end := func(s cu.Stream, code cu.Result) {
		t.Helper()
		_, err := r.StreamEndCapture(r.ctx, s)
		r.want(code, err)
		if st, err := r.StreamIsCapturing(r.ctx, s); st != cu.StreamCaptureStatusNone || err != nil {
			t.Errorf("status %d, %v after the end", st, err)
		}
	}
	r.want(cu.ErrorStreamCaptureUnsupported, r.StreamBeginCapture(r.ctx, 0, cu.StreamCaptureModeRelaxed))
	_, err := r.StreamEndCapture(r.ctx, r.stream(0))
	r.want(cu.ErrorIllegalState, err)

	s := begin(cu.StreamCaptureModeRelaxed)
	r.want(cu.ErrorIllegalState, r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
	r.alloc(4) // allowed in relaxed mode
	r.want(cu.ErrorStreamCaptureUnsupported, r.StreamSynchronize(r.ctx, s))
	if st, _ := r.StreamIsCapturing(r.ctx, s); st != cu.StreamCaptureStatusInvalidated {
		t.Errorf("status %d", st)
	}
	r.want(cu.ErrorStreamCaptureInvalidated, r.LaunchHostFunc(r.ctx, s, func() {}))
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeGlobal)
	_, err = r.MemAlloc(r.ctx, 4)
	r.want(cu.ErrorStreamCaptureUnsupported, err)
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeRelaxed) // a blocking stream
	r.want(cu.ErrorStreamCaptureImplicit, r.LaunchHostFunc(r.ctx, 0, func() {}))
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeRelaxed)
	other, e := r.stream(cu.StreamNonBlocking), r.event()
	r.ok(r.EventRecord(r.ctx, e, s))
	r.want(cu.ErrorCapturedEvent, r.EventQuery(r.ctx, e))
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeRelaxed)
	r.ok(r.EventRecord(r.ctx, e, s))
	r.ok(r.StreamWaitEvent(r.ctx, other, e, 0))
	r.ok(r.LaunchHostFunc(r.ctx, other, func() {}))
	_, err = r.StreamEndCapture(r.ctx, other)
	r.want(cu.ErrorStreamCaptureUnmatched, err)
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeRelaxed)
	r.ok(r.EventRecord(r.ctx, e, s))
	r.ok(r.StreamWaitEvent(r.ctx, other, e, 0))
	r.ok(r.LaunchHostFunc(r.ctx, other, func() {}))
	end(s, cu.ErrorStreamCaptureUnjoined)

	s = begin(cu.StreamCaptureModeRelaxed)
	outside := r.event()
	r.ok(r.EventRecord(r.ctx, outside, other))
	r.want(cu.ErrorStreamCaptureIsolation, r.StreamWaitEvent(r.ctx, s, outside, 0))
	end(s, cu.ErrorStreamCaptureInvalidated)

	s = begin(cu.StreamCaptureModeThreadLocal)
	done := make(chan error)
	go func() {
		_, err := r.MemAlloc(r.ctx, 4) // allowed on another thread
		if err == nil {
			_, err = r.StreamEndCapture(r.ctx, s)
			if errors.Is(err, cu.ErrorStreamCaptureWrongThread) {
				err = nil
			}
		}
		done <- err
	}()
	r.ok(<-done)
	_, err = r.StreamEndCapture(r.ctx, s) // the call of the wrong thread has ended it
	r.want(cu.ErrorIllegalState, err)

	s = begin(cu.StreamCaptureModeRelaxed)
	r.ok(r.EventRecord(r.ctx, e, s))
	_, err = r.StreamEndCapture(r.ctx, s)
	r.ok(err)
	r.want(cu.ErrorInvalidValue, r.EventQuery(r.ctx, e))
	r.want(cu.ErrorInvalidValue, r.EventSynchronize(r.ctx, e))
	r.want(cu.ErrorIllegalState, r.EventRecordWithFlags(r.ctx, e, s, cu.EventRecordExternal))
	r.ok(r.EventRecord(r.ctx, e, s))
	r.ok(r.EventSynchronize(r.ctx, e))
}
