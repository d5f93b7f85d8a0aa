package libcuda_test

import (
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
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
