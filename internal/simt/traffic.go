package simt

import (
	"math/bits"
)

// lineScratch is a table of the 128-byte lines that one access touches.
type lineScratch struct {
	lines [64]lineEntry
	epoch uint32
}

type lineEntry struct {
	line    uint64
	epoch   uint32
	sectors uint8
}

const (
	lineShift   = 7
	sectorShift = 5
)

func (t *Traffic) add(o *Traffic) {
	t.ReadSectors += o.ReadSectors
	t.WriteSectors += o.WriteSectors
	for i := range t.Reads {
		t.Reads[i] += o.Reads[i]
		t.Writes[i] += o.Writes[i]
	}
	t.Atomics += o.Atomics
	t.AtomicSectors += o.AtomicSectors
	t.CachedSectors += o.CachedSectors
	t.ReadBytes += o.ReadBytes
	t.WriteBytes += o.WriteBytes
}

// sectorRuns has, for each mask of four sectors, how many runs of 1, 2, 3 and 4
// sectors it contains.
var sectorRuns = func() (table [16][4]uint8) {
	for m := range table {
		for at := 0; at < 4; {
			n := bits.TrailingZeros8(^uint8(m >> at))
			if n > 0 {
				table[m][n-1]++
			}
			at += n + 1
		}
	}
	return table
}()

// tally counts the lines that accesses touched, by the sectors touched in them. There
// is one for each counter.
type tally struct {
	reads, writes         [16]uint64 // index: mask of sectors
	cached                [16]uint64 // reads that a first-level cache may serve
	readBytes, writeBytes uint64
	atomics               uint64
	atomicSectors         uint64
}

// linesFor counts the bytes of an access of n lanes, and returns the table that
// counts its lines.
func (t *tally) linesFor(m *access, n int) *[16]uint64 {
	if m.write {
		t.writeBytes += m.bytes * uint64(n)
		return &t.writes
	}
	t.readBytes += m.bytes * uint64(n)
	if m.uncached {
		return &t.reads
	}
	return &t.cached
}

// traffic returns the tally in sectors and requests.
func (t *tally) traffic() Traffic {
	out := Traffic{Atomics: t.atomics, AtomicSectors: t.atomicSectors, ReadBytes: t.readBytes, WriteBytes: t.writeBytes}
	for m, table := range sectorRuns {
		n := uint64(bits.OnesCount8(uint8(m)))
		reads := t.reads[m] + t.cached[m]
		out.ReadSectors += n * reads
		out.CachedSectors += n * t.cached[m]
		out.WriteSectors += n * t.writes[m]
		for i, c := range table {
			out.Reads[i] += uint64(c) * reads
			out.Writes[i] += uint64(c) * t.writes[m]
		}
	}
	return out
}

// atomicUnits is how many units of a GPU do atomic operations in parallel.
const atomicUnits = 256

// unitOf returns the atomic unit for the word at address a.
func unitOf(a uint64) uint8 { return uint8(a >> 2 * 0x9e3779b97f4a7c15 >> 56) }

// sectorOf returns the bit of the sector of address a in its line. An access of up to
// 32 bytes is aligned, so it stays in one sector.
func sectorOf(a uint64) uint8 { return 1 << (a >> sectorShift & 3) }

// countContiguous counts the lines of extent bytes from lo.
func countContiguous(lines *[16]uint64, lo, extent uint64) {
	first, last := lo>>sectorShift, (lo+extent-1)>>sectorShift
	for first <= last {
		at := first & 3
		n := min(4-at, last-first+1)
		lines[(1<<n-1)<<at&15]++
		first += n
	}
}

// countLanes counts an access of the lanes in mask at their addresses.
func (k *worker) countLanes(counter int, m *access, mask uint32, addrs *lanes) {
	t := &k.tallies[counter]
	n := bits.OnesCount32(mask)
	if m.atomic {
		k.countAtomics(counter, m, mask, addrs)
		return
	}
	lines := t.linesFor(m, n)
	k.epoch++
	if k.epoch == 0 {
		k.lines = [64]lineEntry{}
		k.epoch = 1
	}
	var used [warpSize]uint8
	count := 0
	var e *lineEntry
	for rest := mask; rest != 0; rest &= rest - 1 {
		a := addrs[bits.TrailingZeros32(rest)&(warpSize-1)]
		line := a >> lineShift
		if e == nil || e.line != line {
			h := line * 0x9e3779b97f4a7c15 >> 58
			for e = &k.lines[h]; e.epoch == k.epoch && e.line != line; e = &k.lines[h] {
				h = (h + 1) & 63
			}
			if e.epoch != k.epoch {
				*e = lineEntry{line: line, epoch: k.epoch}
				used[count&(warpSize-1)] = uint8(h)
				count++
			}
		}
		e.sectors |= sectorOf(a)
	}
	for _, h := range used[:count] {
		lines[k.lines[h&63].sectors&15]++
	}
	if w := k.followed; w != nil {
		for _, h := range used[:count] {
			w.touchLine(counter, m, k.lines[h&63].line, k.lines[h&63].sectors&15)
		}
	}
}

// lineLocks is how many lines with locked atomic operations are told apart.
const lineLocks = 1 << 12

// countAtomics counts an atomic operation of the lanes in mask. Lanes in turn that touch one
// sector are one operation of the second-level cache.
func (k *worker) countAtomics(counter int, m *access, mask uint32, addrs *lanes) {
	t := &k.tallies[counter]
	t.atomics += uint64(bits.OnesCount32(mask))
	model := k.x.l.Model
	locked := model != nil && model.Locked[counter]
	if locked && k.locks == nil {
		k.locks = make([]uint32, lineLocks)
	}
	sector := ^uint64(0)
	for rest := mask; rest != 0; rest &= rest - 1 {
		a := addrs[bits.TrailingZeros32(rest)&(warpSize-1)]
		k.units[unitOf(a)]++
		if locked {
			k.locks[a>>lineShift*0x9e3779b97f4a7c15>>52]++
		}
		if s := a >> sectorShift; s != sector {
			sector = s
			t.atomicSectors++
			if w := k.followed; w != nil {
				w.touchLine(counter, m, a>>lineShift, sectorOf(a))
			}
		}
	}
}

// addLocks adds a worker's counts of locked lines.
func (x *execution) addLocks(locks []uint32) {
	if locks == nil {
		return
	}
	if x.locks == nil {
		x.locks = make([]uint32, lineLocks)
	}
	for i, n := range locks {
		x.locks[i] += n
		x.stats.Locked = max(x.stats.Locked, uint64(x.locks[i]))
	}
}
