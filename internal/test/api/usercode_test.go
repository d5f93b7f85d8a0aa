package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
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

// TestUserCodeEnds: a function of the program that panics or ends its goroutine is seen by the
// caller, or by the wait for a host function. It leaves no registration, the stream goes on,
// and all can be closed. TestReaderEnds has readers and writers, and TestCaptureEnds captures.
func TestUserCodeEnds(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	planted := errors.New("planted")
	canEnd, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, end := range map[string]func(){"panic": func() { panic(planted) }, "Goexit": runtime.Goexit} {
		d := &pinningDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		host, on := must(ferry.AllocHost[byte](g, 100, nil))(t), must(ferry.Alloc[byte](g, 100))(t)
		graph := must(s.Capture(func(s *ferry.Stream) error { return s.HostFunc(end) }))(t)
		filled := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, on, 1) }))(t)
		pin := func(ctx context.Context, o ferry.HostOptions) func() error {
			return func() error {
				o.Progress = func(int, int) { end() }
				return last(ferry.AllocHostContext[byte](ctx, g, 64<<20, &o))
			}
		}
		small := d.registered.Load()
		for what, c := range map[string]struct {
			do   func() error
			late bool // the wait returns an error
		}{
			"HostFunc":                         {func() error { return errors.Join(s.HostFunc(end), s.Wait(context.Background())) }, true},
			"HostFunc, a context that can end": {func() error { return errors.Join(s.HostFunc(end), s.Wait(canEnd)) }, true},
			"HostFunc of a graph":              {func() error { return errors.Join(graph.Launch(s), s.Wait(context.Background())) }, true},
			"Capture":                          {func() error { return last(s.Capture(func(s *ferry.Stream) error { end(); return nil })) }, false},
			"Update of a graph": {func() error {
				return filled.Update(s, func(s *ferry.Stream) error { check(t, ferry.Fill(s, on, 2)); end(); return nil })
			}, false},
			"Progress":                         {pin(context.Background(), ferry.HostOptions{}), false},
			"Progress, a context that can end": {pin(canEnd, ferry.HostOptions{}), false},
		} {
			what = name + " in " + what
			returned, value, err := endOf(t, what, func() (int64, error) { return 0, c.do() })
			if returned != c.late || (value == any(planted)) != (name == "panic" && !c.late) {
				t.Errorf("%s: returned %t, panic of %v", what, returned, value)
			}
			if p, ok := errors.AsType[*cu.HostPanic](err); ok != c.late || ok && errors.Is(err, planted) != (name == "panic") {
				t.Errorf("%s: %v of %v", what, err, p)
			}
			if got := d.registered.Load(); got != small {
				t.Errorf("%s: %d registrations are left", what, got-small)
			}
			ends(t, what+": the stream", func() {
				clear(host.Slice())
				check(t, errors.Join(ferry.Fill(s, on, 7), filled.Launch(s), ferry.Copy(s, host, on), s.Wait(context.Background())))
			})
			if got := host.Slice()[99]; got != 1 {
				t.Errorf("%s: the stream left %d, want 1", what, got)
			}
		}
		ends(t, name+": Close", func() { closeAll(t, graph, filled, host, on, s, g) })
		if d.registered.Load() != 0 || d.released.Load() != 1 {
			t.Errorf("%s: %d registrations are left, and the context was released %d times, want once", name, d.registered.Load(), d.released.Load())
		}
	}
}

// TestLeakReportEnds: a report of a leak that ends its goroutine, as t.FailNow does, ends no
// other report and no cleanup of the program.
func TestLeakReportEnds(t *testing.T) {
	reports := make(chan string, 100)
	ferry.OnLeak(func(text string) {
		reports <- text
		runtime.Goexit()
	})
	defer ferry.OnLeak(nil)
	for range 3 {
		g := openDriver(t, newFake())
		must(ferry.Alloc[byte](g, 10))(t)
		wantReport(t, reports, "device buffer")
	}
	cleaned := make(chan string, 1)
	runtime.AddCleanup(new([100]byte), func(text string) { cleaned <- text }, "cleaned")
	wantReport(t, cleaned, "cleaned")
}

