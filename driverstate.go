package ferry

import (
	"slices"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
)

// driverState is what the GPUs of one driver have in common: which they are, the host
// memory that the driver knows, and which may use whose memory.
type driverState struct {
	driver cu.Driver // without its wrappers
	users  int       // GPUs; driverStates.mu guards it
	hosts  hostmap.Map

	mu      sync.RWMutex
	gpus    []weak.Pointer[GPU]
	allowed map[[2]cu.Context]bool // the first may use memory of the second
}

var driverStates struct {
	mu  sync.Mutex
	all []*driverState
}

// stateOf is the state of a driver. quit or drop ends the use.
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
	t := &driverState{driver: d, users: 1, allowed: map[[2]cu.Context]bool{}}
	driverStates.all = append(driverStates.all, t)
	return t
}

// innermost is the driver that wrappers wrap.
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

// sameDriver compares drivers. Values of some types cannot be compared: they differ.
func sameDriver(a, b cu.Driver) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// join adds a GPU.
func (t *driverState) join(g *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gpus = append(t.gpus, weak.Make(g))
}

// quit removes a GPU. The state of the last one is forgotten.
func (t *driverState) quit(g *GPU) {
	me := weak.Make(g)
	t.mu.Lock()
	t.gpus = slices.DeleteFunc(t.gpus, func(p weak.Pointer[GPU]) bool { return p == me })
	if !slices.ContainsFunc(t.gpus, func(p weak.Pointer[GPU]) bool { o := p.Value(); return o != nil && o.ctx == g.ctx }) {
		for pair := range t.allowed { // the context may be gone
			if pair[0] == g.ctx || pair[1] == g.ctx {
				delete(t.allowed, pair)
			}
		}
	}
	t.mu.Unlock()
	t.drop()
}

// drop ends a use of the state.
func (t *driverState) drop() {
	driverStates.mu.Lock()
	defer driverStates.mu.Unlock()
	if t.users--; t.users == 0 {
		driverStates.all = slices.DeleteFunc(driverStates.all, func(o *driverState) bool { return o == t })
	}
}

// allow notes that kernels of g may use memory of other.
func (t *driverState) allow(g, other *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowed[[2]cu.Context{g.ctx, other.ctx}] = true
}

// mayUse reports whether kernels of g may use memory of other.
func (t *driverState) mayUse(g, other *GPU) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.allowed[[2]cu.Context{g.ctx, other.ctx}]
}

// busyExclusive is the streams with unfinished work on devices of the driver where
// host and device must take turns at managed memory.
func (t *driverState) busyExclusive() []*streamState {
	t.mu.RLock()
	var gpus []*GPU
	for _, p := range t.gpus {
		if g := p.Value(); g != nil && !g.caps.concurrentManaged {
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
