package simt

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// warpState is what a warp can do next.
type warpState uint8

const (
	warpReady   warpState = iota
	warpBlocked           // every lane waits at a barrier of the block
	warpDone
)

// wait is what a group of lanes waits for.
type wait uint8

const (
	waitNothing wait = iota
	waitSync         // the other members of its mask
	waitBarrier
)

// group is a set of lanes at the same position of the same frame.
type group struct {
	f       *frame
	pc      int
	mask    uint32
	wait    wait
	barrier int
	red     *inst  // the bar.red whose result the lanes get, if any
	ran     uint64 // value of warp.turn when it last ran, for fairness
}

// warp is 32 threads. The active lanes run at pc of frame f. The other lanes are in
// groups.
type warp struct {
	k     *worker
	b     *block
	index int
	state warpState

	f      *frame
	pc     int
	active uint32
	full   bool // the active lanes are all lanes of f, so no other lane needs the values in f
	dense  bool // full, and the active lanes are 0 to n-1
	scalar bool // uniform and affine registers are used
	simple bool // full and scalar, and the warp is not followed
	n      int  // one more than the highest lane of f
	limit  int  // pc at which the lanes may meet a group
	fair   bool // the lanes run out of order, and are not preempted by lanes at a lower pc
	force  bool // run a synchronizing instruction without waiting
	others []group

	live         uint32
	budget       int    // instructions until the other warps have their turn
	slice        int    // instructions until the other groups of this warp have their turn
	arrivedIn    uint32 // phase of the cluster's barrier in which the warp has arrived, from 1
	phaseEnds    uint32 // lanes whose last operation of an mbarrier object has ended a phase
	polled       bool   // polled memory since the last jump back
	polledGlobal bool   // polled memory that another block may write
	rests        bool   // has polled memory, or slept, in this round of a shuffled launch
	turn         uint64

	issued, began    uint64  // instructions before this turn; instructions of the worker when it began
	slept            uint64  // ns of sleep and of reading clocks
	clockReads       int     // reads of a clock in a row
	clockStep        float64 // ns that the last clock read took
	polledSinceClock bool    // memory was polled since the last clock read

	local    []byte // localCap bytes per lane, lane after lane
	localCap int

	fault *cu.Fault

	loads     pastLoads // of mapped memory
	loadEpoch uint32    // of loads that may be repeated

	tr warpTrace
}

const (
	warpBudget  = 1 << 15 // instructions in loops until the next warp's turn
	groupBudget = 1 << 13
	pollCost    = 128 // extra charge for each round of a loop that polls memory
	noLimit     = math.MaxInt
)

// start makes w warp number index of b.
func (w *warp) start(b *block, index int) {
	k := b.k
	n := min(b.threads-index*warpSize, warpSize)
	w.k, w.b, w.index = k, b, index
	w.state = warpReady
	w.live = allLanes >> (warpSize - n)
	w.others = w.others[:0]
	w.scalar = !k.x.lanewise
	w.issued, w.slept, w.clockReads, w.clockStep, w.polledSinceClock = 0, 0, 0, 0, false
	w.fault, w.polled, w.polledGlobal, w.rests, w.force, w.fair = nil, false, false, false, false, false
	w.f = k.newFrame(k.x.fn)
	w.f.lanes, w.f.depth, w.f.local = w.live, 0, 0
	w.f.stack, w.f.folds = w.f.fn.stack+w.f.fn.folded, true
	w.pc = 0
	w.setActive(w.live)
	w.limit = noLimit
	w.slice = groupBudget
	w.needLocal(w.f.fn.localBytes)
	clear(w.local)
	w.setSpecials()
	w.arrivedIn = 0
	w.loadEpoch++
	w.tr.block = nil
	if b.trace != nil {
		b.trace.begin(w)
	}
	w.simple = w.full && w.scalar && w.tr.block == nil
}

func (w *warp) setSpecials() {
	f := w.f
	for i := range f.fn.specials {
		s := &f.fn.specials[i]
		s.set(w, &f.regs[s.reg], &f.tags[s.reg])
	}
}

// needLocal grows local memory to at least n bytes per lane.
func (w *warp) needLocal(n int) {
	if n <= w.localCap {
		return
	}
	size := max(alignUp(n, 64), 2*w.localCap)
	w.k.stack += (size - w.localCap) * warpSize
	local := make([]byte, size*warpSize)
	for i := range warpSize {
		copy(local[i*size:], w.local[i*w.localCap:(i+1)*w.localCap])
	}
	w.local, w.localCap = local, size
}

