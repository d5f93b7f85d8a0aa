package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// newPinnedPool makes a pool. At the end of the test it is closed and must be empty.
func newPinnedPool(t testing.TB, g *ferry.GPU, o *ferry.PinnedPoolOptions) *ferry.PinnedPool {
	t.Helper()
	p := must(ferry.NewPinnedPool(g, o))(t)
	t.Cleanup(func() {
		closeAll(t, p, p)
		if s := must(p.Stats())(t); s.Used != 0 || s.InFlight != 0 || s.Pinned != 0 {
			t.Errorf("after Close the pool has %+v", s)
		}
	})
	return p
}

// TestPinnedPool: buffers come and go without the driver, and copies of them are right. Trim
// frees the memory.
func TestPinnedPool(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	d := must(ferry.Alloc[int32](g, 1000))(t)
	defer closeAll(t, d)
	var h ferry.Host[int32]
	for round := range int32(5) {
		check(t, h.Alloc(p, 1000))
		if h.Len() != 1000 || h.Size() != 4000 || uint64(h.Pointer())%256 != 0 {
			t.Errorf("%d elements, %d bytes at %#x; want 1000, 4000, a multiple of 256", h.Len(), h.Size(), h.Pointer())
		}
		for i := range h.Slice() {
			h.Slice()[i] = round*1000 + int32(i)
		}
		check(t, ferry.Copy(s, d, &h))
		clear(h.Slice())
		check(t, ferry.Copy(s, &h, d))
		for i, v := range h.Slice() {
			if v != round*1000+int32(i) {
				t.Fatalf("round %d: element %d is %d, want %d", round, i, v, round*1000+int32(i))
			}
		}
		closeAll(t, &h)
	}
	if got := must(p.Stats())(t); got.Hits != 4 || got.DriverCalls != 1 || got.Used != 0 || got.Pinned != 32<<20 {
		t.Errorf("the pool has %+v, want 4 hits and one call of the driver for 32 MiB", got)
	}
	for place, bytes := range must(p.Stats())(t).PinnedBy {
		if !strings.HasPrefix(place, "pinnedpool_test.go:") || bytes != 32<<20 {
			t.Errorf("%d bytes were page-locked for %q, want 32 MiB for this test", bytes, place)
		}
	}
	check(t, p.Trim(0))
	if got := must(p.Stats())(t); got.Pinned != 0 || got.MostPinned != 32<<20 {
		t.Errorf("after Trim the pool has %+v", got)
	}
}

// TestPinnedPoolStaleHandle: the handle of a closed buffer, and its ranges, cannot use or close
// the buffer that has the memory now.
func TestPinnedPoolStaleHandle(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	const size = 3 << 20 // large blocks do not stay in the cache of one processor
	d := must(ferry.Alloc[byte](g, size))(t)
	defer closeAll(t, d)
	old := must(fromPool[byte](p, size))(t)
	part := old.Range(0, 100)
	where := old.Pointer()
	closeAll(t, old)
	var h ferry.Host[byte]
	check(t, h.Alloc(p, size-50))
	if h.Pointer() != where {
		t.Fatalf("the buffer has other memory: it is at %#x, want %#x", h.Pointer(), where)
	}
	for name, o := range map[string]*ferry.Host[byte]{"the handle": old, "its range": part} {
		if err := sliceError(o.Slice); !errors.Is(err, ferry.ErrClosed) {
			t.Errorf("%s: Slice panics with %v", name, err)
		}
		wantError(t, ferry.Copy(s, d.Range(0, o.Len()), o), ferry.ErrClosed, "of a pool")
		closeAll(t, o)
	}
	if h.Slice() == nil {
		t.Error("an old handle has closed the new buffer")
	}
	wantError(t, h.Alloc(p, 1), cu.ErrorInvalidValue, "is open: close it first")
	closeAll(t, &h)
	wantError(t, ferry.Copy(s, d.Range(0, size-50), &h), ferry.ErrClosed)
}

