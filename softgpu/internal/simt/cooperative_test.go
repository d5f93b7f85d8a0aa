package simt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// gridSync has a barrier of the whole grid in the form that compilers make of
// cooperative_groups::this_grid().sync(): the address of the workspace is in %envreg1
// and %envreg2, and the counter is its second word. One thread of each block adds 1, that
// of the first block as much as flips the upper bit. All wait until the bit has changed.
const gridSync = `.version 8.0
.target sm_75
.address_size 64

.func sync_grid() {
	.reg .b32 %r<12>;
	.reg .b64 %rd<6>;
	.reg .pred %p<4>;
	mov.u32 %r1, %envreg2;
	mov.u32 %r2, %envreg1;
	cvt.u64.u32 %rd1, %r2;
	shl.b64 %rd1, %rd1, 32;
	cvt.u64.u32 %rd2, %r1;
	or.b64 %rd3, %rd1, %rd2;
	barrier.sync 0;
	mov.u32 %r3, %tid.x;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra done;
	mov.u32 %r4, %ctaid.x;
	mov.u32 %r5, %nctaid.x;
	setp.eq.u32 %p2, %r4, 0;
	sub.s32 %r6, -2147483647, %r5;
	selp.b32 %r7, %r6, 1, %p2;
	add.s64 %rd4, %rd3, 4;
	fence.acq_rel.gpu;
	atom.add.u32 %r8, [%rd4], %r7;
wait:
	ld.volatile.u32 %r9, [%rd4];
	xor.b32 %r10, %r9, %r8;
	setp.gt.s32 %p3, %r10, -1;
	@%p3 bra wait;
	fence.acq_rel.gpu;
done:
	barrier.sync 0;
	ret;
}

// Each block writes its number + 1, then adds up what the next block wrote, rounds times.
.visible .entry around(.param .u64 data, .param .u64 sums, .param .u32 rounds) {
	.reg .b32 %r<12>;
	.reg .b64 %rd<9>;
	.reg .pred %p<4>;
	ld.param.u64 %rd1, [data];
	ld.param.u64 %rd2, [sums];
	ld.param.u32 %r1, [rounds];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %nctaid.x;
	mov.u32 %r4, %tid.x;
	setp.ne.u32 %p1, %r4, 0;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	add.u32 %r5, %r2, 1;
	rem.u32 %r6, %r5, %r3;
	mul.wide.u32 %rd6, %r6, 4;
	add.s64 %rd7, %rd1, %rd6;
	mov.u32 %r7, 0;
next:
	add.u32 %r5, %r5, 1;
	@!%p1 st.global.u32 [%rd4], %r5;
	call sync_grid;
	ld.global.u32 %r8, [%rd7];
	add.u32 %r7, %r7, %r8;
	call sync_grid;
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %p2, %r1, 0;
	@%p2 bra next;
	@!%p1 st.global.u32 [%rd5], %r7;
	ret;
}
`

// TestCooperative runs as many blocks as an H200 holds, more than a worker keeps in an
// ordinary launch. Each waits for all.
func TestCooperative(t *testing.T) {
	const rounds = 2
	blocks := 132 * 32
	if racebuild.Instrumented {
		blocks = 100
	}
	m := load(t, newSpace(), "", gridSync)
	for _, workers := range sample.Of(t, []int{1, 3}, 1) {
		data, sums := put(m.mem, make([]int32, blocks)), put(m.mem, make([]int32, blocks))
		workspace := put(m.mem, []uint32{8, 1 << 31})
		l := m.launch(t, "around", blocks, 33, data, sums, rounds)
		l.Cooperative, l.Workspace, l.Workers = true, workspace.Base, workers
		within(t, l)
		for i, got := range valuesOf[int32](sums.Data) {
			next := (i + 1) % blocks
			if want := int32(rounds*(next+1) + rounds*(rounds+1)/2); got != want {
				t.Fatalf("%d workers: block %d has %d, want %d", workers, i, got, want)
			}
		}
	}
}

// TestNotCooperative shows that the test above depends on the flag: without it a worker
// keeps fewer blocks, and the grid waits forever.
func TestNotCooperative(t *testing.T) {
	if racebuild.Instrumented {
		t.Skip("the race detector makes so many blocks slow")
	}
	m := load(t, newSpace(), "", gridSync)
	data := put(m.mem, make([]int32, maxResident+1))
	l := m.launch(t, "around", maxResident+1, 1, data, data, 1)
	l.Workspace, l.Workers = put(m.mem, []uint32{8, 0}).Base, 1
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want that the grid waits forever", err)
	}
}

// TestCooperativeMemory: the blocks of a cooperative launch have a bound of memory, and what
// they take is not counted as call frames.
func TestCooperativeMemory(t *testing.T) {
	const registers = 800
	var use strings.Builder // registers that are never named take no place
	for i := range registers {
		fmt.Fprintf(&use, "\tmov.b32 %%r%d, %d;\n", i, i)
	}
	m := load(t, newSpace(), "", fmt.Sprintf(`.version 8.0
.target sm_75
.address_size 64
.visible .entry wide() {
	.reg .b32 %%r<%d>;
%s	ret;
}`, registers, &use))
	l := m.launch(t, "wide", 132*2, 1024)
	l.Cooperative, l.Workers = true, 2
	if x, err := newExecution(l); err != nil || x.stack < stackBytes+2*132*2*32*registers*warpSize*8 {
		t.Errorf("%v, want room for the frames of all blocks", err)
	}
	l = m.launch(t, "wide", 132*32, 1024)
	l.Cooperative = true
	if _, err := newExecution(l); !errors.Is(err, cu.ErrorLaunchOutOfResources) {
		t.Errorf("got %v, want that the blocks take too much memory", err)
	}
	l.Cooperative = false
	if _, err := newExecution(l); err != nil {
		t.Errorf("an ordinary launch of as many blocks: %v", err)
	}
}

