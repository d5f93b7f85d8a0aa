package rendezvous

import (
	"fmt"
	"slices"
)

// room is where the ranks of one session meet: all ranks in room 0, and those of one color in the room
// of a split. The mutex of its hub guards it, and is held in all its methods.
type room struct {
	hub     *hub
	id      uint64
	ranks   []int   // the rank in room 0 of each rank here
	states  []state // seated until the rank closes its session here, or is lost
	gathers map[string]*gather
	splits  int      // how often the ranks here have split
	last    *message // that a rank is lost: nothing else is said afterwards
}

// gather is what ranks have offered for a key.
type gather struct {
	came   []bool // and wait
	early  []bool // have come, but wait no longer
	values [][]byte
	count  int
}

// report returns a message that says who has come.
func (g *gather) report(k kind, key string, rank int) message {
	return message{kind: k, key: key, rank: rank, parts: [][]byte{bits(g.came), bits(g.early)}}
}

// newRoom returns a room of ranks that are numbered as in room 0.
func newRoom(h *hub, id uint64, ranks []int) *room {
	o := &room{hub: h, id: id, ranks: ranks, states: make([]state, len(ranks)), gathers: map[string]*gather{}}
	for r := range o.states {
		o.states[r] = seated
	}
	return o
}

// rankOf returns the number that a rank of room 0 has in this room, or -1 if it is not in it.
func (o *room) rankOf(first int) int {
	if o.id == 0 {
		return first
	}
	return slices.Index(o.ranks, first)
}

// tell sends a message to a rank, if it has not left.
func (o *room) tell(rank int, m message) {
	m.room = o.id
	if to := o.hub.members[o.ranks[rank]]; o.states[rank] == seated && to.state == seated {
		to.to.take(m)
	}
}

// offer notes a value. If it was the last, all ranks get all values.
func (o *room) offer(from int, key string, value []byte) {
	if o.last != nil {
		return // the rank gets to know
	}
	g, n := o.gathers[key], len(o.ranks)
	if g == nil {
		g = &gather{came: make([]bool, n), early: make([]bool, n), values: make([][]byte, n)}
	}
	if gone := o.goneFrom(g); gone >= 0 {
		o.tell(from, g.report(left, key, gone))
		return
	}
	if g.came[from] {
		return // a session does not offer twice
	}
	o.gathers[key] = g
	g.came[from], g.early[from], g.values[from] = true, false, value
	if g.count++; g.count < n {
		return
	}
	delete(o.gathers, key)
	if key == splitKey {
		o.split(g.values)
	}
	m := message{kind: result, room: o.id, key: key, parts: g.values}
	m.frame = m.wire()
	for r := range o.ranks {
		o.tell(r, m)
	}
}

// goneFrom returns a rank that has left and has not offered for g, or -1.
func (o *room) goneFrom(g *gather) int {
	for r, s := range o.states {
		if s == closed && !g.came[r] {
			return r
		}
	}
	return -1
}

// withdraw takes an offer back and answers who had come. If the result is on its way, there is no
// answer.
func (o *room) withdraw(from int, key string) {
	g := o.gathers[key]
	if g == nil || !g.came[from] {
		return
	}
	o.tell(from, g.report(present, key, from))
	g.came[from], g.early[from], g.values[from] = false, true, nil
	if g.count--; g.count == 0 && key != joinKey { // who has given up to join has come
		delete(o.gathers, key)
	}
}

// leave notes that a rank has closed its session. What waits for it waits no longer.
func (o *room) leave(from int) {
	o.states[from] = closed
	for key, g := range o.gathers {
		if g.came[from] {
			continue
		}
		delete(o.gathers, key)
		for r, came := range g.came {
			if came {
				o.tell(r, g.report(left, key, from))
			}
		}
	}
}

// lose tells all ranks here that one is lost. key is that of the message.
func (o *room) lose(rank int, cause, key string) {
	o.states[rank] = ended
	if o.last != nil {
		return
	}
	if o.id != 0 {
		cause = fmt.Sprintf("rank %d of all ranks, %s", o.ranks[rank], cause)
	}
	o.last = &message{kind: lost, room: o.id, rank: rank, key: key, parts: [][]byte{[]byte(cause)}}
	clear(o.gathers)
	var others []int
	for r, s := range o.states {
		if s == seated {
			others = append(others, o.ranks[r])
		}
	}
	o.hub.spread(others, *o.last)
}

// split makes the rooms of a split from what the ranks have offered.
func (o *room) split(values [][]byte) {
	o.splits++
	for color, ranks := range divide(values) {
		first := make([]int, len(ranks))
		for i, r := range ranks {
			first[i] = o.ranks[r]
		}
		id := splitID(o.id, o.splits, color)
		part := newRoom(o.hub, id, first)
		o.hub.rooms[id] = part
		for i, r := range first {
			if m := o.hub.members[r]; m.state == ended {
				part.lose(i, m.who, "")
			} else if m.state == closed {
				part.leave(i)
			}
		}
	}
}

// removeEmpty removes a room that all ranks have left.
func (o *room) removeEmpty() {
	if !slices.Contains(o.states, seated) {
		delete(o.hub.rooms, o.id)
	}
}
