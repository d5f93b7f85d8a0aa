package softgpu

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// launchCheck finds launches that touch the same memory and that nothing orders. It keeps
// what each launch, copy and fill has touched, until all that can still run comes after it.
// When another one ends, it looks for bytes that both have touched and one has written. So
// the order in which the two happened to run does not matter.
//
// A nil *launchCheck does nothing. Its lock is taken after Driver.mu.
type launchCheck struct {
	space *space

	mu    sync.Mutex
	host  past                // what the host has waited for
	heads []uint64            // how many operations each chain has
	open  map[*track]struct{} // launches, copies and fills that are not done
	ends  uint64              // how many have ended
	kept  map[*footprint]struct{}
	pages map[uint64][]*footprint // those kept that have touched a page
	words map[uint64]releases     // of a page

	running   map[*track]struct{} // launches, copies and fills that have begun and not ended
	acquired  []*standing         // those that acquired a word, which something that runs may have released
	waiting   []*waiting          // conflicts that something that runs may order
	edges     []edge
	added     uint64 // how many edges there have been
	edgeLimit int    // when to look for edges that can go

	beforeEnd func(o *op) // in tests: is called before the check learns of an end

	weight, limit int // of what is kept, and when to look for what can go
	most          int // weight from which the oldest go, although others may still conflict with them

	gaveUp func(what string, n int) // counts what the check gives up
}

// Weights of what is kept, in the memory of a run, and their bounds.
const (
	footprintWeight = 32
	pageWeight      = 6
	leastLimit      = 1 << 12
	mostWeight      = 12 << 20 // some 300 MB
)

// footprint is what an operation has touched, and where it stands in the order.
type footprint struct {
	*kernelrace.Footprint
	*standing
	op operation
}

// releases are words, and those kept that have released them.
type releases map[uint64]map[*footprint]struct{}

func (r releases) add(addr uint64, f *footprint) {
	if r[addr] == nil {
		r[addr] = map[*footprint]struct{}{}
	}
	r[addr][f] = struct{}{}
}

func (r releases) remove(addr uint64, f *footprint) {
	if delete(r[addr], f); len(r[addr]) == 0 {
		delete(r, addr)
	}
}

// newLaunchCheck returns the check of a driver, or nil if it checks nothing.
func newLaunchCheck(s *space, checks bool, gaveUp func(what string, n int)) *launchCheck {
	if !checks {
		return nil
	}
	return &launchCheck{
		space: s, open: map[*track]struct{}{}, kept: map[*footprint]struct{}{}, pages: map[uint64][]*footprint{},
		words:   map[uint64]releases{},
		running: map[*track]struct{}{}, limit: leastLimit, most: mostWeight, edgeLimit: leastEdges, gaveUp: gaveUp,
	}
}

// wants reports whether a page is memory of an allocation. Other memory is not compared:
// that of malloc in kernels and of cooperative launches, and ordinary memory of the host.
// Its addresses get other owners without the driver's knowledge.
func (c *launchCheck) wants(page uint64) bool {
	_, ok := c.space.overlaps(page*writtenSize, (page+1)*writtenSize)
	return ok
}

// onHost reports whether a page is memory of the host, or managed memory.
func (c *launchCheck) onHost(page uint64) bool {
	x, ok := c.space.overlaps(page*writtenSize, (page+1)*writtenSize)
	return ok && x.region.kind.onHost()
}

