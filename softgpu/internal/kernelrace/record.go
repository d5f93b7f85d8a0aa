package kernelrace

// check is the check of one access of one thread.
type check struct {
	b    *Block
	t    int
	th   *thread
	a    *Access
	me   uint32
	more *[][]entry // the lists of further accesses, of global memory or of the block
	word uint64     // the address of the word
	e    entry      // the access to it

	early bool // one of the same kind that is not late has been dropped for this one

	watchers *map[uint64][]*watchers // of global memory or of the block
	known    uint8                   // the bytes of which the thread knows the latest strong write
	leads    bool                    // the access is the latest strong write, and goes on with the chain
	strange  bool                    // there is a head that it does not know
}

// list returns the further accesses of a cell.
func (x *check) list(c *cell) []entry {
	if at := c.list(); at != 0 {
		return (*x.more)[at]
	}
	return nil
}

// record checks the access against the latest ones of a cell, and adds it.
func (x *check) record(c *cell) {
	x.early, x.known, x.leads = false, 0, false
	if c.n() == 0 {
		c.state &^= wrote | led
	}
	if x.a.Kind&Strong != 0 || c.state&led != 0 {
		x.follow(c)
	}
	if x.a.Probe {
		x.probe(c)
		return
	}
	if c.n() == 0 {
		c.push(&x.e)
		return
	}
	if (x.a.Kind|c.kinds())&Write == 0 && x.reads(c) {
		return
	}
	if x.a.NonCoherent {
		x.stale(c)
	}
	kinds, known := x.clean(c)
	if known {
		return
	}
	if c.list() != 0 {
		kinds |= x.cleanList(c)
	}
	if c.state &^= wrote; kinds&Write != 0 {
		c.state |= wrote
	}
	if x.early {
		x.e.tag &^= tagLate
	}
	x.keep(c)
}

// probe checks the access against those in a cell, and changes nothing.
func (x *check) probe(c *cell) {
	list := x.list(c)
	for i := range c.n() + len(list) {
		if e := c.at(list, i); !x.passed(e.when) {
			x.old(&e)
		}
	}
}

// clean checks the access against those in a cell, and drops what it stands for. It returns
// the kinds of the others, and whether the same access is among them.
func (x *check) clean(c *cell) (kinds Kind, known bool) {
	for i := 0; i < c.n(); {
		if x.passed(c.when[i]) {
			c.drop(i)
			continue
		}
		e := c.get(i)
		if !x.early && !x.leads && x.again(&e) && e.by(x.me, x.e.tag.bytes()) {
			if x.e.tag&tagFlags != 0 {
				e.tag |= x.e.tag & tagFlags
				c.set(i, &e)
			}
			return kinds, true
		}
		switch old := x.old(&e); {
		case old == e.tag.bytes():
			c.drop(i)
			continue
		case old != 0:
			e.tag = e.tag.without(old)
			c.set(i, &e)
		}
		kinds |= e.tag.kind()
		i++
	}
	return kinds, false
}

// passed reports whether all threads that can access the word have seen an earlier access to
// it, for an access to a whole word of shared memory.
func (x *check) passed(when uint32) bool {
	return x.a.Shared && when>>instBits <= x.b.floor && x.e.tag&tagBytes == tagBytes
}

// cleanList does the same for the further accesses, and moves some into the cell.
func (x *check) cleanList(c *cell) (kinds Kind) {
	list := x.list(c)
	for i := 0; i < len(list); {
		e := &list[i]
		old := uint8(allBytes)
		if !x.passed(e.when) {
			old = x.old(e)
		}
		if e.tag = e.tag.without(old); e.tag&tagBytes == 0 {
			*e = list[len(list)-1]
			list = list[:len(list)-1]
			continue
		}
		kinds |= e.tag.kind()
		i++
	}
	for len(list) > 0 && c.n() < inline {
		c.push(&list[len(list)-1])
		list = list[:len(list)-1]
	}
	(*x.more)[c.list()] = list
	return kinds
}

