package inflight

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Access is what an operation does to a resource.
type Access uint8

// Reads conflict with writes, writes with all.
const (
	Read Access = iota
	Write
)

// Tracker knows the operations in flight on one resource, per stream, and which calls
// use it right now. Graphs that will use the resource own it: then it outlives its
// close. So does an operation that has lent it to code of the program.
//
// Uses are found without a lock; they are added and reassigned under mu. Most
// resources are used by one stream, whose use is part of the Tracker.
//
// Init must be called before anything else.
type Tracker struct {
	Lifetime // its users are calls outside of streams, and long operations

	first Use
	uses  atomic.Pointer[[]*Use] // all of them; the slice is replaced, never changed
	wake  chan struct{}          // for Drain, with capacity 1
	birth *birth                 // nil for a resource that exists for all streams

	mu       sync.Mutex   // for changes of uses, and what follows
	unasked  int          // uses that were given to streams since ask
	pending  int          // uses that could not be reassigned after the last ask
	owners   atomic.Int32 // graphs that will use the resource, and calls of Lend; changes under mu
	lent     int          // calls of Lend
	lastTask func() error // what the last owner runs
}

// Use is the operations of one stream on one resource.
type Use struct {
	stream atomic.Pointer[Stream] // nil before the first; see streamOf
	last   [2]atomic.Uint64       // by Access: the number of the last operation
}

// reassigning is in Use.stream while Use.reassign decides whether the stream is done.
var reassigning = new(Stream)

// Init makes the tracker ready, open in generation 0.
func (t *Tracker) Init() {
	t.wake = make(chan struct{}, 1)
	t.uses.Store(&[]*Use{&t.first})
}

// UseOf returns the use of a stream, and makes one if there is none. The caller must have
// entered the stream. The use belongs to the stream until the caller leaves it.
func (t *Tracker) UseOf(s *Stream) *Use {
	if t.first.stream.Load() == s {
		return &t.first
	}
	return t.otherUseOf(s)
}

// otherUseOf implements UseOf if Tracker.first belongs to another stream. If the stream has
// no use, it reassigns the use of a stream that is done, or makes a new one.
func (t *Tracker) otherUseOf(s *Stream) *Use {
	if u := t.find(s); u != nil {
		return u
	}
	if u := t.reassigned(s, false); u != nil {
		return u
	}
	t.ask()
	return t.reassigned(s, true)
}

// reassigned gives the use of a stream that is done to stream s. If there is none, it makes a
// new use, or returns nil if it is time to ask whether streams are done. With asked set it
// always makes one.
func (t *Tracker) reassigned(s *Stream, asked bool) *Use {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.find(s); u != nil {
		return u
	}
	old := *t.uses.Load()
	if asked {
		t.unasked, t.pending = 0, t.count()
	}
	for _, u := range old {
		if u.reassign(s) {
			t.unasked++
			return u
		}
	}
	if !asked && t.unasked >= max(askEvery, t.pending) {
		return nil
	}
	t.unasked++
	u := new(Use)
	u.stream.Store(s)
	uses := append(slices.Clone(old), u)
	t.uses.Store(&uses)
	return u
}

// askEvery is the least number of uses that streams get between two asks. A buffer that is
// used by a new stream for each request would have a use for each of these streams, if
// nothing waited for them. A larger number of streams in flight makes asks as much rarer, so
// that each new use asks about two streams on average.
const askEvery = 16

// ask asks the streams that are not known to be done.
func (t *Tracker) ask() {
	for s := range t.Pending(Write) {
		s.owner.Ask()
	}
}

// count returns how many streams are not known to be done.
func (t *Tracker) count() (n int) {
	for _, u := range *t.uses.Load() {
		if s := u.stream.Load(); s != nil && !s.Completed(u.latest(Write)) {
			n++
		}
	}
	return n
}

// find is the use of a stream, nil if it has none.
func (t *Tracker) find(s *Stream) *Use {
	for _, u := range *t.uses.Load() {
		if u.stream.Load() == s {
			return u
		}
	}
	return nil
}

// reassign gives a use to stream s. It fails if operations of the old stream are in flight,
// or if a call that is still in that stream may have found the use. Tracker.mu is held.
func (u *Use) reassign(s *Stream) bool {
	if old := u.stream.Load(); old != nil {
		// An operation enters its stream, finds the use, records its number and leaves.
		// This code uses the opposite order. It hides the use, then checks that no
		// operation is in the stream. It reads the numbers last, because an operation may
		// have left just before the check.
		u.stream.Store(reassigning)
		if old.used() || !old.Completed(u.latest(Write)) {
			u.stream.Store(old)
			return false
		}
	}
	u.last[Read].Store(0)
	u.last[Write].Store(0)
	u.stream.Store(s)
	return true
}

