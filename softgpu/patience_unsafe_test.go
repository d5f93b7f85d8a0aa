package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// slowPTX reads host memory once and then computes for long without a new page, a
// new block, or a look at memory: it is slow, it does not wait for anybody.
const slowPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .entry slow(.param .u64 p, .param .u32 turns)
{
	.reg .pred %q;
	.reg .u32 %r<4>;
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	ld.param.u32 %r1, [turns];
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

// TestSlowIsNotWaiting: a kernel that this computer takes long for, longer than our
// patience with those that wait for the host, costs what its instructions cost.
func TestSlowIsNotWaiting(t *testing.T) {
	onlyFast(t)
	r := newRig(t, Options{Profile: named(t, "h200")})
	m, err := r.ModuleLoadData(r.ctx, []byte(slowPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, "slow")
	r.ok(err)
	p, _ := r.pinned(4)
	cost := func(turns uint32) float64 {
		began := r.Now()
		r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(cu.DevicePtr(uintptr(p)), turns)))
		r.ok(r.CtxSynchronize(r.ctx))
		return float64(r.Now() - began)
	}
	short, long := cost(50_000), cost(20_000_000)
	if ratio := long / short; ratio < 200 || ratio > 500 {
		t.Errorf("400 times as many turns cost %.0f us instead of %.0f: %.1f times as much", long/1e3, short/1e3, ratio)
	}
}

// A kernel that this computer has not begun yet is waited for like one that runs:
// only one that something keeps out may be waiting for the host.
func TestKernelThatIsSlowToBegin(t *testing.T) {
	r := newRig(t, Options{})
	dev := r.devices[0]
	o := &op{ctx: dev.primary, work: &work{launch: &launch{}, dev: dev}, released: true}
	if o.ctx == nil {
		o.ctx = &contextState{}
	}
	if got := o.patience(0); got != longPatience {
		t.Errorf("not begun: %v, want %v", got, longPatience)
	}
	dev.turns.waiting = append(dev.turns.waiting, o)
	if got := o.patience(0); got != patience {
		t.Errorf("kept out by another context: %v, want %v", got, patience)
	}
	dev.turns.waiting = nil
	o.realWait = 1
	if got := o.patience(0); got != patience {
		t.Errorf("behind what is not done: %v, want %v", got, patience)
	}
}
