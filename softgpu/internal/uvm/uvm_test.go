package uvm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

const gpu = Processor(0)

// free prices all work at zero.
func free(Work) float64 { return 0 }

// slow prices all work so high that nothing thrashes.
func slow(Work) float64 { return 2 * lapse }

// pages returns touches of a range's pages in the given order.
func pages(r *Range, write bool, at ...uint64) (out []Touch) {
	for i, p := range at {
		out = append(out, Touch{Page: r.Page(0) + p, Write: write, Key: uint64(i)})
	}
	return out
}

// upTo returns 0 to n-1.
func upTo(n uint64) (out []uint64) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

// onCPU returns a range that the CPU has written.
func onCPU(s *Space, bytes uint64) *Range {
	r := s.Alloc(bytes)
	r.CPU(0, bytes, true, 0, free)
	return r
}

// onGPU returns a range that was moved to the device.
func onGPU(s *Space, bytes uint64) *Range {
	r := s.Alloc(bytes)
	r.Migrate(0, bytes, gpu)
	return r
}

// one returns the only run of a range.
func one(t *testing.T, r *Range) Run {
	t.Helper()
	runs := r.Residency(0, r.size)
	if len(runs) != 1 {
		t.Fatalf("got %d runs, want one: %+v", len(runs), runs)
	}
	return runs[0]
}

// Touched one page after the other, a block faults six times. Each fault
// migrates twice as much as the one before, from 64 KiB on, because half of a
// subtree and one page are above the threshold.
func TestSequentialWalkFaultsSixTimes(t *testing.T) {
	s := NewSpace(1)
	r := onGPU(s, 2*BlockSize)
	w := r.CPU(0, BlockSize, false, 0, slow)
	if w.Faults != 6 || w.Blocks != 6 || w.Out != BlockSize || w.OutRuns != 6 {
		t.Errorf("the CPU: got %+v, want 6 faults that migrate the block", w)
	}
	r = onCPU(s, BlockSize)
	w, at := s.Device(gpu, pages(r, false, upTo(blockPages)...), 1, 0, slow)
	if w.Faults != 6 || w.Batches != 6 || w.In != BlockSize {
		t.Errorf("a device with one access at a time: got %+v, want 6 batches of one fault", w)
	}
	if at.Local != BlockSize || at.Remote != 0 {
		t.Errorf("got %+v, want all local", at)
	}
}

// 256 concurrent faults form a batch. Faults on half of a block's pages migrate
// that half, and prefetch adds nothing. The other half is in the second batch.
func TestBatches(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, 2*BlockSize)
	w, _ := s.Device(gpu, pages(r, true, upTo(2*blockPages)...), 1<<40, 0, slow)
	if w.Batches != 4 || w.Faults != 4*256 || w.In != 2*BlockSize || w.Blocks != 4 {
		t.Errorf("got %+v, want 4 batches of 256 faults", w)
	}
	// A fault on every 16th page faults in every big page, so the first batch
	// migrates the block.
	r = onCPU(s, BlockSize)
	var sparse []uint64
	for p := uint64(3); p < blockPages; p += bigPages {
		sparse = append(sparse, p)
	}
	w, _ = s.Device(gpu, pages(r, false, sparse...), 1<<40, 0, slow)
	if w.Batches != 1 || w.Faults != 32 || w.In != BlockSize || w.InRuns != 1 {
		t.Errorf("sparse: got %+v, want one batch of 32 faults that migrates the block as one run", w)
	}
}

// One fault alone migrates 64 KiB. Prefetch extends a subtree that is just over
// half resident to the whole.
func TestPrefetchThreshold(t *testing.T) {
	s := NewSpace(1)
	for _, c := range []struct {
		there []uint64 // big pages that are on the device already
		want  uint64   // pages that a fault in big page 0 migrates
	}{
		{nil, 16},
		{[]uint64{1}, 16},
		{[]uint64{2}, 16},            // 32 of 64 pages: not over 51 %
		{[]uint64{2, 3}, 32},         // then 48 of 64
		{[]uint64{4, 5, 6, 7}, 64},   // 80 of 128: all but the resident ones
		{[]uint64{8, 9, 10, 11}, 16}, // 80 of 256
	} {
		r := onCPU(s, BlockSize)
		for _, big := range c.there {
			r.Migrate(big<<BigShift, 1<<BigShift, gpu)
		}
		w, _ := s.Device(gpu, pages(r, false, 5), 1, 0, slow)
		if got := w.In >> PageShift; got != c.want {
			t.Errorf("with %v there: got %d pages, want %d", c.there, got, c.want)
		}
	}
}

