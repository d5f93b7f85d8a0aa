package inflight

import (
	"context"
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
// close.
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
	owners   atomic.Int32 // graphs that will use the resource; changes under mu
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

// UseOf is the use of a stream. The caller has entered the stream: then the use stays
// the stream's until it leaves.
func (t *Tracker) UseOf(s *Stream) *Use {
	if t.first.stream.Load() == s {
		return &t.first
	}
	return t.otherUseOf(s)
}

// otherUseOf is UseOf where the first Use is another stream's. If need be it takes that
// of a stream that is done, or makes a new one.
func (t *Tracker) otherUseOf(s *Stream) *Use {
	if u := t.find(s); u != nil {
		return u
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.find(s); u != nil {
		return u
	}
	old := *t.uses.Load()
	for _, u := range old {
		if u.reassign(s) {
			return u
		}
	}
	u := new(Use)
	u.stream.Store(s)
	uses := append(slices.Clone(old), u)
	t.uses.Store(&uses)
	return u
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

// reassign gives a use to s, if its stream is done with it and no operation of that
// stream can have found it. Tracker.mu is held.
func (u *Use) reassign(s *Stream) bool {
	if old := u.stream.Load(); old != nil {
		// An operation enters its stream, finds the use, notes its number and leaves.
		// This goes the other way: it hides the use, looks for operations in the stream,
		// and reads the numbers last, because an operation may just have left.
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

// streamOf is the stream of a use, nil if it has none yet. It waits for reassign:
// otherwise a close or a wait would overlook the stream, which may keep the use.
func (t *Tracker) streamOf(u *Use) *Stream {
	s := u.stream.Load()
	if s == reassigning {
		t.mu.Lock()
		defer t.mu.Unlock()
		s = u.stream.Load()
	}
	return s
}

// Note notes that operation number n uses the resource. The caller has entered the
// stream.
func (u *Use) Note(a Access, n uint64) { raise(&u.last[a], n) }

// latest is the number of the last operation that conflicts with an access.
func (u *Use) latest(a Access) uint64 {
	last := u.last[Write].Load()
	if a == Write {
		last = max(last, u.last[Read].Load())
	}
	return last
}

// Pending is the streams with operations that conflict with an access and are not
// known to be done, each with the number of the last such operation.
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

// Drain waits until no call uses the closed resource. Work that the hardware has is
// not waited for.
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

// Disown ends Own. If there is no other owner, it runs what AfterOwners left to it.
func (t *Tracker) Disown() error {
	t.mu.Lock()
	var task func() error
	if t.owners.Add(-1) == 0 {
		task, t.lastTask = t.lastTask, nil
	}
	t.mu.Unlock()
	if task == nil {
		return nil
	}
	return task()
}

// AfterOwners runs a task for a closed resource: now, or when its last owner is
// gone.
func (t *Tracker) AfterOwners(task func() error) error {
	if t.owners.Load() == 0 {
		return task()
	}
	t.mu.Lock()
	owned := t.owners.Load() > 0
	if owned {
		t.lastTask = task
	}
	t.mu.Unlock()
	if owned {
		return nil
	}
	return task()
}