func (w *warp) setActive(mask uint32) {
	w.active = mask
	all := w.f.lanes
	full := mask == all
	w.full = full
	w.n = span(all)
	w.dense = full && mask&(mask+1) == 0
	w.simple = full && w.scalar && w.tr.block == nil
}

// run executes until the warp blocks, ends, faults, or has used its budget.
func (w *warp) run() {
	w.budget = warpBudget
	w.k.followed = nil
	if w.tr.block != nil {
		w.k.followed = w
	}
	if s := w.k.shuffle; s != nil {
		w.budget = s.begin() // the turn may have ended between a poll and the jump behind it
	} else {
		w.polled, w.polledGlobal = false, false
	}
	if w.active == 0 {
		w.next() // the barrier has opened
	}
	if w.b.check != nil || w.k.mapped != nil || w.k.shuffle != nil {
		w.runWatched()
		return
	}
	for w.state == warpReady {
		pc := w.pc
		if pc >= w.limit {
			w.reconverge()
			pc = w.pc
		}
		if end := w.stretch(pc); end > pc {
			w.compute(pc, end)
			continue
		}
		in := &w.f.fn.code[pc]
		w.pc = pc + 1
		w.k.instructions += uint64(in.cost)
		if w.tr.block != nil {
			w.issue(in)
		}
		taken := w.active
		if in.guard >= 0 {
			taken &= w.f.preds[in.guard] ^ in.guardNot
			if taken == 0 {
				continue
			}
		}
		switch in.kind {
		case kindExec:
			if taken == w.active {
				in.exec(w, in)
			} else {
				w.execSome(in, taken)
			}
			if w.fault != nil {
				return
			}
			if in.mem != nil && w.tr.block != nil {
				w.arrive(in)
			}
		case kindBranch:
			w.branch(in, taken)
			if w.budget <= 0 {
				return
			}
		default:
			w.control(in, taken)
			if w.fault != nil || w.budget <= 0 {
				return
			}
		}
	}
}

// stretch returns where the instructions from pc on end that compute can run now, pc for none.
func (w *warp) stretch(pc int) int {
	if !w.simple {
		return pc
	}
	return min(int(w.f.fn.stretches[pc].end), w.limit)
}

// execSome executes an instruction for some of the active lanes.
func (w *warp) execSome(in *inst, lanes uint32) {
	active, full, dense := w.active, w.full, w.dense
	w.active, w.full, w.dense = lanes, false, false
	in.exec(w, in)
	w.active, w.full, w.dense = active, full, dense
}

// branch takes a branch for some of the active lanes, or for all.
func (w *warp) branch(in *inst, lanes uint32) {
	if w.tr.block != nil {
		w.tr.jumped()
	}
	if lanes == w.active {
		w.jump(int(in.target))
	} else {
		w.split(lanes, int(in.target))
	}
}

// jump moves the active lanes to target. A jump back costs as much as the loop has
// instructions, and more if the loop seems to wait for another thread.
func (w *warp) jump(target int) {
	if target < w.pc {
		n := w.pc - target
		if w.polled {
			n += pollCost
			if w.polledGlobal {
				w.k.polls++
			}
			w.polled, w.polledGlobal = false, false
			if w.k.shuffle != nil {
				w.budget, w.rests = 0, true
				n = max(n, groupBudget/shufflePolls)
			}
		}
		w.budget -= n
		if len(w.others) > 0 {
			w.slice -= n
			if w.slice <= 0 {
				w.pc = target
				w.rotate()
				return
			}
		}
	}
	w.pc = target
	if w.fair {
		w.setLimit()
	}
}

// split sends some of the active lanes to target. If they would only exit there, they
// exit at once, so that the rest stays a full warp.
func (w *warp) split(taken uint32, target int) {
	if w.endsKernel(target) {
		w.k.instructions++
		w.exit(taken)
		return
	}
	rest := w.active &^ taken
	w.others = append(w.others, group{f: w.f, pc: w.pc, mask: rest, ran: w.turn})
	w.setActive(taken)
	w.jump(target)
	w.reconverge()
}

// endsKernel reports whether the instruction at pc ends the kernel for every lane
// that reaches it.
func (w *warp) endsKernel(pc int) bool {
	in := &w.f.fn.code[pc]
	return in.guard < 0 && (in.kind == kindExit || in.kind == kindRet && w.f.parent == nil)
}