// The first touch populates without copying bytes. A later touch of the CPU
// copies them.
func TestFirstTouch(t *testing.T) {
	s := NewSpace(1)
	r := s.Alloc(BlockSize)
	w, _ := s.Device(gpu, pages(r, true, 0), 1, 0, slow)
	if w.Zeroed != 1<<BigShift || w.In != 0 || w.NewBlocks != 1 {
		t.Errorf("got %+v, want 64 KiB zeroed", w)
	}
	if w := r.CPU(0, 1, false, 0, free); w.Out != 1<<BigShift || w.Faults != 1 || w.NewBlocks != 0 {
		t.Errorf("got %+v, want 64 KiB out", w)
	}
	r = s.Alloc(BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.Preferred = gpu })
	if w, _ := s.Device(gpu, pages(r, true, 7), 1, 0, slow); w.Zeroed != BlockSize || w.Faults != 1 {
		t.Errorf("where it is preferred: got %+v, want the whole block", w)
	}
	r = s.Alloc(BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.Preferred = CPU })
	if w, at := s.Device(gpu, pages(r, true, 7), 1, 0, slow); w.Remote == 0 || at.Remote != PageSize {
		t.Errorf("preferred elsewhere: got %+v, %+v, want a remote mapping", w, at)
	}
}

// Small allocations share a block and migrate together.
func TestSmallAllocationsShareABlock(t *testing.T) {
	s := NewSpace(1)
	a, b := onCPU(s, 1000), onCPU(s, 100<<10)
	if a.Page(0) != b.Page(0) || b.base-a.base != 1024 {
		t.Errorf("got %#x and %#x, want neighbours", a.base, b.base)
	}
	w, _ := s.Device(gpu, pages(a, false, 0), 1, 0, slow)
	if w.In != 1<<BigShift {
		t.Errorf("got %+v, want 64 KiB, of the neighbour too", w)
	}
	a.Free()
	if got := b.Residency(0, 1)[0].At; got != gpu {
		t.Errorf("the shared page went to %v with its neighbour", got)
	}
	b.Free()
	if len(s.blocks) != 0 || len(s.used[0]) != 0 {
		t.Errorf("left: %d blocks, %d used", len(s.blocks), len(s.used[0]))
	}
	if again := s.Alloc(1000); again.base != a.base {
		t.Errorf("after the last was freed: got %#x, want %#x again", again.base, a.base)
	}
	if big := s.Alloc(BlockSize); big.base%BlockSize != 0 {
		t.Errorf("a large range begins at %#x", big.base)
	}
}

// Accessed-by maps pages at their place, also after they move.
func TestAccessedBy(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.AccessedBy |= 1 })
	if w, at := s.Device(gpu, pages(r, true, upTo(blockPages)...), 1<<40, 0, slow); w.Faults != 0 || at.Remote != BlockSize {
		t.Errorf("got %+v, %+v, want no fault", w, at)
	}
	r.Migrate(0, BlockSize, gpu)
	if w := r.CPU(0, BlockSize, true, 0, slow); w.Out != BlockSize {
		t.Errorf("got %+v", w)
	}
	if w, _ := s.Device(gpu, pages(r, true, 0, 511), 1, 0, slow); w.Faults != 0 {
		t.Errorf("after the move to the CPU: got %+v, want it mapped still", w)
	}
	r.Advise(0, BlockSize, func(a *Advice) { a.AccessedBy = 0 })
	if w, _ := s.Device(gpu, pages(r, true, 0), 1, 0, slow); w.Faults != 0 {
		t.Errorf("taking the advice back: got %+v, the mapping stays", w)
	}
}

