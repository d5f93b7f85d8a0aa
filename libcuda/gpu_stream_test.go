package libcuda_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

func TestGPUStreamProperties(t *testing.T) {
	g := newGPU(t)
	least, greatest, err := g.CtxGetStreamPriorityRange(g.ctx)
	g.must(err)
	for _, c := range []struct{ ask, want int32 }{{least, least}, {greatest, greatest}, {greatest - 10, greatest}} {
		s, err := g.StreamCreateWithPriority(g.ctx, cu.StreamNonBlocking, c.ask)
		g.must(err)
		priority, err := g.StreamGetPriority(g.ctx, s)
		g.must(err)
		flags, err := g.StreamGetFlags(g.ctx, s)
		g.must(err)
		of, err := g.StreamGetCtx(g.ctx, s)
		g.must(err)
		if priority != c.want || flags != cu.StreamNonBlocking || of != g.ctx {
			t.Errorf("priority %d, flags %v, context %#x, want %d, %v, %#x", priority, flags, of, c.want, cu.StreamNonBlocking, g.ctx)
		}
		g.must(g.StreamDestroy(g.ctx, s))
	}
	s, err := g.StreamCreate(g.ctx, cu.StreamDefault)
	g.must(err)
	flags, err := g.StreamGetFlags(g.ctx, s)
	g.must(err)
	if flags != cu.StreamDefault {
		t.Errorf("flags %v", flags)
	}
	g.must(g.StreamDestroy(g.ctx, s))
}

// gate puts a host function into a stream that blocks it until open is called.
func (g *gpu) gate(s cu.Stream) (open func()) {
	g.Helper()
	ch := make(chan struct{})
	open = sync.OnceFunc(func() { close(ch) })
	g.Cleanup(open)
	g.must(g.LaunchHostFunc(g.ctx, s, func() { <-ch }))
	return open
}

