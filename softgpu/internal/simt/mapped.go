package simt

import (
	"math/bits"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/ptx"
)

// Mapped describes how kernels share mapped memory with the host: as loosely as hardware
// does. Without it, every access reaches memory at once. When the launch has ended, memory
// holds the same bytes with it and without, unless the host wrote them, too.
type Mapped struct {
	Ranges []AddressRange // ascending, without overlap

	// Stale lets a weak load return what its thread has read there before, until a fence,
	// a strong access or a barrier. Compilers move such loads out of loops.
	Stale bool
	// Hold keeps weak stores from memory until a fence or a release of their thread, or the
	// end of the launch. Without these they reach memory after some milliseconds.
	Hold bool
	// Forward lets held stores reach memory in the order of the program. Without it the
	// newest is first.
	Forward bool
	// Atomics, if not nil, makes atomic operations of kernels a read and a later write.
	Atomics *HeldAtomics
	// Linger is how long a launch waits before it ends, if a strong store or an atomic
	// operation overtook held stores.
	Linger time.Duration
}

// AddressRange is a range of addresses, without End.
type AddressRange struct{ Base, End uint64 }

const (
	heldStoreTime  = 5 * time.Millisecond // after which a running launch writes the stores that it holds
	heldAtomicTime = time.Millisecond     // the same for atomic operations, which may overtake stores
	heldWords      = 1024                 // most words that a block holds
	heldAtOnce     = 16 * heldWords       // most words of blocks that have ended, for each worker
)

// fence says whom a fence or a release reaches.
type fence uint8

const (
	fenceNone   fence = iota
	fenceBlock        // the threads of the block
	fenceDevice       // also all others, the host among them
)

// sharing says what an instruction does with memory that others may share.
type sharing uint8

const (
	sharesNothing sharing = iota // or in another way
	sharesLoad
	sharesStore
	sharesAtomic
)

// mappedView does the accesses of one worker to mapped memory.
type mappedView struct {
	*Mapped
	k        *worker
	lo, hi   uint64       // around all ranges
	last     AddressRange // that was found last
	check    bool         // look for races with the host
	announce bool         // tell the race detector when a weak store is ordered
	addrs    lanes
	past     heldStores // of blocks that have ended
	passed   bool       // a strong store or an atomic operation overtook held stores
}

func newMappedView(k *worker) *mappedView {
	m := k.x.mapped
	if m == nil || len(m.Ranges) == 0 {
		return nil
	}
	own := *m
	own.Hold = m.Hold && !k.x.l.Check // the check compares values in memory
	return &mappedView{
		Mapped: &own, k: k, lo: m.Ranges[0].Base, hi: m.Ranges[len(m.Ranges)-1].End,
		check: k.x.l.Check, announce: raceBuild,
	}
}

// holds reports whether an address is mapped memory.
func (h *mappedView) holds(addr uint64) bool {
	if addr-h.last.Base < h.last.End-h.last.Base {
		return true
	}
	if addr < h.lo || addr >= h.hi {
		return false
	}
	i, found := slices.BinarySearchFunc(h.Ranges, addr, func(r AddressRange, addr uint64) int {
		switch {
		case addr < r.Base:
			return 1
		case addr >= r.End:
			return -1
		}
		return 0
	})
	if found {
		h.last = h.Ranges[i]
	}
	return found
}

// reaches reports whether an access of the active lanes may be to mapped memory.
func (h *mappedView) reaches(w *warp, in *inst) bool {
	m := in.mem
	if m.space != ptx.GlobalSpace && m.space != ptx.Generic {
		return false
	}
	off := w.offset(m)
	if t := &w.f.tags[in.a]; t.kind&(kUniform|kAffine) != 0 {
		a := w.f.regs[in.a][0] + off
		b := a + t.stride*uint64(w.n-1)
		return max(a, b)+m.bytes > h.lo && min(a, b) < h.hi
	}
	all, lo, hi := *w.f.expand(in.a), h.lo, h.hi
	for rest := w.active; rest != 0; rest &= rest - 1 {
		if a := all[trailing(rest)] + off; a >= lo && a < hi {
			return true
		}
	}
	return false
}

