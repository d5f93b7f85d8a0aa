package check

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/ferrygpu/ferry/cu"
)

// scripted is a driver without a device, whose module has a variable of a chosen size, always at
// one address.
type scripted struct {
	cu.Driver
	bytes   uintptr
	handles uint64
}

func (d *scripted) next() uint64 { d.handles++; return d.handles }

func (d *scripted) DevicePrimaryCtxRetain(cu.Device) (cu.Context, error) { return 1, nil }
func (d *scripted) DevicePrimaryCtxRelease(cu.Device) error              { return nil }
func (d *scripted) CtxCreate(cu.CtxFlags, cu.Device) (cu.Context, error) {
	return cu.Context(d.next()), nil
}
func (d *scripted) CtxDestroy(cu.Context) error { return nil }
func (d *scripted) MemAlloc(cu.Context, uintptr) (cu.DevicePtr, error) {
	return cu.DevicePtr(d.next() << 20), nil
}
func (d *scripted) MemFree(cu.Context, cu.DevicePtr) error                 { return nil }
func (d *scripted) MemGetInfo(cu.Context) (free, total uintptr, err error) { return 0, 0, nil }
func (d *scripted) ModuleUnload(cu.Context, cu.Module) error               { return nil }
func (d *scripted) ModuleGetGlobal(cu.Context, cu.Module, string) (cu.DevicePtr, uintptr, error) {
	return 1 << 40, d.bytes, nil
}
func (d *scripted) MemsetD8Async(cu.Context, cu.DevicePtr, uint8, uintptr, cu.Stream) error {
	return nil
}
func (d *scripted) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	return cu.Stream(d.next()), nil
}
func (d *scripted) StreamDestroy(cu.Context, cu.Stream) error     { return nil }
func (d *scripted) StreamSynchronize(cu.Context, cu.Stream) error { return nil }
func (d *scripted) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return nil
}
func (d *scripted) StreamBeginCapture(cu.Context, cu.Stream, cu.StreamCaptureMode) error { return nil }
func (d *scripted) StreamEndCapture(cu.Context, cu.Stream) (cu.Graph, error) {
	return cu.Graph(d.next()), nil
}
func (d *scripted) GraphInstantiate(cu.Context, cu.Graph, uint64) (cu.GraphExec, error) {
	return cu.GraphExec(d.next()), nil
}
func (d *scripted) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) {
	return cu.Event(d.next()), nil
}
func (d *scripted) EventRecord(cu.Context, cu.Event, cu.Stream) error { return nil }
func (d *scripted) EventDestroy(cu.Context, cu.Event) error           { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnloadedVariables: variables end with their module. Another one can have the address.
func TestUnloadedVariables(t *testing.T) {
	inner := &scripted{}
	d := Wrap(inner, Options{})
	const module, stream = 1, 1
	for i := range 3 * mostFreed {
		inner.bytes = uintptr(4 + i%1000)
		p, n, err := d.ModuleGetGlobal(1, module, "x")
		must(t, err)
		must(t, d.MemsetD8Async(1, p, 0, n, stream))
		if i%2 == 0 { // the other modules end unseen
			must(t, d.ModuleUnload(1, module))
		}
	}
	if list := d.Findings(); len(list) > 0 {
		t.Fatalf("found %v", &list[0])
	}
	if n := len(d.memories.all); n > 3 {
		t.Errorf("%d address ranges are kept, want the last variable, and what is left of longer ones", n)
	}
	if n := len(d.memories.freed); n > mostFreed {
		t.Errorf("%d freed variables are kept, want at most %d", n, mostFreed)
	}
	must(t, d.ModuleUnload(1, module))
	must(t, d.MemsetD8Async(1, 1<<40, 0, 4, stream))
	if list := d.Findings(); len(list) != 1 || list[0].Kind != UseAfterFree {
		t.Errorf("a fill of a variable whose module was unloaded: found %v", list)
	}
}

// TestChainOfStreams: a stream that waited for the one before it does not keep that one.
func TestChainOfStreams(t *testing.T) {
	d := Wrap(&scripted{}, Options{})
	grows := func(n int) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var last cu.Event
		for range n {
			s, _ := d.StreamCreate(1, cu.StreamNonBlocking)
			if last != 0 {
				must(t, d.StreamWaitEvent(1, s, last, 0))
				must(t, d.EventDestroy(1, last))
			}
			last, _ = d.EventCreate(1, 0)
			must(t, d.EventRecord(1, last, s))
			must(t, d.StreamSynchronize(1, s))
			must(t, d.StreamDestroy(1, s))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(d)
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	grows(1000)
	if n := grows(10_000); n > 500_000 {
		t.Errorf("10000 streams that are destroyed keep %d bytes", n)
	}
}

// TestEndedContext: nothing of a context is kept when it has ended.
func TestEndedContext(t *testing.T) {
	d := Wrap(&scripted{}, Options{})
	for range 10 {
		ctx, err := d.CtxCreate(0, 0)
		must(t, err)
		p, _ := d.MemAlloc(ctx, 4096)
		s, _ := d.StreamCreate(ctx, 0)
		_, _ = d.EventCreate(ctx, 0)
		must(t, d.MemsetD8Async(ctx, p, 0, 4096, s))
		must(t, d.StreamBeginCapture(ctx, s, 0))
		g, _ := d.StreamEndCapture(ctx, s)
		_, _ = d.GraphInstantiate(ctx, g, 0)
		must(t, d.CtxDestroy(ctx))
	}
	if e, g, x, l := len(d.orders.events), len(d.graphs), len(d.execs), len(d.orders.lanes); e+g+x+l > 0 {
		t.Errorf("%d events, %d graphs, %d executables and %d streams are kept", e, g, x, l)
	}
	for _, m := range d.memories.freed {
		if len(m.accesses) > 0 {
			t.Errorf("%v keeps %d uses", m, len(m.accesses))
		}
	}
}

// TestOneWrapper: a driver has one wrapper while somebody uses it, also if all contexts end
// between the call of Environment and the next context. Then nothing keeps the wrapper.
func TestOneWrapper(t *testing.T) {
	t.Setenv("FERRY_CHECK", "memory")
	inner := &scripted{}
	wrapped := func() cu.Driver {
		d, err := Environment(inner)
		must(t, err)
		return d
	}
	first := wrapped()
	_, err := first.DevicePrimaryCtxRetain(0)
	must(t, err)
	second := wrapped()
	must(t, first.DevicePrimaryCtxRelease(0))
	third := wrapped()
	if first != second || second != third {
		t.Error("a driver has several wrappers")
	}
	kept := weak.Make(first.(*Driver))
	runtime.KeepAlive([]any{first, second, third})
	for range 1000 {
		if runtime.GC(); kept.Value() == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("a wrapper that nobody uses is kept")
}

// slowWriter makes a driver call on another goroutine, and writes when it has returned.
type slowWriter struct {
	call func()
	text strings.Builder
	hung bool
}

func (w *slowWriter) Write(b []byte) (int, error) {
	done := make(chan bool)
	go func() { w.call(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		w.hung = true
	}
	return w.text.Write(b)
}

// TestOutputBlocks: driver calls go on while a finding is written.
func TestOutputBlocks(t *testing.T) {
	w := &slowWriter{}
	d := Wrap(&scripted{}, Options{Output: w})
	w.call = func() { _, _, _ = d.MemGetInfo(1); _, _ = d.MemAlloc(1, 1) }
	p, _ := d.MemAlloc(1, 4096)
	must(t, d.MemsetD8Async(1, p, 0, 4096, 1))
	must(t, d.MemFree(1, p))
	if w.hung {
		t.Error("a driver call waits until a finding is written")
	}
	if !strings.Contains(w.text.String(), FreeInFlight) {
		t.Errorf("wrote %q", &w.text)
	}
}

// TestSameLineOfTwoFiles: calls at the same line of two files with one name are two findings.
func TestSameLineOfTwoFiles(t *testing.T) {
	d := Wrap(&scripted{}, Options{})
	d.mu.Lock()
	for _, site := range []int{1, 2, 1} {
		d.report(Finding{Kind: UseAfterFree, Second: &Side{Call: "cuMemFree", Place: "main.go:62", site: site}})
	}
	d.mu.Unlock()
	if list := d.Findings(); len(list) != 2 || list[0].Count != 2 || list[1].Count != 1 {
		t.Errorf("got %v, want two findings, the first of them twice", list)
	}
}
