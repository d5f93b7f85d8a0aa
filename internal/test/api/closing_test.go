package api

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// within runs f on another goroutine, and ends the test if f hangs.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

// TestGraphCloseInLaunch closes a graph while it is launched. The memory that the graph owned is
// then in flight: no other buffer gets it before the launch is done.
func TestGraphCloseInLaunch(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	gputest.NeedsCall(t, "cuGraphInstantiateWithFlags", 11040)
	const n = 1 << 20
	t.Run("memory=page-locked", func(t *testing.T) {
		d, g := softHooks(t)
		s, p := must(ferry.NewStream(g, nil))(t), newPinnedPool(t, g, nil)
		device := must(ferry.Alloc[byte](g, n))(t)
		var host, next ferry.Host[byte]
		check(t, host.Alloc(p, n))
		where := host.Pointer()
		x := must(s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, &host, device) }))(t)
		closeAll(t, &host) // the graph owns it
		open := gate(t, s)
		d.during("GraphLaunch", x.Close)
		check(t, x.Launch(s))
		if got := p.Stats(); got.InFlight != n || got.Used != 0 {
			t.Errorf("%d bytes are in flight and %d are used, want %d and 0", got.InFlight, got.Used, n)
		}
		check(t, next.Alloc(p, n))
		if next.Pointer() == where {
			t.Error("another buffer has memory that the graph writes")
		}
		open()
		check(t, s.Wait(context.Background()))
		closeAll(t, &next, device, s)
	})
	t.Run("memory=allocated in stream order", func(t *testing.T) {
		gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
		d, g := softHooks(t)
		home, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
		device := must(ferry.AllocAsync[byte](home, n, nil))(t)
		check(t, home.Wait(context.Background()))
		x := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, device, 7) }))(t)
		closeAll(t, device) // the graph owns it
		open := gate(t, s)
		d.during("GraphLaunch", x.Close)
		check(t, x.Launch(s))
		next := must(ferry.AllocAsync[byte](home, n, nil))(t)
		check(t, ferry.Fill(home, next, 42))
		check(t, home.Wait(context.Background()))
		open()
		check(t, s.Wait(context.Background()))
		for i, b := range must(ferry.Download(next))(t) {
			if b != 42 {
				t.Fatalf("byte %d of another buffer is %d, want 42", i, b)
			}
		}
		closeAll(t, next, home, s)
	})
}

// pinnedWithoutBuffer returns memory that the driver has page-locked for a buffer that is
// closed. Another buffer shares the registration and keeps it.
func pinnedWithoutBuffer(t *testing.T, g *ferry.GPU) (memory []byte, keep *ferry.Host[byte]) {
	t.Helper()
	all := make([]byte, 1<<20)
	whole := must(ferry.Register(g, all, nil))(t)
	keep = must(ferry.Register(g, all[:4096], nil))(t)
	closeAll(t, whole)
	return all[64<<10 : 96<<10], keep
}

