package simt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// clusterText has kernels that use clusters. In all of them each block writes 100 and its number to
// shared memory, and reads it from the other blocks of its cluster.
const clusterText = `.version 8.0
.target sm_90
.address_size 64

// gather writes for each block its rank, the size, and what it read from each rank, 8 words in all.
.visible .entry gather(.param .u64 out) {
	.reg .b32 %r<20>;
	.reg .b64 %x<9>;
	.reg .pred %p<3>;
	.shared .align 4 .b8 own[4];
	mov.u32 %r1, %ctaid.z;
	mov.u32 %r2, %nctaid.y;
	mov.u32 %r3, %ctaid.y;
	mad.lo.u32 %r1, %r1, %r2, %r3;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %ctaid.x;
	mad.lo.u32 %r1, %r1, %r2, %r3;
	mov.u64 %x1, own;
	cvta.shared.u64 %x1, %x1;
	add.u32 %r4, %r1, 100;
	st.shared.u32 [own], %r4;
	barrier.cluster.arrive.aligned;
	ld.param.u64 %x2, [out];
	mul.wide.u32 %x3, %r1, 48;
	add.u64 %x2, %x2, %x3;
	mov.u32 %r5, %cluster_ctarank;
	mov.u32 %r6, %cluster_nctarank;
	barrier.cluster.wait.aligned;
	st.global.u32 [%x2], %r5;
	st.global.u32 [%x2+4], %r6;
	mov.u32 %r7, %clusterid.x;
	st.global.u32 [%x2+8], %r7;
	mov.u32 %r7, %cluster_ctaid.y;
	st.global.u32 [%x2+12], %r7;
	mov.u32 %r8, 0;
next:
	mapa.u64 %x4, %x1, %r8;
	ld.u32 %r9, [%x4];
	getctarank.u64 %r10, %x4;
	mad.lo.u32 %r9, %r10, 1000, %r9;
	mul.wide.u32 %x5, %r8, 4;
	add.u64 %x6, %x2, %x5;
	st.global.u32 [%x6+16], %r9;
	add.u32 %r8, %r8, 1;
	setp.lt.u32 %p1, %r8, %r6;
	@%p1 bra next;
	barrier.cluster.arrive;
	barrier.cluster.wait;
	ret;
}

// leave lets the blocks with an odd rank end at once. The others do not wait for them.
.visible .entry leave(.param .u64 out) {
	.reg .b32 %r<4>;
	.reg .b64 %x<2>;
	.reg .pred %p<2>;
	mov.u32 %r1, %cluster_ctarank;
	and.b32 %r1, %r1, 1;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 exit;
	barrier.cluster.arrive;
	barrier.cluster.wait;
	ld.param.u64 %x1, [out];
	atom.global.add.u32 %r2, [%x1], 1;
	ret;
}

// hang waits in one block for threads that do not exist, and in the others for that block.
.visible .entry hang(.param .u64 out) {
	.reg .b32 %r<4>;
	.reg .pred %p<2>;
	mov.u32 %r1, %cluster_ctarank;
	setp.ne.u32 %p1, %r1, 1;
	@%p1 bra fine;
	bar.sync 1, 96;
fine:
	barrier.cluster.arrive;
	barrier.cluster.wait;
	ret;
}

// outside reads from a rank that the cluster does not have.
.visible .entry outside(.param .u64 out) {
	.reg .b32 %r<4>;
	.reg .b64 %x<3>;
	.shared .align 4 .b8 own[4];
	mov.u64 %x1, own;
	cvta.shared.u64 %x1, %x1;
	mapa.u64 %x2, %x1, 4;
	ld.u32 %r1, [%x2];
	st.shared.u32 [own], %r1;
	ret;
}
`

