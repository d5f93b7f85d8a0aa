package staging

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// listSource is a source that cannot be compared.
type listSource []byte

func (s listSource) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(s).ReadAt(p, off)
}

// floatSource is a source that can be compared, and is unequal to itself if f is NaN.
type floatSource struct {
	f float64
	*bytes.Reader
}

// checkExtents compares the transfer of some ranges with a model that goes byte by byte.
func checkExtents(t *testing.T, data []byte, ranges []SourceRange) {
	t.Helper()
	l := NewExtents(len(ranges), func(i int) SourceRange { return ranges[i] })
	all := make([]byte, l.Bytes())
	if n, err := l.ReadAt(all, 0); n != len(all) || err != nil {
		t.Fatalf("%v: read %d of %d bytes, %v", ranges, n, len(all), err)
	}
	if l.Bytes()%DirectAlign != 0 {
		t.Errorf("%v: %d bytes, want a multiple of %d", ranges, l.Bytes(), DirectAlign)
	}
	at := placesOf(t, l, ranges)
	for i, r := range ranges {
		for off := range r.Bytes {
			if p := at[i][off]; p < 0 || all[p] != data[r.Off+off] {
				t.Fatalf("%v: byte %d of range %d is at %d of the transfer, with another value", ranges, off, i, p)
			}
			if (at[i][off]-r.Off-off)%DirectAlign != 0 {
				t.Fatalf("%v: byte %d of range %d is at %d: the alignment is not that of the source", ranges, off, i, at[i][off])
			}
		}
	}
	for range 8 {
		checkPart(t, l, ranges, at, rand.Int64N(l.Bytes()+1))
	}
	for _, off := range []int64{0, Cell - 1, Cell, Cell + 1, l.Bytes() - 1} {
		checkPart(t, l, ranges, at, min(max(0, off), l.Bytes()))
	}
}

// placesOf returns where each byte of each range is in the transfer, by its pieces.
func placesOf(t *testing.T, l *Extents, ranges []SourceRange) [][]int64 {
	t.Helper()
	at := make([][]int64, len(ranges))
	for i, r := range ranges {
		at[i] = slices.Repeat([]int64{-1}, int(r.Bytes))
	}
	for x := range l.Pieces(0, l.Bytes()) {
		for k := range x.Bytes {
			if p := &at[x.Index][x.Off+k]; *p >= 0 {
				t.Fatalf("%v: byte %d of range %d is in two pieces", ranges, x.Off+k, x.Index)
			} else {
				*p = x.At + k
			}
		}
	}
	return at
}

// checkPart checks the pieces of a part of the transfer, which begins at a byte, and Find there.
func checkPart(t *testing.T, l *Extents, ranges []SourceRange, at [][]int64, off int64) {
	t.Helper()
	n := min(l.Bytes()-off, rand.Int64N(Cell))
	want, next := int64(0), int64(math.MaxInt64) // bytes in the part; the first byte of a range from off on
	for _, of := range at {
		for _, p := range of {
			if p >= off {
				next = min(next, p)
				if p < off+n {
					want++
				}
			}
		}
	}
	got, last := int64(0), int64(0)
	for x := range l.Pieces(off, n) {
		got += x.Bytes
		if x.Bytes < 1 || x.At < last || at[x.Index][x.Off] != off+x.At || at[x.Index][x.Off+x.Bytes-1] != off+x.At+x.Bytes-1 {
			t.Fatalf("%v: %d bytes from %d: piece %+v is wrong", ranges, n, off, x)
		}
		last = x.At
	}
	if got != want {
		t.Fatalf("%v: %d bytes from %d: the pieces have %d bytes, want %d", ranges, n, off, got, want)
	}
	index, k, found := l.Find(off)
	if found != (next < math.MaxInt64) || found && at[index][k] != next {
		t.Fatalf("%v: Find(%d) is byte %d of range %d, %t, want the byte at %d", ranges, off, k, index, found, next)
	}
}

