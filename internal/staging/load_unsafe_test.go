package staging

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// load is a device that many goroutines use at once.
type load struct {
	cu.Driver
	ctx    cu.Context
	device cu.DevicePtr
}

// client is one goroutine's part of a load: it copies to the device and back.
type client struct {
	*load
	ring   *Ring
	number int
	stream cu.Stream
	device cu.DevicePtr
	direct int // copies to the device of at most this size are made by the driver
	in     []byte
	out    []byte
}

// client returns a client with the given bytes at an offset of the device's memory.
func (l *load) client(b *testing.B, r *Ring, number int, off, bytes, direct int) *client {
	stream, err := l.StreamCreate(l.ctx, cu.StreamNonBlocking)
	if err != nil {
		b.Fatal(err)
	}
	c := &client{load: l, ring: r, number: number, stream: stream, device: l.device + cu.DevicePtr(off), direct: direct}
	c.in, c.out = make([]byte, bytes), make([]byte, bytes)
	for i := range c.in {
		c.in[i] = byte(i>>8) + byte(i) + byte(number)
	}
	return c
}

// job returns a transfer of all bytes. If idle is true, the stream is known to be done.
func (c *client) job(idle bool) Job {
	job := Job{Stream: c.stream, StreamID: c.number, Device: c.device, Bytes: int64(len(c.in))}
	if idle {
		job.Completed = c.ring.Submitted()
	}
	return job
}

// copyIn copies to the device as package ferry does.
func (c *client) copyIn() error {
	if len(c.in) <= c.direct {
		return c.ring.Call(background, c.driverIn)
	}
	_, err := c.ring.In(background, c.job(true), Memory(c.in))
	return c.orByDriver(err, c.driverIn)
}

// copyOut copies from the device.
func (c *client) copyOut() error {
	_, err := c.ring.Out(background, c.job(false), Memory(c.out))
	return c.orByDriver(err, c.driverOut)
}

func (c *client) driverIn() error {
	return c.MemcpyHtoDAsync(c.ctx, c.device, cu.HostPtr(unsafe.Pointer(&c.in[0])), uintptr(len(c.in)), c.stream)
}

func (c *client) driverOut() error {
	err := c.MemcpyDtoHAsync(c.ctx, cu.HostPtr(unsafe.Pointer(&c.out[0])), c.device, uintptr(len(c.out)), c.stream)
	return errors.Join(err, c.StreamSynchronize(c.ctx, c.stream))
}

var busy atomic.Int64 // transfers that returned ErrBusy

// orByDriver has the driver copy after ErrBusy.
func (c *client) orByDriver(err error, byDriver func() error) error {
	if errors.Is(err, ErrBusy) {
		busy.Add(1)
		return byDriver()
	}
	return err
}

// request copies to the device and back.
func (c *client) request() error {
	c.in[0]++
	if err := errors.Join(c.copyIn(), c.copyOut()); err != nil {
		return err
	}
	if last := len(c.in) - 1; c.in[0] != c.out[0] || c.in[last] != c.out[last] {
		return fmt.Errorf("client %d: other bytes came back", c.number)
	}
	return nil
}

// serve has clients make b.N requests in all, and reports their times.
func serve(b *testing.B, clients []*client) {
	var left atomic.Int64
	left.Store(int64(b.N))
	times := make([][]time.Duration, len(clients))
	var all sync.WaitGroup
	busy.Store(0)
	b.ResetTimer()
	for i, c := range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				begin := time.Now()
				if err := c.request(); err != nil {
					b.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	report(b, slices.Concat(times...))
	fewest, most := b.N, 0
	for _, t := range times {
		fewest, most = min(fewest, len(t)), max(most, len(t))
	}
	b.ReportMetric(float64(fewest)/float64(max(1, most)), "fewest/most")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(busy.Load()), "busy")
}

// report reports percentiles of times.
func report(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(len(times)-1, int(share*float64(len(times))))]) / 1e3
	}
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(at(1), "longest-us")
}

// loadSettings are the settings of an H200 with the given number of places.
func loadSettings(places int) Settings {
	set := sized(8<<20, 8, 128<<10, 12)
	set.MaxTransfers, set.SmallChunk, set.SmallSlots = places, 2<<20, min(2*places, 64)
	set.NonTemporalFrom, set.LastBytes, set.DemoteFrom = 128<<20, 24<<20, 64<<20
	return set
}

