package kernelrace

import (
	"math"
	"math/bits"
	"slices"
)

// Footprint is what a launch, or a copy, has touched of global memory. Two of them show
// whether the two operations conflict.
type Footprint struct {
	Pages    map[uint64]Page // by number: the address divided by 1<<WrittenShift
	Released []uint64        // words through which the launch lets other launches continue
	Acquires bool            // it has read a word and then used a fence, or it acquired one
	AsksHost bool            // it has read memory of the host by strong accesses
}

// Page is a page of a Footprint. The runs of each list are in order and do not overlap.
type Page struct {
	Writes, Reads []Run
}

// Run is a range of bytes of a page that threads accessed in the same way. Of several
// accesses to a byte, a footprint has the write and the read that conflict most easily.
//
// A thread may access its bytes by several instructions, such as the three of a pixel: each has the
// same number of them, and the numbers of the instructions have the same distance.
type Run struct {
	Off, Bytes uint16
	inst       uint16 // the first instruction
	unit       uint16 // bytes for each thread
	who        uint32 // the first thread
	step       int32  // from each thread to the next
	Kind       Kind
	piece      uint8 // bytes for each instruction; 0 is unit
	instStep   int8  // from each instruction to the next
}

func (r *Run) end() uint16 { return r.Off + r.Bytes }

// instAt returns the instruction that accessed the byte at an offset in the page, and how many bytes
// from there on belong to it.
func (r *Run) instAt(off uint16) (inst, n uint16) {
	if r.piece == 0 {
		return r.inst, r.end() - off
	}
	at, piece := (off-r.Off)%r.unit, uint16(r.piece)
	return r.instOf(at / piece), piece - at%piece
}

// instOf returns the instruction of a piece of each thread.
func (r *Run) instOf(piece uint16) uint16 { return r.inst + piece*uint16(int16(r.instStep)) }

// Pieces calls f for n bytes of two runs from an offset on, in parts that one instruction of each
// accessed.
func Pieces(a, b *Run, off, n uint16, f func(off, n, instA, instB uint16)) {
	for n > 0 {
		instA, na := a.instAt(off)
		instB, nb := b.instAt(off)
		part := min(n, na, nb)
		f(off, part, instA, instB)
		off, n = off+part, n-part
	}
}

// NewRun returns the run of an operation that has no threads.
func NewRun(off, n uint64, kind Kind) Run {
	return Run{Off: uint16(off), Bytes: uint16(n), unit: uint16(n), Kind: kind}
}

// Shift returns how many bits of a thread's number say where it is in its block.
func (d *Detector) Shift() uint { return d.shift }

// SideOf returns the access of a run to the byte at an offset in the page. shift is that of
// the detector of the launch.
func SideOf(r *Run, off uint16, shift uint) Side {
	who := r.who + uint32(r.step)*uint32((off-r.Off)/r.unit)
	inst, _ := r.instAt(off)
	return Side{Block: who >> shift, Thread: int(who & (1<<shift - 1)), Inst: int(inst), Kind: r.Kind}
}

// Add adds the access of an operation without threads to n bytes from an address on. Calls for
// writes, and for reads, come in the order of the addresses. A strong write releases the first word.
func (f *Footprint) Add(addr, n uint64, kind Kind) {
	if kind&Strong != 0 && kind&Write != 0 {
		f.Released = append(f.Released, addr)
	}
	const size = 1 << WrittenShift
	for end := addr + n; addr < end; {
		number, at := addr/size, addr%size
		part := min(end-addr, size-at)
		page := f.Pages[number]
		if run := NewRun(at, part, kind); kind&Write != 0 {
			page.Writes = append(page.Writes, run)
		} else {
			page.Reads = append(page.Reads, run)
		}
		f.Pages[number] = page
		addr += part
	}
}

// Conflict reports whether two accesses of one byte by operations without an order race.
// need is the smallest scope with which strong accesses include each other.
func Conflict(a, b Kind, need Scope) bool {
	return (a|b)&Write != 0 && (a&b&Strong == 0 || min(a.scope(), b.scope()) < need)
}