// stale reports a write of this launch that a load need not find.
func (x *check) stale(c *cell) {
	found := func(e *entry) bool {
		over := (e.tag & x.e.tag).bytes()
		if e.tag&tagWrite == 0 || over == 0 {
			return false
		}
		first, n, one := e.run(over)
		x.reportStale(one, x.word+uint64(first), n)
		return true
	}
	for i := range c.n() {
		if e := c.get(i); found(&e) {
			return
		}
	}
	for _, e := range x.list(c) {
		if found(&e) {
			return
		}
	}
}

// again reports whether e is of the same instruction and interval, and has all bytes.
func (x *check) again(e *entry) bool {
	return e.when == x.e.when && (e.tag^x.e.tag)&tagKind == 0 && x.e.tag&^e.tag&tagBytes == 0
}

// reads adds a read to a cell that has only reads, where nothing can race. It reports
// whether that was possible. Of reads by one instruction in one interval two lanes of a
// warp are kept: a write races with one of them if it races with any lane of the warp.
func (x *check) reads(c *cell) bool {
	alike := 0
	for i := range c.n() {
		if c.when[i] == x.e.when {
			e := c.get(i)
			if alike += x.like(&e); alike >= 2 {
				return true
			}
		}
		if x.a.Shared && c.when[i]>>instBits <= x.b.floor {
			return false
		}
	}
	if x.spared(c) {
		return true
	}
	if x.e.tag&tagBytes != tagBytes && x.merge(c) {
		return true
	}
	if c.n() < inline {
		c.push(&x.e)
		return true
	}
	if !x.a.Shared || c.list() == 0 {
		return false
	}
	list := x.list(c)
	for i := range list {
		if list[i].when == x.e.when {
			if alike += x.like(&list[i]); alike >= 2 {
				return true
			}
		}
	}
	if len(list) == mostShared || len(list) > 0 && list[0].when>>instBits <= x.b.floor {
		return false
	}
	(*x.more)[c.list()] = append(list, x.e)
	return true
}

// spared handles a weak read of global memory if the list of the cell is full. It reports whether
// nothing else is to be done: two reads of this warp are kept already, or the read has replaced the
// latest one. Tables that all blocks read would cost a search of full lists for each read otherwise.
// The more blocks have read a word, the fewer of the next ones get a place of their own, so that
// each has about the same chance. The others share the place of the latest read.
func (x *check) spared(c *cell) bool {
	at := c.list()
	if x.a.Shared || x.a.Kind != 0 || at == 0 || x.room((*x.more)[at]) {
		return false
	}
	w, list := x.b.d.crowd(at), (*x.more)[at]
	w.last = max(w.last, x.b.number)
	if w.block != x.b.number || w.warp != x.me/warpSize || w.when != x.e.when {
		if w.block != x.b.number {
			w.ofBlock = 0
		}
		w.block, w.warp, w.when, w.ofWarp = x.b.number, x.me/warpSize, x.e.when, 0
	}
	places := uint32(inline + len(list))
	h := (uint32(x.word) ^ x.b.number*0x9e3779b9) * 0x85ebca6b >> 8
	switch {
	case w.ofWarp >= 2:
		return true
	case w.last >= places && (w.ofBlock >= 2 || h%(w.last+1) >= places) && x.overwrite(c, list, int(w.latest[x.e.tag.first()])-1):
		return true
	}
	w.ofWarp++
	w.ofBlock++
	return false
}

// overwrite puts the read in a place that has a read of the same bytes. It reports whether it has.
func (x *check) overwrite(c *cell, list []entry, i int) bool {
	if i < 0 || i >= inline+len(list) || c.any(list, i).tag != x.e.tag {
		return false
	}
	if i < inline {
		c.set(i, &x.e)
	} else {
		list[i-inline] = x.e
	}
	return true
}

// crowdedWord counts the reads of a word whose list of accesses is full.
type crowdedWord struct {
	last        uint32 // the highest number of a block that has read it
	block, warp uint32 // of the last read
	when        uint32
	ofBlock     uint32            // reads of that block since then that were kept
	ofWarp      uint32            // the same, of that warp
	latest      [wordBytes]uint16 // by the first byte of a read: the place of the latest, from 1
}

