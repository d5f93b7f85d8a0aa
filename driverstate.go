package ferry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// driverState is what the GPUs of one driver share: the list of these GPUs, the host
// memory that the driver knows, and the peer access that is enabled.
type driverState struct {
	driver cu.Driver // the innermost driver, without wrappers
	users  int       // GPUs that use the state, guarded by driverStates.mu
	hosts  hostmap.Map

	mu    sync.RWMutex
	gpus  []weak.Pointer[GPU] // weak, so that a GPU that was never closed can be reported as a leak
	peers peerAccess
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
	t := &driverState{driver: d, users: 1, peers: peerAccess{allowed: map[[2]cu.Context][2]cu.Device{}, opened: map[openPool]struct{}{}}}
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

// sameDriver reports whether two driver values are equal. Values of types that Go cannot
// compare count as different.
func sameDriver(a, b cu.Driver) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// join adds a GPU to the list.
func (t *driverState) join(g *GPU) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gpus = append(t.gpus, weak.Make(g))
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

// settle waits for the queued work of all streams of the context. It comes right before a driver
// call that frees memory. That call waits for the same work, but blocks all other calls of the
// context meanwhile: those that ask for other work, and those that queue what ends the wait.
// settle asks by queries, which block nobody. Errors of the work are kept for others. In a host
// function settle returns an error.
//
// The software GPU does not block other calls, so settle does nothing there.
func (g *GPU) settle() error {
	if g.poller == nil {
		return nil
	}
	err := g.settleStreams()
	for _, o := range g.shared.sharing(g) {
		if err == nil && o.lifetime.EnterUsed() { // a closed GPU can still have busy streams
			err = o.settleStreams()
			o.leave()
		}
	}
	return err
}

// settleStreams is settle for the streams of g, closed ones among them. It marks the end of each
// stream before it waits for any of them, so that work which is queued meanwhile delays nothing.
func (g *GPU) settleStreams() error {
	closed := g.unfinished.list()
	if len(closed) == 0 && g.idle() {
		return nil
	}
	var waits []*streamWait
	for _, st := range append(closed, g.openStreams()...) {
		if st.Idle() || st == g.legacy.state && g.legacyCaptures() {
			continue
		}
		w := &streamWait{st: st, n: st.Issued()}
		w.mark() // without a mark the wait takes longer
		waits = append(waits, w)
	}
	var refused error
	for _, w := range waits {
		if refused == nil {
			refused = w.settle()
		}
		w.end()
	}
	return refused
}

// settle waits, and keeps an error of the work for Stream.Wait. In a host function it returns an
// error.
func (w *streamWait) settle() error {
	_, err := w.st.g.poll(context.Background(), w, false)
	if inHostFunction(err) {
		return err
	}
	w.st.pending.add(err)
	return nil
}

// legacyCaptures reports whether a question about the default stream would invalidate the
// capture of a blocking stream, which only other libraries make.
func (g *GPU) legacyCaptures() bool {
	_, err := g.driver.StreamIsCapturing(g.ctx, 0)
	return errors.Is(err, cu.ErrorStreamCaptureImplicit)
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

// runAt returns the longest part of a span that begins at byte off and is memory of one
// kind. If that part of a pageable span is in an open buffer, the result is a range of the
// buffer.
func runAt(g *GPU, r *span, off uintptr) (span, error) {
	rest := r.cut(off, r.bytes-off)
	if !r.isPageable() {
		return rest, nil
	}
	start := uint64(deviceAddress(rest.host))
	run := g.shared.hosts.First(start, start+uint64(rest.bytes))
	rest = rest.cut(0, uintptr(run.End-start))
	rest.untracked = false // r may be a part that was found before
	switch {
	case run.Owner != nil:
		return spanIn(run.Owner.Of.(*allocation), rest), nil
	case run.Lost:
		return span{}, refusal.Invalid("%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", r)
	case run.Known: // a buffer that is being closed, or the rest of a registration that no buffer uses
		rest.untracked = true
	}
	return rest, nil
}

// spanIn returns a pageable span as a range of the allocation in which it lies.
func spanIn(a *allocation, r span) span {
	r.a, r.generation, r.part = a, a.Generation(), true
	if a.dev != 0 {
		r.dev = a.dev + (deviceAddress(r.host) - deviceAddress(a.host))
	}
	return r
}
