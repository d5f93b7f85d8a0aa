package uvm

// Limits of the thrashing policy, in nanoseconds and events. The names are
// those of NVIDIA's driver: a throttled processor naps, a lapse separates
// events that do not belong together.
const (
	lapse       = 500e3        // longest time between events of a page that belong together
	thrashAfter = 3            // events until a page thrashes
	nap         = lapse        // how long a throttled processor may not access the page
	pinAfter    = 10           // naps until the page is pinned
	pinFor      = 300 * lapse  // how long a page stays pinned
	epoch       = 2000 * lapse // time without an event after which a block's history is reset
	maxResets   = 4
)

// thrashing is the thrashing history of a block.
type thrashing struct {
	pages      mask // those that thrash
	info       map[int]*pageThrash
	seen       bool
	last       float64 // time of the last event of any page
	lastBy     Processor
	lastThrash float64 // time of the last event of a page that thrashes
	resets     int
}

// pageThrash is the thrashing history of a page.
type pageThrash struct {
	last        float64
	events      int
	processors  uint32 // those that take part: a bit for each device, the CPU's is the last
	throttled   uint32 // the processors that nap
	napEnd      float64
	naps        int
	unthrottled Processor // the processor that does not nap
	pinned      bool
	pinnedAt    Processor // the place where it is pinned
	pinEnd      float64
}

// hint is what the history recommends for a fault.
type hint struct {
	throttle bool
	pin      bool
	at       Processor
}

func bit(p Processor) uint32 { return 1 << (uint32(p) & 31) }

// recordMigration records that pages migrated to p.
func (t *thrashing) recordMigration(pages *mask, p Processor, now float64) {
	if pages.empty() {
		return
	}
	defer func() { t.seen, t.last, t.lastBy = true, now, p }()
	if t.info == nil { // one processor alone, or rare events, need no history of pages
		if !t.seen || t.lastBy == p || now-t.last > lapse {
			return
		}
		t.info = map[int]*pageThrash{}
	}
	for i := pages.next(0); i < blockPages; i = pages.next(i + 1) {
		x := t.info[i]
		if x == nil {
			x = &pageThrash{unthrottled: Nowhere, last: never, napEnd: never}
			t.info[i] = x
		}
		before := x.last
		x.last, x.processors = now, x.processors|bit(p)
		switch {
		case before == never:
		case now-before <= lapse:
			if x.events++; x.events >= thrashAfter {
				t.pages.set(i)
				t.lastThrash = now
			}
		case x.events >= thrashAfter && !x.pinned:
			t.reset(i)
		}
	}
}

// never is a time before all others.
const never = -1e300

// reset clears the history of a page. The number of its naps is kept.
func (t *thrashing) reset(i int) {
	if x := t.info[i]; x != nil {
		*x = pageThrash{naps: x.naps, unthrottled: x.unthrottled, last: never, napEnd: never}
	}
	t.pages.clear(i)
}

// forget clears the history of pages that the program moved.
func (t *thrashing) forget(pages *mask) {
	if t.info == nil {
		return
	}
	for i := pages.next(0); i < blockPages; i = pages.next(i + 1) {
		t.reset(i)
	}
}

// hint returns whether p is throttled on a page, or where the page is pinned.
func (s *Space) hint(b *block, i int, p Processor, a Advice, now float64) hint {
	t := &b.thrash
	if t.info == nil {
		return hint{}
	}
	if t.lastThrash != 0 && now-t.lastThrash > epoch && !t.anyPinned(now) && t.resets < maxResets {
		*t = thrashing{resets: t.resets + 1}
		return hint{}
	}
	x := t.info[i]
	if x == nil || x.events < thrashAfter {
		return hint{}
	}
	if x.pinned && now >= x.pinEnd { // the driver unmaps it and clears its history
		s.unmapRemote(b, i)
		t.reset(i)
		return hint{}
	}
	if x.throttled&bit(p) != 0 {
		if now < x.napEnd && x.unthrottled != p {
			return hint{throttle: true}
		}
		x.wake(p)
	}
	if now-x.last > lapse && !x.pinned {
		return hint{}
	}
	x.processors |= bit(p)
	x.nextPeriod(p, now)
	h := s.choose(b, x, i, p, a)
	switch {
	case h.pin:
		x.pin(h.at, now)
	case h.throttle && x.throttled&bit(p) == 0:
		x.throttled |= bit(p)
		if !x.pinned {
			x.naps++
		}
	}
	return h
}

