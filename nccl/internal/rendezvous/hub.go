package rendezvous

import (
	"sync"
	"time"
)

// taker gets the messages of a hub for the process of a rank: a link, or a port in the process of
// the hub.
type taker interface{ take(m message) }

// state says where the process of a rank stands with the hub, or a rank with a room.
type state int

const (
	absent   state = iota
	expected       // the handshake is done, the link is not there yet
	seated
	closed // has said goodbye
	ended  // without one
)

// member is the process of a rank as the hub sees it.
type member struct {
	state state
	to    taker
	who   string // such as "process 12 on gpu-1"
}

// hub connects the processes of all ranks. What ranks of a session tell each other is in rooms.
type hub struct {
	mu      sync.Mutex
	members []member
	rooms   map[uint64]*room
}

func newHub(size int) *hub {
	h := &hub{members: make([]member, size), rooms: map[uint64]*room{}}
	all := make([]int, size)
	for r := range all {
		all[r] = r
	}
	h.rooms[0] = newRoom(h, 0, all)
	return h
}

// expect reserves the place of a rank. If another process has it, it returns which. If that has
// left, or a rank is lost, again says that the place may be free in a later session.
func (h *hub) expect(rank int, who string) (other string, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.members[rank]
	switch {
	case m.state == closed, m.state == ended, h.rooms[0] == nil, h.rooms[0].last != nil:
		return m.who, true
	case m.state != absent:
		return m.who, false
	}
	m.state, m.who = expected, who
	return "", false
}

// forget gives a reserved place back.
func (h *hub) forget(rank int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := &h.members[rank]; m.state == expected {
		*m = member{}
	}
}

// seat connects the process of a rank.
func (h *hub) seat(rank int, to taker, who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[rank] = member{seated, to, who}
	if first := h.rooms[0]; first != nil && first.last != nil {
		to.take(*first.last)
	}
}

// take handles a message of a rank.
func (h *hub) take(from int, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.kind == bye {
		h.members[from].state = closed
		return
	}
	o := h.rooms[m.room]
	if o == nil {
		return // all ranks of the room have left
	}
	rank := o.rankOf(from)
	if rank < 0 || o.states[rank] != seated {
		return
	}
	switch m.kind {
	case offer:
		o.offer(rank, m.key, m.parts[0])
	case withdraw:
		o.withdraw(rank, m.key)
	case leave:
		o.leave(rank)
	case abandon:
		o.lose(rank, h.members[from].who+": "+string(m.parts[0]), aborted)
	case enter:
		if o.last != nil {
			o.tell(rank, *o.last)
		}
	}
	o.removeEmpty()
}

// lose notes that the process of a rank has ended without a goodbye.
func (h *hub) lose(from int, cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.members[from]
	if m.state != seated {
		return
	}
	m.state = ended
	for _, o := range h.rooms {
		if rank := o.rankOf(from); rank >= 0 && o.states[rank] == seated {
			o.lose(rank, m.who+": "+cause, "")
			o.removeEmpty()
		}
	}
}

// spread sends a message to processes. That of the hub gets it when the others have it, because its
// program may end then. h.mu is held.
func (h *hub) spread(ranks []int, m message) {
	var links []*link
	var here []taker
	for _, r := range ranks {
		if h.members[r].state != seated {
			continue
		}
		if l, ok := h.members[r].to.(*link); ok {
			l.take(m)
			links = append(links, l)
		} else {
			here = append(here, h.members[r].to)
		}
	}
	go func() {
		deadline := time.Now().Add(closePatience)
		for _, l := range links {
			l.flush(deadline)
		}
		for _, t := range here {
			t.take(m)
		}
	}()
}

// links returns the connections of the ranks that are there or have just left.
func (h *hub) links() (all []*link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.members {
		if l, ok := m.to.(*link); ok {
			all = append(all, l)
		}
	}
	return all
}
