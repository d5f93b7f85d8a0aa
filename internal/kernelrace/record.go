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
	x.early = false
	if c.n() == 0 {
		c.state &^= wrote
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

// clean checks the access against those in a cell, and drops what it stands for. It returns
// the kinds of the others, and whether the same access is among them.
func (x *check) clean(c *cell) (kinds Kind, known bool) {
	for i := 0; i < c.n(); {
		if x.passed(c.when[i]) {
			c.drop(i)
			continue
		}
		e := c.get(i)
		if !x.early && x.again(&e) && e.by(x.me, x.e.tag.bytes()) {
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

// like says how well a read of the same interval and instruction stands for this one: 2 if it
// does, 1 if it does together with another one.
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

// old checks the access against an earlier one. It returns the bytes of which the earlier one
// need not be kept, because the new one stands for it.
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
// reports whether it stands for the earlier one.
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
	if (k|o)&Write != 0 && x.conflict(o, near) {
		x.report(e, addr, n)
	}
	return false
}

// covers reports whether the access stands for an earlier one, which comes before it. A late
// one that stands for one that is not late is kept as not late, so it needs the same bytes.
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
	case !x.a.Shared && x.b.d.spare > 0 && len(x.list(c)) < mostShared:
		x.b.d.spare--
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
	(*x.more)[at] = append((*x.more)[at], x.e)
	c.mark(&x.e)
}

// replace keeps the access instead of one of three that have its bytes, or drops it. It keeps
// accesses of different warps and blocks: a later access can race with one of them if it
// races with any.
func (x *check) replace(c *cell) {
	list := x.list(c)
	var at [inline]int
	var had [inline]entry
	n := 0
	for i := 0; i < inline+len(list) && n < inline; i++ {
		e := c.any(list, i)
		if x.e.tag&^e.tag&tagBytes == 0 {
			_, _, had[n] = e.run(x.e.tag.bytes())
			at[n] = i
			n++
		}
	}
	if n < inline {
		x.add(c)
		return
	}
	d, me := x.b.d, entry{who: x.me}
	best, far := -1, d.distance(had[0], had[1])
	for i, e := range had {
		if (e.tag^x.e.tag)&tagKind != 0 {
			continue
		}
		if d.distance(e, me) <= far {
			return
		}
		best = at[i]
	}
	if best >= 0 {
		x.put(c, list, best)
	}
}

// put keeps the access instead of the same bytes of access i.
func (x *check) put(c *cell, list []entry, i int) {
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
	}
	if rest {
		x.add(c)
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
