package kernelrace

// chunk is what one access of Overwrite has. Allocations of malloc in kernels consist of chunks.
const chunk = 4 * wordBytes

// Overwrite records that thread t writes all of some memory at once, as free does: what others do
// with the memory must come before.
func (b *Block) Overwrite(t int, addr, n uint64, inst int) {
	for at := addr; at < addr+n; at += chunk {
		b.Access(t, &Access{Addr: at, Bytes: int(min(chunk, addr+n-at)), Kind: Write, Inst: inst})
	}
}

// Reuse records that thread t gets memory from malloc. What was done there before it was freed
// comes before, for this thread and for those that are ordered behind the allocation.
func (b *Block) Reuse(t int, addr, n uint64, inst int) {
	for at := addr; at < addr+n; at += chunk {
		bytes := min(chunk, addr+n-at)
		if b.d.forget(at, bytes) {
			b.Access(t, &Access{Addr: at, Bytes: int(bytes), Kind: Write, Inst: inst})
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
