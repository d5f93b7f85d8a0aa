package kernelrace

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// access is what a model knows of a byte: whether it was written, or read, by a weak access.
type access struct{ write, read, weakWrite, weakRead bool }

// TestFootprintModel compares footprints of random accesses with a model: their bytes, their
// conflicts, and which covers which.
func TestFootprintModel(t *testing.T) {
	const size = 3 * 4096
	for seed := range uint64(sample.Count(50, 200)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var prints [2]*Footprint
		var models [2]map[int]access
		for i := range prints {
			prints[i], models[i] = randomFootprint(rng, size)
			compareWithModel(t, prints[i], models[i], size)
		}
		a, b := prints[0], prints[1]
		got, want := map[int]bool{}, map[int]bool{}
		for number, p := range a.Pages {
			q := b.Pages[number]
			p.Conflicts(&q, func(x, y *Run, off, n uint16) {
				for i := range n {
					if Conflict(x.Kind, y.Kind, Device) {
						got[int(number)*4096+int(off+i)] = true
					}
				}
			})
			if covers := p.Covers(&q); covers != modelCovers(models[0], models[1], int(number)) {
				t.Errorf("seed %d: page %d covers the other: %v", seed, number, covers)
			}
		}
		for at, x := range models[0] {
			y := models[1][at]
			if x.write && (x.weakWrite && (y.write || y.read) || y.weakWrite || y.weakRead) || y.write && (y.weakWrite && x.read || x.weakRead) {
				want[at] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes conflict, want %d", seed, len(got), len(want))
		}
	}
}

// randomFootprint returns the footprint of a few instructions of one block, which are runs of
// threads with a word or some bytes each.
func randomFootprint(rng *rand.Rand, size int) (*Footprint, map[int]access) {
	d := New(64)
	d.Values = noValues{}
	b, model := d.Block(0, 0), map[int]access{}
	for inst := range 1 + rng.IntN(4) {
		width := []int{1, 2, 4, 8}[rng.IntN(4)]
		start := rng.IntN(size/width-64) * width
		if rng.IntN(2) == 0 {
			start = 4096 - 32*width
		}
		kind := []Kind{0, Write, Strong.With(Device), (Write | Strong | Atomic).With(Device)}[rng.IntN(4)]
		n, stride := 1+rng.IntN(64), width
		if rng.IntN(2) == 0 { // two warps, each at once, with gaps between the lanes
			stride = width * (1 + rng.IntN(3))
			start = min(start, (size-64*stride)/width*width)
		}
		for i := 0; i < n; {
			a := Access{Addr: uint64(start + i*stride), Bytes: width, Kind: kind, Inst: inst}
			done := 0
			if stride > width || width < 4 {
				done = b.Strip(i, 1, min(n-i, warpSize-i%warpSize), uint64(stride), &a)
			}
			if done == 0 {
				b.Access(i, &a)
			}
			for range max(done, 1) {
				addToModel(model, start+i*stride, width, kind)
				i++
			}
		}
	}
	return d.Footprint(func(uint64) bool { return true }), model
}

// addToModel adds an access to a model.
func addToModel(model map[int]access, at, n int, kind Kind) {
	for i := at; i < at+n; i++ {
		x := model[i]
		if kind&Write != 0 {
			x.write, x.weakWrite = true, x.weakWrite || kind&Strong == 0
		} else {
			x.read, x.weakRead = true, x.weakRead || kind&Strong == 0
		}
		model[i] = x
	}
}

// compareWithModel checks that a footprint has the bytes of its model, with the right thread.
func compareWithModel(t *testing.T, f *Footprint, model map[int]access, size int) {
	t.Helper()
	for at := range size {
		p, x := f.Pages[uint64(at/4096)], model[at]
		find := func(list []Run) *Run {
			if i := slices.IndexFunc(list, func(r Run) bool { return int(r.Off) <= at%4096 && at%4096 < int(r.end()) }); i >= 0 {
				return &list[i]
			}
			return nil
		}
		w, r := find(p.Writes), find(p.Reads)
		switch {
		case (w != nil) != x.write, w != nil && (w.Kind&Strong == 0) != x.weakWrite:
			t.Fatalf("byte %d: write %v, want %+v", at, w, x)
		case r != nil && (!x.read || (r.Kind&Strong == 0) != x.weakRead), r == nil && x.weakRead && !x.weakWrite:
			t.Fatalf("byte %d: read %v, want %+v", at, r, x)
		}
		for _, run := range []*Run{w, r} {
			if run != nil && run.Bytes > run.unit { // the threads of a run have the same distance
				first, here := SideOf(run, run.Off, 6).Thread, SideOf(run, uint16(at%4096), 6).Thread
				if here-first != (at%4096-int(run.Off))/int(run.unit)*int(run.step) || here < 0 || here >= 64 {
					t.Fatalf("byte %d: thread %d of run %+v", at, here, run)
				}
			}
		}
	}
}

// modelCovers reports whether the first model conflicts with all that the second conflicts
// with, in a page.
func modelCovers(a, b map[int]access, page int) bool {
	for at, y := range b {
		x := a[at]
		if at/4096 != page {
			continue
		}
		switch {
		case y.write && (!x.write || y.weakWrite && !x.weakWrite):
			return false
		case y.weakRead && !y.weakWrite && !x.weakRead && !x.weakWrite:
			return false
		case y.read && !y.write && !x.read && !x.write:
			return false
		}
	}
	return true
}

// TestThreadsOfRuns: a run knows the thread of each of its bytes.
func TestThreadsOfRuns(t *testing.T) {
	for _, width := range []int{1, 4, 8, 16} {
		d := New(64)
		d.Values = noValues{}
		for block := range uint64(4) {
			b := d.Block(block, 0)
			for i := range 64 {
				at := (int(block)*64 + i) * width
				for off := 0; off < width; off += 4 {
					b.Access(i, &Access{Addr: uint64(at + off), Bytes: min(width, 4), Kind: Write, Inst: 7})
				}
			}
		}
		p := d.Footprint(func(uint64) bool { return true }).Pages[0]
		if len(p.Writes) != 1 || len(p.Reads) != 0 {
			t.Fatalf("width %d: %d and %d runs, want one", width, len(p.Writes), len(p.Reads))
		}
		for at := range 256 * width {
			if at >= 4096 {
				break
			}
			s := SideOf(&p.Writes[0], uint16(at), d.Shift())
			if want := at / width; int(s.Block)*64+s.Thread != want || s.Inst != 7 {
				t.Fatalf("width %d, byte %d: %+v, want thread %d", width, at, s, want)
			}
		}
	}
}

// TestPiecesOfThreads: threads that access their bytes by several instructions, as those of pixels do,
// are one run, which knows the instruction of each byte.
func TestPiecesOfThreads(t *testing.T) {
	const threads = 64
	for _, c := range []struct {
		pieces, bytes int
		insts         []int // of the pieces
		runs          int   // of a line
	}{
		{3, 1, []int{4, 5, 6}, 1},
		{3, 1, []int{9, 6, 3}, 1},
		{2, 2, []int{4, 4000}, 2 * threads}, // too far apart for one run
		{4, 1, []int{4, 5, 7, 8}, 2 * threads},
		{4, 4, []int{4, 6, 8, 10}, 1},
	} {
		d := New(threads)
		d.Values = noValues{}
		b := d.Block(0, 0)
		size := c.pieces * c.bytes
		for p, inst := range c.insts {
			a := Access{Addr: uint64(p * c.bytes), Bytes: c.bytes, Kind: Write, Inst: inst}
			for i := 0; i < threads; i += warpSize {
				a.Addr = uint64(i*size + p*c.bytes)
				if done := b.Strip(i, 1, warpSize, uint64(size), &a); done != warpSize {
					t.Fatalf("%+v: %d accesses as a strip", c, done)
				}
			}
		}
		writes := d.Footprint(func(uint64) bool { return true }).Pages[0].Writes
		if len(writes) != c.runs {
			t.Errorf("%+v: %d runs, want %d: %+v", c, len(writes), c.runs, writes[0])
		}
		for at := range uint16(threads * size) {
			i := slices.IndexFunc(writes, func(r Run) bool { return r.Off <= at && at < r.end() })
			s := SideOf(&writes[i], at, d.Shift())
			if s.Thread != int(at)/size || s.Inst != c.insts[int(at)%size/c.bytes] {
				t.Fatalf("%+v: byte %d is of thread %d, instruction %d", c, at, s.Thread, s.Inst)
			}
		}
		if n := parts(&writes[0]); c.runs == 1 && n != threads*c.pieces {
			t.Errorf("%+v: Pieces gives %d parts, want %d", c, n, threads*c.pieces)
		}
	}
}

// parts returns in how many parts Pieces gives a run beside one of a copy.
func parts(r *Run) (n int) {
	other := NewRun(0, 1<<pageShift-1, Write)
	Pieces(r, &other, r.Off, r.Bytes, func(off, bytes, a, b uint16) { n++ })
	return n
}
