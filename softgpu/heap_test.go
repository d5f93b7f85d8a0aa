package softgpu

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// heapPTX has three kernels of one thread for each slot. fill allocates bytes, writes its
// number t to the first word and its address to slots[t]. drain writes that word to out[t]
// and frees the memory. free frees what is at *slots.
const heapPTX = `.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 func_retval0) malloc(.param .b64 malloc_param_0);
.extern .func free(.param .b64 free_param_0);
.visible .entry fill(.param .u64 slots, .param .u64 bytes) {
	.reg .b32 %r<5>;
	.reg .b64 %d<6>;
	.reg .pred %p;
	ld.param.u64 %d1, [slots];
	ld.param.u64 %d2, [bytes];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	mad.wide.u32 %d3, %r4, 8, %d1;
	{
	.param .b64 param0;
	st.param.b64 [param0], %d2;
	.param .b64 retval0;
	call.uni (retval0), malloc, (param0);
	ld.param.b64 %d4, [retval0];
	}
	setp.eq.u64 %p, %d4, 0;
	@%p bra none;
	st.u32 [%d4], %r4;
none:
	st.global.u64 [%d3], %d4;
	ret;
}
.visible .entry drain(.param .u64 slots, .param .u64 out) {
	.reg .b32 %r<6>;
	.reg .b64 %d<6>;
	ld.param.u64 %d1, [slots];
	ld.param.u64 %d2, [out];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	mad.wide.u32 %d3, %r4, 8, %d1;
	ld.global.u64 %d4, [%d3];
	ld.global.u32 %r5, [%d4];
	mad.wide.u32 %d5, %r4, 4, %d2;
	st.global.u32 [%d5], %r5;
	{
	.param .b64 param0;
	st.param.b64 [param0], %d4;
	call.uni free, (param0);
	}
	ret;
}
.visible .entry free_one(.param .u64 slots) {
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [slots];
	ld.global.u64 %d2, [%d1];
	{
	.param .b64 param0;
	st.param.b64 [param0], %d2;
	call.uni free, (param0);
	}
	ret;
}
`

func (r *rig) heapKernels() (fill, drain, free cu.Function) {
	r.t.Helper()
	m, err := r.ModuleLoadData(r.ctx, []byte(heapPTX))
	r.ok(err)
	var f [3]cu.Function
	for i, name := range []string{"fill", "drain", "free_one"} {
		f[i], err = r.ModuleGetFunction(r.ctx, m, name)
		r.ok(err)
	}
	return f[0], f[1], f[2]
}

// words returns n numbers of device memory.
func (r *rig) words(p cu.DevicePtr, n int) []uint64 {
	r.t.Helper()
	h, b := r.pinned(uintptr(8 * n))
	r.ok(r.MemcpyDtoH(r.ctx, h, p, uintptr(8*n)))
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return out
}

// TestHeap: what a kernel allocates lives until a later kernel frees it, and can then be
// allocated again. The host cannot copy it.
func TestHeap(t *testing.T) {
	const blocks, threads, bytes = 20, 96, 100
	every(t, func(t *testing.T, r *rig) {
		fill, drain, _ := r.heapKernels()
		slots, out := r.alloc(8*blocks*threads), r.alloc(4*blocks*threads)
		for range 60 { // all rounds together need more than the heap has
			r.ok(r.run(fill, blocks, threads, 0, slots, cu.DevicePtr(bytes)))
			got := r.words(slots, blocks*threads)
			slices.Sort(got)
			for i, p := range got {
				if p == 0 || p%heapAlign != 0 || i > 0 && p < got[i-1]+bytes {
					t.Fatalf("allocation %d of %d bytes is at %#x", i, bytes, p)
				}
			}
			h, _ := r.pinned(4)
			r.want(cu.ErrorInvalidValue, r.MemcpyDtoH(r.ctx, h, cu.DevicePtr(got[0]), 4))
			r.ok(r.run(drain, blocks, threads, 0, slots, out))
			for i, v := range r.words(out, blocks*threads/2) {
				if want := uint64(2*i) | uint64(2*i+1)<<32; v != want {
					t.Fatalf("words %d and %d: got %#x, want %#x", 2*i, 2*i+1, v, want)
				}
			}
		}
		x := r.contextOf()
		if want := []hole{{0, 8 << 20}}; !slices.Equal(x.heap.holes, want) || len(x.heap.sizes) != 0 {
			t.Errorf("all is freed: %d allocations, holes %v, want %v", len(x.heap.sizes), x.heap.holes, want)
		}
	})
}

