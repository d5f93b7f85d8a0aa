package ferry

import (
	"slices"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
)

// registry is what the GPUs of one driver have in common: which they are, where
// the memory is that the driver knows by a host address, and who may use whose
// memory.
type registry struct {
	driver cu.Driver // without its wrappers
	users  int       // GPUs; registries.mu guards it

	mu     sync.RWMutex
	gpus   []weak.Pointer[GPU]
	pieces []*piece // by rising address, none overlapping
	peers  map[[2]cu.Context]bool
}

var registries struct {
	mu  sync.Mutex
	all []*registry
}

// registryOf is the registry of a driver, to be left when the GPU is released.
func registryOf(d cu.Driver) *registry {
	d = innermost(d)
	registries.mu.Lock()
	defer registries.mu.Unlock()
	for _, t := range registries.all {
		if sameDriver(t.driver, d) {
			t.users++
			return t
		}
	}
	t := &registry{driver: d, users: 1, peers: map[[2]cu.Context]bool{}}
	registries.all = append(registries.all, t)
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

// join adds a GPU.
func (t *registry) join(g *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gpus = append(t.gpus, weak.Make(g))
}

// quit takes a GPU out. The registry of the last one is forgotten.
func (t *registry) quit(g *GPU) {
	me := weak.Make(g)
	t.mu.Lock()
	t.gpus = slices.DeleteFunc(t.gpus, func(p weak.Pointer[GPU]) bool { return p == me })
	if !slices.ContainsFunc(t.gpus, func(p weak.Pointer[GPU]) bool { o := p.Value(); return o != nil && o.ctx == g.ctx }) {
		for pair := range t.peers { // the context may be gone
			if pair[0] == g.ctx || pair[1] == g.ctx {
				delete(t.peers, pair)
			}
		}
	}
	t.mu.Unlock()
	t.drop()
}

// drop gives registryOf back.
func (t *registry) drop() {
	registries.mu.Lock()
	defer registries.mu.Unlock()
	if t.users--; t.users == 0 {
		registries.all = slices.DeleteFunc(registries.all, func(o *registry) bool { return o == t })
	}
}

// list is the GPUs of the driver, those of several Opens of one device among them.
func (t *registry) list() []*GPU {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*GPU, 0, len(t.gpus))
	for _, p := range t.gpus {
		if g := p.Value(); g != nil {
			all = append(all, g)
		}
	}
	return all
}
