package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// ends ends the test if f takes longer than a test may wait.
func ends(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(timeout):
		t.Fatalf("%s hangs", what)
	}
}

// TestProgressEnds: a Progress that panics or ends its goroutine leaves no registration, and
// the GPU can be closed.
func TestProgressEnds(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	planted := errors.New("planted")
	for name, end := range map[string]func(){"panic": func() { panic(planted) }, "Goexit": runtime.Goexit} {
		d := &pinningDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		returned, value, err := endOf(t, name, func() (int64, error) {
			h, err := ferry.AllocHost[byte](g, 64<<20, &ferry.HostOptions{Progress: func(int, int) { end() }})
			if err == nil {
				err = h.Close()
			}
			return 0, err
		})
		if returned || (value == any(planted)) != (name == "panic") {
			t.Errorf("%s: returned %t, value %v, error %v: Progress was not called", name, returned, value, err)
		}
		if d.registered.Load() != 0 {
			t.Errorf("%s: %d registrations are left", name, d.registered.Load())
		}
		ends(t, name+": Close", func() { check(t, g.Close()) })
		if d.released.Load() != 1 {
			t.Errorf("%s: the context was released %d times, want once", name, d.released.Load())
		}
	}
}

// TestRefusedLeavesStreamFree: calls that are refused, with a new Kernel and with empty pageable
// slices among them, leave no stream and no buffer in use.
func TestRefusedLeavesStreamFree(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	a, b := must(ferry.Alloc[byte](g, 100))(t), must(ferry.AllocHost[byte](g, 100, nil))(t)
	one := ferry.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	for range 3 {
		wantError(t, s.Launch(new(ferry.Kernel), one, a), cu.ErrorInvalidValue, "no kernel")
		wantError(t, new(ferry.Batch).Launch(new(ferry.Kernel), one, a), cu.ErrorInvalidValue, "no kernel")
		empty := ferry.Pageable([]byte{})
		check(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: a, Src: b}, {Dst: empty, Src: ferry.Pageable[byte](nil)}, {Dst: a.Range(0, 0), Src: empty}}))
		err := ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: a, Src: b}, {Dst: a.Range(0, 1), Src: empty}})
		wantError(t, err, cu.ErrorInvalidValue, "copy 2 of 2")
	}
	ends(t, "Close after refused calls", func() { closeAll(t, a, b, s) })
}

// countedIO returns n for each Read and Write.
type countedIO func(asked int) int

func (c countedIO) Read(p []byte) (int, error)  { return c(len(p)), nil }
func (c countedIO) Write(p []byte) (int, error) { return c(len(p)), nil }

// TestWrongCount: a reader or writer that returns a number of bytes that it cannot have moved
// is an error that says so, and leaves nothing in use.
func TestWrongCount(t *testing.T) {
	const n = 3 << 20
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	memory := map[string]ferry.Memory[byte]{"Device": must(ferry.Alloc[byte](g, n))(t), "Host": must(ferry.AllocHost[byte](g, n, nil))(t), "Pageable": ferry.Pageable(make([]byte, n))}
	for name, m := range memory {
		for what, wrong := range map[string]countedIO{"-1": func(int) int { return -1 }, "one more": func(asked int) int { return asked + 1 }} {
			for _, ctx := range []context.Context{nil, canEnd} {
				ends(t, name, func() {
					done, err := ferry.CopyFrom(ctx, s, m, wrong)
					if err == nil || !strings.Contains(err.Error(), "the reader or writer is wrong") || done != 0 {
						t.Errorf("%s, Read returns %s, context %v: %d bytes, %v", name, what, ctx, done, err)
					}
					done, err = ferry.CopyTo(ctx, s, wrong, m)
					if err == nil || !strings.Contains(err.Error(), "the reader or writer is wrong") || done != 0 {
						t.Errorf("%s, Write returns %s, context %v: %d bytes, %v", name, what, ctx, done, err)
					}
				})
			}
		}
		if c, ok := m.(io.Closer); ok {
			ends(t, "Close", func() { closeAll(t, c) })
		}
	}
	check(t, s.Close())
}

// lateIO hangs until it is let go, then fills what it was given with 0xff.
type lateIO struct{ started, release, ended chan struct{} }

func newLateIO() *lateIO {
	return &lateIO{make(chan struct{}), make(chan struct{}), make(chan struct{})}
}

func (l *lateIO) Read(p []byte) (int, error) {
	close(l.started)
	<-l.release
	for i := range p {
		p[i] = 0xff
	}
	close(l.ended)
	return len(p), nil
}

func (l *lateIO) Write(p []byte) (int, error) {
	close(l.started)
	<-l.release
	var sum byte
	for _, x := range p { // the race detector sees a use of freed memory
		sum += x
	}
	close(l.ended)
	return len(p), io.EOF
}

// TestHostIOEnds: CopyFrom and CopyTo of host memory return when their context ends while a
// Read or Write hangs. The late call touches no memory of the buffer, which can be closed.
func TestHostIOEnds(t *testing.T) {
	const n = 1 << 20
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	slice := make([]byte, n)
	host := must(ferry.AllocHost[byte](g, n, nil))(t)
	for name, m := range map[string]ferry.Memory[byte]{"Host": host, "Pageable": ferry.Pageable(slice)} {
		for _, from := range []bool{true, false} {
			late := newLateIO()
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-late.started; cancel() }()
			ends(t, name, func() {
				var err error
				if from {
					_, err = ferry.CopyFrom(ctx, s, m, late)
				} else {
					_, err = ferry.CopyTo(ctx, s, late, m)
				}
				wantError(t, err, context.Canceled, "byte 0")
			})
			close(late.release)
			<-late.ended
		}
	}
	if bytes.IndexByte(slice, 0xff) >= 0 || bytes.IndexByte(host.Slice(), 0xff) >= 0 {
		t.Error("a Read that was abandoned wrote to the buffer")
	}
	ends(t, "Close", func() { closeAll(t, host, s) })
}

// TestEndsWhileBlocked: AllocHostContext, Host.Alloc and Warm return at the end of their context
// while another stream stands still, although the driver takes memory back only when the
// device is idle. The memory is given back when it is.
func TestEndsWhileBlocked(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	d := &pinningDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	pool := must(ferry.NewPinnedPool(g, nil))(t)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	open := gate(t, s)
	const large = 600 << 20 // more than one registration
	for name, alloc := range map[string]func(context.Context) error{
		"AllocHostContext": func(ctx context.Context) error { return last(ferry.AllocHostContext[byte](ctx, g, large, nil)) },
		"Warm":             func(ctx context.Context) error { return pool.Warm(ctx, large) },
		"Host.Alloc": func(ctx context.Context) error {
			return last(ferry.AllocHostContext[byte](ctx, g, large, &ferry.HostOptions{Pool: pool}))
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		d.onRegister.Store(&cancel)
		ends(t, name, func() { wantError(t, alloc(ctx), context.Canceled) })
		d.onRegister.Store(nil)
		cancel()
	}
	if d.registered.Load() == 0 {
		t.Error("no memory waits for the device: the test does not test what it should")
	}
	open()
	closeAll(t, s, pool)
	check(t, g.Close())
	eventually(t, "released", func() bool { return d.registered.Load() == 0 && d.released.Load() == 1 })
}
