package softgpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// checkedPTX has kernels of one block of 32 threads, with a word for each thread.
const checkedPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .b32 zeros[32];

.visible .entry load(.param .u64 from, .param .u64 to) {
	.reg .b32 %r<3>;
	.reg .b64 %d<6>;
	ld.param.u64 %d1, [from];
	ld.param.u64 %d2, [to];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d3, %r1, 4;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	ld.global.u32 %r2, [%d4];
	st.global.u32 [%d5], %r2;
	ret;
}

.visible .entry add(.param .u64 to) {
	.reg .b32 %r<3>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [to];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	atom.global.add.u32 %r2, [%d3], 1;
	ret;
}

.visible .entry stale(.param .u64 p) {
	.reg .b32 %r<4>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	st.global.u32 [%d3], %r1;
	bar.sync 0;
	ld.global.nc.u32 %r2, [%d3];
	st.global.u32 [%d3+128], %r2;
	ret;
}

.visible .entry fresh(.param .u64 p) {
	.reg .b32 %r<4>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	ld.global.nc.u32 %r3, [%d3+256];
	st.global.u32 [%d3], %r3;
	bar.sync 0;
	ld.global.u32 %r2, [%d3];
	st.global.u32 [%d3+128], %r2;
	ret;
}

.visible .entry part(.param .u64 from, .param .u64 to) {
	.reg .b32 %r<6>;
	.reg .b64 %d<6>;
	.shared .align 16 .b8 s[512];
	ld.param.u64 %d1, [from];
	ld.param.u64 %d2, [to];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d3, %r1, 16;
	add.s64 %d4, %d1, %d3;
	mov.u32 %r2, s;
	shl.b32 %r3, %r1, 4;
	add.u32 %r2, %r2, %r3;
	sub.u32 %r4, 8, %r1;
	max.s32 %r4, %r4, 0;
	cp.async.cg.shared.global [%r2], [%d4], 16, %r4;
	cp.async.wait_all;
	ld.shared.u32 %r5, [%r2+12];
	mul.wide.u32 %d3, %r1, 4;
	add.s64 %d5, %d2, %d3;
	st.global.u32 [%d5], %r5;
	ret;
}

