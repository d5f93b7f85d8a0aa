package inflight

import (
	"context"
	"sync/atomic"
)

// testStream is a Stream whose owner counts its calls. Wait finishes nothing unless
// onWait does.
type testStream struct {
	Stream
	waits  atomic.Int32
	unused atomic.Int32
	atEnd  atomic.Uint64 // operations issued when Unused was called
	onWait func(ctx context.Context) error
	asks   atomic.Int32
	onAsk  func()
}

func newTestStream(recorder *Recorder) *testStream {
	s := new(testStream)
	s.Init(s, recorder)
	return s
}

func (s *testStream) Wait(ctx context.Context) error {
	s.waits.Add(1)
	if s.onWait != nil {
		return s.onWait(ctx)
	}
	return nil
}

func (s *testStream) Ask() {
	s.asks.Add(1)
	if s.onAsk != nil {
		s.onAsk()
	}
}

func (s *testStream) Unused() {
	s.unused.Add(1)
	s.atEnd.Store(s.Issued())
}

// users is how many calls use the stream, the short operation among them.
func (s *testStream) users() int {
	v := s.word.Load()
	n := int(v & usersMask)
	if v&shortFlag != 0 {
		n++
	}
	return n
}

func newTracker() *Tracker {
	t := new(Tracker)
	t.Init()
	return t
}

// pending is Tracker.Pending as a map.
func pending(t *Tracker, a Access) map[*Stream]uint64 {
	all := map[*Stream]uint64{}
	for s, n := range t.Pending(a) {
		all[s] = n
	}
	return all
}

// queue runs one queued operation of a stream on trackers, and reports whether all of
// them could be acquired.
func queue(s *Stream, a Access, long bool, trackers ...*Tracker) bool {
	var op Op
	defer op.End()
	if long && !op.BeginLong(s) || !long && !op.Begin(s) {
		return false
	}
	for _, t := range trackers {
		if !op.Acquire(t, a, t.Generation()) {
			return false
		}
	}
	op.Queued()
	return true
}

// issued is a stream with n operations.
func issued(n uint64) *testStream {
	s := newTestStream(nil)
	s.word.Store(n * oneNumber)
	return s
}

// record records an event and reports whether that was its last use.
func record(e *Event, s *testStream, done bool) (last bool) {
	r, ok := e.BeginRecord(&s.Stream)
	return ok && e.EndRecord(r, madeIn(s, done))
}

// madeIn is what EndRecord gets for a Record in a stream: nil if the driver did not make it.
func madeIn(s *testStream, done bool) *Stream {
	if !done {
		return nil
	}
	return &s.Stream
}
