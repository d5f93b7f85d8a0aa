package kernelrace

import "math/bits"

// Scope says which threads a strong access or a fence includes.
type Scope uint8

const (
	InBlock Scope = iota + 1 // the threads of the block (.cta)
	Device                   // of the device (.gpu)
	System                   // of all devices, and the host (.sys)
)

// reach is what a fence covers: narrow the block, wide the device.
const (
	narrow = iota
	wide
	reaches
)

// thread is what the detector knows of a thread.
type thread struct {
	seen    *clock          // nil: nothing
	now     uint32          // its interval, from 1
	asked   bool            // it has read global memory by a strong access since its last fence
	fences  [reaches]fence  // its last fences
	pending [reaches]*clock // what strong reads have found, for the next fence
}

// fence is the state of a thread at a fence.
type fence struct {
	seen *clock
	upTo uint32 // the interval that the fence ended, 0 if there was no fence
	made *clock // both as one clock, made on first use
}

// Block is a block of the launch.
type Block struct {
	d        *Detector
	number   uint32
	threads  []thread
	floor    uint32 // intervals that all threads have seen of all threads
	bars     [16]gathering
	shared   []cell
	more     [][]entry // further accesses of words of shared memory
	written  []uint64  // one bit for each byte of shared memory
	words    words
	watchers map[uint64][]*watchers // as those of the detector, for shared memory
	check    check                  // of the last access
	late     *clock                 // of threads that have only acquired
	delayed  Access                 // the last one that is Late
	objects  map[uint64]*object     // mbarrier objects
	copies
}

// gathering is what the threads that wait at a barrier have seen.
type gathering struct {
	sum   *clock
	last  *clock
	lanes []uint32 // that wait, by warp
	insts []int    // where, by warp
	n     int

	fences, pending [reaches]*clock
	asked           bool
}

func (b *Block) warps() int { return (len(b.threads) + warpSize - 1) / warpSize }

// full returns the lanes of a warp.
func (b *Block) full(warp int) uint32 {
	n := min(len(b.threads)-warp*warpSize, warpSize)
	return ^uint32(0) >> (warpSize - n)
}

// collect adds what lanes of a warp have seen and done to sum, and begins new intervals.
// last is a clock that was added before.
func (b *Block) collect(sum *clock, last **clock, warp int, lanes uint32) {
	first := warp * warpSize
	most := uint32(0)
	for m := lanes; m != 0; m &= m - 1 {
		t := &b.threads[first+bits.TrailingZeros32(m)]
		if t.seen != *last && t.seen != nil {
			sum.join(t.seen)
			*last = t.seen
		}
		most = max(most, t.now)
	}
	if lanes == b.full(warp) {
		w := sum.own.warp(warp)
		w.all = max(w.all, most)
		for i := range bits.Len32(lanes) {
			b.threads[first+i].now = b.next(most)
		}
		return
	}
	for m := lanes; m != 0; m &= m - 1 {
		i := first + bits.TrailingZeros32(m)
		sum.own.setLane(i, b.threads[i].now)
		b.threads[i].now = b.next(b.threads[i].now)
	}
}

// WarpSync orders lanes of a warp with each other, as bar.warp.sync does.
func (b *Block) WarpSync(warp int, lanes uint32) {
	if lanes&(lanes-1) == 0 {
		return
	}
	sum := &clock{block: b.number}
	var last *clock
	b.collect(sum, &last, warp, lanes)
	for m := lanes; m != 0; m &= m - 1 {
		b.threads[warp*warpSize+bits.TrailingZeros32(m)].seen = sum
	}
}

// Arrive records that lanes of a warp arrive at a barrier of the block, at instruction
// inst. If they wait, Open orders them behind all that have arrived.
func (b *Block) Arrive(id, warp int, lanes uint32, waits bool, inst int) {
	g := &b.bars[id]
	if g.sum == nil {
		*g = gathering{sum: &clock{block: b.number}, lanes: make([]uint32, b.warps()), insts: make([]int, b.warps())}
	}
	b.collect(g.sum, &g.last, warp, lanes)
	b.collectFences(g, warp, lanes)
	if !waits {
		return
	}
	if g.lanes[warp] != 0 && g.insts[warp] != inst {
		b.divergent(warp, g.lanes[warp], g.insts[warp], lanes, inst)
	}
	g.lanes[warp] |= lanes
	g.insts[warp] = inst
	g.n += bits.OnesCount32(lanes)
}

// Open lets the threads continue that wait at a barrier.
func (b *Block) Open(id int) {
	g := &b.bars[id]
	if g.sum == nil {
		return
	}
	if g.n == len(b.threads) {
		b.settle()
		most := uint32(0)
		for i := range b.threads {
			most = max(most, b.threads[i].now)
		}
		g.sum.own = part{all: most}
		b.floor = most
		next := b.next(most)
		for i := range b.threads {
			b.threads[i].seen, b.threads[i].now = g.sum, next
		}
	} else {
		for w, lanes := range g.lanes {
			for m := lanes; m != 0; m &= m - 1 {
				b.threads[w*warpSize+bits.TrailingZeros32(m)].seen = g.sum
			}
		}
	}
	b.spreadFences(g)
	*g = gathering{}
}

