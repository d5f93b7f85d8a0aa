//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// threadContexts is the part of a fake library that has a stack of contexts for each thread, as
// the manual describes cuCtxSetCurrent and its relatives.
type threadContexts struct {
	t      *testing.T
	mu     sync.Mutex
	stacks map[int][]cu.Context
	seen   map[string][]cu.Context // by function: the context that was current in each call
	fail   map[string]cu.Result    // for one call of a function
}

// newThreadContexts makes a driver on a fake library with contexts of threads. The goroutine is
// locked to its thread until the test ends.
func newThreadContexts(t *testing.T) (*threadContexts, *fakeCUDA, *Driver) {
	t.Helper()
	f, d := newFake(t)
	c := &threadContexts{t: t, stacks: map[int][]cu.Context{}, seen: map[string][]cu.Context{}, fail: map[string]cu.Result{}}
	on := func(symbol string, change func(stack []cu.Context, a uintptr) ([]cu.Context, cu.Result)) {
		f.on(symbol, func(args []uintptr) cu.Result {
			c.mu.Lock()
			defer c.mu.Unlock()
			if r, ok := c.fail[symbol]; ok {
				delete(c.fail, symbol)
				return r
			}
			id := threadID()
			next, r := change(c.stacks[id], args[0])
			c.stacks[id] = next
			return r
		})
	}
	pop := func(s []cu.Context) []cu.Context { return s[:max(0, len(s)-1)] }
	on("cuCtxSetCurrent", func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
		if s = pop(s); a != 0 {
			s = append(s, cu.Context(a))
		}
		return s, cu.Success
	})
	on("cuCtxGetCurrent", func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
		store(a, top(s))
		return s, cu.Success
	})
	on("cuCtxPushCurrent", func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
		return append(s, cu.Context(a)), cu.Success
	})
	on("cuCtxPopCurrent", func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
		if len(s) == 0 {
			return s, cu.ErrorInvalidContext
		}
		store(a, top(s))
		return pop(s), cu.Success
	})
	for _, symbol := range []string{"cuEventRecord", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemFree", "cuCtxSynchronize", "cuMemsetD8Async"} {
		on(symbol, func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
			c.seen[symbol] = append(c.seen[symbol], top(s))
			return s, cu.Success
		})
	}
	on("cuCtxCreate", func(s []cu.Context, a uintptr) ([]cu.Context, cu.Result) {
		store(a, cu.Context(0xc0))
		return append(s, 0xc0), cu.Success
	})
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	return c, f, d
}

func top(s []cu.Context) cu.Context {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1]
}

// stack returns the contexts of the calling thread, and sets them if any are given.
func (c *threadContexts) stack(set ...cu.Context) []cu.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(set) > 0 {
		c.stacks[threadID()] = slices.DeleteFunc(set, func(x cu.Context) bool { return x == 0 })
	}
	return slices.Clone(c.stacks[threadID()])
}

// wantStack checks the contexts of the calling thread.
func (c *threadContexts) wantStack(what string, want ...cu.Context) {
	c.t.Helper()
	if got := c.stack(); !slices.Equal(got, want) {
		c.t.Errorf("%s: the contexts of the thread are %#x, want %#x", what, got, want)
	}
}

// wantSeen checks which context was current in the calls of a function since the last check.
func (c *threadContexts) wantSeen(what, symbol string, want ...cu.Context) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.seen[symbol]; !slices.Equal(got, want) {
		c.t.Errorf("%s: %s was called with the contexts %#x, want %#x", what, symbol, got, want)
	}
	delete(c.seen, symbol)
}

// contextCalls are calls that make a context current, in all ways that the package has.
var contextCalls = map[string]struct {
	symbol string
	do     func(d *Driver, ctx cu.Context) error
}{
	"a call":                 {"cuMemFree", func(d *Driver, ctx cu.Context) error { return d.MemFree(ctx, 1) }},
	"a call written by hand": {"cuCtxSynchronize", func(d *Driver, ctx cu.Context) error { return d.CtxSynchronize(ctx) }},
	"a call by its stream":   {"cuEventRecord", func(d *Driver, ctx cu.Context) error { return d.EventRecord(ctx, 3, cu.StreamPerThread) }},
	"a launch": {"cuLaunchKernel", func(d *Driver, ctx cu.Context) error {
		return d.LaunchKernel(ctx, 1, cu.Dim3{}, cu.Dim3{}, 0, 0, []byte{1})
	}},
	"a copy that knows": {"cuMemcpyHtoDAsync", func(d *Driver, ctx cu.Context) error {
		_, err := d.MemcpyKnowing(ctx, true, 1, cu.HostPtr(&hotBytes[0]), 2, 0)
		return err
	}},
	"a batch": {"cuMemsetD8Async", func(d *Driver, ctx cu.Context) error {
		b := new(cu.Batch)
		b.Append(cu.Call{Op: cu.OpMemsetD8Async, Dst: 1, Bytes: 2, Stream: 0})
		_, err := d.Submit(ctx, b)
		return err
	}},
}

