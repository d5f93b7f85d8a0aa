package kernelrace

import (
	"iter"
	"slices"
)

// chunk is what one access of Overwrite has. Allocations of malloc in kernels consist of chunks.
const chunk = 4 * wordBytes

// Overwrite records that thread t writes all of some memory at once, as free does: what others do
// with the memory must come before. Pages that no access has touched are left out: later accesses
// of freed memory are reported by Unallocated.
func (b *Block) Overwrite(t int, addr, n uint64, inst int) {
	for from, to := range b.d.touched(addr, n) {
		for at := from; at < to; at += chunk {
			b.Access(t, &Access{Addr: at, Bytes: int(min(chunk, to-at)), Kind: Write, Inst: inst})
		}
	}
}

// touched yields the parts of some memory that are in pages which accesses have touched, by
// address.
func (d *Detector) touched(addr, n uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(from, to uint64) bool) {
		for _, number := range d.pagesOf(addr, n) {
			if !yield(max(addr, number<<pageShift), min(addr+n, (number+1)<<pageShift)) {
				return
			}
		}
	}
}

// pagesOf returns the numbers of the pages of some memory that accesses have touched, in order.
func (d *Detector) pagesOf(addr, n uint64) (all []uint64) {
	if n == 0 {
		return nil
	}
	first, last := addr>>pageShift, (addr+n-1)>>pageShift
	if last-first > uint64(len(d.pages)) {
		for number := range d.pages {
			if first <= number && number <= last {
				all = append(all, number)
			}
		}
		slices.Sort(all)
		return all
	}
	for number := first; number <= last; number++ {
		if _, ok := d.pages[number]; ok {
			all = append(all, number)
		}
	}
	return all
}

// Reuse records that thread t gets memory from malloc. What was done there before it was freed
// comes before, for this thread and for those that are ordered behind the allocation.
func (b *Block) Reuse(t int, addr, n uint64, inst int) {
	for from, to := range b.d.touched(addr, n) {
		for at := from; at < to; at += chunk {
			bytes := min(chunk, to-at)
			if b.d.forget(at, bytes) {
				b.Access(t, &Access{Addr: at, Bytes: int(bytes), Kind: Write, Inst: inst})
			}
		}
	}
}

// forget drops what is known of n bytes of a page. It reports whether there was something.
func (d *Detector) forget(addr, n uint64) (any bool) {
	p := d.pages[addr>>pageShift]
	if p.lines == nil {
		return false
	}
	for at := addr &^ (wordBytes - 1); at < addr+n; at += wordBytes {
		any = d.drop(&p.lines[at%(1<<pageShift)/lineBytes], int(at%lineBytes/wordBytes)) || any
		delete(d.words, at)
		delete(d.watchers, at)
	}
	return any
}

// drop drops what is known of a word of a line. It reports whether there was something.
func (d *Detector) drop(l *line, i int) (any bool) {
	if at := l.cells(); at != 0 {
		c := &d.cells[at][i]
		any = c.n() != 0
		*c = cell{}
		return any
	}
	if l.strips() != 0 {
		d.split(l)
		return d.drop(l, i)
	}
	for r := range l.runs {
		any = any || l.runs[r].words>>i&1 != 0
		l.runs[r].words &^= 1 << i
	}
	return any
}

// Unallocated reports an access of thread t to memory that is in no allocation. by is the free of the
// memory, nil if none is known.
func (b *Block) Unallocated(t int, a *Access, by *Side) {
	first := a.Inst
	if by != nil {
		first = by.Inst
	}
	f, fresh := b.d.count(Unallocated, first, a.Inst)
	if !fresh {
		return
	}
	if by != nil {
		f.First = *by
	}
	f.Second = Side{Block: b.number, Thread: t, Inst: a.Inst, Kind: a.Kind}
	f.Addr, f.Bytes = a.Addr, a.Bytes
	f.Missing = "an allocation that has the bytes: the memory was freed before, or they are past its end"
}