// exit ends some of the active lanes.
func (w *warp) exit(mask uint32) {
	for f := w.f; f != nil; {
		up := f.parent
		f.lanes &^= mask
		if f.lanes == 0 && up != nil {
			w.k.freeFrame(f)
			if f == w.f {
				w.f = up
			}
		}
		f = up
	}
	w.live &^= mask
	w.b.live -= bits.OnesCount32(mask)
	rest := w.active &^ mask
	if rest != 0 {
		w.setActive(rest)
	} else {
		w.active = 0
		w.next()
	}
	if w.b.waiting > 0 {
		w.b.checkBarriers()
		if w.active == 0 && w.state == warpReady {
			w.next() // the exit has opened the barrier at which the rest of the warp waits
		}
	}
	if w.b.cluster != nil {
		w.exitCluster(bits.OnesCount32(mask))
	}
}

// exitCluster tells the cluster that threads have exited.
func (w *warp) exitCluster(n int) {
	w.b.cluster.exited(n)
	if w.active == 0 && w.state == warpReady {
		w.next() // the rest of the warp waits at the barrier that the exit has opened
	}
}

// control runs an instruction that changes the control flow. taken are the active
// lanes that its guard lets through.
func (w *warp) control(in *inst, taken uint32) {
	if taken != w.active && in.kind != kindExit && in.kind != kindRet {
		// The other lanes continue after the instruction; the taken lanes run first.
		w.others = append(w.others, group{f: w.f, pc: w.pc, mask: w.active &^ taken, ran: w.turn})
		w.setActive(taken)
		w.setLimit()
	}
	switch in.kind {
	case kindExit:
		w.exit(taken)
	case kindRet:
		if w.f.parent == nil {
			w.exit(taken)
		} else {
			w.ret(taken)
		}
	case kindIndexed:
		w.indexed(in)
	case kindCall:
		w.call(in)
	case kindBarrier:
		w.barrier(in)
	case kindSync:
		w.sync(in)
	case kindYield:
		w.sleep(uint32(w.f.lane(in.a, bits.TrailingZeros32(taken))))
		w.budget, w.rests = 0, true
		w.k.polls++
	default:
		w.trap(in, taken, cu.ErrorIllegalInstruction, 0, 0)
	}
}

// indexed runs brx.idx: every lane jumps to the target of its index.
func (w *warp) indexed(in *inst) {
	f := w.f
	index := f.expand(in.a)
	var first int32 = -1
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		n := uint32(index[i])
		if n >= uint32(len(in.table)) {
			w.trap(in, 1<<i, cu.ErrorIllegalInstruction, 0, 0)
			return
		}
		if first < 0 {
			first = in.table[n]
		}
	}
	same := uint32(0)
	for m := w.active; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		t := in.table[uint32(index[i])]
		if t == first {
			same |= 1 << i
			continue
		}
		w.others = append(w.others, group{f: f, pc: int(t), mask: 1 << i, ran: w.turn})
	}
	w.setActive(same)
	w.jump(int(first))
	w.reconverge()
}

// Among the lanes that can run, the lanes in the deepest call run first. Among these,
// the lanes with the lowest pc do. In reducible code all lanes then reconverge where
// the paths join. Lanes that loop for long give the other groups of their warp a slice
// out of order, so that one lane can wait for another.

// suspend turns the active lanes into a group that waits as g says.
func (w *warp) suspend(g group) {
	g.mask, g.f, g.ran = w.active, w.f, w.turn
	for i := range w.others {
		o := &w.others[i]
		if o.f == g.f && o.pc == g.pc && o.wait == g.wait && o.barrier == g.barrier {
			o.mask |= g.mask
			return
		}
	}
	w.others = append(w.others, g)
}

// next activates the lanes that run next. No lane is active when it is called.
func (w *warp) next() {
	w.fair = false
	w.slice = groupBudget
	best := -1
	for i := range w.others {
		g := &w.others[i]
		if g.wait == waitSync {
			if w.complete(g) {
				g.wait = waitNothing
			} else {
				w.meetApart(g)
			}
		}
		if g.wait == waitNothing && (best < 0 || before(g, &w.others[best])) {
			best = i
		}
	}
	if best < 0 {
		if best = w.forced(); best < 0 {
			w.state = warpBlocked
			if len(w.others) == 0 {
				w.finish()
			}
			return
		}
		w.force = true
	}
	w.resume(best)
	w.reconverge()
}