// TestBoundThreadKeepsContext: in a bound thread every call has its own context, and leaves the one
// that it found, also if it fails.
func TestBoundThreadKeepsContext(t *testing.T) {
	const bound, own, other = 7, 8, 9
	for _, version := range []int32{12040, minByHandle} {
		for what, call := range contextCalls {
			c, _, d := newThreadContexts(t)
			d.version = version
			c.stack(5)
			unbind, err := d.BindThread(bound)
			if err != nil {
				t.Fatal(err)
			}
			c.wantStack(what+": bound", 5, bound)
			for _, ctx := range []cu.Context{other, bound} {
				if err := call.do(d, ctx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				c.wantSeen(what, call.symbol, ctx)
				c.wantStack(what, 5, bound)
			}
			c.stack(5, bound, own) // the code has pushed a context itself
			if err := call.do(d, other); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			c.wantSeen(what+": beside an own context", call.symbol, other)
			c.wantStack(what+": beside an own context", 5, bound, own)
			c.stack(5, bound)
			c.fail[call.symbol] = cu.ErrorUnknown
			if err := call.do(d, other); !errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%s: error %v, want %v", what, err, cu.ErrorUnknown)
			}
			c.wantStack(what+": failed", 5, bound)
			c.fail["cuCtxPushCurrent"] = cu.ErrorContextIsDestroyed
			if err := call.do(d, other); !errors.Is(err, cu.ErrorContextIsDestroyed) {
				t.Errorf("%s: error %v, want %v", what, err, cu.ErrorContextIsDestroyed)
			}
			c.wantSeen(what+": no context", call.symbol)
			c.wantStack(what+": no context", 5, bound)
			c.fail["cuCtxPopCurrent"] = cu.ErrorUnknown
			if err := call.do(d, other); !errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%s: error %v of the pop, want %v", what, err, cu.ErrorUnknown)
			}
			c.stack(5, bound)
			if err := unbind(); err != nil {
				t.Error(err)
			}
			c.wantStack(what+": unbound", 5)
		}
	}
}

// TestBindThreadCreates: a context that is created in a bound thread does not become current.
func TestBindThreadCreates(t *testing.T) {
	c, _, d := newThreadContexts(t)
	unbind, err := d.BindThread(7)
	if err != nil {
		t.Fatal(err)
	}
	if ctx, err := d.CtxCreate(0, 0); ctx != 0xc0 || err != nil {
		t.Errorf("context %#x, %v", ctx, err)
	}
	c.wantStack("created", 7)
	if err := unbind(); err != nil {
		t.Error(err)
	}
	c.wantStack("unbound")
}

// TestUnbindThread: whatever the code in between has done with the stack of the thread, the context
// before is current again, and those below it are where they were. What the code has pushed and
// left stays only where it cannot be told from the context before.
func TestUnbindThread(t *testing.T) {
	const ctx = 7
	for _, before := range [][]cu.Context{{}, {5}, {4, 5}, {ctx}, {5, ctx}, {ctx, 5}} {
		was := top(before)
		for what, change := range map[string]struct {
			pop   int
			push  []cu.Context
			stays []cu.Context // if the context before is ctx, too
		}{
			"nothing":                {},
			"set":                    {1, []cu.Context{8}, nil},
			"set what was before":    {1, []cu.Context{was}, nil},
			"set to none":            {1, nil, nil},
			"pushed two":             {0, []cu.Context{8, 9}, []cu.Context{ctx}},
			"pushed the same":        {0, []cu.Context{ctx}, []cu.Context{ctx}},
			"pushed, then the same":  {0, []cu.Context{8, ctx}, []cu.Context{ctx}},
			"pushed what was before": {0, []cu.Context{was}, []cu.Context{ctx}},
			"set, pushed":            {1, []cu.Context{8, 9}, nil},
			"pushed 200":             {0, slices.Repeat([]cu.Context{8}, 200), []cu.Context{ctx}},
		} {
			c, _, d := newThreadContexts(t)
			c.stack(append(slices.Clone(before), 0)...)
			unbind, err := d.BindThread(ctx)
			if err != nil {
				t.Fatal(err)
			}
			s := c.stack()
			c.stack(slices.Concat(s[:len(s)-change.pop], change.push, []cu.Context{0})...)
			if err := unbind(); err != nil {
				t.Error(err)
			}
			want := before
			if was == ctx {
				want = slices.Concat(before, change.stays)
			}
			c.wantStack(fmt.Sprintf("before %d, %s", before, what), want...)
		}
	}
}

