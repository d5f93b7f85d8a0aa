package simt

import (
	"sync"
	"sync/atomic"
	"time"
)

// heldStores are weak stores of a block that are not in memory yet, by aligned words of 8
// bytes.
type heldStores struct {
	words  map[uintptr]*heldStore
	order  []uintptr // the keys of words, from the oldest
	number uint32    // stores so far
	shared uint32    // stores with a lower number may have been seen by all threads of the block
	since  time.Time // since when there is one
}

type heldStore struct {
	addr   uint64 // of the word
	value  uint64
	mask   uint8  // the bytes that are held
	owner  int32  // thread, -1 for several
	number uint32 // of the last store
}

// byteMask returns the bytes of the aligned word around p that n bytes at p are.
func byteMask(p uintptr, n uint64) uint8 { return uint8((1<<n - 1) << (p & 7)) }

// bitsOf returns the bits of the bytes in mask.
func bitsOf(mask uint8) (m uint64) {
	for i := range 8 {
		if mask>>i&1 != 0 {
			m |= 0xff << (8 * i)
		}
	}
	return m
}

// put holds a store of n bytes at p.
func (s *heldStores) put(p uintptr, addr, n, v uint64, owner int32) {
	shift := 8 * (p & 7)
	s.merge(p&^7, &heldStore{addr: addr &^ 7, value: v << shift, mask: byteMask(p, n), owner: owner})
}

// merge adds a store of some bytes of a word.
func (s *heldStores) merge(word uintptr, x *heldStore) {
	if len(s.order) == 0 {
		s.since = time.Now()
		if s.words == nil {
			s.words = map[uintptr]*heldStore{}
		}
	}
	s.number++
	old := s.words[word]
	if old == nil {
		old = &heldStore{addr: x.addr, owner: x.owner}
		s.words[word] = old
		s.order = append(s.order, word)
	}
	m := bitsOf(x.mask)
	old.value = old.value&^m | x.value&m
	old.mask |= x.mask
	if old.owner != x.owner {
		old.owner = -1
	}
	old.number = s.number
}

// over returns a word with the bytes that are held.
func (s *heldStores) over(word uintptr, mask uint8, v uint64) uint64 {
	if len(s.order) == 0 {
		return v
	}
	x := s.words[word]
	if x == nil || x.mask&mask == 0 {
		return v
	}
	m := bitsOf(x.mask)
	return v&^m | x.value&m
}

// share notes that the threads of the block may have seen what is held now.
func (s *heldStores) share() { s.shared = s.number + 1 }

// old reports whether a store has been held for long.
func (s *heldStores) old() bool { return len(s.order) > 0 && time.Since(s.since) > heldStoreTime }

// pastLoads are what the threads of a warp have read of mapped memory.
type pastLoads struct{ entries []pastLoad }

type pastLoad struct {
	word  uintptr
	value uint64
	epoch uint32
	mask  uint8 // the bytes that were read
	lane  uint8
}

const pastLoadsSize = 256 // a power of two

// at returns the entry that a word of a lane has, or would have.
func (p *pastLoads) at(word uintptr, lane int) *pastLoad {
	if p.entries == nil {
		p.entries = make([]pastLoad, pastLoadsSize)
	}
	h := uint64(word>>3)*0x9e3779b97f4a7c15>>40 + uint64(lane)
	return &p.entries[h%pastLoadsSize]
}

// fill keeps bytes of a word.
func (e *pastLoad) fill(word uintptr, lane int, epoch uint32, mask uint8, v uint64) {
	if e.word != word || e.lane != uint8(lane) || e.epoch != epoch {
		*e = pastLoad{word: word, lane: uint8(lane), epoch: epoch}
	}
	m := bitsOf(mask)
	e.value = e.value&^m | v&m
	e.mask |= mask
}

// forget forgets n bytes at p, which the lane writes.
func (p *pastLoads) forget(at uintptr, n uint64, lane int) {
	if p.entries == nil {
		return
	}
	for word := at &^ 7; word < at+uintptr(n); word += 8 {
		if e := p.at(word, lane); e.word == word && e.lane == uint8(lane) {
			e.mask = 0
		}
	}
}