// Footprint returns what the launch has touched, of the pages that keep wants.
func (d *Detector) Footprint(keep func(page uint64) bool) *Footprint {
	f := &Footprint{Pages: map[uint64]Page{}, Acquires: d.acquires, AsksHost: d.asksHost}
	var writes, reads runList
	for number, p := range d.pages {
		if !keep(number) {
			continue
		}
		if q := d.runs(&p, &writes, &reads); len(q.Writes)+len(q.Reads) > 0 {
			f.Pages[number] = q
		}
	}
	for addr, w := range d.words {
		if w.wide != nil && keep(addr>>pageShift) {
			f.Released = append(f.Released, addr)
		}
	}
	slices.Sort(f.Released)
	return f
}

// runs returns the runs of a page. It makes them in the memory of two lists.
func (d *Detector) runs(p *page, writes, reads *runList) Page {
	for i := 0; i < pageLines; {
		n, off := alike(p.lines[i:]), uint16(i*lineBytes)
		switch l := &p.lines[i]; {
		case l.cells() != 0:
			d.addCells(writes, reads, l, off)
		case l.strips() != 0:
			d.addStrips(writes, reads, l, off)
		default:
			addLines(writes, reads, l, off, n)
		}
		i += n
	}
	return Page{writes.take(), reads.take()}
}

// alike returns how many lines continue the run of the first, and at least 1.
func alike(lines []line) int {
	r, n := &lines[0].runs[0], 1
	for r.words == allWords && n < len(lines) && r.continues(&lines[n].runs[0], n*lineWords) {
		n++
	}
	return n
}

// continues reports whether o has the threads that follow those of r, n words behind it.
func (r *run) continues(o *run, n int) bool {
	return o.words == r.words && o.state == r.state && o.who == r.who+uint32(n)>>r.share() && (o.when^r.when)&mostInst == 0
}

// addLines adds the accesses of n lines that are alike and have no cells, in the order of
// their words.
func addLines(writes, reads *runList, l *line, off uint16, n int) {
	for m := l.runs[0].words | l.runs[1].words; m != 0; {
		i, r, to := bits.TrailingZeros32(m), &l.runs[0], reads
		if r.words>>i&1 == 0 {
			r = &l.runs[1]
		}
		if r.state&runWrites != 0 {
			to = writes
		}
		words := bits.TrailingZeros32(^(r.words >> i))
		to.addWords(r, off, i, words*n)
		m &^= (1<<words - 1) << i
	}
}

// addCells adds the accesses of a line that has cells.
func (d *Detector) addCells(writes, reads *runList, l *line, off uint16) {
	cells := d.cells[l.cells()]
	for i := range cells {
		if c := &cells[i]; c.n() != 0 {
			d.addCell(writes, reads, c, off+uint16(i*wordBytes))
		}
	}
}

// addCell adds the accesses of the word at an offset that conflict most easily.
func (d *Detector) addCell(writes, reads *runList, c *cell, off uint16) {
	var list []entry
	if at := c.list(); at != 0 {
		list = d.more[at]
	}
	if c.n() == 1 && len(list) == 0 { // the most frequent case
		e, to := c.get(0), reads
		if e.tag&tagWrite != 0 {
			to = writes
		}
		to.addEntry(&e, off)
		return
	}
	n := 1
	if c.whole(list) {
		n = wordBytes
	}
	for i := 0; i < wordBytes; i += n {
		var w, r choice
		for j := range c.n() {
			w.consider(&r, c.get(j), i)
		}
		for _, e := range list {
			w.consider(&r, e, i)
		}
		if w.any {
			writes.add(off+uint16(i), uint16(n), &w.entry)
		}
		if r.any && !(w.any && w.tag.kind().covers(r.tag.kind())) {
			reads.add(off+uint16(i), uint16(n), &r.entry)
		}
	}
}