// lanes returns the active lanes whose address is mapped memory, and keeps the addresses.
func (h *mappedView) lanes(w *warp, in *inst) (mapped uint32) {
	off := w.offset(in.mem)
	for rest := w.active; rest != 0; rest &= rest - 1 {
		i := trailing(rest)
		h.addrs[i] = w.f.lane(in.a, i) + off
		if h.holds(h.addrs[i]) {
			mapped |= 1 << i
		}
	}
	return mapped
}

// execMapped does the work of exec for an instruction that accesses memory or is a fence.
func execMapped(w *warp, in *inst) {
	h, m := w.k.mapped, in.mem
	if in.fence != fenceNone {
		h.fence(w, in.fence)
		in.exec(w, in)
		return
	}
	switch {
	case m.releases != fenceNone:
		h.fence(w, m.releases)
	case m.strong || m.atomic:
		w.loadEpoch++
	case in.shares == sharesNothing: // such as a barrier object
		w.loadEpoch++
		w.b.held.share()
	}
	if !h.reaches(w, in) {
		in.exec(w, in)
		return
	}
	mapped := h.lanes(w, in)
	switch {
	case mapped == 0:
		in.exec(w, in)
	case in.shares == sharesLoad:
		h.load(w, in, mapped)
	case in.shares == sharesStore:
		h.store(w, in, mapped)
	case in.shares == sharesAtomic:
		h.atomic(w, in, mapped)
	default:
		h.writeAll(&w.b.held)
		h.Atomics.writeAll()
		h.Atomics.lock()
		defer h.Atomics.unlock()
		in.exec(w, in)
	}
}

// locate finds the memory of the active lanes and counts the access, as execLoad and
// execStore do.
func (w *warp) locate(in *inst) bool {
	if r, ok := w.strided(in); ok {
		for i := range w.n {
			w.k.places[i] = r.base + uintptr(i*r.stride)
		}
		return true
	}
	if ref := w.inOneSegment(in); ref != nil {
		w.k.fillPlaces(ref, w.active)
		return true
	}
	return w.scattered(in)
}

// load loads. Each lane gets what it has read before, or what its block holds, or what
// memory has.
func (h *mappedView) load(w *warp, in *inst, mapped uint32) {
	m, k := in.mem, w.k
	if !w.locate(in) {
		return
	}
	atomics := h.Atomics.any() // asked before memory is read
	for i, s := range m.regs {
		off := uint64(i) * m.size
		d := w.dest(s)
		k.gather(m.typ, d, off, w.active)
		for rest := mapped; rest != 0; rest &= rest - 1 {
			l := trailing(rest)
			raw := d[l]
			if v := h.loadLane(w, in, l, k.places[l]+uintptr(off), raw, atomics); v != raw {
				d[l] = v
			}
		}
	}
	if m.strong {
		w.poll(m)
		k.order()
	}
}

// loadLane returns what lane l reads at p, where memory has value raw, extended to the type.
func (h *mappedView) loadLane(w *warp, in *inst, l int, p uintptr, raw uint64, atomics bool) uint64 {
	m := in.mem
	word, shift, bytes := p&^7, 8*(p&7), byteMask(p, m.size)
	now := extend(h.visible(w.b, p, m.size, raw, atomics), m.typ)
	if m.strong || !h.Stale && !h.check {
		return now
	}
	e := w.loads.at(word, l)
	if e.word == word && e.lane == uint8(l) && e.epoch == w.loadEpoch && e.mask&bytes == bytes {
		before := extend(e.value>>shift, m.typ)
		if before != now {
			h.k.x.stale(w, in, l, h.addrs[l], before, p)
		}
		if h.Stale {
			w.poll(m) // a kernel that waits is to count as one
			return before
		}
	}
	e.fill(word, l, w.loadEpoch, bytes, now<<shift)
	return now
}

