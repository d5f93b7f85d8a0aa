package api

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestManyStreamsConcurrent: goroutines work at once, each on a stream of its own and on a
// part of shared buffers.
func TestManyStreamsConcurrent(t *testing.T) {
	t.Run("device=test", func(t *testing.T) { testManyStreamsConcurrent(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=random", func(t *testing.T) { testManyStreamsConcurrent(t, openSoft(t, "h200", softgpu.Random)) })
}

func testManyStreamsConcurrent(t *testing.T, g *ferry.GPU) {
	const workers, rounds, size = 8, 20, 3000
	device := must(ferry.Alloc[byte](g, workers*size))(t)
	host := must(ferry.AllocHost[byte](g, workers*size, nil))(t)
	code, k := load(t, g, "copy")
	all := host.Slice()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: w%2 == 0})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			mine, there := host.Range(w*size, (w+1)*size), device.Range(w*size, (w+1)*size)
			part := all[w*size : (w+1)*size] // other parts are in flight: Slice would wait for them
			for range rounds {
				fillRandom(part)
				want := bytes.Clone(part)
				if err := errors.Join(
					ferry.Copy(s, there.Range(0, size/2), mine.Range(0, size/2)),
					s.Launch(k, ferry.Cover(size/2, 64), there.Range(size/2, size), there.Range(0, size/2), uint64(size/2)),
					ferry.Copy(s, mine.Range(size/2, size), there.Range(size/2, size)),
					s.Wait(context.Background()),
				); err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(part[size/2:], want[:size/2]) {
					t.Error("the bytes differ")
					return
				}
			}
		})
	}
	wg.Wait()
	closeAll(t, code, host, device)
}

// TestCloseRaces closes buffers, streams and events while other goroutines use them. All
// calls succeed or return ErrClosed.
func TestCloseRaces(t *testing.T) {
	g := openTest(t)
	for range 50 {
		s := must(ferry.NewStream(g, nil))(t)
		e := must(ferry.NewEvent(g, nil))(t)
		host, device := must(ferry.AllocHost[byte](g, 256, nil))(t), must(ferry.Alloc[byte](g, 256))(t)
		var wg sync.WaitGroup
		var failed atomic.Pointer[error]
		use := func(f func() error) {
			wg.Go(func() {
				for {
					if err := f(); err != nil {
						if !errors.Is(err, ferry.ErrClosed) {
							failed.Store(&err)
						}
						return
					}
				}
			})
		}
		use(func() error { return ferry.Copy(s, device, host) })
		use(func() error { return errors.Join(ferry.Copy(s, host, device), host.Wait(context.Background())) })
		use(func() error { return errors.Join(s.Record(e), e.Wait(context.Background())) })
		for _, c := range []interface{ Close() error }{device, host, e, s} {
			for range 2 {
				wg.Go(func() {
					if err := c.Close(); err != nil {
						failed.Store(&err)
					}
				})
			}
		}
		wg.Wait()
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
	}
	check(t, g.Wait(context.Background()))
}

// blockingDriver blocks one call that queues an operation, and records what was freed and
// waited for.
type blockingDriver struct {
	*fakeDriver
	mu      sync.Mutex
	next    *blockedCall // blocks the next call
	streams cu.Stream
	log     []any // cu.DevicePtr freed; cu.Stream destroyed; cu.Module unloaded; waitedFor
}

type blockedCall struct{ entered, release chan struct{} }

// waitedFor is a stream that was waited for.
type waitedFor cu.Stream

func newBlockingDriver() *blockingDriver {
	return &blockingDriver{fakeDriver: newFake(), streams: 0x100}
}

// start makes a call that the driver blocks until release.
func (d *blockingDriver) start(t *testing.T, f func() error) (release func()) {
	t.Helper()
	c := &blockedCall{make(chan struct{}), make(chan struct{})}
	d.mu.Lock()
	d.next = c
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case <-c.entered:
	case err := <-done:
		t.Fatalf("it did not call the driver: %v", err)
	}
	return func() {
		t.Helper()
		close(c.release)
		check(t, <-done)
	}
}

func (d *blockingDriver) block() error {
	d.mu.Lock()
	c := d.next
	d.next = nil
	d.mu.Unlock()
	if c != nil {
		close(c.entered)
		<-c.release
	}
	return nil
}