// Faults move a page to its preferred location if the processor can access it
// there.
func TestPreferredLocation(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.Preferred = CPU })
	w, at := s.Device(gpu, pages(r, false, 1, 2), 1, 0, slow)
	if w.In != 0 || w.Remote != 2 || at.Remote != 2*PageSize {
		t.Errorf("got %+v, %+v, want two pages mapped over the link", w, at)
	}
	if w, _ := s.Device(gpu, pages(r, true, 1, 2), 1, 0, slow); w.Faults != 0 {
		t.Errorf("again: got %+v, want no fault", w)
	}
	r = onGPU(s, BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.Preferred = gpu })
	if w := r.CPU(0, PageSize, false, 0, free); w.Out != 1<<BigShift {
		t.Errorf("the CPU cannot reach the device: got %+v, want 64 KiB out", w)
	}
}

// Read-mostly pages are copied to readers and collapse when written.
func TestReadMostly(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.ReadMostly = true })
	w, at := s.Device(gpu, pages(r, false, upTo(blockPages)...), 1<<40, 0, slow)
	if run := one(t, r); w.In != BlockSize || at.Local != BlockSize || !run.OnCPU || run.At != gpu {
		t.Errorf("got %+v, %+v, want a copy on both", w, run)
	}
	if w := r.CPU(0, BlockSize, false, 0, free); w.Faults != 0 {
		t.Errorf("the CPU reads: got %+v, want no fault", w)
	}
	w, _ = s.Device(gpu, pages(r, true, 3), 1, 0, slow)
	if w.Faults != 1 || w.In != 0 || w.Collapsed != 1 {
		t.Errorf("a write: got %+v, want a fault, no copy and the CPU's copy removed", w)
	}
	if runs := r.Residency(3*PageSize, PageSize); runs[0].OnCPU || runs[0].At != gpu {
		t.Errorf("after the write: got %+v, want the device alone", runs)
	}
	if w, _ = s.Device(gpu, pages(r, true, 3), 1, 0, slow); w.Collapsed != 0 {
		t.Errorf("another write: got %+v, want no copy to remove", w)
	}
	if w := r.CPU(3*PageSize, PageSize, false, 0, free); w.Out != PageSize {
		t.Errorf("the CPU reads what was written: got %+v, want a page out", w)
	}
	r.Advise(0, BlockSize, func(a *Advice) { a.ReadMostly = false })
	if run := one(t, r); run.At != CPU {
		t.Errorf("without the advice: got %+v, want the CPU's", run)
	}
}

// When two processors touch a page alternately, throttling begins after three
// events. After ten naps the page is pinned to the CPU for 150 ms, and the
// device accesses it over the link.
func TestThrashing(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, BlockSize)
	now, naps, moves := 0.0, 0, 0
	for round := range 100 {
		w, _ := s.Device(gpu, pages(r, true, 0), 1, now, free)
		now += 20e3 + w.Slept
		c := r.CPU(0, 8, true, now, free)
		now += 20e3 + c.Slept
		moves += int(w.In+c.Out) / PageSize
		if w.Slept+c.Slept > 0 {
			naps++
		}
		if run := r.Residency(0, 1)[0]; run.Mapped == 1|1<<31 {
			if round < 10 || run.At != CPU {
				t.Fatalf("round %d: pinned as %+v", round, run)
			}
			break
		}
	}
	if naps < pinAfter || naps > 2*pinAfter {
		t.Errorf("%d naps before the page was pinned, want %d or a few more", naps, pinAfter)
	}
	w, at := s.Device(gpu, pages(r, true, 0), 1, now, free)
	if w.Faults != 0 || at.Remote != PageSize {
		t.Errorf("pinned: got %+v, %+v, want a remote access without a fault", w, at)
	}
	now += pinFor
	if w, _ := s.Device(gpu, pages(r, true, 0), 1, now, free); w.In == 0 {
		t.Errorf("after 150 ms: got %+v, want it to move again", w)
	}
}