// visible returns what the threads of a block see in the n bytes at p, where memory has
// value raw, and atomics says that words were held before it was read. The bytes are in one
// aligned word of 8 bytes.
func (h *mappedView) visible(b *block, p uintptr, n, raw uint64, atomics bool) uint64 {
	v := raw
	if atomics {
		v = h.Atomics.peek(p, n)
	}
	if h.Hold {
		shift := 8 * (p & 7)
		v = b.held.over(p&^7, byteMask(p, n), v<<shift) >> shift
	}
	return v
}

// store stores. Strong stores reach memory at once, weak ones may be held.
func (h *mappedView) store(w *warp, in *inst, mapped uint32) {
	m, k := in.mem, w.k
	if m.strong {
		k.order()
	}
	if !w.locate(in) {
		return
	}
	if m.strong {
		h.overtakes(w)
	}
	hold := mapped
	if m.strong || !h.Hold && !h.announce {
		hold = 0
	}
	for rest := mapped; rest != 0; rest &= rest - 1 {
		l := trailing(rest)
		p := k.places[l]
		w.loads.forget(p, m.bytes, l)
		if h.check {
			h.k.x.wrote(p, m.bytes)
		}
		if m.strong {
			h.writeRange(w.b, p, m.bytes)
			continue
		}
		if hold != 0 && !h.holdLane(w, in, l, p) {
			hold &^= 1 << l
		}
	}
	direct := w.active
	if h.Hold {
		direct &^= hold
	}
	if direct == 0 {
		return
	}
	h.Atomics.lock() // so that no update reads memory before the store, and is written after it
	defer h.Atomics.unlock()
	for rest := direct & mapped; rest != 0 && h.Atomics.any(); rest &= rest - 1 {
		h.Atomics.writeRange(k.places[trailing(rest)], m.bytes)
	}
	for i, s := range m.regs {
		k.scatter(m.typ, w.f.expand(s), uint64(i)*m.size, direct)
	}
}

// holdLane holds what lane l stores at p. It returns false if the block holds enough: then
// the store goes to memory.
func (h *mappedView) holdLane(w *warp, in *inst, l int, p uintptr) bool {
	m, held := in.mem, &w.b.held
	if len(held.order) >= heldWords {
		h.writeRange(w.b, p, m.bytes)
		return false
	}
	for i, s := range m.regs {
		at := p + uintptr(i)*uintptr(m.size)
		held.put(at, h.addrs[l]+uint64(i)*m.size, m.size, w.f.lane(s, l), int32(w.index*warpSize+l))
	}
	return true
}

// atomic runs an atomic operation.
func (h *mappedView) atomic(w *warp, in *inst, mapped uint32) {
	f, m, k := w.f, in.mem, w.k
	b, c := f.expand(in.b), f.expand(in.c)
	if !w.scattered(in) {
		return
	}
	op := in.aux.(*atomicOp)
	h.overtakes(w)
	for rest := w.active; rest != 0; rest &= rest - 1 {
		l := trailing(rest)
		p := k.places[l]
		if mapped>>l&1 == 0 {
			k.tmp[l] = op.f(p, b[l], c[l])
			continue
		}
		w.loads.forget(p, m.bytes, l)
		h.writeWord(&w.b.held, p&^7)
		if h.check {
			k.x.wrote(p, m.bytes)
		}
		if h.Atomics == nil {
			k.tmp[l] = op.f(p, b[l], c[l])
			continue
		}
		k.tmp[l] = h.Atomics.update(op.f, p, m.size, b[l], c[l], hostAccess{k.x, in, w.b.number, w.index*warpSize + l, h.addrs[l]})
	}
	if op.idle(&k.tmp, b, m.size, w.active) {
		w.poll(m)
	}
	if in.d >= 0 {
		w.write(in.d)
	}
}

// overtakes notes that an access of w reaches memory before stores that are held. For the race
// detector these stores come after the access, so that they are not ordered by it.
func (h *mappedView) overtakes(w *warp) {
	for _, s := range []*heldStores{&w.b.held, &h.past} {
		h.passed = h.passed || len(s.order) > 0
		if h.announce {
			for _, word := range s.order {
				h.tell(s.words[word])
			}
		}
	}
}

