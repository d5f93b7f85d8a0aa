package simt

import "sync"

// trace follows the time of the warps of one block. Its warps have a clock each, and each
// register has the time at which its value is there.
//
// It counts no contention: the time is what a warp would take that has the device for
// itself. The limits of what all warps do together are found from sums over all blocks.
type trace struct {
	model  *Model
	number uint64 // of the block
	warps  int64  // of the block
	others int64  // warps that share the cache of the multiprocessor, with those of the block

	chain, waited int64
	waits         []uint64
	longest       uint64

	instructions, special, double uint64

	asked  [][16]uint64 // by counter
	over   [][16]uint64 // moved, for lines that missed does not hold
	missed []missedLine
	low    []uint64
	high   []uint64
	cache  *blockCache
}

// missedLine is a line that the first-level cache fetched for a block.
type missedLine struct {
	line    uint64
	counter uint8
	sectors uint8
	start   int64 // of the fetch, on the clock of the warp
	crowded bool  // the block itself leaves the line in the cache; other blocks may not
}

// missedLines is the most lines of a block that are kept. More do not fit any cache.
const missedLines = 1 << 14

// tracedInstructions is the most instructions of a block that are followed. The rest of its
// warps is assumed to be like what was seen.
const tracedInstructions = 1 << 15

// warpTrace is the state of a warp that is followed.
type warpTrace struct {
	block *trace // nil if the warp is not followed
	clock int64  // ps since the block began, when the last load, store or branch was issued
	slot  int64  // when the next instruction could be issued if none waited since the last branch
	limit int    // instructions that will be followed
	count int    // instructions that were followed
	fills int64  // lines that the warp has fetched

	// The latest times at which instructions since the last stall could start: loads, and
	// others. Both have the memory that they waited for.
	lateLoad, late int64

	counted int64 // the latest time of a wait that was counted
	waited  int64
	waits   [levelMask]uint64
	start   int64 // of the current access
	served  int64 // latency of the current access, with the counter in its lowest bits
	lines   int64 // of the current access
	polled  [2]uint64
	stopped bool
}

// Times at which a register is ready have the memory that it waits for in the lowest bits:
// 0 for none, otherwise the counter and one. For a line that the cache holds if no other
// block needs its place, crowdedLevel is added.
const (
	levelBits    = 4
	levelMask    = 1<<levelBits - 1
	crowdedLevel = 7
	mostCounters = crowdedLevel
)

// newTrace returns a trace for block n.
func (x *execution) newTrace(n uint64) *trace {
	c := x.l.Counters
	m := x.l.Model
	t := &trace{model: m, number: n, waits: make([]uint64, levelMask), asked: make([][16]uint64, c), over: make([][16]uint64, c), low: make([]uint64, c), high: make([]uint64, c)}
	blocks := (x.blocks + uint64(max(1, x.l.Multiprocessors)) - 1) / uint64(max(1, x.l.Multiprocessors))
	t.warps = int64(x.warps)
	t.others = max(t.warps, min(int64(m.Warps), int64(blocks)*t.warps))
	return t
}

// begin starts to follow a warp whose frame is new.
func (t *trace) begin(w *warp) {
	w.tr = warpTrace{block: t, limit: max(1<<11, tracedInstructions/len(w.b.warps))}
	w.f.follow()
}

// follow clears the times of the frame's registers.
func (f *frame) follow() {
	if f.ready == nil {
		f.ready, f.readyPred = make([]int64, len(f.regs)), make([]int64, len(f.preds))
		return
	}
	clear(f.ready)
	clear(f.readyPred)
}

