package softgpu

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestDeviceMemoryIsLazy: a computer with less memory can emulate all of an H200's, as long
// as little of it is written.
func TestDeviceMemoryIsLazy(t *testing.T) {
	if !reservesLazily {
		t.Skip("memory of this system is not taken lazily")
	}
	r := newRig(t, Options{Profile: named(t, "h200")})
	free, _, err := r.MemGetInfo(r.ctx)
	r.ok(err)
	big, err := r.MemAlloc(r.ctx, free-1<<30)
	r.ok(err)
	for _, at := range []cu.DevicePtr{big, big + cu.DevicePtr(free-2<<30)} {
		r.ok(r.MemsetD8(r.ctx, at, 1, 1<<20))
	}
	r.ok(r.CtxSynchronize(r.ctx))
	r.ok(r.MemFree(r.ctx, big))
}

// TestTooLittleForCopies: a copy or fill of device memory that this computer cannot provide
// fails, and loses nothing. Memory that is there already can be written again.
func TestTooLittleForCopies(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "h200")})
	const n = 96 << 20
	r.freeMemory = func() uint64 { return 100 << 20 }
	host := make([]byte, n)
	device, err := r.MemAlloc(r.ctx, n)
	r.ok(err)
	copyIn := func(bytes uintptr) error { return r.MemcpyHtoD(r.ctx, device, pointerTo(host), bytes) }
	err = copyIn(n)
	r.want(cu.ErrorOutOfMemory, err)
	if err == nil || !strings.Contains(err.Error(), "copy 96.0 MiB host to device") || !strings.Contains(err.Error(), "96.0 MiB of this computer's memory, of which 100.0 MiB are free") {
		t.Errorf("got %v", err)
	}
	r.ok(copyIn(1 << 20))
	r.freeMemory = func() uint64 { return 1 << 30 }
	r.ok(copyIn(n))
	r.freeMemory = func() uint64 { return 100 << 20 }
	if resident(host) > 0 {
		r.ok(copyIn(n))
	}
	other, err := r.MemAlloc(r.ctx, n)
	r.ok(err)
	r.ok(r.MemsetD8(r.ctx, other, 1, n))
	if err := r.CtxSynchronize(r.ctx); err == nil || !strings.Contains(err.Error(), "fill 96.0 MiB") || !strings.Contains(err.Error(), "100.0 MiB are free") {
		t.Errorf("a fill: %v", err)
	}
}

// TestTouchingAtOnce: what a running copy writes again takes no memory from another one.
func TestTouchingAtOnce(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "h200")})
	const n = 96 << 20
	r.freeMemory = func() uint64 { return 1 << 30 }
	first := span{region: r.regionOf(r.alloc(2 * n)), n: 2 * n}
	second := span{region: r.regionOf(r.alloc(n)), n: n}
	clear(first.all())
	if resident(first.all()) < 2*n {
		t.Skip("this system does not say which memory it provides")
	}
	r.freeMemory = func() uint64 { return n + copyMargin }
	done := make([]func(), 2)
	for i, p := range []span{first, second} {
		var err error
		r.touching.unchecked.Store(lookEvery)
		done[i], err = p.mayTouch("copy")
		r.ok(err)
	}
	if _, err := second.mayTouch("copy"); err == nil {
		t.Error("two copies of the memory that one needs are allowed")
	}
	done[0]()
	done[1]()
	if got := r.touching.now.Load(); got != 0 {
		t.Errorf("%d bytes are written by no copy", got)
	}
}

// regionOf returns the region at an address.
func (r *rig) regionOf(at cu.DevicePtr) *region {
	x, _ := r.space.find(uint64(at))
	return x.region
}

// TestTooLittleForKernels: a kernel is stopped before this computer runs out of memory, if
// much device memory is allocated.
func TestTooLittleForKernels(t *testing.T) {
	if !reservesLazily {
		t.Skip("memory of this system is not taken lazily")
	}
	for _, least := range []uint64{0, kernelMargin} { // before the kernel, and while it runs
		r := newRig(t, Options{Profile: named(t, "h200")})
		left := kernelMargin + 2*least
		r.freeMemory = func() uint64 { left -= kernelMargin / 2; return left }
		if least == 0 {
			r.freeMemory = func() uint64 { return kernelMargin - 1 }
		}
		r.ok(r.run(r.hostile("nothing"), 1, 1, 0))
		r.ok(r.CtxSynchronize(r.ctx))
		_, err := r.MemAlloc(r.ctx, watchedFrom)
		r.ok(err)
		r.ok(r.run(r.hostile("forever"), 3, 64, 0))
		err = r.CtxSynchronize(r.ctx)
		r.want(cu.ErrorOutOfMemory, err)
		if err == nil || !strings.Contains(err.Error(), "kernel forever") || !strings.Contains(err.Error(), "this computer's memory") {
			t.Errorf("got %v", err)
		}
	}
}
