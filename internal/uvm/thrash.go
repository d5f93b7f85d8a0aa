package uvm

// How pages thrash, in nanoseconds and events.
const (
	lapse       = 500e3        // events of a page that are closer belong together
	thrashAfter = 3            // of them
	nap         = lapse        // that a throttled processor is kept from the page
	pinAfter    = 10           // naps
	pinFor      = 300 * lapse  // that a page stays where it was pinned
	epoch       = 2000 * lapse // without an event, after which a block is forgiven
	maxForgiven = 4
)

// thrashing is what is known of a block's comings and goings.
type thrashing struct {
	pages    mask // that thrash
	info     map[int]*pageThrash
	seen     bool
	last     float64 // time of the last event of any page
	lastBy   Processor
	lastHot  float64 // and of one that thrashes
	forgiven int
}

// pageThrash is that of a page.
type pageThrash struct {
	last      float64
	events    int
	by        uint32 // who takes part: a bit a device, the CPU's is the last
	throttled uint32 // who naps
	napEnd    float64
	naps      int
	exempt    Processor // who does not nap
	pinned    bool
	at        Processor // where it is pinned
	pinEnd    float64
}

// hint is what thrashing has to say of a fault.
type hint struct {
	throttle bool
	pin      bool
	at       Processor
}

func bit(p Processor) uint32 { return 1 << (uint32(p) & 31) }

// migrated counts that pages went to p.
func (t *thrashing) migrated(pages *mask, p Processor, now float64) {
	if pages.empty() {
		return
	}
	defer func() { t.seen, t.last, t.lastBy = true, now, p }()
	if t.info == nil { // one processor alone, or seldom, is no reason to look at pages
		if !t.seen || t.lastBy == p || now-t.last > lapse {
			return
		}
		t.info = map[int]*pageThrash{}
	}
	for i := pages.next(0); i < blockPages; i = pages.next(i + 1) {
		x := t.info[i]
		if x == nil {
			x = &pageThrash{exempt: Nowhere, last: never, napEnd: never}
			t.info[i] = x
		}
		before := x.last
		x.last, x.by = now, x.by|bit(p)
		switch {
		case before == never:
		case now-before <= lapse:
			if x.events++; x.events >= thrashAfter {
				t.pages.set(i)
				t.lastHot = now
			}
		case x.events >= thrashAfter && !x.pinned:
			t.reset(i)
		}
	}
}

// never is a time before all others.
const never = -1e300

// reset takes a page for one that does not thrash. How often it made others nap is
// remembered.
func (t *thrashing) reset(i int) {
	if x := t.info[i]; x != nil {
		*x = pageThrash{naps: x.naps, exempt: x.exempt, last: never, napEnd: never}
	}
	t.pages.clear(i)
}

// forget forgets that of pages that somebody moved on purpose.
func (t *thrashing) forget(pages *mask) {
	if t.info == nil {
		return
	}
	for i := pages.next(0); i < blockPages; i = pages.next(i + 1) {
		t.reset(i)
	}
}

// hint says whether p has to wait for a page, or where the page stays.
func (s *Space) hint(b *block, i int, p Processor, a Advice, now float64) hint {
	t := &b.thrash
	if t.info == nil {
		return hint{}
	}
	if t.lastHot != 0 && now-t.lastHot > epoch && !t.anyPinned(now) && t.forgiven < maxForgiven {
		*t = thrashing{forgiven: t.forgiven + 1}
		return hint{}
	}
	x := t.info[i]
	if x == nil || x.events < thrashAfter {
		return hint{}
	}
	if x.pinned && now >= x.pinEnd { // the driver unmaps it and starts anew
		s.unmapRemote(b, i)
		t.reset(i)
		return hint{}
	}
	if x.throttled&bit(p) != 0 {
		if now < x.napEnd && x.exempt != p {
			return hint{throttle: true}
		}
		x.wake(p)
	}
	if now-x.last > lapse && !x.pinned {
		return hint{}
	}
	x.by |= bit(p)
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

// pin keeps the page at a place from now on. A page that is pinned already keeps
// its time.
func (x *pageThrash) pin(at Processor, now float64) {
	if !x.pinned {
		x.pinned, x.pinEnd, x.naps = true, now+pinFor, 0
		x.throttled, x.napEnd = 0, never
	}
	x.at = at
}

// nextPeriod chooses who is exempt for the next nap: not the same one twice.
func (x *pageThrash) nextPeriod(p Processor, now float64) {
	switch {
	case now > x.napEnd:
		x.napEnd = now + nap
		if x.exempt == p {
			x.exempt = Nowhere
		} else {
			x.exempt = p
		}
	case x.exempt == Nowhere:
		x.exempt = p
	}
}

// choose is throttle, pin or nothing for a page that thrashes now.
func (s *Space) choose(b *block, x *pageThrash, i int, p Processor, a Advice) hint {
	throttle := hint{throttle: true}
	switch {
	case s.allCanMap(x.by, a.Preferred):
		return hint{pin: true, at: a.Preferred}
	case p == a.Preferred && x.pinned:
		if x.at == p || x.exempt == p {
			return hint{pin: true, at: p}
		}
		return throttle
	case x.pinned && p == x.exempt:
		return hint{pin: true, at: s.common(x.by, p)}
	case x.pinned && s.canMap(p, x.at):
		return hint{pin: true, at: x.at}
	case x.pinned, p != x.exempt:
		return throttle
	case x.naps >= pinAfter:
		return hint{pin: true, at: p}
	}
	return hint{}
}

// allCanMap says whether all of a set reach memory of at.
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

// common is a place that all of a set reach: p itself, or else the CPU.
func (s *Space) common(by uint32, p Processor) Processor {
	if !s.allCanMap(by, p) && s.allCanMap(by, CPU) {
		return CPU
	}
	return p
}

// mapThrashing maps a pinned page for those who fight over it.
func (s *Space) mapThrashing(b *block, i int, at Processor) {
	x := b.thrash.info[i]
	if x == nil {
		return
	}
	for slot := range b.mapped {
		if p := Processor(slot - 1); x.by&bit(p) != 0 && s.canMap(p, at) {
			b.mapped[slot].set(i)
			b.writable[slot].set(i)
		}
	}
}

// unmapRemote takes a page's mappings from those who do not hold it and were not
// promised access.
func (s *Space) unmapRemote(b *block, i int) {
	a := b.adviceOn(i)
	for slot := range b.mapped {
		if p := Processor(slot - 1); !b.resident[slot].has(i) && !a.accessed(p) {
			b.mapped[slot].clear(i)
			b.writable[slot].clear(i)
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
