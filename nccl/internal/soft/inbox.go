package soft

import (
	"slices"
	"sync"
)

// message is what one rank sends to another.
type message struct {
	kind   byte
	from   int // the rank that sent it
	key    key
	member int // of the sender in the call
	step   int
	data   []byte
}

// The kinds of messages.
const (
	kindAnnounce byte = iota // a call: a notice
	kindData                 // a step of a call
	kindFail                 // the communicator has failed: why
	kindBye                  // the rank has closed the communicator
)

// copied returns a message whose data the receiver owns.
func (m *message) copied() *message {
	n := *m
	n.data = slices.Clone(m.data)
	return &n
}

// inbox keeps the data that has come until it is read. Each message has a slot of its own, so that
// calls in several streams do not wait for each other.
type inbox struct {
	mu    sync.Mutex
	slots map[slotKey]*slot
}

type slotKey struct {
	key    key
	member int
	step   int
}

type slot struct {
	full chan struct{} // closed when data is there
	data []byte
}

// slot returns the slot of a message.
func (b *inbox) slot(at slotKey) *slot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.slots[at]
	if s == nil {
		s = &slot{full: make(chan struct{})}
		b.slots[at] = s
	}
	return s
}

// put fills a slot. Data that has come twice is dropped.
func (b *inbox) put(m *message) {
	s := b.slot(slotKey{m.key, m.member, m.step})
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-s.full:
	default:
		s.data = m.data
		close(s.full)
	}
}

func (b *inbox) drop(at slotKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.slots, at)
}
