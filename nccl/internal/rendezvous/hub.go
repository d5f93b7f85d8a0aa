package rendezvous

import (
	"sync"
	"time"
)

// taker gets the messages of a hub for one rank: a link, or a session in the process of the hub.
type taker interface{ take(m message) }

// state says where a rank stands with the hub.
type state int

const (
	absent   state = iota
	expected       // the handshake is done, the link is not there yet
	seated
	closed // has said goodbye
	ended  // without one
)

// member is a rank as the hub sees it.
type member struct {
	state state
	to    taker
	who   string // such as "process 12 on gpu-1"
}

// gather is what ranks have offered for a key.
type gather struct {
	came   []bool // and wait
	early  []bool // have come, but wait no longer
	wanted []bool // gather
	want   int    // how many that are
	values [][]byte
	count  int
}

// report returns a message that says who has come.
func (g *gather) report(k kind, key string, rank int) message {
	return message{kind: k, key: key, rank: rank, parts: [][]byte{bits(g.came), bits(g.early)}}
}

// hub collects what ranks offer, and hands it to all of them.
type hub struct {
	mu      sync.Mutex
	members []member
	gathers map[string]*gather
	last    *message // that a rank is lost
}

func newHub(size int) *hub {
	return &hub{members: make([]member, size), gathers: map[string]*gather{}}
}

// expect reserves the place of a rank. If another process has it, it returns which. If that has
// left, or the ranks have parted, again says that the place may be free in a later session.
func (h *hub) expect(rank int, who string) (other string, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.members[rank]
	switch {
	case m.state == closed, m.state == ended, h.last != nil:
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

// seat connects a rank.
func (h *hub) seat(rank int, to taker, who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.members[rank] = member{seated, to, who}
	if h.last != nil {
		to.take(*h.last)
	}
}

// take handles a message of a rank.
func (h *hub) take(from int, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m.kind {
	case offer:
		h.offer(from, m)
	case quit:
		h.quit(from, m)
	case withdraw:
		h.withdraw(from, m.key)
	case bye:
		h.bye(from)
	}
}

// wantedBy returns which ranks a message is about: those of its second part, or all.
func (h *hub) wantedBy(m *message) (wanted []bool, n int) {
	wanted = make([]bool, len(h.members))
	for r := range wanted {
		if len(m.parts) < 2 || m.parts[1][r/8]&(1<<(r%8)) != 0 {
			wanted[r] = true
			n++
		}
	}
	return wanted, n
}

// quit tells the ranks of a part, or of the whole, that one has abandoned it. h.mu is held.
func (h *hub) quit(from int, m message) {
	why := string(m.parts[0])
	if m.key == "" {
		h.loseRank(from, why, aborted)
		return
	}
	wanted, _ := h.wantedBy(&m)
	for r := range wanted {
		if wanted[r] && r != from {
			h.tell(r, message{kind: parted, key: m.key, rank: from, parts: [][]byte{[]byte(h.members[from].who + ": " + why)}})
		}
	}
}

// offer notes a value. If it was the last, the ranks that gather get all values. h.mu is held.
func (h *hub) offer(from int, o message) {
	key, value := o.key, o.parts[0]
	if h.last != nil {
		return // the rank gets to know
	}
	g := h.gathers[key]
	if g == nil {
		g = &gather{came: make([]bool, len(h.members)), early: make([]bool, len(h.members)), values: make([][]byte, len(h.members))}
		g.wanted, g.want = h.wantedBy(&o)
	}
	if gone := h.goneFrom(g); gone >= 0 {
		h.members[from].to.take(g.report(left, key, gone))
		return
	}
	if g.came[from] || !g.wanted[from] {
		return // a session does not offer twice, nor for others
	}
	h.gathers[key] = g
	g.came[from], g.early[from], g.values[from] = true, false, value
	if g.count++; g.count < g.want {
		return
	}
	delete(h.gathers, key)
	m := message{kind: result, key: key, parts: g.values}
	m.frame = m.wire()
	for i := range h.members {
		if g.wanted[i] {
			h.tell(i, m)
		}
	}
}

// goneFrom returns a rank that has left and has not offered for g, or -1. h.mu is held.
func (h *hub) goneFrom(g *gather) int {
	for r := range h.members {
		if h.members[r].state == closed && g.wanted[r] && !g.came[r] {
			return r
		}
	}
	return -1
}

// tell sends a message to a rank that is there. h.mu is held.
func (h *hub) tell(rank int, m message) {
	if h.members[rank].state == seated {
		h.members[rank].to.take(m)
	}
}

// withdraw takes an offer back and answers who had come. If the result is on its way, there is no
// answer. h.mu is held.
func (h *hub) withdraw(from int, key string) {
	g := h.gathers[key]
	if g == nil || !g.came[from] {
		return
	}
	h.tell(from, g.report(present, key, from))
	g.came[from], g.early[from], g.values[from] = false, true, nil
	if g.count--; g.count == 0 {
		delete(h.gathers, key)
	}
}

// bye notes that a rank has closed its session. What waits for it waits no longer. h.mu is held.
func (h *hub) bye(from int) {
	h.members[from].state = closed
	for key, g := range h.gathers {
		if g.came[from] || !g.wanted[from] {
			continue
		}
		delete(h.gathers, key)
		for r, came := range g.came {
			if came {
				h.tell(r, g.report(left, key, from))
			}
		}
	}
}

// lose tells all ranks that one has ended without a goodbye. Nothing else is said afterwards.
func (h *hub) lose(rank int, cause string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loseRank(rank, cause, "")
}

// loseRank is lose for a caller that holds h.mu. key is that of the message.
func (h *hub) loseRank(rank int, cause, key string) {
	m := &h.members[rank]
	if m.state != seated {
		return
	}
	m.state = ended
	if h.last != nil {
		return
	}
	h.last = &message{kind: lost, rank: rank, key: key, parts: [][]byte{[]byte(m.who + ": " + cause)}}
	clear(h.gathers)
	h.spread(*h.last)
}

// spread sends a message to all ranks. The session in this process gets it when the others have it,
// because its program may end this process then. h.mu is held.
func (h *hub) spread(m message) {
	var links []*link
	var here []taker
	for r := range h.members {
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
