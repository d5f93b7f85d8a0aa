package api

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// lockCounter is a driver that knows which memory it has page-locked.
type lockCounter struct {
	cu.Driver
	mu     sync.Mutex
	bytes  map[cu.HostPtr]uintptr
	locked int
	most   int
}

func newLockCounter(d cu.Driver) *lockCounter {
	return &lockCounter{Driver: d, bytes: map[cu.HostPtr]uintptr{}}
}

func (d *lockCounter) Unwrap() cu.Driver { return d.Driver }

func (d *lockCounter) MemHostAlloc(ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
	p, err := d.Driver.MemHostAlloc(ctx, n, f)
	d.add(p, n, err)
	return p, err
}

func (d *lockCounter) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, f cu.MemHostRegisterFlags) error {
	err := d.Driver.MemHostRegister(ctx, p, n, f)
	d.add(p, n, err)
	return err
}

func (d *lockCounter) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	return d.drop(p, func() error { return d.Driver.MemFreeHost(ctx, p) })
}

func (d *lockCounter) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	return d.drop(p, func() error { return d.Driver.MemHostUnregister(ctx, p) })
}

func (d *lockCounter) add(p cu.HostPtr, n uintptr, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.bytes[p] = n
		d.locked += int(n)
		d.most = max(d.most, d.locked)
	}
}

// drop forgets memory before the call frees it, because the driver can give its address out again.
func (d *lockCounter) drop(p cu.HostPtr, free func() error) error {
	d.mu.Lock()
	n := d.bytes[p]
	delete(d.bytes, p)
	d.locked -= int(n)
	d.mu.Unlock()
	err := free()
	if err != nil {
		d.add(p, n, nil)
	}
	return err
}

func (d *lockCounter) now() (locked, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.locked, d.most
}

// wantUse compares HostStats with what the driver has page-locked.
func wantUse(t *testing.T, d *lockCounter, g *ferry.GPU, when string) ferry.HostUse {
	t.Helper()
	u := must(ferry.HostStats(g))(t)
	locked, most := d.now()
	if sum := u.Allocated + u.Pooled + u.Registered + u.Staging + u.Pipelines; u.Locked != locked || sum != locked || u.MostLocked != most {
		t.Errorf("%s: %+v with a sum of %d; the driver has page-locked %d, and %d at most", when, u, sum, locked, most)
	}
	return u
}

