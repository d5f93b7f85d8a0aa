package softgpu

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// hostilePTX has kernels that never end, fault, or need more than a GPU has.
const hostilePTX = `.version 8.0
.target sm_70
.address_size 64
.file 1 "hostile.cu"

.visible .entry forever() {
	.reg .b32 %r<3>;
	.loc 1 7 3
again:
	add.u32 %r1, %r1, 1;
	bra again;
}

.visible .entry nothing() { ret; }

.visible .entry wild() {
	.reg .b32 %r<3>;
	.loc 1 20 1
	st.global.u32 [123456789012], %r1;
	ret;
}

.func deeper(.param .b32 n) {
	.reg .b32 %r<3>;
	.local .b8 room[4096];
	ld.param.u32 %r1, [n];
	{
		.param .b32 p;
		st.param.b32 [p], %r1;
		call deeper, (p);
	}
	ret;
}

.visible .entry recursion() {
	.param .b32 p;
	call deeper, (p);
	ret;
}

// The first warp waits at barrier 1, the second at barrier 2.
.visible .entry deadlock() {
	.reg .b32 %r<3>;
	.reg .pred %p<2>;
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 32;
	@%p1 bra first;
	bar.sync 2, 64;
	ret;
first:
	bar.sync 1, 64;
	ret;
}

// Half of the threads are gone: on hardware since Volta that opens the barrier.
.visible .entry half_gone(.param .u64 out) {
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 32;
	@%p1 bra gone;
	bar.sync 0;
	st.global.u32 [%rd1], 1;
gone:
	ret;
}

.visible .entry large_local() {
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	.local .b8 room[524288];
	mov.u64 %rd1, room;
	st.local.u32 [%rd1+524284], %r1;
	ret;
}
`

func (r *rig) hostile(name string) cu.Function {
	r.t.Helper()
	m, err := r.ModuleLoadData(r.ctx, []byte(hostilePTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, name)
	r.ok(err)
	return f
}

// ended checks that err is the fault of a kernel that was stopped, and contains
// all words.
func ended(t *testing.T, err error, words ...string) {
	t.Helper()
	f, ok := errors.AsType[*cu.Fault](err)
	if !ok || f.Result != cu.ErrorLaunchTimeout {
		t.Fatalf("got %v, want a fault with %s", err, cu.ErrorLaunchTimeout.Name())
	}
	for _, w := range words {
		if !strings.Contains(f.Error(), w) {
			t.Errorf("%q does not say %q", f, w)
		}
	}
}

func TestKernelLimit(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		t.Run(s.String(), func(t *testing.T) {
			r := newRig(t, Options{Schedule: s, KernelLimit: 30 * time.Millisecond})
			r.ok(r.run(r.hostile("nothing"), 1, 1, 0))
			r.sync(0)
			r.ok(r.run(r.hostile("forever"), 3, 64, 0))
			err := r.CtxSynchronize(r.ctx)
			ended(t, err, "kernel forever", "of block (", "PTX line ", "hostile.cu:7", "longer than the limit of 30ms", LimitVariable)
			if _, again := r.MemAlloc(r.ctx, 8); !errors.Is(again, err) {
				t.Errorf("after it: %v, want the same", again)
			}
		})
	}
}

func TestKernelLimitOfEnvironment(t *testing.T) {
	t.Setenv(LimitVariable, "20ms")
	r := newRig(t, Options{})
	r.ok(r.run(r.hostile("forever"), 1, 1, 0))
	ended(t, r.CtxSynchronize(r.ctx), "limit of 20ms")
	if d, err := Open(Options{KernelLimit: time.Hour}); err != nil || d.limit != time.Hour {
		t.Errorf("the environment overrides the option: %v, %v", d.limit, err)
	}
	for _, bad := range []string{"x", "-1s", "0", "5"} {
		t.Setenv(LimitVariable, bad)
		if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), LimitVariable) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if _, err := Open(Options{KernelLimit: -1}); err == nil {
		t.Error("a negative limit is accepted")
	}
}

func TestInterrupt(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		cause := errors.New("enough of it")
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.run(r.hostile("forever"), 200, 64, s))
		time.AfterFunc(20*time.Millisecond, func() { r.Interrupt(cause); r.Interrupt(nil) })
		err := r.StreamSynchronize(r.ctx, s)
		ended(t, err, "kernel forever", "enough of it")
		if !errors.Is(err, cause) || errors.Is(err, context.Canceled) {
			t.Errorf("%v does not wrap the first cause alone", err)
		}
	})
}

// A kernel that is queued after an interrupt does not start.
func TestInterruptedBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := newRig(t, Options{Context: ctx})
	f := r.hostile("nothing")
	r.ok(r.run(f, 1, 1, 0))
	r.sync(0)
	cancel(nil)
	r.ok(r.run(f, 1, 1, 0))
	err := r.CtxSynchronize(r.ctx)
	ended(t, err, "kernel nothing", "context canceled")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap context.Canceled", err)
	}
}

// Whatever a kernel does, the process goes on and a new driver works.
func TestHostileKernels(t *testing.T) {
	for _, c := range []struct {
		kernel      string
		grid, block uint32
		want        cu.Result
		says        string
	}{
		{"forever", 1, 1024, cu.ErrorLaunchTimeout, "hostile.cu:7"},
		{"nothing", 1<<31 - 1, 1, cu.ErrorLaunchTimeout, "kernel nothing"},
		{"wild", 1, 64, cu.ErrorIllegalAddress, "hostile.cu:20"},
		{"recursion", 64, 256, cu.ErrorIllegalAddress, "stack overflow: deeper takes "},
		{"deadlock", 1, 64, cu.ErrorLaunchTimeout, "32 threads of the block wait at barrier 1, where 32 of 64 have arrived, 32 threads of the block wait at barrier 2"},
		{"large_local", 1, 256, cu.Success, ""},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			r := newRig(t, Options{KernelLimit: 60 * time.Millisecond})
			if c.want != cu.ErrorLaunchTimeout {
				r = newRig(t, Options{})
			}
			err := r.run(r.hostile(c.kernel), c.grid, c.block, 0)
			if err == nil {
				err = r.CtxSynchronize(r.ctx)
			}
			if c.want == cu.Success {
				r.ok(err)
				return
			}
			r.want(c.want, err)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
		})
	}
	r := newRig(t, Options{})
	p := r.alloc(4)
	r.ok(r.run(r.hostile("half_gone"), 1, 64, 0, p))
	r.sync(0)
}