// HeldAtomics makes atomic operations of kernels on mapped memory a read and a later write,
// as on devices without native host atomics. What the host writes between the two is lost.
// Kernels that share one lose no updates of each other. It is safe for concurrent use, and
// nil holds nothing.
type HeldAtomics struct {
	count atomic.Int64 // of words whose last value is not in memory yet
	mu    sync.Mutex   // held during writes of kernels to memory that may be in a word
	words map[uintptr]*heldAtomic
	since time.Time // since when there is one
}

type heldAtomic struct {
	value uint64
	read  uint64 // what memory had
	size  uint64 // 4 or 8
	mask  uint8  // the bytes that operations are for
	by    hostAccess
}

func (a *HeldAtomics) lock() {
	if a != nil {
		a.mu.Lock()
	}
}

func (a *HeldAtomics) unlock() {
	if a != nil {
		a.mu.Unlock()
	}
}

// any reports whether a word is held. A caller that reads memory after false needs no peek.
func (a *HeldAtomics) any() bool { return a != nil && a.count.Load() > 0 }

// update runs f on a word. Nothing is held if f does not change the word.
func (a *HeldAtomics) update(f atomicFunc, p uintptr, size uint64, b, c uint64, by hostAccess) (old uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, mask := p, byteMask(0, size)
	if size == 2 {
		at, size, mask = p&^3, 4, byteMask(p&3, 2)
	}
	a.writeOthers(at, size)
	e := a.words[at]
	held := e != nil
	if !held {
		v := readWord(at, size)
		e = &heldAtomic{value: v, read: v, size: size}
	}
	before := e.value
	old = f(placeOfWord(&e.value)+(p-at), b, c)
	e.mask |= mask
	if e.by = by; held || e.value == before {
		return old
	}
	if a.words == nil {
		a.words = map[uintptr]*heldAtomic{}
	}
	if len(a.words) == 0 {
		a.since = time.Now()
	}
	a.words[at] = e
	a.count.Store(int64(len(a.words)))
	return old
}

// writeOthers writes words that overlap a word but are another one. The caller holds mu.
func (a *HeldAtomics) writeOthers(at uintptr, size uint64) {
	if size == 8 {
		a.write(at, 4)
		a.write(at+4, 4)
		return
	}
	a.write(at&^7, 8)
}

// write writes the word at a place if it has that size. The caller holds mu. The word counts
// until it is in memory, so that a launch whose words another one writes waits for that.
func (a *HeldAtomics) write(at uintptr, size uint64) {
	e := a.words[at]
	if e == nil || e.size != size {
		return
	}
	delete(a.words, at)
	if (readWord(at, size)^e.read)&bitsOf(e.mask) != 0 {
		e.by.lost(e.value)
	}
	writeBytes(at&^7, e.mask<<(at&7), e.value<<(8*(at&7)))
	a.count.Store(int64(len(a.words)))
}

// peek returns the n bytes at p, which are in one aligned word of 8 bytes.
func (a *HeldAtomics) peek(p uintptr, n uint64) (v uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	word := p &^ 7
	v = readWord(word, 8)
	for _, at := range []uintptr{word, word + 4} {
		if e := a.words[at]; e != nil {
			m := bitsOf(e.mask << (at & 7))
			v = v&^m | e.value<<(8*(at&7))&m
		}
	}
	return v >> (8 * (p & 7)) & bitsOf(byteMask(0, n))
}

// store writes the bytes in mask to the aligned word of 8 bytes at p.
func (a *HeldAtomics) store(p uintptr, mask uint8, v uint64) {
	a.lock()
	defer a.unlock()
	a.writeRange(p, 8)
	writeBytes(p, mask, v)
}

// writeRange writes the words that overlap n bytes at p. The caller holds the lock.
func (a *HeldAtomics) writeRange(p uintptr, n uint64) {
	if !a.any() {
		return
	}
	for at := p &^ 7; at < p+uintptr(n); at += 4 {
		a.write(at, 8)
		a.write(at, 4)
	}
}

// writeAll writes all words.
func (a *HeldAtomics) writeAll() {
	if !a.any() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, e := range a.words {
		a.write(at, e.size)
	}
}

// turn writes all words if one has been held for long.
func (a *HeldAtomics) turn() {
	if !a.any() {
		return
	}
	a.mu.Lock()
	old := time.Since(a.since) > heldAtomicTime
	a.mu.Unlock()
	if old {
		a.writeAll()
	}
}