// TestUnbindPopped: unbind pops no more than it must where code has popped contexts that were there
// before, or where two stacks look alike.
func TestUnbindPopped(t *testing.T) {
	for _, x := range []struct {
		what               string
		before, left, want []cu.Context
	}{
		{"popped two", []cu.Context{3, 4, 5}, []cu.Context{3, 4}, []cu.Context{3, 4}},
		{"popped two, pushed", []cu.Context{3, 4, 5}, []cu.Context{3, 4, 8}, []cu.Context{3, 4, 8}},
		{"popped one of three that are the same", []cu.Context{7, 7}, []cu.Context{7, 7}, []cu.Context{7}},
		{"pushed that from before and another", []cu.Context{4, 5}, []cu.Context{4, 5, 7, 5, 9}, []cu.Context{4, 5, 7, 5}},
	} {
		c, _, d := newThreadContexts(t)
		c.stack(x.before...)
		unbind, err := d.BindThread(7)
		if err != nil {
			t.Fatal(err)
		}
		c.stack(x.left...)
		if err := unbind(); err != nil {
			t.Error(err)
		}
		c.wantStack(x.what, x.want...)
	}
}

// TestUnbindGoneContext: unbind gives no context to the driver that was destroyed meanwhile,
// because the driver can crash on it. The context from before stays on the stack.
func TestUnbindGoneContext(t *testing.T) {
	c, f, d := newThreadContexts(t)
	gone, err := d.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, leave := range map[string][]cu.Context{
		"destroyed":         {4, gone, 7},
		"destroyed, popped": {4, gone},
		"destroyed, set":    {4, gone, 8},
		"destroyed, pushed": {4, gone, 7, 8, 9},
	} {
		d.contexts.add(gone)
		c.stack(4, gone)
		unbind, err := d.BindThread(7)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CtxDestroy(gone); err != nil {
			t.Error(err)
		}
		c.stack(leave...)
		f.take()
		if err := unbind(); err != nil {
			t.Error(err)
		}
		for _, call := range f.take() {
			if call.symbol != "cuCtxPopCurrent" && call.symbol != "cuCtxGetCurrent" && cu.Context(call.args[0]) == gone {
				t.Errorf("%s: %s got the destroyed context", what, call.symbol)
			}
		}
		if what == "destroyed, popped" {
			c.wantStack(what, 4)
		} else {
			c.wantStack(what, 4, gone)
		}
	}
}

// TestUnbindRefused: unbind returns an error of the driver, unless it says that a context is gone.
func TestUnbindRefused(t *testing.T) {
	for _, x := range []struct {
		symbol    string
		left      []cu.Context // when unbind is called
		fail      cu.Result
		want      error
		remaining []cu.Context
	}{
		{"cuCtxPopCurrent", []cu.Context{4, 5, 7}, cu.ErrorUnknown, cu.ErrorUnknown, []cu.Context{4, 5, 7}},
		{"cuCtxGetCurrent", []cu.Context{4, 5, 7}, cu.ErrorUnknown, cu.ErrorUnknown, []cu.Context{4, 5}},
		{"cuCtxGetCurrent", []cu.Context{4, 5, 7}, cu.ErrorContextIsDestroyed, nil, []cu.Context{4, 5}},
		{"cuCtxPushCurrent", []cu.Context{4, 5}, cu.ErrorUnknown, cu.ErrorUnknown, []cu.Context{5}},
		{"cuCtxPushCurrent", []cu.Context{4, 5}, cu.ErrorContextIsDestroyed, nil, []cu.Context{5}},
	} {
		c, _, d := newThreadContexts(t)
		c.stack(4, 5)
		unbind, err := d.BindThread(7)
		if err != nil {
			t.Fatal(err)
		}
		c.stack(x.left...)
		c.fail[x.symbol] = x.fail
		if err := unbind(); !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", x.symbol, err, x.want)
		}
		c.wantStack(fmt.Sprintf("%s fails with %v", x.symbol, x.fail), x.remaining...)
		if boundThreads.list.Load() != nil {
			t.Errorf("%s: the thread is still bound", x.symbol)
		}
	}
}

