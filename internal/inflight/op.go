package inflight

import "sync/atomic"

// Op is one operation while it is being submitted to a stream. Begin or BeginLong
// starts it, Acquire counts it as a user of a resource, and End releases everything.
// Defer End right after Begin: then an error, a panic or runtime.Goexit releases as
// a return does.
//
// The zero Op is ready, and ready again after End. An Op in a local variable stays on
// the stack, as long as it retains few resources; one that is reused allocates nothing.
type Op struct {
	stream *Stream
	short  bool // the stream's short operation: see Stream
	queued bool

	// Where the numbers of operations on what was acquired stand: the first n, and the
	// others.
	n    int
	few  [fewRetained]*atomic.Uint64
	more []*atomic.Uint64

	entered []*Tracker // resources that count a long operation as a user
}

// fewRetained is enough for a copy, and for a kernel with three buffers.
const fewRetained = 4

// Begin starts an operation that ends when a call of the driver returns. It fails when
// the stream is closed.
func (o *Op) Begin(s *Stream) bool {
	return o.BeginShort(s) || o.BeginLong(s)
}

// BeginShort is Begin that fails when the operation cannot be the stream's short one. An
// Op that only short operations of one stream use is used by one goroutine at a time.
func (o *Op) BeginShort(s *Stream) bool {
	if !s.BeginShort() {
		return false
	}
	o.stream, o.short = s, true
	return true
}

// BeginLong starts an operation that may take long. It fails when the stream is closed.
func (o *Op) BeginLong(s *Stream) bool {
	if !s.Enter() {
		return false
	}
	o.stream, o.short = s, false
	return true
}

// Acquire counts the operation as a user of a resource in a generation. It fails when
// that is closed.
func (o *Op) Acquire(t *Tracker, a Access, generation uint32) bool {
	s, u := o.stream, t.UseOf(o.stream)
	// The operation has entered its stream and has a use before it looks whether the
	// resource is open. A close does this in the opposite order, so one sees the other.
	if o.short {
		if !t.OpenIn(generation) {
			return false
		}
	} else if !t.EnterIn(generation) {
		return false
	} else {
		o.entered = append(o.entered, t)
	}
	o.retain(&u.last[a])
	if s.recorder != nil {
		s.recorder.add(t, a)
	}
	return true
}

// AcquireOwned is Acquire for a launch of a graph that owns the resource, which may be
// closed.
func (o *Op) AcquireOwned(t *Tracker, a Access) {
	u := t.UseOf(o.stream)
	if !o.short {
		t.AddUser()
		o.entered = append(o.entered, t)
	}
	o.retain(&u.last[a])
}

// retain keeps an acquired resource until End.
func (o *Op) retain(last *atomic.Uint64) {
	if o.n < fewRetained {
		o.few[o.n] = last
		o.n++
	} else {
		o.more = append(o.more, last)
	}
}

// Queued notes that the driver has the operation.
func (o *Op) Queued() { o.queued = true }

// End ends the operation. If it was queued it gets a number, which the resources
// remember. A second End does nothing.
func (o *Op) End() {
	s := o.stream
	if s == nil {
		return
	}
	if o.queued && s.recorder == nil {
		// Before the operation leaves the stream: a close looks at numbers after that.
		number := s.Next()
		for _, last := range o.few[:o.n] {
			raise(last, number)
		}
		for _, last := range o.more {
			raise(last, number)
		}
	}
	short, queued := o.short, o.queued
	entered := o.entered
	if len(o.more) > 0 {
		clear(o.more)
		o.more = o.more[:0]
	}
	o.stream, o.queued, o.n, o.entered = nil, false, 0, entered[:0]
	o.few = [fewRetained]*atomic.Uint64{} // it may hold the last reference to a lost buffer
	if short {
		s.EndShort(queued) // after which another goroutine may have the Op
	} else {
		endLong(s, queued, entered)
	}
}

// endLong ends the uses by a long operation.
func endLong(s *Stream, queued bool, entered []*Tracker) {
	for _, t := range entered {
		t.Leave()
	}
	clear(entered)
	change := ^uint64(0) // minus a user
	if queued && s.recorder == nil {
		change += oneNumber
	}
	s.left(s.word.Add(change))
}
