package kernelrace

import "math/bits"

// mostStrips is how many strips a line may have. One that needs more gets cells.
const mostStrips = 64

// lineMask has a bit for each byte of a line.
type lineMask [lineBytes / 64]uint64

func (m lineMask) and(o lineMask) lineMask    { return lineMask{m[0] & o[0], m[1] & o[1]} }
func (m lineMask) andNot(o lineMask) lineMask { return lineMask{m[0] &^ o[0], m[1] &^ o[1]} }
func (m lineMask) or(o lineMask) lineMask     { return lineMask{m[0] | o[0], m[1] | o[1]} }
func (m lineMask) none() bool                 { return m[0]|m[1] == 0 }

// each calls f for each byte, in order.
func (m lineMask) each(f func(i int)) {
	for w, some := range m {
		for ; some != 0; some &= some - 1 {
			f(w*64 + bits.TrailingZeros64(some))
		}
	}
}

// pattern is where in a line n elements of some bytes are, which are stride bytes apart.
type pattern struct{ off, size, stride, n uint8 }

// mask returns the bytes of a pattern. It keeps those of some patterns, because few are frequent.
func (d *Detector) mask(p pattern) lineMask {
	key := uint32(p.off) | uint32(p.size)<<8 | uint32(p.stride)<<16 | uint32(p.n)<<24
	known := &d.masks[key*0x9e3779b1>>24]
	if known.pattern == p {
		return known.bytes
	}
	var m lineMask
	for i := range int(p.n) {
		at := int(p.off) + i*int(p.stride)
		m[at/64] |= mask(uint64(at), uint64(p.size)) // an element is aligned to its size, which is at most 16
	}
	known.pattern, known.bytes = p, m
	return m
}

// strip has weak accesses to bytes of a line. Byte i belongs to thread who + (i-off)/stride*step.
type strip struct {
	bytes     lineMask
	who, when uint32
	off       uint8
	stride    uint8
	step      int8
	kind      Kind
}

func (s *strip) thread(i int) uint32 {
	return s.who + uint32((i-int(s.off))/int(s.stride))*uint32(int32(s.step))
}

// alike reports whether each byte belongs to the same thread in both strips.
func (s *strip) alike(o *strip) bool {
	return s.who == o.who && s.off == o.off && s.stride == o.stride && s.step == o.step
}

// agrees reports whether some bytes, which both strips have, belong to the same threads in both.
func (s *strip) agrees(o *strip, some lineMask) bool {
	same := true
	if !s.alike(o) {
		some.each(func(i int) { same = same && s.thread(i) == o.thread(i) })
	}
	return same
}

// strips returns the index of the strips of a line, 0 for none.
func (l *line) strips() uint32 { return l.runs[1].state >> lineCells }

// Strip checks accesses of lanes of a warp: thread t+i*step, for i below n, accesses the a.Bytes bytes
// at a.Addr + i*stride of global memory, by one instruction that is weak, and at most one thread each
// byte. It returns how many accesses, from the first on, are checked then. Access must check the others.
func (b *Block) Strip(t, step, n int, stride uint64, a *Access) (done int) {
	d, size := b.d, uint64(a.Bytes)
	switch {
	case a.Kind&^Write != 0, stride < size, stride > lineBytes/2, size > 16, (a.Addr|stride|size)&(size-1) != 0,
		a.Kind != 0 && len(d.words)|len(b.objects)|len(d.leaving) != 0, !b.same(t, step, n):
		return 0
	}
	for done < n {
		addr := a.Addr + uint64(done)*stride
		count := min(n-done, int((lineBytes-1-addr%lineBytes)/stride)+1)
		if !b.piece(t+done*step, step, count, uint8(stride), addr, a) {
			break
		}
		done += count
	}
	return done
}

// same reports whether some threads have seen the same, are in the same interval, and are not late.
func (b *Block) same(t, step, n int) bool {
	first := &b.threads[t]
	if first.seen != nil && first.seen.late {
		return false
	}
	for i := 1; i < n; i++ {
		if th := &b.threads[t+i*step]; th.seen != first.seen || th.now != first.now {
			return false
		}
	}
	return true
}

// piece checks the accesses of a Strip that are in one line.
func (b *Block) piece(t, step, n int, stride uint8, addr uint64, a *Access) bool {
	d := b.d
	p := d.page(addr)
	l := &p.lines[addr%(1<<pageShift)/lineBytes]
	if l.cells() != 0 {
		return false
	}
	off := int(addr % lineBytes)
	m := d.mask(pattern{uint8(off), uint8(a.Bytes), stride, uint8(n)})
	if p.written != nil && !p.written.line(addr, m, a.Kind) {
		return false
	}
	me, when := b.number<<d.shift|uint32(t), pack(b.threads[t].now, min(a.Inst, mostInst))
	if l.strips() == 0 && step == 1 && int(stride) == a.Bytes && a.Bytes >= wordBytes {
		share := uint32(a.Bytes / wordBytes >> 1)
		share = min(share, 2)
		x := run{me - uint32(off/wordBytes)>>share, when, allWords >> (lineWords - n*a.Bytes/wordBytes) << (off / wordBytes), share<<runShare | uint32(a.Kind)}
		if l.add(&x) {
			return true
		}
	}
	s := strip{bytes: m, who: me, when: when, off: uint8(off) % stride, stride: stride, step: int8(step), kind: a.Kind}
	s.who -= uint32(off/int(stride)) * uint32(int32(step))
	return d.addStrip(l, &s, a.NonCoherent)
}