// TestBindThreadNests: the inner end restores the outer context, which calls keep then.
func TestBindThreadNests(t *testing.T) {
	c, _, d := newThreadContexts(t)
	_, _ = d.BindThread(0)
	outer, err := d.BindThread(7)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := d.BindThread(8)
	if err != nil {
		t.Fatal(err)
	}
	c.wantStack("inner", 7, 8)
	err = errors.Join(d.MemFree(9, 1), inner())
	c.wantStack("outer", 7)
	err = errors.Join(err, d.MemFree(9, 1))
	c.wantStack("outer, after a call", 7)
	if err = errors.Join(err, outer()); err != nil {
		t.Error(err)
	}
	c.wantStack("none")
	if left := boundThreads.list.Load(); left != nil {
		t.Errorf("bound threads are left: %v", *left)
	}
}

// TestBoundThreadAlone: calls of other threads make the calls of C that they make otherwise, and
// so does the thread itself afterwards.
func TestBoundThreadAlone(t *testing.T) {
	_, f, d := newThreadContexts(t)
	usual := func(what string) {
		t.Helper()
		f.take()
		if err := d.MemFree(9, 1); err != nil {
			t.Error(err)
		}
		var got []string
		for _, call := range f.take() {
			got = append(got, call.symbol)
		}
		if want := []string{"cuCtxSetCurrent", "cuMemFree"}; !slices.Equal(got, want) {
			t.Errorf("%s: called %v, want %v", what, got, want)
		}
	}
	unbind, err := d.BindThread(7)
	if err != nil {
		t.Fatal(err)
	}
	var other sync.WaitGroup
	other.Go(func() { usual("another thread") })
	other.Wait()
	if err := unbind(); err != nil {
		t.Error(err)
	}
	usual("afterwards")
}

// TestBoundThreadsAtOnce: threads are bound and unbound while others call. Each call has its
// context, in bound threads and in others.
func TestBoundThreadsAtOnce(t *testing.T) {
	c, _, d := newThreadContexts(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			own, other, was := cu.Context(100+i), cu.Context(200+i), c.stack()
			for range 50 {
				if i%4 == 0 { // a thread that is not bound
					if err := d.MemFree(other, 1); err != nil || top(c.stack()) != other {
						t.Errorf("not bound: %v, the contexts are %d", err, c.stack())
					}
					continue
				}
				unbind, err := d.BindThread(own)
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.MemFree(other, 1); err != nil || top(c.stack()) != own {
					t.Errorf("bound: %v, the contexts are %d", err, c.stack())
				}
				if err := unbind(); err != nil || !slices.Equal(c.stack(), was) {
					t.Errorf("unbound: %v, the contexts are %d, want %d", err, c.stack(), was)
				}
			}
		})
	}
	wg.Wait()
	if left := boundThreads.list.Load(); left != nil {
		t.Errorf("bound threads are left: %v", *left)
	}
}