// Forget removes the streams of all uses, so that a later close does not wait for their
// short operations. The resource must be closed, drained and without owners, and the
// hardware must be done with it. Calls with a generation that is over may run concurrently.
func (t *Tracker) Forget() {
	if uses := *t.uses.Load(); len(uses) == 1 && t.first.stream.Load() == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range *t.uses.Load() {
		// A call that has found the use sees that its generation is over, and records
		// nothing.
		u.stream.Store(nil)
		u.last[Read].Store(0)
		u.last[Write].Store(0)
	}
}

// streamOf returns the stream of a use, or nil if the use has none yet. While reassign
// decides, streamOf waits for it. Otherwise a close or a wait could miss the old stream,
// which may keep the use.
func (t *Tracker) streamOf(u *Use) *Stream {
	s := u.stream.Load()
	if s == reassigning {
		t.mu.Lock()
		defer t.mu.Unlock()
		s = u.stream.Load()
	}
	return s
}

// Record records that operation number n uses the resource. The caller has entered the
// stream.
func (u *Use) Record(a Access, n uint64) { raise(&u.last[a], n) }

// latest is the number of the last operation that conflicts with an access.
func (u *Use) latest(a Access) uint64 {
	last := u.last[Write].Load()
	if a == Write {
		last = max(last, u.last[Read].Load())
	}
	return last
}

// Pending yields the streams with operations that conflict with an access and are not
// known to be done. With each stream it yields the number of the last such operation.
func (t *Tracker) Pending(a Access) iter.Seq2[*Stream, uint64] {
	return func(yield func(*Stream, uint64) bool) {
		for _, u := range *t.uses.Load() {
			s := t.streamOf(u)
			if s == nil {
				continue
			}
			if last := u.latest(a); !s.Completed(last) && !yield(s, last) {
				return
			}
		}
	}
}

// Wait returns when the hardware is done with all operations that conflict with an
// access and were queued before the call. It may also wait for later operations of
// the same streams. The error is that of a stream's Owner.
func (t *Tracker) Wait(ctx context.Context, a Access) error {
	for s := range t.Pending(a) {
		if err := s.owner.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leave ends a use that Enter or EnterIn began.
func (t *Tracker) Leave() {
	if t.Lifetime.Leave() {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Drain waits until no call uses the closed resource. It does not wait for operations in
// flight.
func (t *Tracker) Drain() {
	for _, u := range *t.uses.Load() {
		if s := t.streamOf(u); s != nil {
			s.drainShort()
		}
	}
	for !t.unused() {
		<-t.wake
	}
}

// TryDrain is Drain for a caller that may not be allowed to wait. Unless the resource is
// drained already, it returns the error of mayWait.
func (t *Tracker) TryDrain(mayWait func() error) error {
	if t.Drained() {
		return nil
	}
	if err := mayWait(); err != nil {
		return err
	}
	t.Drain()
	return nil
}

// Drained reports whether Drain would return at once.
func (t *Tracker) Drained() bool {
	for _, u := range *t.uses.Load() {
		if s := t.streamOf(u); s != nil && s.word.Load()&shortFlag != 0 {
			return false
		}
	}
	return t.unused()
}

// Own keeps the resource after its close until Disown. A closed resource gets no new
// owner.
func (t *Tracker) Own() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners.Add(1)
}

// Disown ends an Own. The last Disown runs the task of AfterOwners.
func (t *Tracker) Disown() error {
	if task := t.disown(0); task != nil {
		return task()
	}
	return nil
}

// DisownTask is Disown for a caller that cannot run the task itself. It returns the task, or nil.
func (t *Tracker) DisownTask() (task func() error) { return t.disown(0) }

// GiveBack ends the use of [Op.Lend], as Disown ends an Own. The operation has ended. The caller
// must run the task that it returns, unless that is nil.
func (t *Tracker) GiveBack() (task func() error) { return t.disown(1) }

// disown ends an Own or, with lent 1, a Lend. It returns the task of AfterOwners to the last owner.
func (t *Tracker) disown(lent int) (task func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lent -= lent
	if t.owners.Add(-1) == 0 {
		task, t.lastTask = t.lastTask, nil
	}
	return task
}

// lend is Own for [Op.Lend].
func (t *Tracker) lend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners.Add(1)
	t.lent++
}

// Lent reports whether an operation has lent the resource.
func (t *Tracker) Lent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lent > 0
}

// ErrLent is the result of AfterOwners while an operation has lent the resource.
var ErrLent = errors.New("a call that runs code of the program uses it")

// AfterOwners runs a task for a closed resource: now, or when its last owner is
// gone. It returns ErrLent if an operation has lent the resource.
func (t *Tracker) AfterOwners(task func() error) error {
	if t.owners.Load() == 0 {
		return task()
	}
	t.mu.Lock()
	owned, lent := t.owners.Load() > 0, t.lent > 0
	if owned {
		t.lastTask = task
	}
	t.mu.Unlock()
	switch {
	case lent:
		return ErrLent
	case owned:
		return nil
	}
	return task()
}