// run measures requests of one size by the given number of callers.
func (l *load) run(b *testing.B, set Settings, callers, bytes, direct int) {
	r := New(l, l.ctx, set, Hooks{})
	defer r.Close()
	var clients []*client
	for i := range callers {
		clients = append(clients, l.client(b, r, i+1, i*bytes, bytes, direct))
	}
	defer func() {
		if err := l.CtxSynchronize(l.ctx); err != nil {
			b.Error(err)
		}
		for _, c := range clients {
			_ = l.StreamDestroy(l.ctx, c.stream)
		}
	}()
	for range 8 {
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() { _ = c.request() }) // the ring allocates slots
		}
		all.Wait()
	}
	serve(b, clients)
}

// sweep measures many callers with different numbers of places.
func (l *load) sweep(b *testing.B, direct int) {
	for _, bytes := range []int{64 << 10, 1 << 20} {
		for _, callers := range []int{1, 4, 8, 16, 64, 256} {
			for _, places := range []int{4, 8, 12, 16, 32, 1000} {
				if places > 4 && places/2 >= callers && places < 1000 {
					continue
				}
				b.Run(fmt.Sprintf("size=%d/callers=%d/places=%d", bytes, callers, places), func(b *testing.B) {
					l.run(b, loadSettings(places), callers, bytes, direct)
				})
			}
		}
	}
}

// BenchmarkLoadHardware measures requests of many goroutines on a GPU: a copy in, as package
// ferry makes it, and a copy out.
func BenchmarkLoadHardware(b *testing.B) { hardwareLoad(b, 256<<20).sweep(b, 512<<10) }

// BenchmarkLoadLong measures transfers of many goroutines that have several chunks.
func BenchmarkLoadLong(b *testing.B) {
	l := hardwareLoad(b, 64*16<<20)
	for _, callers := range []int{1, 4, 16, 64} {
		for _, places := range []int{4, 8, 16, 1000} {
			b.Run(fmt.Sprintf("size=%d/callers=%d/places=%d", 16<<20, callers, places), func(b *testing.B) {
				l.run(b, loadSettings(places), callers, 16<<20, 512<<10)
			})
		}
	}
}

func hardwareLoad(b *testing.B, bytes uintptr) *load {
	d := gputest.Driver(b)
	ctx, err := d.DevicePrimaryCtxRetain(0)
	if err != nil {
		b.Fatal(err)
	}
	device, err := d.MemAlloc(ctx, bytes)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(d.MemFree(ctx, device), d.DevicePrimaryCtxRelease(0)); err != nil {
			b.Error(err)
		}
	})
	return &load{Driver: d, ctx: ctx, device: device}
}

// BenchmarkBeside measures one copy of 64 KiB at a time beside four goroutines that copy 1
// GiB at a time in the same direction.
func BenchmarkBeside(b *testing.B) {
	const long, bytes = 4, 1 << 30
	l := hardwareLoad(b, long*bytes+1<<20)
	var others []*client
	for i := range long {
		others = append(others, l.client(b, nil, i+1, i*bytes, bytes, 0))
	}
	for _, places := range []int{2, 8, 16, 1000} {
		r := New(l, l.ctx, loadSettings(places), Hooks{})
		for _, c := range others {
			c.ring = r
		}
		short := l.client(b, r, long+1, long*bytes, 64<<10, 512<<10)
		ring := *short // copies in through the ring, too
		ring.direct = 0
		for _, kind := range []struct {
			name string
			long func(*client) error
			do   func() error
		}{
			{"dir=in/by=driver", (*client).copyIn, short.copyIn},
			{"dir=in/by=ring", (*client).copyIn, ring.copyIn},
			{"dir=out/by=ring", (*client).copyOut, short.copyOut},
			{"dir=out-beside-in/by=ring", (*client).copyIn, short.copyOut},
		} {
			b.Run(fmt.Sprintf("%s/places=%d", kind.name, places), func(b *testing.B) {
				beside(b, others, kind.long, short, kind.do)
			})
		}
		if err := errors.Join(l.CtxSynchronize(l.ctx), r.Close()); err != nil {
			b.Error(err)
		}
	}
}

