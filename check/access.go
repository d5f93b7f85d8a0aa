package check

import "slices"

// mode is how an operation uses memory.
type mode uint8

const (
	reads  mode = iota
	writes      // a copy or fill
	uses        // a kernel has the address: what it reads and writes is not known
	makes       // the memory is allocated in stream order
	frees       // the memory is freed in stream order
)

func (m mode) String() string {
	return [...]string{"reads", "writes", "gets the address of", "allocates", "frees"}[m]
}

// conflicts reports whether two uses of the same bytes need an order.
func (m mode) conflicts(other mode) bool {
	switch {
	case m >= makes || other >= makes:
		return true
	case m == uses || other == uses:
		return false
	}
	return m == writes || other == writes
}

// operation is what a call queued.
type operation struct {
	call   string
	site   int
	lane   *lane
	slot   int
	n      uint64
	serial uint64
	early  bool // a copy from pageable memory: the call returned before the bytes arrived
	graph  bool // a node of a graph
	value  bool // it waits for a value, or follows such a wait
}

// same reports whether two operations are one, as the nodes of a launch of a graph are.
func (o *operation) same(other *operation) bool { return o.slot == other.slot && o.n == other.n }

// access is the use of memory by an operation.
type access struct {
	op   *operation
	m    *memory
	x    box
	mode mode
	args []uint64 // addresses that a kernel got, in the memory
}

// gets reports whether a kernel got the address of a byte that b writes.
func (a *access) gets(b *access) bool { return b.mode == writes && a.getsIn(&b.x) }

// getsIn reports whether a kernel got the address of a byte of a box.
func (a *access) getsIn(x *box) bool {
	return slices.ContainsFunc(a.args, func(at uint64) bool { return x.includes(at, at+1) })
}

// conflicts reports whether two accesses of a memory need an order, or may need one.
func (a *access) conflicts(b *access) bool {
	return a.mode.conflicts(b.mode) && a.x.hits(&b.x) || a.gets(b) || b.gets(a)
}

// mostAccesses is how many accesses of one memory are remembered. Older ones are forgotten.
const mostAccesses = 512

// meet calls found for each access in the list that conflicts with a and is not ordered before
// it. It removes the accesses that a makes redundant, and appends a. ordered reports whether an
// operation comes before that of a. forget reports whether an operation is no longer needed.
// forgotten is the number of accesses that were removed because the list was full.
func (a *access) meet(list *[]access, ordered func(*operation) bool, forget func(*operation) bool, found func(*access)) (forgotten int) {
	rest := (*list)[:0]
	for i := range *list {
		b := &(*list)[i]
		if forget(b.op) {
			continue
		}
		if ordered(b.op) {
			if (a.mode != reads && a.mode != uses || b.mode == a.mode) && a.x.covers(&b.x) && !b.op.same(a.op) {
				continue // all that comes after a also comes after b
			}
		} else if !b.op.same(a.op) && a.conflicts(b) {
			found(b)
		}
		rest = append(rest, *b)
	}
	clear((*list)[len(rest):])
	if len(rest) >= mostAccesses {
		forgotten = mostAccesses / 4
		rest = append(rest[:0], rest[forgotten:]...)
	}
	*list = append(rest, *a)
	return forgotten
}