// forced returns a group that waits for members which can never arrive, because they
// went elsewhere for good. The ISA leaves open what happens then. It returns -1 if
// lanes wait at a barrier, from which the members may still come.
func (w *warp) forced() int {
	best := -1
	for i := range w.others {
		g := &w.others[i]
		if g.wait == waitBarrier {
			return -1 // a barrier may release the members
		}
		if best < 0 || before(g, &w.others[best]) {
			best = i
		}
	}
	return best
}

func before(a, b *group) bool {
	if a.f.depth != b.f.depth {
		return a.f.depth > b.f.depth
	}
	return a.pc < b.pc
}

// complete reports whether all members of a group's mask have arrived.
func (w *warp) complete(g *group) bool {
	in := &g.f.fn.code[g.pc]
	members := uint32(g.f.lane(in.c, bits.TrailingZeros32(g.mask)))
	return members&w.live&^g.mask == 0
}

// meetApart lets the lanes go on that wait for each other at different bar.warp.sync with
// the same members.
func (w *warp) meetApart(g *group) {
	in := &g.f.fn.code[g.pc]
	if !isWarpBarrier(in) {
		return
	}
	members := uint32(g.f.lane(in.c, bits.TrailingZeros32(g.mask)))
	waits := func(o *group) bool {
		if o.wait != waitSync {
			return false
		}
		in := &o.f.fn.code[o.pc]
		return isWarpBarrier(in) && uint32(o.f.lane(in.c, bits.TrailingZeros32(o.mask))) == members
	}
	arrived := uint32(0)
	for i := range w.others {
		if o := &w.others[i]; waits(o) {
			arrived |= o.mask
		}
	}
	if members&w.live&^arrived != 0 {
		return
	}
	for i := range w.others {
		if o := &w.others[i]; waits(o) {
			o.pc, o.wait = o.pc+1, waitNothing
		}
	}
	if w.b.check != nil {
		w.b.check.WarpSync(w.index, arrived)
	}
}

// isWarpBarrier reports whether an instruction is bar.warp.sync.
func isWarpBarrier(in *inst) bool {
	return in.kind == kindSync && (in.src.Op == "bar" || in.src.Op == "barrier")
}

// resume activates group i.
func (w *warp) resume(i int) {
	g := w.others[i]
	last := len(w.others) - 1
	w.others[i] = w.others[last]
	w.others[last] = group{}
	w.others = w.others[:last]
	w.f, w.pc = g.f, g.pc
	w.turn++
	w.setActive(g.mask)
}

// reconverge merges the active lanes with the groups at the same position, and lets
// lanes at a lower position of the frame run first.
func (w *warp) reconverge() {
	for i := 0; i < len(w.others); {
		g := &w.others[i]
		if g.f == w.f && g.pc == w.pc && g.wait == waitNothing {
			mask := g.mask
			last := len(w.others) - 1
			w.others[i] = w.others[last]
			w.others = w.others[:last]
			w.setActive(w.active | mask)
			continue
		}
		i++
	}
	if !w.fair {
		best := -1
		for i := range w.others {
			g := &w.others[i]
			if g.wait == waitNothing && g.f == w.f && g.pc < w.pc && (best < 0 || g.pc < w.others[best].pc) {
				best = i
			}
		}
		if best >= 0 {
			g := w.others[best]
			w.others[best] = group{f: w.f, pc: w.pc, mask: w.active, ran: w.turn}
			w.pc = g.pc
			w.turn++
			w.setActive(g.mask)
		}
	}
	w.setLimit()
}

// setLimit finds the next pc at which the active lanes may meet a group.
func (w *warp) setLimit() {
	w.limit = noLimit
	for i := range w.others {
		g := &w.others[i]
		if g.f == w.f && g.wait == waitNothing && g.pc < w.limit && g.pc >= w.pc {
			w.limit = g.pc
		}
	}
}

// rotate gives a slice to the group that has waited longest, whatever its pc.
func (w *warp) rotate() {
	w.slice = groupBudget
	best := -1
	for i := range w.others {
		if g := &w.others[i]; g.wait == waitNothing && (best < 0 || g.ran < w.others[best].ran) {
			best = i
		}
	}
	if best < 0 {
		w.setLimit()
		return
	}
	g := w.others[best]
	w.turn++
	w.others[best] = group{f: w.f, pc: w.pc, mask: w.active, ran: w.turn}
	w.f, w.pc = g.f, g.pc
	w.setActive(g.mask)
	w.fair = true
	w.reconverge()
}

// finish ends a warp whose lanes have all exited.
func (w *warp) finish() {
	w.state = warpDone
	w.b.done++
	w.tr.finish()
	if w.f != nil {
		w.k.freeFrame(w.f)
		w.f = nil
	}
}
