package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// partsPlan is a random list of parts, and what the memory must be afterwards.
type partsPlan struct {
	parts []ferry.ReadPart
	data  [][]byte // of each part
	to    []bytesMemory
	want  [][]byte // of each memory
	bytes int64
}

// partSources returns sources of a number of bytes: a file, a section of it, and readers.
func partSources(t *testing.T, n int) (sources []io.ReaderAt, data [][]byte) {
	t.Helper()
	for range 3 {
		b := make([]byte, n)
		fillRandom(b)
		data = append(data, b)
	}
	path := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(path, data[0], 0o600))
	f := must(os.Open(path))(t)
	t.Cleanup(func() { check(t, f.Close()) })
	data = append(data, data[0][n/3:])
	return []io.ReaderAt{f, bytes.NewReader(data[1]), uncomparable{data[2]}, io.NewSectionReader(f, int64(n/3), int64(n-n/3))}, data
}

// uncomparable is a source that cannot be a key of a map.
type uncomparable struct{ data []byte }

func (u uncomparable) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(u.data).ReadAt(p, off)
}

// newPartsPlan makes memory of every kind, and up to count parts for it. Parts overlap in their
// sources, stand side by side or far apart, and leave gaps in the memory.
func newPartsPlan(t *testing.T, g *ferry.GPU, s *ferry.Stream, count, most int) *partsPlan {
	t.Helper()
	x := &partsPlan{}
	sources, data := partSources(t, 3*most+4<<20)
	for _, k := range kindsOf(g) {
		n := most + rand.IntN(most)
		m := must(k.make(g, n))(t)
		want := make([]byte, n)
		fillRandom(want) // poison
		m.set(t, s, want)
		x.to, x.want = append(x.to, m), append(x.want, want)
		source, off := 0, 0
		for at := rand.IntN(100); at < n && len(x.parts) < count*len(x.to); {
			bytes := rand.IntN(1 << rand.IntN(22))
			bytes = min(bytes, n-at)
			switch rand.IntN(4) {
			case 0:
				source = rand.IntN(len(sources))
				off = rand.IntN(len(data[source]))
			case 1:
				off += rand.IntN(1 << rand.IntN(18))
			}
			if off+bytes > len(data[source]) {
				off = 0
			}
			bytes = min(bytes, len(data[source]))
			d := data[source][off : off+bytes]
			x.parts = append(x.parts, ferry.ReadPart{Src: sources[source], Off: int64(off), Dst: m.part(at, at+bytes)})
			x.data = append(x.data, d)
			copy(want[at:], d)
			x.bytes += int64(bytes)
			off += bytes
			at += bytes + rand.IntN(2)*rand.IntN(300)
		}
	}
	shuffleParts(x)
	return x
}

// shuffleParts changes the order of the parts, in half of all plans.
func shuffleParts(x *partsPlan) {
	if rand.IntN(2) == 0 {
		rand.Shuffle(len(x.parts), func(i, j int) {
			x.parts[i], x.parts[j] = x.parts[j], x.parts[i]
			x.data[i], x.data[j] = x.data[j], x.data[i]
		})
	}
}

// wantMemory compares all memory, also the bytes that no part has.
func (x *partsPlan) wantMemory(t *testing.T, s *ferry.Stream) {
	t.Helper()
	for i, m := range x.to {
		got := m.get(t, s)
		if !bytes.Equal(got, x.want[i]) {
			t.Errorf("%v:", m.Memory)
			wantBytes(t, got, x.want[i])
		}
	}
}

func (x *partsPlan) close(t *testing.T) {
	for _, m := range x.to {
		check(t, m.close())
	}
}

// TestCopyParts fills memory of all kinds by random parts. Every byte is compared, also those
// between the parts. Each hash has the bytes of its part, and progress ends with all bytes.
func TestCopyParts(t *testing.T) { onSchedules(t, testCopyParts) }

