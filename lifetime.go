package ferry

import "sync/atomic"

// lifetime counts the calls that are using something right now, so that it does
// not go away under them. Whoever is last out of a closed one clears up.
//
// A thing may be made anew after its close, for another owner: it is then of
// another generation, and those who knew it in an earlier one do not get in. After
// 2^30 of them they begin again.
type lifetime struct {
	state atomic.Int64 // users in the lower 32 bits, then the generation, and closedBit
}

const (
	closedBit       = 1 << 62
	lifeUsers       = 1<<32 - 1
	generationBits  = 32
	generationsMask = (closedBit - 1) &^ lifeUsers
)

// enter takes a use. It fails once the thing is closed.
func (l *lifetime) enter() bool { return l.enterOf(l.generation()) }

// enterOf takes a use of a generation. It fails when that is over.
func (l *lifetime) enterOf(generation uint32) bool {
	for {
		v := l.state.Load()
		if v&^lifeUsers != int64(generation)<<generationBits {
			return false
		}
		if l.state.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// generation is the present one.
func (l *lifetime) generation() uint32 {
	return uint32((l.state.Load() & generationsMask) >> generationBits)
}

// again takes another use for somebody who has one, closed or not.
func (l *lifetime) again() { l.state.Add(1) }

// leave gives a use back. It is true for the last user of a closed thing, once.
func (l *lifetime) leave() (last bool) { return unused(l.state.Add(-1)) }

// unused says of a state that it is closed, without users.
func unused(v int64) bool { return v&(closedBit|lifeUsers) == closedBit }

// close lets nobody in from now on. first is true for the first close; last is
// true if, besides, nobody is in: otherwise one of the users will be last.
func (l *lifetime) close() (first, last bool) {
	old := l.state.Or(closedBit)
	first = old&closedBit == 0
	return first, first && old&lifeUsers == 0
}

// closeOf closes the thing if it is of a generation and open.
func (l *lifetime) closeOf(generation uint32) bool {
	for {
		v := l.state.Load()
		if v&^lifeUsers != int64(generation)<<generationBits {
			return false
		}
		if l.state.CompareAndSwap(v, v|closedBit) {
			return true
		}
	}
}

// reopen begins the next generation of a closed thing without users.
func (l *lifetime) reopen() (generation uint32) {
	next := (l.state.Load() + 1<<generationBits) & generationsMask
	l.state.Store(next)
	return uint32(next >> generationBits)
}

// closed says whether close was called.
func (l *lifetime) closed() bool { return l.state.Load()&closedBit != 0 }

// openIn says whether the thing is open and of a generation.
func (l *lifetime) openIn(generation uint32) bool {
	return l.state.Load()&^lifeUsers == int64(generation)<<generationBits
}
