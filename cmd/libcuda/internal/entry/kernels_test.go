package entry

import (
	"slices"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

const oneKernel = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry a() { ret; }\n"

// loading watches the loads of a driver.
type loading struct {
	cu.Driver
	lib   *codeLibrary
	loads int
	held  bool // the library was locked during a load
}

func (l *loading) ModuleLoadDataEx(ctx cu.Context, image []byte, o *cu.JITOptions) (cu.Module, string, error) {
	l.loads++
	if l.lib.mu.TryLock() {
		l.lib.mu.Unlock()
	} else {
		l.held = true
	}
	return l.Driver.ModuleLoadDataEx(ctx, image, o)
}

// testLibrary returns a driver and a library on it.
func testLibrary(t *testing.T) (*loading, *codeLibrary) {
	t.Helper()
	soft, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := &loading{Driver: soft}
	var f Frame
	if err := d.Init(0); err != nil {
		t.Fatal(err)
	}
	if err := newLibrary(d, &f, []byte(oneKernel), new(jit)); err != nil {
		t.Fatal(err)
	}
	if d.lib, err = find[*codeLibrary](f.Out[0]); err != nil {
		t.Fatal(err)
	}
	return d, d.lib
}

// TestLibraryModule: many callers load a library once for a context, without its lock. After it was
// unloaded nothing is loaded, even by a caller that has found it before.
func TestLibraryModule(t *testing.T) {
	d, l := testLibrary(t)
	ctx, err := d.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, err := l.kernelNamed("a")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := kernelFunction(d, ctx, k.handle); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if d.loads != 1 || d.held {
		t.Errorf("%d loads, locked: %t; want one load without the lock", d.loads, d.held)
	}
	var f Frame
	f.In[0] = l.handle
	if err := libraryUnload(d, &f); err != nil {
		t.Fatal(err)
	}
	if m, err := l.module(d, ctx); err != cu.ErrorInvalidHandle || d.loads != 1 {
		t.Errorf("a module after the unloading: %#x, %v, %d loads", m, err, d.loads)
	}
	if _, err := l.kernelNamed("a"); err != cu.ErrorInvalidHandle {
		t.Errorf("a kernel after the unloading: %v", err)
	}
	if _, err := l.end(); err != cu.ErrorInvalidHandle {
		t.Errorf("unloaded twice: %v", err)
	}
}

// TestRetainForgets: a thread takes the first reference to a new primary context before another thread,
// which has dropped the last one to the old context, could forget what ended with it.
func TestRetainForgets(t *testing.T) {
	d, l := testLibrary(t)
	k, err := l.kernelNamed("a")
	if err != nil {
		t.Fatal(err)
	}
	var before cu.Function
	for range 2 {
		ctx, err := retain(d, 0)
		if err != nil {
			t.Fatal(err)
		}
		fn, err := kernelFunction(d, ctx, k.handle)
		if err != nil || fn == before {
			t.Fatalf("the function is %#x, %v, and was %#x", fn, err, before)
		}
		if err := d.LaunchKernel(ctx, fn, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, 0, nil); err != nil {
			t.Fatal(err)
		}
		before = fn
		if err := d.DevicePrimaryCtxRelease(0); err != nil { // not by release
			t.Fatal(err)
		}
	}
}

// TestLinkedLibrary: a library can be what the linker made, also without a context. Its kernels are
// those of all inputs.
func TestLinkedLibrary(t *testing.T) {
	d, _ := testLibrary(t)
	ctx, err := d.CtxCreate(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []cu.Context{0, ctx} {
		f := Frame{Ctx: uint64(c)}
		if err := newLibrary(d, &f, linkedImage(t), new(jit)); err != nil {
			t.Fatal(err)
		}
		l, err := find[*codeLibrary](f.Out[0])
		if err != nil {
			t.Fatal(err)
		}
		d.lib = l
		if names, err := l.names(); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("kernels %q, %v, want a and b", names, err)
		}
		for _, name := range []string{"a", "b"} {
			k, err := l.kernelNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			fn, err := kernelFunction(d, ctx, k.handle)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.LaunchKernel(ctx, fn, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, 0, nil); err != nil {
				t.Error(err)
			}
		}
	}
}
