package simt

import (
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// worker runs blocks on one goroutine.
type worker struct {
	x        *execution
	id       int
	frames   [][]*frame         // free frames, by function
	refs     [cachedRefs]segRef // segment cache, by memory instruction
	blocks   []*block           // free blocks
	tmp      lanes
	mma      *mmaValues  // made on first use
	mapped   *mappedView // nil unless the launch shares memory loosely
	shuffle  *shuffler   // nil unless the order of the launch follows a seed
	followed *warp       // that runs now, if it is followed
	sectorScratch
	memScratch

	next, end uint64   // blocks taken and not yet begun, or clusters of several
	siblings  []*block // of the cluster that has begun, not yet returned by begin
	turns     uint64   // of blocks, where oneThread is true

	stack        int // bytes of frames and local memory
	instructions uint64
	polls        uint64 // loops that polled memory which others may change, and sleeps
	stats        Stats
	tallies      []tally             // by counter
	units        [atomicUnits]uint64 // turns of atomic operations, by slice of the second-level cache
	locks        lockCounter         // atomic operations of lanes, where lines are locked
	stores       lineCounter         // stores of one sector by warps that store to several lines, by line
	traces       []*trace            // of the sampled blocks that are done
	fence        atomic.Uint32
}

// loop runs blocks until none is left. While its blocks only wait for others, it
// begins new blocks. So a block may wait for any other block of the grid, up to the
// number of blocks that a worker keeps.
func (k *worker) loop() {
	if k.shuffle != nil {
		k.loopShuffled()
		return
	}
	var resident []*block
	defer func() { k.leave(resident) }()
	for !k.x.stop.Load() {
		if len(resident) == 0 {
			b := k.begin()
			if b == nil {
				return
			}
			resident = append(resident, b)
		}
		for len(k.siblings) > 0 {
			resident = append(resident, k.begin())
		}
		polls, overdue := k.polls, false
		for i := 0; i < len(resident) && !k.x.stop.Load(); {
			b := resident[i]
			k.yield()
			if err := b.run(); err != nil {
				k.x.fail(err)
				return
			}
			if b.done == len(b.warps) {
				k.retire(b)
				resident = append(resident[:i], resident[i+1:]...)
				continue
			}
			b.turns++
			overdue = overdue || b.turns%turnsUntilNext == 0
			i++
		}
		if k.mapped != nil {
			k.mapped.turn(resident)
		}
		if len(resident) == 0 {
			continue
		}
		if p := k.x.l.Pulse; p != nil && k.polls != polls {
			p.Polls.Add(1)
		}
		if k.polls != polls || overdue {
			for range min(len(resident), k.x.resident-len(resident)) { // this doubles the number each round
				b := k.begin()
				if b == nil {
					break
				}
				resident = append(resident, b)
			}
			runtime.Gosched()
		}
	}
}

// leave ends the work on the blocks that are not done.
func (k *worker) leave(resident []*block) {
	k.x.stopped(resident)
	if k.mapped != nil {
		k.mapped.finish(resident)
	}
}

// oneThread reports whether all goroutines share a thread and none is preempted, as on
// js/wasm. A worker must yield there, else no timer and no other goroutine runs.
const oneThread = runtime.GOARCH == "wasm"

// turnsUntilYield is how many turns of blocks a worker runs before it yields. A turn takes
// up to a millisecond.
const turnsUntilYield = 8

// yield lets other goroutines run from time to time, where nothing else does.
func (k *worker) yield() {
	if !oneThread {
		return
	}
	if k.turns++; k.turns%turnsUntilYield == 0 {
		runtime.Gosched()
	}
}

// begin returns the next block, nil if there is none.
func (k *worker) begin() *block {
	if len(k.siblings) > 0 {
		b := k.siblings[0]
		k.siblings = k.siblings[1:]
		return b
	}
	size := uint64(k.x.clusterSize())
	if k.next == k.end {
		x := k.x
		all := x.blocks / size
		share := max(1, min(64, all/uint64(8*x.workers)))
		at := x.next.Add(share) - share
		if at >= all {
			x.next.Store(all) // so that further calls cannot overflow it
			return nil
		}
		k.next, k.end = at, min(at+share, all)
		if p := x.l.Pulse; p != nil {
			p.Begun.Add((k.end - k.next) * size)
		}
	}
	n := k.next
	k.next++
	if k.shuffle != nil {
		n = k.shuffle.block(n, k.x.blocks/size)
	}
	if size == 1 {
		return k.newBlock(n)
	}
	all := k.newCluster(n)
	k.siblings = append(k.siblings[:0], all[1:]...)
	return all[0]
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
		b.shown = b.window
	}
	b.cluster, b.rank, b.in, b.shown.base = nil, 0, cu.Dim3{}, rankWindow(0)
	gx, gy := uint64(x.l.Grid.X), uint64(x.l.Grid.Y)
	b.number = n
	b.at = cu.Dim3{X: uint32(n % gx), Y: uint32(n / gx % gy), Z: uint32(n / gx / gy)}
	b.live, b.waiting, b.done, b.started, b.turns = x.threads, 0, 0, 0, 0
	clear(b.bars[:])
	if x.checker != nil {
		b.check = x.checker.Block(n, len(b.shared))
	}
	if b.trace = nil; x.sampled(n) {
		b.trace = x.newTrace(n)
	}
	return b
}

