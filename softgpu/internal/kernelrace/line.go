package kernelrace

import "math/bits"

const (
	pageShift = 12
	pageLines = 1 << pageShift / lineBytes
	lineWords = 32
	lineBytes = lineWords * wordBytes
	allWords  = 1<<lineWords - 1

	spareOfPage = 64 // further accesses that may be kept for each page
)

// page has the records of a page of global memory.
type page struct {
	lines   *[pageLines]line
	written *Written // nil if that is not known, or if all is written
	host    bool     // the host can read and write it
}

// line has the records of 32 words, in 32 bytes while two runs are enough for them. Other accesses that
// warps have at regular distances make strips of them, and any other access gives each word a cell.
type line struct{ runs [2]run }

// run has accesses of neighbouring threads by one instruction: word i belongs to thread
// who + i>>share.
type run struct {
	who, when uint32
	words     uint32 // a bit for each
	state     uint32 // of a run, whether it writes, share, and whether it is late; of a line with cells, their index
}

const (
	runWrites = 1
	runShare  = 1 // the first bit of it
	runLate   = 8
	lineCells = 4 // the first bit of the index: of cells in the first run, of strips in the second

	lateShift = 2 // from Late to runLate
)

// cells returns the index of the cells of a line, 0 for none.
func (l *line) cells() uint32 { return l.runs[0].state >> lineCells }

// access records a weak access to n bytes from word i on. It reports whether that was possible.
func (l *line) access(i, n int, who, when uint32, k Kind) bool {
	count := n / wordBytes
	share := uint32(count >> 1)
	x := run{who - uint32(i)>>share, when, (1<<count - 1) << i, share<<runShare | uint32(k&Write)}
	if k&Late != 0 && !x.follows(&l.runs[0]) && !x.follows(&l.runs[1]) {
		x.state |= runLate
	}
	return l.add(&x)
}

// add adds the accesses of a run to a line that has neither cells nor strips. It reports whether that
// was possible.
func (l *line) add(x *run) bool {
	a, b := &l.runs[0], &l.runs[1]
	switch {
	case a.takes(x):
	case b.takes(x):
		a, b = b, a
	default:
		return false
	}
	if b.words&x.words != 0 && !x.covers(b) {
		return false
	}
	b.words &^= x.words
	x.words |= a.words
	*a = *x
	return true
}

// takes reports whether x can be a part of r.
func (r *run) takes(x *run) bool {
	return r.words == 0 || r.state == x.state && r.who == x.who && r.when == x.when
}

// follows reports whether o is not late, and has all accesses of r. Late ones of r can then
// stand for those of o if they are kept as not late.
func (r *run) follows(o *run) bool {
	return r.words&^o.words == 0 && r.who == o.who && r.state == o.state
}

// covers reports whether r is by the same threads as o, and conflicts with all that o
// conflicts with.
func (r *run) covers(o *run) bool {
	return r.who == o.who && (r.state|runWrites) == (o.state|runWrites) && r.state >= o.state
}

func (r *run) share() uint32 { return r.state >> runShare & 3 }
func (r *run) kind() Kind    { return Kind(r.state&runWrites | r.state&runLate<<lateShift) }

// split gives the words of a run cells.
func (r *run) split(cells *[lineWords]cell) {
	share := r.share()
	k := r.kind()
	for m := r.words; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		cells[i].begin(r.who+uint32(i)>>share, r.when, k)
	}
}

// split returns the cells of a line.
func (d *Detector) split(l *line) *[lineWords]cell {
	if at := l.cells(); at != 0 {
		return d.cells[at]
	}
	cells := new([lineWords]cell)
	if at := l.strips(); at != 0 {
		d.splitStrips(d.strips[at], cells)
		d.strips[at] = nil
	} else {
		l.runs[0].split(cells)
		l.runs[1].split(cells)
	}
	d.cells = append(d.cells, cells)
	*l = line{}
	l.runs[0].state = uint32(len(d.cells)-1) << lineCells
	return cells
}

// first records a weak access to a word that nobody has accessed, or one that the runs of its
// line have a place for. It reports whether that was possible.
func (d *Detector) first(l *line, a *Access, who, when uint32) bool {
	i := int(a.Addr % lineBytes / wordBytes)
	at := l.cells()
	switch {
	case l.strips() != 0:
		return false
	case at == 0:
		n := a.Bytes
		return n <= 4*wordBytes && n&(n-1) == 0 && a.Addr%uint64(n) == 0 && l.access(i, n, who, when, a.Kind)
	case a.Bytes != wordBytes:
		return false
	}
	c := &d.cells[at][i]
	if c.n() != 0 {
		return false
	}
	c.begin(who, when, a.Kind)
	return true
}
