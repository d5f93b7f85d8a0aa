package softgpu

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestHostMemoryBounds: page-locked memory is bounded by the memory of the emulated machine,
// and by what this computer has free. The errors have both numbers.
func TestHostMemoryBounds(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "fermi-c2050")})
	r.freeMemory = func() uint64 { return 1 << 30 }
	refused := func(bytes uintptr, words ...string) {
		t.Helper()
		_, err := r.MemHostAlloc(r.ctx, bytes, 0)
		r.want(cu.ErrorOutOfMemory, err)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%d bytes: got %v, want %q", bytes, err, w)
			}
		}
	}
	refused(4<<40, "allocate 4096.0 GiB", "fermi-c2050 can page-lock 24.0 GiB of host memory, of which 24.0 GiB are not page-locked")
	refused(2<<30, "allocate 2.0 GiB", "this computer", "has 1.0 GiB free")
	p, err := r.MemHostAlloc(r.ctx, 64<<20, 0)
	r.ok(err)
	if left, total := r.HostMemory(); total != 24<<30 || left != total-64<<20 {
		t.Errorf("%d of %d bytes are left", left, total)
	}
	refused(24<<30, "24.0 GiB of host memory, of which 23.9 GiB are not page-locked")
	r.ok(r.MemFreeHost(r.ctx, p))
	for range checkEvery / (4 << 20) { // small allocations are looked at, too
		r.freeMemory = func() uint64 { return 1 << 20 }
		if _, err = r.MemHostAlloc(r.ctx, 4<<20, 0); err != nil {
			break
		}
	}
	r.want(cu.ErrorOutOfMemory, err)
}

// TestManagedMemoryBounds: managed memory that this computer or a control group cannot
// provide is refused, because the program writes it without a call. What was allocated before
// and not yet written counts; what was written is no longer free anyway.
func TestManagedMemoryBounds(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "h200")})
	r.freeMemory = func() uint64 { return 100 << 20 }
	const n = 64 << 20
	refused := func(bytes uintptr, words ...string) {
		t.Helper()
		_, err := r.MemAllocManaged(r.ctx, bytes, cu.MemAttachGlobal)
		r.want(cu.ErrorOutOfMemory, err)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%d bytes: got %v, want %q", bytes, err, w)
			}
		}
	}
	refused(128<<20, "managed memory", "100.0 MiB free")
	first, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
	r.ok(err)
	data := r.regionOf(first).data
	if resident(data) == 0 { // the heap of race builds may have touched it
		refused(n, "100.0 MiB free", "allocated and not yet written")
	}
	clear(data)
	if resident(data) == n {
		second, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
		r.ok(err)
		r.ok(r.MemFree(r.ctx, second))
	}
	r.ok(r.MemFree(r.ctx, first))
	for range checkEvery / (4 << 20) { // small allocations are looked at, too
		r.freeMemory = func() uint64 { return 1 << 20 }
		if _, err = r.MemAllocManaged(r.ctx, 4<<20, cu.MemAttachGlobal); err != nil {
			break
		}
	}
	r.want(cu.ErrorOutOfMemory, err)
}