func (k *worker) retire(b *block) {
	k.stats.Blocks++
	k.stats.Threads += uint64(b.threads)
	if b.trace != nil {
		b.trace.done(k)
	}
	if b.cluster != nil {
		b.cluster.leave(b)
	}
	if k.mapped != nil {
		k.mapped.ended(b)
	}
	if b.check != nil {
		k.x.checker.ended(b)
	}
	k.blocks = append(k.blocks, b)
}

// newFrame returns a frame of fn from the pool, or a new one with the constants
// filled in.
func (k *worker) newFrame(fn *function) *frame {
	pool := k.frames[fn.id]
	if n := len(pool); n > 0 {
		f := pool[n-1]
		k.frames[fn.id] = pool[:n-1]
		f.clear()
		return f
	}
	k.stack += fn.frameBytes()
	f := &frame{
		fn:    fn,
		regs:  make([]lanes, fn.numRegs),
		tags:  make([]tag, fn.numRegs),
		preds: make([]uint32, fn.numPreds),
	}
	for _, c := range fn.consts {
		v := c.value
		switch {
		case c.param != nil:
			v = c.param(k.x.l.Params)
		case c.launch != nil:
			v = c.launch(k.x)
		}
		f.setUniform(c.reg, v)
	}
	f.clear()
	return f
}

func (k *worker) freeFrame(f *frame) {
	f.parent, f.call, f.top = nil, nil, 0
	k.frames[f.fn.id] = append(k.frames[f.fn.id], f)
}

// order makes everything before it visible before everything after it. On amd64 the
// loads and stores of the host already have the order that acquire and release
// demand.
func (k *worker) order() {
	if runtime.GOARCH != "amd64" {
		k.fence.Add(1)
	}
}

// fullFence also orders earlier stores before later loads.
func (k *worker) fullFence() { k.fence.Add(1) }

func (s *Stats) add(o *Stats, tallies []tally) {
	s.Blocks += o.Blocks
	s.Threads += o.Threads
	s.WarpInstructions += o.WarpInstructions
	s.LongestWarp = max(s.LongestWarp, o.LongestWarp)
	s.Nap = max(s.Nap, o.Nap)
	for i := range s.Traffic {
		t := tallies[i].traffic()
		s.Traffic[i].add(&t)
	}
}

// matrices returns the worker's matrices. They are made on first use.
func (k *worker) matrices() *mmaValues {
	if k.mma == nil {
		k.mma = new(mmaValues)
	}
	return k.mma
}
