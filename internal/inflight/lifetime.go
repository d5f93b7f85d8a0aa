package inflight

import "sync/atomic"

// Lifetime counts the users of a resource that can be closed, so that the resource is not
// freed while a call uses it. The last user of a closed resource frees it.
//
// A closed resource, such as a buffer of a pool, can be opened again for another owner. It
// then has the next generation, and callers with an earlier generation cannot enter.
// Generations start at 0 again after 2^30.
//
// Unlike the words of a stream or an event it holds up to 2^31 users: every
// buffer and stream of a GPU is a user of the GPU.
type Lifetime struct {
	state atomic.Int64 // users in the lower 32 bits, then the generation, then lifetimeClosed
}

const (
	lifetimeClosed  = 1 << 62
	lifetimeUsers   = 1<<32 - 1
	generationShift = 32
	generationMask  = (lifetimeClosed - 1) &^ lifetimeUsers
)

// Enter counts a user. It fails when the resource is closed.
func (l *Lifetime) Enter() bool { return l.EnterIn(l.Generation()) }

// EnterIn counts a user of a generation. It fails when that generation is closed.
func (l *Lifetime) EnterIn(generation uint32) bool {
	for {
		v := l.state.Load()
		if v&^lifetimeUsers != int64(generation)<<generationShift {
			return false
		}
		if l.state.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// EnterUsed counts a user of a resource that is open, or closed and still has users.
func (l *Lifetime) EnterUsed() bool {
	for {
		v := l.state.Load()
		if unusedState(v) {
			return false
		}
		if l.state.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// AddUser counts another user on behalf of one that is there, closed or not.
func (l *Lifetime) AddUser() { l.state.Add(1) }

// Leave ends a use. It reports true to the last user of a closed resource, once.
func (l *Lifetime) Leave() (last bool) { return unusedState(l.state.Add(-1)) }

// unusedState reports whether a state is closed and has no users.
func unusedState(v int64) bool { return v&(lifetimeClosed|lifetimeUsers) == lifetimeClosed }

// unused reports whether the resource is closed and has no users.
func (l *Lifetime) unused() bool { return unusedState(l.state.Load()) }

// Close closes the resource: no user can enter any more. first is true for the first Close.
// unused is true if it is the first Close and there are no users. Otherwise Leave reports
// the last user.
func (l *Lifetime) Close() (first, unused bool) {
	v := l.state.Or(lifetimeClosed)
	first = v&lifetimeClosed == 0
	return first, first && v&lifetimeUsers == 0
}

// CloseIn is Close for one generation. It fails when that generation is closed.
func (l *Lifetime) CloseIn(generation uint32) bool {
	for {
		v := l.state.Load()
		if v&^lifetimeUsers != int64(generation)<<generationShift {
			return false
		}
		if l.state.CompareAndSwap(v, v|lifetimeClosed) {
			return true
		}
	}
}

// Reopen starts the next generation of a closed resource that has no users.
func (l *Lifetime) Reopen() (generation uint32) {
	next := (l.state.Load() + 1<<generationShift) & generationMask
	l.state.Store(next)
	return uint32(next >> generationShift)
}

// Generation is the present generation.
func (l *Lifetime) Generation() uint32 {
	return uint32((l.state.Load() & generationMask) >> generationShift)
}

// Closed reports whether the resource is closed.
func (l *Lifetime) Closed() bool { return l.state.Load()&lifetimeClosed != 0 }

// OpenIn reports whether the resource is open and has this generation.
func (l *Lifetime) OpenIn(generation uint32) bool {
	return l.state.Load()&^lifetimeUsers == int64(generation)<<generationShift
}
