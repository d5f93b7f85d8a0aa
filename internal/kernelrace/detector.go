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

	threads   int // per block
	shift     uint
	pages     map[uint64]page
	words     words
	more      [][]entry
	splits    []*[wordBytes]cell
	spare     int // further accesses of words of global memory that may still be kept
	recent    [64]recentPage
	findings  map[pair]*Finding
	order     []*Finding
	saturated bool
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
		more: make([][]entry, 1), splits: make([]*[wordBytes]cell, 1),
	}
}

// Block returns the state of a block that begins, with n bytes of shared memory.
func (d *Detector) Block(number uint64, n int) *Block {
	b := &Block{
		d: d, number: uint32(number), threads: make([]thread, d.threads),
		shared: make([]cell, (n+wordBytes-1)/wordBytes), written: make([]uint64, n/64+1), words: words{},
	}
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
	Update           bool // an atomic operation, which continues what others have released
	NonCoherent      bool // a load that may find what the memory had when the launch began
}

// Access checks an access of thread t.
func (b *Block) Access(t int, a *Access) {
	d := b.d
	th := &b.threads[t]
	me, when := b.number<<d.shift|uint32(t), pack(th.now, min(a.Inst, mostInst))
	if a.Shared {
		b.checkShared(t, a)
	} else {
		p := d.page(a.Addr)
		if p.written != nil {
			b.checkGlobal(t, a, p.written)
		}
		if a.Bytes == wordBytes && a.Kind&Strong == 0 && len(d.words) == 0 && th.now < mostInterval {
			if c := &p.cells[a.Addr%(1<<pageShift)/wordBytes]; c.n == 0 { // the most frequent case
				c.more = 0
				c.set(0, entry{me, when, a.Kind})
				c.n = 1
				return
			}
		}
	}
	if th.now >= mostInterval {
		d.saturated = true
		return
	}
	x := check{b: b, t: t, th: th, a: a, me: me, when: when}
	for at, end := a.Addr, a.Addr+uint64(a.Bytes); at < end; {
		next := min(end, at&^(wordBytes-1)+wordBytes)
		c := d.cell(b, a, at)
		if c == nil {
			return
		}
		x.cell(c, at, int(next-at))
		at = next
	}
	if a.Kind&Strong != 0 || len(d.words)|len(b.words) != 0 {
		b.order(t, a)
	}
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
	if a.Kind&Strong == 0 {
		if a.Kind&Write != 0 && len(all) > 0 {
			delete(all, a.Addr)
		}
		return
	}
	scope := a.Kind.scope()
	reads := a.Kind&Write == 0 || a.Update
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

// around does the work of an access that is also an acquire or a release. It is like a
// fence, but orders the other accesses only on one side.
func (b *Block) around(t int, a *Access, all words, scope Scope) {
	th := &b.threads[t]
	fences, pending := th.fences, th.pending
	if !a.Acquire {
		th.pending = [reaches]*clock{}
	}
	b.Fence(t, scope)
	if !a.Acquire {
		th.pending = pending
	}
	if a.Release && a.Kind&Write != 0 {
		b.publish(all, a.Addr, t, scope, a.Update)
	}
	th.fences = fences
	if !a.Release && a.Kind&Write != 0 {
		b.publish(all, a.Addr, t, scope, a.Update)
	}
}

// Forget drops what is known of memory that a thread has just allocated.
func (d *Detector) Forget(addr, n uint64) {
	for at := addr &^ (wordBytes - 1); at < addr+n; at += wordBytes {
		if p := d.pages[at>>pageShift]; p.cells != nil {
			p.cells[at%(1<<pageShift)/wordBytes] = cell{}
		}
		delete(d.words, at)
	}
}

// cell returns the cell of a word. It is nil for shared memory that does not exist.
func (d *Detector) cell(b *Block, a *Access, addr uint64) *cell {
	if a.Shared {
		if i := addr / wordBytes; i < uint64(len(b.shared)) {
			return &b.shared[i]
		}
		return nil
	}
	return &d.page(addr).cells[addr%(1<<pageShift)/wordBytes]
}

// page returns the page of an address in global memory.
func (d *Detector) page(addr uint64) *page {
	number := addr >> pageShift
	r := &d.recent[number*0x9e3779b97f4a7c15>>58]
	if r.cells == nil || r.number != number {
		d.look(r, number)
	}
	return &r.page
}

// look makes r the page with a number.
func (d *Detector) look(r *recentPage, number uint64) {
	p, ok := d.pages[number]
	if !ok {
		p = page{cells: new([pageWords]cell), written: d.Values.Written(number)}
		if p.written != nil && p.written.Has(0, 1<<pageShift) {
			p.written = nil // all bytes have values already: nothing is found or recorded
		}
		d.pages[number] = p
		d.spare += pageWords / 16
	}
	*r = recentPage{number, p}
}

// check is the check of one access of one thread.
type check struct {
	b    *Block
	t    int
	th   *thread
	a    *Access
	me   uint32
	when uint32
}

// cell checks the access to n bytes of a word, and records it there.
func (x *check) cell(c *cell, addr uint64, n int) {
	d := x.b.d
	if c.n != split {
		if n == wordBytes {
			x.record(c, addr, n)
			return
		}
		c.more = d.split(c)
		c.n = split
	}
	for i := range n {
		at := addr + uint64(i)
		x.record(&d.splits[c.more][at%wordBytes], at, 1)
	}
}

// split gives each byte of a word a cell of its own.
func (d *Detector) split(c *cell) uint32 {
	parts := new([wordBytes]cell)
	for i := range parts {
		parts[i] = *c
		if at := c.list(); at != 0 {
			d.more = append(d.more, append([]entry(nil), d.more[at]...))
			parts[i].more = uint32(len(d.more)-1) | c.more&wrote
		}
	}
	d.splits = append(d.splits, parts)
	return uint32(len(d.splits) - 1)
}

// record checks the access against the latest ones of a cell, and adds it.
func (x *check) record(c *cell, addr uint64, n int) {
	k := x.a.Kind
	if c.n == 0 && c.list() == 0 {
		c.more = 0
		c.set(0, entry{x.me, x.when, k})
		c.n = 1
		return
	}
	if (k|c.kinds())&Write == 0 && x.reads(c) {
		return
	}
	if x.a.NonCoherent {
		x.stale(c, addr, n)
	}
	for i := 0; i < int(c.n); {
		if c.who[i] == x.me && c.when[i] == x.when && c.kind[i] == k {
			return
		}
		if x.old(c.get(i), addr, n) {
			c.drop(i)
			continue
		}
		i++
	}
	all := Kind(0)
	if at := c.list(); at != 0 {
		list := x.b.d.more[at]
		for i := 0; i < len(list); {
			if x.old(list[i], addr, n) {
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
				continue
			}
			all |= list[i].kind
			i++
		}
		for len(list) > 0 && c.n < inline {
			c.set(int(c.n), list[len(list)-1])
			c.n++
			list = list[:len(list)-1]
		}
		x.b.d.more[at] = list
	}
	for _, o := range c.kind[:c.n] {
		all |= o
	}
	if c.more &^= wrote; all&Write != 0 {
		c.more |= wrote
	}
	e := entry{x.me, x.when, k}
	if c.n < inline {
		c.set(int(c.n), e)
		c.n++
		return
	}
	x.add(c, e)
}

// stale reports a write of this launch that a load need not find.
func (x *check) stale(c *cell, addr uint64, n int) {
	for i := range int(c.n) {
		if e := c.get(i); e.kind&Write != 0 {
			x.reportStale(e, addr, n)
			return
		}
	}
	for _, e := range x.b.d.more[c.list()] {
		if e.kind&Write != 0 {
			x.reportStale(e, addr, n)
			return
		}
	}
}

// kinds returns Write if one of the accesses may write.
func (c *cell) kinds() Kind {
	if c.more&wrote != 0 {
		return Write
	}
	return 0
}

// reads adds a read to a cell that has only reads, where nothing can race. It reports
// whether that was possible. Of reads by one instruction in one interval two lanes of a
// warp are kept: a write races with one of them if it races with any lane of the warp.
func (x *check) reads(c *cell) bool {
	k, alike := x.a.Kind, 0
	warp := func(e *entry) bool { return e.who/warpSize == x.me/warpSize && x.b.d.shift >= 5 }
	same := func(e *entry) bool {
		if e.kind != k || e.when != x.when {
			return false
		}
		if e.who == x.me {
			return true
		}
		if warp(e) {
			alike++
		}
		return alike == 2
	}
	for i := range int(c.n) {
		e := c.get(i)
		if same(&e) {
			return true
		}
		if x.a.Shared && e.when>>instBits <= x.b.floor {
			return false
		}
	}
	if c.n < inline {
		c.set(int(c.n), entry{x.me, x.when, k})
		c.n++
		return true
	}
	at := c.list()
	if at == 0 || !x.a.Shared {
		return false
	}
	list := x.b.d.more[at]
	for i := range list {
		if same(&list[i]) {
			return true
		}
	}
	if len(list) == mostShared || len(list) > 0 && list[0].when>>instBits <= x.b.floor {
		return false
	}
	x.b.d.more[at] = append(list, entry{x.me, x.when, k})
	return true
}

// old checks the access against an earlier one. It reports whether the earlier one need
// not be kept, because the new one stands for it.
func (x *check) old(e entry, addr uint64, n int) bool {
	k := x.a.Kind
	if e.who == x.me {
		return k.covers(e.kind)
	}
	interval := e.when >> instBits
	d := x.b.d
	block, t := e.who>>d.shift, e.who&(1<<d.shift-1)
	near := block == x.b.number
	if near && x.a.Shared && interval <= x.b.floor {
		return true // all threads that can access it have seen it
	}
	if s := x.th.seen; s != nil {
		p := &s.own
		if !near {
			p = s.rest[block]
		}
		if p != nil && p.at(t) >= interval {
			return k.covers(e.kind)
		}
	}
	if (k|e.kind)&Write != 0 && x.conflict(e, near) {
		x.report(e, addr, n)
	}
	return false
}

// conflict reports whether two unordered accesses race, one of which writes.
func (x *check) conflict(e entry, near bool) bool {
	k := x.a.Kind
	if k&e.kind&Strong == 0 {
		return true
	}
	return !near && min(k.scope(), e.kind.scope()) < Device
}

// add keeps an access for which the cell has no place: in the list of further accesses,
// or instead of one that is more like it than others.
func (x *check) add(c *cell, e entry) {
	d := x.b.d
	most := 0
	if x.a.Shared {
		most = mostShared
	} else if d.spare > 0 || c.list() != 0 {
		most = mostShared
	}
	if most > 0 {
		at := c.list()
		if at == 0 {
			d.more = append(d.more, nil)
			at = uint32(len(d.more) - 1)
			c.more |= at
		}
		if list := d.more[at]; len(list) < most && (x.a.Shared || d.spare > 0) {
			d.more[at] = append(list, e)
			if e.kind&Write != 0 {
				c.more |= wrote
			}
			d.spare--
			return
		}
	}
	// Keep accesses of different warps and blocks: a later access can race with one of them
	// if it races with any.
	best, far := -1, d.distance(c.get(0), c.get(1))
	for i := range inline {
		if f := d.distance(c.get(i), e); c.kind[i] == e.kind && f <= far {
			return
		} else if c.kind[i] == e.kind {
			best = i
		}
	}
	if best >= 0 {
		c.set(best, e)
	}
}

// distance says how far apart the threads of two accesses are: 0 the same, 1 in a warp,
// 2 in a block, 3 elsewhere.
func (d *Detector) distance(a, b entry) int {
	switch {
	case a.who == b.who:
		return 0
	case a.who/warpSize == b.who/warpSize && a.who>>d.shift == b.who>>d.shift:
		return 1
	case a.who>>d.shift == b.who>>d.shift:
		return 2
	}
	return 3
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
