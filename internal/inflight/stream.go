package inflight

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Stream counts the operations of a stream: how many were queued, and how many are known
// to be done. An operation gets its number after the driver has accepted it. So a
// synchronization that starts after number n was assigned covers all operations up to n.
//
// A Stream outlives the driver's stream, because trackers refer to it.
//
// Most operations are one call of the driver. At most one operation of a stream is short.
// It holds a flag of the stream, and is not counted in the resources that it uses. So the
// close of a resource waits until the streams that use the resource have no flag set. All
// other operations are long: they count themselves in the stream and in each resource. The
// close of a resource waits only for the long operations that use the resource.
type Stream struct {
	word     atomic.Uint64 // see usersMask
	done     atomic.Uint64
	recorder *Recorder
	owner    Owner
	shared   atomic.Bool // see Share

	drains sync.Mutex    // held by the goroutine that has set drainFlag
	ended  chan struct{} // for that goroutine, with capacity 1
}

// The fields of Stream.word, from the lowest bit:
//   - the number of calls that use the driver's stream, without the short operation,
//   - whether there is a short operation,
//   - whether a drain waits for it, so that no other short operation may begin,
//   - whether the stream is closed,
//   - how many operations were issued. 47 bits last four years at a million operations a
//     second.
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
	// Ask asks, without waiting, whether all operations issued are done, and records that.
	Ask()
	// Unused is called when the last user has left a closed stream.
	Unused()
}

// Init makes a Stream ready. recorder is nil for a stream that runs its operations. For a
// stream that records operations for a graph it is not nil. Recorded operations get no
// numbers, because they do not run.
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

// EnterUsed counts a call like Enter. It also counts a call on a closed stream that still
// has users. The caller can be one of them, so it must not wait for the others to leave.
func (s *Stream) EnterUsed() bool {
	for {
		v := s.word.Load()
		switch {
		case v&closedFlag != 0 && v&(usersMask|shortFlag) == 0:
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

// LeaveAsync is Leave for a goroutine that must not destroy the stream: if that was the last
// use of a closed stream, a new goroutine does the work of Owner.Unused.
func (s *Stream) LeaveAsync() {
	v := s.word.Add(^uint64(0))
	s.wake(v)
	if isUnused(v) {
		go s.owner.Unused()
	}
}

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

// left handles the end of a use or of the short operation. v is the word after it.
func (s *Stream) left(v uint64) {
	if v&(drainFlag|closedFlag) != 0 {
		s.leftWatched(v)
	}
}

// leftWatched wakes a drain, and reports the last use of a closed stream to the owner.
func (s *Stream) leftWatched(v uint64) {
	s.wake(v)
	if isUnused(v) {
		s.owner.Unused()
	}
}

// wake wakes a drain.
func (s *Stream) wake(v uint64) {
	if v&drainFlag != 0 {
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}
}

// isUnused reports whether a word is that of a closed stream without users.
func isUnused(v uint64) bool { return v&(closedFlag|usersMask|shortFlag) == closedFlag }

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

// Close closes the stream: no call can enter any more. It returns true if the stream was
// open and no call uses it. The caller must then do the work of Owner.Unused.
func (s *Stream) Close() (unused bool) {
	return s.word.Or(closedFlag)&(closedFlag|usersMask|shortFlag) == 0
}

// Closed reports whether Close was called.
func (s *Stream) Closed() bool { return s.word.Load()&closedFlag != 0 }

// used reports whether a call uses the stream.
func (s *Stream) used() bool { return s.word.Load()&(usersMask|shortFlag) != 0 }

// Drain waits until no call uses the closed stream. Most calls are short, so it yields at first.
// One that runs code of the program can be long, and for that it sleeps.
func (s *Stream) Drain() {
	for tries := 0; s.used(); tries++ {
		runtime.Gosched()
		if tries >= drainYields {
			time.Sleep(drainSleep)
		}
	}
}

// Drain yields drainYields times, and then sleeps for drainSleep each time.
const (
	drainYields = 1000
	drainSleep  = 100 * time.Microsecond
)

// Issued is the number of operations queued so far.
func (s *Stream) Issued() uint64 { return s.word.Load() >> numberShift }

// Next returns a number for an operation that the driver has accepted and that has no
// number yet. The operation may get a higher number. A synchronization that starts after
// number Next was assigned still covers the operation.
func (s *Stream) Next() uint64 { return s.Issued() + 1 }

// Complete records that all operations up to number n are done.
func (s *Stream) Complete(n uint64) { raise(&s.done, n) }

// Completed reports whether all operations up to number n are known to be done.
func (s *Stream) Completed(n uint64) bool { return s.done.Load() >= n }

// Share records that others have the driver's stream, and can queue operations without a
// number. From then on the stream is never known to be idle. Call Share before they get it.
func (s *Stream) Share() { s.shared.Store(true) }

// Shared reports whether Share was called.
func (s *Stream) Shared() bool { return s.shared.Load() }

// Idle reports whether all work is known to be done. Of a shared stream that is not known.
func (s *Stream) Idle() bool { return s.done.Load() >= s.Issued() && !s.Shared() }

// Alone reports whether the caller is the only user of the stream and all work is known to be
// done, which is not so for a shared stream. The caller must have entered the stream and queued
// nothing yet.
func (s *Stream) Alone() bool {
	v := s.word.Load()
	return v&(usersMask|shortFlag) == 1 && s.done.Load() >= v>>numberShift && !s.Shared()
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
