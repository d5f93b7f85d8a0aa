package simt

import (
	"fmt"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// blockPasses is how often the warps of a block have a turn before other blocks have
// theirs, if each turn ends at a barrier.
const blockPasses = 1000

// block is a thread block. All its warps run on one worker.
type block struct {
	k       *worker
	at      cu.Dim3
	number  uint64 // position in the grid, counted along x, then y, then z
	threads int
	live    int // threads that have not exited
	waiting int // lanes that wait at barriers
	done    int // warps that are done
	warps   []*warp
	shared  []byte
	window  segRef   // shared memory in the generic address space
	shown   segRef   // the same memory, where the blocks of the cluster find it
	cluster *cluster // nil if the launch has none, and no barrier of one was used
	rank    int      // in the cluster
	in      cu.Dim3  // position in the cluster
	bars    [barriers]barrier
	started int // warps that have started
	turns   int
	trace   *trace            // nil if the block is not followed
	check   *kernelrace.Block // nil without Launch.Check
	held    heldStores        // to mapped memory
}

// run gives every warp a turn, and repeats that while they only wait for each other.
// It returns when all warps are done, when one has used its budget, or after
// blockPasses rounds.
func (b *block) run() error {
	for range blockPasses {
		ran, spent := false, false
		for i, w := range b.warps {
			if b.k.x.stop.Load() {
				return nil
			}
			if i >= b.started {
				w.start(b, i)
				b.started++
			}
			if w.state != warpReady {
				continue
			}
			ran = true
			if err := b.turn(w); err != nil {
				return err
			}
			if w.state == warpReady {
				spent = true
			}
		}
		switch {
		case b.done == len(b.warps) || spent:
			return nil
		case !ran:
			return b.stuck()
		}
	}
	return nil
}

// turn runs a warp until it blocks, ends, faults, or has used its budget.
func (b *block) turn(w *warp) error {
	w.began = b.k.instructions
	w.run()
	w.issued = w.ran()
	if b.trace != nil && w.state == warpDone {
		b.trace.longest = max(b.trace.longest, w.issued)
		w.tr.extend(b.trace, w.issued)
	}
	w.began = b.k.instructions
	b.k.stats.LongestWarp = max(b.k.stats.LongestWarp, w.issued)
	if w.fault != nil {
		return w.fault
	}
	return nil
}

// stuck returns the fault of a block whose threads all wait at barriers that cannot
// open, or nil if that of its cluster can. On hardware the block would hang.
func (b *block) stuck() error {
	if b.waitsForCluster() && !b.cluster.stuck() {
		return nil // other blocks of the cluster can run
	}
	for _, w := range b.warps {
		for _, g := range w.others {
			if g.wait == waitBarrier {
				w.trap(&g.f.fn.code[g.pc-1], g.mask, cu.ErrorLaunchTimeout, 0, 0)
				w.fault.Why = b.deadlock()
				return w.fault
			}
		}
	}
	panic("BUG: a block neither runs nor waits")
}

// deadlock describes the barriers at which the threads wait.
func (b *block) deadlock() string {
	text := "deadlock: "
	for id := range b.bars {
		if bar := &b.bars[id]; bar.waiting > 0 {
			text += fmt.Sprintf("%d threads of the block wait at barrier %d, where %d of %d have arrived, ", bar.waiting, id, bar.arrived, b.expects(bar))
		}
	}
	if b.waitsForCluster() {
		text += "threads of the block wait at the barrier of the cluster, "
	}
	return text + "and no other thread can arrive; a GPU would hang"
}

func (b *block) checkBarriers() {
	for id := range b.bars {
		if b.bars[id].arrived > 0 {
			b.checkBarrier(id)
		}
	}
}

// expects returns how many threads must arrive.
func (b *block) expects(bar *barrier) int {
	if bar.expected == 0 {
		return b.live
	}
	return bar.expected
}

// checkBarrier opens a barrier at which all have arrived.
func (b *block) checkBarrier(id int) {
	bar := &b.bars[id]
	if bar.arrived < b.expects(bar) || bar.arrived == 0 {
		return
	}
	if b.trace != nil {
		b.meet(id)
	}
	if b.check != nil {
		b.check.Open(id)
	}
	for _, w := range b.warps {
		for i := range w.others {
			g := &w.others[i]
			if g.wait != waitBarrier || g.barrier != id {
				continue
			}
			g.wait = waitNothing
			if g.red != nil {
				b.writeReduction(bar, g)
			}
			g.red = nil
			if w.state == warpBlocked {
				w.state = warpReady
			}
		}
	}
	b.waiting -= bar.waiting
	*bar = barrier{}
}

// writeReduction writes the result of a bar.red to the lanes that waited there.
func (b *block) writeReduction(bar *barrier, g *group) {
	op := g.red.aux.(*barrierOp)
	if op.red == "popc" {
		r := g.f.expandFor(g.red.d)
		for m := g.mask; m != 0; m &= m - 1 {
			r[bits.TrailingZeros32(m)] = uint64(bar.count)
		}
		return
	}
	set := bar.all
	if op.red == "or" {
		set = bar.any
	}
	p := &g.f.preds[g.red.q]
	*p &^= g.mask
	if set {
		*p |= g.mask
	}
}
