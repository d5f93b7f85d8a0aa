package softgpu

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// waitsFor fails if call returns before open is called, or returns an error.
func waitsFor(t *testing.T, name string, open func(), call func() error) {
	t.Helper()
	var opened atomic.Bool
	time.AfterFunc(50*time.Millisecond, func() { opened.Store(true); open() })
	if err := call(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !opened.Load() {
		t.Errorf("%s returned while a kernel ran", name)
	}
}

// The calls that wait for running kernels are those that the conformance suite
// found on hardware.
func TestCallsThatWaitForKernels(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s, ping := r.stream(cu.StreamNonBlocking), r.function("ping")
		started := func() func() {
			open := r.gate(ping, s)
			for r.StreamQuery(r.ctx, s); len(r.sim.running) == 0; r.StreamQuery(r.ctx, s) {
				time.Sleep(time.Millisecond)
			}
			return open
		}
		dev := r.alloc(64)
		host, _ := r.pinned(64)
		var mod cu.Module
		waitsFor(t, "ModuleLoadData", started(), func() (err error) { mod, err = r.ModuleLoadData(r.ctx, []byte(testPTX)); return err })
		waitsFor(t, "ModuleUnload", started(), func() error { return r.ModuleUnload(r.ctx, mod) })
		waitsFor(t, "CtxSetLimit", started(), func() error { return r.CtxSetLimit(r.ctx, cu.LimitStackSize, 8192) })
		waitsFor(t, "MemFree", started(), func() error { return r.MemFree(r.ctx, dev) })
		waitsFor(t, "MemFreeHost", started(), func() error { return r.MemFreeHost(r.ctx, host) })
		other, err := r.CtxCreate(0, 0)
		r.ok(err)
		waitsFor(t, "CtxDestroy of another context", started(), func() error { return r.CtxDestroy(other) })
	})
}

func TestPageableCopyBehindAKernel(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const n = maxDetached
		s, ping := r.stream(cu.StreamNonBlocking), r.function("ping")
		dev := r.alloc(n)
		src, got := pattern(n, 5), make([]byte, n)
		open := r.gate(ping, s)
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, ptr(src), n, s)) // hangs if it waits for the kernel
		clear(src)
		open()
		r.sync(s)
		r.ok(r.MemcpyDtoH(r.ctx, ptr(got), dev, n))
		if !bytes.Equal(got, pattern(n, 5)) {
			t.Error("the bytes that arrived are not those of the source during the call")
		}
	})
}

// A copy behind a short kernel takes at most the time of the kernel plus that
// of a copy in an idle stream.
func TestPageableCopyBehindAShortKernelTakesItsTime(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	onlyFast(t)
	r := newRig(t, Options{})
	const n = maxDetached
	s, f := r.stream(cu.StreamNonBlocking), r.function("iota")
	dev := r.alloc(n)
	src := make([]byte, n)
	up := func() { r.ok(r.MemcpyHtoDAsync(r.ctx, dev, ptr(src), n, s)) }
	kernel := func() { r.ok(r.run(f, 33, 64, s, dev)) }
	r.sync(s)
	idle := r.took(func() { up(); r.sync(s) })
	alone := r.took(func() { kernel(); r.sync(s) })
	both := r.took(func() { kernel(); up(); r.sync(s) })
	if both > idle+alone || both < idle {
		t.Errorf("%.1f us behind a kernel of %.1f us, %.1f us in an idle stream", both, alone, idle)
	}
}

func TestHostFunctionsRunOneAtATime(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		var now, most atomic.Int32
		for range 8 {
			s := r.stream(cu.StreamNonBlocking)
			for range 2 {
				r.ok(r.LaunchHostFunc(r.ctx, s, func() {
					n := now.Add(1)
					if n > most.Load() {
						most.Store(n)
					}
					time.Sleep(2 * time.Millisecond)
					now.Add(-1)
				}))
			}
		}
		r.ok(r.CtxSynchronize(r.ctx))
		if n := most.Load(); n != 1 {
			t.Errorf("%d host functions ran at once", n)
		}
	})
}

func TestTimeSlicesWithComputePreemption(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	if raceBuild {
		t.Skip("the race detector reports the missing synchronization")
	}
	for _, preempts := range []float64{0, 1} {
		r := newRig(t, Options{Profile: with(named(t, "h200"), "COMPUTE_PREEMPTION_SUPPORTED", preempts)})
		ping := r.function("ping")
		c, err := r.CtxCreate(0, 0)
		r.ok(err)
		f, err := r.ModuleGetFunction(c, r.module(c), "store")
		r.ok(err)
		hp, host := r.pinned(4)
		open := r.gate(ping, 0)
		r.ok(r.LaunchKernel(c, f, one, one, 0, 0, params(cu.DevicePtr(uintptr(hp)), uint32(9))))
		limit := time.Now().Add(3 * hostWaitLimit)
		word := (*uint32)(hp)
		for atomic.LoadUint32(word) == 0 && time.Now().Before(limit) {
			time.Sleep(time.Millisecond)
		}
		if got := atomic.LoadUint32(word); got != uint32(9*preempts) {
			t.Errorf("with preemption %v the other context's kernel wrote %d while one spins", preempts, got)
		}
		open()
		r.ok(r.CtxSynchronize(r.ctx))
		r.ok(r.CtxSynchronize(c))
		if host[0] != 9 {
			t.Error("the other context's kernel did not run")
		}
	}
}