// fence writes what the active lanes of w have stored, and what they may have seen of other
// threads of the block. A fence for the block only lets these threads see it.
func (h *mappedView) fence(w *warp, f fence) {
	w.loadEpoch++
	held := &w.b.held
	if len(held.order) == 0 {
		return
	}
	if f == fenceBlock {
		held.share()
		return
	}
	h.writeHeld(held, func(_ uintptr, s *heldStore) bool {
		return s.owner < 0 || s.number < held.shared || int(s.owner)/warpSize == w.index && w.active>>(s.owner%warpSize)&1 != 0
	})
}

// control prepares an instruction that changes the control flow. Barriers order accesses
// within the block.
func (h *mappedView) control(w *warp, in *inst) {
	switch in.kind {
	case kindBarrier, kindSync:
		w.loadEpoch++
		w.b.held.share()
		if in.mem == nil {
			return
		}
	case kindCall:
		if in.call.builtin == nil {
			return
		}
	default:
		return
	}
	h.writeAll(&w.b.held)
}

// writeRange writes what a block holds of n bytes at p.
func (h *mappedView) writeRange(b *block, p uintptr, n uint64) {
	for word := p &^ 7; word < p+uintptr(n); word += 8 {
		h.writeWord(&b.held, word)
	}
}

// writeWord writes a word if it is held.
func (h *mappedView) writeWord(s *heldStores, word uintptr) {
	x := s.words[word]
	if x == nil {
		return
	}
	s.order = slices.Delete(s.order, slices.Index(s.order, word), slices.Index(s.order, word)+1)
	h.write(s, word, x)
}

func (h *mappedView) writeAll(s *heldStores) {
	h.writeHeld(s, func(uintptr, *heldStore) bool { return true })
}

// writeHeld writes those held stores to memory that want selects.
func (h *mappedView) writeHeld(s *heldStores, want func(word uintptr, s *heldStore) bool) {
	if len(s.order) == 0 {
		return
	}
	kept := s.order[:0]
	var out []uintptr
	for _, word := range s.order {
		if want(word, s.words[word]) {
			out = append(out, word)
		} else {
			kept = append(kept, word)
		}
	}
	s.order = kept
	if !h.Forward {
		slices.Reverse(out)
	}
	for _, word := range out {
		h.write(s, word, s.words[word])
	}
}

// write writes a word that is not in the order any more.
func (h *mappedView) write(s *heldStores, word uintptr, x *heldStore) {
	delete(s.words, word)
	if h.Hold {
		h.Atomics.store(word, x.mask, x.value)
	}
	if h.announce {
		h.tell(x)
	}
}

// tell tells the race detector of a weak store that is ordered only now.
func (h *mappedView) tell(x *heldStore) {
	s := h.k.x.l.Memory.Find(x.addr)
	if s == nil || !s.holds(x.addr) || s.Watch == nil {
		return
	}
	for i := 0; i < 8; {
		n := bits.TrailingZeros8(^(x.mask >> i)) // of the bytes from i on
		if n > 0 {
			s.Watch.Touch(Write, x.addr+uint64(i)-s.Base, uint64(n))
		}
		i += n + 1
	}
}

// turn writes what has been held for long. A worker calls it between the turns of its
// blocks, so that a host which waits for a store sees it.
func (h *mappedView) turn(resident []*block) {
	h.Atomics.turn()
	for _, b := range resident {
		if b.held.old() {
			h.writeAll(&b.held)
		}
	}
	if h.past.old() {
		h.writeAll(&h.past)
	}
}

// ended takes over what a block holds that has ended.
func (h *mappedView) ended(b *block) {
	s := &b.held
	if len(s.order) == 0 {
		return
	}
	if len(h.past.order) >= heldAtOnce {
		h.writeAll(s)
		return
	}
	for _, word := range s.order {
		h.past.merge(word, s.words[word])
	}
	clear(s.words)
	*s = heldStores{words: s.words, order: s.order[:0]}
}

// finish writes all that is held, at the end of the launch.
func (h *mappedView) finish(resident []*block) {
	if h.Linger > 0 && h.passed {
		time.Sleep(h.Linger)
	}
	for _, b := range resident {
		h.writeAll(&b.held)
	}
	h.writeAll(&h.past)
	h.Atomics.writeAll()
}