.visible .entry crooked(.param .u64 p) {
	.reg .b32 %r<2>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	ld.global.u32 %r1, [%d1+4094];
	ret;
}
`

// TestCheckMemory runs kernels that read memory which nobody has written, or which the
// launch itself has written through a load that need not see it; and their corrected twins.
func TestCheckMemory(t *testing.T) {
	const words, bytes = 32, 128
	var load, add, stale, fresh, part cu.Function
	var zeros cu.DevicePtr
	cases := []struct {
		name, want string
		do         func(r *rig, at, out cu.DevicePtr)
	}{
		{"new memory", "uninitialized device memory in kernel load: 4 bytes at offset 0 of a 384-byte device allocation", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.run(load, 1, words, 0, at, out))
		}},
		{"a fill that is 4 bytes short", "4 bytes at offset 124 of", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.MemsetD8(r.ctx, at, 1, bytes-4))
			r.ok(r.run(load, 1, words, 0, at, out))
		}},
		{"an atomic operation", "uninitialized device memory in kernel add", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.run(add, 1, words, 0, at))
		}},
		{"what was freed before", "uninitialized device memory in kernel load", func(r *rig, at, out cu.DevicePtr) {
			s := r.stream(0)
			p, err := r.MemAllocAsync(r.ctx, bytes, s)
			r.ok(err)
			r.ok(r.MemsetD8Async(r.ctx, p, 1, bytes, s))
			r.ok(r.MemFreeAsync(r.ctx, p, s))
			p, err = r.MemAllocAsync(r.ctx, bytes, s)
			r.ok(err)
			r.ok(r.run(load, 1, words, s, p, out))
			r.sync(s)
		}},
		{"rows with gaps", "4 bytes at offset 16 of", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.Memcpy2D(r.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeHost, SrcHost: pointerTo(make([]byte, bytes)), SrcPitch: 16,
				DstMemoryType: cu.MemoryTypeDevice, DstDevice: at, DstPitch: 32, WidthInBytes: 16, Height: 4}))
			r.ok(r.run(load, 1, words, 0, at, out))
		}},
		{"stale", "stale data in kernel stale: 4 bytes at offset 0 of", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.run(stale, 1, words, 0, at))
		}},
		{"fill", "", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.MemsetD8(r.ctx, at, 1, bytes))
			r.ok(r.run(load, 1, words, 0, at, out))
			r.ok(r.run(add, 1, words, 0, at))
		}},
		{"copy", "", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.MemcpyHtoD(r.ctx, at, pointerTo(make([]byte, bytes)), bytes))
			r.ok(r.run(load, 1, words, 0, at, out))
			r.ok(r.run(load, 1, words, 0, out, at)) // a kernel has written it
		}},
		{"variable", "", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.run(load, 1, words, 0, zeros, out))
		}},
		{"words that the stream writes", "", func(r *rig, at, out cu.DevicePtr) {
			for i := range cu.DevicePtr(words) {
				r.ok(r.StreamWriteValue32(r.ctx, 0, at+4*i, 1, cu.StreamWriteValueDefault))
			}
			r.ok(r.run(load, 1, words, 0, at, out))
		}},
		{"page-locked", "", func(r *rig, at, out cu.DevicePtr) {
			p, _ := r.pinned(bytes)
			r.ok(r.run(load, 1, words, 0, cu.DevicePtr(addressOf(p)), out))
		}},
		{"part of a copy to shared memory", "", func(r *rig, at, out cu.DevicePtr) {
			for lane := range cu.DevicePtr(8) { // lane i reads 8-i bytes, the others none
				r.ok(r.MemsetD8(r.ctx, at+16*lane, 1, 8-uintptr(lane)))
			}
			r.ok(r.run(part, 1, words, 0, at, out))
		}},
		{"too little for a part of a copy", "uninitialized device memory in kernel part: 8 bytes at offset 0 of", func(r *rig, at, out cu.DevicePtr) {
			for lane := range cu.DevicePtr(8) {
				r.ok(r.MemsetD8(r.ctx, at+16*lane, 1, 7-uintptr(lane)+uintptr(min(lane, 1))))
			}
			r.ok(r.run(part, 1, words, 0, at, out))
		}},
		{"freed before a kernel has read it", "", func(r *rig, at, out cu.DevicePtr) {
			s := r.stream(0)
			for range 3 {
				p, err := r.MemAllocAsync(r.ctx, bytes, s)
				r.ok(err)
				r.ok(r.MemsetD8Async(r.ctx, p, 1, bytes, s))
				r.ok(r.run(load, 1, words, s, p, out))
				r.ok(r.MemFreeAsync(r.ctx, p, s))
			}
			r.sync(s)
		}},
		{"fresh", "", func(r *rig, at, out cu.DevicePtr) {
			r.ok(r.MemsetD8(r.ctx, at+2*bytes, 1, bytes))
			r.ok(r.run(fresh, 1, words, 0, at))
		}},
	}
	for _, schedule := range []Schedule{Eager, Lazy} {
		for _, c := range cases {
			t.Run(c.name+"/"+schedule.String(), func(t *testing.T) {
				r := newRig(t, Options{Check: "races", Schedule: schedule})
				m, err := r.ModuleLoadData(r.ctx, []byte(checkedPTX))
				r.ok(err)
				for name, f := range map[string]*cu.Function{"load": &load, "add": &add, "stale": &stale, "fresh": &fresh, "part": &part} {
					*f, err = r.ModuleGetFunction(r.ctx, m, name)
					r.ok(err)
				}
				zeros, _, err = r.ModuleGetGlobal(r.ctx, m, "zeros")
				r.ok(err)
				c.do(r, r.alloc(3*bytes), r.alloc(bytes))
				r.ok(r.CtxSynchronize(r.ctx))
				found := r.Findings()
				if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), c.want)) {
					t.Errorf("got %d findings %v, want %q", len(found), found, c.want)
				}
			})
		}
	}
}

// TestCheckMisaligned: an access that would cross a page is an error of the kernel.
func TestCheckMisaligned(t *testing.T) {
	r := newRig(t, Options{Check: "races"})
	m, err := r.ModuleLoadData(r.ctx, []byte(checkedPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "crooked")
	r.ok(err)
	p := r.alloc(slabSize) // starts at a page
	r.ok(r.MemsetD8(r.ctx, p, 1, slabSize))
	r.ok(r.run(f, 1, 1, 0, p))
	r.want(cu.ErrorMisalignedAddress, r.CtxSynchronize(r.ctx))
}

// TestRecordsOfWrites: there are records of pages that are written, until they are freed.
func TestRecordsOfWrites(t *testing.T) {
	r := newRig(t, Options{Check: "races"})
	count := func(want int) {
		t.Helper()
		if got := len(r.values.pages); got != want {
			t.Errorf("%d records, want %d", got, want)
		}
	}
	big, err := r.MemAlloc(r.ctx, 1<<30)
	r.ok(err)
	count(0)
	r.ok(r.MemsetD8(r.ctx, big, 1, 3*writtenSize))
	r.ok(r.CtxSynchronize(r.ctx))
	count(3)
	r.ok(r.MemFree(r.ctx, big))
	count(0)
	for range 3 * slabSize / smallMax {
		p, err := r.MemAlloc(r.ctx, smallMax)
		r.ok(err)
		r.ok(r.MemsetD8(r.ctx, p, 1, smallMax))
		r.ok(r.MemFree(r.ctx, p))
	}
	if got := len(r.values.pages); got > slabSize/writtenSize {
		t.Errorf("%d records of small allocations that are freed", got)
	}
}

// TestRaceVariable: Open refuses a value of FERRY_RACE that it does not know.
func TestRaceVariable(t *testing.T) {
	for value, right := range map[string]bool{"": true, "arguments": true, "argument": false, "1": false, "\n": false} {
		t.Setenv(raceVariable, value)
		d, err := Open(Options{})
		switch {
		case right != (err == nil):
			t.Errorf("FERRY_RACE=%q: %v", value, err)
		case err == nil:
			if whole := value == "arguments"; d.whole != whole {
				t.Errorf("FERRY_RACE=%q: whole buffers: %v, want %v", value, d.whole, whole)
			}
		case !errors.Is(err, cu.ErrorInvalidValue) || strings.Contains(err.Error(), "\n"):
			t.Errorf("FERRY_RACE=%q: %v", value, err)
		}
	}
}
