package softgpu

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// waitsFor demands that call does not return before open, and that its end is well.
func waitsFor(t *testing.T, name string, open func(), call func() error) {
	t.Helper()
	var opened atomic.Bool
	time.AfterFunc(50*time.Millisecond, func() { opened.Store(true); open() })
	if err := call(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !opened.Load() {
		t.Errorf("%s returned beside a kernel", name)
	}
}

// What waits for kernels that run, as the conformance suite saw it do on hardware.
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
		const n = detachMost
		s, ping := r.stream(cu.StreamNonBlocking), r.function("ping")
		dev := r.alloc(n)
		src, got := pattern(n, 5), make([]byte, n)
		open := r.gate(ping, s)
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, ptr(src), n, s)) // returns, or the test hangs
		clear(src)
		open()
		r.sync(s)
		r.ok(r.MemcpyDtoH(r.ctx, ptr(got), dev, n))
		if !bytes.Equal(got, pattern(n, 5)) {
			t.Error("what arrived is not what the source held during the call")
		}
	})
}

// A copy behind a short kernel takes no longer than one in an idle stream and
// the kernel together.
func TestPageableCopyBehindAShortKernelTakesItsTime(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	onlyFast(t)
	r := newRig(t, Options{})
	const n = detachMost
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

func TestContextsTakeTurnsWhereKernelsCanBePreempted(t *testing.T) {
	t.Setenv(ScheduleVariable, "eager")
	if raceBuild {
		t.Skip("the race detector finds what is missing here")
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
		limit := time.Now().Add(3 * patience)
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
		grid := cu.Dim3{X: 1, Y: 1, Z: 1} // one block: alone it leaves all others' room free
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
