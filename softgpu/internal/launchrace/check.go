package launchrace

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/internal/vclock"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Check finds launches that touch the same memory and that nothing orders. It keeps
// what each launch, copy and fill has touched, until every operation that can still run comes
// after it. When an operation ends, the check looks for bytes that it and another one have
// touched and that one of them has written. So it does not matter which of the two ran first.
//
// A nil *Check does nothing. It is safe for concurrent use. It calls gaveUp, and the iterators that it
// gets, with its lock held: these must not call it.
type Check struct {
	memory Memory
	gaveUp func(what string, n int) // counts what the check gives up

	mu    sync.Mutex
	host  vclock.Clock        // what the host has waited for
	heads []uint64            // how many operations each chain has
	open  map[*Track]struct{} // launches, copies and fills that are not done
	ends  uint64              // how many have ended
	kept  map[*footprint]struct{}
	pages map[uint64][]*footprint // those kept that have touched a page
	words map[uint64]releases     // of a page

	running   map[*Track]struct{} // launches, copies and fills that have begun and not ended
	acquired  []*standing         // operations that acquired a word, which a running operation may have released
	waiting   []*waiting          // conflicts that a running operation may order
	edges     []edge
	added     uint64 // how many edges there have been
	edgeLimit int    // the number of edges at which tidyEdges runs

	weight, limit int // weight of all that is kept, and the weight at which tidy runs
	most          int // weight above which tidy drops the oldest, although others may still conflict with them
}

// Weights of what is kept, in the memory of a run, and their bounds.
const (
	footprintWeight = 32
	pageWeight      = 6
	leastLimit      = 1 << 12
	mostWeight      = 12 << 20 // some 300 MB
)

// What the check can give up.
const (
	gaveUpLaunches  = "launches, copies and fills were forgotten, because too much waits for a synchronization of the host: races with them are not found"
	gaveUpAcquired  = "launches that had acquired a word were counted as ordered, because there are too many: races with them are not found"
	gaveUpConflicts = "conflicts were not judged, because too many waited for launches that run: they may be races"
	gaveUpEdges     = "orders between launches were counted as orders of all launches, because there are too many: races may not be found"
)