func TestWorkspaceAddress(t *testing.T) {
	m := load(t, newSpace(), "", `.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 out) {
	.reg .b32 %r<5>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %envreg1;
	mov.u32 %r2, %envreg2;
	mov.u32 %r3, %envreg3;
	st.global.u32 [%rd1], %r1;
	st.global.u32 [%rd1+4], %r2;
	st.global.u32 [%rd1+8], %r3;
	ret;
}`)
	for _, address := range []uint64{0, 0x1234567890abcdef} {
		out := put(m.mem, []uint32{1, 1, 1})
		l := m.launch(t, "read", 1, 1, out)
		l.Workspace = address
		mustRun(t, l)
		if got := valuesOf[uint32](out.Data); got[0] != uint32(address>>32) || got[1] != uint32(address) || got[2] != 0 {
			t.Errorf("the kernel reads %#x, want %#x and 0", got, address)
		}
	}
}

func TestPressure(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       int
	}{
		{"no registers", "ret;", 0},
		{"one after the other", "mov.u32 %r1, 1; mov.u32 %r2, 2; mov.u32 %r3, 3; ret;", 1},
		{"together", "mov.u32 %r1, 1; mov.u32 %r2, 2; add.u32 %r3, %r1, %r2; ret;", 3},
		{"64 bits", "mov.u64 %d1, 1; add.u64 %d2, %d1, %d1; ret;", 4},
		{"predicates", "setp.eq.u32 %p1, 1, 1; @%p1 mov.u32 %r1, 1; ret;", 1},
		{"kept by a loop", "mov.u32 %r1, 1; again: mov.u32 %r2, %r1; mov.u32 %r3, 1; mov.u32 %r4, %r3; setp.eq.u32 %p1, %r4, 0; @%p1 bra again; ret;", 3},
		{"kept by an outer loop", "mov.u32 %r1, 1; outer: mov.u32 %r2, 1; inner: mov.u32 %r3, %r1; setp.eq.u32 %p1, %r2, %r3; @%p1 bra inner; mov.u32 %r4, 1; mov.u32 %r5, %r4; mov.u32 %r6, %r4; mov.u32 %r7, %r5; mov.u32 %r8, %r6; bra outer; ret;", 4},
		{"other paths", "@%p1 bra other; mov.u32 %r1, 1; mov.u32 %r2, %r1; bra end; other: mov.u32 %r3, 1; mov.u32 %r4, %r3; end: ret;", 2},
		{"kept by a loop whose tail stands above its head", "mov.u32 %r1, 1; bra head; tail: mov.u32 %r2, %r1; bra head; head: mov.u32 %r3, 1; mov.u32 %r4, %r3; setp.eq.u32 %p1, %r4, 0; @%p1 bra tail; ret;", 3},
		{"kept where a predicate is false", "mov.u32 %r1, 1; mov.u32 %r3, 1; mov.u32 %r4, %r3; @%p1 mov.u32 %r1, 2; mov.u32 %r2, %r1; ret;", 3},
		{"kept where a predicate is false in a later block", "mov.u32 %r1, 1; mov.u32 %r3, 1; mov.u32 %r4, %r3; bra over; later: @%p1 mov.u32 %r1, 2; mov.u32 %r2, %r1; ret; over: bra later;", 3},
		{"kept by a table of branches", "mov.u32 %r1, 1; t: .branchtargets a, b; mov.u32 %r2, 0; brx.idx %r2, t; a: mov.u32 %r3, 1; mov.u32 %r4, %r3; ret; b: mov.u32 %r5, %r1; ret;", 2},
		{"results and arguments of a call", "mov.u32 %r1, 1; mov.u32 %r2, 2; call (%r3), f, (%r1, %r2); mov.u32 %r4, %r3; ret;", 3},
		{"addresses and vectors", "ld.param.u64 %d1, [p]; ld.global.v2.u32 {%r1, %r2}, [%d1]; ret;", 4},
	} {
		m := load(t, newSpace(), "", ".version 8.0\n.target sm_75\n.address_size 64\n.func (.reg .u32 r) f(.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }\n.visible .entry k(.param .u64 p) {\n.reg .b32 %r<10>;\n.reg .b64 %d<4>;\n.reg .pred %p<2>;\n"+c.body+"\n}\n")
		if got := m.Kernel("k").Registers; got != c.want {
			t.Errorf("%s: %d registers, want %d", c.name, got, c.want)
		}
	}
}

func TestBarriersOf(t *testing.T) {
	for body, want := range map[string]int{
		"ret;": 0, "bar.sync 0; ret;": 1, "barrier.sync 3, 64; bar.arrive 5, 64; ret;": 6, "mov.u32 %r1, 2; bar.sync %r1; ret;": 16,
		"bar.warp.sync -1; ret;": 0, "bar.red.popc.u32 %r1, 2, %p1; ret;": 3,
	} {
		m := load(t, newSpace(), "", ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\n"+body+"\n}\n")
		if got := m.Kernel("k").Barriers; got != want {
			t.Errorf("%s: %d barriers, want %d", body, got, want)
		}
	}
}
