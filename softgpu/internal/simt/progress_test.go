package simt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

const progressSource = `.version 8.0
.target sm_75
.address_size 64

// Every thread takes a lock, adds one without an atomic, and releases the lock.
.visible .entry locked(.param .u64 lock, .param .u64 sum) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [lock];
	ld.param.u64 %rd2, [sum];
take:
	atom.global.cas.b32 %r1, [%rd1], 0, 1;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra take;
	membar.gl;
	ld.volatile.global.u32 %r2, [%rd2];
	add.u32 %r2, %r2, 1;
	st.volatile.global.u32 [%rd2], %r2;
	membar.gl;
	atom.global.exch.b32 %r1, [%rd1], 0;
	ret;
}

// All blocks wait until all have arrived.
.visible .entry grid_barrier(.param .u64 count, .param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [count];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %nctaid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra together;
	atom.global.add.u32 %r3, [%rd1], 1;
wait:
	ld.acquire.gpu.global.u32 %r3, [%rd1];
	setp.lt.u32 %p2, %r3, %r2;
	@%p2 bra wait;
together:
	bar.sync 0;
	red.global.add.u32 [%rd2], 1;
	ret;
}

// All threads wait, without a barrier, for a write of the last thread.
.visible .entry across_warps(.param .u64 flag) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [flag];
	mov.u32 %r1, %tid.x;
	setp.eq.u32 %p1, %r1, 255;
	@%p1 bra set;
wait:
	ld.global.u32 %r2, [%rd1];
	setp.eq.u32 %p2, %r2, 0;
	@%p2 bra wait;
	ret;
set:
	st.global.u32 [%rd1], 1;
	ret;
}

// Every warp works for most of its turn, then all wait at a barrier.
.visible .entry barriers_forever() {
	.reg .b32 %r<9>;
	.reg .pred %p<3>;
again:
	mov.u32 %r1, 5000;
work:
	add.u32 %r1, %r1, -1;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra work;
	bar.sync 0;
	bra again;
}

// The barrier of half the threads never opens.
.visible .entry stuck(.param .u64 p) {
	.reg .b32 %r<9>;
	bar.sync 1, 128;
	ret;
}

// The two halves of the block use different barriers.
.visible .entry halves(.param .u64 p) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	.shared .align 4 .b32 s[128];
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, s;
	shl.b32 %r3, %r1, 2;
	add.u32 %r3, %r2, %r3;
	st.shared.u32 [%r3], %r1;
	shr.u32 %r4, %r1, 6;
	add.u32 %r4, %r4, 1;
	barrier.sync %r4, 64;
	xor.b32 %r5, %r1, 63;
	shl.b32 %r5, %r5, 2;
	add.u32 %r5, %r2, %r5;
	ld.shared.u32 %r6, [%r5];
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r6;
	ret;
}

// Lanes that diverged meet at a barrier of the warp.
.visible .entry warp_barrier(.param .u64 p) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	.shared .align 4 .b32 s[32];
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %laneid;
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p1, %r2, 1;
	shl.b32 %r3, %r1, 2;
	mov.u32 %r4, s;
	add.u32 %r3, %r3, %r4;
	@%p1 bra odd;
	st.shared.u32 [%r3], 100;
	bar.warp.sync 0xffffffff;
	ld.shared.u32 %r5, [%r3+4];
	bra.uni done;
odd:
	st.shared.u32 [%r3], 200;
	bar.warp.sync 0xffffffff;
	ld.shared.u32 %r5, [%r3+-4];
done:
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r5;
	ret;
}

// An endless loop with a barrier in it.
.visible .entry round_and_round(.param .u64 p) {
again:
	bar.sync 0;
	bra again;
}

// A shuffle whose lanes arrive on two paths.
.visible .entry late(.param .u64 p) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %laneid;
	mov.u32 %r2, %r1;
	setp.lt.u32 %p1, %r1, 10;
	@!%p1 bra meet;
	mov.u32 %r3, 0;
again:
	add.u32 %r2, %r2, 1;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p2, %r3, 100;
	@%p2 bra again;
meet:
	shfl.sync.idx.b32 %r4, %r2, 3, 31, 0xffffffff;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r4;
	ret;
}
`

