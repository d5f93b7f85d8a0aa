package kernelrace

import "testing"

// TestRunsHaveOneInterval lets neighbours write by one instruction, but with a barrier between
// them. The second write must not change the interval of the first.
func TestRunsHaveOneInterval(t *testing.T) {
	d := New(64)
	d.Values = noValues{}
	b := d.Block(0, 0)
	b.Access(0, &Access{Bytes: 4, Kind: Write, Inst: 1})
	meet(b)
	b.Access(1, &Access{Addr: 4, Bytes: 4, Kind: Write, Inst: 1})
	b.Access(5, &Access{Bytes: 4, Inst: 2}) // behind the barrier
	if n := raceCount(d); n != 0 {
		t.Errorf("%d races with the write before the barrier, want 0", n)
	}
	b.Access(5, &Access{Addr: 4, Bytes: 4, Inst: 2})
	if n := raceCount(d); n != 1 {
		t.Errorf("%d races with the write behind the barrier, want 1", n)
	}
}

// TestOddSizes lets a thread write 12 bytes, as a copy with a limit does: all of them are its own.
func TestOddSizes(t *testing.T) {
	for _, n := range []int{5, 6, 7, 12, 20, 32} {
		d, access := accessesOf()
		access(0, 4, 0, n, 1, Write)
		for i := range n {
			access(0, 4, i, 1, 2, 0)
		}
		if d.Findings() != nil {
			t.Errorf("%d bytes: %+v", n, *d.Findings()[0])
		}
		for i := range n + 4 {
			access(0, 5, i, 1, 3, 0)
		}
		if got := raceCount(d); got != n {
			t.Errorf("%d bytes: %d races, want %d", n, got, n)
		}
	}
}

// TestReadAndWriteShareALine lets threads read words, write them twice and read them again: a
// line needs no cells but for the last, and keeps the write when the same thread reads it.
func TestReadAndWriteShareALine(t *testing.T) {
	d, access := accessesOf()
	for inst, k := range []Kind{0, Write, Write} {
		for i := range lineWords {
			access(0, i, 4*i, 4, inst, k)
		}
	}
	if len(d.cells) != 1 {
		t.Error("the line has cells")
	}
	for i := range lineWords {
		access(0, i, 4*i, 4, 3, 0)
		access(1, i, 4*i, 4, 4, 0)
	}
	if got := raceCount(d); got != lineWords {
		t.Errorf("%d races, want %d", got, lineWords)
	}
}
