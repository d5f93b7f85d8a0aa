package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// newHostPool makes a pool that the test closes, and finds empty then.
func newHostPool(t testing.TB, g *ferry.GPU, o *ferry.PinnedPoolOptions) *ferry.PinnedPool {
	t.Helper()
	p := must(ferry.NewPinnedPool(g, o))(t)
	t.Cleanup(func() {
		closeAll(t, p, p)
		if s := p.Stats(); s.Used != 0 || s.InFlight != 0 || s.Pinned != 0 {
			t.Errorf("left in the pool: %+v", s)
		}
	})
	return p
}

// TestHostPool: memory comes back, a large enough piece of it serves again, and
// bytes travel.
func TestHostPool(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	d := must(ferry.Alloc[int32](g, 1000))(t)
	defer closeAll(t, d)
	var h ferry.Host[int32]
	for round := range int32(5) {
		check(t, h.Alloc(p, 1000))
		if h.Len() != 1000 || h.Size() != 4000 || uint64(h.Pointer())%256 != 0 {
			t.Errorf("%d elements, %d bytes at %#x", h.Len(), h.Size(), h.Pointer())
		}
		for i := range h.Slice() {
			h.Slice()[i] = round*1000 + int32(i)
		}
		check(t, ferry.Copy(s, d, &h))
		clear(h.Slice())
		check(t, ferry.Copy(s, &h, d))
		for i, v := range h.Slice() {
			if v != round*1000+int32(i) {
				t.Fatalf("round %d: element %d is %d", round, i, v)
			}
		}
		closeAll(t, &h)
	}
	if got := p.Stats(); got.Hits != 4 || got.DriverCalls != 1 || got.Used != 0 || got.Pinned != 32<<20 {
		t.Errorf("%+v, want 4 hits and one call of the driver for 32 MiB", got)
	}
	for place, bytes := range p.Stats().PinnedBy {
		if !strings.Contains(place, "ferry_test.TestHostPool:") || bytes != 32<<20 {
			t.Errorf("%d bytes for %q", bytes, place)
		}
	}
	check(t, p.Trim(0))
	if got := p.Stats(); got.Pinned != 0 || got.MostPinned != 32<<20 {
		t.Errorf("trimmed: %+v", got)
	}
}

// TestHostPoolStale: a handle or range of a buffer that was closed has no part in
// the buffer that got its memory next.
func TestHostPoolStale(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	const size = 3 << 20 // large blocks are taken from any cache, whatever processor this runs on
	d := must(ferry.Alloc[byte](g, size))(t)
	defer closeAll(t, d)
	old := must(ferry.AllocHost[byte](g, size, &ferry.HostOptions{Pool: p}))(t)
	part := old.Range(0, 100)
	where := old.Pointer()
	closeAll(t, old)
	var h ferry.Host[byte]
	check(t, h.Alloc(p, size-50))
	if h.Pointer() != where {
		t.Fatalf("the memory is another's: %#x, want %#x", h.Pointer(), where)
	}
	for name, o := range map[string]*ferry.Host[byte]{"the handle": old, "its range": part} {
		if err := sliceError(o.Slice); !errors.Is(err, ferry.ErrClosed) {
			t.Errorf("%s: Slice panics with %v", name, err)
		}
		wantError(t, ferry.Copy(s, d.Range(0, o.Len()), o), ferry.ErrClosed, "of a pool")
		closeAll(t, o)
	}
	if h.Slice() == nil {
		t.Error("the new buffer was closed by an old handle")
	}
	wantError(t, h.Alloc(p, 1), cu.ErrorInvalidValue, "is open: close it first")
	closeAll(t, &h)
	wantError(t, ferry.Copy(s, d.Range(0, size-50), &h), ferry.ErrClosed)
}