// end looks for conflicts of an operation o that has run with those before it, and keeps
// what it has touched.
func (c *launchCheck) end(o *op, f *footprint) []*conflict {
	if c.beforeEnd != nil {
		c.beforeEnd(o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := o.track
	c.ends++
	delete(c.running, t)
	f.standing = &standing{at: t.at, past: c.closed(t.past), ended: c.ends, edges: c.added}
	f.late = f.past
	if f.AsksHost && f.Acquires {
		f.late = f.late.join(c.host)
	}
	c.synchronize(f, t)
	t.past = f.late // for what follows o
	var found conflicts
	for _, number := range slices.Sorted(maps.Keys(f.Pages)) {
		c.endPage(f, number, &found)
	}
	c.keep(f)
	c.tidy()
	return found.list
}

// endPage does the work of end for a page.
func (c *launchCheck) endPage(f *footprint, number uint64, found *conflicts) {
	page := f.Pages[number]
	c.pages[number] = slices.DeleteFunc(c.pages[number], func(g *footprint) bool {
		before := g.Pages[number]
		c.refresh(g.standing)
		switch {
		case f.past.has(g.at):
			if page.Covers(&before) { // what conflicts with g conflicts with f
				c.drop(g, number)
				return true
			}
		case !g.comesBefore(f.standing) && (g.op.kernel != "" || f.op.kernel != ""):
			found.add(g, f, number, &before, &page)
		}
		return false
	})
	c.pages[number] = append(c.pages[number], f)
	c.weight += weightOf(&page)
}

func weightOf(p *kernelrace.Page) int { return pageWeight + p.Runs() }

// drop forgets a page of g, which the caller takes from the list of the page.
func (c *launchCheck) drop(g *footprint, number uint64) {
	p := g.Pages[number]
	c.weight -= weightOf(&p)
	delete(g.Pages, number)
	if len(g.Pages) == 0 {
		c.unkeep(g)
	}
}

// keep adds f to those that others may conflict with, or may acquire a word of.
func (c *launchCheck) keep(f *footprint) {
	c.kept[f] = struct{}{}
	c.weight += footprintWeight
	for _, addr := range f.Released {
		number := addr / writtenSize
		if c.words[number] == nil {
			c.words[number] = releases{}
		}
		c.words[number].add(addr, f)
	}
}

// unkeep undoes keep, if that was not done yet.
func (c *launchCheck) unkeep(f *footprint) {
	if _, ok := c.kept[f]; !ok {
		return
	}
	c.weight -= footprintWeight
	delete(c.kept, f)
	for _, addr := range f.Released {
		number := addr / writtenSize
		if c.words[number].remove(addr, f); len(c.words[number]) == 0 {
			delete(c.words, number)
		}
	}
}

// comesBefore reports whether all of g comes before all of f, or after it.
func (g *standing) comesBefore(f *standing) bool { return f.past.has(g.at) || g.past.has(f.at) }

// ordered reports whether accesses of g and f are ordered, although not all of g and f are.
func (g *standing) ordered(f *standing, a, b kernelrace.Kind) bool {
	return b&kernelrace.Late != 0 && f.late.has(g.at) || a&kernelrace.Late != 0 && g.late.has(f.at)
}

// synchronize orders f with operations that it has shared a word with: one has released the
// word, and the other has acquired it. All of the first counts as before the release.
func (c *launchCheck) synchronize(f *footprint, t *track) {
	if f.Acquires {
		for number, page := range f.Pages {
			for addr, all := range c.words[number] {
				if !page.ReadsStrongly(uint16(addr % writtenSize)) {
					continue
				}
				for g := range all {
					f.late = f.late.join(g.late.with(g.at))
				}
			}
		}
		f.late = c.closed(f.late)
	}
	for _, g := range c.acquired {
		if t.began < g.ended && slices.ContainsFunc(f.Released, g.readsStrongly) {
			before := f.late.with(f.at)
			g.late = g.late.join(before)
			c.addEdge(g.at, before)
		}
	}
	c.keepAcquired(f)
	if t.seen && !f.past.contains(f.late) { // what follows is behind f, but has the past of its beginning
		c.addEdge(f.at, f.late)
	}
	c.refresh(f.standing)
}

// tidy forgets what everything that can still run comes after, each time when the weight has
// doubled. If that is not enough, it forgets the oldest.
func (c *launchCheck) tidy() {
	if len(c.edges) > c.edgeLimit {
		c.tidyEdges()
	}
	if c.weight <= c.limit {
		return
	}
	floor := c.floor()
	for f := range c.kept {
		if floor.has(f.at) {
			c.remove(f)
		}
	}
	if c.weight > c.most {
		c.removeOldest()
	}
	c.limit = max(leastLimit, 2*c.weight)
}

func (c *launchCheck) removeOldest() {
	byAge := slices.SortedFunc(maps.Keys(c.kept), func(f, g *footprint) int { return cmp.Compare(f.ended, g.ended) })
	n := 0
	for n < len(byAge) && c.weight > c.most/2 {
		c.remove(byAge[n])
		n++
	}
	c.gaveUp(gaveUpLaunches, n)
}

// remove forgets f.
func (c *launchCheck) remove(f *footprint) {
	for number := range f.Pages {
		c.setPage(number, slices.DeleteFunc(c.pages[number], func(g *footprint) bool { return g == f }))
		c.drop(f, number)
	}
	c.unkeep(f)
}

func (c *launchCheck) setPage(number uint64, list []*footprint) {
	if len(list) == 0 {
		delete(c.pages, number)
	} else {
		c.pages[number] = list
	}
}

// forget forgets what was done to n bytes from an address on, which are an allocation that
// is freed: other memory may get the address.
func (c *launchCheck) forget(addr, n uint64) {
	if c == nil || n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, last := addr/writtenSize, (addr+n-1)/writtenSize
	if last-first < uint64(len(c.pages)) {
		for number := first; number <= last; number++ {
			c.forgetPage(number, addr, addr+n)
		}
		return
	}
	for number := range c.pages {
		if number >= first && number <= last {
			c.forgetPage(number, addr, addr+n)
		}
	}
}

func (c *launchCheck) forgetPage(number, from, to uint64) {
	list, ok := c.pages[number]
	if !ok {
		return
	}
	start := number * writtenSize
	c.setPage(number, slices.DeleteFunc(list, func(f *footprint) bool {
		p := f.Pages[number]
		rest := p.Without(max(from, start)-start, min(to-start, writtenSize))
		if rest.Runs() == 0 {
			c.drop(f, number)
			return true
		}
		c.weight += rest.Runs() - p.Runs()
		f.Pages[number] = rest
		return false
	}))
}
