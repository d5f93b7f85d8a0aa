package libcuda_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// TestGPUBindThread: a bound thread keeps its context through calls with another one, with and
// without an error, and has the context from before after that.
func TestGPUBindThread(t *testing.T) {
	g := newGPU(t)
	other, err := g.CtxCreate(0, g.dev)
	g.must(err)
	g.cleanup(func() error { return g.CtxDestroy(other) })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	is := func(what string, want cu.Context) {
		t.Helper()
		got, err := g.CurrentContext()
		g.must(err)
		if got != want {
			t.Errorf("%s: context %#x is current, want %#x", what, got, want)
		}
	}
	for _, before := range []cu.Context{0, other} {
		g.must(g.SetCurrentContext(before))
		unbind, err := g.BindThread(g.ctx)
		g.must(err)
		is("bound", g.ctx)
		p, err := g.MemAlloc(other, 100)
		g.must(err)
		is("an allocation in another context", g.ctx)
		g.must(g.MemsetD8Async(other, p, 1, 100, cu.StreamPerThread))
		g.must(g.CtxSynchronize(other))
		is("work in another context", g.ctx)
		g.want(g.MemFree(other, p+1), cu.ErrorInvalidValue)
		is("an error", g.ctx)
		g.must(g.MemFree(other, p))
		g.must(g.SetCurrentContext(other)) // what other code does
		g.must(g.CtxSynchronize(g.ctx))
		is("an own context", other)
		inner, err := g.BindThread(g.ctx)
		g.must(err)
		is("nested", g.ctx)
		g.must(inner())
		is("after the nested one", other)
		g.must(unbind())
		is("unbound", before)
	}
	g.must(g.SetCurrentContext(0))
}

// TestGPUUnbindThread: unbind leaves the contexts on the stack from before, whatever the code in
// between has pushed, set or popped.
func TestGPUUnbindThread(t *testing.T) {
	g := newGPU(t)
	var contexts [3]cu.Context
	for i := range contexts {
		var err error
		contexts[i], err = g.CtxCreate(0, g.dev)
		g.must(err)
		g.cleanup(func() error { return g.CtxDestroy(contexts[i]) })
	}
	below, before, other := contexts[0], contexts[1], contexts[2]
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pop := func() error { _, err := g.PopCurrentContext(); return err }
	g.must(g.SetCurrentContext(0))
	for what, change := range map[string]func() error{
		"nothing":     func() error { return nil },
		"set":         func() error { return g.SetCurrentContext(other) },
		"set to none": func() error { return g.SetCurrentContext(0) },
		"popped":      pop,
		"pushed two":  func() error { return errors.Join(g.PushCurrentContext(other), g.PushCurrentContext(below)) },
	} {
		g.must(g.PushCurrentContext(below))
		g.must(g.PushCurrentContext(before))
		unbind, err := g.BindThread(g.ctx)
		g.must(err)
		g.must(change())
		g.must(unbind())
		for _, want := range []cu.Context{before, below} {
			if got, err := g.PopCurrentContext(); got != want || err != nil {
				t.Fatalf("%s: context %#x was on the stack (%v), want %#x", what, got, err, want)
			}
		}
		if _, err := g.PopCurrentContext(); !errors.Is(err, cu.ErrorInvalidContext) {
			t.Fatalf("%s: a pop of an empty stack: %v, want %v", what, err, cu.ErrorInvalidContext)
		}
	}
}

// TestGPUUnbindGoneContext: the context from before is destroyed or released while the thread is
// bound. unbind gives it to no function, the process goes on, and Ferry's calls work.
func TestGPUUnbindGoneContext(t *testing.T) {
	d := gputest.Driver(t)
	g := &gpu{TB: t, Driver: d, dev: gputest.Devices(t, d, 1)[0]}
	ctx, err := g.CtxCreate(0, g.dev)
	g.must(err)
	g.cleanup(func() error { return g.CtxDestroy(ctx) })
	for what, elsewhere := range map[string]bool{"in the thread": false, "in another thread": true} {
		gone, err := g.CtxCreate(0, g.dev)
		g.must(err)
		g.throughGone(what+", created", ctx, gone, elsewhere, func() error { return g.CtxDestroy(gone) })
		gone, err = g.DevicePrimaryCtxRetain(g.dev)
		g.must(err)
		g.throughGone(what+", primary", ctx, gone, elsewhere, func() error { return g.DevicePrimaryCtxRelease(g.dev) })
		_, active, err := g.DevicePrimaryCtxGetState(g.dev)
		g.must(err)
		if active != 0 {
			t.Error("the primary context is still active: other users keep it, and this shows nothing")
		}
	}
}

// throughGone binds a thread with ctx, where gone is current, ends gone and unbinds the thread.
func (g *gpu) throughGone(what string, ctx, gone cu.Context, elsewhere bool, end func() error) {
	g.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g.must(g.SetCurrentContext(gone))
	unbind, err := g.BindThread(ctx)
	g.must(err)
	if elsewhere {
		ended := make(chan error)
		go func() { ended <- end() }()
		g.must(<-ended)
	} else {
		g.must(end())
	}
	if now, err := g.CurrentContext(); err != nil || now != ctx {
		g.Errorf("%s: context %#x is current (%v), want %#x", what, now, err, ctx)
	}
	g.must(g.CtxSynchronize(ctx))
	g.must(unbind())
	now, err := g.CurrentContext()
	g.Logf("%s: after unbind context %#x is current, %v; the one that is gone is %#x", what, now, err, gone)
	p, err := g.MemAlloc(ctx, 100)
	g.must(err)
	g.must(g.MemsetD8Async(ctx, p, 1, 100, cu.StreamPerThread))
	g.must(g.CtxSynchronize(ctx))
	g.must(g.MemFree(ctx, p))
	g.must(g.SetCurrentContext(0))
}