// TestCopyContextUntracked: the driver only queues a copy from page-locked memory, also if no
// buffer has that memory. When CopyContext returns, the device does not read the memory any more.
// If the context ends first, the copy is not queued. A copy that is queued is waited for.
func TestCopyContextUntracked(t *testing.T) {
	d, g := softHooks(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory, keep := pinnedWithoutBuffer(t, g)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	holds := func(want byte) {
		t.Helper()
		if got := must(ferry.Download(device))(t); got[0] != want || got[len(got)-1] != want {
			t.Errorf("the device has %d and %d, want %d", got[0], got[len(got)-1], want)
		}
	}
	fill := func(b byte) {
		for i := range memory {
			memory[i] = b
		}
	}
	check(t, ferry.Fill(s, device, 1))
	fill(2)
	open := gate(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	err := within(t, "CopyContext", func() error { return ferry.CopyContext(ctx, s, device, ferry.Pageable(memory)) })
	wantError(t, err, context.DeadlineExceeded, "copy 32.0 KiB")
	fill(3)
	open()
	check(t, s.Wait(context.Background()))
	holds(1)

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	blocked := make(chan struct{})
	d.during("MemcpyHtoDAsync", func() error {
		cancel()
		return s.HostFunc(func() { <-blocked })
	})
	waits(t, "CopyContext", func() { close(blocked) }, func() {
		if err := ferry.CopyContext(ctx, s, device, ferry.Pageable(memory)); err != nil {
			t.Errorf("a copy that was queued: %v", err)
		}
		fill(4)
	})
	check(t, s.Wait(context.Background()))
	holds(3)
	closeAll(t, keep, device, s)
}

// TestCloseStreamInOperation closes a stream while an operation waits for it. The operation ends
// when the work of the stream is done.
func TestCloseStreamInOperation(t *testing.T) {
	const n = 1 << 20
	t.Run("operation=CopyRect", func(t *testing.T) {
		g := openTest(t)
		s, device := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, n))(t)
		rect := func(m ferry.Memory[byte]) ferry.Rect[byte] {
			return ferry.Rect[byte]{Memory: m, Width: 32, Height: 32, Pitch: 64}
		}
		open := gate(t, s)
		waits(t, "CopyRect", func() { closeAll(t, s); open() }, func() {
			if err := ferry.CopyRect(s, rect(ferry.Pageable(make([]byte, n))), rect(device)); err != nil {
				t.Error(err)
			}
		})
		closeAll(t, device)
	})
	t.Run("operation=copy to pageable memory", func(t *testing.T) {
		g := openTest(t)
		s, host := must(ferry.NewStream(g, nil))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
		device := must(ferry.Alloc[byte](g, n))(t)
		open := gate(t, s)
		openSecond := func() {}
		waits(t, "Copy", func() {
			openSecond = gate(t, s)
			check(t, ferry.Copy(s, host, device)) // the first Copy waits for the stream, then for this copy
			closeAll(t, s)
			open()
			time.Sleep(shortWait)
			openSecond()
		}, func() {
			if err := ferry.Copy(s, ferry.Pageable(make([]byte, n)), host); err != nil {
				t.Error(err)
			}
		})
		closeAll(t, host, device)
	})
	t.Run("operation=copy of untracked memory", func(t *testing.T) {
		d, g := softHooks(t)
		s := must(ferry.NewStream(g, nil))(t)
		memory, keep := pinnedWithoutBuffer(t, g)
		device := must(ferry.Alloc[byte](g, len(memory)))(t)
		d.during("MemcpyHtoDAsync", s.Close)
		check(t, within(t, "Copy", func() error { return ferry.Copy(s, device, ferry.Pageable(memory)) }))
		closeAll(t, keep, device)
	})
	t.Run("operation=copy after a panic", func(t *testing.T) {
		d, g := softHooks(t)
		s := must(ferry.NewStream(g, nil))(t)
		memory, keep := pinnedWithoutBuffer(t, g)
		device := must(ferry.Alloc[byte](g, len(memory)))(t)
		d.during("MemcpyHtoDAsync", func() error {
			return errors.Join(s.HostFunc(func() { panic("planted") }), s.Close())
		})
		check(t, within(t, "Copy", func() error { return ferry.Copy(s, device, ferry.Pageable(memory)) }))
		if _, ok := errors.AsType[*cu.HostPanic](s.Wait(context.Background())); !ok {
			t.Error("Wait of the stream does not return the panic of the host function")
		}
		closeAll(t, keep, device)
	})
}

// TestPinnedPoolClosedStream: a pool finds that a buffer is not in flight any more although the
// stream is closed, and not yet destroyed because an operation goes on.
func TestPinnedPoolClosedStream(t *testing.T) {
	const n = 1 << 20
	d, g := softHooks(t)
	s, p := must(ferry.NewStream(g, nil))(t), newPinnedPool(t, g, nil)
	device, other := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, 64))(t)
	var host, next ferry.Host[byte]
	check(t, host.Alloc(p, n))
	check(t, ferry.Copy(s, device, &host))
	in, out := make(chan struct{}), make(chan struct{})
	d.during("MemcpyHtoDAsync", func() error { close(in); <-out; return nil })
	copied := make(chan error, 1)
	go func() { copied <- ferry.Copy(s, other, ferry.Pageable(make([]byte, 64))) }()
	<-in
	closeAll(t, s, &host)
	check(t, g.Driver().CtxSynchronize(g.CUContext())) // package ferry does not know of this wait
	check(t, next.Alloc(p, n))
	if got := p.Stats().InFlight; got != 0 {
		t.Errorf("%d bytes are in flight after all work was done", got)
	}
	close(out)
	check(t, <-copied)
	closeAll(t, &next, device, other)
}

