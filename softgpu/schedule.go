package softgpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule is a choice of when queued work starts. All are legal: a program that
// synchronises as it must sees the same bytes under each. Compare with Eager, Lazy
// and Random only what came from no text: a Random with a seed is another value.
type Schedule uint64

const (
	// Eager starts an operation as soon as what it must follow is done.
	Eager Schedule = iota
	// Lazy holds operations back until something waits for them, or nothing has
	// happened for a quarter of a second. A missing synchronisation shows as
	// stale data every time.
	Lazy
	// Random starts operations one at a time, at moments and in an order that
	// the seed decides. The same seed gives the same run.
	Random
)

// The low bits of a schedule are which, those above a seed of Random.
const seedShift = 8

func (s Schedule) kind() Schedule { return s & (1<<seedShift - 1) }
func (s Schedule) seed() uint64   { return uint64(s >> seedShift) }
func (s Schedule) known() bool {
	return s.kind() <= Random && (s.seed() == 0 || s.kind() == Random)
}

// String is what [ParseSchedule] reads: "eager", "lazy", "random" or "random:17".
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
		return 0, fmt.Errorf("no schedule %q: eager, lazy, random or random:SEED", text)
	}
	seed, err := strconv.ParseUint(digits, 10, 64-seedShift)
	if err != nil {
		return 0, fmt.Errorf("schedule %q: the seed is no number from 0 to %d", text, uint64(1)<<(64-seedShift)-1)
	}
	return Random | Schedule(seed)<<seedShift, nil
}

// idleAfter is how long held work waits for somebody to want it.
const idleAfter = 250 * time.Millisecond

// hold takes in a new op: it starts at once, or is held. mu is held.
func (d *Driver) hold(o *op) {
	if d.schedule == Eager {
		d.release(o)
		return
	}
	d.held = append(d.held, o)
	d.watch()
}

// watch starts the clock that ends idleness.
func (d *Driver) watch() {
	d.lastUse = time.Now()
	if d.idle == nil && len(d.held) > 0 {
		d.idle = time.AfterFunc(idleAfter, d.wake)
	}
}

// wake releases everything if nothing has happened for long enough.
func (d *Driver) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = nil
	if len(d.held) == 0 {
		return
	}
	if rest := idleAfter - time.Since(d.lastUse); rest > 0 {
		d.idle = time.AfterFunc(rest, d.wake)
		return
	}
	d.pushAll(func(*op) bool { return true })
}

// push releases o and all it must follow. mu is held; Random lets go of it.
func (d *Driver) push(o *op) {
	if o == nil || d.schedule == Eager || o.done && o.released {
		return
	}
	if d.schedule == Random {
		d.shuffle(o)
	}
	d.releaseAll(closure(o))
}

// pushAll releases the held ops that want says and all that they must follow.
func (d *Driver) pushAll(want func(*op) bool) {
	if len(d.held) == 0 {
		return
	}
	var roots []*op
	for _, o := range d.held {
		if want(o) {
			roots = append(roots, o)
		}
	}
	if d.schedule == Random {
		for _, o := range roots {
			d.shuffle(o)
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
	d.held = slices.DeleteFunc(d.held, func(o *op) bool { return o.released })
	if len(d.held) == 0 && d.idle != nil {
		d.idle.Stop()
		d.idle = nil
	}
}

// closure is the unreleased ops among the given ones and those before them.
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

// stir is Random's chance, once a call, to run some of what is held. mu is held,
// let go of and taken again.
func (d *Driver) stir() {
	if d.schedule == Eager || len(d.held) == 0 {
		return
	}
	d.watch()
	if d.schedule != Random {
		return
	}
	for d.rng.IntN(2) == 0 {
		if !d.runOne(d.free()) {
			return
		}
	}
}

// shuffle runs held ops that are free to start, one at a time in random order,
// until target is done. What target does not need has half a chance.
func (d *Driver) shuffle(target *op) {
	needed := map[*op]bool{}
	for _, o := range closure(target) {
		needed[o] = true
	}
	for !target.released {
		free := d.free()
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

// free is the held ops whose dependencies are done.
func (d *Driver) free() []*op {
	var out []*op
	for _, o := range d.held {
		if !o.released && o.realWait == 0 {
			out = append(out, o)
		}
	}
	return out
}

// runOne releases one of ops and waits for it, within patience. It is false if
// there was none.
func (d *Driver) runOne(ops []*op) bool {
	if len(ops) == 0 {
		return false
	}
	o := ops[d.rng.IntN(len(ops))]
	d.releaseAll([]*op{o})
	d.bearWith(o)
	return true
}
