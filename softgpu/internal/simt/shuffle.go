package simt

import (
	"math/rand/v2"
	"runtime"
)

// Shuffle makes the order of blocks and the interleaving of warps follow a seed. One worker
// then runs the launch, so that the order does not depend on the number of cores.
//
// The seed chooses the order in which blocks begin, how many run at once, which warp has the
// next turn, and where a turn ends. A turn ends at barriers, at loops that poll memory, and
// at some of the accesses and fences that order threads. Which lanes of a warp run first does
// not change.
type Shuffle struct {
	Seed   uint64
	Launch uint64 // number of the launch, so that launches with one seed differ
}

// shuffler makes the choices of one launch.
type shuffler struct {
	rng    *rand.Rand
	window uint64   // blocks whose order is mixed: each of them begins before those behind
	at     uint64   // start of the window that order describes
	order  []uint32 // of the blocks of the window
	width  int      // blocks that run at once
	rarely int      // a turn ends after 1 to 2*rarely-1 ordering instructions
	left   int      // of them until the turn ends
	ready  []*warp  // scratch
}

// What the seed chooses from. Few blocks at once and rare switches find a wrong order of long
// parts, many blocks and frequent switches a wrong order of single instructions.
var (
	shuffleWindows = [...]uint64{8, 32, 256}
	shuffleWidths  = [...]int{1, 2, 4, 16, 64}
	shuffleRarely  = [...]int{1, 2, 8, 64}
)

const (
	// shuffleBudgets is the number of budgets of a turn: 1<<7 instructions in loops, 1<<8
	// and so on to warpBudget.
	shuffleBudgets = 9
	leastBudget    = warpBudget >> (shuffleBudgets - 1)
	// shufflePatience is how many instructions run before further blocks begin, even if
	// no block seems to wait for one.
	shufflePatience = turnsUntilNext * warpBudget / 8
	// A warp that has polled memory has a turn again after restBudget instructions of the
	// worker, and restCost more for each warp. So a round in which all warps poll ends
	// before.
	restBudget = 2 * warpBudget
	restCost   = 2 * pollCost
	// shufflePolls is how often a group of lanes polls before another group of its warp
	// has a turn.
	shufflePolls = 4
)