// TestAllocAsyncBlockedStream: memory can be used on another stream although the stream of the
// allocation was closed before it had reached the allocation. The other stream waits, and the
// calling goroutine does not.
func TestAllocAsyncBlockedStream(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
	const n = 4096
	d, g := softHooks(t)
	nonBlocking := &ferry.StreamOptions{NonBlocking: true}
	home, s := must(ferry.NewStream(g, nonBlocking))(t), must(ferry.NewStream(g, nonBlocking))(t)
	host := must(ferry.AllocHost[byte](g, n, nil))(t)
	filled := must(ferry.NewEvent(g, nil))(t)
	open := gate(t, home)
	device := must(ferry.AllocAsync[byte](home, n, nil))(t)
	written := must(ferry.AllocAsync[byte](home, n, nil))(t)
	check(t, ferry.Fill(home, device, 7))
	check(t, home.Record(filled))
	check(t, s.WaitEvent(filled)) // the buffer itself makes s wait for the allocation alone
	closeAll(t, home)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	check(t, within(t, "Copy", func() error { return ferry.Copy(s, host, device) }))
	check(t, within(t, "CopyContext", func() error {
		return ferry.CopyContext(ctx, s, written.Range(0, 64), ferry.Pageable(make([]byte, 64)))
	}))
	if d.count("StreamSynchronize") != 0 {
		t.Error("a call waited for a stream")
	}
	waits(t, "Slice", open, func() { host.Slice() })
	for i, b := range host.Slice() {
		if b != 7 {
			t.Fatalf("byte %d is %d, want 7", i, b)
		}
	}
	check(t, home.Wait(context.Background())) // finds that the completion event has completed
	closeAll(t, device, written, host, s, filled)
	if created, destroyed := d.count("EventCreate"), d.count("EventDestroy"); created == 0 || destroyed != created {
		t.Errorf("%d events were created and %d destroyed", created, destroyed)
	}
}

// TestAllocAsyncLeavesPoolLast: AllocAsync ends its operation before it ends its use of the pool,
// because the end of a pool can release the context, which waits for operations.
func TestAllocAsyncLeavesPoolLast(t *testing.T) {
	d, g := softHooks(t)
	s, p := must(ferry.NewStream(g, nil))(t), must(ferry.NewMemPool(g, nil))(t)
	planted := errors.New("planted")
	d.during("MemAllocFromPoolAsync", func() error { return errors.Join(s.Close(), p.Close(), planted) })
	d.during("MemPoolDestroy", func() error {
		if d.count("StreamDestroy") != 1 {
			t.Error("the pool is destroyed while the operation uses the stream")
		}
		return nil
	})
	_, err := ferry.AllocAsync[byte](s, 64, p)
	wantError(t, err, planted)
	if d.count("MemPoolDestroy") != 1 {
		t.Error("the pool is not destroyed")
	}
}

// TestCompletionEventInUse: the completion event of a closed stream is destroyed once, after the
// last call that uses it, also if another call finds meanwhile that it has completed.
func TestCompletionEventInUse(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
	d, g := softHooks(t)
	home, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	open := gate(t, home)
	d.during("EventCreate", func() error { return cu.ErrorOutOfMemory }) // so that s waits for all of home
	device := must(ferry.AllocAsync[byte](home, 64, nil))(t)
	before := d.count("EventCreate")
	closeAll(t, home)
	d.during("StreamWaitEvent", func() error {
		open()
		err := home.Wait(context.Background())
		if n := d.count("EventDestroy"); n != 0 {
			t.Error("the event was destroyed during a call that uses it")
		}
		return err
	})
	check(t, within(t, "Fill", func() error { return ferry.Fill(s, device, 1) }))
	if created, destroyed := d.count("EventCreate")-before, d.count("EventDestroy"); created != 1 || destroyed != 1 {
		t.Errorf("%d events were created and %d destroyed, want 1 and 1", created, destroyed)
	}
	next := must(ferry.AllocAsync[byte](s, 64, nil))(t)
	check(t, errors.Join(home.Wait(context.Background()), s.Wait(context.Background())))
	closeAll(t, device, next, s)
}

// TestCloseAllInHostFunc: Close of everything within a host function takes effect afterwards,
// without another call.
func TestCloseAllInHostFunc(t *testing.T) {
	d, g := softHooks(t)
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	pinned, pool := must(ferry.NewPinnedPool(g, nil))(t), must(ferry.NewMemPool(g, nil))(t)
	device, async := must(ferry.Alloc[byte](g, 64))(t), must(ferry.AllocAsync[byte](other, 64, pool))(t)
	host, pooled := must(ferry.AllocHost[byte](g, 64, nil))(t), must(fromPool[byte](pinned, 64))(t)
	registered := must(ferry.Register(g, make([]byte, 4096), nil))(t)
	managed := must(ferry.AllocManaged[byte](g, 64, nil))(t)
	module, _ := load(t, g, "increment")
	x := must(s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, device, pooled) }))(t)
	check(t, errors.Join(s.Record(e), ferry.Copy(s, async, host), ferry.Copy(s, pooled, device), ferry.Copy(s, managed, registered.Range(0, 64))))
	closed := make(chan error, 1)
	check(t, s.HostFunc(func() {
		var all []error
		for _, c := range []interface{ Close() error }{g, pinned, pool, device, async, host, pooled, registered, managed, module, x, e, other, s} {
			all = append(all, c.Close())
		}
		closed <- errors.Join(all...)
	}))
	check(t, <-closed)
	eventually(t, "released", func() bool {
		_, active, err := d.DevicePrimaryCtxGetState(0)
		return err == nil && active == 0
	})
	d.wantReleased(t, "close of everything")
}

