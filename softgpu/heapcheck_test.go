package softgpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestCheckHeap runs wrong uses of malloc in kernels and their correct twins, with the check of
// races. Each wrong one has a finding of its kind, and no correct one has any. In free_by_last the
// kind depends on which warp runs first.
func TestCheckHeap(t *testing.T) {
	const none = "memory that is not allocated"
	for name, want := range map[string]string{
		"free_while_read": "race", "free_by_last": none, "used_again": "race", "stale_pointer": "race",
		"read_behind_free": none, "write_behind_free": none, "past_the_end": none, "own_memory": none,
	} {
		for _, ok := range []bool{true, false} {
			m := newModule(t, "testdata/heap.ptx", Options{Check: "races"})
			prefix := "racy_"
			if ok {
				prefix = "ok_"
			}
			out := m.alloc(4096)
			m.ok(m.MemsetD8(m.ctx, out, 0, 4096))
			f, err := m.ModuleGetFunction(m.ctx, m.module, prefix+name)
			m.ok(err)
			m.ok(m.run(f, 1, 64, 0, out))
			m.ok(m.CtxSynchronize(m.ctx))
			found := m.Findings()
			switch {
			case ok && len(found) > 0:
				t.Errorf("%s: %s", name, found[0].String())
			case !ok && !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == want || f.Kind == "race" && name == "free_by_last" }):
				t.Errorf("%s: no finding of kind %q: %v", name, want, found)
			}
			for _, f := range found {
				if text := f.String(); !strings.Contains(text, "of the heap of malloc in kernels") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
	}
}

// TestHeapBadFree frees memory twice, and an address within an allocation. Both are errors, also
// without the check.
func TestHeapBadFree(t *testing.T) {
	for _, check := range []string{"0", "races"} {
		for _, name := range []string{"twice", "inside"} {
			m := newModule(t, "testdata/heap.ptx", Options{Check: check})
			f, err := m.ModuleGetFunction(m.ctx, m.module, name)
			m.ok(err)
			m.ok(m.run(f, 1, 32, 0, m.alloc(64)))
			err = m.CtxSynchronize(m.ctx)
			if m.want(cu.ErrorLaunchFailed, err); !strings.Contains(err.Error(), "malloc did not return, or which was freed before") {
				t.Errorf("check %s, %s: %v", check, name, err)
			}
		}
	}
}

// warpHeapPTX has a kernel whose first thread gets memory by malloc. All lanes of its warp then write it side by
// side, if the argument is not 0 after the memory is freed.
const warpHeapPTX = `.version 7.3
.target sm_80
.address_size 64
.extern .func free(.param .b64 p);
.extern .func (.param .b64 r) malloc(.param .b64 n);
.shared .align 8 .u64 place;

.visible .entry warp(.param .u64 out, .param .u32 early) {
	.reg .pred %p<3>;
	.reg .b32 %r<3>;
	.reg .b64 %d<4>;
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [early];
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra WRITE;
	{
	.param .b64 n;
	st.param.b64 [n], 128;
	.param .b64 r;
	call.uni (r), malloc, (n);
	ld.param.b64 %d1, [r];
	}
	st.shared.u64 [place], %d1;
	setp.eq.s32 %p2, %r2, 0;
	@%p2 bra WRITE;
	{
	.param .b64 p;
	st.param.b64 [p], %d1;
	call.uni free, (p);
	}
WRITE:
	bar.sync 0;
	ld.shared.u64 %d2, [place];
	mul.wide.u32 %d3, %r1, 4;
	add.s64 %d3, %d2, %d3;
	st.u32 [%d3], %r1;
	ret;
}`

// TestCheckHeapOfWarp: an access of a whole warp to freed memory is found, which the check takes as one.
func TestCheckHeapOfWarp(t *testing.T) {
	for _, early := range []uint32{0, 1} {
		r := newRig(t, Options{Check: "races"})
		m, err := r.ModuleLoadData(r.ctx, []byte(warpHeapPTX))
		r.ok(err)
		f, err := r.ModuleGetFunction(r.ctx, m, "warp")
		r.ok(err)
		r.ok(r.run(f, 1, 32, 0, r.alloc(8), early))
		r.ok(r.CtxSynchronize(r.ctx))
		found := r.Findings()
		if wrong := slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == "memory that is not allocated" }); wrong != (early == 1) || early == 0 && len(found) > 0 {
			t.Errorf("freed early: %d: findings %v", early, found)
		}
	}
}
