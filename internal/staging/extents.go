package staging

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"reflect"
	"slices"
	"sort"
)

// Extents is ranges of sources as the source of one transfer. Ranges that are neighbours in a
// source are read together, with the bytes of small gaps between them, so that reads are large
// and go forward. Ranges may overlap. The transfer needs [Job.Copy].
//
// An extent is what is read without a break. It begins at a multiple of [DirectAlign] in its
// source and in the transfer, and has a multiple of that many bytes. So if the blocks of the
// ring are multiples too, a file that was opened with O_DIRECT can be read. The last block of an
// extent may end behind its source. Then it is read as far as a range needs it.
//
// Several goroutines may call methods of Extents at the same time. It does not change after
// [NewExtents].
type Extents struct {
	extents []extent
	ranges  []placedRange // by at; each is within one cell
	bytes   int64
}

// SourceRange is bytes of a source from an offset on. Off and Bytes are not negative, and
// their sum is at most [MaxOffset].
type SourceRange struct {
	Src        io.ReaderAt
	Off, Bytes int64
}

const (
	// DirectAlign is the alignment of reads: the largest that O_DIRECT usually needs.
	DirectAlign = 4 << 10
	// MaxOffset is the largest offset in a source. Rounding it up overflows nothing.
	MaxOffset = 1 << 62
	// largestGap is the most bytes that are read although nobody wants them, to the multiple of
	// DirectAlign below the next range. A second read costs more than to read them.
	largestGap = 64 << 10
	// Cell is a number of bytes of the transfer. Ranges are cut where a cell ends, so a range has one
	// piece in each cell. The pieces of a part of the transfer begin in its first cell or later, also
	// if a long range overlaps others.
	Cell = 4 << 20
)

// extent is bytes of a source that are read without a break.
type extent struct {
	src  io.ReaderAt
	from int64 // in the source
	at   int64 // in the transfer
	need int64 // bytes up to the end of the last range; the rest fills a multiple of DirectAlign
}

// placedRange is a range, or a part of one, at its place in the transfer.
type placedRange struct {
	at, bytes int64
	off       int64 // in the range
	index     int   // of the range
}

func (p *placedRange) end() int64 { return p.at + p.bytes }

// NewExtents returns a transfer of n ranges. one returns the range of an index. Its index names
// the range in the results of [Extents.Pieces] and [Extents.Find]. A range without bytes is left
// out. NewExtents takes n log n time, and n where the ranges are in order.
func NewExtents(n int, one func(i int) SourceRange) *Extents {
	l := &Extents{ranges: make([]placedRange, 0, n)}
	type wanted struct {
		source, index int
		SourceRange
	}
	all, sources := make([]wanted, 0, n), identities{}
	for i := range n {
		if r := one(i); r.Bytes > 0 {
			all = append(all, wanted{sources.of(r.Src), i, r})
		}
	}
	order := func(a, b wanted) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.Off, b.Off), cmp.Compare(a.index, b.index))
	}
	if !slices.IsSortedFunc(all, order) {
		slices.SortFunc(all, order)
	}
	for i, r := range all {
		l.add(r.SourceRange, r.index, i > 0 && all[i-1].source == r.source)
	}
	if k := len(l.extents); k > 0 {
		l.bytes = l.extents[k-1].end()
	}
	byPlace := func(a, b placedRange) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(l.ranges, byPlace) { // a long range overlaps others
		slices.SortStableFunc(l.ranges, byPlace)
	}
	return l
}

// add adds a range. Those of one source are added by their offsets. same says that the last range
// was of this source.
func (l *Extents) add(r SourceRange, index int, same bool) {
	x := (*extent)(nil)
	if same {
		x = &l.extents[len(l.extents)-1]
	}
	if from := r.Off &^ (DirectAlign - 1); x == nil || from > x.from+x.need+largestGap {
		at := int64(0)
		if k := len(l.extents); k > 0 {
			at = l.extents[k-1].end()
		}
		l.extents = append(l.extents, extent{r.Src, from, at, 0})
		x = &l.extents[len(l.extents)-1]
	}
	x.need = max(x.need, r.Off+r.Bytes-x.from)
	for off := int64(0); off < r.Bytes; {
		at := x.at + r.Off - x.from + off
		n := min(r.Bytes-off, Cell-at%Cell)
		l.ranges = append(l.ranges, placedRange{at, n, off, index})
		off += n
	}
}

