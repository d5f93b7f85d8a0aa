package kernelrace

import (
	"math/bits"
	"sync/atomic"
)

// Values gives the values of the access that is being checked.
type Values interface {
	// Stores returns the n bytes that lane t of the current instruction stores at addr.
	// ok is false if it stores none there.
	Stores(t int, shared bool, addr uint64, n int) (v uint64, ok bool)
	// Memory returns the n bytes at addr, before the current instruction.
	Memory(shared bool, addr uint64, n int) (v uint64, ok bool)
	// Written returns which bytes of a page of global memory have been written, by this
	// launch and before. It returns nil if that is not known.
	Written(page uint64) *Written
}

// Detector finds the races of one launch.
type Detector struct {
	Values Values
	// OnHost reports whether the host can read and write a page of global memory. It may be nil.
	OnHost func(page uint64) bool
	// Signals is called once, before the launch releases a word of such a page. It may be nil.
	Signals func()

	threads  int // per block
	shift    uint
	pages    map[uint64]page
	words    words
	watchers map[uint64][]*watchers // by the address of the word
	leaving  map[uint64][]*transfer // copies, by the words that they read
	cells    []*[lineWords]cell
	strips   [][]strip // of lines
	masks    [256]struct {
		pattern
		bytes lineMask
	}
	more      [][]entry
	crowds    []crowdedWord // by the index in more
	spare     int           // further accesses of words of global memory that may still be kept
	recent    [64]recentPage
	idle      *Block // that has ended, and that nothing refers to
	findings  map[pair]*Finding
	order     []*Finding
	acquires  bool // a thread has acquired what another launch may have released
	asksHost  bool // a thread has read memory of the host by a strong access
	signalled bool // Signals was called

	// What was given up: releases of threads in their last interval, and accesses of words for
	// which there was no list. Accesses that replace leaves out are not among them.
	Intervals, Words int
}

type recentPage struct {
	number uint64
	page
}

// New returns a detector for a launch with blocks of n threads.
func New(n int) *Detector {
	return &Detector{
		threads: n, shift: uint(bits.Len(uint(n - 1))),
		pages: map[uint64]page{}, words: words{}, findings: map[pair]*Finding{},
		cells: make([]*[lineWords]cell, 1),
	}
}

// Block returns the state of a block that begins, with n bytes of shared memory.
func (d *Detector) Block(number uint64, n int) *Block {
	var old Block // its memory is used again
	if words := (n + wordBytes - 1) / wordBytes; d.idle != nil && len(d.idle.shared) == words && len(d.idle.written) == n/64+1 {
		old, d.idle = *d.idle, nil
		clear(old.threads)
		clear(old.shared)
		clear(old.written)
	} else {
		old.threads, old.shared, old.written = make([]thread, d.threads), make([]cell, words), make([]uint64, n/64+1)
	}
	b := &Block{
		d: d, number: uint32(number), threads: old.threads, shared: old.shared, written: old.written, words: words{},
		late: &clock{block: uint32(number), late: true},
	}
	b.check.b = b
	for i := range b.threads {
		b.threads[i].now = 1
	}
	return b
}

// Access is an access of a thread. The instruction is a number below 4096.
type Access struct {
	Shared           bool
	Addr             uint64 // in shared memory, an offset
	Bytes            int
	Kind             Kind
	Inst             int
	Acquire, Release bool
	Update           bool  // an atomic operation, which continues what others have released
	Probe            bool  // it is checked, but not kept
	Blind            bool  // a strong read, or an atomic operation, whose thread does not look at what it finds
	Phase            Phase // of an mbarrier object
	NonCoherent      bool  // a load that may find what the memory had when the launch began
}

// Access checks an access of thread t.
func (b *Block) Access(t int, a *Access) {
	d := b.d
	if len(b.landing)|len(d.leaving) != 0 {
		b.checkCopies(t, a)
	}
	th := &b.threads[t]
	if th.seen != nil && th.seen.late && !a.Shared {
		b.delayed = *a
		b.delayed.Kind |= Late
		a = &b.delayed
	}
	me, when := b.number<<d.shift|uint32(t), pack(th.now, min(a.Inst, mostInst))
	if a.Shared {
		b.checkShared(t, a)
		if a.Bytes == wordBytes && a.Kind&Strong == 0 && len(b.words)|len(b.objects) == 0 && !a.Probe && b.alone(a, me, when) {
			return
		}
	} else {
		p := d.page(a.Addr)
		if p.written != nil {
			b.checkGlobal(t, a, p.written)
		}
		if a.Bytes >= wordBytes && a.Kind&Strong == 0 && len(d.words) == 0 && !a.Probe {
			if d.first(&p.lines[a.Addr%(1<<pageShift)/lineBytes], a, me, when) {
				return // the most frequent case
			}
		}
	}
	x := &b.check
	x.t, x.th, x.a, x.me = t, th, a, me
	if x.more, x.watchers = &d.more, &d.watchers; a.Shared {
		x.more, x.watchers = &b.more, &b.watchers
	}
	for at, end := a.Addr, a.Addr+uint64(a.Bytes); at < end; {
		next := min(end, at&^(wordBytes-1)+wordBytes)
		c := d.cell(b, a, at)
		if c == nil {
			return
		}
		x.word = at &^ (wordBytes - 1)
		if next-at == wordBytes {
			x.e = entry{me, when, newTag(a.Kind, allBytes, ofWord)}
		} else {
			x.e = newEntry(me, when, a.Kind, runOf(int(at-x.word), int(next-at)))
		}
		x.record(c)
		at = next
	}
	if a.Kind&Strong != 0 || len(d.words)|len(b.words)|len(b.objects) != 0 {
		b.order(t, a)
	}
}

