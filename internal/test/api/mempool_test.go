package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/softgpu"
)

// newMemPool makes a pool. It skips the test where the device has none.
func newMemPool(t *testing.T, g *ferry.GPU, o *ferry.MemPoolOptions) *ferry.MemPool {
	t.Helper()
	if n := must(g.Attribute(cu.DeviceAttributeMemoryPoolsSupported))(t); n == 0 {
		t.Skip("the device has no memory pools")
	}
	return must(ferry.NewMemPool(g, o))(t)
}

// usedBytes returns how many bytes of a pool buffers use.
func usedBytes(t *testing.T, p *ferry.MemPool) int {
	t.Helper()
	return must(p.Stats())(t).Used
}

// TestAllocAsync allocates, uses and frees in the order of the stream. Nothing waits.
func TestAllocAsync(t *testing.T) {
	g := openTest(t)
	p := newMemPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	host := must(ferry.AllocHost[byte](g, 4096, nil))(t)
	open := gate(t, s)
	vec := must(ferry.AllocAsync[byte](s, 4096, p))(t)
	if got := usedBytes(t, p); got < 4096 {
		t.Errorf("the pool has %d bytes in use, want 4096 at least", got)
	}
	check(t, ferry.Fill(s, vec, byte(42)))
	check(t, ferry.Copy(s, host, vec))
	closeAll(t, vec, vec) // must return although the gate is shut
	wantError(t, ferry.Fill(s, vec, byte(1)), ferry.ErrClosed, "device buffer")
	waits(t, "Slice", open, func() {
		if got := host.Slice(); got[0] != 42 || got[4095] != 42 {
			t.Errorf("got %d and %d, want 42", got[0], got[4095])
		}
	})
	check(t, s.Wait(context.Background()))
	if got := usedBytes(t, p); got != 0 {
		t.Errorf("the pool has %d bytes in use after all buffers were closed", got)
	}
	if got := must(p.Stats())(t).MostUsed; got < 4096 {
		t.Errorf("the pool had %d bytes in use at most, want 4096 at least", got)
	}
	closeAll(t, host, s, p, p)
	_, err := ferry.AllocAsync[byte](s, 4096, nil)
	wantError(t, err, ferry.ErrClosed, "stream 1")
}

// TestAllocAsyncStreams: other streams wait for the allocation, and the free waits for them.
// The host waits for neither.
func TestAllocAsyncStreams(t *testing.T) {
	for name, open := range map[string]func() *ferry.GPU{
		"any":  func() *ferry.GPU { return openTest(t) },
		"lazy": func() *ferry.GPU { return openSoft(t, "h200", softgpu.Lazy) },
	} {
		g := open()
		p := newMemPool(t, g, nil)
		options := &ferry.StreamOptions{NonBlocking: true}
		home, a, b := must(ferry.NewStream(g, options))(t), must(ferry.NewStream(g, options))(t), must(ferry.NewStream(g, options))(t)
		host := must(ferry.AllocHost[byte](g, 8192, nil))(t)
		e := must(ferry.NewEvent(g, nil))(t)
		for n := range byte(5) {
			openHome := gate(t, home)
			vec := must(ferry.AllocAsync[byte](home, 4096, p))(t)
			check(t, ferry.Fill(a, vec, n)) // the stream waits for home
			check(t, ferry.Fill(a, vec, n+1))
			check(t, a.Record(e))
			check(t, b.WaitEvent(e))
			check(t, ferry.Copy(b, host.Range(0, 4096), vec))
			check(t, ferry.Copy(a, host.Range(4096, 8192), vec))
			check(t, vec.Close())
			again := must(ferry.AllocAsync[byte](home, 4096, p))(t) // may have the same address
			check(t, ferry.Fill(home, again, byte(99)))
			check(t, again.Close())
			openHome()
			for i, got := range host.Slice() {
				if got != n+1 {
					t.Fatalf("%s: element %d is %d, want %d", name, i, got, n+1)
				}
			}
			check(t, g.Wait(context.Background()))
		}
		if got := usedBytes(t, p); got != 0 {
			t.Errorf("%s: the pool has %d bytes in use after all buffers were closed", name, got)
		}
		closeAll(t, p, host, home, a, b, e)
	}
}