// footprint is what an operation has touched, and where it stands in the order.
type footprint struct {
	*kernelrace.Footprint
	*standing
	op   *Operation
	side func(r *kernelrace.Run, off uint16) simt.FindingSide // nil for copies and fills
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

// Memory says what is at addresses. Pages have pageSize bytes, and are numbered by their address.
type Memory struct {
	// Compared reports whether accesses to a page are compared. Memory without an allocation is not:
	// its addresses get other owners without the driver's knowledge.
	Compared func(page uint64) bool
	// OnHost reports whether the host can read and write a page.
	OnHost func(page uint64) bool
	// Place returns the allocation that holds an address, for reports, and the offset in it, or
	// the address if there is none.
	Place func(addr uint64) (memory string, offset, address uint64)
}

const pageSize = 1 << kernelrace.WrittenShift

// New returns the check of a driver. gaveUp counts what the check gives up to bound its memory.
func New(m Memory, gaveUp func(what string, n int)) *Check {
	return &Check{
		memory: m, gaveUp: gaveUp, open: map[*Track]struct{}{}, running: map[*Track]struct{}{},
		kept: map[*footprint]struct{}{}, pages: map[uint64][]*footprint{}, words: map[uint64]releases{},
		limit: leastLimit, most: mostWeight, edgeLimit: leastEdges,
	}
}

// Between returns what a running launch asks the check. It is nil for a nil Check.
func (c *Check) Between(t *Track) *simt.Between {
	if c == nil {
		return nil
	}
	return &simt.Between{Wants: c.memory.Compared, OnHost: c.memory.OnHost, Signals: func() { c.HostSees(t) }}
}

// End ends a compared operation that has run. touched is what it has touched. End returns the
// races that are certain now, also those between other operations. side describes the access of
// a run to the byte at an offset in its page, for launches.
func (c *Check) End(t *Track, op *Operation, touched *kernelrace.Footprint, side func(r *kernelrace.Run, off uint16) simt.FindingSide) []*Race {
	if c == nil {
		return nil
	}
	var found []*waiting
	for _, x := range c.end(t, &footprint{Footprint: touched, op: op, side: side}) {
		w := &waiting{a: x.a.Kind, b: x.b.Kind, first: x.first.standing, second: x.second.standing}
		w.race = x.race(c.memory)
		found = append(found, w)
	}
	return c.judge(found)
}

// end looks for conflicts of an operation that has run with those before it, and keeps
// what it has touched.
func (c *Check) end(t *Track, f *footprint) []*conflict {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends++
	delete(c.running, t)
	f.standing = &standing{at: t.at, past: c.closed(t.past), ended: c.ends, edges: c.added}
	f.late = f.past
	if f.AsksHost && f.Acquires {
		f.late = f.late.Join(c.host)
	}
	c.synchronize(f, t)
	t.past = f.late // for what follows it
	var found conflicts
	for _, number := range slices.Sorted(maps.Keys(f.Pages)) {
		c.endPage(f, number, &found)
	}
	c.keep(f)
	c.tidy()
	return found.list
}

// endPage does the work of end for a page.
func (c *Check) endPage(f *footprint, number uint64, found *conflicts) {
	page := f.Pages[number]
	c.pages[number] = slices.DeleteFunc(c.pages[number], func(g *footprint) bool {
		before := g.Pages[number]
		c.refresh(g.standing)
		switch {
		case f.past.Has(g.at):
			if page.Covers(&before) { // what conflicts with g conflicts with f
				c.drop(g, number)
				return true
			}
		case !g.comesBefore(f.standing) && (g.op.Kernel != "" || f.op.Kernel != ""):
			found.add(g, f, number, &before, &page)
		}
		return false
	})
	c.pages[number] = append(c.pages[number], f)
	c.weight += weightOf(&page)
}

func weightOf(p *kernelrace.Page) int { return pageWeight + p.Runs() }

// drop removes a page from g. The caller removes g from the list of that page.
func (c *Check) drop(g *footprint, number uint64) {
	p := g.Pages[number]
	c.weight -= weightOf(&p)
	delete(g.Pages, number)
	if len(g.Pages) == 0 {
		c.unkeep(g)
	}
}

// keep keeps f, because later operations may conflict with it or acquire its words.
func (c *Check) keep(f *footprint) {
	c.kept[f] = struct{}{}
	c.weight += footprintWeight
	for _, addr := range f.Released {
		number := addr / pageSize
		if c.words[number] == nil {
			c.words[number] = releases{}
		}
		c.words[number].add(addr, f)
	}
}

// unkeep undoes keep, if that was not done yet.
func (c *Check) unkeep(f *footprint) {
	if _, ok := c.kept[f]; !ok {
		return
	}
	c.weight -= footprintWeight
	delete(c.kept, f)
	for _, addr := range f.Released {
		number := addr / pageSize
		if c.words[number].remove(addr, f); len(c.words[number]) == 0 {
			delete(c.words, number)
		}
	}
}

// comesBefore reports whether all of g comes before all of f, or after it.
func (g *standing) comesBefore(f *standing) bool { return f.past.Has(g.at) || g.past.Has(f.at) }

// ordered reports whether accesses of g and f are ordered, although not all of g and f are.
func (g *standing) ordered(f *standing, a, b kernelrace.Kind) bool {
	return b&kernelrace.Late != 0 && f.late.Has(g.at) || a&kernelrace.Late != 0 && g.late.Has(f.at)
}

// synchronize orders f and an operation if one of them has released a word that the other has
// acquired. All accesses of the releasing operation count as before the release.
func (c *Check) synchronize(f *footprint, t *Track) {
	if f.Acquires {
		for number, page := range f.Pages {
			for addr, all := range c.words[number] {
				if !page.ReadsStrongly(uint16(addr % pageSize)) {
					continue
				}
				for g := range all {
					f.late = f.late.Join(g.late.With(g.at))
				}
			}
		}
		f.late = c.closed(f.late)
	}
	for _, g := range c.acquired {
		if t.began < g.ended && slices.ContainsFunc(f.Released, g.readsStrongly) {
			before := f.late.With(f.at)
			g.late = g.late.Join(before)
			c.addEdge(g.at, before)
		}
	}
	c.keepAcquired(f)
	if t.seen && !f.past.Contains(f.late) { // operations that follow f know only what came before f began
		c.addEdge(f.at, f.late)
	}
	c.refresh(f.standing)
}

// tidy drops the footprints that every operation that can still run comes after. It runs when the
// weight has doubled. If the weight is still too large, it drops the oldest footprints.
func (c *Check) tidy() {
	if len(c.edges) > c.edgeLimit {
		c.tidyEdges()
	}
	if c.weight <= c.limit {
		return
	}
	floor := c.floor()
	for f := range c.kept {
		if floor.Has(f.at) {
			c.remove(f)
		}
	}
	if c.weight > c.most {
		c.removeOldest()
	}
	c.limit = max(leastLimit, 2*c.weight)
}

func (c *Check) removeOldest() {
	byAge := slices.SortedFunc(maps.Keys(c.kept), func(f, g *footprint) int { return cmp.Compare(f.ended, g.ended) })
	n := 0
	for n < len(byAge) && c.weight > c.most/2 {
		c.remove(byAge[n])
		n++
	}
	c.gaveUp(gaveUpLaunches, n)
}

// remove forgets f.
func (c *Check) remove(f *footprint) {
	for number := range f.Pages {
		c.setPage(number, slices.DeleteFunc(c.pages[number], func(g *footprint) bool { return g == f }))
		c.drop(f, number)
	}
	c.unkeep(f)
}

func (c *Check) setPage(number uint64, list []*footprint) {
	if len(list) == 0 {
		delete(c.pages, number)
	} else {
		c.pages[number] = list
	}
}

// Forget removes all accesses to the n bytes of an allocation that is freed, because other
// memory may get the address.
func (c *Check) Forget(addr, n uint64) {
	if c == nil || n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, last := addr/pageSize, (addr+n-1)/pageSize
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

func (c *Check) forgetPage(number, from, to uint64) {
	list, ok := c.pages[number]
	if !ok {
		return
	}
	start := number * pageSize
	c.setPage(number, slices.DeleteFunc(list, func(f *footprint) bool {
		p := f.Pages[number]
		rest := p.Without(max(from, start)-start, min(to-start, pageSize))
		if rest.Runs() == 0 {
			c.drop(f, number)
			return true
		}
		c.weight += rest.Runs() - p.Runs()
		f.Pages[number] = rest
		return false
	}))
}

// Stats counts what a Check keeps.
type Stats struct {
	Open    int // operations that have not ended
	Running int // those that have begun
	Waiting int // conflicts, and operations that have acquired a word, that a running operation may order
	Kept    int // operations whose footprints are kept
	Pages   int // pages that these have touched
	Weight  int // what this takes
	Chains  int // of operations in order
}

// Stats returns what the check keeps now.
func (c *Check) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Open: len(c.open), Running: len(c.running), Waiting: len(c.waiting) + len(c.acquired),
		Kept: len(c.kept), Pages: len(c.pages), Weight: c.weight, Chains: len(c.heads),
	}
}
