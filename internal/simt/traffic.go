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
	readBytes, writeBytes uint64
	atomics               uint64
}

// linesFor counts the bytes of an access of n lanes, and returns the table that
// counts its lines.
func (t *tally) linesFor(m *access, n int) *[16]uint64 {
	if m.write {
		t.writeBytes += m.bytes * uint64(n)
		return &t.writes
	}
	t.readBytes += m.bytes * uint64(n)
	return &t.reads
}

// traffic returns the tally in sectors and requests.
func (t *tally) traffic() Traffic {
	out := Traffic{Atomics: t.atomics, ReadBytes: t.readBytes, WriteBytes: t.writeBytes}
	for m, table := range sectorRuns {
		n := uint64(bits.OnesCount8(uint8(m)))
		out.ReadSectors += n * t.reads[m]
		out.WriteSectors += n * t.writes[m]
		for i, c := range table {
			out.Reads[i] += uint64(c) * t.reads[m]
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
		t.atomics += uint64(n)
		for rest := mask; rest != 0; rest &= rest - 1 {
			k.units[unitOf(addrs[bits.TrailingZeros32(rest)&(warpSize-1)])]++
		}
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
}