func TestGPUStreamsAndEvents(t *testing.T) {
	g := newGPU(t)
	first, second := g.stream(), g.stream()
	done := g.event()
	g.must(g.EventQuery(g.ctx, done)) // never recorded: done
	var mu sync.Mutex
	var order []string
	note := func(what string) func() {
		return func() {
			mu.Lock()
			order = append(order, what)
			mu.Unlock()
		}
	}
	open := g.gate(first)
	g.must(g.LaunchHostFunc(g.ctx, first, note("first")))
	g.must(g.EventRecord(g.ctx, done, first))
	g.must(g.StreamWaitEvent(g.ctx, second, done, cu.EventWaitDefault))
	g.must(g.LaunchHostFunc(g.ctx, second, note("second")))
	for _, err := range []error{g.StreamQuery(g.ctx, first), g.StreamQuery(g.ctx, second), g.EventQuery(g.ctx, done)} {
		g.want(err, cu.ErrorNotReady)
	}
	time.Sleep(20 * time.Millisecond)
	mu.Lock()
	if len(order) != 0 {
		t.Errorf("%v ran before the gate opened", order)
	}
	mu.Unlock()
	open()
	g.must(g.EventSynchronize(g.ctx, done))
	g.must(g.EventQuery(g.ctx, done))
	g.must(g.StreamSynchronize(g.ctx, second))
	g.must(g.StreamSynchronize(g.ctx, first))
	g.must(g.StreamQuery(g.ctx, first))
	if want := []string{"first", "second"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestGPUEventTime(t *testing.T) {
	g := newGPU(t)
	s, start, end := g.stream(), g.event(), g.event()
	g.must(g.EventRecord(g.ctx, start, s))
	g.must(g.LaunchHostFunc(g.ctx, s, func() { time.Sleep(20 * time.Millisecond) }))
	g.must(g.EventRecordWithFlags(g.ctx, end, s, cu.EventRecordDefault))
	_, err := g.EventElapsedTime(g.ctx, start, end)
	g.want(err, cu.ErrorNotReady)
	g.must(g.EventSynchronize(g.ctx, end))
	ms, err := g.EventElapsedTime(g.ctx, start, end)
	g.must(err)
	if ms < 19 || ms > 10_000 {
		t.Errorf("%v ms, want at least 20 and not much more", ms)
	}
	quiet, err := g.EventCreate(g.ctx, cu.EventDisableTiming)
	g.must(err)
	g.must(g.EventRecord(g.ctx, quiet, s))
	g.must(g.EventSynchronize(g.ctx, quiet))
	_, err = g.EventElapsedTime(g.ctx, start, quiet)
	g.want(err, cu.ErrorInvalidHandle)
	g.must(g.EventDestroy(g.ctx, quiet))
}

// TestGPUHostFuncs queues many host functions between copies. Each sees the data of the
// copy before it.
func TestGPUHostFuncs(t *testing.T) {
	g := newGPU(t)
	const n, rounds = 256, 200
	s := g.stream()
	dev := g.alloc(n)
	host, p := g.pinned(n, 0)
	start := random(n)
	copy(host, start)
	var order []int
	for i := range rounds {
		g.must(g.MemcpyHtoDAsync(g.ctx, dev, p, n, s))
		g.must(g.MemsetD8Async(g.ctx, dev, byte(i), 1, s))
		g.must(g.MemcpyDtoHAsync(g.ctx, p, dev, n, s))
		g.must(g.LaunchHostFunc(g.ctx, s, func() {
			order = append(order, i)
			if host[0] != byte(i) {
				t.Errorf("round %d: first byte %d", i, host[0])
			}
			host[1+i]++
		}))
	}
	g.must(g.StreamSynchronize(g.ctx, s))
	for i := range rounds {
		start[1+i]++
	}
	start[0] = rounds - 1
	g.same("host memory", host, start)
	if len(order) != rounds || !slices.IsSorted(order) {
		t.Errorf("order %v", order)
	}
}

func TestGPUHostFuncPanic(t *testing.T) {
	g := newGPU(t)
	s, other := g.stream(), g.stream()
	after := false
	g.must(g.LaunchHostFunc(g.ctx, s, func() { panic(io.ErrUnexpectedEOF) }))
	g.must(g.LaunchHostFunc(g.ctx, s, func() { after = true }))
	g.must(g.StreamSynchronize(g.ctx, other))
	err := g.StreamSynchronize(g.ctx, s)
	p, ok := errors.AsType[*cu.HostPanic](err)
	if !ok || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(p.Stack), "TestGPUHostFuncPanic") {
		t.Errorf("error %+v, want the panic", err)
	}
	if !after {
		t.Error("the stream stopped after the panic")
	}
	g.must(g.StreamSynchronize(g.ctx, s))
	g.must(g.CtxSynchronize(g.ctx))
}

func TestGPUCallInHostFunc(t *testing.T) {
	g := newGPU(t)
	s, event := g.stream(), g.event()
	var inside error
	g.must(g.LaunchHostFunc(g.ctx, s, func() { inside = g.StreamSynchronize(g.ctx, s) }))
	g.must(g.StreamSynchronize(g.ctx, s))
	g.want(inside, cu.ErrorNotPermitted)
	g.must(g.EventRecord(g.ctx, event, s))
	g.must(g.EventSynchronize(g.ctx, event))
}

// TestGPUByHandle makes calls on a stream while another context is current, and after
// that context was destroyed. They must run in the context of the stream.
func TestGPUByHandle(t *testing.T) {
	h := newHot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	other, err := h.CtxCreate(0, h.gpu.dev)
	h.must(err)
	back, at := h.pinned(4096, 0)
	source, from := h.pinned(4096, 0)
	for _, when := range []string{"another context", "a destroyed context"} {
		switch when {
		case "another context":
			_, _, err := h.MemGetInfo(other) // makes it current
			h.must(err)
		default:
			done := make(chan error)
			go func() { done <- h.CtxDestroy(other) }() // by another thread
			h.must(<-done)
		}
		data := random(4096)
		copy(source, data)
		h.must(h.MemcpyHtoDAsync(h.ctx, h.dev, from, 4096, h.stream))
		h.must(h.EventRecord(h.ctx, h.event, h.stream))
		h.must(h.StreamWaitEvent(h.ctx, h.stream, h.event, 0))
		h.must(h.LaunchKernel(h.ctx, h.empty, one, one, 0, h.stream, nil))
		h.must(h.MemcpyDtoHAsync(h.ctx, at, h.dev, 4096, h.stream))
		for h.EventQuery(h.ctx, h.event) == cu.ErrorNotReady {
		}
		h.must(h.StreamSynchronize(h.ctx, h.stream))
		h.same("copies under "+when, back, data)
		h.must(h.MemsetD32Async(h.ctx, h.dev, 0x01010101, 1024, h.stream))
		h.must(h.MemcpyDtoHAsync(h.ctx, at, h.dev, 4096, h.stream))
		h.must(h.StreamSynchronize(h.ctx, h.stream))
		h.same("a fill under "+when, back, bytes.Repeat([]byte{1}, 4096))
		h.must(h.StreamWriteValue32(h.ctx, h.stream, h.dev+4, 0x64636261, 0))
		h.must(h.StreamWriteValue64(h.ctx, h.stream, h.dev+8, 0x6867666564636261, 0))
		h.must(h.MemcpyDtoHAsync(h.ctx, at, h.dev, 4096, h.stream))
		h.must(h.StreamSynchronize(h.ctx, h.stream))
		h.same("values under "+when, back[:16], []byte("\x01\x01\x01\x01abcdabcdefgh"))
		var b cu.Batch
		b.MemcpyHtoDAsync(h.dev, from, 4096, h.stream)
		b.LaunchKernel(h.empty, one, one, 0, h.stream, nil)
		b.MemcpyDtoHAsync(at, h.dev, 4096, h.stream)
		b.EventRecord(h.event, h.stream)
		done, err := h.Submit(h.ctx, &b)
		h.must(err)
		h.must(h.StreamSynchronize(h.ctx, h.stream))
		if h.same("a batch under "+when, back, data); done != b.Len() {
			t.Errorf("a batch under %s: %d of %d calls", when, done, b.Len())
		}
	}
}

// TestGPUManyGoroutines makes calls with two contexts from many goroutines at once.
func TestGPUManyGoroutines(t *testing.T) {
	g := newGPU(t)
	second, err := g.CtxCreate(0, g.dev)
	g.must(err)
	contexts := []cu.Context{g.ctx, second}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			ctx := contexts[i%2]
			p, err := g.MemAlloc(ctx, 4096)
			if err != nil {
				t.Error(err)
				return
			}
			for range 200 {
				data, back := random(4096), make([]byte, 4096)
				if err := errors.Join(g.MemcpyHtoD(ctx, p, cu.HostPtr(&data[0]), 4096), g.MemcpyDtoH(ctx, cu.HostPtr(&back[0]), p, 4096)); err != nil {
					t.Error(err)
					return
				}
				g.same("copy", back, data)
				a, err := g.PointerGetAttributes(ctx, p)
				if err != nil || a.Context != ctx {
					t.Errorf("context %#x, %v, want %#x", a.Context, err, ctx)
					return
				}
			}
			if err := g.MemFree(ctx, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	g.must(g.CtxDestroy(second))
}
