package softgpu

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// functionPTX has kernels for launch attributes and occupancy. gather adds the numbers
// of all blocks in each block, after a barrier of the grid in the form of
// cooperative_groups::this_grid().sync().
var functionPTX = `
.version 8.0
.target sm_75
.address_size 64

.visible .entry gather(.param .u64 slots, .param .u64 sums)
{
	.reg .b32 %r<20>;
	.reg .b64 %d<12>;
	.reg .pred %p<5>;
	ld.param.u64 %d1, [slots];
	ld.param.u64 %d2, [sums];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %tid.x;
	mul.wide.u32 %d3, %r1, 4;
	add.u64 %d4, %d1, %d3;
	add.u64 %d5, %d2, %d3;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra arrived;
	add.u32 %r4, %r1, 1;
	st.global.u32 [%d4], %r4;
arrived:
	mov.u32 %r5, %envreg1;
	mov.u32 %r6, %envreg2;
	cvt.u64.u32 %d7, %r5;
	cvt.u64.u32 %d8, %r6;
	bfi.b64 %d6, %d7, %d8, 32, 32;
	setp.ne.s64 %p2, %d6, 0;
	@%p2 bra valid;
	trap;
valid:
	barrier.sync 0;
	@%p1 bra done;
	add.s64 %d9, %d6, 4;
	setp.eq.u32 %p2, %r1, 0;
	sub.s32 %r7, -2147483647, %r2;
	selp.b32 %r8, %r7, 1, %p2;
	atom.add.release.gpu.u32 %r9, [%d9], %r8;
wait:
	ld.acquire.gpu.u32 %r10, [%d9];
	xor.b32 %r11, %r10, %r9;
	setp.gt.s32 %p3, %r11, -1;
	@%p3 bra wait;
done:
	barrier.sync 0;
	@%p1 bra end;
	mov.u32 %r12, 0;
	mov.u32 %r13, 0;
next:
	ld.global.u32 %r14, [%d1];
	add.u32 %r12, %r12, %r14;
	add.u64 %d1, %d1, 4;
	add.u32 %r13, %r13, 1;
	setp.lt.u32 %p4, %r13, %r2;
	@%p4 bra next;
	st.global.u32 [%d5], %r12;
end:
	ret;
}

.visible .entry bounded() .maxnreg 24 { .reg .b64 %d<40>; ` + manyRegisters + ` ret; }
.visible .entry large() { .reg .b64 %d<40>; ` + manyRegisters + ` ret; }
.visible .entry wide() .maxntid 1024, 1, 1 .minnctapersm 2 { .reg .b64 %d<40>; ` + manyRegisters + ` ret; }
.visible .entry shared() { .shared .b8 s[16000]; .reg .b64 %d; mov.u64 %d, s; ret; }
`

// manyRegisters has 39 values that live at once.
var manyRegisters = func() string {
	var s strings.Builder
	for _, op := range []string{"mov.u64 %dN, N; ", "st.global.u64 [%dN], %dN; "} {
		for n := range 39 {
			s.WriteString(strings.ReplaceAll(op, "N", strconv.Itoa(n)))
		}
	}
	return s.String()
}()

func (r *rig) facts(name string) cu.Function {
	r.t.Helper()
	m, err := r.ModuleLoadData(r.ctx, []byte(functionPTX))
	r.ok(err)
	f, err := r.ModuleGetFunction(r.ctx, m, name)
	r.ok(err)
	return f
}

// launchEx launches blocks of 64 threads with attributes.
func (r *rig) launchEx(f cu.Function, grid uint32, s cu.Stream, p []byte, attrs ...cu.LaunchAttribute) error {
	return r.LaunchKernelEx(r.ctx, &cu.LaunchConfig{Grid: cu.Dim3{X: grid, Y: 1, Z: 1}, Block: cu.Dim3{X: 64, Y: 1, Z: 1}, Stream: s, Attrs: attrs}, f, p)
}

