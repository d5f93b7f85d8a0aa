//go:build (amd64 || arm64) && !android && !faketime

package libcuda

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
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
			c.wantStack(what+": bound", bound)
			for _, ctx := range []cu.Context{other, bound} {
				if err := call.do(d, ctx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				c.wantSeen(what, call.symbol, ctx)
				c.wantStack(what, bound)
			}
			c.stack(bound, own) // the code has pushed a context itself
			if err := call.do(d, other); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			c.wantSeen(what+": beside an own context", call.symbol, other)
			c.wantStack(what+": beside an own context", bound, own)
			c.stack(bound)
			c.fail[call.symbol] = cu.ErrorUnknown
			if err := call.do(d, other); !errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%s: error %v, want %v", what, err, cu.ErrorUnknown)
			}
			c.wantStack(what+": failed", bound)
			c.fail["cuCtxPushCurrent"] = cu.ErrorContextIsDestroyed
			if err := call.do(d, other); !errors.Is(err, cu.ErrorContextIsDestroyed) {
				t.Errorf("%s: error %v, want %v", what, err, cu.ErrorContextIsDestroyed)
			}
			c.wantSeen(what+": no context", call.symbol)
			c.wantStack(what+": no context", bound)
			c.fail["cuCtxPopCurrent"] = cu.ErrorUnknown
			if err := call.do(d, other); !errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%s: error %v of the pop, want %v", what, err, cu.ErrorUnknown)
			}
			c.stack(bound)
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

// TestUnbindThread: the context before is current again, whatever the code in between has done
// with the stack of the thread.
func TestUnbindThread(t *testing.T) {
	for _, before := range [][]cu.Context{{0}, {5}, {4, 5}} {
		was := slices.DeleteFunc(slices.Clone(before), func(x cu.Context) bool { return x == 0 })
		for what, change := range map[string]func(s []cu.Context) []cu.Context{
			"nothing":     func(s []cu.Context) []cu.Context { return s },
			"set":         func(s []cu.Context) []cu.Context { return append(s[:len(s)-1], 8) },
			"set to none": func(s []cu.Context) []cu.Context { return append(s[:len(s)-1], 0) },
			"pushed two":  func(s []cu.Context) []cu.Context { return append(s, 8, 9) },
		} {
			c, _, d := newThreadContexts(t)
			c.stack(slices.Clone(before)...)
			unbind, err := d.BindThread(7)
			if err != nil {
				t.Fatal(err)
			}
			c.stack(change(c.stack())...)
			if err := unbind(); err != nil {
				t.Error(err)
			}
			if got := top(c.stack()); got != top(was) {
				t.Errorf("before %#x, %s: context %#x is current, want %#x", was, what, got, top(was))
			}
			if what == "nothing" || what == "set" {
				c.wantStack(what, was...)
			}
		}
	}
}

// TestUnbindGoneContext: a context that was destroyed meanwhile is not made current again, because
// the driver can crash on it. None is current then.
func TestUnbindGoneContext(t *testing.T) {
	c, f, d := newThreadContexts(t)
	before, err := d.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.stack(before)
	unbind, err := d.BindThread(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CtxDestroy(before); err != nil {
		t.Error(err)
	}
	f.take()
	if err := unbind(); err != nil {
		t.Error(err)
	}
	c.wantStack("destroyed")
	for _, call := range f.take() {
		if call.symbol == "cuCtxSetCurrent" && cu.Context(call.args[0]) == before {
			t.Error("the destroyed context was given to the driver")
		}
	}
	c.stack(5) // one that the driver says is gone
	if unbind, err = d.BindThread(7); err != nil {
		t.Fatal(err)
	}
	c.fail["cuCtxSetCurrent"] = cu.ErrorContextIsDestroyed
	if err := unbind(); err != nil {
		t.Error(err)
	}
	c.wantStack("refused")
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
	c.wantStack("inner", 8)
	err = errors.Join(d.MemFree(9, 1), inner())
	c.wantStack("outer", 7)
	err = errors.Join(err, d.MemFree(9, 1))
	c.wantStack("outer, after a call", 7)
	if err = errors.Join(err, outer()); err != nil {
		t.Error(err)
	}
	c.wantStack("none")
	if boundThreads.some.Load() != 0 || len(boundThreads.depth) != 0 {
		t.Errorf("%d bound threads are left: %v", boundThreads.some.Load(), boundThreads.depth)
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
		{"cuCtxSetCurrent fails", 7, "cuCtxSetCurrent", cu.ErrorUnknown},
	} {
		c.stack(5)
		if x.fail != "" {
			c.fail[x.fail] = cu.ErrorUnknown
		}
		if unbind, err := d.BindThread(x.ctx); !errors.Is(err, x.want) || unbind != nil {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
		c.wantStack(x.what, 5)
		if boundThreads.some.Load() != 0 {
			t.Errorf("%s: the thread is bound", x.what)
		}
	}
	enterHostFunc()
	defer leaveHostFunc()
	if _, err := d.BindThread(7); !errors.Is(err, cu.ErrorNotPermitted) {
		t.Errorf("in a host function: %v, want %v", err, cu.ErrorNotPermitted)
	}
}