// whole reports whether each access of a cell has all bytes, and one thread.
func (c *cell) whole(list []entry) bool {
	all := tag(wholeWord)
	for i := range c.n() {
		all &= c.get(i).tag
	}
	for i := range list {
		all &= list[i].tag
	}
	return all == wholeWord
}

// choice is the access to a byte that conflicts most easily, if there is one.
type choice struct {
	entry
	any bool
}

// consider makes e the choice of the writes w or the reads r if it accesses byte i, and
// conflicts more easily.
func (w *choice) consider(r *choice, e entry, i int) {
	if e.tag.bytes()>>i&1 == 0 {
		return
	}
	to := r
	if e.tag&tagWrite != 0 {
		to = w
	}
	e.who = e.thread(i)
	if !to.any || e.rank() < to.rank() {
		*to = choice{e, true}
	}
}

// rank is lower for accesses that conflict more easily, and for earlier instructions.
func (e *entry) rank() uint32 {
	n, k := uint32(0), e.tag.kind()
	if k&Strong != 0 {
		n = uint32(k.scope()) << 1
	}
	if k&Late != 0 {
		n |= 1
	}
	return n<<instBits | e.when&mostInst
}

// runList makes runs of accesses in the order of their addresses. atom is the range that
// the last thread accessed.
type runList struct {
	list []Run
	atom Run
}

// add adds an access of one thread to n bytes.
func (l *runList) add(off, n uint16, e *entry) {
	a, k, inst := &l.atom, e.tag.kind(), uint16(e.when&mostInst)
	if a.Bytes > 0 && a.end() == off && a.Kind == k && a.who == e.who && a.grow(n, inst) {
		return
	}
	l.close()
	*a = Run{Off: off, Bytes: n, inst: inst, who: e.who, Kind: k}
}

// grow adds n bytes behind those of a thread, by one instruction, if they continue the pieces.
func (r *Run) grow(n, inst uint16) bool {
	switch step := int(inst) - int(r.inst); {
	case r.piece == 0 && step == 0:
	case r.piece == 0 && n == r.Bytes && n <= math.MaxUint8 && step == int(int8(step)):
		r.piece, r.instStep = uint8(n), int8(step)
	case r.piece == 0 || n != uint16(r.piece) || inst != r.instOf(r.Bytes/n):
		return false
	}
	r.Bytes += n
	return true
}

// addEntry adds the accesses of an entry to the word at an offset.
func (l *runList) addEntry(e *entry, off uint16) {
	if e.tag&(tagBytes|shares) == wholeWord {
		l.add(off, wordBytes, e)
		return
	}
	for some := e.tag.bytes(); some != 0; {
		first, n, one := e.run(some)
		l.add(off+uint16(first), uint16(n), &one)
		some &^= one.tag.bytes()
	}
}

// addWords adds n words of a run from word i of a line on. The first and the last thread may
// have accessed more before and after them.
func (l *runList) addWords(r *run, off uint16, i, n int) {
	share := r.share()
	per := 1 << share
	one := func(count int) {
		e := entry{r.who + uint32(i)>>share, r.when, newTag(r.kind(), allBytes, ofWord)}
		l.add(off+uint16(i*wordBytes), uint16(count*wordBytes), &e)
		i, n = i+count, n-count
	}
	one(min(n, per-i&(per-1)))
	if words := (n - 1) / per * per; words > 0 {
		l.close()
		l.append(&Run{
			Off: off + uint16(i*wordBytes), Bytes: uint16(words * wordBytes), unit: uint16(per * wordBytes),
			who: r.who + uint32(i)>>share, step: 1, inst: uint16(r.when & mostInst), Kind: r.kind(),
		})
		i, n = i+words, n-words
	}
	if n > 0 {
		one(n)
	}
}