func TestCooperativeLaunch(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		blocks, bytes := uint32(300), uintptr(4*300)
		if sample.Race() {
			blocks, bytes = 60, 4*60
		}
		f := r.facts("gather")
		slots, sums := r.alloc(bytes), r.alloc(bytes)
		hp, host := r.pinned(bytes)
		check := func(what string) {
			t.Helper()
			r.ok(r.CtxSynchronize(r.ctx))
			r.ok(r.MemcpyDtoH(r.ctx, hp, sums, bytes))
			for i := range int(blocks) {
				if got := binary.LittleEndian.Uint32(host[4*i:]); got != blocks*(blocks+1)/2 {
					t.Fatalf("%s: block %d saw %d, want %d", what, i, got, blocks*(blocks+1)/2)
				}
			}
			r.ok(r.MemsetD32(r.ctx, slots, 0, bytes/4))
			r.ok(r.MemsetD32(r.ctx, sums, 0, bytes/4))
		}
		for range 2 {
			r.ok(r.launchEx(f, blocks, 0, params(slots, sums), cu.CooperativeLaunch(), cu.ProgrammaticLaunch()))
			check("a launch")
		}
		g := r.capturing(func(s cu.Stream) {
			r.ok(r.launchEx(f, blocks, s, params(slots, sums), cu.CooperativeLaunch()))
		})
		x, err := r.GraphInstantiate(r.ctx, g, 0)
		r.ok(err)
		s := r.stream(0)
		r.ok(r.GraphLaunch(r.ctx, x, s))
		check("a graph")
		nodes, err := r.GraphGetNodes(g)
		r.ok(err)
		other := r.alloc(bytes)
		set := func(grid uint32) error {
			return r.GraphExecKernelNodeSetParams(r.ctx, x, nodes[0], f, cu.Dim3{X: grid, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, params(other, sums))
		}
		r.want(cu.ErrorCooperativeLaunchTooLarge, set(1<<20))
		r.ok(set(blocks))
		r.ok(r.GraphLaunch(r.ctx, x, s))
		check("a graph with other parameters")
	})
}

// TestGridSyncNeedsCooperation launches a grid barrier in an ordinary way. Without a
// workspace the code of cooperative groups traps.
func TestGridSyncNeedsCooperation(t *testing.T) {
	r := newRig(t, Options{})
	slots := r.alloc(64)
	r.ok(r.launchEx(r.facts("gather"), 2, 0, params(slots, slots)))
	if err := r.CtxSynchronize(r.ctx); err == nil || !strings.Contains(err.Error(), "gather") {
		t.Errorf("error %v, want a fault of the kernel", err)
	}
}

// TestRequiredClusters: a kernel whose text demands clusters gets them by every launch.
func TestRequiredClusters(t *testing.T) {
	r := newRig(t, Options{})
	m, err := r.ModuleLoadData(r.ctx, []byte(`.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) .reqnctapercluster 2
{
	.reg .b32 %r<3>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, %cluster_nctarank;
	atom.global.add.u32 %r2, [%d1], %r1;
	ret;
}
`))
	r.ok(err)
	k, err := r.ModuleGetFunction(r.ctx, m, "k")
	r.ok(err)
	p := r.alloc(4)
	r.ok(r.MemsetD8(r.ctx, p, 0, 4))
	r.ok(r.launchEx(k, 4, 0, params(p)))
	r.ok(r.launchEx(k, 6, 0, params(p), cu.ClusterLaunch(cu.Dim3{X: 2, Y: 1, Z: 1})))
	word := make([]byte, 4)
	r.ok(r.MemcpyDtoH(r.ctx, cu.HostPtr(&word[0]), p, 4))
	if got := binary.LittleEndian.Uint32(word); got != (4+6)*2*64 {
		t.Errorf("the kernel counted %d, want 64 threads of 10 blocks, each 2", got)
	}
	r.want(cu.ErrorInvalidClusterSize, r.launchEx(k, 5, 0, params(p)))
	r.want(cu.ErrorInvalidClusterSize, r.launchEx(k, 4, 0, params(p), cu.ClusterLaunch(cu.Dim3{X: 4, Y: 1, Z: 1})))
	checked := newRig(t, Options{Check: "races"})
	err = checked.launchEx(checked.function("store"), 4, 0, params(checked.alloc(4), uint32(1)), cu.ClusterLaunch(cu.Dim3{X: 2, Y: 1, Z: 1}))
	checked.want(cu.ErrorNotSupported, err)
	if !strings.Contains(err.Error(), "the check of races in kernels does not know clusters") {
		t.Errorf("got %v", err)
	}
}

