package launchrace

import (
	"cmp"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/internal/vclock"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// A word of memory can order two operations: one releases the word, and the other acquires it.
// The check finds this order when both have ended. The acquiring operation, and later ones, may
// end first. So the check does not judge a conflict while an operation runs that may order it.

// Bounds of what waits for operations that run.
const (
	leastEdges   = 1 << 6
	mostEdges    = 1 << 10
	mostWaiting  = 1 << 12
	mostAcquired = 1 << 12
)

// standing is the place of an ended operation in the order of all operations: what comes before it.
type standing struct {
	at     vclock.Point
	past   vclock.Clock   // what comes before it
	late   vclock.Clock   // what comes before its accesses that are kernelrace.Late
	edges  uint64         // the value of Check.added when past and late were last brought up to date
	ended  uint64         // its number among those that have ended
	strong []addressRange // what it has read by strong accesses, if it acquires: ranges in ascending order, with gaps between them
}

// addressRange is the addresses from from to to-1.
type addressRange struct{ from, to uint64 }

// edge is an order that was found late: all that follows the operation at a point also follows
// before. The check finds it when that operation ends. The clocks of operations that were queued
// after it do not have it yet.
type edge struct {
	at     vclock.Point
	before vclock.Clock
}

// waiting is a conflict that operations which run may still order.
type waiting struct {
	first, second *standing
	a, b          kernelrace.Kind // of their accesses
	race          *Race
}

// addEdge notes that all that follows the operation at a point also follows the clock before.
func (c *Check) addEdge(at vclock.Point, before vclock.Clock) {
	c.edges = append(c.edges, edge{at, before})
	c.added++
}

// closed returns p joined with the clocks of all edges that apply to it.
func (c *Check) closed(p vclock.Clock) vclock.Clock {
	for again := true; again; {
		again = false
		for i := range c.edges {
			if e := &c.edges[i]; p.Has(e.at) && !p.Contains(e.before) {
				p, again = p.Join(e.before), true
			}
		}
	}
	return p
}

// refresh applies the edges that are new to the clocks of s.
func (c *Check) refresh(s *standing) {
	if s.edges != c.added {
		s.past, s.late, s.edges = c.closed(s.past), c.closed(s.late), c.added
	}
}

// tidyEdges removes the edges that no running or later operation needs: all of these are known
// to come after what the edge orders. If there are still too many, it treats the oldest edges as
// if they ordered every running and later operation. The check then misses races with what these
// edges order.
func (c *Check) tidyEdges() {
	if forced := len(c.edges) - mostEdges/2; len(c.edges) > mostEdges {
		for i := range c.edges[:forced] {
			c.orderAll(c.edges[i].before)
		}
		c.gaveUp(gaveUpEdges, forced)
	}
	floor := c.floor()
	for f := range c.kept {
		c.refresh(f.standing)
	}
	for _, s := range c.acquired {
		c.refresh(s)
	}
	for _, w := range c.waiting {
		c.refresh(w.first)
		c.refresh(w.second)
	}
	c.edges = slices.DeleteFunc(c.edges, func(e edge) bool { return floor.Contains(e.before) })
	c.edgeLimit = min(max(leastEdges, 2*len(c.edges)), mostEdges)
}

// orderAll notes that the host, and every operation that has not ended, comes after a clock.
func (c *Check) orderAll(before vclock.Clock) {
	c.host = c.host.Join(before)
	for t := range c.open {
		t.past = t.past.Join(before)
	}
}

// floor returns what comes before every operation that can still run.
func (c *Check) floor() vclock.Clock {
	c.host = c.closed(c.host)
	floor := c.host
	for t := range c.open {
		t.past = c.closed(t.past)
		floor = floor.Meet(t.past)
	}
	return floor
}

// keepAcquired keeps the words that f has acquired, because running operations may have released
// them.
func (c *Check) keepAcquired(f *footprint) {
	if !f.Acquires || len(c.running) == 0 {
		return
	}
	var list []addressRange
	for number, p := range f.Pages {
		p.StrongReads(func(off, n uint16) {
			from := number*pageSize + uint64(off)
			list = append(list, addressRange{from, from + uint64(n)})
		})
	}
	slices.SortFunc(list, func(x, y addressRange) int { return cmp.Compare(x.from, y.from) })
	for _, x := range list {
		if n := len(f.strong); n > 0 && x.from <= f.strong[n-1].to {
			f.strong[n-1].to = max(f.strong[n-1].to, x.to)
		} else {
			f.strong = append(f.strong, x)
		}
	}
	c.acquired = append(c.acquired, f.standing)
	if len(c.acquired) > mostAcquired {
		c.forgetAcquired(mostAcquired / 2)
	}
}

// forgetAcquired drops the oldest n of acquired. Each then counts as ordered after every running
// operation that began before its end.
func (c *Check) forgetAcquired(n int) {
	for _, s := range c.acquired[:n] {
		for t := range c.running {
			if t.began < s.ended {
				before := t.past.With(t.at)
				s.late = s.late.Join(before)
				c.addEdge(s.at, before)
			}
		}
		s.strong = nil
	}
	c.acquired = slices.Delete(c.acquired, 0, n)
	c.gaveUp(gaveUpAcquired, n)
}

// readsStrongly reports whether s has read a word by strong accesses alone.
func (s *standing) readsStrongly(addr uint64) bool {
	i, ok := slices.BinarySearchFunc(s.strong, addr, func(x addressRange, addr uint64) int { return cmp.Compare(x.from, addr) })
	return ok || i > 0 && addr < s.strong[i-1].to
}

// Stop says that the operation of a track runs no longer: it has ended, or failed. It returns the
// races that this decides. t may be nil.
func (c *Check) Stop(t *Track) []*Race {
	if c == nil || t == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, t)
	return c.decide()
}

// judge adds conflicts of an operation that has ended, and returns the races that are
// decided.
func (c *Check) judge(found []*waiting) []*Race {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, found...)
	list := c.decide()
	if n := len(c.waiting) - mostWaiting; n > 0 {
		c.waiting = slices.Delete(c.waiting, 0, n)
		c.gaveUp(gaveUpConflicts, n)
	}
	return list
}

// decide returns the races of conflicts that nothing orders, and forgets the words acquired
// that nothing which runs can have released.
func (c *Check) decide() (list []*Race) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w *waiting) bool {
		c.refresh(w.first)
		c.refresh(w.second)
		if w.first.comesBefore(w.second) || w.first.ordered(w.second, w.a, w.b) {
			return true
		}
		if c.mayOrder(w) {
			return false
		}
		list = append(list, w.race)
		return true
	})
	began := uint64(math.MaxUint64)
	for t := range c.running {
		began = min(began, t.began)
	}
	n := 0
	for n < len(c.acquired) && c.acquired[n].ended <= began {
		c.acquired[n].strong = nil
		n++
	}
	c.acquired = slices.Delete(c.acquired, 0, n)
	return list
}

// mayOrder reports whether an operation that runs may order a conflict when it ends: it may
// have released a word for one of the two, or for something before them.
func (c *Check) mayOrder(w *waiting) bool {
	follows := func(at vclock.Point) bool {
		return w.first.at == at || w.second.at == at || w.first.late.Has(at) || w.second.late.Has(at)
	}
	for t := range c.running {
		if follows(t.at) { // it has let the host continue
			return true
		}
		for i := len(c.acquired) - 1; i >= 0 && t.began < c.acquired[i].ended; i-- {
			if follows(c.acquired[i].at) {
				return true
			}
		}
	}
	return false
}
