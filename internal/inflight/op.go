package inflight

import "sync/atomic"

// Op is one operation while it is being submitted to a stream. Begin or BeginLong starts
// it. Acquire counts it as a user of a resource. End releases everything. Defer End right
// after Begin, so that an error, a panic and runtime.Goexit also release everything.
//
// The zero Op is ready to use, and so is an Op after End. An Op in a local variable stays
// on the stack if it retains at most inlineRetained resources. A reused Op allocates nothing.
type Op struct {
	stream *Stream
	short  bool // the stream's short operation: see Stream
	queued bool

	// The retained resources. For each, the address where End stores the number of the
	// operation. inline has the first n of them, more has the rest.
	n      int
	inline [inlineRetained]*atomic.Uint64
	more   []*atomic.Uint64

	entered []*Tracker // resources that count a long operation as a user
}

// inlineRetained is enough for a copy, and for a kernel with three buffers.
const inlineRetained = 4

// Begin starts an operation that ends when a call of the driver returns. It fails when
// the stream is closed.
func (o *Op) Begin(s *Stream) bool {
	return o.BeginShort(s) || o.BeginLong(s)
}

// BeginShort starts the short operation of a stream. It fails when the stream has one, is
// drained or is closed. Only one goroutine at a time uses an Op that serves only short
// operations of one stream.
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

// Acquire counts the operation as a user of a generation of a resource. It fails when that
// generation is closed.
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

// AcquireOwned counts a graph launch as a user of a resource that the graph owns. The
// resource may be closed.
func (o *Op) AcquireOwned(t *Tracker, a Access) {
	u := t.UseOf(o.stream)
	if !o.short {
		t.AddUser()
		o.entered = append(o.entered, t)
	}
	o.retain(&u.last[a])
}

// Lend stops counting the operation as a user of the resource that it acquired last, and makes it
// an owner instead. The caller is about to run code of the program, for which a close must not
// wait, because that code may close the resource. The operation is long. After End, and only then,
// the caller must call GiveBack of the result.
func (o *Op) Lend() *Tracker {
	last := len(o.entered) - 1
	t := o.entered[last]
	o.entered[last] = nil
	o.entered = o.entered[:last]
	t.lend()
	t.Leave()
	return t
}

// retain keeps an acquired resource until End. A copy of many ranges of few buffers keeps each
// buffer once.
func (o *Op) retain(last *atomic.Uint64) {
	for _, x := range o.inline[:o.n] {
		if x == last {
			return
		}
	}
	if o.n < inlineRetained {
		o.inline[o.n] = last
		o.n++
	} else {
		o.more = append(o.more, last)
	}
}

// Queued records that the driver has accepted the operation.
func (o *Op) Queued() { o.queued = true }

// End ends the operation. If it was queued it gets a number, and End stores the number in
// the retained resources. A second End does nothing.
func (o *Op) End() {
	s := o.stream
	if s == nil {
		return
	}
	if o.queued && s.recorder == nil {
		// The numbers must be stored before the operation leaves the stream, because a close
		// reads them after the last operation has left.
		number := s.Next()
		for _, last := range o.inline[:o.n] {
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
	o.inline = [inlineRetained]*atomic.Uint64{} // it may hold the last reference to a lost buffer
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