// Slow alternation does not thrash.
func TestSlowAlternationDoesNotThrash(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, BlockSize)
	now := 0.0
	for range 50 {
		w, _ := s.Device(gpu, pages(r, true, 0), 1, now, free)
		now += lapse + 1
		c := r.CPU(0, 8, true, now, free)
		now += lapse + 1
		if w.In != 1<<BigShift || c.Out != 1<<BigShift || w.Slept+c.Slept != 0 {
			t.Fatalf("got %+v, %+v, want 64 KiB in both directions", w, c)
		}
	}
}

// A full device evicts whole blocks, those first that got pages longest ago.
func TestEviction(t *testing.T) {
	s := NewSpace(1)
	s.Capacity = func(Processor) uint64 { return 3 * BlockSize }
	r := onCPU(s, 5*BlockSize)
	touch := func(block uint64) Work {
		w, _ := s.Device(gpu, pages(r, false, block*blockPages), 1, 0, slow)
		return w
	}
	resident := func() (out []uint64) {
		for b := range uint64(5) {
			if r.Residency(b*BlockSize, 1)[0].At == gpu {
				out = append(out, b)
			}
		}
		return out
	}
	for _, b := range []uint64{0, 1, 2} {
		if w := touch(b); w.Evicted != 0 {
			t.Errorf("block %d: got %+v", b, w)
		}
	}
	r.Migrate(0, BlockSize, gpu) // block 0 gets more pages
	if w := touch(3); w.Evicted != 1 || w.Out != 1<<BigShift || !slices.Equal(resident(), []uint64{0, 2, 3}) {
		t.Errorf("got %+v and %v, want block 1 gone", w, resident())
	}
	if w := touch(4); w.Evicted != 1 || !slices.Equal(resident(), []uint64{0, 3, 4}) {
		t.Errorf("got %+v and %v, want block 2 gone", w, resident())
	}
	if w := touch(1); w.Evicted != 1 || w.Out != BlockSize || !slices.Equal(resident(), []uint64{1, 3, 4}) {
		t.Errorf("got %+v and %v, want all of block 0 gone", w, resident())
	}
	if w := r.CPU(0, 8, true, 0, free); w.Out != 0 || w.Faults != 1 {
		t.Errorf("the CPU: got %+v, want a fault that maps what was evicted", w)
	}
}

// A migration moves exactly the given bytes.
func TestMigrate(t *testing.T) {
	s := NewSpace(1)
	r := onCPU(s, 2*BlockSize)
	if w := r.Migrate(BlockSize-PageSize, 2*PageSize, gpu); w.In != 2*PageSize || w.Blocks != 2 || w.InRuns != 2 {
		t.Errorf("got %+v, want a page of each block", w)
	}
	if w := r.Migrate(0, 2*BlockSize, gpu); w.In != 2*BlockSize-2*PageSize {
		t.Errorf("got %+v, want the rest", w)
	}
	if w := r.Migrate(0, 2*BlockSize, CPU); w.Out != 2*BlockSize || w.OutRuns != 2 {
		t.Errorf("got %+v, want all of it out", w)
	}
	if !r.MostlyCPU(0, 2*BlockSize) {
		t.Error("it is not with the CPU")
	}
}

// Devices that cannot access each other move pages, others map them.
func TestPeers(t *testing.T) {
	for _, peers := range []bool{false, true} {
		s := NewSpace(2)
		s.Peers = peers
		r := onGPU(s, BlockSize)
		r.Advise(0, BlockSize, func(a *Advice) { a.AccessedBy = 1 << 1 })
		w, at := s.Device(1, pages(r, true, 9), 1, 0, slow)
		if moved := w.Peer > 0; moved == peers || (at.Remote > 0) != peers {
			t.Errorf("peers %v: got %+v, %+v", peers, w, at)
		}
	}
}

// A processor that had a page mapped loses the mapping when the page moves.
func TestMovesRemoveMappings(t *testing.T) {
	s := NewSpace(2)
	s.Peers = true
	r := onCPU(s, BlockSize)
	r.Advise(0, BlockSize, func(a *Advice) { a.Preferred = CPU })
	s.Device(1, pages(r, true, 4), 1, 0, slow)
	r.Advise(0, BlockSize, func(a *Advice) { *a = NoAdvice })
	r.Migrate(0, BlockSize, gpu)
	if w, _ := s.Device(1, pages(r, true, 4), 1, 0, slow); w.Faults != 1 {
		t.Errorf("got %+v, want a fault", w)
	}
}