// end returns where the next extent begins.
func (x *extent) end() int64 { return x.at + (x.need+DirectAlign-1)&^(DirectAlign-1) }

// Bytes returns the number of bytes of the transfer: see [Job.Bytes].
func (l *Extents) Bytes() int64 { return l.bytes }

// SourcePiece is bytes of one range that are also in a part of the transfer.
type SourcePiece struct {
	Index int   // of the range
	Off   int64 // in the range
	At    int64 // from the start of the part
	Bytes int64
}

// Pieces returns the pieces of n bytes of the transfer, from byte off. They are in the order of
// the transfer, and those of one range in its order.
func (l *Extents) Pieces(off, n int64) iter.Seq[SourcePiece] {
	return func(yield func(SourcePiece) bool) {
		for i := l.first(off); i < len(l.ranges) && l.ranges[i].at < off+n; i++ {
			r := &l.ranges[i]
			skip, to := max(0, off-r.at), min(r.bytes, off+n-r.at)
			if skip < to && !yield(SourcePiece{r.index, r.off + skip, r.at + skip - off, to - skip}) {
				return
			}
		}
	}
}

// first returns the first range of the cell of byte off.
func (l *Extents) first(off int64) int {
	return sort.Search(len(l.ranges), func(i int) bool { return l.ranges[i].at >= off-off%Cell })
}

// Find returns a range that has byte off of the transfer or, if none has it, the next one, and the
// offset in that range. found is false behind the last range.
func (l *Extents) Find(off int64) (index int, at int64, found bool) {
	for i := l.first(off); i < len(l.ranges); i++ {
		if r := &l.ranges[i]; r.end() > off {
			return r.index, r.off + max(0, off-r.at), true
		}
	}
	return 0, 0, false
}

// ReadAt reads a part of the transfer. It returns an error if bytes are missing that a range
// needs, or that stand before such bytes. Other bytes of p are then left as they are. n is as for
// [io.ReaderAt]. Memory of a mapped file that was cut off is an error, as for [Memory].
func (l *Extents) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || int64(len(p)) > l.bytes-off {
		return 0, io.EOF
	}
	i := sort.Search(len(l.extents), func(i int) bool { return l.extents[i].end() > off })
	for err == nil && n < len(p) {
		x := &l.extents[i]
		at := off + int64(n)
		part := p[n:min(int64(len(p)), x.end()-off)]
		var k int
		k, err = x.read(part, at-x.at)
		n, i = n+k, i+1
	}
	return n, err
}

// read reads bytes of the extent from an offset on. It returns len(p) if p has all that ranges
// need. The end of the source is an error only before that.
func (x *extent) read(p []byte, off int64) (n int, err error) {
	need := int(min(int64(len(p)), x.need-off))
	for n < need {
		k, err := x.readOnce(p[n:], x.from+off+int64(n))
		n += k
		switch {
		case n >= need:
		case errors.Is(err, io.EOF):
			return n, io.ErrUnexpectedEOF
		case err != nil:
			return n, err
		case k == 0:
			return n, io.ErrNoProgress
		}
	}
	return len(p), nil
}

// readOnce calls ReadAt of the source, and checks the number of bytes that it returns.
func (x *extent) readOnce(p []byte, off int64) (n int, err error) {
	if fault := guarded("read", func() { n, err = x.src.ReadAt(p, off) }); fault != nil {
		return 0, fault
	}
	if n < 0 || n > len(p) {
		return 0, CountError("ReadAt", len(p), n)
	}
	return n, err
}

// identities numbers sources. It takes values that cannot be compared as different ones.
type identities struct {
	known map[io.ReaderAt]int
	last  io.ReaderAt // comparable, or nil
	at    int         // the number of last
	n     int
}

// of returns the number of a source.
func (s *identities) of(src io.ReaderAt) int {
	if reflect.TypeOf(src).Kind() != reflect.Pointer && !reflect.ValueOf(src).Comparable() { // the second call allocates
		s.last, s.n = nil, s.n+1
		return s.n
	}
	if s.last != nil && s.last == src {
		return s.at
	}
	if s.known == nil {
		s.known = map[io.ReaderAt]int{}
	}
	number, ok := s.known[src]
	if !ok {
		s.n++
		number, s.known[src] = s.n, s.n
	}
	s.last, s.at = src, number
	return number
}