// TestCloseInHostFuncInUse: a host function closes what other calls are using. No call waits for
// the effect of that Close, because it may be what the effect waits for.
func TestCloseInHostFuncInUse(t *testing.T) {
	t.Run("use=copy", func(t *testing.T) {
		d, g := softHooks(t)
		s := must(ferry.NewStream(g, nil))(t)
		host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
		other := must(ferry.Alloc[byte](g, 64))(t)
		check(t, ferry.Copy(s, device, host))
		check(t, s.Wait(context.Background()))
		copying, closed := make(chan struct{}), make(chan error, 1)
		check(t, s.HostFunc(func() {
			<-copying
			closed <- device.Close() // cannot take effect before the short operation of the stream ends
		}))
		d.during("MemcpyHtoDAsync", func() error { close(copying); return <-closed })
		check(t, ferry.Copy(s, other, host))
		var async *ferry.Device[byte]
		check(t, within(t, "AllocAsync", func() (err error) {
			async, err = ferry.AllocAsync[byte](s, 64, nil)
			return err
		}))
		eventually(t, "freed", func() bool { return d.count("MemFree") == 1 })
		closeAll(t, async, other, host, s)
	})
	t.Run("use=Download", func(t *testing.T) {
		d, g := softHooks(t)
		s, device := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
		check(t, ferry.Fill(s, device, 1))
		open := gate(t, s)
		check(t, s.HostFunc(func() {
			if err := device.Close(); err != nil {
				t.Error(err)
			}
		}))
		check(t, ferry.Fill(s, device, 2))
		waits(t, "Download", open, func() {
			if _, err := ferry.Download(device); err != nil {
				wantError(t, err, ferry.ErrClosed)
			}
		})
		eventually(t, "freed", func() bool { return d.count("MemFree") == 1 })
		closeAll(t, s)
	})
	t.Run("use=Slice", func(t *testing.T) {
		d, g := softHooks(t)
		host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 128))(t)
		var open [2]func()
		for i := range open {
			s := must(ferry.NewStream(g, nil))(t)
			open[i] = gate(t, s)
			check(t, s.HostFunc(func() {
				if err := host.Close(); err != nil {
					t.Error(err)
				}
			}))
			check(t, ferry.Copy(s, device.Range(64*i, 64*i+64), host))
			closeAll(t, s)
		}
		waits(t, "Slice", func() {
			open[0]()
			time.Sleep(shortWait)
			open[1]()
		}, func() {
			if _, err := host.SliceContext(context.Background()); err != nil {
				wantError(t, err, ferry.ErrClosed)
			}
		})
		eventually(t, "unlocked", func() bool { return d.count("MemHostUnregister")+d.count("MemFreeHost") > 0 })
		closeAll(t, device)
	})
}

