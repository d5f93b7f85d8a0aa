package kernelrace

import "slices"

// Copy is an asynchronous copy of a thread (cp.async), from global to shared memory.
type Copy struct {
	To, From uint64 // in shared memory an offset
	Bytes    int    // that are written, from a word on
	Reads    int    // bytes that are read
	Inst     int    // that writes
	Source   int    // the number of the instruction for its reads
}

// transfer is a copy that may not be over yet for some threads. Until it is over, no thread may
// access the bytes that it writes, or write the bytes that it reads. A barrier does not wait for it.
type transfer struct {
	Copy
	b         *Block
	t         int
	committed bool
	group     uint32   // of the thread
	phases    []*phase // that track it
	own       group    // its thread, once it has waited for a copy that an object tracks
	gone      bool     // its reads, if any, are those of its thread
}

// copies has the copies of the threads of a block.
type copies struct {
	open    [][]*transfer          // by thread, what it has not waited for
	groups  []uint32               // by thread, the last one
	started []*transfer            // that no barrier of all threads has ended
	limit   int                    // of started, until those that are over are dropped
	landing map[uint64][]*transfer // by the words that they write
}

// Copy records that thread t starts a copy, whose accesses have been checked.
func (b *Block) Copy(t int, c *Copy) {
	if b.open == nil {
		b.open, b.groups, b.landing = make([][]*transfer, len(b.threads)), make([]uint32, len(b.threads)), map[uint64][]*transfer{}
	}
	if b.d.leaving == nil {
		b.d.leaving = map[uint64][]*transfer{}
	}
	x := &transfer{Copy: *c, b: b, t: t}
	b.open[t] = append(b.open[t], x)
	if b.started = append(b.started, x); len(b.started) > b.limit {
		b.started = slices.DeleteFunc(b.started, func(x *transfer) bool { return x.gone })
		b.limit = 2*len(b.started) + len(b.threads)
	}
	x.each(b.landing, c.To, c.Bytes, func(all []*transfer) []*transfer { return append(all, x) })
	x.each(b.d.leaving, c.From, c.Reads, func(all []*transfer) []*transfer { return append(all, x) })
}

// each changes the lists of the words of n bytes.
func (x *transfer) each(lists map[uint64][]*transfer, addr uint64, n int, change func([]*transfer) []*transfer) {
	for at, end := addr&^(wordBytes-1), addr+uint64(n); at < end; at += wordBytes {
		if all := change(lists[at]); len(all) > 0 {
			lists[at] = all
		} else {
			delete(lists, at)
		}
	}
}

// Commit makes a group of the copies of thread t that are in none.
func (b *Block) Commit(t int) {
	if b.open == nil {
		return
	}
	b.groups[t]++
	for _, x := range b.open[t] {
		if !x.committed {
			x.committed, x.group = true, b.groups[t]
		}
	}
}

// WaitGroups lets thread t wait for its copies, but those of the last n groups and those in none.
func (b *Block) WaitGroups(t int, n uint32) {
	if b.open == nil {
		return
	}
	rest := b.open[t][:0]
	var over []*transfer
	for _, x := range b.open[t] {
		if !x.committed || b.groups[t]-x.group < n {
			rest = append(rest, x)
		} else {
			over = append(over, x)
		}
	}
	clear(b.open[t][len(rest):])
	b.open[t] = rest
	for _, x := range over {
		x.wait()
	}
}

// wait ends a copy for its own thread. If no object tracks it, its accesses become accesses of
// the thread.
func (x *transfer) wait() {
	if len(x.phases) > 0 {
		x.own.add(x.b.number, x.t, x.b.threads[x.t].now)
		return
	}
	x.landed()
	x.b.Access(x.t, &Access{Shared: true, Addr: x.To, Bytes: x.Bytes, Kind: Write, Inst: x.Inst})
	x.left()
}

// landed removes the copy from the words that it writes.
func (x *transfer) landed() { x.each(x.b.landing, x.To, x.Bytes, x.remove) }