// crowd returns the counts of the word with a list.
func (d *Detector) crowd(list uint32) *crowdedWord {
	for uint32(len(d.crowds)) <= list {
		d.crowds = append(d.crowds, crowdedWord{})
	}
	return &d.crowds[list]
}

// like says whether a read of the same interval and instruction can replace this one: 2 if it
// alone can, 1 if it can together with another read.
func (x *check) like(e *entry) int {
	if e.tag != x.e.tag && ((e.tag^x.e.tag)&tagKind != 0 || x.e.tag&^e.tag&tagBytes != 0) {
		return 0
	}
	first, last := e.who, e.who
	if e.tag&shares != ofWord {
		first, last = e.ends(x.e.tag.bytes())
	}
	switch {
	case first == x.me && last == x.me:
		return 2
	case first/warpSize == x.me/warpSize && last/warpSize == x.me/warpSize && x.b.d.shift >= 5:
		return 1
	}
	return 0
}

// old checks the access against an earlier one. It returns the bytes for which the new access
// replaces the earlier one.
func (x *check) old(e *entry) (done uint8) {
	if e.tag&x.e.tag&wholeWord == wholeWord {
		if x.stands(*e, x.word, wordBytes) {
			return allBytes
		}
		return 0
	}
	for over := (e.tag & x.e.tag).bytes(); over != 0; {
		first, n, one := e.run(over)
		if x.stands(one, x.word+uint64(first), n) {
			done |= one.tag.bytes()
		}
		over &^= one.tag.bytes()
	}
	return done
}

// stands checks the access against an earlier one of one thread, to the n bytes at addr. It
// reports whether the new access replaces the earlier one.
func (x *check) stands(e entry, addr uint64, n int) bool {
	k, o := x.a.Kind, e.tag.kind()
	if e.who == x.me {
		return x.covers(&e)
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
			return x.covers(&e)
		}
	}
	switch {
	case (k|o)&Write == 0:
	case !x.conflict(o, near):
		return x.leads && e.tag&tagFlags != 0 && x.covers(&e)
	case e.tag&tagFlags != 0 && e.tag.bytes()&x.e.tag.bytes()&^x.known == 0:
		return x.covers(&e) // by observation and program order
	default:
		x.report(e, addr, n)
	}
	return false
}

// covers reports whether the access replaces an earlier one, which comes before it. A late access
// that replaces one that is not late is kept as not late, so it must have the same bytes.
func (x *check) covers(e *entry) bool {
	k, o := x.a.Kind, e.tag.kind()
	if !k.covers(o) {
		return false
	}
	if k&^Late == o && k&Late != 0 {
		all := x.e.tag&^e.tag&tagBytes == 0
		x.early = x.early || all
		return all || o&Strong != 0
	}
	return true
}

// conflict reports whether two unordered accesses race, one of which writes.
func (x *check) conflict(o Kind, near bool) bool {
	k := x.a.Kind
	if k&o&Strong == 0 {
		return true
	}
	return !near && min(k.scope(), o.scope()) < Device
}

// keep adds the access to a cell: to one of a neighbour, in a free place, in the list of
// further accesses, or instead of one that is more like it than others.
func (x *check) keep(c *cell) {
	switch {
	case x.e.tag&tagBytes != tagBytes && x.merge(c):
	case c.n() < inline:
		c.push(&x.e)
	case x.a.Shared && len(x.list(c)) < mostShared:
		x.add(c)
	case !x.a.Shared && x.room(x.list(c)):
		x.add(c)
	default:
		x.replace(c)
	}
}

// merge adds the access to an earlier one of a neighbour, if there is one.
func (x *check) merge(c *cell) bool {
	for i := range c.n() {
		if e := c.get(i); e.merge(&x.e) {
			c.set(i, &e)
			return true
		}
	}
	list := x.list(c)
	for i := range list {
		if list[i].merge(&x.e) {
			return true
		}
	}
	return false
}

