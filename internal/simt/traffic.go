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

// line counts the sectors that an access touches of one line.
func (t *Traffic) line(sectors uint8, write bool) {
	n := uint64(bits.OnesCount8(sectors))
	run := &runs[sectors&15]
	if write {
		t.WriteSectors += n
		for i, c := range run {
			t.Writes[i] += uint64(c)
		}
		return
	}
	t.ReadSectors += n
	for i, c := range run {
		t.Reads[i] += uint64(c)
	}
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
	t := &w.k.stats.Traffic[ref.counter]
	if m.write {
		t.WriteBytes += m.bytes * uint64(w.n)
	} else {
		t.ReadBytes += m.bytes * uint64(w.n)
	}
	if stride == m.bytes || stride == 0 || stride == -m.bytes {
		t.contiguous(lo, extent, m.write)
		return
	}
	step := stride
	if int64(step) < 0 {
		step = -step
	}
	line, sectors := lo>>lineShift, uint8(0)
	for i := range uint64(w.n) {
		a := lo + i*step
		if l := a >> lineShift; l != line {
			t.line(sectors, m.write)
			line, sectors = l, 0
		}
		sectors |= sectorsOf(a, m.bytes)
	}
	t.line(sectors, m.write)
}

// sectorsOf are the sectors of a's line that an access of up to 32 bytes touches.
// It is aligned, so it does not leave its sector.
func sectorsOf(a, _ uint64) uint8 { return 1 << (a >> sectorShift & 3) }

// contiguous counts extent bytes from lo.
func (t *Traffic) contiguous(lo, extent uint64, write bool) {
	first, last := lo>>sectorShift, (lo+extent-1)>>sectorShift
	for first <= last {
		at := first & 3
		n := min(4-at, last-first+1)
		if write {
			t.WriteSectors += n
			t.Writes[(n-1)&3]++
		} else {
			t.ReadSectors += n
			t.Reads[(n-1)&3]++
		}
		first += n
	}
}

// touchRun sets the page bits of a run: each lane's when it may jump over pages.
func (w *warp) touchRun(ref *segRef, m *access, lo, stride, extent uint64) {
	if int64(stride) < 0 {
		stride = -stride
	}
	if stride <= 1<<ref.pages.Shift {
		ref.touch(lo, lo+extent-1, m.write)
		return
	}
	for i := range uint64(w.n) {
		ref.touch(lo+i*stride, lo+i*stride+m.bytes-1, m.write)
	}
}

// countLanes counts an access by the given lanes at their addresses.
func (k *worker) countLanes(counter int, m *access, mask uint32, addrs *lanes) {
	t := &k.stats.Traffic[counter]
	n := uint64(bits.OnesCount32(mask))
	if m.atomic {
		t.Atomics += n
		return
	}
	if m.write {
		t.WriteBytes += m.bytes * n
	} else {
		t.ReadBytes += m.bytes * n
	}
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
		e.sectors |= sectorsOf(a, m.bytes)
	}
	for _, h := range used[:count] {
		t.line(k.lines[h&63].sectors, m.write)
	}
}
