package soft

import (
	"sync"
	"time"

	"github.com/ferrygpu/ferry/softgpu"
)

// hub is what the ranks of one communicator in this process share.
type hub struct {
	id    string
	comms []*comm // by rank; nil for ranks of other processes. It does not change once all have joined.

	mu    sync.Mutex
	users int
	calls map[key]*localCall
}

// hubs finds the hubs of this process.
var hubs struct {
	sync.Mutex
	by map[string]*hub
}

// join returns the hub of a communicator, with c in it.
func join(id string, c *comm) *hub {
	hubs.Lock()
	defer hubs.Unlock()
	if hubs.by == nil {
		hubs.by = map[string]*hub{}
	}
	h := hubs.by[id]
	if h == nil {
		h = &hub{id: id, comms: make([]*comm, c.size), calls: map[key]*localCall{}}
		hubs.by[id] = h
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.comms[c.rank] = c
	h.users++
	return h
}

// leave ends the use of the hub by c. A nil hub has none.
func (h *hub) leave(c *comm) {
	if h == nil {
		return
	}
	hubs.Lock()
	defer hubs.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(hubs.by, h.id)
	}
}

// send hands a message to another rank of this process.
func (c *comm) send(m *message) error {
	c.deliver(m.copied())
	return nil
}

// localCall is a call, as the ranks of this process share it.
type localCall struct {
	hub      *hub
	key      key
	whole    bool // all its members are ranks of this process
	meetings map[*softgpu.Driver]*softgpu.Meeting

	mu      sync.Mutex
	members []localMember
	begun   int
	ended   int
	n       int           // members of this process
	all     chan struct{} // closed when all members of this process have begun
	resumes []func()      // called then
}

// localMember is a member of a call.
type localMember struct {
	here  bool // it is a rank of this process
	op    *softgpu.QueuedExchange
	begun bool
}

// call returns a call. A nil result stands for none.
func (h *hub) call(k key) *localCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.calls[k]; l != nil {
		return l
	}
	l := &localCall{hub: h, key: k, all: make(chan struct{}), meetings: map[*softgpu.Driver]*softgpu.Meeting{}}
	of := map[*softgpu.Driver]int{}
	count := len(h.comms)
	if k.pair {
		count = 2
	}
	l.members = make([]localMember, count)
	for i := range l.members {
		if c := h.comms[k.rankOf(i)]; c != nil {
			l.members[i].here = true
			l.n++
			of[c.driver]++
		}
	}
	l.whole = l.n == count
	for d, n := range of {
		l.meetings[d] = softgpu.NewMeeting(n)
	}
	h.calls[k] = l
	return l
}

// meeting returns where the ranks of one driver meet.
func (l *localCall) meeting(d *softgpu.Driver) *softgpu.Meeting { return l.meetings[d] }

// queued notes the operation of a member.
func (l *localCall) queued(member int, q *softgpu.QueuedExchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members[member].op = q
}

// startIfAwaited starts the operation of a member if another one waits for it.
func (l *localCall) startIfAwaited(member int) {
	l.mu.Lock()
	m, awaited := l.members[member], l.begun > 0
	l.mu.Unlock()
	if awaited && !m.begun {
		m.op.Start()
	}
}

// begin notes that a member has begun, starts the others that are queued, and waits until all of this
// process have begun.
func (l *localCall) begin(k *call) error {
	l.mu.Lock()
	l.members[k.member].begun = true
	if l.begun++; l.begun == l.n {
		close(l.all)
		for _, resume := range l.resumes {
			resume()
		}
		l.resumes = nil
		l.mu.Unlock()
		return nil
	}
	others, missing := l.others()
	l.mu.Unlock()
	k.running.Start(others...)
	if len(missing) == 0 && l.briefly() {
		return nil
	}
	l.suspend(k.running)
	return k.await(l.all, func() error { return k.absent(k.agreed.missing()) })
}

// others returns the operations of members that have not begun, and the members that have none. The caller
// holds mu.
func (l *localCall) others() (ops []*softgpu.QueuedExchange, missing []int) {
	for i, m := range l.members {
		switch {
		case !m.here || m.begun:
		case m.op != nil:
			ops = append(ops, m.op)
		default:
			missing = append(missing, i)
		}
	}
	return ops, missing
}

// notBegun returns the ranks of this process that have not begun.
func (l *localCall) notBegun() (ranks []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, m := range l.members {
		if m.here && !m.begun {
			ranks = append(ranks, l.key.rankOf(i))
		}
	}
	return ranks
}

// briefly waits for the members that are queued. It returns false if they have not begun soon: they may
// need the host.
func (l *localCall) briefly() bool {
	timer := time.NewTimer(hostLooks)
	defer timer.Stop()
	select {
	case <-l.all:
		return true
	case <-timer.C:
		return false
	}
}

// suspend says that an operation waits for a rank, until all have begun.
func (l *localCall) suspend(r *softgpu.Running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun < l.n {
		l.resumes = append(l.resumes, r.Wait())
	}
}

// end notes that a member has ended. The last one drops the call.
func (l *localCall) end() {
	l.mu.Lock()
	l.ended++
	over := l.ended == l.n
	l.mu.Unlock()
	if over {
		l.hub.mu.Lock()
		delete(l.hub.calls, l.key)
		l.hub.mu.Unlock()
	}
}