// newShuffler returns the shuffler of a launch, nil if its order is fixed.
func newShuffler(x *execution) *shuffler {
	o := x.l.Shuffle
	if o == nil {
		return nil
	}
	rng := rand.New(rand.NewPCG(o.Seed, ^o.Launch))
	s := &shuffler{rng: rng}
	s.window = min(pick(rng, shuffleWindows[:]), uint64(x.resident), x.blocks)
	s.width = min(pick(rng, shuffleWidths[:]), x.resident)
	s.rarely = pick(rng, shuffleRarely[:])
	return s
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// block returns the number of the block that begins as number n. A block may wait for
// blocks before it, however many. So the order is mixed only among the blocks of a window,
// which all fit into a worker.
func (s *shuffler) block(n, blocks uint64) uint64 {
	if s.order == nil || n-s.at >= s.window {
		s.at = n - n%s.window
		s.order = s.order[:0]
		for i := range min(s.window, blocks-s.at) {
			s.order = append(s.order, uint32(i))
		}
		s.rng.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	}
	return s.at + uint64(s.order[n-s.at])
}

// begin begins a turn and returns how many instructions in loops it may have.
func (s *shuffler) begin() int {
	s.left = 1 + s.rng.IntN(2*s.rarely-1)
	return leastBudget << s.rng.IntN(shuffleBudgets)
}

// ends reports whether the turn of a warp ends behind an instruction.
func (s *shuffler) ends(in *inst) bool {
	if !in.orders() {
		return false
	}
	s.left--
	return s.left <= 0
}

// orders reports whether an instruction can order threads: a strong access, an atomic
// operation, a fence, an operation of a barrier object, an arrival at a barrier.
func (in *inst) orders() bool {
	switch {
	case in.kind == kindBarrier, in.fence != fenceNone:
		return true
	case in.mem == nil:
		return false
	}
	if _, first := in.aux.(copyLimit); first {
		return false // the second half of a cp.async writes what this one has read
	}
	return in.mem.strong || in.mem.atomic || in.src.Op == "mbarrier" || in.src.Op == "cp"
}

// shuffledRound are the blocks of a worker whose order follows a seed. The first awake ones
// may have a turn. In the others each warp has polled memory, or waits for one that has.
// A round ends when none is awake, or after restLimit instructions.
type shuffledRound struct {
	blocks  []*block
	awake   int
	turns   int
	retired bool   // a block has ended in this round
	polls   uint64 // of the worker at the last endRound
	grown   uint64 // instructions of the worker when the width grew
	woken   uint64 // instructions of the worker when the round began
}

// loopShuffled does the work of loop for a launch whose order follows a seed.
func (k *worker) loopShuffled() {
	r := &shuffledRound{}
	defer func() { k.leave(r.blocks) }()
	for !k.x.stop.Load() {
		if k.fill(r); len(r.blocks) == 0 {
			return
		}
		k.yield()
		i := k.shuffle.rng.IntN(r.awake)
		b := r.blocks[i]
		w, err := b.choose()
		if w != nil {
			err = b.turn(w)
		}
		switch {
		case err != nil:
			k.x.fail(err)
			return
		case b.done == len(b.warps):
			k.retire(b)
			r.remove(i)
		case w == nil:
			r.rest(i)
		}
		if r.turns++; r.awake == 0 || r.turns%turnsUntilNext == 0 {
			k.endRound(r)
		}
		if r.awake == 0 || k.instructions-r.woken > k.restLimit(r) {
			k.wake(r)
		}
	}
}

// restLimit returns how many instructions a round may have. Without a limit a round may never
// end: a warp that spins by plain loads does not rest, and may wait for a warp that does.
func (k *worker) restLimit(r *shuffledRound) uint64 {
	return restBudget + restCost*uint64(len(r.blocks)*k.x.warps)
}

// rest moves block i behind those that are awake.
func (r *shuffledRound) rest(i int) {
	r.awake--
	r.blocks[i], r.blocks[r.awake] = r.blocks[r.awake], r.blocks[i]
}

// remove takes block i, which is awake, off the list.
func (r *shuffledRound) remove(i int) {
	r.rest(i)
	last := len(r.blocks) - 1
	r.blocks[r.awake] = r.blocks[last]
	r.blocks = r.blocks[:last]
	r.retired = true
}

// fill begins blocks until as many run as the launch has at once.
func (k *worker) fill(r *shuffledRound) {
	for len(r.blocks) < k.shuffle.width {
		b := k.begin()
		if b == nil {
			return
		}
		for i, w := range b.warps {
			w.start(b, i)
		}
		b.started = len(b.warps)
		r.blocks = append(r.blocks, b)
		last := len(r.blocks) - 1
		r.blocks[r.awake], r.blocks[last] = r.blocks[last], r.blocks[r.awake]
		r.awake++
	}
}

// endRound ends a round, because every warp that can run has polled memory, or after a number of
// turns. If no block has ended in it, the next round has more blocks: these may wait for a block
// that has not begun.
func (k *worker) endRound(r *shuffledRound) {
	s := k.shuffle
	if k.mapped != nil {
		k.mapped.turn(r.blocks)
	}
	polled := k.polls != r.polls
	r.polls = k.polls
	if p := k.x.l.Pulse; p != nil && polled {
		p.Polls.Add(1)
	}
	if r.awake == 0 && !r.retired || k.instructions-r.grown > shufflePatience {
		r.grown = k.instructions
		s.width = max(s.width, min(2*len(r.blocks), k.x.resident))
		runtime.Gosched()
	}
}

// wake begins a round: every warp that can run may have a turn.
func (k *worker) wake(r *shuffledRound) {
	r.retired, r.awake, r.woken = false, len(r.blocks), k.instructions
	for _, b := range r.blocks {
		for _, w := range b.warps {
			w.rests = false
		}
	}
}

// choose returns one of the warps that can run and have not polled memory in this round, nil
// if there is none. It returns the fault of a block whose warps all wait for barriers.
func (b *block) choose() (*warp, error) {
	s := b.k.shuffle
	s.ready = s.ready[:0]
	rests := false
	for _, w := range b.warps {
		switch {
		case w.state != warpReady:
		case w.rests:
			rests = true
		default:
			s.ready = append(s.ready, w)
		}
	}
	switch {
	case len(s.ready) > 0:
		return pick(s.rng, s.ready), nil
	case rests:
		return nil, nil
	}
	return nil, b.stuck()
}