// TestAllocAsyncFirstUse: the first use of a buffer in another stream waits for the allocation,
// and not for the kernel behind it. The check for races reports that, unless an event orders the
// two. For the second use nothing else holds.
func TestAllocAsyncFirstUse(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		for _, ordered := range []bool{false, true} {
			if racebuild.On && !ordered { // the race detector reports it, too
				continue
			}
			d := must(softgpu.Open(softgpu.Options{Schedule: schedule, Check: "races"}))(t)
			g := openDriver(t, d)
			m, increment := load(t, g, "increment")
			options := &ferry.StreamOptions{NonBlocking: true}
			home, other := must(ferry.NewStream(g, options))(t), must(ferry.NewStream(g, options))(t)
			e := must(ferry.NewEvent(g, nil))(t)
			vec := must(ferry.AllocAsync[float32](home, 64, nil))(t)
			check(t, ferry.Fill(home, vec, 1))
			check(t, home.Launch(increment, ferry.Cover(1, 64), vec, uint64(64)))
			check(t, home.Record(e))
			if ordered {
				check(t, other.WaitEvent(e))
			}
			check(t, other.Launch(increment, ferry.Cover(1, 64), vec, uint64(64)))
			check(t, g.Wait(t.Context()))
			found := len(d.Findings()) > 0
			if found == ordered {
				t.Errorf("%v, ordered by an event: %v: findings %v", schedule, ordered, d.Findings())
			}
			closeAll(t, vec, e, home, other, m)
		}
	}
}

// TestAllocAsyncClosedStream: a buffer can be used after Close of the stream that it was
// allocated on.
func TestAllocAsyncClosedStream(t *testing.T) {
	g := openTest(t)
	p := newMemPool(t, g, nil)
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	host := must(ferry.AllocHost[byte](g, 4096, nil))(t)
	vec := must(ferry.AllocAsync[byte](s, 4096, p))(t)
	closeAll(t, s)
	check(t, ferry.Fill(other, vec, byte(7)))
	check(t, ferry.Copy(other, host, vec))
	closeAll(t, vec)
	if host.Slice()[4095] != 7 {
		t.Error("the bytes differ")
	}
	unused := must(ferry.AllocAsync[byte](other, 4096, p))(t)
	closeAll(t, other, unused)
	check(t, g.Wait(context.Background()))
	if got := usedBytes(t, p); got != 0 {
		t.Errorf("the pool has %d bytes in use after all buffers were closed", got)
	}
	closeAll(t, p, host)
}

// TestAllocAsyncInGraph: a graph keeps memory of a pool until it is closed, and its launches
// wait for the allocation.
func TestAllocAsyncInGraph(t *testing.T) {
	x := newGraphFixture(t, openTest(t))
	p := newMemPool(t, x.g, nil)
	x.vec = must(ferry.AllocAsync[float32](x.s, graphFloats, p))(t)
	graph := must(x.s.Capture(x.queue))(t)
	check(t, x.vec.Close())
	for n := range 3 {
		x.setInput(float32(n))
		check(t, graph.Launch(x.g.DefaultStream()))
		wantValues(t, x.out.Slice(), float32(n+1))
	}
	if got := usedBytes(t, p); got == 0 {
		t.Error("the pool has the memory back before the graph is closed")
	}
	closeAll(t, graph)
	check(t, x.g.Wait(context.Background()))
	if got := usedBytes(t, p); got != 0 {
		t.Errorf("the pool has %d bytes in use after the graph is closed", got)
	}
	closeAll(t, p)
}

