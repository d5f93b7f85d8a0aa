package softgpu

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// journal records the names of host functions in the order in which they run.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) func() {
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, s)
	}
}

func (j *journal) before(t *testing.T, a, b string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if x, y := slices.Index(j.lines, a), slices.Index(j.lines, b); x < 0 || y < 0 || x > y {
		t.Errorf("%s must come before %s: %v", a, b, j.lines)
	}
}

func slow(f func()) func() {
	return func() { time.Sleep(5 * time.Millisecond); f() }
}

func TestLegacyStreamOrder(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		var j journal
		a, b := r.stream(0), r.stream(0)
		free, ping := r.stream(cu.StreamNonBlocking), r.function("ping")
		r.ok(r.LaunchHostFunc(r.ctx, a, slow(j.add("a"))))
		open := r.gate(ping, free)
		r.ok(r.LaunchHostFunc(r.ctx, cu.StreamLegacy, slow(j.add("legacy"))))
		r.ok(r.LaunchHostFunc(r.ctx, b, j.add("b")))
		r.sync(b) // the non-blocking stream is still blocked
		open()
		r.sync(free)
		j.before(t, "a", "legacy")
		j.before(t, "legacy", "b")
	})
}

func TestLegacyStreamWaitsForDestroyedStreams(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		var j journal
		a := r.stream(0)
		r.ok(r.LaunchHostFunc(r.ctx, a, slow(j.add("a"))))
		began := time.Now()
		r.ok(r.StreamDestroy(r.ctx, a))
		if r.schedule == Eager && time.Since(began) > 4*time.Millisecond {
			t.Log("destroying took long") // depends on this computer: not a failure
		}
		r.ok(r.LaunchHostFunc(r.ctx, 0, j.add("legacy")))
		r.sync(0)
		j.before(t, "a", "legacy")
		r.want(cu.ErrorInvalidHandle, r.StreamSynchronize(r.ctx, a))
	})
}

func TestWaitEventIsASnapshot(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		var j journal
		a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
		e, ping := r.event(), r.function("ping")
		r.ok(r.StreamWaitEvent(r.ctx, b, e, 0)) // never recorded, so it does not wait
		r.ok(r.LaunchHostFunc(r.ctx, a, slow(j.add("first"))))
		r.ok(r.EventRecord(r.ctx, e, a))
		open := r.gate(ping, a)
		r.ok(r.StreamWaitEvent(r.ctx, b, e, 0))
		r.ok(r.LaunchHostFunc(r.ctx, b, j.add("after")))
		r.ok(r.EventRecord(r.ctx, e, a)) // too late to change what b waits for
		r.sync(b)
		j.before(t, "first", "after")
		r.want(cu.ErrorNotReady, r.EventQuery(r.ctx, e))
		open()
		r.ok(r.EventSynchronize(r.ctx, e))
		r.ok(r.EventQuery(r.ctx, e))
	})
}

func TestPerThreadStream(t *testing.T) {
	r := newRig(t, Options{})
	ping := r.function("ping")
	var open func()
	var wg sync.WaitGroup
	wg.Go(func() { open = r.gate(ping, cu.StreamPerThread) })
	wg.Wait()
	r.ok(r.LaunchHostFunc(r.ctx, cu.StreamPerThread, func() {}))
	r.sync(cu.StreamPerThread) // not the other goroutine's stream
	open()
	r.sync(cu.StreamLegacy) // the legacy stream waits for both
}

func TestStreamProperties(t *testing.T) {
	r := newRig(t, Options{})
	s, err := r.StreamCreateWithPriority(r.ctx, cu.StreamNonBlocking, -99)
	r.ok(err)
	if p, err := r.StreamGetPriority(r.ctx, s); p != -5 || err != nil {
		t.Errorf("priority %d, %v; want -5", p, err)
	}
	if f, err := r.StreamGetFlags(r.ctx, s); f != cu.StreamNonBlocking || err != nil {
		t.Errorf("flags %d, %v", f, err)
	}
	if c, err := r.StreamGetCtx(r.ctx, s); c != r.ctx || err != nil {
		t.Errorf("context %#x, %v; want %#x", c, err, r.ctx)
	}
	_, err = r.StreamCreate(r.ctx, 8)
	r.want(cu.ErrorInvalidValue, err)
	r.ok(r.StreamDestroy(r.ctx, s))
	r.want(cu.ErrorInvalidHandle, r.StreamDestroy(r.ctx, s))
	r.want(cu.ErrorInvalidHandle, r.StreamDestroy(r.ctx, cu.StreamLegacy))
}

func TestHostFunctionMustNotCall(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		var inside, outside error
		s := r.stream(0)
		started, gate := make(chan struct{}), make(chan struct{})
		r.ok(r.LaunchHostFunc(r.ctx, s, func() {
			_, inside = r.MemAlloc(r.ctx, 64)
			close(started)
			<-gate
		}))
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, s))
		<-started
		_, outside = r.MemAlloc(r.ctx, 64)
		close(gate)
		r.sync(s)
		r.want(cu.ErrorNotPermitted, inside)
		r.ok(outside)
	})
}

func TestHostFunctionPanics(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s := r.stream(0)
		var after atomic.Bool
		r.ok(r.LaunchHostFunc(r.ctx, s, func() { panic("boom") }))
		r.ok(r.LaunchHostFunc(r.ctx, s, func() { after.Store(true) }))
		err := r.StreamSynchronize(r.ctx, s)
		p, ok := errors.AsType[*cu.HostPanic](err)
		if !ok || p.Value != "boom" || len(p.Stack) == 0 {
			t.Fatalf("got %v, want the panic", err)
		}
		if !after.Load() {
			t.Error("the stream did not go on")
		}
		r.sync(s)
		r.ok(r.LaunchHostFunc(r.ctx, s, func() { panic("again") }))
		r.ok(r.StreamDestroy(r.ctx, s))
		if err := r.CtxSynchronize(r.ctx); err == nil {
			t.Error("the panic in a destroyed stream was lost")
		}
		r.ok(r.CtxSynchronize(r.ctx))
	})
}

func TestQueriesMakeProgress(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s := r.stream(0)
		dev := r.alloc(1 << 20)
		r.ok(r.MemsetD8Async(r.ctx, dev, 1, 1<<20, s))
		for n := 0; ; n++ {
			err := r.StreamQuery(r.ctx, s)
			if err == nil {
				break
			}
			r.want(cu.ErrorNotReady, err)
			if n > 1e6 {
				t.Fatal("never ready")
			}
		}
	})
}
