package kernelrace

import "math/bits"

// Kind is the kind of an access.
type Kind uint8

const (
	Write      Kind = 1 << iota // it writes
	Strong                      // volatile, relaxed, acquire, release, atomic; with a scope
	Atomic                      // atom and red
	scopeShift = 3              // of the scope, which has two bits
)

// Late marks an access behind an acquire, which other launches and the host may precede.
const Late Kind = 1 << 5

// With returns the kind with a scope.
func (k Kind) With(s Scope) Kind { return k | Kind(s)<<scopeShift }

func (k Kind) scope() Scope { return Scope(k>>scopeShift) & 3 }

// covers reports whether an access of kind k conflicts with all that one of kind o
// conflicts with. If k is late and o is not, that holds for accesses of the same kind, which
// are then kept as not late. It also holds if o is strong: of words that threads poll, few
// accesses are kept.
func (k Kind) covers(o Kind) bool {
	if o&Write != 0 && k&Write == 0 {
		return false
	}
	if k&^o&Late != 0 && o&Strong == 0 && k&^Late != o {
		return false
	}
	return k&Strong == 0 || o&Strong != 0 && k.scope() <= o.scope()
}

const (
	inline       = 3
	wordBytes    = 4
	allBytes     = 1<<wordBytes - 1
	instBits     = 12
	mostInst     = 1<<instBits - 1
	mostInterval = 1<<(32-instBits) - 1
	mostShared   = 64 // accesses kept for a word of shared memory
)

// cell has the latest accesses of a word, 32 bytes for 4. Accesses that later ones stand
// for are dropped.
type cell struct {
	who   [inline]uint32 // threads
	when  [inline]uint32 // interval, and instruction
	state uint64         // the tag of each access, how many there are, wrote, and the index of a list
}

// Parts of cell.state.
const (
	oneEntry  = 1 << (tagBits * inline)
	entries   = inline * oneEntry
	wrote     = 4 * oneEntry // set while one of the accesses may write
	led       = 8 * oneEntry // set while one of them may be the latest strong write
	oneList   = 16 * oneEntry
	mostLists = 1<<64/oneList - 1
)

// entry is an access to bytes of a word. Or it is one by several neighbouring threads, to
// neighbouring bytes by one instruction: byte i belongs to thread who + i>>share. Strong
// writes are not shared.
type entry struct {
	who, when uint32
	tag       tag
}

// tag is an access in 13 bits: its kind, a bit for each byte, its share, and its place in the
// chains of observe.go. The kind has 5 bits, because only strong accesses have a scope.
type tag uint32

const (
	tagBits   = 13
	tagMask   = 1<<tagBits - 1
	tagWrite  = 1
	tagScope  = 3 << 2
	tagLate   = 16
	tagKind   = 31
	byteShift = 5
	tagBytes  = allBytes << byteShift

	shareShift = byteShift + wordBytes

	tagChained = 1 << (shareShift + 2) // a strong write: a thread that knows the head of its bytes knows it
	tagHead    = 2 << (shareShift + 2) // the latest strong write of its bytes, the head
	tagBlind   = 3 << (shareShift + 2) // the same, by a thread that does not know the chain
	tagFlags   = 3 << (shareShift + 2)
)

// The threads that share an access: one for each byte, one for two bytes, or one.
const (
	ofByte tag = iota << shareShift
	ofHalf
	ofWord
	shares = 3 << shareShift
)

// wholeWord is the tag of a weak read of a word by one thread.
const wholeWord = tagBytes | ofWord

func newTag(k Kind, bytes uint8, share tag) tag {
	return tag(k&1|k>>1&2|k>>scopeShift<<2) | tag(bytes)<<byteShift | share
}

// tagKinds are the kinds by the low bits of a tag.
var tagKinds = func() (kinds [tagKind + 1]Kind) {
	for i := range kinds {
		k := Kind(i&1 | i&2<<1 | i>>2<<scopeShift)
		if k.scope() != 0 {
			k |= Strong
		}
		kinds[i] = k
	}
	return kinds
}()

func (t tag) kind() Kind   { return tagKinds[t&tagKind] }
func (t tag) bytes() uint8 { return uint8(t >> byteShift & allBytes) }

// first returns the first byte of an access to at least one.
func (t tag) first() int { return bits.TrailingZeros8(t.bytes() | 1<<(wordBytes-1)) }

// strongWrite reports whether the access is a strong write.
func (t tag) strongWrite() bool { return t&tagWrite != 0 && t&tagScope != 0 }

// without returns the tag without some bytes.
func (t tag) without(bytes uint8) tag { return t &^ (tag(bytes) << byteShift) }

