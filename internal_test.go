package ferry

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/devices"
	"github.com/ferrygpu/ferry/internal/gpuid"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/softgpu"
)

// softStream is a software GPU and a stream on it, closed when the test ends.
func softStream(t *testing.T) (*GPU, *Stream) {
	t.Helper()
	g := try(Open("soft"))(t)
	s := try(NewStream(g, nil))(t)
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	})
	return g, s
}

// try is v, or the end of the test.
func try[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// closeLater closes something when the test ends.
func closeLater[T interface{ Close() error }](t *testing.T, v T) T {
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// checkUnused checks that nothing uses a stream: neither a short operation nor others.
func checkUnused(t *testing.T, what string, st *streamState) {
	t.Helper()
	st.Complete(st.Issued())
	if !st.Enter() {
		t.Errorf("%s: the stream is closed", what)
		return
	}
	if !st.Alone() {
		t.Errorf("%s: something uses the stream", what)
	}
	st.Leave()
	if !st.BeginShort() {
		t.Errorf("%s: the stream is being drained", what)
		return
	}
	st.EndShort(false)
}

// pendingOn is the number of the last operation of a stream that is pending on a
// resource, 0 if there is none.
func pendingOn(x *inflight.Tracker, s *Stream) uint64 {
	for st, n := range x.Pending(inflight.Write) {
		if st == &s.state.Stream {
			return n
		}
	}
	return 0
}

// TestBatchEventsAgain: a replay of a batch uses its events as the first submission did,
// and releases them at its end, also if one of them is closed.
func TestBatchEventsAgain(t *testing.T) {
	g, s := softStream(t)
	d := &destroyer{Driver: g.driver}
	g.driver = d
	first, twice, waited := try(NewEvent(g, nil))(t), try(NewEvent(g, nil))(t), try(NewEvent(g, nil))(t)
	x := closeLater(t, try(Alloc[byte](g, 64))(t))
	var b Batch
	if err := errors.Join(b.Record(first), Fill(&b, x, 1), b.WaitEvent(waited), b.Record(twice), b.Record(twice)); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := s.Submit(&b); err != nil || b.replay.st != s.state {
			t.Fatalf("%v; can be replayed: %v", err, b.replay.st != nil)
		}
		n := s.state.Issued()
		m := first.state.StandsFor()
		if first.state.Passed(m); m.Stream() != &s.state.Stream || !s.state.Completed(n-1) || s.state.Completed(n) {
			t.Errorf("submission %d: the first event does not stand for the %d operations before it", i, n-1)
		}
		if twice.state.StandsFor() != m { // before the batch too: its operations get one number
			t.Errorf("submission %d: an event that was recorded twice does not stand for the %d operations before the batch", i, n-1)
		}
	}
	for i, e := range []*Event{twice, waited, first} {
		if err := e.Close(); err != nil || d.events != i+1 {
			t.Errorf("%v; %d events destroyed, want %d: event %d is in use", err, d.events, i+1, i)
		}
		before := s.state.Issued()
		if err := s.Submit(&b); !errors.Is(err, ErrClosed) {
			t.Errorf("with a closed event: %v", err)
		}
		if s.state.Issued() != before {
			t.Errorf("%d operations, want %d", s.state.Issued(), before)
		}
		checkUnused(t, "a closed event", s.state)
	}
}

// destroyer counts events that are destroyed.
type destroyer struct {
	cu.Driver
	events int
}

func (d *destroyer) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.events++
	return d.Driver.EventDestroy(ctx, e)
}