// TestHostStats: each kind of memory counts as what it is from the call that page-locks it to the
// call that unlocks it, and the sums are those of the driver.
func TestHostStats(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		d := newLockCounter(softDriver(t, "h200", 1, schedule))
		g := must(ferry.OpenDriver(d, 0))(t)
		other := must(ferry.OpenDriver(d, 0))(t) // of the same context
		s := must(ferry.NewStream(g, nil))(t)
		device := must(ferry.Alloc[byte](g, 24<<20))(t)

		small := must(ferry.AllocHost[byte](g, 1000, nil))(t)
		large := must(ferry.AllocHost[byte](other, 300<<20, nil))(t) // two registrations
		if u := wantUse(t, d, g, "AllocHost"); u.Allocated != 1000+300<<20 || u.Locked != u.Allocated {
			t.Errorf("AllocHost: %+v", u)
		}
		p := must(ferry.NewPinnedPool(g, nil))(t)
		var h ferry.Host[byte]
		check(t, h.Alloc(p, 5000))
		if u := wantUse(t, d, other, "a pool"); u.Pooled != must(p.Stats())(t).Pinned || u.Pooled == 0 {
			t.Errorf("a pool: %+v", u)
		}
		memory := make([]byte, 3<<20)
		first := must(ferry.Register(g, memory[:2<<20], nil))(t)
		second := must(ferry.Register(other, memory[1<<20:], nil))(t) // shares 1 MiB with the first
		if u := wantUse(t, d, g, "Register"); u.Registered != 3<<20 {
			t.Errorf("Register: %+v", u)
		}
		check(t, ferry.Copy(s, device, ferry.Pageable(make([]byte, 24<<20))))
		if u := wantUse(t, d, g, "a pageable copy"); u.Staging != must(g.Staging().Stats())(t).Locked || u.Staging == 0 {
			t.Errorf("a pageable copy: %+v", u)
		}
		run := pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(memory[:1<<20])}, Out: []pipeline.End{device.Range(0, 1<<20)},
			Step: func(s *ferry.Stream, c *pipeline.Chunk) error { return ferry.Copy(s, c.Out[0], c.In[0]) }}
		must(run.Run(t.Context()))(t)
		if u := wantUse(t, d, g, "a pipeline"); u.Pipelines != 0 { // the slice is in a registration: no memory of the pipeline
			t.Errorf("a pipeline of page-locked memory: %+v", u)
		}
		run.In[0] = ferry.Pageable(make([]byte, 1<<20))
		must(run.Run(t.Context()))(t)
		if u := wantUse(t, d, g, "a pipeline"); u.Pipelines == 0 {
			t.Errorf("a pipeline: %+v", u)
		}
		theirs := must(d.Driver.MemHostAlloc(g.CUContext(), 100, cu.MemHostAllocPortable))(t)
		before := must(ferry.HostStats(g))(t)
		wrapped := must(ferry.WrapHost(g, address.Bytes(theirs, 100), nil))(t)
		closeAll(t, wrapped)
		if after := must(ferry.HostStats(g))(t); after != before {
			t.Errorf("wrapped memory: %+v, was %+v", after, before)
		}
		check(t, d.Driver.MemFreeHost(g.CUContext(), theirs))
		check(t, s.HostFunc(func() { check(t, small.Close()) })) // another goroutine frees it
		check(t, s.Wait(t.Context()))
		closeAll(t, &run, first, second, large, &h, p, device)
		locked := func() int { u := must(ferry.HostStats(g))(t); return u.Locked - u.Staging }
		eventually(t, "the memory is freed", func() bool { return locked() == 0 })
		if u := wantUse(t, d, g, "after Close"); u.Locked != u.Staging {
			t.Errorf("after Close: %+v", u)
		}
		closeAll(t, s, other, g)
		eventually(t, "the last user has left the GPU", func() bool { return must(ferry.HostStats(g))(t).Locked == 0 })
		if u := wantUse(t, d, g, "after Close of the GPU"); u.Locked != 0 {
			t.Errorf("after Close of the GPU: %+v", u)
		}
	}
	wantError(t, last(ferry.HostStats(nil)), cu.ErrorInvalidValue, "no GPU")
}

// TestHostStatsWhenCallsFail: whichever call fails, before or after the driver did it, what is
// counted is what the driver has page-locked. When all is closed nothing is. A sample has two places of six.
func TestHostStatsWhenCallsFail(t *testing.T) {
	for _, call := range []string{"cuMemHostAlloc", "cuMemFreeHost", "cuMemHostRegister", "cuMemHostUnregister"} {
		largest := 1 << 20
		if strings.HasSuffix(call, "egister") {
			largest = 257 << 20 // two registrations
		}
		for _, nth := range sample.Of(t, []uint64{1, 2, 3, 4, 5, 6}, 2) {
			for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
				for _, code := range []cu.Result{cu.ErrorUnknown, cu.ErrorOutOfMemory}[:1+nth%2] {
					d := newLockCounter(softDriver(t, "h200", 1, softgpu.Eager))
					failing := fault.Wrap(d, fault.Options{Call: call, Nth: nth, Mode: mode, Code: code})
					g := must(ferry.OpenDriver(failing, 0))(t)
					useHostMemory(t, g, largest, func(when string) {
						if u := must(ferry.HostStats(g))(t); u.Locked != d.sum() {
							t.Errorf("%s %d %v %v: %s: %+v, the driver has page-locked %d", call, nth, mode, code, when, u, d.sum())
						}
					})
					_ = g.Close()
					check(t, g.Close())
					if u := must(ferry.HostStats(g))(t); u.Locked != 0 {
						t.Errorf("%s %d %v %v: all is closed: %+v", call, nth, mode, code, u)
					}
				}
			}
		}
	}
}

