package softgpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
	refusals "github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Schedule chooses when queued work starts, and what new device and page-locked memory holds:
// zeros under Eager, NaNs under Lazy, and bytes that the seed decides under Random. Every choice
// is legal: a program that synchronizes correctly, and reads only what was written, sees the
// same bytes under each. Do not compare a
// value of ParseSchedule with Random, because a Random with a seed is another
// value.
type Schedule uint64

const (
	// Eager starts an operation as soon as the operations that it must follow
	// are done.
	Eager Schedule = iota
	// Lazy starts operations when a call waits for them, or when nothing has
	// happened for a quarter of a second. A missing synchronization shows as
	// stale data every time.
	Lazy
	// Random starts operations one at a time, at times and in an order that the
	// seed decides. The seed also chooses the order of the blocks of a kernel and
	// the interleaving of its warps, so one core runs a kernel. The same seed
	// gives the same run on any number of cores.
	Random
)

// The low bits of a schedule are its kind, those above are a seed of Random.
const seedShift = 8

func (s Schedule) kind() Schedule { return s & (1<<seedShift - 1) }

func (s Schedule) seed() uint64 { return uint64(s >> seedShift) }

func (s Schedule) known() bool {
	return s.kind() <= Random && (s.seed() == 0 || s.kind() == Random)
}

// String returns the text that [ParseSchedule] reads: "eager", "lazy", "random"
// or "random:17".
func (s Schedule) String() string {
	switch {
	case !s.known():
		return fmt.Sprintf("schedule %d", uint64(s))
	case s.seed() != 0:
		return fmt.Sprintf("random:%d", s.seed())
	}
	return [...]string{"eager", "lazy", "random"}[s]
}

// ParseSchedule reads "eager", "lazy", "random" or "random:SEED". SEED is a
// number below 2 to the 56th; 0 leaves the choice to [Options].
func ParseSchedule(text string) (Schedule, error) {
	switch text {
	case "eager":
		return Eager, nil
	case "lazy":
		return Lazy, nil
	case "random":
		return Random, nil
	}
	digits, ok := strings.CutPrefix(text, "random:")
	if !ok {
		return 0, refusals.Invalid("schedule %s is not known: use eager, lazy, random or random:SEED", printable.Value(text))
	}
	seed, err := strconv.ParseUint(digits, 10, 64-seedShift)
	if err != nil {
		return 0, refusals.Invalid("schedule %s: the seed is not a number from 0 to %d", printable.Value(text), uint64(1)<<(64-seedShift)-1)
	}
	return Random | Schedule(seed)<<seedShift, nil
}

// submit queues w after deps and starts it if the schedule says so. The caller
// holds mu.
func (d *Driver) submit(c *contextState, s *streamState, w *work, deps []*op) *op {
	d.opID++
	o := &op{id: d.opID, work: w, ctx: c, stream: s, noLatency: w.noLatency, on: w.engine, kind: w.kind}
	if s != nil {
		o.priority = s.priority
	}
	for _, dep := range deps {
		o.follow(dep)
	}
	c.check(o, deps)
	c.open++
	if w.launch != nil {
		c.kernels++
		if s != nil {
			s.kernels++
		}
	}
	d.unretired++
	o.noteUses()
	o.raceSubmit(deps)
	o.trackSubmit(deps)
	o.noteQueued()
	if len(d.steps) == 0 {
		d.sim.admit(d, o)
	} else {
		d.inOrder(func() { d.sim.admit(d, o) })
	}
	d.addOp(o)
	return o
}

// idleAfter is how long queued work waits for a call that needs it.
const idleAfter = 250 * time.Millisecond

// addOp adds a new op. It is released at once, or kept for later. The caller
// holds mu.
func (d *Driver) addOp(o *op) {
	if d.schedule == Eager {
		d.release(o)
		return
	}
	d.unreleased = append(d.unreleased, o)
	d.startIdleTimer()
}

// startIdleTimer starts the timer that releases all work when nothing happens.
func (d *Driver) startIdleTimer() {
	d.lastUse = time.Now()
	if d.idleTimer == nil && len(d.unreleased) > 0 {
		d.idleTimer = time.AfterFunc(d.idleAfter, d.idleTimeout)
	}
}

// idleTimeout releases everything if nothing has happened for idleAfter.
func (d *Driver) idleTimeout() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idleTimer = nil
	if len(d.unreleased) == 0 {
		return
	}
	if rest := d.idleAfter - time.Since(d.lastUse); rest > 0 {
		d.idleTimer = time.AfterFunc(rest, d.idleTimeout)
		return
	}
	d.releaseMatching(func(*op) bool { return true })
}

// releaseUpTo releases o and all ops that it must follow. The caller holds mu,
// which Random releases while it waits.
func (d *Driver) releaseUpTo(o *op) {
	if o == nil || d.schedule == Eager || o.done && o.released {
		return
	}
	if d.schedule == Random {
		d.runShuffled(o)
	}
	d.releaseAll(closure(o))
}

// releaseMatching releases the queued ops for which want is true, and all ops
// that they must follow.
func (d *Driver) releaseMatching(want func(*op) bool) {
	if len(d.unreleased) == 0 {
		return
	}
	var roots []*op
	for _, o := range d.unreleased {
		if want(o) {
			roots = append(roots, o)
		}
	}
	if d.schedule == Random {
		for _, o := range roots {
			d.runShuffled(o)
		}
	}
	d.releaseAll(closure(roots...))
}