// wake ends the nap of p.
func (x *pageThrash) wake(p Processor) {
	if x.throttled &^= bit(p); x.throttled == 0 {
		x.napEnd = never
	}
}

// pin pins the page to a place. A page that is pinned already keeps its end
// time.
func (x *pageThrash) pin(at Processor, now float64) {
	if !x.pinned {
		x.pinned, x.pinEnd, x.naps = true, now+pinFor, 0
		x.throttled, x.napEnd = 0, never
	}
	x.pinnedAt = at
}

// nextPeriod chooses the processor that does not nap in the next period. The
// same processor is not chosen twice in a row.
func (x *pageThrash) nextPeriod(p Processor, now float64) {
	switch {
	case now > x.napEnd:
		x.napEnd = now + nap
		if x.unthrottled == p {
			x.unthrottled = Nowhere
		} else {
			x.unthrottled = p
		}
	case x.unthrottled == Nowhere:
		x.unthrottled = p
	}
}

// choose returns throttle, pin or nothing for a page that thrashes.
func (s *Space) choose(b *block, x *pageThrash, i int, p Processor, a Advice) hint {
	throttle := hint{throttle: true}
	switch {
	case s.allCanMap(x.processors, a.Preferred):
		return hint{pin: true, at: a.Preferred}
	case p == a.Preferred && x.pinned:
		if x.pinnedAt == p || x.unthrottled == p {
			return hint{pin: true, at: p}
		}
		return throttle
	case x.pinned && p == x.unthrottled:
		return hint{pin: true, at: s.commonPlace(x.processors, p)}
	case x.pinned && s.canMap(p, x.pinnedAt):
		return hint{pin: true, at: x.pinnedAt}
	case x.pinned, p != x.unthrottled:
		return throttle
	case x.naps >= pinAfter:
		return hint{pin: true, at: p}
	}
	return hint{}
}

// allCanMap reports whether all processors of a set can access memory of at.
func (s *Space) allCanMap(by uint32, at Processor) bool {
	if at == Nowhere {
		return false
	}
	for p := CPU; int(p) < s.devices; p++ {
		if by&bit(p) != 0 && !s.canMap(p, at) {
			return false
		}
	}
	return true
}

// commonPlace returns a place that all processors of a set can access: p
// itself, or else the CPU.
func (s *Space) commonPlace(by uint32, p Processor) Processor {
	if !s.allCanMap(by, p) && s.allCanMap(by, CPU) {
		return CPU
	}
	return p
}

// mapThrashing maps a pinned page for the processors that thrash on it.
func (s *Space) mapThrashing(b *block, i int, at Processor) {
	x := b.thrash.info[i]
	if x == nil {
		return
	}
	for index := range b.mapped {
		if p := Processor(index - 1); x.processors&bit(p) != 0 && s.canMap(p, at) {
			b.mapped[index].set(i)
			b.writable[index].set(i)
		}
	}
}

// unmapRemote unmaps a page for processors that do not hold it and are not
// named in accessed-by.
func (s *Space) unmapRemote(b *block, i int) {
	a := b.adviceOn(i)
	for index := range b.mapped {
		if p := Processor(index - 1); !b.resident[index].has(i) && !a.accessed(p) {
			b.mapped[index].clear(i)
			b.writable[index].clear(i)
		}
	}
}

// expire ends the pins whose time is over.
func (s *Space) expire(b *block, now float64) {
	for i := range b.thrash.info {
		if x := b.thrash.info[i]; x.pinned && now >= x.pinEnd {
			s.unmapRemote(b, i)
			b.thrash.reset(i)
		}
	}
}

func (t *thrashing) anyPinned(now float64) bool {
	for _, x := range t.info {
		if x.pinned && now < x.pinEnd {
			return true
		}
	}
	return false
}