// TestHostPoolInFlight: what a stream uses is nobody else's, whatever is asked for
// meanwhile, and Close does not wait. The stream is held up by a host function.
func TestHostPoolInFlight(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
	for _, closeStream := range []bool{false, true} {
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		d := must(ferry.Alloc[byte](g, 3000))(t)
		var h ferry.Host[byte]
		check(t, h.Alloc(p, 3000))
		where := h.Pointer()
		gate := make(chan struct{})
		check(t, s.HostFunc(func() { <-gate }))
		check(t, ferry.Copy(s, d, &h))
		closeAll(t, &h)
		if closeStream {
			closeAll(t, s)
		}
		if got := p.Stats(); got.InFlight != 3072 {
			t.Errorf("in flight: %+v", got)
		}
		var others []*ferry.Host[byte]
		for range 10 {
			o := must(ferry.AllocHost[byte](g, 3000, &ferry.HostOptions{Pool: p}))(t)
			if o.Pointer() == where {
				t.Fatal("memory in flight was given to another")
			}
			others = append(others, o)
		}
		close(gate)
		check(t, s.Wait(context.Background()))
		again := false
		for i := 0; i < 64 && !again; i++ { // more than any cache has
			o := must(ferry.AllocHost[byte](g, 3000, &ferry.HostOptions{Pool: p}))(t)
			again = o.Pointer() == where
			others = append(others, o)
		}
		if !again {
			t.Error("memory that was in flight does not come back")
		}
		for _, o := range others {
			closeAll(t, o)
		}
		closeAll(t, s, d)
	}
}

// TestHostPoolCloseInFlight: Close of the pool waits for what was closed in flight;
// a buffer that is still open stays good, and takes its memory along.
func TestHostPoolCloseInFlight(t *testing.T) {
	g := openTest(t)
	p := must(ferry.NewPinnedPool(g, nil))(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	flying, open := must(ferry.AllocHost[byte](g, 100, &ferry.HostOptions{Pool: p}))(t), must(ferry.AllocHost[byte](g, 100, &ferry.HostOptions{Pool: p}))(t)
	check(t, ferry.Copy(s, d, flying))
	closeAll(t, flying, p)
	if got := p.Stats(); got.InFlight != 0 || got.Used != 256 || got.Pinned == 0 {
		t.Errorf("%+v, want one buffer of 256 bytes", got)
	}
	_, err := ferry.AllocHost[byte](g, 100, &ferry.HostOptions{Pool: p})
	wantError(t, err, ferry.ErrClosed)
	wantError(t, p.Warm(context.Background(), 1), ferry.ErrClosed)
	check(t, ferry.Copy(s, open, d))
	closeAll(t, open)
	if got := p.Stats(); got.Used != 0 || got.Pinned != 0 {
		t.Errorf("%+v, want nothing", got)
	}
	closeAll(t, s, d)
}

// TestHostPoolInHostFunction: Close within a host function takes effect afterwards.
func TestHostPoolInHostFunction(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 100))(t)
	h := must(ferry.AllocHost[byte](g, 100, &ferry.HostOptions{Pool: p}))(t)
	check(t, ferry.Copy(s, d, h))
	var inside error
	check(t, s.HostFunc(func() { inside = errors.Join(h.Close(), p.Close()) }))
	check(t, s.Wait(context.Background()))
	check(t, inside)
	closeAll(t, s, d)
	closeAll(t, must(ferry.NewStream(g, nil))(t)) // does what was left
}

// TestHostPoolGraph: a graph keeps the memory that it uses from the pool until it is
// closed.
func TestHostPoolGraph(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
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
		t.Fatal("memory of a graph was given to another")
	}
	copy(h.Slice(), "lost")
	check(t, graph.Launch(s))
	got := make([]byte, 4)
	check(t, ferry.Copy(s, ferry.Pageable(got), d.Range(0, 4)))
	if string(got) != "kept" {
		t.Errorf("the graph copied %q", got)
	}
	closeAll(t, &h, graph, s, d)
}