// The invariants of every page hold after random calls, and the same calls give
// the same result.
func TestInvariants(t *testing.T) {
	for seed := range uint64(40) {
		first := randomCalls(t, seed)
		if again := randomCalls(t, seed); first != again {
			t.Fatalf("seed %d: got %+v and %+v", seed, first, again)
		}
	}
}

func randomCalls(t *testing.T, seed uint64) (total Work) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := NewSpace(2)
	s.Peers = seed%2 == 0
	s.Capacity = func(Processor) uint64 { return 4 * BlockSize }
	var ranges []*Range
	for range 4 {
		ranges = append(ranges, s.Alloc(1+rng.Uint64N(3*BlockSize)), s.Alloc(1+rng.Uint64N(200<<10)))
	}
	now := 0.0
	for range 150 {
		r := ranges[rng.IntN(len(ranges))]
		off := rng.Uint64N(r.size)
		n := 1 + rng.Uint64N(r.size-off)
		var w Work
		switch to := Processor(rng.IntN(3)) - 1; rng.IntN(5) {
		case 0:
			w = r.CPU(off, n, rng.IntN(2) == 0, now, free)
		case 1:
			w = r.Migrate(off, n, to)
		case 2:
			r.Advise(off, n, func(a *Advice) {
				*a = Advice{ReadMostly: rng.IntN(3) == 0, Preferred: Processor(rng.IntN(4)) - 2, AccessedBy: rng.Uint32() & (3 | 1<<31)}
			})
		default:
			var touched []Touch
			for page := r.Page(off); page <= r.Page(off+n-1); page++ {
				if rng.IntN(3) == 0 {
					touched = append(touched, Touch{page, rng.IntN(2) == 0, rng.Uint64N(1000)})
				}
			}
			w, _ = s.Device(Processor(rng.IntN(2)), touched, 100, now, free)
		}
		now += rng.Float64()*lapse + w.Slept
		total.Add(w)
		for _, b := range s.blocks {
			b.verify(t, s)
		}
	}
	return total
}

// verify checks the invariants of a block.
func (b *block) verify(t *testing.T, s *Space) {
	t.Helper()
	for index := range b.resident {
		p := Processor(index - 1)
		if p >= 0 && slices.Contains(s.used[p], b) == b.resident[index].empty() {
			t.Fatalf("block %d: device %d lists it wrongly", b.number, p)
		}
		if p >= 0 && len(s.used[p]) > 4 {
			t.Fatalf("device %d has %d blocks", p, len(s.used[p]))
		}
	}
	for i := range blockPages {
		holders := b.holders(i)
		for index := range b.mapped {
			p := Processor(index - 1)
			if b.writable[index].has(i) && (!b.mapped[index].has(i) || holders > 1) {
				t.Fatalf("page %d: %d may write, with %d holders", i, p, holders)
			}
			if b.mapped[index].has(i) && !s.canMap(p, b.at(i, p)) {
				t.Fatalf("page %d: %d reaches it at %d", i, p, b.at(i, p))
			}
		}
	}
}

func TestMask(t *testing.T) {
	for range 1000 {
		first := rand.IntN(blockPages)
		past := first + rand.IntN(blockPages-first)
		var m mask
		m.fill(first, past)
		want := 0
		for i := range blockPages {
			in := i >= first && i < past
			if m.has(i) != in {
				t.Fatalf("fill(%d, %d): page %d is %v", first, past, i, m.has(i))
			}
			if in && i%3 == 0 {
				m.clear(i)
			}
		}
		a, b := rand.IntN(blockPages), rand.IntN(blockPages+1)
		runs, last := 0, false
		for i := range blockPages {
			in := m.has(i)
			if in && i >= a && i < b {
				want++
			}
			if in && !last {
				runs++
			}
			last = in
		}
		if a < b && m.count(a, b) != want || m.runs() != runs {
			t.Fatalf("count(%d, %d) = %d, want %d; %d runs, want %d", a, b, m.count(a, b), want, m.runs(), runs)
		}
	}
}