// add adds the access to the list of further accesses.
func (x *check) add(c *cell) {
	if c.list() == 0 {
		if len(*x.more) == 0 {
			*x.more = append(*x.more, nil) // 0 stands for no list
		}
		if len(*x.more) > mostLists {
			x.b.d.Words++
			return
		}
		c.state |= uint64(len(*x.more)) * oneList
		*x.more = append(*x.more, nil)
	}
	at := c.list()
	list := (*x.more)[at]
	if len(list) == cap(list) && !x.a.Shared {
		list = x.grow(list)
	}
	(*x.more)[at] = append(list, x.e)
	c.mark(&x.e)
}

// room reports whether a list of further accesses of global memory may have one more.
func (x *check) room(list []entry) bool {
	return len(list) < mostShared && (len(list) < cap(list) || x.b.d.spare > 0)
}

// grow returns the list with a larger capacity, which it takes from the spare accesses.
func (x *check) grow(list []entry) []entry {
	n := max(1, min(len(list), x.b.d.spare, mostShared-len(list)))
	x.b.d.spare = max(0, x.b.d.spare-n)
	return append(make([]entry, 0, len(list)+n), list...)
}

// replace stores the access in place of another one with its bytes, or drops it. It keeps accesses
// of as many blocks as possible, of many warps of each block, and two of each warp, whatever
// their order. Then a later access that can race with any access can race with one that is kept.
// The first access with these bytes and the latest strong write are never replaced. Words does
// not count accesses that are dropped here, because correct kernels cause them all the time.
func (x *check) replace(c *cell) {
	list := x.list(c)
	var crowd crowds
	own := crowd.add(x, &x.e)
	best, most, had := -1, 1, 0
	for i := range inline + len(list) {
		e := c.any(list, i)
		if x.e.tag&^e.tag&tagBytes != 0 {
			continue
		}
		_, _, one := e.run(x.e.tag.bytes())
		n := crowd.add(x, &one)
		if one.who/warpSize == x.me/warpSize {
			own = max(own, n)
		}
		switch had++; {
		case had == 1, e.tag&tagHead != 0, !x.replaces(&e):
		case n > most, most == 1 && (best < 0 || x.chance(i)):
			best, most = i, max(n, most)
		}
	}
	switch must := x.e.tag&tagWrite != 0; {
	case had < inline, best < 0 && x.e.tag&tagHead != 0:
		x.add(c)
	case best >= 0 && (must || own <= crowded):
		place := x.put(c, list, best)
		if at := c.list(); !x.a.Shared && at != 0 {
			x.b.d.crowd(at).latest[x.e.tag.first()] = uint16(place + 1)
		}
	}
}

// replaces reports whether the access may take the place of another one: of the same kind, or of
// a read if it is a write.
func (x *check) replaces(e *entry) bool {
	return (e.tag^x.e.tag)&tagKind == 0 || x.e.tag&tagWrite != 0 && e.tag&tagWrite == 0
}

// crowded: a count at or below it means the warp has at most two accesses in this interval.
const crowded = 2 << 16

// crowds counts accesses by warp, block and interval, roughly.
type crowds struct {
	warps, blocks [1024]uint8
}

// add counts an access. It returns how many its warp and then its block have in its interval.
func (c *crowds) add(x *check, e *entry) int {
	place := func(who uint32) uint32 { return (who + 37*(e.when>>instBits)) % uint32(len(c.warps)) }
	w, b := &c.warps[place(e.who/warpSize)], &c.blocks[place(e.who>>x.b.d.shift)]
	*w, *b = *w+1, *b+1
	if *w <= 2 {
		return int(*b)
	}
	return int(*w)<<16 | int(*b)
}

// chance decides by the access whether it takes place i.
func (x *check) chance(i int) bool {
	h := (uint32(x.word) ^ x.me*0x9e3779b9 ^ x.e.when) * 0x85ebca6b
	return h>>16%8 == uint32(i)%8
}

// put keeps the access instead of the same bytes of access i, and returns its place.
func (x *check) put(c *cell, list []entry, i int) int {
	e := c.any(list, i)
	e.tag = e.tag.without(x.e.tag.bytes())
	rest := e.tag&tagBytes != 0
	if !rest {
		e = x.e
	}
	if i < inline {
		c.set(i, &e)
	} else {
		list[i-inline] = e
		c.mark(&e)
	}
	if rest {
		x.add(c)
		return inline + len(list)
	}
	return i
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