// TestMemPoolKeep: a pool keeps as many bytes as it is told, and Trim gives the rest back.
func TestMemPoolKeep(t *testing.T) {
	g := openTest(t)
	p := newMemPool(t, g, &ferry.MemPoolOptions{Keep: math.MaxInt})
	s := must(ferry.NewStream(g, nil))(t)
	use := func() {
		t.Helper()
		closeAll(t, must(ferry.AllocAsync[byte](s, 100<<20, p))(t))
		check(t, s.Wait(context.Background()))
	}
	reserved := func() int { return must(p.Stats())(t).Reserved }
	use()
	if got := reserved(); got < 100<<20 {
		t.Errorf("the pool keeps %d bytes, want 100 MiB at least", got)
	}
	check(t, p.Trim(64<<20))
	if got := reserved(); got < 64<<20 || got >= 100<<20 {
		t.Errorf("the pool keeps %d bytes after it was trimmed to 64 MiB", got)
	}
	check(t, p.SetKeep(0))
	use()
	if got := reserved(); got != 0 {
		t.Errorf("the pool keeps %d bytes, want none", got)
	}
	closeAll(t, p, s)
	wantError(t, p.Trim(0), ferry.ErrClosed, "memory pool")
	_, err := ferry.AllocAsync[byte](must(ferry.NewStream(g, nil))(t), 1, p)
	wantError(t, err, ferry.ErrClosed, "memory pool")
}

// TestMemPoolRefused: bad input is refused. Empty buffers are valid, and Close of the
// device's own pool does nothing.
func TestMemPoolRefused(t *testing.T) {
	g := openTest(t)
	p := newMemPool(t, g, nil)
	s := must(ferry.NewStream(g, nil))(t)
	for _, o := range []ferry.MemPoolOptions{{Keep: -1}, {Max: -1}} {
		_, err := ferry.NewMemPool(g, &o)
		wantError(t, err, cu.ErrorInvalidValue, "negative")
	}
	wantError(t, p.SetKeep(-1), cu.ErrorInvalidValue, "negative")
	wantError(t, p.Trim(-1), cu.ErrorInvalidValue, "negative")
	_, err := ferry.AllocAsync[byte](s, -1, p)
	wantError(t, err, cu.ErrorInvalidValue, "negative")
	_, err = ferry.AllocAsync[byte](s, 1<<50, p)
	wantError(t, err, cu.ErrorOutOfMemory, "larger than the device")
	_, err = ferry.AllocAsync[byte](nil, 1, p)
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
	var none *ferry.MemPool
	_, err = none.Stats()
	wantError(t, err, cu.ErrorInvalidValue, "no memory pool")
	check(t, none.Close())
	empty := must(ferry.AllocAsync[byte](s, 0, p))(t)
	check(t, ferry.Fill(s, empty, 1))
	def := g.DefaultMemPool()
	check(t, def.Close())
	if _, err := def.Stats(); err != nil {
		t.Errorf("the device's pool was closed: %v", err)
	}
	if def != g.DefaultMemPool() {
		t.Error("DefaultMemPool returned another pool in a second call")
	}
	closeAll(t, empty, s, p)
}

// TestMemPoolsUnsupported: on a device without pools AllocAsync works as Alloc. To make a pool
// is an error that names the attribute.
func TestMemPoolsUnsupported(t *testing.T) {
	g := openSoft(t, "fermi-c2050", softgpu.Eager)
	_, err := g.DefaultMemPool().Stats()
	wantError(t, err, cu.ErrorNotSupported, "MEMORY_POOLS_SUPPORTED", "as Alloc does")
	_, err = ferry.NewMemPool(g, nil)
	wantError(t, err, cu.ErrorNotSupported, "MEMORY_POOLS_SUPPORTED")
	s := must(ferry.NewStream(g, nil))(t)
	_, err = ferry.AllocAsync[byte](s, 64, g.DefaultMemPool())
	wantError(t, err, cu.ErrorNotSupported, "MEMORY_POOLS_SUPPORTED")
	vec := must(ferry.AllocAsync[byte](s, 64, nil))(t)
	host := must(ferry.AllocHost[byte](g, 64, nil))(t)
	check(t, ferry.Fill(s, vec, byte(3)))
	check(t, ferry.Copy(s, host, vec))
	closeAll(t, vec)
	if host.Slice()[63] != 3 {
		t.Error("the bytes differ")
	}
	closeAll(t, host, s)
}

// lostFree is a driver whose cuMemFreeAsync frees, and returns an error of earlier work.
type lostFree struct {
	cu.Driver
	err   error
	frees int
}

func (d *lostFree) Unwrap() cu.Driver { return d.Driver }