func (r *rig) contextOf() *contextState {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.context(r.ctx, "find")
	r.ok(err)
	return c
}

// TestHeapLimit: malloc returns 0 when the heap has no room. The limit can be set before
// the first launch of a kernel that allocates, and each context has its own heap.
func TestHeapLimit(t *testing.T) {
	r := newRig(t, Options{})
	r.ok(r.CtxSetLimit(r.ctx, cu.LimitMallocHeapSize, 1<<20))
	fill, _, _ := r.heapKernels()
	slots := r.alloc(8 * 64)
	for _, c := range []struct {
		bytes uint64
		fit   int
	}{{1 << 15, 32}, {1<<15 + 1, 0}, {1 << 15, 1}, {16, 0}, {0, 0}, {^uint64(0), 0}} {
		r.ok(r.run(fill, 1, 64, 0, slots, cu.DevicePtr(c.bytes)))
		got := slices.DeleteFunc(r.words(slots, 64), func(p uint64) bool { return p == 0 })
		if len(got) != c.fit {
			t.Errorf("%d allocations of %d bytes, want %d", len(got), c.bytes, c.fit)
		}
		if c.fit == 32 && !r.contextOf().heap.Free(got[7]) { // room for one of the third case
			t.Error("cannot free")
		}
	}
	r.want(cu.ErrorInvalidValue, r.CtxSetLimit(r.ctx, cu.LimitMallocHeapSize, 2<<20))
	n, err := r.CtxGetLimit(r.ctx, cu.LimitMallocHeapSize)
	if r.ok(err); n != 1<<20 {
		t.Errorf("the limit is %d", n)
	}
	before := r.backedBytes
	r.ok(r.DevicePrimaryCtxReset(0))
	if r.backedBytes > before-1<<20 {
		t.Errorf("%d bytes remain of %d", r.backedBytes, before)
	}
}

// TestHeapMisuse: free of other addresses, and a second free, end the kernel with a fault.
func TestHeapMisuse(t *testing.T) {
	for name, address := range map[string]func(p uint64) uint64{
		"again":   func(p uint64) uint64 { return p },
		"inside":  func(p uint64) uint64 { return p + 16 },
		"outside": func(uint64) uint64 { return heapBase - 16 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			fill, drain, free := r.heapKernels()
			slots := r.alloc(64)
			r.ok(r.MemsetD32(r.ctx, slots, 0, 16))
			r.ok(r.run(free, 1, 1, 0, slots)) // free of 0 has no effect
			r.ok(r.run(fill, 1, 1, 0, slots, cu.DevicePtr(64)))
			p := r.words(slots, 1)[0]
			r.ok(r.run(drain, 1, 1, 0, slots, slots+8))
			p = address(p)
			r.ok(r.MemsetD32(r.ctx, slots, uint32(p), 1))
			r.ok(r.MemsetD32(r.ctx, slots+4, uint32(p>>32), 1))
			r.ok(r.run(free, 1, 1, 0, slots))
			err := r.CtxSynchronize(r.ctx)
			f, ok := errors.AsType[*cu.Fault](err)
			if !ok || f.Result != cu.ErrorLaunchFailed || !strings.Contains(f.Why, "malloc did not return") {
				t.Errorf("got %v", err)
			}
		})
	}
}