// TestBindThreadsAtOnce: no change of the list of threads is lost.
func TestBindThreadsAtOnce(t *testing.T) {
	d := libcDriver(t, boundFunctions)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := range 2000 {
				unbind, err := d.BindThread(1)
				if err != nil || !inBoundThread() {
					t.Errorf("%d: the thread is not bound: %v", i, err)
					return
				}
				if err := unbind(); err != nil || inBoundThread() {
					t.Errorf("%d: the thread is still bound: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if left := boundThreads.list.Load(); left != nil {
		t.Errorf("bound threads are left: %v", *left)
		boundThreads.list.Store(nil)
	}
}

// TestBoundThreadTakesNoLock: a call takes no lock while another thread is bound, and finds a list
// that nobody changes.
func TestBoundThreadTakesNoLock(t *testing.T) {
	d := libcDriver(t, boundFunctions)
	end := bindAnotherThread(t, d)
	boundThreads.mu.Lock()
	called := make(chan error)
	go func() { called <- d.MemFree(1, 2) }()
	select {
	case err := <-called:
		if err != nil {
			t.Error(err)
		}
		boundThreads.mu.Unlock()
	case <-time.After(time.Minute):
		boundThreads.mu.Unlock()
		t.Errorf("the call waits for a lock: %v", <-called)
	}
	defer bindAnotherThread(t, d)()
	list := boundThreads.list.Load()
	was := slices.Clone(*list)
	if end(); !slices.Equal(*list, was) {
		t.Errorf("a list of threads was changed: %v, was %v", *list, was)
	}
	for _, c := range hotCalls {
		if n := testing.AllocsPerRun(200, func() { _ = c.call(d) }); n != 0 && !racebuild.Instrumented {
			t.Errorf("beside a bound thread, %s allocates %v times", c.name, n)
		}
	}
}

// TestBindThreadRefused: a failed BindThread leaves the context and the thread as they were.
func TestBindThreadRefused(t *testing.T) {
	c, _, d := newThreadContexts(t)
	gone, err := d.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CtxDestroy(gone); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what string
		ctx  cu.Context
		fail string
		want cu.Result
	}{
		{"no context", 0, "", cu.ErrorInvalidContext},
		{"a destroyed context", gone, "", cu.ErrorInvalidContext},
		{"cuCtxGetCurrent fails", 7, "cuCtxGetCurrent", cu.ErrorUnknown},
		{"cuCtxPushCurrent fails", 7, "cuCtxPushCurrent", cu.ErrorUnknown},
	} {
		c.stack(5)
		if x.fail != "" {
			c.fail[x.fail] = cu.ErrorUnknown
		}
		if unbind, err := d.BindThread(x.ctx); !errors.Is(err, x.want) || unbind != nil {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
		c.wantStack(x.what, 5)
		if boundThreads.list.Load() != nil {
			t.Errorf("%s: the thread is bound", x.what)
		}
	}
	enterHostFunc()
	defer leaveHostFunc()
	if _, err := d.BindThread(7); !errors.Is(err, cu.ErrorNotPermitted) {
		t.Errorf("in a host function: %v, want %v", err, cu.ErrorNotPermitted)
	}
}

// BenchmarkBoundThread measures a call that sets a context, while no thread is bound, while another
// one is, and in a bound thread. With parallel=true all processors call.
func BenchmarkBoundThread(b *testing.B) {
	d := libcDriver(b, boundFunctions)
	call := func() {
		if err := d.MemFree(1, 2); err != nil {
			b.Error(err)
		}
	}
	for _, bound := range []string{"none", "another", "this"} {
		for _, parallel := range []bool{false, true} {
			if bound == "this" && parallel {
				continue
			}
			b.Run(fmt.Sprintf("bound=%s/parallel=%t", bound, parallel), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				switch bound {
				case "another":
					defer bindAnotherThread(b, d)()
				case "this":
					unbind, err := d.BindThread(1)
					if err != nil {
						b.Fatal(err)
					}
					defer func() { _ = unbind() }()
				}
				b.ReportAllocs()
				if !parallel {
					for b.Loop() {
						call()
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						call()
					}
				})
			})
		}
	}
}

// boundFunctions are functions of the C library for BindThread, its unbind and hotCalls: strlen of a
// context that is 0 returns 0.
var boundFunctions = map[string]string{"cuCtxGetCurrent": "strlen", "cuCtxPopCurrent_v2": "strlen",
	"cuMemcpyDtoHAsync_v2": "sched_yield", "cuThreadExchangeStreamCaptureMode": "sched_yield"}

// bindAnotherThread binds a thread that does nothing until end is called.
func bindAnotherThread(tb testing.TB, d *Driver) (end func()) {
	tb.Helper()
	bound, stop, done := make(chan error), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		unbind, err := d.BindThread(1)
		bound <- err
		if err != nil {
			return
		}
		<-stop
		done <- unbind()
	}()
	if err := <-bound; err != nil {
		tb.Fatal(err)
	}
	return func() {
		close(stop)
		if err := <-done; err != nil {
			tb.Error(err)
		}
	}
}

// TestWithContext: f has its context, whatever was current before. A bound thread keeps what was
// current. A context that is gone is refused, and the error of f is returned.
func TestWithContext(t *testing.T) {
	c, _, d := newThreadContexts(t)
	planted := errors.New("planted")
	with := func(what string, after ...cu.Context) {
		t.Helper()
		if err := d.WithContext(7, func() error {
			if now := top(c.stack()); now != 7 {
				t.Errorf("%s: context %#x is current, want 7", what, now)
			}
			return planted
		}); err != planted {
			t.Errorf("%s: got %v, want the error of f", what, err)
		}
		c.wantStack(what, after...)
	}
	with("no context", 7)
	with("the same context", 7)
	c.stack(5, 6)
	with("another context", 5, 7)
	unbind, err := d.BindThread(8)
	if err != nil {
		t.Fatal(err)
	}
	with("a bound thread", 5, 7, 8)
	if err := unbind(); err != nil {
		t.Error(err)
	}
	if err := d.WithContext(0, func() error { return nil }); !errors.Is(err, cu.ErrorInvalidContext) {
		t.Errorf("no context given: %v", err)
	}
	c.fail["cuCtxSetCurrent"] = cu.ErrorContextIsDestroyed
	c.stack(5)
	if err := d.WithContext(7, func() error { t.Error("f runs without its context"); return nil }); !errors.Is(err, cu.ErrorContextIsDestroyed) {
		t.Errorf("a context that is gone: %v", err)
	}
}
