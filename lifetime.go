package ferry

import "sync/atomic"

// lifetime counts the calls that are using something right now, so that it does
// not go away under them. Whoever is last out of a closed one clears up.
type lifetime struct {
	state atomic.Int64 // users, and closedBit
}

const closedBit = 1 << 62

// enter takes a use. It fails once the thing is closed.
func (l *lifetime) enter() bool {
	for {
		v := l.state.Load()
		if v&closedBit != 0 {
			return false
		}
		if l.state.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// again takes another use for somebody who has one, closed or not.
func (l *lifetime) again() { l.state.Add(1) }

// leave gives a use back. It is true for the last user of a closed thing, once.
func (l *lifetime) leave() (last bool) { return l.state.Add(-1) == closedBit }

// close lets nobody in from now on. first is true for the first close; last is
// true if, besides, nobody is in: otherwise one of the users will be last.
func (l *lifetime) close() (first, last bool) {
	old := l.state.Or(closedBit)
	first = old&closedBit == 0
	return first, first && old == 0
}

// closed says whether close was called.
func (l *lifetime) closed() bool { return l.state.Load()&closedBit != 0 }
