package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestStackLimit: the limit of the stack is rounded to 16 bytes, and an H200 refuses 512 KiB.
func TestStackLimit(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range []struct{ set, want uintptr }{{16, 16}, {1000, 1008}, {1025, 1040}, {128 << 10, 128 << 10}} {
		r.ok(r.CtxSetLimit(r.ctx, cu.LimitStackSize, c.set))
		got, err := r.CtxGetLimit(r.ctx, cu.LimitStackSize)
		r.ok(err)
		if got != c.want {
			t.Errorf("set %d, got %d, want %d", c.set, got, c.want)
		}
	}
	r.want(cu.ErrorInvalidValue, r.CtxSetLimit(r.ctx, cu.LimitStackSize, 512<<10))
}

// TestStackFollowsLimit: the recursion that the default stack stops goes on with 64 KiB, and
// ends in a new context of 1 KiB.
func TestStackFollowsLimit(t *testing.T) {
	for _, limit := range []uintptr{0, 64 << 10} {
		r := newRig(t, Options{})
		if limit > 0 {
			r.ok(r.CtxSetLimit(r.ctx, cu.LimitStackSize, limit))
		}
		m, err := r.ModuleLoadData(r.ctx, []byte(recursionPTX))
		r.ok(err)
		f, err := r.ModuleGetFunction(r.ctx, m, "recursion")
		r.ok(err)
		r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, 0, []byte{200, 0, 0, 0}))
		err = r.CtxSynchronize(r.ctx)
		if limit == 0 {
			r.want(cu.ErrorIllegalAddress, err)
		} else {
			r.ok(err)
		}
	}
}

const recursionPTX = `.version 7.0
.target sm_52
.address_size 64
.func down(.param .b32 n) {
	.reg .b32 %r<4>;
	.reg .pred %p<2>;
	ld.param.u32 %r1, [n];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra end;
	sub.u32 %r1, %r1, 1;
	{ .param .b32 p; st.param.b32 [p], %r1; call down, (p); }
end:
	ret;
}
.visible .entry recursion(.param .u32 n) {
	.reg .b32 %r<4>;
	ld.param.u32 %r1, [n];
	{ .param .b32 p; st.param.b32 [p], %r1; call down, (p); }
	ret;
}`