func TestLaunchAttributes(t *testing.T) {
	r := newRig(t, Options{})
	f, store := r.facts("gather"), r.function("store")
	slots, dev := r.alloc(4<<20), r.alloc(4)
	err := r.launchEx(f, 1<<20, 0, params(slots, slots), cu.CooperativeLaunch())
	r.want(cu.ErrorCooperativeLaunchTooLarge, err)
	if text := err.Error(); !strings.Contains(text, "at most 4224 run at once, 32 on each of 132") {
		t.Errorf("%q does not say how many blocks fit", text)
	}
	p := params(dev, uint32(1))
	off := cu.CooperativeLaunch()
	off.Value[0] = 0
	r.ok(r.launchEx(store, 1<<16, 0, p, off, cu.LaunchAttribute{}, cu.LaunchPriority(-1)))
	r.ok(r.launchEx(store, 6, 0, p, cu.ClusterLaunch(one)))
	r.ok(r.launchEx(store, 6, 0, p, cu.ClusterLaunch(cu.Dim3{X: 2, Y: 1, Z: 1})))
	r.want(cu.ErrorInvalidClusterSize, r.launchEx(store, 18, 0, p, cu.ClusterLaunch(cu.Dim3{X: 9, Y: 1, Z: 1})))
	r.want(cu.ErrorInvalidClusterSize, r.launchEx(store, 6, 0, p, cu.ClusterLaunch(cu.Dim3{X: 4, Y: 1, Z: 1})))
	r.want(cu.ErrorInvalidClusterSize, r.launchEx(store, 6, 0, p, cu.ClusterLaunch(cu.Dim3{X: 2})))
	r.want(cu.ErrorNotSupported, r.launchEx(store, 6, 0, p, cu.LaunchAttribute{ID: cu.LaunchAttributeProgrammaticEvent}))
	r.want(cu.ErrorInvalidValue, r.LaunchKernelEx(r.ctx, nil, store, p))
	r.want(cu.ErrorInvalidValue, r.launchEx(store, 0, 0, p))
	r.ok(r.CtxSynchronize(r.ctx))
}

func TestNoCooperativeLaunch(t *testing.T) {
	r := newRig(t, Options{Profile: with(named(t, "h200"), "COOPERATIVE_LAUNCH", 0)})
	err := r.launchEx(r.facts("shared"), 1, 0, nil, cu.CooperativeLaunch())
	r.want(cu.ErrorNotSupported, err)
	if !strings.Contains(err.Error(), "COOPERATIVE_LAUNCH") {
		t.Errorf("%q does not name the attribute", err)
	}
}

