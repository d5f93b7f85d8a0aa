package simt

// Model is what a launch needs to know of a device so that it can follow the time of some of
// its blocks. Times are in picoseconds, so that sums of them do not depend on their order.
type Model struct {
	Cycle   int64            // of a multiprocessor's clock
	Classes [NumClasses]Work // what an instruction of each class needs

	// Guard is how much longer a branch waits for a predicate than other instructions do,
	// and Branch the time until a warp continues after a jump, in cycles.
	Guard, Branch int64

	// Shared and L1 are the latencies of shared memory and of the first-level cache.
	Shared, L1 int64
	// Latency is the latency of memory beyond that cache, by counter.
	Latency []int64
	// Cached tells for each counter whether the first-level cache keeps its loads.
	Cached []bool
	// Lines is how many lines of 128 bytes the first-level cache of a multiprocessor has.
	Lines int
	// Locked tells for each counter whether an atomic operation keeps others from its line.
	Locked []bool
	// Warps is how many warps a multiprocessor runs at once, at most. They share the cache.
	Warps int
}

// Work is what one instruction needs of a multiprocessor, in cycles of a warp.
type Work struct {
	Latency int64 // until another instruction can use the result
	Issue   int64 // until the warp can issue its next instruction
	Special int64 // of the special function units of the multiprocessor's quarter
	Double  int64 // of its f64 units
}

// Sample is what the sampled blocks of a launch did. Which blocks these are depends only on
// the shape of the launch: all of multiprocessor 0, up to sampledBlocks, the first of
// multiprocessor 1, and the last of the grid.
type Sample struct {
	Blocks uint64 // how many; 0 if there is no sample

	// Chain is the time of the longest warp, if no other warp delays it: each
	// instruction waits for the results that it needs, each load for the memory that
	// serves it. ChainSum is the sum of the longest warps of all sampled blocks.
	Chain, ChainSum uint64
	// Waits is how often the longest warp waited for memory of each counter. Waited is
	// its part of Chain.
	Waits []uint64
	// Crowded is how often it waited for lines that are in the first-level cache if other
	// blocks leave them there. They do so if they load the same lines, which Alike tells.
	Crowded []uint64
	Alike   bool
	Waited  uint64
	// Longest is the most instructions that one sampled warp ran.
	Longest uint64

	// Instructions is how many instructions of warps were followed. The others are
	// the cycles that they need.
	Instructions, Special, Double uint64

	Loads []SampledLoads // by counter
}

// SampledLoads describes the loads of one counter that the first-level cache may serve. The
// index is a mask of the four sectors of a line.
type SampledLoads struct {
	Asked [16]uint64 // what the warps asked for
	Moved [16]uint64 // what was not in the cache

	// Lines is how many lines the first block of multiprocessor 0 fetched. Common is how
	// many of them the first block of multiprocessor 1 fetched too, AtOnce how many it
	// fetched at the same time.
	Lines, Common, AtOnce uint64
	// Low and High are the lowest and the highest line that any access touched.
	Low, High uint64
}

// Hits reports whether the cache served any sector.
func (s *SampledLoads) Hits() bool { return s.Asked != s.Moved }

// sampledBlocks is the most blocks of one multiprocessor in a sample.
const sampledBlocks = 64

// sampled reports whether a launch follows block n.
func (x *execution) sampled(n uint64) bool {
	if x.l.Model == nil {
		return false
	}
	sms := uint64(max(1, x.l.Multiprocessors))
	return n%sms == 0 && n/sms < sampledBlocks || n == 1 || n == x.blocks-1
}

// addSample puts the records of the sampled blocks together, in the order of the blocks.
func (x *execution) addSample(traces []*trace) {
	if len(traces) == 0 {
		return
	}
	s := &x.stats.Sample
	n := x.l.Counters
	s.Waits, s.Crowded, s.Loads = make([]uint64, n), make([]uint64, n), make([]SampledLoads, n)
	sms := uint64(max(1, x.l.Multiprocessors))
	var own []*trace // of multiprocessor 0
	for _, t := range traces {
		s.add(t)
		switch {
		case t.number%sms == 0:
			own = append(own, t)
		case t.number == 1 && len(own) > 0:
			countCommon(s.Loads, own[0], t)
		}
	}
	lines, common := uint64(0), uint64(0)
	for i := range s.Loads {
		lines, common = lines+s.Loads[i].Lines, common+s.Loads[i].Common
	}
	s.Alike = 2*common > lines
	cache := newSharedCache(x.l.Model.Lines)
	for _, t := range own {
		t.addLoads(s.Loads, cache, s.Alike)
	}
}

// add adds what a block did.
func (s *Sample) add(t *trace) {
	s.Blocks++
	s.ChainSum += uint64(t.chain)
	if uint64(t.chain) > s.Chain {
		s.Chain, s.Waited = uint64(t.chain), uint64(t.waited)
		copy(s.Waits, t.waits)
		copy(s.Crowded, t.waits[crowdedLevel:])
	}
	s.Longest = max(s.Longest, t.longest)
	s.Instructions += t.instructions
	s.Special += t.special
	s.Double += t.double
	t.addRange(s.Loads)
}

// countCommon counts the lines that two blocks of different multiprocessors fetched, and
// those that they fetched at the same time: within the latency of the memory.
func countCommon(loads []SampledLoads, a, b *trace) {
	in := map[uint64]int64{}
	for _, m := range b.missed {
		if _, again := in[m.line]; !again && m.sectors != 0 {
			in[m.line] = m.start
		}
	}
	for _, m := range a.missed {
		if m.sectors == 0 || m.crowded {
			continue
		}
		loads[m.counter].Lines++
		at, both := in[m.line]
		if !both {
			continue
		}
		loads[m.counter].Common++
		if wait := a.model.Latency[m.counter]; m.start < at+wait && at < m.start+wait {
			loads[m.counter].AtOnce++
		}
	}
}

// sharedCache is the first-level cache of a multiprocessor that runs blocks one after the
// other. A line stays until as many others were fetched as the cache has.
type sharedCache struct {
	lines map[uint64]cachedLine
	fills uint64
	size  uint64
}

type cachedLine struct {
	fill    uint64
	sectors uint8
}

func newSharedCache(lines int) *sharedCache {
	return &sharedCache{lines: map[uint64]cachedLine{}, size: uint64(lines)}
}

// fetch returns the sectors that are not in the cache, and puts them there.
func (c *sharedCache) fetch(line uint64, sectors uint8) uint8 {
	e, ok := c.lines[line]
	if !ok || c.fills-e.fill >= c.size {
		e = cachedLine{fill: c.fills}
		c.fills++
	}
	missing := sectors &^ e.sectors
	e.sectors |= sectors
	c.lines[line] = e
	return missing
}
