package simt

import (
	"math/bits"
)

// lineTable has the 128-byte lines that one access touches. It is a variable on the stack.
type lineTable struct {
	lines   [64]uint64
	sectors [64]uint8 // 0 for a free place
	used    [warpSize]uint8
	count   int
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

// atomicUnits is how many slices the second-level cache has. Each does atomic operations on
// its own lines. A GPU with HBM has one for each 64 bits of its memory bus: 6144 bits here.
const atomicUnits = 96

// unitOf returns the slice of a line. Four lines in a row have one slice: additions to 1, 4
// and 16 KiB on an H200 took as long as on 2, 8 and 32 slices. Hardware spreads them by a
// hash that is not published. This one gives near lines different slices.
func unitOf(line uint64) uint64 {
	return uint64(uint32(line>>2*0x9e3779b97f4a7c15>>32)) * atomicUnits >> 32
}

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
	var table lineTable
	all, last, h := *addrs, ^uint64(0), uint64(0)
	for rest := mask; rest != 0; rest &= rest - 1 {
		a := all[trailing(rest)]
		if line := a >> lineShift; line != last {
			last = line
			h = line * 0x9e3779b97f4a7c15 >> 58
			for table.sectors[h&63] != 0 && table.lines[h&63] != line {
				h++
			}
			h &= 63
			if table.sectors[h] == 0 {
				table.lines[h] = line
				table.used[table.count&(warpSize-1)] = uint8(h)
				table.count++
			}
		}
		table.sectors[h] |= sectorOf(a)
	}
	lines := t.linesFor(m, n)
	for _, h := range table.used[:table.count] {
		lines[table.sectors[h&63]&15]++
	}
	if m.write && table.count > 1 {
		k.countScattered(counter, &table)
	}
	if w := k.followed; w != nil {
		for _, h := range table.used[:table.count] {
			w.touchLine(counter, m, table.lines[h&63], table.sectors[h&63]&15)
		}
	}
}

// lineCounts is how many lines are told apart, where operations on one line are counted.
const lineCounts = 1 << 12

// lineCounter counts operations by line. It is nil until the first one.
type lineCounter []uint32

func (c *lineCounter) add(line uint64, n uint32) {
	if *c == nil {
		*c = make(lineCounter, lineCounts)
	}
	(*c)[line*0x9e3779b97f4a7c15>>52] += n
}

// addAll adds what another worker counted, and returns the most of one line.
func (c *lineCounter) addAll(o lineCounter) (most uint64) {
	if o != nil && *c == nil {
		*c = make(lineCounter, lineCounts)
	}
	for i, n := range o {
		(*c)[i] += n
	}
	for _, n := range *c {
		most = max(most, uint64(n))
	}
	return most
}

const (
	lockShift  = 6       // a lock holds a line of the CPU's caches, of 64 bytes
	lockLines  = 1 << 14 // lines that are told apart: those of 1 MiB
	lockQueues = 1 << 10 // queues of operations that wait for a lock
)

// lockCounter counts atomic operations by line of the CPU's caches.
type lockCounter struct {
	lines []uint32
	first uint64 // the lowest line
}

func (c *lockCounter) add(a uint64) {
	line := a >> lockShift
	if c.lines == nil {
		c.lines, c.first = make([]uint32, lockLines), line
	}
	c.first = min(c.first, line)
	c.lines[line%lockLines]++
}

// addAll adds what another worker counted.
func (c *lockCounter) addAll(o *lockCounter) {
	if o.lines == nil {
		return
	}
	if c.lines == nil {
		c.lines, c.first = make([]uint32, lockLines), o.first
	}
	c.first = min(c.first, o.first)
	for i, n := range o.lines {
		c.lines[i] += n
	}
}

// most returns the operations in the longest queue. A hash of the line chooses the queue. It
// is that of the distance to the lowest line, so that it does not depend on where the host's
// memory lies.
func (c *lockCounter) most() (most uint64) {
	if c.lines == nil {
		return 0
	}
	var queues [lockQueues]uint64
	for i := range uint64(lockLines) {
		h := (i + 1) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		q := &queues[h>>34%lockQueues]
		*q += uint64(c.lines[(c.first+i)%lockLines])
		most = max(most, *q)
	}
	return most
}

// countScattered counts a store to parts of several lines, by line.
func (k *worker) countScattered(counter int, table *lineTable) {
	if model := k.x.l.Model; model == nil || model.Locked[counter] {
		return
	}
	for _, h := range table.used[:table.count] {
		if sectors := table.sectors[h&63]; sectors&(sectors-1) == 0 {
			k.stores.add(table.lines[h&63], 1)
		}
	}
}

// sectorScratch is a table of the sectors that one atomic operation touches, with the number
// of lanes for each of their words.
type sectorScratch struct {
	sectors     [64]sectorEntry
	sectorEpoch uint32
}

type sectorEntry struct {
	sector uint64
	epoch  uint32
	most   uint8 // lanes on one word
	lanes  [8]uint8
}

// find returns the entry of a sector, and whether it is new.
func (t *sectorScratch) find(sector uint64) (e *sectorEntry, h uint8, added bool) {
	h = uint8(sector * 0x9e3779b97f4a7c15 >> 58)
	for e = &t.sectors[h&63]; e.epoch == t.sectorEpoch && e.sector != sector; e = &t.sectors[h&63] {
		h = (h + 1) & 63
	}
	if added = e.epoch != t.sectorEpoch; added {
		*e = sectorEntry{sector: sector, epoch: t.sectorEpoch}
	}
	return e, h, added
}

// countAtomics counts an atomic operation of the lanes in mask. The lanes of a warp that
// touch one sector are one operation of the second-level cache. It takes as many turns there
// as lanes use one word.
func (k *worker) countAtomics(counter int, m *access, mask uint32, addrs *lanes) {
	t := &k.tallies[counter]
	t.atomics += uint64(bits.OnesCount32(mask))
	model := k.x.l.Model
	locked := model != nil && model.Locked[counter]
	k.sectorEpoch++
	if k.sectorEpoch == 0 {
		k.sectors = [64]sectorEntry{}
		k.sectorEpoch = 1
	}
	var used [warpSize]uint8
	count := 0
	for rest := mask; rest != 0; rest &= rest - 1 {
		a := addrs[bits.TrailingZeros32(rest)&(warpSize-1)]
		if locked {
			k.locks.add(a)
		}
		e, h, added := k.find(a >> sectorShift)
		if added {
			used[count&(warpSize-1)] = h
			count++
		}
		n := &e.lanes[a>>2&7]
		*n++
		e.most = max(e.most, *n)
	}
	t.atomicSectors += uint64(count)
	for _, h := range used[:count] {
		e := &k.sectors[h&63]
		line := e.sector >> (lineShift - sectorShift)
		k.units[unitOf(line)%atomicUnits] += uint64(e.most)
		if w := k.followed; w != nil {
			w.touchLine(counter, m, line, 1<<(e.sector&3))
		}
	}
}