func (d *lockCounter) sum() int { locked, _ := d.now(); return locked }

// useHostMemory makes and closes memory of all kinds, each closed several times. It calls check
// after each step.
func useHostMemory(t *testing.T, g *ferry.GPU, largest int, check func(when string)) {
	closeAgain := func(c interface{ Close() error }) {
		for range 3 {
			_ = c.Close()
			check("Close")
		}
	}
	for _, bytes := range []int{1000, largest} {
		if h, err := ferry.AllocHost[byte](g, bytes, nil); err == nil {
			defer closeAgain(h)
		}
		check("AllocHost")
	}
	if p, err := ferry.NewPinnedPool(g, nil); err == nil {
		defer closeAgain(p)
		var h ferry.Host[byte]
		if h.Alloc(p, 100) == nil {
			defer closeAgain(&h)
		}
		check("Host.Alloc")
	}
	memory := make([]byte, 3<<20)
	for _, part := range [][]byte{memory[:2<<20], memory[1<<20:]} {
		if h, err := ferry.Register(g, part, nil); err == nil {
			defer closeAgain(h)
		}
		check("Register")
	}
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAgain(s)
	if d, err := ferry.Alloc[byte](g, 20<<20); err == nil {
		_ = ferry.Copy(s, d, ferry.Pageable(make([]byte, 20<<20)))
		check("Copy")
		closeAgain(d)
	}
}

// TestHostStatsAtOnce: with many goroutines the figures are those of the driver in the end, the most
// is right, and no reader sees a sum that is not that of its parts.
func TestHostStatsAtOnce(t *testing.T) {
	d := newLockCounter(softDriver(t, "h200", 1, softgpu.Eager))
	g := must(ferry.OpenDriver(d, 0))(t)
	p := must(ferry.NewPinnedPool(g, nil))(t)
	var all, readers sync.WaitGroup
	var done atomic.Bool
	readers.Go(func() {
		for !done.Load() {
			u, err := ferry.HostStats(g)
			if sum := u.Allocated + u.Pooled + u.Registered + u.Staging + u.Pipelines; err != nil || u.Locked != sum || u.MostLocked < sum || sum < 0 {
				t.Errorf("%+v: the sum is %d (%v)", u, sum, err)
			}
			runtime.Gosched()
		}
	})
	shared := make([]byte, 1<<20)
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 50 {
				h := must(ferry.AllocHost[byte](g, 1+r.IntN(1<<20), nil))(t)
				from := r.IntN(len(shared) / 2)
				x := must(ferry.Register(g, shared[from:from+1+r.IntN(len(shared)/2)], nil))(t)
				var b ferry.Host[byte]
				check(t, b.Alloc(p, 1+r.IntN(8<<20)))
				closeAll(t, h, x, &b)
			}
		})
	}
	all.Wait()
	done.Store(true)
	readers.Wait()
	closeAll(t, p)
	u := must(ferry.HostStats(g))(t)
	if _, most := d.now(); u.Locked != 0 || u.MostLocked < 1<<20 || u.MostLocked > most+16<<20 {
		t.Errorf("in the end: %+v, the driver had %d at most", u, most)
	}
	closeAll(t, g)
}

// BenchmarkAlloc allocates and frees device memory of a driver that takes no time, so that the
// cost of Ferry alone is seen.
func BenchmarkAlloc(b *testing.B) {
	g := must(ferry.OpenDriver(gputest.NewFake(), 0))(b)
	defer closeAll(b, g)
	b.ReportAllocs()
	for b.Loop() {
		d, err := ferry.Alloc[byte](g, 1000)
		if err != nil {
			b.Fatal(err)
		}
		check(b, d.Close())
	}
}

// BenchmarkHostAlloc takes a buffer from a pool and gives it back.
func BenchmarkHostAlloc(b *testing.B) {
	g := openTest(b)
	p := newPinnedPool(b, g, nil)
	var h ferry.Host[byte]
	b.ReportAllocs()
	for b.Loop() {
		check(b, h.Alloc(p, 1000))
		check(b, h.Close())
	}
}
