package simt

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

const mbarrierSource = `.version 8.0
.target sm_90
.address_size 64

// Threads 32 to 127 wait for thread 0 in each round, and thread 0 waits for them.
.visible .entry rounds(.param .u64 out, .param .u32 n) {
	.shared .align 8 .b64 full;
	.shared .align 8 .b64 empty;
	.shared .align 4 .u32 value;
	.reg .pred %p<5>;
	.reg .b32 %r<12>;
	.reg .b64 %x<6>;
	ld.param.u64 %x1, [out];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra ready;
	mbarrier.init.shared.b64 [full], 1;
	mbarrier.init.shared.b64 [empty], 96;
ready:
	bar.sync 0;
	mov.u32 %r3, 0;
	mov.u32 %r4, 0;
	setp.lt.u32 %p2, %r2, 32;
	@%p2 bra produce;
consume:
	and.b32 %r5, %r3, 1;
full_again:
	mbarrier.try_wait.parity.shared.b64 %p3, [full], %r5;
	@!%p3 bra full_again;
	ld.shared.u32 %r6, [value];
	add.u32 %r4, %r4, %r6;
	mbarrier.arrive.shared.b64 _, [empty];
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p4, %r3, %r1;
	@%p4 bra consume;
	bra done;
produce:
	setp.ne.u32 %p3, %r2, 0;
	@%p3 bra done;
next:
	add.u32 %r4, %r4, 7;
	st.shared.u32 [value], %r4;
	mbarrier.arrive.release.cta.shared.b64 %x2, [full];
	and.b32 %r5, %r3, 1;
empty_again:
	mbarrier.test_wait.parity.shared.b64 %p4, [empty], %r5;
	@!%p4 bra empty_again;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p4, %r3, %r1;
	@%p4 bra next;
done:
	mul.wide.u32 %x3, %r2, 4;
	add.u64 %x4, %x1, %x3;
	st.global.u32 [%x4], %r4;
	ret;
}

.visible .entry outside(.param .u64 at) {
	.reg .b64 %x<3>;
	ld.param.u64 %x1, [at];
	mbarrier.arrive.b64 %x2, [%x1];
	ret;
}

.visible .entry toomany(.param .u32 n) {
	.shared .align 8 .b64 m;
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [n];
	mbarrier.init.shared.b64 [m], 1;
	mbarrier.arrive.shared.b64 _, [m], %r1;
	ret;
}
`

// TestMbarrierRounds passes values from warp to warp.
func TestMbarrierRounds(t *testing.T) {
	eachWay(t, mbarrierSource, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 128))
		const n = 12
		mustRun(t, m.launch(t, "rounds", 1, 128, out, n))
		for i, got := range valuesOf[int32](out.Data) {
			want := int32(7 * n * (n + 1) / 2)
			switch {
			case i == 0:
				want = 7 * n
			case i < 32:
				want = 0
			}
			if got != want {
				t.Fatalf("thread %d: got %d, want %d", i, got, want)
			}
		}
	})
}

// TestMbarrierFaults uses an object that is not in shared memory, and makes more
// arrivals than a phase has.
func TestMbarrierFaults(t *testing.T) {
	eachWay(t, mbarrierSource, func(t *testing.T, m *module) {
		g := put(m.mem, make([]uint64, 4))
		if f := mustFault(t, m.launch(t, "outside", 1, 1, g)); f.Result != cu.ErrorIllegalAddress {
			t.Errorf("in global memory: %v", f)
		}
		if f := mustFault(t, m.launch(t, "outside", 1, 1, uint64(sharedWindow+4))); f.Result != cu.ErrorMisalignedAddress {
			t.Errorf("misaligned: %v", f)
		}
		if f := mustFault(t, m.launch(t, "toomany", 1, 1, 2)); f.Result != cu.ErrorIllegalInstruction {
			t.Errorf("too many arrivals: %v", f)
		}
	})
}
