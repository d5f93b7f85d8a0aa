package kernelrace

import "testing"

// accessesOf returns a detector, and a function that lets thread 0 of a block access bytes of
// a word. No further accesses are kept but those that a word needs.
func accessesOf() (*Detector, func(block, thread, at, n, inst int, k Kind)) {
	d, blocks := New(64), map[int]*Block{}
	d.Values = noValues{}
	return d, func(block, thread, at, n, inst int, k Kind) {
		if blocks[block] == nil {
			blocks[block] = d.Block(uint64(block), 0)
		}
		blocks[block].Access(thread, &Access{Addr: uint64(at), Bytes: n, Kind: k, Inst: inst})
		d.spare = 0
	}
}

// TestEachByteIsKept lets four instructions write a byte of a word each: none of them is dropped.
func TestEachByteIsKept(t *testing.T) {
	d, access := accessesOf()
	for i := range 4 {
		access(0, 3*i%4, i, 1, i, Write)
	}
	access(1, 0, 0, 4, 4, Write)
	for i, f := range d.Findings() {
		if f.Addr != uint64(i) || f.Bytes != 1 || f.First.Inst != i || f.First.Thread != 3*i%4 {
			t.Errorf("finding %d: %+v", i, *f)
		}
	}
	if n := raceCount(d); n != 4 {
		t.Errorf("%d races, want 4", n)
	}
}

// TestNeighboursShareAnEntry lets neighbours access a word byte by byte and half by half.
func TestNeighboursShareAnEntry(t *testing.T) {
	for _, n := range []int{1, 2} {
		d, access := accessesOf()
		for i := range 4 / n {
			access(0, 30+i, i*n, n, 1, Write)
		}
		if c := &d.split(&d.page(0).lines[0])[0]; c.n() != 1 || c.list() != 0 {
			t.Errorf("%d bytes: %d accesses in the cell", n, c.n())
		}
		for i := range 4 / n {
			access(0, 30+i, i*n, n, 2, Write) // by the same thread
		}
		if d.Findings() != nil {
			t.Errorf("%d bytes: %+v", n, *d.Findings()[0])
		}
		access(0, 30, 4-n, n, 3, 0)
		if f := d.Findings(); len(f) != 1 || f[0].First.Thread != 30+4/n-1 || f[0].First.Inst != 2 || f[0].Bytes != n {
			t.Errorf("%d bytes: %d findings", n, len(f))
		}
		before := raceCount(d)
		access(0, 30, 0, 4, 4, 0) // by the thread that wrote the first of them
		if got := raceCount(d) - before; got != 4/n-1 {
			t.Errorf("%d bytes: a read of the word races with %d of them", n, got)
		}
	}
}

// TestReplaceKeepsOtherBytes lets a read of a byte by another block take the place of a read of
// the word. The other bytes of that read stay.
func TestReplaceKeepsOtherBytes(t *testing.T) {
	d, access := accessesOf()
	for i := range 3 {
		access(0, i, 0, 4, i, 0)
	}
	access(1, 0, 1, 1, 3, 0)
	access(2, 0, 0, 1, 4, Write)
	access(2, 0, 1, 1, 5, Write)
	var threads, others int
	for _, f := range d.Findings() {
		if f.First.Block == 0 {
			threads += f.Count
		} else {
			others += f.Count
		}
	}
	if threads != 5 || others != 1 {
		t.Errorf("races with %d reads of the word and %d of the byte, want 5 and 1", threads, others)
	}
}

// TestReadsOfOtherWarpsAreKept lets two lanes of a warp read a word, and then another warp. A
// write that is ordered behind the first warp races with the other.
func TestReadsOfOtherWarpsAreKept(t *testing.T) {
	d := New(64)
	d.Values = noValues{}
	b := d.Block(0, 4)
	for _, thread := range []int{0, 1, 33} {
		b.Access(thread, &Access{Shared: true, Bytes: 4, Inst: 1})
	}
	b.WarpSync(0, ^uint32(0))
	b.Access(0, &Access{Shared: true, Bytes: 4, Kind: Write, Inst: 2})
	if raceCount(d) != 1 {
		t.Errorf("%d races, want 1", raceCount(d))
	}
}