func eachWay(t *testing.T, source string, f func(t *testing.T, m *module)) {
	for _, lanewise := range []bool{false, true} {
		t.Run(map[bool]string{false: "affine", true: "lanewise"}[lanewise], func(t *testing.T) {
			lanewiseForTests.Store(lanewise)
			defer lanewiseForTests.Store(false)
			f(t, load(t, newSpace(), "test.ptx", source))
		})
	}
}

// within runs a launch that could hang.
func within(t *testing.T, l *Launch) Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := Run(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLock(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		for _, workers := range []int{1, 4} {
			lock, sum := put(m.mem, []int32{0}), put(m.mem, []int32{0})
			l := m.launch(t, "locked", 3, 70, lock, sum)
			l.Workers = workers
			within(t, l)
			if got := valuesOf[int32](sum.Data)[0]; got != 210 {
				t.Errorf("%d workers: got %d, want 210", workers, got)
			}
		}
	})
}

func TestGridBarrier(t *testing.T) {
	blocks := 500 // many more blocks than workers
	if racebuild.Instrumented {
		blocks = 60
	}
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		for _, workers := range []int{1, 2, 7} {
			count, out := put(m.mem, []int32{0}), put(m.mem, []int32{0})
			l := m.launch(t, "grid_barrier", blocks, 64, count, out)
			l.Workers = workers
			within(t, l)
			if got := valuesOf[int32](out.Data)[0]; int(got) != blocks*64 {
				t.Errorf("%d workers: got %d, want %d", workers, got, blocks*64)
			}
		}
	})
}

func TestAcrossWarps(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		within(t, m.launch(t, "across_warps", 1, 256, put(m.mem, []int32{0})))
	})
}

func TestStuckBarrier(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		f := mustFault(t, m.launch(t, "stuck", 1, 64, uint64(0)))
		if f.Result != cu.ErrorLaunchTimeout || !strings.HasPrefix(f.Op, "bar.sync") || !strings.Contains(f.Why, "deadlock: ") {
			t.Errorf("got %+v", *f)
		}
	})
}

func TestNamedBarriers(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 128))
		within(t, m.launch(t, "halves", 1, 128, out))
		for i, got := range valuesOf[int32](out.Data) {
			if want := int32(i ^ 63); got != want {
				t.Fatalf("element %d: got %d, want %d", i, got, want)
			}
		}
	})
}

func TestWarpBarrier(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 32))
		within(t, m.launch(t, "warp_barrier", 1, 32, out))
		for i, got := range valuesOf[int32](out.Data) {
			if want := int32(200 - 100*(i&1)); got != want {
				t.Fatalf("element %d: got %d, want %d", i, got, want)
			}
		}
	})
}

func TestLateLanes(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 32))
		within(t, m.launch(t, "late", 1, 32, out))
		for i, got := range valuesOf[int32](out.Data) {
			if got != 103 {
				t.Fatalf("element %d: got %d, want 103", i, got)
			}
		}
	})
}

// TestHangEndsWithContext runs kernels that wait forever.
func TestHangEndsWithContext(t *testing.T) {
	eachWay(t, progressSource, func(t *testing.T, m *module) {
		lock := put(m.mem, []int32{1})
		for _, l := range []*Launch{
			m.launch(t, "locked", 20, 256, lock, lock),
			m.launch(t, "round_and_round", 20, 256, lock),
			m.launch(t, "barriers_forever", 20, 1024),
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := Run(ctx, l)
			stopped, ok := errors.AsType[*Stopped](err)
			if !ok || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got error %v", err)
			}
			if w := stopped.Where; w == nil || w.Kernel != l.Kernel.Name || w.Line == 0 || w.Op == "" {
				t.Errorf("the kernel was stopped at %+v", w)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("took %v", d)
			}
		}
	})
}