// TestPinnedPoolInFlight: Close of a buffer in flight does not wait, and no other buffer gets
// its memory before the stream is done with it.
func TestPinnedPoolInFlight(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	for _, closeStream := range []bool{false, true} {
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		d := must(ferry.Alloc[byte](g, 3000))(t)
		var h ferry.Host[byte]
		check(t, h.Alloc(p, 3000))
		where := h.Pointer()
		open := gate(t, s)
		check(t, ferry.Copy(s, d, &h))
		closeAll(t, &h)
		if closeStream {
			closeAll(t, s)
		}
		if got := must(p.Stats())(t); got.InFlight != 3072 {
			t.Errorf("after Close in flight the pool has %+v", got)
		}
		var others []*ferry.Host[byte]
		for range 10 {
			o := must(fromPool[byte](p, 3000))(t)
			if o.Pointer() == where {
				t.Fatal("another buffer has the memory in flight")
			}
			others = append(others, o)
		}
		open()
		check(t, s.Wait(context.Background()))
		again := false
		for i := 0; i < 4096 && !again; i++ { // more than all caches of the pool have
			o := must(fromPool[byte](p, 3000))(t)
			again = o.Pointer() == where
			others = append(others, o)
		}
		if !again {
			t.Error("no buffer gets the memory that was in flight")
		}
		for _, o := range others {
			closeAll(t, o)
		}
		closeAll(t, s, d)
	}
}

// TestPinnedPoolCloseInFlight: Close of the pool waits for buffers that were closed in flight.
// An open buffer works on, and its Close frees the memory.
func TestPinnedPoolCloseInFlight(t *testing.T) {
	g := openTest(t)
	p := must(ferry.NewPinnedPool(g, nil))(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	inFlight, open := must(fromPool[byte](p, 100))(t), must(fromPool[byte](p, 100))(t)
	check(t, ferry.Copy(s, d, inFlight))
	closeAll(t, inFlight, p)
	if got := must(p.Stats())(t); got.InFlight != 0 || got.Used != 256 || got.Pinned == 0 {
		t.Errorf("the pool has %+v, want one buffer of 256 bytes", got)
	}
	_, err := fromPool[byte](p, 100)
	wantError(t, err, ferry.ErrClosed)
	wantError(t, p.Warm(context.Background(), 1), ferry.ErrClosed)
	check(t, ferry.Copy(s, open, d))
	closeAll(t, open)
	if got := must(p.Stats())(t); got.Used != 0 || got.Pinned != 0 {
		t.Errorf("the pool has %+v, want nothing", got)
	}
	closeAll(t, s, d)
}

// TestPinnedPoolClosedBefore closes a pool, and then a buffer of it that is in flight. The events
// that stood for the work are destroyed.
func TestPinnedPoolClosedBefore(t *testing.T) {
	d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Lazy), fault.Options{})
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 1<<20))(t)
	p := must(ferry.NewPinnedPool(g, nil))(t)
	host := must(fromPool[byte](p, 1<<20))(t)
	other := must(fromPool[byte](p, 1<<20))(t)
	check(t, p.Close())
	check(t, ferry.Copy(s, device, host))
	check(t, host.Close())
	check(t, ferry.Copy(s, device, other))
	check(t, other.Close())
	closeAll(t, device, s)
	check(t, g.Close())
	if live := d.Live(); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

// TestPinnedPoolHostFunc: Close within a host function takes effect afterwards.
func TestPinnedPoolHostFunc(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	h := must(fromPool[byte](p, 100))(t)
	check(t, ferry.Copy(s, d, h))
	var inside error
	check(t, s.HostFunc(func() { inside = errors.Join(h.Close(), p.Close()) }))
	check(t, s.Wait(context.Background()))
	check(t, inside)
	eventually(t, "unlocked", func() bool { return must(p.Stats())(t).Pinned == 0 })
	closeAll(t, s, d)
}

// TestPinnedPoolGraph: no buffer gets memory that a graph uses, until the graph is closed.
func TestPinnedPoolGraph(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	var h ferry.Host[byte]
	check(t, h.Alloc(p, 100))
	copy(h.Slice(), "kept")
	where := h.Pointer()
	graph := must(s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, d, &h) }))(t)
	closeAll(t, &h)
	check(t, h.Alloc(p, 100))
	if h.Pointer() == where {
		t.Fatal("another buffer has memory of the graph")
	}
	copy(h.Slice(), "lost")
	check(t, graph.Launch(s))
	got := make([]byte, 4)
	check(t, ferry.Copy(s, ferry.Pageable(got), d.Range(0, 4)))
	if string(got) != "kept" {
		t.Errorf("the graph copied %q, want %q", got, "kept")
	}
	closeAll(t, &h, graph, s, d)
}