// beside measures short copies, with a pause between them, while others copy.
func beside(b *testing.B, others []*client, long func(*client) error, short *client, do func() error) {
	var stop atomic.Bool
	var copied atomic.Int64
	var all sync.WaitGroup
	for _, c := range others {
		all.Go(func() {
			for !stop.Load() {
				if err := errors.Join(long(c), c.StreamSynchronize(c.ctx, c.stream)); err != nil {
					b.Error(err)
					return
				}
				copied.Add(int64(len(c.in)))
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // all are copying
	var times []time.Duration
	copied.Store(0)
	busy.Store(0)
	b.ResetTimer()
	for range b.N {
		time.Sleep(200 * time.Microsecond)
		begin := time.Now()
		if err := errors.Join(do(), short.StreamSynchronize(short.ctx, short.stream)); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	b.StopTimer()
	report(b, times)
	b.ReportMetric(float64(copied.Load())/b.Elapsed().Seconds()/1e9, "long-GB/s")
	b.ReportMetric(float64(busy.Load()), "busy")
	stop.Store(true)
	all.Wait()
}

// link is a driver whose copies take the time of a link of 50 GB/s for each direction. Its
// calls hold a lock for a microsecond.
type link struct {
	cu.Driver
	mu      sync.Mutex
	memory  []byte
	engines [2]time.Duration // when each is done
	streams map[cu.Stream]time.Duration
	events  map[cu.Event]time.Duration
	last    uint64
	begin   time.Time
}

const linkRate = 50 // bytes a nanosecond

func (l *link) call() (now time.Duration, unlock func()) {
	l.mu.Lock()
	now = time.Since(l.begin)
	for time.Since(l.begin) < now+time.Microsecond {
	}
	return now, l.mu.Unlock
}

func (l *link) queue(n uintptr, engine int, s cu.Stream) {
	now, unlock := l.call()
	defer unlock()
	end := max(now, l.engines[engine], l.streams[s]) + 3*time.Microsecond + time.Duration(n/linkRate)
	l.engines[engine], l.streams[s] = end, end
}

func (l *link) MemcpyHtoDAsync(_ cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	l.queue(n, 0, s)
	l.memory[dst], l.memory[dst+cu.DevicePtr(n)-1] = *(*byte)(src), *(*byte)(unsafe.Add(unsafe.Pointer(src), n-1))
	return nil
}

func (l *link) MemcpyDtoHAsync(_ cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	l.queue(n, 1, s)
	*(*byte)(dst), *(*byte)(unsafe.Add(unsafe.Pointer(dst), n-1)) = l.memory[src], l.memory[src+cu.DevicePtr(n)-1]
	return nil
}

func (l *link) EventRecord(_ cu.Context, e cu.Event, s cu.Stream) error {
	_, unlock := l.call()
	defer unlock()
	l.events[e] = l.streams[s]
	return nil
}

func (l *link) EventQuery(_ cu.Context, e cu.Event) error {
	now, unlock := l.call()
	defer unlock()
	if l.events[e] > now {
		return cu.ErrorNotReady
	}
	return nil
}

func (l *link) EventSynchronize(ctx cu.Context, e cu.Event) error {
	for l.EventQuery(ctx, e) != nil {
		runtime.Gosched()
	}
	return nil
}

func (l *link) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) {
	_, unlock := l.call()
	defer unlock()
	l.last++
	return cu.Event(l.last), nil
}

func (l *link) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	_, unlock := l.call()
	defer unlock()
	l.last++
	return cu.Stream(l.last), nil
}

func (l *link) MemHostAlloc(_ cu.Context, n uintptr, _ cu.MemHostAllocFlags) (cu.HostPtr, error) {
	b := make([]byte, n)
	return cu.HostPtr(unsafe.Pointer(&b[0])), nil
}

func (l *link) EventDestroy(cu.Context, cu.Event) error       { return nil }
func (l *link) StreamDestroy(cu.Context, cu.Stream) error     { return nil }
func (l *link) MemFreeHost(cu.Context, cu.HostPtr) error      { return nil }
func (l *link) CtxSynchronize(cu.Context) error               { return nil }
func (l *link) StreamSynchronize(cu.Context, cu.Stream) error { return nil }

// BenchmarkLoad measures requests of many goroutines on a link without a GPU.
func BenchmarkLoad(b *testing.B) {
	d := &link{memory: make([]byte, 256<<20), streams: map[cu.Stream]time.Duration{}, events: map[cu.Event]time.Duration{}, begin: time.Now()}
	(&load{Driver: d}).sweep(b, 0)
}