// releaseAll releases ops in the order in which they were queued.
func (d *Driver) releaseAll(ops []*op) {
	slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(a.id, b.id) })
	for _, o := range ops {
		d.release(o)
	}
	d.unreleased = slices.DeleteFunc(d.unreleased, func(o *op) bool { return o.released })
	if len(d.unreleased) == 0 && d.idleTimer != nil {
		d.idleTimer.Stop()
		d.idleTimer = nil
	}
}

// closure returns the unreleased ops among roots and their dependencies.
func closure(roots ...*op) []*op {
	var out []*op
	seen := map[*op]bool{}
	todo := slices.Clone(roots)
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if o.released || seen[o] {
			continue
		}
		seen[o] = true
		out = append(out, o)
		todo = append(todo, o.deps...)
	}
	return out
}

// poll restarts the idle timer, and lets the Random schedule run some of the
// queued ops. Every call in a context polls once. The caller holds mu, which is
// released during the wait.
func (d *Driver) poll() {
	if d.schedule == Eager || len(d.unreleased) == 0 {
		return
	}
	d.startIdleTimer()
	if d.schedule != Random {
		return
	}
	for d.rng.IntN(2) == 0 {
		if !d.runOne(d.startable()) {
			return
		}
	}
}

// runShuffled runs startable ops one at a time, in random order, until target
// is released. Half of the time it prefers an op that target does not need.
func (d *Driver) runShuffled(target *op) {
	needed := map[*op]bool{}
	for _, o := range closure(target) {
		needed[o] = true
	}
	for !target.released {
		free := d.startable()
		other := d.rng.IntN(2) == 0
		chosen := slices.DeleteFunc(slices.Clone(free), func(o *op) bool { return needed[o] == other })
		if len(chosen) == 0 {
			chosen = free
		}
		if !d.runOne(chosen) {
			return
		}
	}
}

// startable returns the unreleased ops whose dependencies are done.
func (d *Driver) startable() []*op {
	var out []*op
	for _, o := range d.unreleased {
		if !o.released && o.pendingDeps == 0 {
			out = append(out, o)
		}
	}
	return out
}

// runOne releases one of ops and does a bounded wait for it. It returns false
// if there is none.
func (d *Driver) runOne(ops []*op) bool {
	if len(ops) == 0 {
		return false
	}
	o := ops[d.rng.IntN(len(ops))]
	d.releaseAll([]*op{o})
	d.boundedWait(o)
	return true
}

// shuffle returns how the kernel of o orders its blocks and warps, nil for the fixed order.
func (d *Driver) shuffle(o *op) *simt.Shuffle {
	if d.schedule != Random {
		return nil
	}
	return &simt.Shuffle{Seed: d.seed, Launch: o.id}
}

// release lets o start as soon as its dependencies are done. The caller holds
// mu.
func (d *Driver) release(o *op) {
	if o.released {
		return
	}
	o.released = true
	if o.pendingDeps == 0 {
		d.dispatch(o)
	}
}

// dispatch executes o, whose dependencies are done. The caller holds mu.
func (d *Driver) dispatch(o *op) {
	if o.work.run == nil || o.ctx.poison != nil {
		d.complete(o, nil)
		return
	}
	if !o.mayExecute() {
		return
	}
	d.launches.Begin(o.track)
	d.running++
	if o.parks() {
		d.parked++
	}
	d.start(o)
}

// execute runs o and then completes it.
func (d *Driver) execute(o *op) {
	err := errGoexit(o.work.what)
	defer func() { // also when user code ends the goroutine
		d.addRaces(d.launches.Stop(o.track))
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running--
		if o.parks() {
			d.parked--
		}
		o.executed()
		d.complete(o, o.failure(err))
		d.runDeferredUnmaps()
	}()
	if err = o.work.run(o); err == nil {
		o.endSpans()
	}
}

// complete marks o done and dispatches the ops that waited for it. The caller
// holds mu.
func (d *Driver) complete(o *op, err error) {
	todo := []*op{o}
	o.err = err
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		o.done = true
		d.failed = d.failed || o.err != nil
		o.raceDone()
		o.trackDone()
		o.ctx.open--
		o.ctx.recordFault(o)
		if o.work.done != nil {
			o.work.done(o)
		}
		if o.doneCh != nil {
			close(o.doneCh)
		}
		for _, next := range o.succs {
			next.pendingDeps--
			if next.pendingDeps > 0 || !next.released {
				continue
			}
			if next.work.run == nil || next.ctx.poison != nil {
				todo = append(todo, next)
			} else {
				d.dispatch(next)
			}
		}
		o.dropLinks()
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// boundedWait waits until o is done, or until o has made no progress for its
// waitLimit. Then o counts as timed out, and no later call waits to know its
// cost. If o's context is being destroyed, its kernels are stopped. The caller
// holds mu, which is released during the wait.
func (d *Driver) boundedWait(o *op) {
	if o.done || o.timedOut {
		return
	}
	if o.work.exchange != nil {
		d.awaitExchange(o)
		return
	}
	ch := o.doneChan()
	began, seen, polls := time.Now(), o.progress(), o.pollCount()
	step := time.NewTicker(waitStep)
	defer step.Stop()
	for !o.done && !o.timedOut {
		d.mu.Unlock()
		select {
		case <-ch:
		case <-step.C:
		}
		d.mu.Lock()
		if now := o.progress(); now != seen {
			began, seen, polls = time.Now(), now, o.pollCount()
		}
		if !o.done && time.Since(began) > o.waitLimit(polls) {
			o.timedOut = true
			if o.ctx.dead {
				o.ctx.cancelKernels(errDestroyed)
			}
		}
	}
}

// waitAnyDone waits until some op is done. The caller holds mu, which is
// released during the wait.
func (d *Driver) waitAnyDone() {
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	ch := d.changed
	d.mu.Unlock()
	<-ch
	d.mu.Lock()
}
