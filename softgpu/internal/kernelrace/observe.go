package kernelrace

import "slices"

// A strong read that finds the value of a strong write comes after that write alone: not after
// what the writing thread did before, which needs a release and an acquire. What the reader
// does next in program order comes after the write, too, and so does what is ordered behind the
// read. The PTX ISA calls that observation order. Atomic operations continue it: a thread that
// finds the result of one has also observed the strong writes before it.
//
// The last strong write of some bytes is their head. The strong writes that a reader of the head
// has observed are chained to it. A strong write that is no atomic operation, by a thread that
// does not know the head, begins a new chain: a thread that finds it has not observed the writes
// before it. The threads that know a head are its writer and its watchers: the threads that have
// found it by a strong read. Another thread knows it if one of them comes before.
//
// A thread that does not look at what it reads would do the same behind any other value. Its
// behaviour does not depend on the value, so a blind read orders nothing and the thread does not
// become a watcher. A blind atomic operation does not know what it has changed.

// follow updates the chain of the bytes of a strong access, and finds the heads that the thread
// knows. It is called before the access is checked against others.
func (x *check) follow(c *cell) {
	writes := x.e.tag.strongWrite()
	x.strange = false
	if c.state&led != 0 {
		x.findHeads(c, writes)
		if writes && !x.a.Update {
			x.leaveChain(c)
		}
	}
	if writes {
		x.unwatch()
		x.e.tag |= tagHead
		if x.leads = !x.a.Update || !x.a.Blind || !x.strange; !x.leads {
			x.e.tag |= tagBlind
		}
	}
}

// findHeads finds the heads that the thread knows. A strong read makes the thread a watcher of the
// other heads. A strong write replaces them as the head.
func (x *check) findHeads(c *cell, writes bool) {
	list := x.list(c)
	for i := range c.n() {
		if e := c.get(i); e.tag&tagHead != 0 && x.findHead(&e, writes) {
			c.set(i, &e)
		}
	}
	for i := range list {
		if e := &list[i]; e.tag&tagHead != 0 {
			x.findHead(e, writes)
		}
	}
}

// findHead does that for one head. It reports whether the head has changed.
func (x *check) findHead(e *entry, writes bool) bool {
	over := (e.tag & x.e.tag).bytes()
	if over == 0 {
		return false
	}
	if x.known |= x.watched(over); e.tag&tagFlags != tagBlind && x.after(e) {
		x.known |= over
	}
	if over&^x.known != 0 {
		x.strange = true
		if x.a.Kind&(Strong|Write) == Strong && !x.a.Blind && !x.conflict(e.tag.kind(), e.who>>x.b.d.shift == x.b.number) {
			x.watch(over)
		}
	}
	if writes {
		e.tag = e.tag&^tagFlags | tagChained
	}
	return writes
}

// leaveChain removes from the chain the strong writes that the thread does not know. The access is
// a strong write, and no atomic operation.
func (x *check) leaveChain(c *cell) {
	list := x.list(c)
	for i := range c.n() + len(list) {
		e := c.at(list, i)
		over := (e.tag & x.e.tag).bytes()
		if e.tag&tagFlags == 0 || over&^x.known == 0 || x.after(&e) {
			continue
		}
		if e.tag &^= tagFlags; i < c.n() {
			c.set(i, &e)
		} else {
			list[i-c.n()] = e
		}
	}
}

// after reports whether an access by one thread comes before this one, by what the thread has
// done and seen.
func (x *check) after(e *entry) bool {
	first, last := e.ends(e.tag.bytes())
	if first != last {
		return false
	}
	if first == x.me {
		return true
	}
	d := x.b.d
	block, t := first>>d.shift, first&(1<<d.shift-1)
	return x.th.seen.has(block, t, e.when>>instBits)
}

// has reports whether an interval of a thread was seen.
func (c *clock) has(block, t, interval uint32) bool {
	if c == nil {
		return false
	}
	p := &c.own
	if block != c.block {
		p = c.rest[block]
	}
	return p != nil && p.at(t) >= interval
}

// watchers are the threads that have found the heads of some bytes of a word.
type watchers struct {
	bytes uint8
	group
}

// watched returns those of some bytes of which the thread knows the head because it, or a
// thread that comes before, has read it.
func (x *check) watched(some uint8) (known uint8) {
	if len(*x.watchers) == 0 {
		return 0
	}
	for _, w := range (*x.watchers)[x.word] {
		if w.bytes&some != 0 && w.before(x.b, x.t) {
			known |= w.bytes & some
		}
	}
	return known
}

// watch makes the thread a watcher of the heads of some bytes.
func (x *check) watch(some uint8) {
	if *x.watchers == nil {
		*x.watchers = map[uint64][]*watchers{}
	}
	all := (*x.watchers)[x.word]
	for _, w := range all {
		if w.bytes == some {
			w.add(x.b.number, x.t, x.th.now)
			return
		}
	}
	w := &watchers{bytes: some}
	w.add(x.b.number, x.t, x.th.now)
	(*x.watchers)[x.word] = append(all, w)
}

// unwatch drops the watchers of the bytes of the access.
func (x *check) unwatch() {
	if len(*x.watchers) == 0 {
		return
	}
	all := (*x.watchers)[x.word]
	for _, w := range all {
		w.bytes &^= x.e.tag.bytes()
	}
	if all = slices.DeleteFunc(all, func(w *watchers) bool { return w.bytes == 0 }); len(all) == 0 {
		delete(*x.watchers, x.word)
	} else {
		(*x.watchers)[x.word] = all
	}
}

// group has threads, each with the interval in which it has joined. The zero value is empty.
type group struct{ blocks map[uint32]*part }

// add lets a thread of a block join, in an interval.
func (g *group) add(block uint32, t int, interval uint32) {
	if g.blocks == nil {
		g.blocks = map[uint32]*part{}
	}
	p := g.blocks[block]
	if p == nil {
		p = &part{}
		g.blocks[block] = p
	}
	p.setLane(t, interval)
}

// before reports whether thread t of a block has joined, or has seen that another one has.
func (g *group) before(b *Block, t int) bool {
	if p := g.blocks[b.number]; p != nil && p.at(uint32(t)) != 0 {
		return true
	}
	seen := b.threads[t].seen
	if seen == nil {
		return false
	}
	for block, p := range g.blocks {
		if p.anySeen(seen, block) {
			return true
		}
	}
	return false
}

// anySeen reports whether a clock has the interval that is kept for one of the threads.
func (p *part) anySeen(seen *clock, block uint32) bool {
	for w := range p.warps {
		lanes := p.warps[w].lanes
		if lanes == nil {
			continue
		}
		for i, n := range lanes {
			if n != 0 && seen.has(block, uint32(w*warpSize+i), n) {
				return true
			}
		}
	}
	return false
}