// newEntry returns an access by a thread. Later ones by its neighbours can be added.
func newEntry(who, when uint32, k Kind, bytes uint8) entry {
	share := ofWord
	switch first := uint32(bits.TrailingZeros8(bytes)); bytes >> first {
	case 1:
		who, share = who-first, ofByte
	case 3:
		if first != 1 {
			who, share = who-first/2, ofHalf
		}
	}
	return entry{who, when, newTag(k, bytes, share)}
}

// thread returns the thread that a byte belongs to.
func (e *entry) thread(i int) uint32 { return e.who + uint32(i)>>(e.tag&shares>>shareShift) }

// ends returns the threads that the first and the last of some bytes belong to.
func (e *entry) ends(bytes uint8) (first, last uint32) {
	if e.tag&shares == ofWord {
		return e.who, e.who
	}
	return e.thread(bits.TrailingZeros8(bytes)), e.thread(bits.Len8(bytes) - 1)
}

// by reports whether some bytes belong to a thread.
func (e *entry) by(who uint32, bytes uint8) bool {
	first, last := e.ends(bytes)
	return first == who && last == who
}

// run returns the first of some bytes, how many follow each other, and e as the access of
// the one thread that they belong to.
func (e *entry) run(some uint8) (first, n int, one entry) {
	share := e.tag & shares >> shareShift
	first = bits.TrailingZeros8(some)
	end := min((first>>share+1)<<share, wordBytes)
	n = min(bits.TrailingZeros8(^(some >> first)), end-first)
	return first, n, entry{e.thread(first), e.when, newTag(e.tag.kind(), runOf(first, n), ofWord) | e.tag&tagFlags}
}

// runOf returns n bytes of a word.
func runOf(first, n int) uint8 { return (1<<n - 1) << first }

// merge adds an access of the same instruction by the same thread or by a neighbour. It
// reports whether that was possible.
func (e *entry) merge(o *entry) bool {
	if e.when != o.when || (e.tag^o.tag)&tagKind != 0 || e.tag&o.tag&tagBytes != 0 || e.tag.strongWrite() {
		return false
	}
	if who, _ := o.ends(o.tag.bytes()); e.by(who, e.tag.bytes()) && o.by(who, o.tag.bytes()) {
		e.who, e.tag = who, e.tag&^shares|ofWord
	} else if e.who != o.who || (e.tag^o.tag)&shares != 0 {
		return false
	}
	e.tag |= o.tag & tagBytes
	return true
}

// n returns how many accesses the cell has a place for and holds.
func (c *cell) n() int { return int(c.state & entries / oneEntry) }

// list returns the index of further accesses, 0 for none.
func (c *cell) list() uint32 { return uint32(c.state / oneList) }

// kinds returns Write if one of the accesses may write.
func (c *cell) kinds() Kind {
	if c.state&wrote != 0 {
		return Write
	}
	return 0
}

func (c *cell) get(i int) entry {
	return entry{c.who[i], c.when[i], tag(c.state >> (tagBits * i) & tagMask)}
}

// at returns an access of those that the cell has, followed by its list.
func (c *cell) at(list []entry, i int) entry {
	if n := c.n(); i >= n {
		return list[i-n]
	}
	return c.get(i)
}

// any returns an access of the cell, which is full, or of its list.
func (c *cell) any(list []entry, i int) entry {
	if i < inline {
		return c.get(i)
	}
	return list[i-inline]
}

func (c *cell) set(i int, e *entry) {
	c.who[i], c.when[i] = e.who, e.when
	c.state = c.state&^(tagMask<<(tagBits*i)) | uint64(e.tag)<<(tagBits*i)
	c.mark(e)
}

// mark records whether an access writes, and whether it is the latest strong write.
func (c *cell) mark(e *entry) {
	if e.tag&tagWrite != 0 {
		c.state |= wrote
	}
	if e.tag&tagHead != 0 {
		c.state |= led
	}
}

// push adds an access. The cell has a place for it.
func (c *cell) push(e *entry) {
	c.state += oneEntry
	c.set(c.n()-1, e)
}

// begin makes a weak access to the word the only one.
func (c *cell) begin(who, when uint32, k Kind) {
	c.who[0], c.when[0] = who, when
	c.state = c.state/oneList*oneList | oneEntry | uint64(wholeWord) | uint64(k&Write)*(tagWrite|wrote) | uint64(k&Late/Late)*tagLate
}

// drop removes access i.
func (c *cell) drop(i int) {
	c.state -= oneEntry
	last := c.n()
	c.who[i], c.when[i] = c.who[last], c.when[last]
	t := c.state >> (tagBits * last) & tagMask
	c.state = c.state&^(tagMask<<(tagBits*i)) | t<<(tagBits*i)
}

func pack(interval uint32, inst int) uint32 { return interval<<instBits | uint32(inst) }