// TestExtents: each byte of a range is in one piece, at an aligned place of the transfer, and is read
// from its source. Small gaps are read, larger ones are not.
func TestExtents(t *testing.T) {
	data := random(3*Cell + 12345)
	end := int64(len(data))
	src := io.ReaderAt(bytes.NewReader(data))
	one := func(off, n int64) SourceRange { return SourceRange{src, off, n} }
	for name, c := range map[string]struct {
		ranges []SourceRange
		bytes  int64 // of the transfer
	}{
		"none":          {nil, 0},
		"no bytes":      {[]SourceRange{one(5, 0), one(MaxOffset, 0)}, 0},
		"aligned":       {[]SourceRange{one(0, 4096), one(4096, 4096)}, 8192},
		"at 1":          {[]SourceRange{one(1, 1)}, 4096},
		"at 4095":       {[]SourceRange{one(4095, 2)}, 8192},
		"at 4096":       {[]SourceRange{one(4096, 1)}, 4096},
		"a gap":         {[]SourceRange{one(0, 4096), one(4096+65536, 1)}, 4096 + 65536 + 4096},
		"a gap + 4095":  {[]SourceRange{one(0, 4096), one(4096+65536+4095, 1)}, 4096 + 65536 + 4096},
		"a larger gap":  {[]SourceRange{one(0, 4096), one(4096+65536+4096, 1)}, 8192},
		"out of order":  {[]SourceRange{one(9000, 10), one(0, 10), one(4096, 5000)}, 12288},
		"three cells":   {[]SourceRange{one(1, 2*Cell+1), one(100, 50), one(Cell-5, 10), one(2*Cell, 100)}, 2*Cell + 4096},
		"shared":        {[]SourceRange{one(100, 9000), one(100, 9000), one(500, 10)}, 12288},
		"to the end":    {[]SourceRange{one(end-1, 1)}, 4096},
		"before it":     {[]SourceRange{one(end-3, 2)}, 4096},
		"uncomparable":  {[]SourceRange{{listSource(data), 0, 10}, {listSource(data), 10, 10}}, 8192},
		"equal to none": {[]SourceRange{{floatSource{math.NaN(), bytes.NewReader(data)}, 0, 10}, {floatSource{math.NaN(), bytes.NewReader(data)}, 10, 10}}, 8192},
		"two sources":   {[]SourceRange{one(0, 10), {bytes.NewReader(data), 10, 10}, one(10, 10)}, 8192},
	} {
		t.Run(name, func(t *testing.T) {
			if l := NewExtents(len(c.ranges), func(i int) SourceRange { return c.ranges[i] }); l.Bytes() != c.bytes {
				t.Errorf("%d bytes, want %d", l.Bytes(), c.bytes)
			}
			checkExtents(t, data, c.ranges)
		})
	}
}

// TestExtentsEnds: the largest offsets do not overflow, and a source that is too short is an error.
func TestExtentsEnds(t *testing.T) {
	var asked int64
	far := readerAtFunc(func(p []byte, off int64) (int, error) { asked = off; return len(p), nil })
	l := NewExtents(1, func(int) SourceRange { return SourceRange{far, MaxOffset - 1, 1} })
	if n, err := l.ReadAt(make([]byte, l.Bytes()), 0); n != 4096 || err != nil || asked != MaxOffset-4096 {
		t.Errorf("%d bytes, %v, from %d, want 4096 from %d", n, err, asked, int64(MaxOffset-4096))
	}
	l = NewExtents(1, func(int) SourceRange { return SourceRange{strings.NewReader("0123456789"), 5, 6} })
	if n, err := l.ReadAt(make([]byte, 4096), 0); n != 10 || err != io.ErrUnexpectedEOF { //nolint:errorlint // it is not wrapped
		t.Errorf("%d bytes, %v, want 10, %v", n, err, io.ErrUnexpectedEOF)
	}
	for _, off := range []int64{-1, 1, 4096, math.MaxInt64} {
		if n, err := l.ReadAt(make([]byte, 4096), off); n != 0 || err == nil {
			t.Errorf("from %d: %d bytes, %v", off, n, err)
		}
	}
}

// readerAtFunc is a source that is a function.
type readerAtFunc func(p []byte, off int64) (int, error)

func (f readerAtFunc) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

// FuzzExtents is checkExtents with ranges from a seed.
func FuzzExtents(f *testing.F) {
	data := random(2*Cell + 100)
	sources := []io.ReaderAt{bytes.NewReader(data), bytes.NewReader(data), listSource(data)}
	for i := range sample.Count(20, 200) {
		f.Add(uint64(i), uint8(i), uint16(1<<(i%16)))
	}
	f.Fuzz(func(t *testing.T, seed uint64, count uint8, most uint16) {
		random := rand.New(rand.NewPCG(seed, 1))
		ranges := make([]SourceRange, count%32)
		for i := range ranges {
			n := random.Int64N(int64(most) + 1)
			if i == 3 && seed%4 == 0 {
				n *= 100 // one can span cells
			}
			n = min(n, int64(len(data)))
			ranges[i] = SourceRange{sources[random.IntN(len(sources))], random.Int64N(int64(len(data)) - n + 1), n}
		}
		checkExtents(t, data, ranges)
	})
}

// BenchmarkExtents makes transfers of 100,000 ranges of 4 KiB, in their order, reversed and mixed.
func BenchmarkExtents(b *testing.B) {
	const n = 100_000
	src := strings.NewReader("")
	mixed := rand.Perm(n)
	for _, c := range []struct {
		name  string
		place func(i int) int
	}{
		{"sorted", func(i int) int { return i }},
		{"reversed", func(i int) int { return n - 1 - i }},
		{"mixed", func(i int) int { return mixed[i] }},
	} {
		b.Run("order="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewExtents(n, func(i int) SourceRange { return SourceRange{src, int64(c.place(i)) << 12, 4 << 10} })
			}
		})
	}
}
