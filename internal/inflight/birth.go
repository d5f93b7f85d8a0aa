package inflight

import (
	"slices"
	"sync"
)

// birth is the operation before which a resource does not exist: its allocation in
// stream order. Operations of other streams must come after it.
type birth struct {
	stream *Stream
	number uint64
	event  any // stands for the birth, nil if nothing does

	mu    sync.Mutex
	known []*Stream // streams that wait for the birth already
}

// SetBirth says that the resource exists after operation number of a stream. event is what
// other streams can wait for instead of the whole stream, nil for none. SetBirth must be
// called before any use of the tracker.
func (t *Tracker) SetBirth(s *Stream, number uint64, event any) {
	t.birth = &birth{stream: s, number: number, event: event}
}

// BirthEvent is the event given to SetBirth, nil if there is none.
func (t *Tracker) BirthEvent() any {
	if t.birth == nil {
		return nil
	}
	return t.birth.event
}

// BornOn is the stream given to SetBirth, nil if there is none.
func (t *Tracker) BornOn() *Stream {
	if t.birth == nil {
		return nil
	}
	return t.birth.stream
}

// MustFollow returns the stream for which s must wait before it uses the resource, or nil.
// It returns nil for a stream that records for a graph, because the launch waits instead.
func (t *Tracker) MustFollow(s *Stream) *Stream {
	b := t.birth
	if b == nil || b.stream == s || b.stream.Completed(b.number) || s.recorder != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.known, s) {
		return nil
	}
	return b.stream
}

// Follows records that s waits for the stream that MustFollow returned.
func (t *Tracker) Follows(s *Stream) {
	t.birth.mu.Lock()
	defer t.birth.mu.Unlock()
	t.birth.known = append(t.birth.known, s)
}