// addStrip adds a strip to a line that has no cells. It reports whether that was possible: where threads
// use bytes that others write, cells must tell what comes before what. It is not possible either where a
// thread that is stale reads what it has written.
func (d *Detector) addStrip(l *line, s *strip, stale bool) bool {
	list := d.stripsOf(l)
	var same *strip // can have the bytes of s, too
	writes := s.kind
	for i := range list {
		e := &list[i]
		writes |= e.kind
		if e.when == s.when && e.kind == s.kind && e.alike(s) {
			same = e
		}
		if (e.kind|s.kind)&Write == 0 {
			continue
		}
		if both := e.bytes.and(s.bytes); !both.none() && (stale || !e.agrees(s, both)) {
			return false
		}
	}
	if same == nil && len(list) == mostStrips {
		return false
	}
	if same == nil || !s.bytes.andNot(same.bytes).none() {
		list = s.replace(list, same)
		d.keepStrips(l, list)
	}
	return true
}

// replace adds the strip to a list, to same if it is not nil, and drops the accesses that it stands for.
func (s *strip) replace(list []strip, same *strip) []strip {
	for i := range list {
		if e := &list[i]; e != same && s.kind.covers(e.kind) && (s.kind&Write != 0 || e.alike(s)) {
			e.bytes = e.bytes.andNot(s.bytes)
		}
	}
	if same != nil {
		same.bytes = same.bytes.or(s.bytes)
	} else {
		list = append(list, *s)
	}
	kept := list[:0]
	for i := range list {
		if !list[i].bytes.none() {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// stripsOf returns the strips of a line without cells. Those of a line with runs have the runs.
func (d *Detector) stripsOf(l *line) (list []strip) {
	if at := l.strips(); at != 0 {
		return d.strips[at]
	}
	for i := range l.runs {
		r := &l.runs[i]
		if r.words == 0 {
			continue
		}
		s := strip{who: r.who, when: r.when, stride: wordBytes << r.share(), step: 1, kind: r.kind()}
		for m := r.words; m != 0; m &= m - 1 {
			w := bits.TrailingZeros32(m)
			s.bytes[w/16] |= allBytes << (w % 16 * wordBytes)
		}
		list = append(list, s)
	}
	return list
}

// keepStrips makes a list the strips of a line.
func (d *Detector) keepStrips(l *line, list []strip) {
	if l.strips() == 0 {
		if len(d.strips) == 0 {
			d.strips = append(d.strips, nil) // 0 stands for none
		}
		*l = line{}
		l.runs[1].state = uint32(len(d.strips)) << lineCells
		d.strips = append(d.strips, nil)
	}
	d.strips[l.strips()] = list
}

// splitStrips gives the words of strips cells.
func (d *Detector) splitStrips(list []strip, cells *[lineWords]cell) {
	a := Access{}
	x := check{b: &Block{d: d}, a: &a, more: &d.more}
	for i := range list {
		s := &list[i]
		a.Kind = s.kind
		s.split(func(off, n int, who uint32) {
			w := off / wordBytes
			x.me, x.word, x.b.number = who, uint64(w*wordBytes), who>>d.shift
			x.e = newEntry(who, s.when, s.kind, runOf(off%wordBytes, n))
			switch c := &cells[w]; {
			case c.n() == 0:
				c.push(&x.e)
			case (s.kind|c.kinds())&Write != 0 || !x.reads(c):
				x.keep(c)
			}
		})
	}
}

// split calls f for the bytes of each thread in each word.
func (s *strip) split(f func(off, n int, who uint32)) {
	first, n, who := -1, 0, uint32(0)
	s.bytes.each(func(i int) {
		t := s.thread(i)
		if n > 0 && (i != first+n || t != who || i%wordBytes == 0) {
			f(first, n, who)
			n = 0
		}
		if n == 0 {
			first, who = i, t
		}
		n++
	})
	if n > 0 {
		f(first, n, who)
	}
}

// addStrips adds the accesses of the strips of a line that conflict most easily, one for each byte.
func (d *Detector) addStrips(writes, reads *runList, l *line, off uint16) {
	var w, r [lineBytes]stripChoice
	for i, list := 0, d.strips[l.strips()]; i < len(list); i++ {
		s, to := &list[i], &r
		if s.kind&Write != 0 {
			to = &w
		}
		rank := stripChoice{rank: 1 + s.when&mostInst, when: s.when, kind: s.kind}
		if s.kind&Late != 0 {
			rank.rank |= 1 << instBits << 1
		}
		s.bytes.each(func(i int) {
			if c := &to[i]; c.rank == 0 || rank.rank < c.rank {
				*c = rank
				c.who = s.thread(i)
			}
		})
	}
	for i := range w {
		if r[i].rank != 0 && w[i].rank != 0 && w[i].kind.covers(r[i].kind) {
			r[i].rank = 0
		}
	}
	addChoices(writes, &w, off)
	addChoices(reads, &r, off)
}

// stripChoice is the access to a byte that conflicts most easily. rank is lower for such accesses, and 0
// for no access.
type stripChoice struct {
	who, when, rank uint32
	kind            Kind
}

// addChoices adds the accesses to the bytes of the line at an offset.
func addChoices(to *runList, all *[lineBytes]stripChoice, off uint16) {
	for i := 0; i < len(all); {
		c, n := &all[i], 1
		for i+n < len(all) && all[i+n] == *c {
			n++
		}
		if c.rank != 0 {
			to.add(off+uint16(i), uint16(n), &entry{c.who, c.when, newTag(c.kind, 0, ofWord)})
		}
		i += n
	}
}