// As with compilers, a module with a kernel that fits no GPU is refused.
func TestKernelsTooLarge(t *testing.T) {
	r := newRig(t, Options{})
	for _, space := range []string{"shared", "local"} {
		text := ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k() {\n.reg .b64 %a;\n." + space +
			" .b8 room[1073741824];\nmov.u64 %a, room;\nret;\n}\n"
		_, err := r.ModuleLoadData(r.ctx, []byte(text))
		r.want(cu.ErrorInvalidPTX, err)
		if !strings.Contains(err.Error(), "too much "+space+" memory: 1073741824 bytes") {
			t.Errorf("got %v", err)
		}
	}
}

// Kernels that are stopped leave no goroutine behind.
func TestInterruptLeaksNothing(t *testing.T) {
	if raceBuild {
		t.Skip("the goroutines of the last operations are kept for reports")
	}
	before := runtime.NumGoroutine()
	for i := range 6 {
		r := newRig(t, Options{Devices: 2, KernelLimit: []time.Duration{time.Hour, 20 * time.Millisecond}[i%2]})
		f := r.hostile("forever")
		for range 3 {
			r.ok(r.run(f, 4, 32, r.stream(cu.StreamNonBlocking)))
		}
		if i%2 == 0 {
			r.Interrupt(nil)
		}
		r.DevicePrimaryCtxReset(0)
	}
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// Destroying a context with a kernel that never ends takes a bounded time, and
// also ends the work queued behind the kernel.
func TestDestroyWithAnEndlessKernel(t *testing.T) {
	r := newRig(t, Options{})
	other, err := r.CtxCreate(0, 0)
	r.ok(err)
	_, seen := r.pinned(4096)
	f := r.hostile("forever")
	r.ok(r.run(f, 1, 32, 0))
	r.ok(r.run(f, 1, 32, 0))
	r.ok(r.MemcpyHtoDAsync(r.ctx, r.alloc(4096), ptr(seen), 4096, 0))
	began := time.Now()
	r.ok(r.DevicePrimaryCtxReset(0))
	if took := time.Since(began); took > kernelWaitLimit/2 {
		t.Errorf("it took %v", took)
	}
	if _, err := r.MemAlloc(other, 8); err != nil { // no fault
		t.Errorf("another context: %v", err)
	}
}

// An internal error during an operation is reported by every later call.
func TestInternalErrorsAreReported(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		f := r.hostile("nothing")
		r.handles[uintptr(f)].(*function).kernel.LocalBytes = 1 << 30 // softgpu does not check this
		r.ok(r.run(f, 1, 1, 0))
		err := r.StreamSynchronize(r.ctx, 0)
		r.want(cu.ErrorLaunchFailed, err)
		if !errors.Is(err, cu.ErrorLaunchOutOfResources) || !strings.Contains(err.Error(), "kernel nothing: ") || !strings.Contains(err.Error(), "1073741824 bytes of local memory") {
			t.Errorf("got %v", err)
		}
		if _, again := r.MemAlloc(r.ctx, 8); !errors.Is(again, err) {
			t.Errorf("after it: %v, want the same", again)
		}
	})
}

func TestInternalErrorsInCopiesAreReported(t *testing.T) {
	r := newRig(t, Options{})
	planted := refuse(cu.ErrorInvalidValue, "copy", "planted")
	r.mu.Lock()
	c := r.handles[uintptr(r.ctx)].(*contextState)
	_, err := c.legacy.enqueue(&work{kind: cu.GraphNodeTypeMemcpy, what: "copy", run: func(*op) error { return planted }}, "copy")
	r.mu.Unlock()
	r.ok(err)
	err = r.CtxSynchronize(r.ctx)
	if failed, ok := errors.AsType[*cu.OperationError](err); !ok || failed.Operation != "copy" || !errors.Is(err, planted) || !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("got %v", err)
	}
	r.ok(r.CtxSynchronize(r.ctx))
}

func freeIt(r *rig, p cu.DevicePtr) { r.ok(r.MemFree(r.ctx, p)) }

// A fault names the call that freed the memory.
func TestFaultNamesTheFree(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(64)
	f := r.function("store")
	freeIt(r, p)
	r.ok(r.run(f, 1, 1, 0, p+8, uint32(1)))
	err := r.CtxSynchronize(r.ctx)
	r.want(cu.ErrorIllegalAddress, err)
	for _, w := range []string{"8 bytes into a 64-byte device allocation", ", freed at interrupt_test.go:", "softgpu.freeIt"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}

	r = newRig(t, Options{})
	p, err = r.MemAllocAsync(r.ctx, 64, 0)
	r.ok(err)
	f = r.function("store")
	r.ok(r.MemFreeAsync(r.ctx, p, 0))
	r.ok(r.run(f, 1, 1, 0, p, uint32(1)))
	if err = r.CtxSynchronize(r.ctx); !strings.Contains(err.Error(), ", freed at interrupt_test.go:") {
		t.Errorf("got %v", err)
	}
}
