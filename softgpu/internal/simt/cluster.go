package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// cluster is the blocks that a launch with clusters runs together, by their rank. One worker runs all of
// them. A block that has ended is nil: others must not use its shared memory any more.
type cluster struct {
	blocks  []*block
	live    int    // threads that have not exited
	arrived int    // threads that have arrived at the barrier in this phase
	phase   uint32 // phases of the barrier that have ended
}

// clusterBarrier is the number of the barrier of a cluster, behind those of a block.
const clusterBarrier = barriers

// The shared memory of the blocks of a cluster has a part each of the window of shared memory, behind
// the part that every block has for its own.
const (
	rankBits  = 24
	rankBytes = 1 << rankBits
)

// rankWindow returns where the shared memory of a block of the cluster begins.
func rankWindow(rank int) uint64 { return sharedWindow + uint64(rank+1)<<rankBits }

// cluster returns the size of clusters: in a launch without them each block is one of its own.
func (x *execution) cluster() cu.Dim3 {
	if x.l.Cluster.Count() == 0 {
		return cu.Dim3{X: 1, Y: 1, Z: 1}
	}
	return x.l.Cluster
}

// clusterSize returns the number of blocks of a cluster.
func (x *execution) clusterSize() int { return int(x.cluster().Count()) }

// newCluster returns the blocks of cluster number n.
func (k *worker) newCluster(n uint64) []*block {
	size := k.x.l.Cluster
	c := &cluster{blocks: make([]*block, k.x.clusterSize())}
	wide, high := uint64(k.x.l.Grid.X/size.X), uint64(k.x.l.Grid.Y/size.Y)
	at := cu.Dim3{X: uint32(n%wide) * size.X, Y: uint32(n/wide%high) * size.Y, Z: uint32(n/wide/high) * size.Z}
	for i := range c.blocks {
		r := uint32(i)
		in := cu.Dim3{X: r % size.X, Y: r / size.X % size.Y, Z: r / size.X / size.Y}
		x, y, z := uint64(at.X+in.X), uint64(at.Y+in.Y), uint64(at.Z+in.Z)
		b := k.newBlock((z*uint64(k.x.l.Grid.Y)+y)*uint64(k.x.l.Grid.X) + x)
		b.cluster, b.rank, b.in = c, i, in
		b.shown.base = rankWindow(i)
		c.blocks[i] = b
		c.live += b.live
	}
	return c.blocks
}

// leave takes a block that has ended out of its cluster.
func (c *cluster) leave(b *block) { c.blocks[b.rank] = nil }

// sharedSegment returns the shared memory that an address of its window is in: that of the block, or of
// another one of the cluster. It returns nil if there is none.
func (b *block) sharedSegment(addr uint64) *segRef {
	rank := int(addr-sharedWindow)>>rankBits - 1
	switch {
	case rank < 0:
		return &b.window
	case rank == b.rank:
		return &b.shown
	case b.cluster == nil || rank >= len(b.cluster.blocks) || b.cluster.blocks[rank] == nil:
		return nil
	}
	return &b.cluster.blocks[rank].shown
}

// waitsForCluster reports whether threads of the block wait for the barrier of the cluster.
func (b *block) waitsForCluster() bool {
	if b.cluster == nil {
		return false
	}
	for _, w := range b.warps[:b.started] {
		for i := range w.others {
			if g := &w.others[i]; g.wait == waitBarrier && g.barrier == clusterBarrier {
				return true
			}
		}
	}
	return false
}

// stuck reports whether no thread of the cluster can run.
func (c *cluster) stuck() bool {
	for _, b := range c.blocks {
		if b == nil {
			continue
		}
		if b.started < len(b.warps) {
			return false
		}
		for _, w := range b.warps {
			if w.state == warpReady {
				return false
			}
		}
	}
	return true
}

// exited counts threads that have exited. The barrier does not wait for them.
func (c *cluster) exited(n int) {
	c.live -= n
	c.open()
}

// open ends a phase of the barrier if all threads have arrived.
func (c *cluster) open() {
	if c.arrived == 0 || c.arrived < c.live {
		return
	}
	c.arrived = 0
	c.phase++
	for _, b := range c.blocks {
		if b == nil {
			continue
		}
		for _, w := range b.warps[:b.started] {
			for i := range w.others {
				if g := &w.others[i]; g.wait == waitBarrier && g.barrier == clusterBarrier {
					g.wait = waitNothing
					if w.state == warpBlocked {
						w.state = warpReady
					}
				}
			}
		}
	}
}

// clusterBarrier runs barrier.cluster: the active lanes arrive, or wait for the phase in which they have
// arrived. Without clusters a block is one of its own.
func (w *warp) clusterBarrier(arrive bool) {
	c := w.b.ofCluster()
	if arrive {
		c.arrived += bits.OnesCount32(w.active)
		w.arrivedIn = c.phase + 1
		c.open()
		return
	}
	if c.phase >= w.arrivedIn {
		return
	}
	w.suspend(group{pc: w.pc, wait: waitBarrier, barrier: clusterBarrier})
	w.active = 0
	w.next()
}

// ofCluster returns the cluster of the block. That of a launch without clusters has one block.
func (b *block) ofCluster() *cluster {
	if b.cluster == nil {
		b.cluster = &cluster{blocks: []*block{b}, live: b.live}
	}
	return b.cluster
}

// decodeMapa decodes mapa, which returns the address of shared memory in another block of the cluster.
func decodeMapa(d *decoder) error {
	return d.pure(lift2(func(a, rank uint64) uint64 {
		return rankWindow(int(uint32(rank))) + (a-sharedWindow)&(rankBytes-1)
	}), affNone, ptx.U64, ptx.U32)
}

// decodeGetctarank decodes getctarank, which returns the block that has an address of shared memory.
func decodeGetctarank(d *decoder) error {
	out := inst{exec: execCtaRank}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.a, err = d.source(1, ptx.U64); err != nil {
		return err
	}
	d.emit(out)
	return nil
}

func execCtaRank(w *warp, in *inst) {
	r := w.f.expandFor(in.d)
	for m := w.active; m != 0; m &= m - 1 {
		i := trailing(m)
		rank := uint64(w.b.rank)
		if off := w.f.lane(in.a, i) - sharedWindow; off>>rankBits != 0 {
			rank = off>>rankBits - 1
		}
		r[i] = rank
	}
}