// issue finds when w issues in, and when the result is ready.
//
// The compiler moves instructions, but not over branches and barriers, and loads not over
// stores. So between two branches arithmetic starts when its operands are ready, loads and
// stores follow each other, and the second branch waits until all have started.
func (w *warp) issue(in *inst) {
	t := &w.tr
	if t.count++; t.count > t.limit {
		w.stopTrace()
		return
	}
	f, b := w.f, t.block
	m := b.model
	c := &m.Classes[in.class&classMask]
	b.special += uint64(c.Special)
	b.double += uint64(c.Double)
	need := f.needs(in, m)
	start := max(t.slot, need>>levelBits)
	t.slot += c.Issue * m.Cycle
	switch {
	case in.kind != kindExec:
		t.stall(max(need, t.late))
		t.clock = max(t.clock, t.slot-c.Issue*m.Cycle)
		start = t.clock
		t.clock += c.Issue * m.Cycle
		t.late, t.slot = 0, t.clock
	case in.mem == nil:
		t.late = max(t.late, need)
	case in.mem.write:
		t.stall(need)
		start = max(t.clock, t.slot)
		t.clock = start
	default:
		if start > t.clock {
			t.wait(need)
		}
		start = max(start, t.clock)
		t.lateLoad = max(t.lateLoad, need)
	}
	done := (start + c.Latency*m.Cycle) << levelBits
	if need>>levelBits >= start {
		done |= need & levelMask // what waits for it waits for the same memory
	}
	switch {
	case in.mem != nil:
		t.served, t.lines, t.start = 0, 0, start
	case in.cmp != nil:
		f.readyPred[in.p] = done
		if in.q >= 0 {
			f.readyPred[in.q] = done
		}
	case in.aux != nil:
		if l, ok := in.aux.(logic); ok {
			f.readyPred[l.p] = done
		} else if in.d > 0 {
			f.ready[in.d] = done
		}
	case in.d > 0:
		f.ready[in.d] = done
	}
}

// needs returns when the operands of in are ready. A branch needs its predicate earlier than
// other instructions do.
func (f *frame) needs(in *inst, m *Model) int64 {
	r := f.ready
	need := max(r[in.a], r[in.b], r[in.c])
	if in.guard >= 0 {
		at := f.readyPred[in.guard]
		if in.kind == kindBranch {
			at += m.Guard * m.Cycle << levelBits
		}
		need = max(need, at)
	}
	if in.p > 0 && in.cmp == nil {
		need = max(need, f.readyPred[in.p])
	}
	if l, ok := in.aux.(logic); ok {
		need = max(need, f.readyPred[l.a], f.readyPred[l.b])
	}
	if in.mem != nil && in.mem.write && !in.mem.atomic {
		for _, s := range in.mem.regs {
			need = max(need, r[s])
		}
	}
	return need
}

// stall moves the clock to the time at which the operands are ready and the loads before
// have started.
func (t *warpTrace) stall(need int64) {
	late := max(need, t.lateLoad)
	t.lateLoad = 0
	if at := late >> levelBits; at > t.clock {
		if late&levelMask != 0 {
			t.waited += at - t.clock
			t.wait(late)
		}
		t.clock = at
	}
}

// wait counts a wait until ready, unless an earlier wait until then or later was counted.
func (t *warpTrace) wait(ready int64) {
	if level := ready & levelMask; level != 0 && ready>>levelBits > t.counted {
		t.waits[level-1]++
		t.counted = ready >> levelBits
	}
}

const classMask = 31

// arrive sets when the registers that an access loads are ready.
func (w *warp) arrive(in *inst) {
	t := &w.tr
	if t.block == nil || in.mem.write && !in.mem.atomic {
		return
	}
	m := t.block.model
	lat := t.served >> levelBits
	if t.lines == 0 {
		lat = m.Shared
	}
	// The unit that looks up lines takes one in a cycle.
	at := (t.start+lat+max(0, t.lines-1)*m.Cycle)<<levelBits | t.served&levelMask
	if in.mem.strong && len(in.mem.regs) > 0 && w.idlePoll(in) {
		at = t.clock << levelBits
	}
	if in.mem.atomic {
		if in.d > 0 {
			w.f.ready[in.d] = at
		}
		return
	}
	for _, d := range in.mem.regs {
		w.f.ready[d] = at
	}
}