// clusterRun launches a kernel of clusterText with one argument.
func clusterRun(t *testing.T, name string, l Launch, out []uint32) ([]uint32, error) {
	t.Helper()
	mem := newSpace()
	m := load(t, mem, "cluster.ptx", clusterText)
	data := put(mem, out)
	l.Kernel, l.Params, l.Memory, l.Counters = m.Kernel(name), bytesOf(data.Base), mem, 1
	_, err := Run(context.Background(), &l)
	return valuesOf[uint32](data.Data), err
}

// TestClusters: the blocks of a cluster have the ranks that their places give, and see each other's shared
// memory, with several workers and in orders of seeds.
func TestClusters(t *testing.T) {
	grid := cu.Dim3{X: 6, Y: 4, Z: 2}
	for _, size := range []cu.Dim3{{}, {X: 1, Y: 1, Z: 1}, {X: 2, Y: 1, Z: 1}, {X: 3, Y: 2, Z: 1}, {X: 1, Y: 2, Z: 2}, {X: 2, Y: 2, Z: 2}} {
		for seed := range uint64(4) {
			l := Launch{Grid: grid, Block: cu.Dim3{X: 40, Y: 1, Z: 1}, Cluster: size, Workers: 1 + int(seed)}
			if seed > 1 {
				l.Shuffle = &Shuffle{Seed: seed}
			}
			got, err := clusterRun(t, "gather", l, make([]uint32, 12*grid.Count()))
			if err != nil {
				t.Fatalf("clusters of %v, seed %d: %v", size, seed, err)
			}
			checkClusters(t, grid, size, got)
		}
	}
}

// checkClusters compares what gather wrote with the places of the blocks.
func checkClusters(t *testing.T, grid, size cu.Dim3, got []uint32) {
	t.Helper()
	if size.Count() == 0 {
		size = cu.Dim3{X: 1, Y: 1, Z: 1}
	}
	number := func(x, y, z uint32) uint32 { return (z*grid.Y+y)*grid.X + x }
	for z := range grid.Z {
		for y := range grid.Y {
			for x := range grid.X {
				at := got[12*number(x, y, z):][:12]
				ix, iy, iz := x%size.X, y%size.Y, z%size.Z
				want := []uint32{(iz*size.Y+iy)*size.X + ix, uint32(size.Count()), x / size.X, iy}
				for r := range uint32(size.Count()) {
					bx, by, bz := r%size.X, r/size.X%size.Y, r/size.X/size.Y
					want = append(want, 1000*r+100+number(x-ix+bx, y-iy+by, z-iz+bz))
				}
				if fmt.Sprint(at[:len(want)]) != fmt.Sprint(want) {
					t.Fatalf("clusters of %v, block %d,%d,%d: got %v, want %v", size, x, y, z, at, want)
				}
			}
		}
	}
}

// TestClusterEnds: a barrier does not wait for blocks that have ended, and says when it can never open.
func TestClusterEnds(t *testing.T) {
	l := Launch{Grid: cu.Dim3{X: 8, Y: 1, Z: 1}, Block: cu.Dim3{X: 64, Y: 1, Z: 1}, Cluster: cu.Dim3{X: 4, Y: 1, Z: 1}}
	for _, order := range []*Shuffle{nil, {Seed: 1}} {
		l.Shuffle = order
		if got, err := clusterRun(t, "leave", l, []uint32{0}); err != nil || got[0] != 4*64 {
			t.Errorf("leave: got %v, %v", got, err)
		}
		_, err := clusterRun(t, "hang", l, []uint32{0})
		if f, ok := errors.AsType[*cu.Fault](err); !ok || f.Result != cu.ErrorLaunchTimeout || !strings.Contains(f.Why, "deadlock: ") {
			t.Errorf("hang: got %v", err)
		}
		_, err = clusterRun(t, "outside", l, []uint32{0})
		if f, ok := errors.AsType[*cu.Fault](err); !ok || f.Result != cu.ErrorIllegalAddress {
			t.Errorf("outside: got %v", err)
		}
	}
}
