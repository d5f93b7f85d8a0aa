package kernelrace

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// touched is what a lateModel knows of a byte: how it was accessed, and how often and by whom.
type touched struct {
	write, read, earlyWrite, earlyRead bool

	n                   int
	block, thread, inst int // of the last access
}

// lateModel knows which threads have acquired, and how each byte was accessed.
type lateModel struct {
	*testing.T
	d           *Detector
	blocks      [2]*Block
	late, asked [2][2 * warpSize]bool
	bytes       [2 * 4096]touched
}

// TestLateModel compares footprints of weak accesses with a model: which bytes were written
// and read, whether by a thread that had not acquired before, and by which thread.
func TestLateModel(t *testing.T) {
	programs := uint64(sample.Count(600, 3000))
	for seed := range programs {
		r := rand.New(rand.NewPCG(seed, 2))
		m := &lateModel{T: t, d: New(2 * warpSize)}
		m.d.Values = noValues{}
		for i := range m.blocks {
			m.blocks[i] = m.d.Block(uint64(i), 0)
		}
		for range 5 + r.IntN(40) {
			m.d.spare = 1 << 20
			m.step(r)
		}
		if m.compare(); t.Failed() {
			t.Fatalf("program %d", seed)
		}
	}
}

// step runs a barrier, an acquire, a fence, or accesses by some neighbours.
func (m *lateModel) step(r *rand.Rand) {
	block, t := r.IntN(2), r.IntN(2*warpSize)
	b, late, asked := m.blocks[block], &m.late[block], &m.asked[block]
	switch r.IntN(24) {
	case 0:
		meet(b)
		if slices.Contains(late[:], true) {
			*late = [2 * warpSize]bool(slices.Repeat([]bool{true}, 2*warpSize))
		}
		if slices.Contains(asked[:], true) {
			*asked = [2 * warpSize]bool(slices.Repeat([]bool{true}, 2*warpSize))
		}
	case 1:
		b.WarpSync(t/warpSize, ^uint32(0))
		if warp := late[t&^31 : t&^31+32]; slices.Contains(warp, true) {
			copy(warp, slices.Repeat([]bool{true}, warpSize))
		}
	case 2:
		b.Access(t, &Access{Addr: 1 << 20, Bytes: 4, Kind: Strong.With(System), Inst: 9, Acquire: true})
		late[t] = true
	case 3:
		b.Access(t, &Access{Addr: 1 << 20, Bytes: 4, Kind: Strong.With(Device), Inst: 10})
		asked[t] = true
	case 4:
		b.Fence(t, Device)
		late[t], asked[t] = late[t] || asked[t], false
	case 5:
		b.Fence(t, InBlock)
	default:
		m.accesses(r, block)
	}
}

// accesses lets one thread or neighbours access neighbouring memory.
func (m *lateModel) accesses(r *rand.Rand, block int) {
	kind, size, inst := Kind(r.IntN(2)), 1<<r.IntN(5), 1+r.IntN(3)
	first, t := r.IntN(16)*16, r.IntN(4)
	if r.IntN(4) == 0 {
		first += 4096 - 128
	}
	for range 1 + r.IntN(2)*r.IntN(60) {
		m.blocks[block].Access(t, &Access{Addr: uint64(first), Bytes: size, Kind: kind, Inst: inst})
		for i := range size {
			x := &m.bytes[first+i]
			early := !m.late[block][t]
			x.n, x.block, x.thread, x.inst = x.n+1, block, t, inst
			if kind == Write {
				x.write, x.earlyWrite = true, x.earlyWrite || early
			} else {
				x.read, x.earlyRead = true, x.earlyRead || early
			}
		}
		first, t = first+size, t+1
	}
}

// compare checks that the footprint has the bytes of the model. An access that is not late
// stands for all that are, and a write for reads.
func (m *lateModel) compare() {
	f := m.d.Footprint(func(uint64) bool { return true })
	find := func(list []Run, at int) (s Side, ok bool) {
		for i := range list {
			if r := &list[i]; int(r.Off) <= at && at < int(r.end()) {
				return SideOf(r, uint16(at), m.d.Shift()), true
			}
		}
		return s, false
	}
	for at, x := range m.bytes {
		p := f.Pages[uint64(at/4096)]
		w, wrote := find(p.Writes, at%4096)
		r, read := find(p.Reads, at%4096)
		want := x.read && (!x.write || x.earlyRead && !x.earlyWrite)
		if wrote != x.write || wrote && (w.Kind&Late == 0) != x.earlyWrite || read != want || read && (r.Kind&Late == 0) != x.earlyRead {
			m.Errorf("byte %#x: writes %v %v, reads %v %v, want %+v", at, wrote, w, read, r, x)
			return
		}
		if read {
			w = r
		}
		if x.n == 1 && (int(w.Block) != x.block || w.Thread != x.thread || w.Inst != x.inst) {
			m.Errorf("byte %#x: %+v, want %+v", at, w, x)
			return
		}
	}
}

// TestRepeatedLateRead lets a thread read a word behind an acquire twice. The second read drops
// the read of another thread before the acquire, and must stand for it.
func TestRepeatedLateRead(t *testing.T) {
	d := New(warpSize)
	d.Values = noValues{}
	b := d.Block(0, 0)
	acquire := &Access{Addr: 1 << 20, Bytes: 4, Kind: Strong.With(System), Inst: 9, Acquire: true}
	read := &Access{Bytes: 4, Inst: 1}
	b.Access(0, read)
	b.WarpSync(0, ^uint32(0))
	b.Access(1, acquire)
	b.Access(1, read)
	b.Access(2, acquire)
	b.Access(2, &Access{Bytes: 4, Kind: Write, Inst: 2})
	b.Access(1, read)
	p := d.Footprint(func(uint64) bool { return true }).Pages[0]
	if len(p.Reads) != 1 || p.Reads[0].Kind&Late != 0 {
		t.Errorf("reads %+v, want one that is not late", p.Reads)
	}
}

// TestRunsOfOtherThreads lets lines be written by threads that do not follow those of the line
// before. Each byte keeps its thread.
func TestRunsOfOtherThreads(t *testing.T) {
	d, order := New(2*warpSize), []int{0, 1, 0, 0, 1, 1, 0}
	d.Values = noValues{}
	b := d.Block(0, 0)
	for line, warp := range order {
		for lane := range warpSize {
			b.Access(warp*warpSize+lane, &Access{Addr: uint64(line*warpSize+lane) * 4, Bytes: 4, Inst: 1})
		}
	}
	p := d.Footprint(func(uint64) bool { return true }).Pages[0]
	for i := range p.Reads {
		for r, off := &p.Reads[i], p.Reads[i].Off; off < r.end(); off++ {
			if got, want := SideOf(r, off, d.Shift()).Thread, order[off/lineBytes]*warpSize+int(off%lineBytes/4); got != want {
				t.Fatalf("byte %d: thread %d, want %d", off, got, want)
			}
		}
	}
	one, two := Run{Bytes: 4, unit: 4, who: 5}, Run{Off: 4, Bytes: 8, unit: 4, who: 9, step: 1}
	if one.extend(&two) {
		t.Errorf("threads 9 and 10 continue thread 5: %+v", one)
	}
}
