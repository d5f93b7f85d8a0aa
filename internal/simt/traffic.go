package simt

import "math/bits"

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

// runs says how many runs of 1, 2, 3 and 4 sectors a mask of four has.
var runs = func() (table [16][4]uint8) {
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

// tally counts the lines that accesses touched by their sectors, for one counter.
type tally struct {
	reads, writes         [16]uint64 // by mask of sectors
	readBytes, writeBytes uint64
	atomics               uint64
}

// of is what lines are counted in, with the bytes asked for counted already.
func (t *tally) of(m *access, lanes int) *[16]uint64 {
	if m.write {
		t.writeBytes += m.bytes * uint64(lanes)
		return &t.writes
	}
	t.readBytes += m.bytes * uint64(lanes)
	return &t.reads
}

// traffic is the tally in sectors and requests.
func (t *tally) traffic() Traffic {
	out := Traffic{Atomics: t.atomics, ReadBytes: t.readBytes, WriteBytes: t.writeBytes}
	for m, table := range runs {
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

// countRun counts an access of lanes 0 to n-1 whose addresses are addr +
// i*stride, lo the lowest of them.
func (w *warp) countRun(ref *segRef, m *access, addr, stride, lo, extent uint64) {
	if ref.pages != nil {
		w.touchRun(ref, m, lo, stride, extent)
	}
	if ref.counter < 0 {
		return
	}
	lines := w.k.tallies[ref.counter].of(m, w.n)
	if stride == m.bytes || stride == 0 || stride == -m.bytes {
		contiguous(lines, lo, extent)
		return
	}
	step := stride
	if int64(step) < 0 {
		step = -step
	}
	line, sectors := lo>>lineShift, uint8(0)
	for i := 0; i < w.n; i++ {
		if l := lo >> lineShift; l != line {
			lines[sectors&15]++
			line, sectors = l, 0
		}
		sectors |= sectorOf(lo)
		lo += step
	}
	lines[sectors&15]++
}

// atomicUnits is how many units do atomic operations side by side.
const atomicUnits = 256

// unitOf is the unit of a's word.
func unitOf(a uint64) uint8 { return uint8(a >> 2 * 0x9e3779b97f4a7c15 >> 56) }

// sectorOf is the sector of a's line that an access of up to 32 bytes touches: it
// is aligned, so it does not leave its sector.
func sectorOf(a uint64) uint8 { return 1 << (a >> sectorShift & 3) }

// contiguous counts the lines of extent bytes from lo.
func contiguous(lines *[16]uint64, lo, extent uint64) {
	first, last := lo>>sectorShift, (lo+extent-1)>>sectorShift
	for first <= last {
		at := first & 3
		n := min(4-at, last-first+1)
		lines[(1<<n-1)<<at&15]++
		first += n
	}
}

// touchRun sets the page bits of a run: each lane's when it may jump over pages.
func (w *warp) touchRun(ref *segRef, m *access, lo, stride, extent uint64) {
	if int64(stride) < 0 {
		stride = -stride
	}
	if raceBuild {
		ref.watchRun(m, lo, stride, extent, w.n)
	}
	if stride <= 1<<ref.pages.Shift {
		w.touch(ref, lo, lo+extent-1, m.write)
		return
	}
	for i := range uint64(w.n) {
		w.touch(ref, lo+i*stride, lo+i*stride+m.bytes-1, m.write)
	}
}

// touch sets the page bits of the bytes lo to hi, and when they were touched.
func (w *warp) touch(ref *segRef, lo, hi uint64, write bool) {
	ref.touch(lo, hi, write)
	if ref.pages.Order != nil {
		ref.pages.note((lo-ref.base)>>ref.pages.Shift, (hi-ref.base)>>ref.pages.Shift, w.order(write))
	}
}

// countLanes counts an access by the given lanes at their addresses.
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
	lines := t.of(m, n)
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