func testCopyParts(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	canEnd, cancel := context.WithCancel(t.Context())
	defer cancel()
	for round := range sample.Count(2, 20) {
		x := newPartsPlan(t, g, s, []int{1, 40, 1000}[round%3], 6<<20)
		sums, last := make([]hash.Hash, len(x.parts)), int64(0)
		o := &ferry.PartsOptions{
			Hash:     func(part int) hash.Hash { sums[part] = sha256.New(); return sums[part] },
			Progress: func(done int64) { last = max(done, last+1) },
		}
		ctx := []context.Context{nil, canEnd}[round%2]
		switch round % 4 {
		case 1:
			o.Hash = nil
		case 2:
			o = nil
		}
		n, err := ferry.CopyParts(ctx, s, x.parts, o)
		if check(t, err); n != x.bytes {
			t.Errorf("%d parts: %d bytes, want %d", len(x.parts), n, x.bytes)
		}
		x.wantMemory(t, s)
		if o != nil && last != x.bytes {
			t.Errorf("the last progress is %d, want %d", last, x.bytes)
		}
		for i, sum := range sums {
			if o != nil && o.Hash != nil && [32]byte(sum.Sum(nil)) != sha256.Sum256(x.data[i]) {
				t.Errorf("part %d of %d has the wrong hash", i, len(sums))
			}
		}
		x.wantWritten(t, ctx, s, o)
		x.close(t)
	}
}

// wantWritten writes the memory of all parts, and compares it.
func (x *partsPlan) wantWritten(t *testing.T, ctx context.Context, s *ferry.Stream, o *ferry.PartsOptions) {
	t.Helper()
	var memory []ferry.Memory[byte]
	for _, p := range x.parts {
		memory = append(memory, p.Dst)
	}
	sums, last := make([]hash.Hash, len(memory)), int64(0)
	if o != nil {
		o = &ferry.PartsOptions{
			Hash:     func(part int) hash.Hash { sums[part] = sha256.New(); return sums[part] },
			Progress: func(done int64) { last = max(done, last+1) },
		}
	}
	var got bytes.Buffer
	n, err := ferry.CopyPartsTo(ctx, s, &got, memory, o)
	if check(t, err); n != x.bytes || o != nil && last != n {
		t.Errorf("CopyPartsTo: %d bytes, progress %d, want %d", n, last, x.bytes)
	}
	wantBytes(t, got.Bytes(), bytes.Join(x.data, nil))
	for i, sum := range sums {
		if o != nil && [32]byte(sum.Sum(nil)) != sha256.Sum256(x.data[i]) {
			t.Errorf("CopyPartsTo: part %d of %d has the wrong hash", i, len(sums))
		}
	}
}

// failingAt is a source that fails from an offset on.
type failingAt struct {
	data []byte
	at   int64
	end  func(p []byte) (int, error)
}

func (f *failingAt) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, f.data[min(off, int64(len(f.data))):])
	if off+int64(n) <= f.at {
		if n < len(p) {
			return n, io.EOF
		}
		return n, nil
	}
	good := int(max(0, f.at-off))
	clear(p[good:])
	k, err := f.end(p[good:])
	return good + k, err
}

// TestCopyPartsFails: a source fails at each of many bytes. The error names the part and the byte,
// n counts the bytes before it, and the next call works.
func TestCopyPartsFails(t *testing.T) {
	planted := errors.New("planted")
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const parts, bytes = 40, 100_000
	device := must(ferry.Alloc[byte](g, parts*bytes))(t)
	defer closeAll(t, device, s)
	src := &failingAt{data: make([]byte, parts*bytes)}
	fillRandom(src.data)
	list := make([]ferry.ReadPart, parts)
	for i := range list {
		k := (i * 7) % parts // in another order than in the source
		list[i] = ferry.ReadPart{Src: src, Off: int64(k * bytes), Dst: device.Range(i*bytes, (i+1)*bytes)}
	}
	for round := range sample.Count(10, 100) {
		src.at = int64(rand.IntN(parts * bytes))
		src.end = func([]byte) (int, error) { return 0, planted }
		want := planted
		if round%2 == 1 {
			src.end, want = func([]byte) (int, error) { return 0, io.EOF }, io.ErrUnexpectedEOF
		}
		n, err := ferry.CopyParts(t.Context(), s, list, nil)
		index, off := 0, src.at%bytes
		for int64((index*7)%parts) != src.at/bytes {
			index++
		}
		wantError(t, err, want, fmt.Sprintf("part %d of %d", index+1, parts), fmt.Sprintf("from byte %d", list[index].Off), fmt.Sprintf("byte %d", off))
		e, ok := errors.AsType[*ferry.PartError](err)
		if !ok || e.Part != index || e.Byte != off || n != src.at {
			t.Errorf("%d bytes, %+v, want %d, part %d and byte %d", n, e, src.at, index, off)
		}
	}
	src.at = int64(len(src.data))
	must(ferry.CopyParts(t.Context(), s, list, nil))(t)
	got := must(ferry.Download(device))(t)
	for i, p := range list {
		wantBytes(t, got[i*bytes:][:bytes], src.data[p.Off:][:bytes])
	}
}