// collectFences adds the fences and the pending reads of lanes to those of a barrier. After the
// barrier, another thread may release what these lanes have fenced, and its fence may order what
// they have read. The memory model does not promise that, but GPUs do it and libraries rely on it.
func (b *Block) collectFences(g *gathering, warp int, lanes uint32) {
	for m := lanes; m != 0; m &= m - 1 {
		i := warp*warpSize + bits.TrailingZeros32(m)
		t := &b.threads[i]
		g.asked = g.asked || t.asked
		for r := range reaches {
			g.fences[r] = joined(b.number, g.fences[r], b.clock(i, &t.fences[r]))
			g.pending[r] = joined(b.number, g.pending[r], t.pending[r])
		}
	}
}

// spreadFences gives the threads that waited at a barrier what collectFences has found.
func (b *Block) spreadFences(g *gathering) {
	if g.fences == [reaches]*clock{} && g.pending == [reaches]*clock{} && !g.asked {
		return
	}
	for w, lanes := range g.lanes {
		for m := lanes; m != 0; m &= m - 1 {
			t := &b.threads[w*warpSize+bits.TrailingZeros32(m)]
			t.pending, t.asked = g.pending, g.asked
			for r, c := range g.fences {
				if c != nil {
					t.fences[r] = fence{upTo: 1, made: c}
				}
			}
		}
	}
}

// Fence records a fence of thread t.
func (b *Block) Fence(t int, scope Scope) {
	b.fenceReads(t, scope)
	b.fenceWrites(t, scope)
}

// fenceReads lets thread t see what others have released to its strong reads before.
func (b *Block) fenceReads(t int, scope Scope) {
	th := &b.threads[t]
	th.seen = joined(b.number, th.seen, th.pending[narrow])
	th.pending[narrow] = nil
	if scope >= Device {
		th.seen = joined(b.number, th.seen, th.pending[wide])
		th.pending[wide] = nil
		b.acquire(th)
	}
}

// fenceWrites makes later strong writes of thread t release what it has done and seen until now.
// It begins an interval.
func (b *Block) fenceWrites(t int, scope Scope) {
	th := &b.threads[t]
	f := fence{seen: th.seen, upTo: th.now}
	th.now = b.next(th.now)
	th.fences[narrow] = f
	if scope >= Device {
		th.fences[wide] = f
	}
}

// next returns the interval after another one, and counts if there is none.
func (b *Block) next(interval uint32) uint32 {
	if interval == mostInterval {
		b.d.Intervals++
	}
	return after(interval)
}

// after returns the interval after another one. A thread stays in the last possible interval. Its
// accesses there after a release count as before the release, so races may be missed.
func after(interval uint32) uint32 { return min(interval+1, mostInterval) }

// acquire makes the later accesses of a thread late if the thread has read global memory by a
// strong access before its fence. Another launch, or the host, may have written what it read.
func (b *Block) acquire(th *thread) {
	if !th.asked {
		return
	}
	th.asked, b.d.acquires = false, true
	switch {
	case th.seen == nil:
		th.seen = b.late
	case !th.seen.late:
		th.seen = &clock{block: th.seen.block, own: th.seen.own, rest: th.seen.rest, late: true}
	}
}

// clock returns what the fence of thread t has made visible, nil if there was none.
func (b *Block) clock(t int, f *fence) *clock {
	if f.made == nil && f.upTo > 0 {
		f.made = f.seen.cloneFor(b.number)
		f.made.own.setLane(t, f.upTo)
	}
	return f.made
}

// words holds what strong writes have released, by address.
type words map[uint64]*word

// word is what strong writes of a word have released.
type word struct {
	wide   *clock
	narrow *clock // by threads of one block
	block  uint32
}

// publish records a strong write of thread t. If it updates the word, what others have
// released there remains.
func (b *Block) publish(all words, addr uint64, t int, scope Scope, update bool) {
	th := &b.threads[t]
	if !update {
		delete(all, addr)
	}
	n := b.clock(t, &th.fences[narrow])
	if n == nil {
		return
	}
	x := all[addr]
	if x == nil {
		x = &word{block: b.number}
		all[addr] = x
	}
	if x.block != b.number {
		x.narrow, x.block = nil, b.number
	}
	x.narrow = joined(b.number, x.narrow, n)
	if f := b.clock(t, &th.fences[wide]); f != nil && scope >= Device {
		if x.wide != nil {
			f = joined(x.wide.block, x.wide, f)
		}
		if f.word != x {
			c := *f
			c.word = x
			f = &c
		}
		x.wide = f
	}
}

// observe records that thread t has read a word by a strong access. The writes that the
// word releases come before what the thread does after its next fence.
func (b *Block) observe(all words, addr uint64, t int, scope Scope) {
	x := all[addr]
	if x == nil {
		return
	}
	th := &b.threads[t]
	if x.block == b.number && x.narrow != th.pending[narrow] {
		th.pending[narrow] = joined(b.number, th.pending[narrow], x.narrow)
	}
	if p := th.pending[wide]; scope >= Device && x.wide != nil && x.wide != p {
		if p == nil || p.word == x {
			th.pending[wide] = x.wide // which has all that p has: threads that poll join nothing
		} else {
			th.pending[wide] = joined(b.number, p, x.wide)
		}
	}
}
