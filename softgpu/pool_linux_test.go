package softgpu

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// limitAddresses leaves the process some 512 MiB more addresses than it has, until the end
// of the test. Larger allocations then fail late: this computer does not provide them.
func limitAddresses(t *testing.T) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = min(limit.Max, pages*uint64(os.Getpagesize())+512<<20)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &old); err != nil {
			t.Error(err)
		}
	})
}

// TestFailedAllocationsChangeNoCounter lets each call that allocates fail, early and late.
func TestFailedAllocationsChangeNoCounter(t *testing.T) {
	if unordered.Enabled {
		t.Skip("memory is on Go's heap here, and a limit of addresses ends the process")
	}
	r := newRig(t, Options{})
	const late, all = 8 << 30, 140 << 30
	current, err := r.DeviceGetDefaultMemPool(0)
	r.ok(err)
	kept, limited := r.newPool(0), r.newPool(64<<20)
	for _, p := range []cu.MemPool{current, kept, limited} { // each has used and unused memory
		for range 2 {
			x, err := r.MemAllocFromPoolAsync(r.ctx, 20<<20, p, 0)
			r.ok(err)
			if p == kept {
				r.ok(r.MemFreeAsync(r.ctx, x, 0))
			}
		}
	}
	r.ok(r.CtxSynchronize(r.ctx))
	before := r.counters(current, kept, limited)
	limitAddresses(t)
	for what, call := range map[string]func() error{
		"MemAllocAsync, late":          func() error { _, err := r.MemAllocAsync(r.ctx, late, 0); return err },
		"MemAllocAsync, all memory":    func() error { _, err := r.MemAllocAsync(r.ctx, all, 0); return err },
		"MemAllocAsync, past the end":  func() error { _, err := r.MemAllocAsync(r.ctx, ^uintptr(0), 0); return err },
		"MemAllocFromPoolAsync, late":  func() error { _, err := r.MemAllocFromPoolAsync(r.ctx, late, kept, 0); return err },
		"MemAllocFromPoolAsync, limit": func() error { _, err := r.MemAllocFromPoolAsync(r.ctx, 64<<20, limited, 0); return err },
		"MemAlloc, late":               func() error { _, err := r.MemAlloc(r.ctx, late); return err },
		"MemAlloc, all memory":         func() error { _, err := r.MemAlloc(r.ctx, all); return err },
		"MemAllocPitch, late":          func() error { _, _, err := r.MemAllocPitch(r.ctx, 1<<20, late>>20, 4); return err },
		"MemAllocManaged, late":        func() error { _, err := r.MemAllocManaged(r.ctx, late, cu.MemAttachGlobal); return err },
		"MemHostAlloc, late":           func() error { _, err := r.MemHostAlloc(r.ctx, late, 0); return err },
		"MemHostRegister, no memory": func() error {
			return r.MemHostRegister(r.ctx, hostPointer(0x10_0000_0000), 4096, 0)
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeds", what)
		}
		if after := r.counters(current, kept, limited); after != before {
			t.Errorf("%s changed counters:\nbefore %s\nafter  %s", what, before, after)
		}
	}
}