// TestDefaultStreamLast: the last object of a closed GPU is closed during an operation of the
// default stream. The context is released when the operation has ended.
func TestDefaultStreamLast(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
	planted := errors.New("planted")
	for what, prepare := range map[string]func(*hookDriver, *ferry.GPU) (operation func(*ferry.Stream) error){
		"Record": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			e := must(ferry.NewEvent(g, nil))(t)
			d.during("EventRecord", e.Close)
			return func(s *ferry.Stream) error { return s.Record(e) }
		},
		"WaitEvent": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			e := must(ferry.NewEvent(g, nil))(t)
			check(t, g.DefaultStream().Record(e))
			d.during("StreamWaitEvent", e.Close)
			return func(s *ferry.Stream) error { return s.WaitEvent(e) }
		},
		"Submit": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			e := must(ferry.NewEvent(g, nil))(t)
			var b ferry.Batch
			check(t, errors.Join(b.WaitEvent(e), b.Record(e), b.Record(e)))
			d.during("Submit", e.Close)
			return func(s *ferry.Stream) error { return s.Submit(&b) }
		},
		"Graph.Launch": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			s, device := must(ferry.NewStream(g, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
			x := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, device, 1) }))(t)
			closeAll(t, s, device)
			d.during("GraphLaunch", x.Close)
			return x.Launch
		},
		"AllocAsync": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			keep := must(ferry.NewEvent(g, nil))(t)
			d.during("MemAllocAsync", func() error { return errors.Join(keep.Close(), g.Close(), planted) })
			return func(s *ferry.Stream) error {
				_, err := ferry.AllocAsync[byte](s, 64, nil)
				return err
			}
		},
		"AllocAsync from a pool": func(d *hookDriver, g *ferry.GPU) func(*ferry.Stream) error {
			p := must(ferry.NewMemPool(g, nil))(t)
			d.during("MemAllocFromPoolAsync", func() error { return errors.Join(p.Close(), g.Close(), planted) })
			return func(s *ferry.Stream) error {
				_, err := ferry.AllocAsync[byte](s, 64, p)
				return err
			}
		},
	} {
		d, g := softHooks(t)
		operation, fails := prepare(d, g), what[0] == 'A'
		if !fails {
			closeAll(t, g)
		}
		s := g.DefaultStream()
		err := within(t, what, func() error { return operation(s) })
		if err != nil && !(fails && errors.Is(err, planted)) {
			t.Errorf("%s: %v", what, err)
		}
		d.wantReleased(t, what)
		wantError(t, s.Record(nil), ferry.ErrClosed)
		check(t, s.Wait(context.Background()))
	}
}

// TestDefaultStreamRace closes the last object of a closed GPU while goroutines use the default
// stream. The context is released once, and no call follows.
func TestDefaultStreamRace(t *testing.T) {
	for range 50 {
		d, g := softHooks(t)
		s, e := g.DefaultStream(), must(ferry.NewEvent(g, nil))(t)
		closeAll(t, g)
		var users sync.WaitGroup
		for _, use := range []func() error{
			func() error { return s.Record(e) },
			func() error { return s.WaitEvent(e) },
			func() error { return s.HostFunc(func() {}) },
			func() error { _, err := s.Done(); return err },
		} {
			users.Go(func() {
				for {
					err := use()
					if errors.Is(err, ferry.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
			})
		}
		closeAll(t, e)
		check(t, within(t, "the use of the default stream", func() error { users.Wait(); return nil }))
		d.wantReleased(t, "a use of the default stream")
	}
}

// TestDownloadClosedGPU: open buffers can be downloaded after Close of their GPU.
func TestDownloadClosedGPU(t *testing.T) {
	d, g := softHooks(t)
	device := must(ferry.Upload(g, []int32{1, 2, 3}))(t)
	closeAll(t, g)
	if got := must(ferry.Download(device))(t); len(got) != 3 || got[0] != 1 || got[2] != 3 {
		t.Errorf("got %v, want [1 2 3]", got)
	}
	_, err := ferry.Upload(g, []int32{1})
	wantError(t, err, ferry.ErrClosed, "soft:h200")
	closeAll(t, device)
	_, err = ferry.Download(device)
	wantError(t, err, ferry.ErrClosed)
	d.wantReleased(t, "Download")
}

// TestSynchronousRefused: Synchronous is false for sizes that differ and ranges that are not
// valid. It does not report other reasons for which Copy refuses a copy.
func TestSynchronousRefused(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s, host := must(ferry.NewStream(g, nil))(t), must(ferry.AllocHost[byte](g, 4096, nil))(t)
	readOnly := must(ferry.Register(g, make([]byte, 4096), &ferry.RegisterOptions{ReadOnly: true}))(t)
	for _, c := range []struct {
		what     string
		dst, src ferry.Memory[byte]
		want     bool
		is       error
	}{
		{"different sizes", host.Range(0, 10), readOnly.Range(0, 11), false, cu.ErrorInvalidValue},
		{"a range out of bounds", host.Range(1, 4097), readOnly, false, cu.ErrorInvalidValue},
		{"no buffer", host, (*ferry.Host[byte])(nil), false, cu.ErrorInvalidValue},
		{"a read-only destination", readOnly, host, true, cu.ErrorInvalidValue},
		{"one buffer on both sides", host, host, true, nil},
	} {
		if got := ferry.Synchronous(s, c.dst, c.src); got != c.want {
			t.Errorf("%s: Synchronous is %v, want %v", c.what, got, c.want)
		}
		if err := ferry.Copy(s, c.dst, c.src); c.is != nil {
			wantError(t, err, c.is)
		} else {
			check(t, err)
		}
	}
	closeAll(t, host)
	if !ferry.Synchronous(s, readOnly, host) {
		t.Error("Synchronous is false for a closed buffer")
	}
	closeAll(t, readOnly, s)
}