func TestHostPoolMisuse(t *testing.T) {
	g, other := openTest(t), openTest(t)
	p := newHostPool(t, g, &ferry.PinnedPoolOptions{Max: 1 << 20})
	var h ferry.Host[byte]
	wantError(t, h.Alloc(nil, 1), cu.ErrorInvalidValue, "no pool")
	wantError(t, (*ferry.Host[byte])(nil).Alloc(p, 1), cu.ErrorInvalidValue, "no buffer")
	wantError(t, h.Alloc(p, -1), cu.ErrorInvalidValue, "-1 elements")
	wantError(t, h.Alloc(p, 2<<20), cu.ErrorOutOfMemory, "the pool may have 1.0 MiB", "allocate 2.0 MiB from a pool")
	wantError(t, h.Alloc(p, 1<<62), cu.ErrorInvalidValue)
	_, err := ferry.AllocHost[byte](other, 1, &ferry.HostOptions{Pool: p})
	wantError(t, err, cu.ErrorInvalidValue, "another GPU")
	var pointers ferry.Host[*int]
	wantError(t, pointers.Alloc(p, 1), cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Max: -1})
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	wantError(t, p.Trim(-1), cu.ErrorInvalidValue, "cannot be negative")
	check(t, h.Alloc(p, 0))
	if s := h.Slice(); s == nil || len(s) != 0 {
		t.Errorf("of nothing: %v", s)
	}
	closeAll(t, &h)
	check(t, p.Warm(context.Background(), 1<<20))
	check(t, h.Alloc(p, 1<<20))
	if got := p.Stats(); got.DriverCalls != 1 || got.Hits != 0 {
		t.Errorf("warmed: %+v", got)
	}
	closeAll(t, &h)
}

// TestHostPoolSchedules: copies through buffers of a pool give the same bytes under
// every legal schedule, with closes in flight.
func TestHostPoolSchedules(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random, must(softgpu.ParseSchedule("random:2"))(t)} {
		g := openSoft(t, "h200", schedule)
		p := newHostPool(t, g, nil)
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

// TestHostPoolTogether: goroutines at once, each with bytes of its own.
func TestHostPoolTogether(t *testing.T) {
	g := openTest(t)
	p := newHostPool(t, g, nil)
	d := must(ferry.Alloc[byte](g, 16<<12))(t)
	defer closeAll(t, d)
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
			for i := range 30 {
				if err := lap(p, s, mine, byte(w+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// lap sends bytes there in one buffer, closed in flight, and back in another.
func lap(p *ferry.PinnedPool, s *ferry.Stream, d *ferry.Device[byte], value byte) error {
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

// TestHostPoolAllocations: a cached buffer, its Close, and Close in flight after the
// first time, allocate nothing.
func TestHostPoolAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := openFake(t, newFake())
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

// TestHostPoolLeak: a buffer of a pool that is lost is reported, and its memory is
// not given to anybody.
func TestHostPoolLeak(t *testing.T) {
	g := openFake(t, newFake())
	p := must(ferry.NewPinnedPool(g, nil))(t)
	reports := make(chan string, 10)
	ferry.OnLeak(func(text string) { reports <- text })
	defer ferry.OnLeak(nil)
	losePooled(t, p)
	wantReport(t, reports, "of a pool")
	if got := p.Stats(); got.Used != 256 {
		t.Errorf("%+v, want the lost block used", got)
	}
}

//go:noinline
func losePooled(t *testing.T, p *ferry.PinnedPool) {
	var h ferry.Host[byte]
	check(t, h.Alloc(p, 100))
}

// wantReport collects garbage until a report has come.
func wantReport(t *testing.T, reports <-chan string, part string) {
	t.Helper()
	for end := time.Now().Add(late); time.Now().Before(end); runtime.GC() {
		select {
		case got := <-reports:
			if !strings.Contains(got, part) {
				t.Errorf("got %q, want %q in it", got, part)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("no report")
}

// BenchmarkHostPool is the time that passes for each pair of Alloc and Close of all
// goroutines, whose buffers come and go so many at a time; cpu-ns/op is what a pair
// costs a processor.
func BenchmarkHostPool(b *testing.B) {
	for _, buffers := range []int{1, 32} {
		for _, n := range []int{1, 4, 8, 16, 64} {
			b.Run(fmt.Sprintf("goroutines=%d/buffers=%d/bytes=4KiB", n, buffers), func(b *testing.B) { benchmarkHostPool(b, n, buffers) })
		}
	}
}

func benchmarkHostPool(b *testing.B, n, buffers int) {
	g := openFake(b, newFake())
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