// left makes the reads of the copy reads of its thread.
func (x *transfer) left() {
	if x.gone {
		return
	}
	x.gone = true
	if x.Reads == 0 {
		return // it fills with zeros
	}
	x.each(x.b.d.leaving, x.From, x.Reads, x.remove)
	x.b.Access(x.t, &Access{Addr: x.From, Bytes: x.Reads, Inst: x.Source})
}

func (x *transfer) remove(all []*transfer) []*transfer {
	return slices.DeleteFunc(all, func(y *transfer) bool { return x == y })
}

// over reports whether a thread has waited for the copy.
func (x *transfer) over() bool {
	return len(x.own.blocks) > 0 || slices.ContainsFunc(x.phases, func(p *phase) bool { return len(p.waiters.blocks) > 0 })
}

// seen reports whether the copy is over for thread t of a block.
func (x *transfer) seen(b *Block, t int) bool {
	return x.own.before(b, t) || slices.ContainsFunc(x.phases, func(p *phase) bool { return p.waiters.before(b, t) })
}

// TrackCopies lets the current phase of an mbarrier object wait for the copies that thread t
// has started.
func (b *Block) TrackCopies(t int, addr uint64) {
	if b.open == nil {
		return
	}
	b.open[t] = slices.DeleteFunc(b.open[t], (*transfer).over)
	if len(b.open[t]) == 0 {
		return
	}
	o := b.object(addr)
	if o.current == nil {
		o.current = &phase{}
	}
	for _, x := range b.open[t] {
		x.phases = append(x.phases, o.current)
	}
}

// settle ends the copies that some thread has waited for, at a barrier of all threads.
func (b *Block) settle() {
	if b.open == nil {
		return
	}
	b.started = slices.DeleteFunc(b.started, func(x *transfer) bool {
		if !x.over() {
			return x.gone
		}
		x.landed()
		x.left()
		return true
	})
	for t, all := range b.open {
		b.open[t] = slices.DeleteFunc(all, (*transfer).over)
	}
}

// End records that the threads of the block have ended, and with them their copies.
func (b *Block) End() {
	for _, x := range b.started {
		x.left()
	}
	if b.open == nil { // a copy refers to its block
		b.d.idle = b
	}
}

// checkCopies reports an access of thread t to what copies write, or a write of what they read.
func (b *Block) checkCopies(t int, a *Access) {
	if !a.Shared && (a.Kind&Write == 0 || len(b.d.leaving) == 0) || a.Shared && len(b.landing) == 0 {
		return
	}
	lists := b.d.leaving
	if a.Shared {
		lists = b.landing
	}
	for at, end := a.Addr&^(wordBytes-1), a.Addr+uint64(a.Bytes); at < end; at += wordBytes {
		for _, x := range slices.Clone(lists[at]) {
			switch {
			case !x.touches(a):
			case !x.seen(b, t):
				b.early(x, t, a)
			case a.Shared && a.Kind&Write != 0:
				x.landed() // the write stands for it
			}
		}
	}
}

// touches reports whether the copy has bytes of an access.
func (x *transfer) touches(a *Access) bool {
	addr, n := x.From, x.Reads
	if a.Shared {
		addr, n = x.To, x.Bytes
	}
	return a.Addr < addr+uint64(n) && addr < a.Addr+uint64(a.Bytes)
}

// early reports an access that does not wait for a copy.
func (b *Block) early(x *transfer, t int, a *Access) {
	first := Side{Block: x.b.number, Thread: x.t, Inst: x.Source}
	addr, n := x.From, x.Reads
	if a.Shared {
		first.Inst, first.Kind = x.Inst, Write
		addr, n = x.To, x.Bytes
	}
	f, fresh := b.d.count(Race, first.Inst, a.Inst)
	if !fresh {
		return
	}
	f.First, f.Second = first, Side{Block: b.number, Thread: t, Inst: a.Inst, Kind: a.Kind}
	f.Addr = max(addr, a.Addr)
	f.Bytes = int(min(addr+uint64(n), a.Addr+uint64(a.Bytes)) - f.Addr)
	f.Shared = a.Shared
	f.Missing = "cp.async.wait_group or wait_all in the thread that copies, and then a barrier for other threads: the copy may not be over"
}
