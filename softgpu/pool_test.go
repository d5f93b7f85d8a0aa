package softgpu

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// counters returns what the calls report about the memory of device 0 and of pools.
func (r *rig) counters(pools ...cu.MemPool) string {
	r.t.Helper()
	free, _, err := r.MemGetInfo(r.ctx)
	r.ok(err)
	text := fmt.Sprintf("%d free", free)
	for _, p := range pools {
		for a := cu.MemPoolAttrReservedMemCurrent; a <= cu.MemPoolAttrUsedMemHigh; a++ {
			v, err := r.MemPoolGetAttribute(p, a)
			r.ok(err)
			text += fmt.Sprintf(", pool %#x attribute %d: %d", uint64(p), a, v)
		}
	}
	left, _ := r.HostMemory()
	return text + fmt.Sprintf(", %d left to page-lock, %d and %d backed", left, r.backedBytes, r.deviceBytes)
}

// pool makes a pool of device 0 that keeps all its memory.
func (r *rig) newPool(max uintptr) cu.MemPool {
	r.t.Helper()
	p, err := r.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, MaxSize: max})
	r.ok(err)
	r.ok(r.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, 1<<62))
	return p
}

// TestPoolsGiveBackForAnother: an allocation takes what other pools do not use, but only if
// it then succeeds.
func TestPoolsGiveBackForAnother(t *testing.T) {
	if runtime.GOARCH == "wasm" {
		t.Skip("2 GiB of device memory are in the heap there, which has 4 GiB of addresses")
	}
	small := *named(t, "h200")
	small.Memory = profile.Number{Value: 2 << 30, Source: small.Memory.Source}
	r := newRig(t, Options{Profile: &small})
	kept, asks := r.newPool(0), r.newPool(0)
	x, err := r.MemAllocFromPoolAsync(r.ctx, 1<<30, kept, 0)
	r.ok(err)
	r.ok(r.MemFreeAsync(r.ctx, x, 0))
	r.ok(r.CtxSynchronize(r.ctx))
	before := r.counters(kept, asks)
	_, err = r.MemAllocFromPoolAsync(r.ctx, 2<<30-1<<20, asks, 0)
	r.want(cu.ErrorOutOfMemory, err)
	if after := r.counters(kept, asks); after != before {
		t.Errorf("a request that cannot succeed changed counters:\nbefore %s\nafter  %s", before, after)
	}
	_, err = r.MemAllocFromPoolAsync(r.ctx, 1<<30, asks, 0)
	r.ok(err)
	if reserved, _ := r.MemPoolGetAttribute(kept, cu.MemPoolAttrReservedMemCurrent); reserved != 0 {
		t.Errorf("the other pool still reserves %d bytes that it does not use", reserved)
	}
}

// TestFillsThatWrap: the size of a fill that an address cannot count is not told as the rest
// of the division, such as 0 bytes.
func TestFillsThatWrap(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(4096)
	for want, err := range map[string]error{
		"fill 4611686018427387904 elements of 4 bytes, more than the address space": r.MemsetD32(r.ctx, p, 0, 1<<62),
		"fill 9223372036854775808 elements of 2 bytes, more than the address space": r.MemsetD16(r.ctx, p, 0, 1<<63),
	} {
		r.want(cu.ErrorInvalidValue, err)
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %q, want %q first", err, want)
		}
	}
}