// alone records a weak access to a word of shared memory if nothing else is to be kept of the word: all
// threads have seen what was before. It reports whether that was so.
func (b *Block) alone(a *Access, who, when uint32) bool {
	i := a.Addr / wordBytes
	if a.Addr%wordBytes != 0 || i >= uint64(len(b.shared)) {
		return false
	}
	c := &b.shared[i]
	if n := c.n(); c.list() != 0 || c.state&led != 0 || n > 1 || n == 1 && c.when[0]>>instBits > b.floor {
		return false
	}
	c.begin(who, when, a.Kind)
	return true
}

// Alike reports whether two threads have seen the same, and are in the same interval.
func (b *Block) Alike(t, u int) bool {
	return b.threads[t].seen == b.threads[u].seen && b.threads[t].now == b.threads[u].now
}

// order does what a strong access orders.
func (b *Block) order(t int, a *Access) {
	all := b.d.words
	if a.Shared {
		all = b.words
	}
	switch {
	case a.Kind&Strong == 0:
		if a.Kind&Write != 0 {
			delete(all, a.Addr)
			b.forgetObject(a)
		}
		return
	case a.Phase != NoPhase:
		b.atObject(t, a)
		return
	}
	scope := a.Kind.scope()
	reads := a.Kind&Write == 0 || a.Update
	if !a.Shared && scope >= Device {
		b.outside(t, a, reads)
	}
	if reads && len(all) > 0 {
		b.observe(all, a.Addr, t, scope)
	}
	if a.Acquire || a.Release {
		b.around(t, a, all, scope)
		return
	}
	if a.Kind&Write != 0 {
		b.publish(all, a.Addr, t, scope, a.Update)
	}
}

// outside records the order that a strong access of global memory may make between this launch,
// other launches and the host.
func (b *Block) outside(t int, a *Access, reads bool) {
	d, th := b.d, &b.threads[t]
	host := d.page(a.Addr).host
	if reads {
		th.asked = true
		d.asksHost = d.asksHost || host
	}
	if !host || d.signalled || d.Signals == nil || a.Kind&Write == 0 {
		return
	}
	if f := &th.fences[wide]; a.Release || f.upTo > 0 {
		d.signalled = true
		d.Signals()
	}
}

// around records the order of an access that is also an acquire or a release. It is like a fence,
// but orders the other accesses only on one side. An acquire begins no interval, because a thread
// that waits for a word may repeat it without end.
func (b *Block) around(t int, a *Access, all words, scope Scope) {
	if a.Acquire {
		b.fenceReads(t, scope)
	}
	th := &b.threads[t]
	fences := th.fences
	if a.Release {
		b.fenceWrites(t, scope)
	}
	if a.Kind&Write != 0 {
		b.publish(all, a.Addr, t, scope, a.Update)
	}
	th.fences = fences
}

// cell returns the cell of a word. It is nil for shared memory that does not exist.
func (d *Detector) cell(b *Block, a *Access, addr uint64) *cell {
	if a.Shared {
		if i := addr / wordBytes; i < uint64(len(b.shared)) {
			return &b.shared[i]
		}
		return nil
	}
	l := &d.page(addr).lines[addr%(1<<pageShift)/lineBytes]
	return &d.split(l)[addr%lineBytes/wordBytes]
}

// page returns the page of an address in global memory.
func (d *Detector) page(addr uint64) *page {
	number := addr >> pageShift
	r := &d.recent[number*0x9e3779b97f4a7c15>>58]
	if r.lines == nil || r.number != number {
		d.look(r, number)
	}
	return &r.page
}

// look makes r the page with a number.
func (d *Detector) look(r *recentPage, number uint64) {
	p, ok := d.pages[number]
	if !ok {
		p = page{lines: new([pageLines]line), written: d.Values.Written(number)}
		if p.written != nil && p.written.Has(0, 1<<pageShift) {
			p.written = nil // all bytes have values already: nothing is found or recorded
		}
		p.host = d.OnHost != nil && d.OnHost(number)
		d.pages[number] = p
		d.spare += spareOfPage
	}
	*r = recentPage{number, p}
}

// checkGlobal reports reads of global memory that no copy, fill or launch has written. An
// access is aligned to its size, so that its bits are in one word. One that is not will fail.
func (b *Block) checkGlobal(t int, a *Access, w *Written) {
	word := &w[a.Addr%(1<<pageShift)/64]
	bytes := mask(a.Addr%64, uint64(a.Bytes))
	if atomic.LoadUint64(word)&bytes == bytes {
		return
	}
	if a.Kind&Write == 0 || a.Update {
		b.unwritten(t, a)
	}
	if a.Kind&Write != 0 {
		atomic.OrUint64(word, bytes)
	}
}

// checkShared reports reads of shared memory that no thread has written.
func (b *Block) checkShared(t int, a *Access) {
	if a.Addr/64 >= uint64(len(b.written)) {
		return
	}
	w := &b.written[a.Addr/64]
	bytes := mask(a.Addr, uint64(a.Bytes))
	if *w&bytes != bytes && (a.Kind&Write == 0 || a.Update) {
		b.unwritten(t, a)
	}
	if a.Kind&Write != 0 {
		*w |= bytes
	}
}