// TestPinnedPoolRefused: bad input, and requests beyond the limit of the pool.
func TestPinnedPoolRefused(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, &ferry.PinnedPoolOptions{Max: 1 << 20})
	var h ferry.Host[byte]
	wantError(t, h.Alloc(nil, 1), cu.ErrorInvalidValue, "no pool")
	wantError(t, (*ferry.Host[byte])(nil).Alloc(p, 1), cu.ErrorInvalidValue, "no buffer")
	wantError(t, h.Alloc(p, -1), cu.ErrorInvalidValue, "-1 elements")
	wantError(t, h.Alloc(p, 2<<20), cu.ErrorOutOfMemory, "the pool may have 1.0 MiB", "allocate 2.0 MiB from a pool")
	wantError(t, h.Alloc(p, 1<<62), cu.ErrorInvalidValue)
	var pointers ferry.Host[*int]
	wantError(t, pointers.Alloc(p, 1), cu.ErrorInvalidValue, "Go pointers")
	_, err := ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Max: -1})
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	wantError(t, p.Trim(-1), cu.ErrorInvalidValue, "cannot be negative")
	check(t, h.Alloc(p, 0))
	if s := h.Slice(); s == nil || len(s) != 0 {
		t.Errorf("Slice of an empty buffer is %v", s)
	}
	closeAll(t, &h)
	check(t, p.Warm(context.Background(), 1<<20))
	check(t, h.Alloc(p, 1<<20))
	if got := must(p.Stats())(t); got.DriverCalls != 1 || got.Hits != 0 {
		t.Errorf("after Warm the pool has %+v", got)
	}
	closeAll(t, &h)
}

// TestPinnedPoolSchedules copies buffers of a pool and closes them in flight. The bytes are
// right under every schedule.
func TestPinnedPoolSchedules(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random, must(softgpu.ParseSchedule("random:2"))(t)} {
		g := openSoft(t, "h200", schedule)
		p := newPinnedPool(t, g, nil)
		streams := []*ferry.Stream{must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)}
		r := rand.New(rand.NewPCG(3, 4))
		const n = 700
		d := must(ferry.Alloc[byte](g, 40*n))(t)
		var h ferry.Host[byte]
		for i := range 40 {
			check(t, h.Alloc(p, n))
			b := h.Slice()
			for j := range b {
				b[j] = byte(i)
			}
			check(t, ferry.Copy(streams[r.IntN(3)], d.Range(i*n, i*n+n), &h))
			closeAll(t, &h)
		}
		got := make([]byte, 40*n)
		check(t, g.Wait(context.Background()))
		check(t, ferry.Copy(streams[0], ferry.Pageable(got), d))
		for i, v := range got {
			if v != byte(i/n) {
				t.Fatalf("%v: byte %d is %d, want %d", schedule, i, v, i/n)
			}
		}
		closeAll(t, streams[0], streams[1], streams[2], d)
	}
}

