package nccl

import "github.com/ferrygpu/ferry/internal/refusal"

// Group collects calls and queues them as one (ncclGroupStart, ncclGroupEnd). In a group the order
// of sends and receives does not matter, and one goroutine can make the calls of several
// communicators. The zero Group is ready. A Group is
// for one goroutine. Used again after Submit, it allocates nothing.
//
//	var g nccl.Group
//	err := nccl.Send(g.For(comm), stream, right, next)
//	err = nccl.Recv(g.For(comm), stream, left, previous)
//	err = g.Submit()
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html
type Group struct {
	calls   []pending
	members []*Member
	err     error // of the first call that was refused
}

// Member makes the calls of a communicator in a group.
type Member struct {
	g *Group
	c *Comm
}

// For returns what makes calls of c in the group. They are checked at once, and queued by Submit.
func (g *Group) For(c *Comm) *Member {
	if g == nil {
		return nil
	}
	for _, m := range g.members {
		if m.c == c {
			return m
		}
	}
	m := &Member{g, c}
	g.members = append(g.members, m)
	return m
}

func (m *Member) comm() *Comm {
	if m == nil || m.g == nil {
		return nil
	}
	return m.c
}

func (m *Member) refused(err error) error {
	if m.g.err == nil {
		m.g.err = err
	}
	return err
}

func (m *Member) make(f *frame) error {
	m.g.calls = append(m.g.calls, f.calls...)
	return nil
}

// Submit queues the calls, all or none, and empties the group. If a call was refused, Submit returns
// that error. It returns when all are queued, which can take until other ranks have called, too. An
// empty group does nothing.
//
// The calls of a group run at once. What one writes must not be memory of another one: that is not
// checked.
func (g *Group) Submit() error {
	if g == nil {
		return refusal.Invalid("submit a group: none given (nil)")
	}
	calls, refused := g.calls, g.err
	defer func() {
		clear(calls)
		g.calls, g.err = calls[:0], nil
	}()
	if refused != nil {
		return refused
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return queueAll(calls[0].what(), calls...)
	}
	return queueAll("a group of calls", calls...)
}
