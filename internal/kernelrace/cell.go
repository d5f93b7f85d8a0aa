package kernelrace

// Kind is the kind of an access.
type Kind uint8

const (
	Write      Kind = 1 << iota // it writes
	Strong                      // volatile, relaxed, acquire, release, atomic; with a scope
	Atomic                      // atom and red
	scopeShift = 3
)

// With returns the kind with a scope.
func (k Kind) With(s Scope) Kind { return k | Kind(s)<<scopeShift }

func (k Kind) scope() Scope { return Scope(k >> scopeShift) }

// covers reports whether an access of kind k conflicts with all that one of kind o
// conflicts with.
func (k Kind) covers(o Kind) bool {
	if o&Write != 0 && k&Write == 0 {
		return false
	}
	return k&Strong == 0 || o&Strong != 0 && k.scope() <= o.scope()
}

const (
	inline       = 3
	wordBytes    = 4
	instBits     = 12
	mostInst     = 1<<instBits - 1
	mostInterval = 1<<(32-instBits) - 1
	mostShared   = 64 // accesses kept for a word of shared memory
)

// cell has the latest accesses of a word, 32 bytes for 4. Accesses that later ones stand
// for are dropped.
type cell struct {
	who  [inline]uint32 // threads
	when [inline]uint32 // interval, and instruction
	kind [inline]Kind
	n    uint8  // used; split if the bytes of the word have cells of their own
	more uint32 // index of further accesses, or of the four cells, 0 for none; and wrote
}

// wrote is set in cell.more while one of the accesses may write.
const wrote = 1 << 31

// list returns the index of further accesses, 0 for none.
func (c *cell) list() uint32 { return c.more &^ wrote }

const split = 0xff

// entry is an access that a cell has no place for.
type entry struct {
	who, when uint32
	kind      Kind
}

func pack(interval uint32, inst int) uint32 { return interval<<instBits | uint32(inst) }

const (
	pageShift = 12
	pageWords = 1 << pageShift / wordBytes
)

// page has its cells apart from what has pointers, which the garbage collector would look
// for in all of them.
type page struct {
	cells   *[pageWords]cell
	written *Written // nil if that is not known, or if all is written
}

// drop removes access i.
func (c *cell) drop(i int) {
	c.n--
	l := c.n
	c.who[i], c.when[i], c.kind[i] = c.who[l], c.when[l], c.kind[l]
}

func (c *cell) set(i int, e entry) {
	c.who[i], c.when[i], c.kind[i] = e.who, e.when, e.kind
	if e.kind&Write != 0 {
		c.more |= wrote
	}
}

func (c *cell) get(i int) entry { return entry{c.who[i], c.when[i], c.kind[i]} }
