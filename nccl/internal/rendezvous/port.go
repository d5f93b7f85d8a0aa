package rendezvous

import (
	"maps"
	"slices"
	"sync"
)

// port is where the sessions of one process are connected to the hub. It lives until the last of them
// is closed.
type port struct {
	toHub func(message)
	end   func() // ends connections, after the goodbye

	mu       sync.Mutex
	sessions map[uint64]*Session // by room
	left     bool                // rank 0's process needs no more
	broken   string              // how the connection to it has ended; "" for not
}

// newPort returns a port. Its functions are set by the caller.
func newPort() *port { return &port{sessions: map[uint64]*Session{}} }

// open returns the session of a rank in a room. ranks are the ranks in room 0 of those there.
func (p *port) open(room uint64, rank int, ranks []int) *Session {
	s := &Session{rank: rank, ranks: ranks, room: room, port: p, gone: make(chan struct{}), shut: make(chan struct{}), waits: map[string]chan message{}}
	p.mu.Lock()
	p.sessions[room] = s
	left, broken := p.left, p.broken
	p.mu.Unlock()
	if left {
		s.noteRootLeft()
	}
	if broken != "" {
		s.noteRootLost(broken)
	}
	return s
}

// openFirst returns the session of a rank in room 0.
func (p *port) openFirst(rank, size int) *Session {
	all := make([]int, size)
	for r := range all {
		all[r] = r
	}
	return p.open(0, rank, all)
}

// take hands a message of the hub to the session of its room.
func (p *port) take(m message) { _ = p.hand(m) }

// hand is take, and returns an error for a message that the session cannot get.
func (p *port) hand(m message) error {
	p.mu.Lock()
	s := p.sessions[m.room]
	p.mu.Unlock()
	if s == nil {
		return nil // it is closed
	}
	err := m.checkFrom(s.Size())
	if err == nil {
		s.take(m)
	}
	return err
}

// rootLeft notes that rank 0's process needs no more.
func (p *port) rootLeft() {
	p.mu.Lock()
	p.left = true
	all := slices.Collect(maps.Values(p.sessions))
	p.mu.Unlock()
	for _, s := range all {
		s.noteRootLeft()
	}
}

// rootLost notes that the connection to rank 0's process has ended.
func (p *port) rootLost(cause string) {
	p.mu.Lock()
	p.broken = cause
	all := slices.Collect(maps.Values(p.sessions))
	p.mu.Unlock()
	for _, s := range all {
		s.noteRootLost(cause)
	}
}

// close forgets a session. The goodbye of the last one is that of the process.
func (p *port) close(s *Session) {
	p.mu.Lock()
	delete(p.sessions, s.room)
	last := len(p.sessions) == 0
	p.mu.Unlock()
	if last {
		p.toHub(message{kind: bye})
		p.end()
	}
}