// TestLeakReportCalls: a report of a leak may call Ferry: it ends reports, and uses and closes the GPU.
func TestLeakReportCalls(t *testing.T) {
	g := must(ferry.OpenDriver(softDriver(t, "h200", 1, softgpu.Eager), 0))(t)
	done := make(chan error, 1)
	ferry.OnLeak(func(text string) {
		ferry.OnLeak(nil)
		d, err := ferry.Upload(g, make([]byte, 100))
		done <- errors.Join(err, d.Close(), g.Close())
	})
	defer ferry.OnLeak(nil)
	must(ferry.Alloc[byte](openDriver(t, newFake()), 10))(t)
	for end := time.Now().Add(timeout); ; runtime.GC() {
		select {
		case err := <-done:
			check(t, err)
			return
		case <-time.After(time.Millisecond):
			if time.Now().After(end) {
				t.Fatal("no report, or it hangs")
			}
		}
	}
}

// TestLeakReportPanics: a panic in a report ends the process, which prints it.
func TestLeakReportPanics(t *testing.T) {
	if !inHelper(t) {
		out, err := helper(t).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "panic: planted") {
			t.Errorf("%v, want the panic in\n%s", err, out)
		}
		return
	}
	ferry.OnLeak(func(string) { panic("planted") })
	must(ferry.Alloc[byte](openDriver(t, newFake()), 10))(t)
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		runtime.GC()
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
	clear(host.Slice())
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

// TestEndsWhileBlocked: AllocHostContext, Host.AllocContext and Warm return at the end of their context
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
		"AllocHostContext":  func(ctx context.Context) error { return last(ferry.AllocHostContext[byte](ctx, g, large, nil)) },
		"Warm":              func(ctx context.Context) error { return pool.Warm(ctx, large) },
		"Host.AllocContext": func(ctx context.Context) error { return new(ferry.Host[byte]).AllocContext(ctx, pool, large) },
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

// TestLeakReport: things that become garbage without Close are reported, with the place that
// made them. Closed things are not.
func TestLeakReport(t *testing.T) {
	d := newFake()
	d.Attributes[cu.DeviceAttributeMemoryPoolsSupported] = 1
	g := openDriver(t, d)
	var mu sync.Mutex
	var reports []string
	ferry.OnLeak(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, text)
	})
	defer ferry.OnLeak(nil)
	for range 3 {
		closeAll(t, must(ferry.Alloc[int32](g, 5))(t), must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t),
			must(ferry.NewPinnedPool(g, nil))(t), must(ferry.NewMemPool(g, nil))(t), must(ferry.OpenDriver(newFake(), 0))(t))
		check(t, g.DefaultMemPool().Trim(0)) // needs no Close
	}
	leakThings(t, g)
	want := []string{"device buffer", "page-locked buffer", "leaked: stream", "event", "module", "leaked: graph 1 on cuda:0",
		"a pool of page-locked memory of cuda:0", "a memory pool of cuda:0", "cuda:0 (fake)"}
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		mu.Lock()
		got := slices.Clone(reports)
		mu.Unlock()
		if len(got) >= len(want) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d reports, want %d: %q", len(got), len(want), got)
		}
	}
	time.Sleep(shortWait)
	mu.Lock()
	defer mu.Unlock()
	if len(reports) != len(want) {
		t.Errorf("%d reports, want %d: %q", len(reports), len(want), reports)
	}
	all := strings.Join(reports, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("no report of a %s in %s", w, all)
		}
	}
	for _, r := range reports {
		if !strings.HasPrefix(r, "leaked: ") || !regexp.MustCompile(`\n\tusercode_test.go:\d+ in \S+leakThings\b`).MatchString(r) {
			t.Errorf("the report does not say what made it: %s", r)
		}
	}
}

//go:noinline
func leakThings(t *testing.T, g *ferry.GPU) {
	must(ferry.Alloc[int32](g, 1000))(t)
	must(ferry.AllocHost[int32](g, 1000, nil))(t)
	must(ferry.NewStream(g, nil))(t)
	must(ferry.NewEvent(g, nil))(t)
	must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	must(g.DefaultStream().Capture(func(*ferry.Stream) error { return nil }))(t)
	must(ferry.NewPinnedPool(g, nil))(t)
	must(ferry.NewMemPool(g, nil))(t)
	must(ferry.OpenDriver(newFake(), 0))(t)
}

// TestLeakedRegistration: registered Go memory is not collected when the buffer becomes
// garbage, because the driver still uses it.
func TestLeakedRegistration(t *testing.T) {
	g := openSoft(t, "h200", 0)
	collected := make(chan struct{})
	func() {
		memory := new([1 << 16]byte)
		runtime.AddCleanup(memory, func(c chan struct{}) { close(c) }, collected)
		must(ferry.Register(g, memory[:], nil))(t)
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	select {
	case <-collected:
		t.Error("registered memory was collected")
	default:
	}
}
