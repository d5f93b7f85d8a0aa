package kernelrace

import (
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestRolesOfWarps lets all warps of a block read a word by several instructions. All warps but
// one meet, and then a thread writes: that races with the one, whichever it is.
func TestRolesOfWarps(t *testing.T) {
	const warps = 32
	for _, shared := range []bool{true, false} {
		for odd := 1; odd < warps; odd++ {
			d := New(warps * warpSize)
			d.Values = noValues{}
			b := d.Block(0, 4)
			for inst := range 4 {
				for i := range warps * 4 {
					b.Access(i/4*warpSize+i%4, &Access{Shared: shared, Bytes: 4, Inst: inst})
				}
			}
			for w := range warps {
				if w != odd {
					b.Arrive(1, w, b.full(w), true, 8)
				}
			}
			b.Open(1)
			b.Access(0, &Access{Shared: shared, Bytes: 4, Kind: Write, Inst: 9})
			if raceCount(d) == 0 {
				t.Errorf("shared %v: no race with warp %d", shared, odd)
			}
		}
	}
}

// TestRolesOfBlocks lets all blocks read a word. All but one release to a thread, which then
// writes: that races with the one, whichever it is.
func TestRolesOfBlocks(t *testing.T) {
	const blocks, threads = 48, 128
	odds := make([]int, blocks-1)
	for i := range odds {
		odds[i] = i + 1
	}
	for _, odd := range sample.Of(t, odds, 8) {
		d := New(threads)
		d.Values = noValues{}
		last := d.Block(0, 0)
		for n := 1; n < blocks; n++ {
			b := d.Block(uint64(n), 0)
			for i := range threads {
				b.Access(i, &Access{Bytes: 4, Inst: 1})
			}
			meet(b)
			if n != odd {
				b.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: (Write | Strong | Atomic).With(Device), Inst: 2, Update: true, Release: true})
			}
		}
		last.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: Strong.With(Device), Inst: 3, Acquire: true})
		last.Access(0, &Access{Bytes: 4, Kind: Write, Inst: 4})
		if raceCount(d) == 0 {
			t.Errorf("no race with block %d", odd)
		}
	}
}

// TestRolesOfReleases lets all blocks read a word of a page whose other words are read, too, so
// that few accesses are kept. The first and the last are.
func TestRolesOfReleases(t *testing.T) {
	const blocks = 100
	for _, odd := range []int{1, blocks - 1} {
		d := New(32)
		d.Values = noValues{}
		last := d.Block(0, 0)
		for n := 1; n < blocks; n++ {
			b := d.Block(uint64(n), 0)
			for word := range uint64(1024) {
				b.Access(int(word)%32, &Access{Addr: 4 * word, Bytes: 4, Inst: 1})
			}
			meet(b)
			if n != odd {
				b.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: (Write | Strong | Atomic).With(Device), Inst: 2, Update: true, Release: true})
			}
		}
		last.Access(0, &Access{Addr: 8192, Bytes: 4, Kind: Strong.With(Device), Inst: 3, Acquire: true})
		for word := range uint64(1024) {
			last.Access(0, &Access{Addr: 4 * word, Bytes: 4, Kind: Write, Inst: 4})
		}
		if n := raceCount(d); n != 1024 {
			t.Errorf("%d races with block %d, want 1024", n, odd)
		}
	}
}

// TestCrowdedTable lets many blocks read a table of bytes, neighbouring threads the same byte or
// neighbouring ones, as a tone curve does with a smooth picture. The place of the latest read of a byte
// must have that byte: later reads find it there, and search no full list.
func TestCrowdedTable(t *testing.T) {
	d := New(warpSize)
	d.Values = noValues{}
	for n := range uint64(400) {
		b := d.Block(n, 0)
		for i := range warpSize {
			b.Access(i, &Access{Addr: (n/3 + uint64(i)/2) % 16, Bytes: 1, Inst: 1})
		}
	}
	places := 0
	l := &d.page(0).lines[0]
	for i := range 4 {
		c := &d.split(l)[i]
		for first, at := range d.crowd(c.list()).latest {
			if at == 0 {
				continue
			}
			places++
			if e := c.any(d.more[c.list()], int(at)-1); e.tag.bytes()>>first&1 == 0 {
				t.Errorf("word %d: the place of the latest read of byte %d has bytes %04b", i, first, e.tag.bytes())
			}
		}
	}
	if places == 0 {
		t.Error("no list of reads is full: the test tests nothing")
	}
}