// take returns a copy of the runs, and empties the list.
func (l *runList) take() []Run {
	l.close()
	list := l.list
	l.list = l.list[:0]
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

// close adds the atom to the last run, or makes a run of it.
func (l *runList) close() {
	if l.atom.unit = l.atom.Bytes; l.atom.Bytes > 0 {
		l.append(&l.atom)
	}
	l.atom = Run{}
}

// append adds a run to the last one, or behind it.
func (l *runList) append(a *Run) {
	if n := len(l.list); n == 0 || !l.list[n-1].extend(a) {
		l.list = append(l.list, *a)
	}
}

// extend adds the accesses of one or more threads to a run, if they continue the run.
func (r *Run) extend(a *Run) bool {
	if r.end() != a.Off || r.unit != a.unit || r.Kind != a.Kind || r.inst != a.inst || r.piece != a.piece || r.instStep != a.instStep {
		return false
	}
	step := r.step
	if r.Bytes == r.unit {
		step = int32(a.who - r.who)
	}
	if a.who != r.who+uint32(step)*uint32(r.Bytes/r.unit) || a.Bytes > a.unit && a.step != step {
		return false
	}
	r.step = step
	r.Bytes += a.Bytes
	return true
}

// Conflicts calls f for the bytes that both pages have and one has written, with the
// accesses of p and q.
func (p *Page) Conflicts(q *Page, f func(a, b *Run, off, n uint16)) {
	overlaps(p.Writes, q.Writes, f)
	overlaps(p.Writes, q.Reads, f)
	overlaps(p.Reads, q.Writes, f)
}

func overlaps(as, bs []Run, f func(a, b *Run, off, n uint16)) {
	for i, j := 0, 0; i < len(as) && j < len(bs); {
		a, b := &as[i], &bs[j]
		from, to := max(a.Off, b.Off), min(a.end(), b.end())
		if from < to {
			f(a, b, from, to-from)
		}
		if a.end() < b.end() {
			i++
		} else {
			j++
		}
	}
}

// Covers reports whether p conflicts with everything that q conflicts with.
func (p *Page) Covers(q *Page) bool {
	for i := range q.Writes {
		if !covered(&q.Writes[i], p.Writes) {
			return false
		}
	}
	for i := range q.Reads {
		if r := &q.Reads[i]; !covered(r, p.Reads) && !covered(r, p.Writes) {
			return false
		}
	}
	return true
}

func covered(r *Run, by []Run) bool {
	i, _ := slices.BinarySearchFunc(by, r.Off, func(x Run, off uint16) int { return int(x.end()) - int(off) - 1 })
	for at := r.Off; at < r.end(); i++ {
		if i == len(by) || by[i].Off > at || !by[i].Kind.covers(r.Kind) {
			return false
		}
		at = by[i].end()
	}
	return true
}

// ReadsStrongly reports whether strong accesses, and no weak ones, have read the byte at an
// offset in the page.
func (p *Page) ReadsStrongly(off uint16) bool {
	reads := func(list []Run, all Kind) bool {
		for i := range list {
			if r := &list[i]; r.Off <= off && off < r.end() {
				return r.Kind&all == all
			}
		}
		return false
	}
	return reads(p.Reads, Strong) || reads(p.Writes, Strong|Atomic)
}

// StrongReads calls f for the bytes that strong accesses have read, and no weak ones.
func (p *Page) StrongReads(f func(off, n uint16)) {
	each := func(list []Run, all Kind) {
		for i := range list {
			if r := &list[i]; r.Kind&all == all {
				f(r.Off, r.Bytes)
			}
		}
	}
	each(p.Reads, Strong)
	each(p.Writes, Strong|Atomic)
}

// Without returns the page without the runs that begin from one offset to before another.
func (p *Page) Without(from, to uint64) Page {
	in := func(r Run) bool { return uint64(r.Off) >= from && uint64(r.Off) < to }
	return Page{slices.DeleteFunc(slices.Clone(p.Writes), in), slices.DeleteFunc(slices.Clone(p.Reads), in)}
}

// Runs returns the number of runs.
func (p *Page) Runs() int { return len(p.Writes) + len(p.Reads) }
