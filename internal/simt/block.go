package simt

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// blockPasses is how often the warps of a block have a turn, if barriers end them
// all, before other blocks have theirs.
const blockPasses = 1000

// block is a thread block. All of its warps run on one worker.
type block struct {
	k       *worker
	at      cu.Dim3
	number  uint64 // at, counted through the grid
	threads int
	live    int // threads that have not exited
	waiting int // lanes at barriers
	done    int // warps
	warps   []*warp
	shared  []byte
	window  segRef // shared memory in the generic space
	bars    [barriers]barrier
	started int // warps
	turns   int
}

func (k *worker) newBlock(n uint64) *block {
	x := k.x
	var b *block
	if last := len(k.blocks) - 1; last >= 0 {
		b = k.blocks[last]
		k.blocks = k.blocks[:last]
		clear(b.shared)
	} else {
		b = &block{k: k, threads: x.threads, warps: make([]*warp, x.warps)}
		for i := range b.warps {
			b.warps[i] = new(warp)
		}
		b.shared = make([]byte, alignUp(x.sharedBytes, 16))
		b.window = refTo(sharedWindow, b.shared[:x.sharedBytes], false)
	}
	gx, gy := uint64(x.l.Grid.X), uint64(x.l.Grid.Y)
	b.number = n
	b.at = cu.Dim3{X: uint32(n % gx), Y: uint32(n / gx % gy), Z: uint32(n / gx / gy)}
	b.live, b.waiting, b.done, b.started, b.turns = x.threads, 0, 0, 0, 0
	clear(b.bars[:])
	return b
}

// run gives every warp a turn, again and again while they only wait for each
// other, until all are done, one has used its budget, or it has been long enough.
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
			w.began = b.k.instructions
			w.run()
			w.issued = w.ran()
			w.began = b.k.instructions
			b.k.stats.LongestWarp = max(b.k.stats.LongestWarp, w.issued)
			if w.fault != nil {
				return w.fault
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

// stuck is the fault of a block whose threads all wait at barriers that cannot
// open: on hardware it would hang.
func (b *block) stuck() error {
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

// deadlock says which barriers the threads wait at.
func (b *block) deadlock() string {
	text := "deadlock: "
	for id := range b.bars {
		if bar := &b.bars[id]; bar.parked > 0 {
			text += fmt.Sprintf("%d threads of the block wait at barrier %d, where %d of %d have arrived, ", bar.parked, id, bar.arrived, b.expects(bar))
		}
	}
	return text + "and no thread is left to come; a GPU would hang"
}