// idlePoll reports whether a load has found what the one before it found at the same address.
// Such a load takes no time here: how often a warp polls depends on the computer.
func (w *warp) idlePoll(in *inst) bool {
	lane := trailing(w.active)
	seen := [2]uint64{w.f.lane(in.a, lane) + w.offset(in.mem), w.f.lane(in.mem.regs[0], lane)}
	same := seen == w.tr.polled
	w.tr.polled = seen
	return same
}

// jumped adds the time until a warp continues after a jump.
func (t *warpTrace) jumped() {
	t.clock += t.block.model.Branch * t.block.model.Cycle
	t.slot = t.clock
}

// stopTrace ends following a warp that runs on.
func (w *warp) stopTrace() {
	w.tr.stopped = true
	w.tr.finish()
	w.tr.block, w.k.followed = nil, nil
	w.setActive(w.active)
}

// finish adds a warp that is done, or is not followed further.
func (t *warpTrace) finish() {
	b := t.block
	if b == nil {
		return
	}
	b.instructions += uint64(min(t.count, t.limit))
	if t.clock > b.chain {
		b.chain, b.waited = t.clock, t.waited
		copy(b.waits, t.waits[:])
	}
}

// extend accounts for a warp of which only the first instructions were followed.
func (t *warpTrace) extend(b *trace, ran uint64) {
	if !t.stopped || t.limit == 0 {
		return
	}
	more := float64(ran) / float64(t.limit)
	if chain := int64(float64(t.clock) * more); chain > b.chain {
		b.chain, b.waited = chain, int64(float64(t.waited)*more)
		for i := range b.waits {
			b.waits[i] = uint64(float64(t.waits[i]) * more)
		}
	}
}

// meet lets warps that waited for each other continue at the same time.
func (b *block) meet(id int) {
	latest := int64(0)
	for _, w := range b.warps[:b.started] {
		for i := range w.others {
			if g := &w.others[i]; g.wait == waitBarrier && g.barrier == id {
				latest = max(latest, w.tr.clock)
			}
		}
	}
	for _, w := range b.warps[:b.started] {
		for i := range w.others {
			if g := &w.others[i]; g.wait == waitBarrier && g.barrier == id {
				w.tr.clock, w.tr.slot = latest, latest
			}
		}
	}
}

// touchLine follows an access to sectors of a line.
func (w *warp) touchLine(counter int, m *access, line uint64, sectors uint8) {
	t := &w.tr
	b := t.block
	if counter >= len(b.low) {
		return
	}
	if b.high[counter] == 0 {
		b.low[counter] = line
	}
	b.low[counter], b.high[counter] = min(b.low[counter], line), max(b.high[counter], line)
	if m.write && !m.atomic {
		return
	}
	t.lines++
	lat := b.model.Latency[counter]<<levelBits | int64(counter+1)
	if !m.write && !m.uncached && b.model.Cached[counter] && b.model.Lines > 0 {
		b.asked[counter][sectors]++
		switch missing, crowded := b.fetch(t, counter, line, sectors); {
		case crowded:
			lat = b.model.L1<<levelBits | int64(counter+1+crowdedLevel)
		case missing == 0:
			lat = b.model.L1 << levelBits
		}
	}
	t.served = max(t.served, lat)
}

// traceRun follows an access of lanes 0 to n-1 at addr + i*step, step not negative.
func (w *warp) traceRun(counter int, m *access, lo, step, extent uint64) {
	n := w.n
	if step <= m.bytes {
		first, last := lo>>sectorShift, (lo+extent-1)>>sectorShift
		for first <= last {
			at := first & 3
			n := min(4-at, last-first+1)
			w.touchLine(counter, m, first>>2, uint8((1<<n-1)<<at))
			first += n
		}
		return
	}
	line, sectors := lo>>lineShift, uint8(0)
	for range n {
		if l := lo >> lineShift; l != line {
			w.touchLine(counter, m, line, sectors)
			line, sectors = l, 0
		}
		sectors |= sectorOf(lo)
		lo += step
	}
	w.touchLine(counter, m, line, sectors)
}