// TestPinnedPoolConcurrent: goroutines use one pool at once, each with other bytes.
func TestPinnedPoolConcurrent(t *testing.T) {
	g := openTest(t)
	p := newPinnedPool(t, g, nil)
	d := must(ferry.Alloc[byte](g, 16<<12))(t)
	defer closeAll(t, d)
	times := 30
	if sample.Race() {
		times = 10
	}
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			s, err := ferry.NewStream(g, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mine := d.Range(w<<12, (w+1)<<12)
			for i := range times {
				if err := roundTrip(p, s, mine, byte(w+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// roundTrip copies bytes to the device in one buffer, which it closes in flight, and back in
// another.
func roundTrip(p *ferry.PinnedPool, s *ferry.Stream, d *ferry.Device[byte], value byte) error {
	var to, from ferry.Host[byte]
	if err := errors.Join(to.Alloc(p, d.Len()), from.Alloc(p, d.Len())); err != nil {
		return err
	}
	for i := range to.Slice() {
		to.Slice()[i] = value
	}
	if err := errors.Join(ferry.Copy(s, d, &to), to.Close(), ferry.Copy(s, &from, d)); err != nil {
		return err
	}
	for i, v := range from.Slice() {
		if v != value {
			return fmt.Errorf("byte %d is %d, want %d", i, v, value)
		}
	}
	return from.Close()
}

// TestPinnedPoolAllocations: a cached buffer, its Close, and Close in flight after the
// first time, allocate nothing.
func TestPinnedPoolAllocations(t *testing.T) {
	if racebuild.On {
		t.Skip("the race detector allocates")
	}
	g := openDriver(t, newFake())
	p := must(ferry.NewPinnedPool(g, nil))(t)
	defer closeAll(t, p)
	var h ferry.Host[float32]
	if got := testing.AllocsPerRun(1000, func() {
		if err := errors.Join(h.Alloc(p, 1000), h.Close()); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("a cached buffer allocates %v times, want 0", got)
	}
}

// TestPinnedPoolCloseOfOthers: Close does not wait for an operation of a stream that used the
// memory before the pool gave it to this buffer.
func TestPinnedPoolCloseOfOthers(t *testing.T) {
	d := newHookDriver(newFake())
	g := openDriver(t, d)
	p := newPinnedPool(t, g, nil)
	first, second := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	device, own := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
	defer closeAll(t, first, second, device, own)
	var h ferry.Host[byte]
	use := func(s *ferry.Stream) error {
		return errors.Join(h.Alloc(p, 100), ferry.Copy(s, &h, device), s.Wait(context.Background()), h.Close())
	}
	for range 3 {
		check(t, use(first))
		d.during("MemcpyHtoDAsync", func() error {
			closed := make(chan error)
			go func() { closed <- use(second) }()
			select {
			case err := <-closed:
				return err
			case <-time.After(10 * time.Second):
				return errors.New("Close waits for the operation of a stream that does not use the buffer")
			}
		})
		check(t, ferry.Copy(first, device, own))
	}
	if got := must(p.Stats())(t); got.Hits != 5 || got.DriverCalls != 1 {
		t.Errorf("the pool has %+v, want 5 hits: the same memory for both streams", got)
	}
}

// poolCalls counts the calls that Alloc and Close of a pooled buffer might make.
type poolCalls struct {
	*fakeDriver
	calls atomic.Int64
}

func (d *poolCalls) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	d.calls.Add(1)
	return d.fakeDriver.EventCreate(ctx, flags)
}
func (d *poolCalls) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	d.calls.Add(1)
	return d.fakeDriver.EventRecord(ctx, e, s)
}
func (d *poolCalls) EventQuery(ctx cu.Context, e cu.Event) error {
	d.calls.Add(1)
	return d.fakeDriver.EventQuery(ctx, e)
}
func (d *poolCalls) StreamQuery(cu.Context, cu.Stream) error {
	d.calls.Add(1)
	return nil
}
func (d *poolCalls) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	d.calls.Add(1)
	return d.fakeDriver.StreamSynchronize(ctx, s)
}
func (d *poolCalls) MemHostAlloc(ctx cu.Context, n uintptr, flags cu.MemHostAllocFlags) (cu.HostPtr, error) {
	d.calls.Add(1)
	return d.fakeDriver.MemHostAlloc(ctx, n, flags)
}

// TestPinnedPoolNoDriverCall: Alloc from a warm pool, and Close after a wait for the stream,
// call no driver and allocate nothing, also when the memory comes from another stream.
func TestPinnedPoolNoDriverCall(t *testing.T) {
	d := &poolCalls{fakeDriver: newFake()}
	g := openDriver(t, d)
	p := newPinnedPool(t, g, nil)
	check(t, p.Warm(context.Background(), 1<<20))
	device := must(ferry.Alloc[byte](g, 4096))(t)
	streams := []*ferry.Stream{must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)}
	own := must(ferry.AllocHost[byte](g, 4096, nil))(t)
	defer closeAll(t, device, own, streams[0], streams[1], streams[2])
	var in, out ferry.Host[byte]
	calls, turn := int64(0), 0
	request := func() {
		s := streams[turn%len(streams)]
		turn++
		before := d.calls.Load()
		if err := errors.Join(in.Alloc(p, 4096), out.Alloc(p, 4096)); err != nil {
			t.Fatal(err)
		}
		calls += d.calls.Load() - before
		if err := errors.Join(ferry.Copy(s, device, &in), ferry.Copy(s, &out, device), s.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
		before = d.calls.Load()
		if err := errors.Join(in.Close(), out.Close()); err != nil {
			t.Fatal(err)
		}
		calls += d.calls.Load() - before
	}
	request()
	waits := testing.AllocsPerRun(300, func() {
		check(t, errors.Join(ferry.Copy(streams[0], device, own), streams[0].Wait(context.Background())))
	})
	if allocs := testing.AllocsPerRun(300, request); calls != 0 || allocs > waits && !racebuild.On && !checked() {
		t.Errorf("%d calls of the driver in Alloc and Close, want none; %v allocations a request, want %v of the wait", calls, allocs, waits)
	}
	check(t, errors.Join(in.Alloc(p, 4096), ferry.Copy(streams[0], device, &in)))
	before := d.calls.Load()
	check(t, in.Close())
	if d.calls.Load() == before {
		t.Error("Close in flight makes no call: the test sees none")
	}
}

// TestPinnedPoolLeak: a buffer of a pool that becomes garbage is reported, and no other buffer
// gets its memory.
func TestPinnedPoolLeak(t *testing.T) {
	g := openDriver(t, newFake())
	p := must(ferry.NewPinnedPool(g, nil))(t)
	reports := make(chan string, 10)
	ferry.OnLeak(func(text string) { reports <- text })
	defer ferry.OnLeak(nil)
	leakPooled(t, p)
	wantReport(t, reports, "of a pool")
	if got := must(p.Stats())(t); got.Used != 256 {
		t.Errorf("the pool has %+v, want the leaked block in use", got)
	}
}

//go:noinline
func leakPooled(t *testing.T, p *ferry.PinnedPool) {
	var h ferry.Host[byte]
	check(t, h.Alloc(p, 100))
}

// BenchmarkPinnedPool measures pairs of Alloc and Close. Each goroutine allocates a number of
// buffers and then closes them. ns/op is the time that passed divided by the pairs of all
// goroutines; cpu-ns/op is the time of a processor for one pair.
func BenchmarkPinnedPool(b *testing.B) {
	for _, buffers := range []int{1, 32} {
		for _, n := range []int{1, 4, 8, 16, 64} {
			b.Run(fmt.Sprintf("goroutines=%d/buffers=%d/bytes=4KiB", n, buffers), func(b *testing.B) { benchmarkPinnedPool(b, n, buffers) })
		}
	}
}

func benchmarkPinnedPool(b *testing.B, n, buffers int) {
	g := openDriver(b, newFake())
	p := must(ferry.NewPinnedPool(g, nil))(b)
	check(b, p.Warm(context.Background(), 32<<20))
	b.ReportAllocs()
	var all sync.WaitGroup
	each := b.N/(n*buffers) + 1
	b.ResetTimer()
	for range n {
		all.Go(func() {
			hosts := make([]ferry.Host[byte], buffers)
			for range each {
				for i := range hosts {
					if hosts[i].Alloc(p, 4096) != nil {
						b.Error("no buffer")
					}
				}
				for i := range hosts {
					if hosts[i].Close() != nil {
						b.Error("not closed")
					}
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())*float64(min(n, runtime.GOMAXPROCS(0)))/float64(each*n*buffers), "cpu-ns/op")
}

// yieldingDriver has other goroutines run while a copy is submitted and while a stream is
// waited for.
type yieldingDriver struct{ *fakeDriver }

func (d *yieldingDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	runtime.Gosched()
	return d.fakeDriver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}
func (d *yieldingDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	runtime.Gosched()
	return d.fakeDriver.StreamSynchronize(ctx, s)
}

// BenchmarkRequests copies 4 KiB in and out and waits, with buffers that stay and with
// buffers of a pool. The difference is what the pool costs a request.
func BenchmarkRequests(b *testing.B) {
	for _, kind := range []string{"own", "pool"} {
		for _, n := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("kind=%s/goroutines=%d", kind, n), func(b *testing.B) { benchmarkRequests(b, kind == "pool", n) })
		}
	}
}

func benchmarkRequests(b *testing.B, pooled bool, n int) {
	g := openDriver(b, &yieldingDriver{newFake()})
	p := must(ferry.NewPinnedPool(g, nil))(b)
	check(b, p.Warm(context.Background(), 32<<20))
	b.ReportAllocs()
	var all sync.WaitGroup
	each := b.N/n + 1
	for range n {
		s, d := must(ferry.NewStream(g, nil))(b), must(ferry.Alloc[byte](g, 4096))(b)
		in, out := new(ferry.Host[byte]), new(ferry.Host[byte])
		if !pooled {
			in, out = must(ferry.AllocHost[byte](g, 4096, nil))(b), must(ferry.AllocHost[byte](g, 4096, nil))(b)
		}
		all.Go(func() {
			for range each {
				if pooled && (in.Alloc(p, 4096) != nil || out.Alloc(p, 4096) != nil) {
					b.Error("no buffer")
				}
				if ferry.Copy(s, d, in) != nil || ferry.Copy(s, out, d) != nil || s.Wait(context.Background()) != nil {
					b.Error("no copy")
				}
				if pooled && (in.Close() != nil || out.Close() != nil) {
					b.Error("not closed")
				}
			}
		})
	}
	all.Wait()
}
