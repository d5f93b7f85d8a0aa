package ferry

import (
	"slices"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/hostmap"
)

// driverState is what the GPUs of one driver share: the list of these GPUs, the host
// memory that the driver knows, and the peer access that is enabled.
type driverState struct {
	driver cu.Driver // the innermost driver, without wrappers
	users  int       // GPUs that use the state, guarded by driverStates.mu
	hosts  hostmap.Map
	wraps  hostmap.Map // the device memory of WrapDevice

	mu       sync.RWMutex
	gpus     []weak.Pointer[GPU] // weak, so that a GPU that was never closed can be reported as a leak
	contexts map[cu.Context]*contextState
	peers    peerAccess
}

// contextState is what the GPUs of one context share.
type contextState struct {
	captures await.Captures
	account  account.Account
}

// driverStates has the states of all drivers with an open GPU.
var driverStates struct {
	mu  sync.Mutex
	all []*driverState
}

// stateOf returns the state of a driver, and counts a user of it. quit or drop ends the
// use.
func stateOf(d cu.Driver) *driverState {
	d = innermost(d)
	driverStates.mu.Lock()
	defer driverStates.mu.Unlock()
	for _, t := range driverStates.all {
		if sameDriver(t.driver, d) {
			t.users++
			return t
		}
	}
	t := &driverState{driver: d, users: 1, contexts: map[cu.Context]*contextState{}, peers: peerAccess{allowed: map[[2]cu.Context][2]cu.Device{}, opened: map[openPool]struct{}{}}}
	driverStates.all = append(driverStates.all, t)
	return t
}

// innermost returns the driver inside all wrappers, which have a method Unwrap.
func innermost(d cu.Driver) cu.Driver {
	for {
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok {
			return d
		}
		inner := w.Unwrap()
		if inner == nil {
			return d
		}
		d = inner
	}
}

// join adds a GPU to the list, and gives it what the GPUs of its context share.
func (t *driverState) join(g *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gpus = append(t.gpus, weak.Make(g))
	c := t.contexts[g.ctx]
	if c == nil {
		c = new(contextState)
		t.contexts[g.ctx] = c
	}
	g.captures, g.account = &c.captures, &c.account
}

// quit removes a GPU from the list and ends its use of the state. The peer access of a
// context ends with the last GPU of the context.
func (t *driverState) quit(g *GPU) error {
	me := weak.Make(g)
	var ended [][2]cu.Device
	t.mu.Lock()
	t.gpus = slices.DeleteFunc(t.gpus, func(p weak.Pointer[GPU]) bool { return p == me })
	if !slices.ContainsFunc(t.gpus, func(p weak.Pointer[GPU]) bool { o := p.Value(); return o != nil && o.ctx == g.ctx }) {
		ended = t.disallow(g.ctx)
		g.account.Clear() // the context ends, and with it memory that the driver did not free
		delete(t.contexts, g.ctx)
	}
	opened := len(t.peers.opened) > 0
	t.mu.Unlock()
	defer t.drop()
	if !opened {
		return nil
	}
	return closePools(t, g.driver, ended)
}

// drop ends a use of the state. The last user removes it from driverStates.
func (t *driverState) drop() {
	driverStates.mu.Lock()
	defer driverStates.mu.Unlock()
	if t.users--; t.users == 0 {
		driverStates.all = slices.DeleteFunc(driverStates.all, func(o *driverState) bool { return o == t })
	}
}

// sharing returns the other GPUs that have the context of g.
func (t *driverState) sharing(g *GPU) (all []*GPU) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, p := range t.gpus {
		if o := p.Value(); o != nil && o != g && o.ctx == g.ctx {
			all = append(all, o)
		}
	}
	return all
}

// busyExclusive returns the streams that have unfinished work, on devices without
// concurrent managed access. The host must not touch managed memory while they run.
func (t *driverState) busyExclusive() []*streamState {
	t.mu.RLock()
	var gpus []*GPU
	for _, p := range t.gpus {
		if g := p.Value(); g != nil && !g.caps.ConcurrentManaged {
			gpus = append(gpus, g)
		}
	}
	t.mu.RUnlock()
	var busy []*streamState
	for _, g := range gpus {
		for _, st := range g.openStreams() {
			if !st.Idle() {
				busy = append(busy, st)
			}
		}
	}
	return busy
}