func (d *blockingDriver) record(x any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, x)
	return nil
}

// recorded reports whether x was recorded, and empties the log.
func (d *blockingDriver) recorded(x any) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.log
	d.log = nil
	return slices.Contains(all, x)
}

func (d *blockingDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams++
	return d.streams, nil
}
func (d *blockingDriver) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return d.block()
}
func (d *blockingDriver) LaunchKernel(_ cu.Context, _ cu.Function, _, _ cu.Dim3, _ uint32, _ cu.Stream, params []byte) error {
	before := bytes.Clone(params)
	if d.block(); !bytes.Equal(params, before) {
		return errors.New("the parameters changed during the launch")
	}
	return nil
}
func (d *blockingDriver) EventRecord(cu.Context, cu.Event, cu.Stream) error { return d.block() }
func (d *blockingDriver) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error {
	return d.block()
}
func (d *blockingDriver) Submit(_ cu.Context, b *cu.Batch) (int, error) { return b.Len(), d.block() }
func (d *blockingDriver) MemFree(_ cu.Context, p cu.DevicePtr) error    { return d.record(p) }
func (d *blockingDriver) ModuleUnload(_ cu.Context, m cu.Module) error  { return d.record(m) }
func (d *blockingDriver) StreamDestroy(_ cu.Context, s cu.Stream) error { return d.record(s) }
func (d *blockingDriver) StreamQuery(_ cu.Context, s cu.Stream) error {
	return d.record(waitedFor(s))
}

// TestCloseDuringCall: nothing that a call of the driver uses is freed before the call
// returns. Other goroutines can use the stream meanwhile.
func TestCloseDuringCall(t *testing.T) {
	type parts struct {
		c     *callFixture
		m     *ferry.Module
		again *ferry.Batch
	}
	copies := func(p *parts) error { return p.c.copy() }
	launches := func(p *parts) error { return p.c.launch(8) }
	submits := func(p *parts) error { return p.c.stream.Submit(p.again) }
	records := func(p *parts) error { return p.c.stream.Record(p.c.event) }
	device := func(p *parts) interface{ Close() error } { return p.c.device }
	floats := func(p *parts) interface{ Close() error } { return p.c.floats }
	module := func(p *parts) interface{ Close() error } { return p.m }
	stream := func(p *parts) interface{ Close() error } { return p.c.stream }
	for _, x := range []struct {
		name  string
		op    func(*parts) error
		thing func(*parts) interface{ Close() error }
		freed any // what the driver frees at the end
	}{
		{"copy/host", copies, func(p *parts) interface{ Close() error } { return p.c.host }, nil},
		{"copy/device", copies, device, cu.DevicePtr(1 << 40)},
		{"copy/stream", copies, stream, cu.Stream(0x101)},
		{"launch/buffer", launches, floats, cu.DevicePtr(1<<40 + 4096)},
		{"launch/module", launches, module, cu.Module(3)},
		{"launch/stream", launches, stream, cu.Stream(0x101)},
		{"submit/device", submits, device, cu.DevicePtr(1 << 40)},
		{"submit/module", submits, module, cu.Module(3)},
		{"submit/stream", submits, stream, cu.Stream(0x101)},
		{"record/stream", records, stream, cu.Stream(0x101)},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := newBlockingDriver()
			g := openDriver(t, d)
			p := &parts{c: newCallFixture(t, g, 4096), m: must(ferry.Load(g, []byte(kernels.PTX), nil))(t), again: new(ferry.Batch)}
			p.c.add = must(p.m.Kernel("vector_add"))(t)
			check(t, p.c.list(p.again))
			other, also := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
			defer closeAll(t, other, also)
			for range 2 { // a first use takes slower paths
				check(t, errors.Join(p.c.copy(), p.c.launch(8), p.c.stream.Submit(p.again)))
			}
			release := d.start(t, func() error { return x.op(p) })
			d.recorded(nil)
			closed := make(chan error, 1)
			go func() { closed <- x.thing(p).Close() }()
			_, isStream := x.freed.(cu.Stream)
			select {
			case err := <-closed:
				if !isStream { // a stream is closed at once, and destroyed later
					t.Fatalf("Close did not wait for the call: %v", err)
				}
				closed <- err
			case <-time.After(shortWait):
			}
			if x.freed != nil && d.recorded(x.freed) {
				t.Error("it was freed during the call")
			}
			releaseOther := func() {}
			if !isStream { // Close does not wait for another operation
				check(t, ferry.Copy(p.c.stream, also, other))
				releaseOther = d.start(t, func() error { return ferry.Copy(p.c.stream, also, other) })
			}
			release()
			check(t, <-closed)
			releaseOther()
			if x.freed != nil && !d.recorded(x.freed) {
				t.Errorf("the driver never freed %#x", x.freed)
			}
			if err := x.op(p); !errors.Is(err, ferry.ErrClosed) {
				t.Errorf("a use after Close returns %v", err)
			}
		})
	}
}