// blockCache is the first-level cache as one block sees it. Its warps run one after the
// other here, and together on hardware. So the age of a line is not when it was fetched, but
// how many lines the warp that wants it fetches from then on, times the warps that do so.
type blockCache struct {
	epoch uint32
	lines [1 << 12]blockLine
}

type blockLine struct {
	line    uint64
	fill    int64 // lines that the warp which fetched it had fetched then
	start   int64 // of the last fetch, on the clock of its warp
	missed  int32 // the record of the last fetch, -1 if there is none
	epoch   uint32
	sectors uint8
}

var blockCaches = sync.Pool{New: func() any { return new(blockCache) }}

// fetch returns the sectors that the cache does not hold, and puts them there. crowded
// reports that the cache holds them if other blocks leave them there.
func (b *trace) fetch(t *warpTrace, counter int, line uint64, sectors uint8) (missing uint8, crowded bool) {
	if b.cache == nil {
		b.cache = blockCaches.Get().(*blockCache)
		b.cache.epoch++
	}
	e := &b.cache.lines[line*0x9e3779b97f4a7c15>>52]
	age := max(0, t.fills-e.fill)
	if e.line != line || e.epoch != b.cache.epoch || age*b.warps >= int64(b.model.Lines) {
		*e = blockLine{line: line, epoch: b.cache.epoch, fill: t.fills, missed: -1}
		t.fills++
	} else if age*b.others >= int64(b.model.Lines) {
		crowded = true
		b.miss(e, t, counter, sectors, true)
		e.fill = t.fills
		t.fills++
	} else if t.start < e.start && e.missed >= 0 && b.missed[e.missed].sectors&sectors != 0 {
		// On hardware this warp comes first, and fetches what the other one then finds.
		b.missed[e.missed].sectors &^= sectors
		e.sectors &^= sectors
	}
	if missing = sectors &^ e.sectors; missing != 0 {
		e.sectors |= sectors
		b.miss(e, t, counter, missing, false)
		crowded = false
	}
	return missing, crowded
}

// miss records sectors that the cache fetched for the block.
func (b *trace) miss(e *blockLine, t *warpTrace, counter int, sectors uint8, crowded bool) {
	e.start = t.start
	if len(b.missed) >= missedLines {
		b.over[counter][sectors]++
		e.missed = -1
		return
	}
	e.missed = int32(len(b.missed))
	b.missed = append(b.missed, missedLine{e.line, uint8(counter), sectors, t.start, crowded})
}

// done ends following the block.
func (b *trace) done(k *worker) {
	if b.cache != nil {
		blockCaches.Put(b.cache)
		b.cache = nil
	}
	k.traces = append(k.traces, b)
}

// addLoads adds the block's loads to the sample of its multiprocessor.
func (b *trace) addLoads(to []SampledLoads, cache *sharedCache, alike bool) {
	for c := range to {
		for m := range b.asked[c] {
			to[c].Asked[m] += b.asked[c][m]
			to[c].Moved[m] += b.over[c][m]
		}
	}
	for _, m := range b.missed {
		switch {
		case m.sectors == 0:
			continue
		case m.crowded && !alike:
			to[m.counter].Moved[m.sectors]++
			continue
		}
		if left := cache.fetch(m.line, m.sectors); left != 0 {
			to[m.counter].Moved[left]++
		}
	}
}

// addRange adds the lines between which the block's accesses were.
func (b *trace) addRange(to []SampledLoads) {
	for c := range to {
		if b.high[c] == 0 {
			continue
		}
		if to[c].High == 0 {
			to[c].Low = b.low[c]
		}
		to[c].Low, to[c].High = min(to[c].Low, b.low[c]), max(to[c].High, b.high[c])
	}
}