// TestBatchManyEvents: a batch may use an event many times.
func TestBatchManyEvents(t *testing.T) {
	g, s := softStream(t)
	e := closeLater(t, try(NewEvent(g, nil))(t))
	var b Batch
	for range 4095 {
		if err := errors.Join(b.Record(e), b.WaitEvent(e), b.WaitEvent(e)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.Submit(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Record(e), e.Wait(context.Background())); err != nil || e.state.StandsFor().Stream() != &s.state.Stream {
		t.Errorf("%v; a Record is in progress", err)
	}
}

// TestStreamAfterCapture: what is queued goes to the stream itself, but in captures.
func TestStreamAfterCapture(t *testing.T) {
	g, s := softStream(t)
	for range 2 {
		if s.target() != s.state {
			t.Error("before a capture, operations do not go to the stream")
		}
		graph, err := s.Capture(func(s *Stream) error {
			if st := s.target(); st == s.state || st.capture == nil {
				t.Error("in a capture, operations go to the stream")
			}
			return nil
		})
		if err := errors.Join(err, graph.Close()); err != nil {
			t.Error(err)
		}
	}
	legacy := g.DefaultStream()
	if legacy.target() != legacy.state {
		t.Error("operations do not go to the default stream")
	}
	if err := errors.Join(s.Close(), g.Close()); err != nil || !legacy.state.Closed() {
		t.Errorf("the default stream of a GPU that is closed is open; %v", err)
	}
}

// partDriver makes the first calls of a batch and fails.
type partDriver struct {
	cu.Driver
	done int // less than 0: it makes all
}

func (d *partDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	if d.done < 0 {
		return d.Driver.Submit(ctx, b)
	}
	return d.done, cu.ErrorOutOfMemory
}

// TestBatchFailsAgain: when the driver refuses a part of a batch that is replayed, what
// was queued is in flight, and nothing is known of its events.
func TestBatchFailsAgain(t *testing.T) {
	g, s := softStream(t)
	d := &partDriver{g.driver, -1}
	g.driver = d
	e := closeLater(t, try(NewEvent(g, nil))(t))
	x := closeLater(t, try(Alloc[float32](g, 64))(t))
	m := closeLater(t, try(Load(g, []byte(kernels.PTX), nil))(t))
	k := try(m.Kernel("increment"))(t)
	var b Batch
	if err := errors.Join(Fill(&b, x, 1), b.Launch(k, Cover(64, 64), x, uint64(64)), b.Record(e)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		done   int // calls that the driver makes, -1 for all
		kernel string
	}{{-1, k.name}, {-1, k.name}, {0, ""}, {1, ""}, {2, k.name}, {-1, k.name}} {
		before := s.state.Issued()
		last := ""
		s.state.lastLaunch.Store(&last)
		d.done = c.done
		if err := s.Submit(&b); c.done < 0 && err != nil || c.done >= 0 && !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("%d done: %v", c.done, err)
		}
		want := before + 1 // also if the first call fails: it can have queued its work
		if got := s.state.Issued(); got != want || pendingOn(&x.span.a.Tracker, s) != want {
			t.Errorf("%d done: %d operations, and the buffer knows of %d, want %d", c.done, got, pendingOn(&x.span.a.Tracker, s), want)
		}
		if got := *s.state.lastLaunch.Load(); got != c.kernel {
			t.Errorf("%d done: %q was launched last, want %q", c.done, got, c.kernel)
		}
		if known := e.state.StandsFor().Stream() != nil; known != (c.done < 0) {
			t.Errorf("%d done: known what the event stands for: %v", c.done, known)
		}
	}
	// Another stream takes the use of one that is done.
	other := closeLater(t, try(NewStream(g, nil))(t))
	y := closeLater(t, try(AllocHost[float32](g, 64, nil))(t))
	err := errors.Join(s.Wait(context.Background()), Copy[float32](other, x, y), other.Wait(context.Background()), s.Submit(&b))
	if got := pendingOn(&x.span.a.Tracker, s); err != nil || got != s.state.Issued() {
		t.Errorf("%v; the buffer knows of %d operations, want %d", err, got, s.state.Issued())
	}
}

// TestSpanSize: a span, which every call reads, is as large as a line of the cache, so
// that the allocator does not split it over two.
func TestSpanSize(t *testing.T) {
	if n := reflect.TypeFor[span]().Size(); strconv.IntSize == 64 && n != 64 {
		t.Errorf("a span has %d bytes, want 64", n)
	}
}

// TestQueryKeepsErrors: an error of the work that the driver returns once reaches Wait, also
// if a query for a buffer met it. The refusal of a query in a host function is no such error.
func TestQueryKeepsErrors(t *testing.T) {
	g, s := softStream(t)
	other := closeLater(t, try(NewStream(g, nil))(t))
	asked := make(chan struct{})
	if err := errors.Join(other.HostFunc(func() { isBusy(s.state); close(asked) }), other.Wait(context.Background())); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := s.Wait(context.Background()); err != nil {
		t.Errorf("an idle stream: %v", err)
	}
	if err := s.HostFunc(func() { panic("planted") }); err != nil {
		t.Fatal(err)
	}
	for !s.state.Idle() {
		s.state.query()
	}
	if p, ok := errors.AsType[*cu.HostPanic](s.Wait(context.Background())); !ok || p.Value != "planted" {
		t.Error("Wait does not return the panic that a query met")
	}
}

// TestThreadsByRegisters: the bounds by the granules of CUDA for a device with 65536 registers.
func TestThreadsByRegisters(t *testing.T) {
	for each, want := range map[int]int{16: 4096, 64: 1024, 65: 896, 80: 768, 122: 512, 128: 512, 255: 256} {
		if got := threadsByRegisters(each, 65536); got != want {
			t.Errorf("%d registers: %d threads, want %d", each, got, want)
		}
	}
}

// TestLibraryKeepsItsWrappers: the driver library has the same wrappers until the process ends, so
// FERRY_FAULT counts calls over the Close of all GPUs. Other drivers keep none.
func TestLibraryKeepsItsWrappers(t *testing.T) {
	library, wrapped := cudaDriver.Load(), cudaWrapped.Load()
	defer func() { cudaDriver.Store(library); cudaWrapped.Store(wrapped) }()
	t.Setenv(fault.Variable, "cuDeviceGetCount:1000000:CUDA_ERROR_UNKNOWN")
	cudaDriver.Store(new(libcuda.Driver))
	for _, c := range []struct {
		d    cu.Driver
		want uint64
	}{{cudaDriver.Load(), 2}, {new(libcuda.Driver), 1}} {
		var calls uint64
		for range 2 {
			for range 3 { // the cleanup of a driver that nobody uses runs after a collection
				runtime.GC()
			}
			w, _ := cu.As[*fault.Driver](try(wrap(c.d))(t))
			_ = w.Init(0) // there is no library
			calls = w.Calls()
		}
		if calls != c.want {
			t.Errorf("the second wrapper has counted %d calls, want %d", calls, c.want)
		}
	}
}

// opening is a driver that tells of the module that is loaded when a GPU is opened.
type opening struct {
	cu.Driver
	load func()
}

func (d *opening) ModuleLoadData(ctx cu.Context, image []byte) (cu.Module, error) {
	d.load()
	return d.Driver.ModuleLoadData(ctx, image)
}

// TestOpenBesideOthers: a GPU that others of its context can see is complete, although it is still
// being opened: they look at its streams before they free memory.
func TestOpenBesideOthers(t *testing.T) {
	d := &opening{try(softgpu.Open(softgpu.Options{}))(t), func() {}}
	g := closeLater(t, try(OpenDriver(d, 0))(t))
	seen := 0
	d.load = func() {
		for _, o := range g.shared.sharing(g) {
			if seen++; o.legacy == nil || o.defaultPool == nil || len(o.openStreams()) != 1 {
				t.Error("another GPU of the context can be seen before it has its default stream")
			}
			o.legacyCaptures()
		}
	}
	closeLater(t, try(OpenDriver(d, 0))(t))
	if seen != 1 {
		t.Errorf("%d other GPUs were seen, want 1", seen)
	}
}

// TestFind: a UUID, the beginning of one or a PCI address names a device of a driver, and an
// error for another text lists the devices.
func TestFind(t *testing.T) {
	d := try(softgpu.Open(softgpu.Options{Devices: 3}))(t)
	for ordinal := range 3 {
		info := try(infoOf(d, ordinal))(t)
		short := info.UUID
		for len(short) > len("GPU-x") && findName(t, d, short[:len(short)-1]) == ordinal {
			short = short[:len(short)-1]
		}
		for _, name := range []string{info.UUID, short, info.PCIAddress} {
			if got := findName(t, d, name); got != ordinal {
				t.Errorf("%s is device %d, want %d", name, got, ordinal)
			}
		}
	}
	id, _ := gpuid.Parse("GPU-0000-0")
	_, err := find(d, 3, id)
	last := try(infoOf(d, 2))(t)
	if !errors.Is(err, cu.ErrorInvalidDevice) || !strings.Contains(err.Error(), last.UUID+", "+last.PCIAddress) {
		t.Errorf("an unknown UUID: %v", err)
	}
	f := fault.Wrap(d, fault.Options{Call: "cuDeviceGetName", Nth: 1, Code: cu.ErrorDeviceUnavailable})
	if _, err = find(f, 3, id); !errors.Is(err, cu.ErrorDeviceUnavailable) {
		t.Errorf("an unknown UUID beside a device that does not answer: %v", err)
	}
	for name, whole := range map[string]bool{last.UUID: true, last.UUID[:len(last.UUID)-1]: false, last.PCIAddress: true} {
		id, _ := gpuid.Parse(name)
		f := fault.Wrap(d, fault.Options{Call: "cuDeviceGetUuid", Nth: 1, Code: cu.ErrorDeviceUnavailable})
		if got, err := find(f, 3, id); whole && (got != 2 || err != nil) || !whole && !errors.Is(err, cu.ErrorDeviceUnavailable) {
			t.Errorf("%s beside a device that does not answer: device %d, %v", name, got, err)
		}
	}
	f = fault.Wrap(d, fault.Options{Call: "cuDeviceGetUuid", Nth: 1, Code: cu.ErrorDeviceUnavailable})
	if info, err := infoOf(f, 0); err == nil || info.UUID != "" {
		t.Errorf("a device that does not say its UUID has %q, %v", info.UUID, err)
	}
}

// findName returns the ordinal of the device that a name stands for, or -1.
func findName(t *testing.T, d cu.Driver, name string) int {
	n := try(devices.Parse("cuda:" + name))(t)
	ordinal, err := find(d, 3, n.ID)
	if err != nil {
		return -1
	}
	return ordinal
}

const endlessPTX = `.version 7.0
.target sm_75
.address_size 64
.visible .entry endless(.param .u64 p) {
again:
	bra again;
}
`

// TestSlowClose: a Close that waits for an endless kernel says what it waits for, and names
// FERRY_KERNEL_LIMIT. The kernel is stopped only then. The GPU's kernel is one that Ferry does
// not know, and the other buffer is not an argument of the kernel.
func TestSlowClose(t *testing.T) {
	for what, want := range map[string]string{
		"buffer":       "Close of device buffer 1 (1024 uint8, 1.0 KiB) on soft:h200 has waited for 1s for work in flight; kernel endless was the last kernel of the default stream of soft:h200;",
		"other buffer": "Close of device buffer 2 (1024 uint8, 1.0 KiB) on soft:h200 has waited for 1s for work in flight; kernel endless",
		"module":       "has waited for 1s for work in flight; kernel endless",
		"GPU":          "Close of soft:h200 (software, predicts NVIDIA H200) has waited for 1s for work in flight",
	} {
		t.Run(what, func(t *testing.T) { checkSlowClose(t, what, want) })
	}
}

func checkSlowClose(t *testing.T, what, want string) {
	d := try(softgpu.Open(softgpu.Options{}))(t)
	g := try(OpenDriver(d, 0))(t)
	var said []string
	say := func(text string) {
		said = append(said, text)
		d.Interrupt(errors.New("the test has seen the text"))
	}
	sayClose.Store(&say)
	defer sayClose.Store(nil)
	closeWaiting := g.Close
	if what == "GPU" {
		h := try(d.ModuleLoadData(g.ctx, []byte(endlessPTX)))(t)
		f := try(d.ModuleGetFunction(g.ctx, h, "endless"))(t)
		one := cu.Dim3{X: 1, Y: 1, Z: 1}
		if err := d.LaunchKernel(g.ctx, f, one, one, 0, 0, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	} else {
		m := try(Load(g, []byte(endlessPTX), nil))(t)
		b, other := try(Alloc[byte](g, 1<<10))(t), try(Alloc[byte](g, 1<<10))(t)
		if err := g.legacy.Launch(try(m.Kernel("endless"))(t), LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}, b); err != nil {
			t.Fatal(err)
		}
		closeWaiting = map[string]func() error{"buffer": b.Close, "other buffer": other.Close, "module": m.Close}[what]
	}
	if err := closeWaiting(); !errors.Is(err, cu.ErrorLaunchTimeout) {
		t.Errorf("Close returned %v, want the interrupt", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(said[0], softgpu.LimitVariable) {
		t.Errorf("said %q, want %q and %s", said, want, softgpu.LimitVariable)
	}
}

// TestCloseStartsNoTimer: a Close that has nothing to wait for starts no timer and allocates
// nothing for it.
func TestCloseStartsNoTimer(t *testing.T) {
	g := try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t)
	defer g.Close()
	b := try(Alloc[byte](g, 1<<10))(t)
	defer b.Close()
	if err := Fill(g.legacy, b, 1); err != nil {
		t.Fatal(err)
	}
	a := b.span.a
	timer := sayIfBusy(g, a, &a.Tracker)
	if timer == nil {
		t.Fatal("a fill is in flight, and no timer was started")
	}
	timer.Stop()
	if err := g.legacy.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { timer = sayIfBusy(g, a, &a.Tracker) }); timer != nil || n != 0 {
		t.Errorf("nothing is in flight: %v allocations, timer %v", n, timer)
	}
}

// cacheLine is the unit in which processors move memory between their caches.
const cacheLine = 64

// TestLayout checks that what every operation reads of a buffer, a stream and an event
// is in one line of the cache.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		value any // a pointer to a new value
		hot   []string
	}{
		{new(allocation), []string{"g", "kind", "oneGPU", "readOnly"}},
		{new(streamState), []string{"g", "handle", "capture"}},
		{new(Event), []string{"g", "handle", "state"}},
	} {
		v := reflect.ValueOf(c.value)
		if v.Pointer()%cacheLine != 0 {
			t.Errorf("a %T begins at %#x, which is not the start of a line", c.value, v.Pointer())
		}
		for _, name := range c.hot {
			f, ok := v.Type().Elem().FieldByName(name)
			if !ok {
				t.Errorf("%T has no field %s", c.value, name)
			} else if end := f.Offset + f.Type.Size(); end > cacheLine {
				t.Errorf("%T.%s ends at byte %d, want at most %d", c.value, name, end, cacheLine)
			}
		}
	}
	for _, embedded := range []struct {
		outer any
		name  string
		hot   []string
	}{
		{allocation{}, "Tracker", []string{"Lifetime", "first"}},
		{streamState{}, "Stream", []string{"word", "done", "recorder"}},
	} {
		outer := reflect.TypeOf(embedded.outer)
		f, _ := outer.FieldByName(embedded.name)
		for _, name := range embedded.hot {
			g, ok := f.Type.FieldByName(name)
			if !ok {
				t.Errorf("%v.%s has no field %s", outer, embedded.name, name)
			} else if end := f.Offset + g.Offset + g.Type.Size(); end > cacheLine {
				t.Errorf("%v.%s.%s ends at byte %d, want at most %d", outer, embedded.name, name, end, cacheLine)
			}
		}
	}
}

// TestForeignWorkInReport: what a slow Close waits for can be work of another library.
func TestForeignWorkInReport(t *testing.T) {
	g := closeLater(t, try(OpenDriver(try(softgpu.Open(softgpu.Options{}))(t), 0))(t))
	s := closeLater(t, try(NewStream(g, nil))(t))
	const text = "another library has the handle of stream 1"
	if got := workInFlight(g); strings.Contains(got, text) {
		t.Errorf("before the handle was taken: %s", got)
	}
	s.Handle()
	if got := workInFlight(g); !strings.Contains(got, text) {
		t.Errorf("got %q, want %q in it", got, text)
	}
}