// TestConcurrentLaunches: launches at once on one stream do not share an argument buffer.
func TestConcurrentLaunches(t *testing.T) {
	d := newBlockingDriver()
	c := newCallFixture(t, openDriver(t, d), 4096)
	check(t, c.launch(8))
	first := d.start(t, func() error { return c.launch(16) })
	second := d.start(t, func() error { return c.launch(32) })
	check(t, c.launch(64))
	second()
	first()
	check(t, c.launch(128))
}

// TestStreamCloseDuringCalls: a closed stream is destroyed after the last call that uses it,
// whether that is a short operation or a long one.
func TestStreamCloseDuringCalls(t *testing.T) {
	for _, shortLast := range []bool{false, true} {
		d := newBlockingDriver()
		c := newCallFixture(t, openDriver(t, d), 4096)
		check(t, c.copy())
		short := d.start(t, c.copy)
		long := d.start(t, func() error { return c.stream.WaitEvent(c.event) })
		check(t, c.stream.Close())
		first, last := short, long
		if shortLast {
			first, last = long, short
		}
		first()
		if d.recorded(cu.Stream(0x101)) {
			t.Errorf("the stream was destroyed while in use (short operation last: %v)", shortLast)
		}
		last()
		if !d.recorded(cu.Stream(0x101)) {
			t.Errorf("the stream was never destroyed (short operation last: %v)", shortLast)
		}
	}
}

// TestUseOfABusyStream: a buffer keeps the use by a stream that is in a call of the driver,
// even if all earlier work of the stream is done and another stream uses the buffer.
func TestUseOfABusyStream(t *testing.T) {
	d := newBlockingDriver()
	g := openDriver(t, d)
	c := newCallFixture(t, g, 4096)
	second := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, second)
	check(t, c.copy())
	check(t, c.stream.Wait(context.Background())) // nothing is in flight on the buffers
	release := d.start(t, c.copy)
	check(t, ferry.Copy(second, c.device, c.host)) // it must not replace the use by the first stream
	check(t, second.Wait(context.Background()))
	release()
	d.recorded(nil)
	c.host.Slice()
	if !d.recorded(waitedFor(0x101)) {
		t.Error("Slice did not wait for the copy")
	}
}

// TestWaitDuringCall: a wait that begins before an operation is queued does not cover the
// operation.
func TestWaitDuringCall(t *testing.T) {
	for name, f := range map[string]func(c *callFixture, again *ferry.Batch) error{
		"Copy":   func(c *callFixture, _ *ferry.Batch) error { return c.copy() },
		"Launch": func(c *callFixture, _ *ferry.Batch) error { return c.launch(8) },
		"Submit": func(c *callFixture, again *ferry.Batch) error { return c.stream.Submit(again) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newBlockingDriver()
			c := newCallFixture(t, openDriver(t, d), 4096)
			again := new(ferry.Batch)
			check(t, c.list(again))
			for range 3 {
				check(t, f(c, again))
			}
			check(t, c.stream.Wait(context.Background()))
			release := d.start(t, func() error { return f(c, again) })
			check(t, c.stream.Wait(context.Background()))
			release()
			d.recorded(nil)
			check(t, errors.Join(c.device.Close(), c.floats.Close()))
			if !d.recorded(waitedFor(0x101)) {
				t.Error("Close did not wait for the operation")
			}
		})
	}
}
