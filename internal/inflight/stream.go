package inflight

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Stream is what trackers must know of a stream: how many operations it was given
// and how many of them are done. An operation gets its number when the driver has
// it. So a synchronisation that starts when number n has been given covers all
// operations up to n.
//
// A Stream outlives the driver's stream, because trackers refer to it.
//
// Most operations are one call of the driver. One at a time per stream is short: it
// holds a flag of the stream, which stands for all the resources that it uses, so
// that it need not count itself in each of them. A close waits for the flags of the
// streams that use the resource. All other operations are long: they count
// themselves in the stream and in each resource, and a close waits for those of its
// own resource only.
type Stream struct {
	word     atomic.Uint64 // see usersMask
	done     atomic.Uint64
	recorder *Recorder
	owner    Owner

	drains sync.Mutex    // held by the goroutine that has set drainFlag
	ended  chan struct{} // for that goroutine, with capacity 1
}

// The fields of Stream.word, from the lowest bit: calls that use the driver's stream,
// the short operation aside; whether there is a short operation; whether a drain waits
// for it, so that no other begins; whether the stream is closed; and how many
// operations were issued: 47 bits last four years at a million operations a second.
const (
	usersMask   = 1<<14 - 1
	shortFlag   = 1 << 14
	drainFlag   = 1 << 15
	closedFlag  = 1 << 16
	numberShift = 17
	oneNumber   = 1 << numberShift
)

// Owner is the code that a Stream belongs to.
type Owner interface {
	// Wait waits until the operations issued before the call are done, or ctx ends.
	Wait(ctx context.Context) error
	// Unused is called when the last user has left a closed stream.
	Unused()
}

// Init makes a Stream ready. recorder is nil for a stream that runs its operations,
// and not nil for one that records them for a graph: those get no numbers, because
// they do not run.
func (s *Stream) Init(owner Owner, recorder *Recorder) {
	s.owner, s.recorder, s.ended = owner, recorder, make(chan struct{}, 1)
}

// Owner is the owner given to Init.
func (s *Stream) Owner() Owner { return s.owner }

// Enter counts a call that uses the driver's stream. It fails when the stream is
// closed. Leave ends the use.
func (s *Stream) Enter() bool {
	for {
		v := s.word.Load()
		switch {
		case v&closedFlag != 0:
			return false
		case v&usersMask == usersMask: // no room for another user
			runtime.Gosched()
		case s.word.CompareAndSwap(v, v+1):
			return true
		}
	}
}

// Leave ends a use.
func (s *Stream) Leave() { s.left(s.word.Add(^uint64(0))) }

// BeginShort begins the short operation. It fails when there is one, when a drain
// waits, and when the stream is closed.
func (s *Stream) BeginShort() bool {
	v := s.word.Load()
	return v&(shortFlag|drainFlag|closedFlag) == 0 && s.word.CompareAndSwap(v, v|shortFlag)
}

// EndShort ends the short operation, and numbers it if it was queued.
func (s *Stream) EndShort(queued bool) {
	change := ^uint64(shortFlag - 1) // minus shortFlag
	if queued && s.recorder == nil {
		change += oneNumber
	}
	s.left(s.word.Add(change))
}

// left looks at the word after a use or the short operation has ended.
func (s *Stream) left(v uint64) {
	if v&(drainFlag|closedFlag) != 0 {
		s.leftWatched(v)
	}
}

// leftWatched is left where a drain or a close may wait for the end.
func (s *Stream) leftWatched(v uint64) {
	if v&drainFlag != 0 {
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}
	if v&(closedFlag|usersMask|shortFlag) == closedFlag {
		s.owner.Unused()
	}
}

// drainShort waits until the short operation in progress has ended.
func (s *Stream) drainShort() {
	if s.word.Load()&shortFlag == 0 {
		return
	}
	s.drains.Lock()
	defer s.drains.Unlock()
	for s.word.Or(drainFlag)&shortFlag != 0 {
		<-s.ended
	}
	s.word.And(^uint64(drainFlag))
}

// Close lets no call enter from now on. It reports whether the stream was open and
// no call uses it: then the caller does what Unused would do.
func (s *Stream) Close() (unused bool) {
	return s.word.Or(closedFlag)&(closedFlag|usersMask|shortFlag) == 0
}

// Closed reports whether Close was called.
func (s *Stream) Closed() bool { return s.word.Load()&closedFlag != 0 }

// used reports whether a call uses the stream.
func (s *Stream) used() bool { return s.word.Load()&(usersMask|shortFlag) != 0 }

// Drain waits until no call uses the closed stream. The calls must be short.
func (s *Stream) Drain() {
	for s.used() {
		runtime.Gosched()
	}
}

// Issued is the number of operations queued so far.
func (s *Stream) Issued() uint64 { return s.word.Load() >> numberShift }

// Next is a number for an operation that the driver has and that has no number yet.
// The operation may get a higher one. Still, a synchronisation that starts when
// number Next has been given starts after the driver got the operation.
func (s *Stream) Next() uint64 { return s.Issued() + 1 }

// Complete notes that all operations up to number n are done.
func (s *Stream) Complete(n uint64) { raise(&s.done, n) }

// Completed reports whether all operations up to number n are known to be done.
func (s *Stream) Completed(n uint64) bool { return s.done.Load() >= n }

// Idle reports whether all operations are known to be done.
func (s *Stream) Idle() bool { return s.done.Load() >= s.Issued() }

// Alone reports to the only user of a stream, which has queued nothing yet, that all
// operations issued are known to be done. To one of several users it is false.
func (s *Stream) Alone() bool {
	v := s.word.Load()
	return v&(usersMask|shortFlag) == 1 && s.done.Load() >= v>>numberShift
}

// raise raises a number to n, if it is smaller.
func raise(number *atomic.Uint64, n uint64) {
	for {
		old := number.Load()
		if old >= n || number.CompareAndSwap(old, n) {
			return
		}
	}
}