func TestOccupancy(t *testing.T) {
	r := newRig(t, Options{})
	active := func(name string, block int32, shared uintptr) int32 {
		t.Helper()
		n, err := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, r.facts(name), block, shared, 0)
		r.ok(err)
		return n
	}
	for _, c := range []struct {
		name   string
		block  int32
		shared uintptr
		want   int32
	}{
		{"gather", 64, 0, 32}, {"gather", 1024, 0, 2}, {"gather", 1025, 0, 0},
		{"large", 256, 0, 3},    // 78 registers: 80 * 256 * 3
		{"bounded", 256, 0, 8},  // 24 registers
		{"wide", 1024, 0, 2},    // 32 registers, as two blocks need
		{"shared", 32, 0, 13},   // 17 KiB each of 228
		{"shared", 32, 8192, 9}, // 25216 bytes each
		{"shared", 32, 48 << 10, 0},
	} {
		if got := active(c.name, c.block, c.shared); got != c.want {
			t.Errorf("%s, %d threads, %d bytes: %d blocks, want %d", c.name, c.block, c.shared, got, c.want)
		}
	}
	f := r.facts("large")
	grid, block, err := r.OccupancyMaxPotentialBlockSize(r.ctx, f, 0, 0, 0)
	if r.ok(err); grid != 132 || block != 768 {
		t.Errorf("suggests %d blocks of %d threads, want 132 of 768", grid, block)
	}
	grid, block, err = r.OccupancyMaxPotentialBlockSize(r.ctx, f, 0, 128, 0)
	if r.ok(err); grid != 6*132 || block != 128 {
		t.Errorf("with a limit: %d blocks of %d threads, want %d of 128", grid, block, 6*132)
	}
	f = r.facts("shared")
	bytes, err := r.OccupancyAvailableDynamicSMemPerBlock(r.ctx, f, 8, 64)
	const reserved = 1 << 10 // the driver forgets it
	if r.ok(err); bytes <= reserved || active("shared", 64, bytes-reserved) != 8 || active("shared", 64, bytes-reserved+128) >= 8 {
		t.Errorf("%d bytes for 8 blocks, with which, less 1 KiB, %d run", bytes, active("shared", 64, bytes-reserved))
	}
	r.ok(r.FuncSetAttribute(r.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, 25))
	if n, err := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, f, 32, 0, 0); n != 3 || err != nil {
		t.Errorf("with 64 KiB of shared memory %d blocks, %v, want 3", n, err)
	}
	if v, err := r.FuncGetAttribute(r.ctx, cu.FuncAttributePreferredSharedMemoryCarveout, f); v != 25 || err != nil {
		t.Errorf("carveout %d, %v", v, err)
	}
	_, plain, err := r.OccupancyMaxPotentialBlockSize(r.ctx, f, 0, 100, 0)
	r.ok(err)
	r.ok(r.FuncSetAttribute(r.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, -1))
	if _, block, err := r.OccupancyMaxPotentialBlockSize(r.ctx, f, 0, 100, 0); block != plain || err != nil {
		t.Errorf("a carveout of 25 percent changes the suggested block from %d to %d threads, %v", block, plain, err)
	}
	r.ok(r.FuncSetCacheConfig(r.ctx, f, cu.FuncCachePreferL1))
	if n, err := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, f, 32, 0, 0); n != 1 || err != nil {
		t.Errorf("with a preference for L1 %d blocks, %v, want 1", n, err)
	}
}

func TestOccupancyMisuse(t *testing.T) {
	r := newRig(t, Options{})
	f := r.facts("shared")
	_, err := r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, f, 0, 0, 0)
	r.want(cu.ErrorInvalidValue, err)
	_, err = r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, 99, 32, 0, 0)
	r.want(cu.ErrorInvalidHandle, err)
	_, err = r.OccupancyMaxActiveBlocksPerMultiprocessor(r.ctx, f, 32, 0, 8)
	r.want(cu.ErrorInvalidValue, err)
	_, _, err = r.OccupancyMaxPotentialBlockSize(r.ctx, f, 0, -1, 0)
	r.want(cu.ErrorInvalidValue, err)
	_, err = r.OccupancyAvailableDynamicSMemPerBlock(r.ctx, f, 33, 32)
	r.want(cu.ErrorInvalidValue, err)
	r.want(cu.ErrorInvalidValue, r.FuncSetCacheConfig(r.ctx, f, 4))
	r.want(cu.ErrorInvalidValue, r.FuncSetAttribute(r.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, 101))
	r.want(cu.ErrorNotSupported, r.FuncSetAttribute(r.ctx, f, cu.FuncAttributeNonPortableClusterSizeAllowed, 1))
	r.want(cu.ErrorInvalidValue, r.FuncSetAttribute(r.ctx, f, cu.FuncAttributeNumRegs, 1))
}