func (d *lostFree) MemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) error {
	d.frees++
	if err := d.Driver.MemFreeAsync(ctx, p, s); err != nil {
		return err
	}
	return d.err
}

// TestFreeAsyncOnce: when the free of a buffer returns that the context is lost, the memory may
// be free. Close does not free it again, and the GPU can be closed.
func TestFreeAsyncOnce(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
	d := &lostFree{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	b := must(ferry.AllocAsync[byte](s, 4096, nil))(t)
	d.err = cu.ErrorLaunchFailed
	err := b.Close()
	wantError(t, err, cu.ErrorLaunchFailed, "close device buffer")
	if strings.Contains(err.Error(), "already") || d.frees != 1 {
		t.Errorf("freed %d times: %v", d.frees, err)
	}
	d.err = nil
	closeAll(t, b, s, g)
}

// TestPinnedPoolZero closes buffers with contents, and takes memory of the pool again. With
// Zero the next owner sees none of them; without, the memory is the same and has them.
func TestPinnedPoolZero(t *testing.T) {
	g := openTest(t)
	for _, zero := range []bool{false, true} {
		p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Zero: zero}))(t)
		seen := 0
		for _, n := range []int{100, 5000, 100, 300000, 99, 5000, 4999, 300000} {
			h := must(fromPool[uint32](p, n))(t)
			words := h.Slice()
			if slices.ContainsFunc(words, func(v uint32) bool { return v != 0 }) {
				seen++
			}
			for i := range words {
				words[i] = 0xdeadbeef
			}
			closeAll(t, h)
		}
		if (seen > 0) == zero {
			t.Errorf("zero %t: %d buffers with contents", zero, seen)
		}
		closeAll(t, p)
	}
}

// TestMemPoolZero does the same with memory of the device. The software GPU gives a stream the
// memory that it has freed, if the size is the same and the host has not waited since.
func TestMemPoolZero(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, zero := range []bool{false, true} {
		p := must(ferry.NewMemPool(g, &ferry.MemPoolOptions{Zero: zero, Keep: 1 << 20}))(t)
		seen := 0
		for _, n := range []int{100, 100, 5000, 5000, 99, 99, 5000} {
			d := must(ferry.AllocAsync[uint32](s, n, p))(t)
			if got := must(ferry.Download[uint32](d))(t); slices.ContainsFunc(got, func(v uint32) bool { return v != 0 }) {
				seen++
			}
			check(t, ferry.Fill(s, d, 0xdeadbeef))
			closeAll(t, d)
		}
		if zero && seen > 0 || !zero && seen == 0 && g.Emulated() {
			t.Errorf("zero %t: %d buffers with contents", zero, seen)
		}
		closeAll(t, p)
	}
	closeAll(t, s)
}

// TestMemPoolZeroFails: if the memory cannot be cleared, it is freed and not given out.
func TestMemPoolZeroFails(t *testing.T) {
	soft := must(softgpu.Open(softgpu.Options{}))(t)
	d := fault.Wrap(soft, fault.Options{Call: "cuMemsetD8Async", Nth: 1, Code: cu.ErrorInvalidValue})
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	p := must(ferry.NewMemPool(g, &ferry.MemPoolOptions{Zero: true}))(t)
	_, err := ferry.AllocAsync[uint32](s, 100, p)
	wantError(t, err, cu.ErrorInvalidValue, "clear")
	closeAll(t, p, s, g)
	if live := d.Live(); len(live) > 0 {
		t.Errorf("left %v", live)
	}
}

// BenchmarkPinnedPoolZero allocates and closes a buffer, cleared or not.
func BenchmarkPinnedPoolZero(b *testing.B) {
	for _, bytes := range []int{4 << 10, 1 << 20, 16 << 20} {
		for _, zero := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/zero=%t", bytes, zero), func(b *testing.B) {
				g := openTest(b)
				p, err := ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Zero: zero})
				if err != nil {
					b.Fatal(err)
				}
				var h ferry.Host[byte]
				b.ReportAllocs()
				b.SetBytes(int64(bytes))
				for b.Loop() {
					if err := h.Alloc(p, bytes); err != nil {
						b.Fatal(err)
					}
					h.Close()
				}
				p.Close()
			})
		}
	}
}
