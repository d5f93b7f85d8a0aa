package inflight

import (
	"runtime"
	"sync/atomic"
)

// Event stores what a recorded event stands for: all operations of one stream up to a
// number. If several Records were in progress at the same time, that is not known.
//
// Before a Record ends it writes known, if no other Record was in progress when it began.
// A reader sets readFlag before it reads known. It can set the flag only while no Record
// is in progress, and no Record begins while the flag is set. So two goroutines never
// access known at the same time, and an atomic operation on word orders any two accesses.
type Event struct {
	word   atomic.Uint64 // see eventUsers
	known  Meaning
	shared atomic.Bool // see Share
}

// The fields of Event.word, from the lowest bit:
//   - the number of calls that use the driver's event, including Records in progress,
//   - the number of Records in progress,
//   - whether a reader reads known,
//   - whether the event is closed,
//   - the number of the Record that began last, 0 before the first. 1 follows 2^30-1.
//
// A user waits while a count is at its limit.
const (
	eventUsers     = 1<<20 - 1
	oneRecorder    = 1 << 20
	eventRecorders = 1<<32 - 1 - eventUsers
	readFlag       = 1 << 32
	eventClosed    = 1 << 33
	recordShift    = 34
	oneRecord      = 1 << recordShift
)

// Enter counts a call that uses the event. It fails when the event is closed.
func (e *Event) Enter() bool {
	for {
		v := e.word.Load()
		switch {
		case v&eventClosed != 0:
			return false
		case v&eventUsers == eventUsers: // no room for another user
			runtime.Gosched()
		case e.word.CompareAndSwap(v, v+1):
			return true
		}
	}
}

// EnterUsed counts a call like Enter. It also counts a call on a closed event that still has
// users.
func (e *Event) EnterUsed() bool {
	for {
		v := e.word.Load()
		switch {
		case v&(eventClosed|eventUsers) == eventClosed:
			return false
		case v&eventUsers == eventUsers: // no room for another user
			runtime.Gosched()
		case e.word.CompareAndSwap(v, v+1):
			return true
		}
	}
}

// Leave ends a use. It reports whether that was the last use of a closed event.
func (e *Event) Leave() (last bool) { return lastUse(e.word.Add(^uint64(0))) }

// lastUse reports whether a word is closed and has no users.
func lastUse(v uint64) bool { return v&(eventClosed|eventUsers) == eventClosed }

// Close lets no call enter from now on. It reports whether the event was open and no
// call uses it.
func (e *Event) Close() (unused bool) {
	return e.word.Or(eventClosed)&(eventClosed|eventUsers) == 0
}

// Record is a Record in progress.
type Record struct {
	number uint64 // of the Record
	before uint64 // operations of the stream that come before it
	alone  bool
}

// BeginRecord starts to record the event in a stream, which the caller uses. It fails
// when the event is closed. EndRecord must follow.
func (e *Event) BeginRecord(s *Stream) (r Record, ok bool) {
	for {
		v := e.word.Load()
		next := v + oneRecord + oneRecorder + 1
		if next>>recordShift == 0 {
			next += oneRecord
		}
		switch {
		case v&eventClosed != 0:
			return Record{}, false
		case v&eventUsers == eventUsers || v&eventRecorders == eventRecorders || v&readFlag != 0:
			runtime.Gosched()
		case e.word.CompareAndSwap(v, next):
			return Record{next >> recordShift, s.Issued(), v&eventRecorders == 0}, true
		}
	}
}

// EndRecord ends a Record in a stream, which is nil if the driver did not make it. It
// reports whether that was the last use of a closed event.
func (e *Event) EndRecord(r Record, s *Stream) (last bool) {
	if r.alone && s != nil { // else known has the number of an earlier Record
		e.known = Meaning{r.number, s, r.before}
	}
	return lastUse(e.word.Add(^uint64(oneRecorder))) // a recorder and a user
}

// Recorded reports whether a Record was ever begun.
func (e *Event) Recorded() bool { return e.word.Load()>>recordShift != 0 }

// Meaning is what an event stands for.
type Meaning struct {
	record uint64  // number of the Record that stored this
	stream *Stream // in which the event was recorded; nil if it is not known
	before uint64  // operations of the stream that come before the Record
}

// StandsFor returns the operations that the event stands for now.
func (e *Event) StandsFor() Meaning {
	for {
		v := e.word.Load()
		switch {
		case v&eventRecorders != 0 || v>>recordShift == 0:
			return Meaning{}
		case v&readFlag != 0: // another reader
			runtime.Gosched()
			continue
		case !e.word.CompareAndSwap(v, v|readFlag):
			continue
		}
		k := e.known
		e.word.And(^uint64(readFlag))
		if k.record != v>>recordShift {
			return Meaning{}
		}
		return k
	}
}

// Stream is the stream that the event was recorded in, nil if it is not known.
func (m Meaning) Stream() *Stream { return m.stream }

// Share records that others have the driver's event, and can record it in any stream. From then
// on nobody knows what a query of the driver is about. Call Share before they get it.
func (e *Event) Share() { e.shared.Store(true) }

// Shared reports whether Share was called.
func (e *Event) Shared() bool { return e.shared.Load() }

// Passed records that the operations before the event are done. The event stood for m when
// the caller queried the driver. Passed does nothing if it was recorded again since, or if the
// event is shared.
func (e *Event) Passed(m Meaning) {
	if m.stream != nil && e.word.Load()>>recordShift == m.record && !e.Shared() {
		m.stream.Complete(m.before)
	}
}