func TestKernelsOfContextsFollowEachOtherInVirtualTime(t *testing.T) {
	onlyFast(t)
	for _, name := range []string{"h200", "fermi-c2050"} {
		r := newRig(t, Options{Profile: named(t, name)})
		c, err := r.CtxCreate(0, 0)
		r.ok(err)
		f := r.shipped("vector_add")
		m, err := r.ModuleLoadData(c, []byte(kernels.PTX))
		r.ok(err)
		g, err := r.ModuleGetFunction(c, m, "vector_add")
		r.ok(err)
		const n = 1 << 22
		mine, theirs := r.alloc(4*n), cu.DevicePtr(0)
		theirs, err = r.MemAlloc(c, 4*n)
		r.ok(err)
		args := func(p cu.DevicePtr) []byte { return params64(uint64(p), uint64(p), uint64(p), n) }
		grid := cu.Dim3{X: 1, Y: 1, Z: 1} // one block: it leaves room on the device
		first := func() { r.ok(r.LaunchKernel(r.ctx, f, grid, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, args(mine))) }
		alone := r.took(func() { first(); r.ok(r.CtxSynchronize(r.ctx)) })
		both := r.took(func() {
			first()
			r.ok(r.LaunchKernel(c, g, grid, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, args(theirs)))
			r.ok(r.CtxSynchronize(r.ctx))
			r.ok(r.CtxSynchronize(c))
		})
		if both < 1.9*alone || both > 2.1*alone {
			t.Errorf("%s: kernels of two contexts take %.0f us, one takes %.0f us", name, both, alone)
		}
	}
}

// slowPTX reads host memory once and then computes for a long time, without a
// new page, a new block or a poll. It is slow, but does not wait for the host.
const slowPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .entry slow(.param .u64 p, .param .u32 iterations)
{
	.reg .pred %q;
	.reg .u32 %r<4>;
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	ld.param.u32 %r1, [iterations];
	ld.global.u32 %r2, [%a];
L:
	mad.lo.u32 %r2, %r2, 1664525, 1013904223;
	xor.b32 %r2, %r2, %r1;
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %q, %r1, 0;
	@%q bra L;
	st.global.u32 [%a], %r2;
	ret;
}
`

// A kernel that is slow on this computer, and runs longer than hostWaitLimit,
// has the cost of its instructions.
func TestSlowIsNotWaiting(t *testing.T) {
	onlyFast(t)
	r := newRig(t, Options{Profile: named(t, "h200")})
	m, err := r.ModuleLoadData(r.ctx, []byte(slowPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "slow")
	r.ok(err)
	p, _ := r.pinned(4)
	cost := func(iterations uint32) float64 {
		began := r.Now()
		r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(cu.DevicePtr(uintptr(p)), iterations)))
		r.ok(r.CtxSynchronize(r.ctx))
		return float64(r.Now() - began)
	}
	times := uint32(400)
	if oneThread {
		times = 40 // 400 take longer than kernelWaitLimit
	}
	short, long := cost(50_000), cost(50_000*times)
	if ratio := long / short; ratio < float64(times)/2 || ratio > 1.25*float64(times) {
		t.Errorf("%d times as many iterations cost %.0f us instead of %.0f: %.1f times as much", times, long/1e3, short/1e3, ratio)
	}
}

// A kernel that this computer has not begun yet gets the same wait limit as one
// that runs. Only a blocked kernel may be waiting for the host.
func TestKernelThatIsSlowToBegin(t *testing.T) {
	r := newRig(t, Options{})
	dev := r.devices[0]
	o := &op{ctx: dev.primary, work: &work{launch: &launch{}, dev: dev}, released: true}
	if o.ctx == nil {
		o.ctx = &contextState{}
	}
	if got := o.waitLimit(0); got != kernelWaitLimit {
		t.Errorf("not begun: %v, want %v", got, kernelWaitLimit)
	}
	dev.timeSlices.waiting = append(dev.timeSlices.waiting, o)
	if got := o.waitLimit(0); got != hostWaitLimit {
		t.Errorf("blocked by another context: %v, want %v", got, hostWaitLimit)
	}
	dev.timeSlices.waiting = nil
	o.pendingDeps = 1
	if got := o.waitLimit(0); got != hostWaitLimit {
		t.Errorf("behind an op that is not done: %v, want %v", got, hostWaitLimit)
	}
}
