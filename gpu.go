package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// GPU is a device with its primary context: real, or played in software.
// It is safe for concurrent use.
type GPU struct {
	driver  cu.Driver
	ctx     cu.Context
	engines [2]engineMark // by way; what a copy looks at is up to here

	emulated cu.Emulated // nil on hardware
	device   cu.Device
	created  bool // ctx was created, the driver being too old for primary contexts

	name     string // product
	label    string // what was opened
	fallback error
	caps     caps
	born     time.Time

	shared   *registry   // with the other GPUs of the driver
	engine   *pin.Engine // makes page-locked memory, nil where the driver must
	gatherer gatherer
	life     lifetime // entered by all that lives in the context
	legacy   *Stream
	waits    waiter
	parked   atomic.Pointer[error] // found by nobody's wait
	streams  atomic.Int64          // numbers given
	buffers  atomic.Int64          // numbers given
	graphs   atomic.Int64          // numbers given
	pending  atomic.Int64          // len(later)
	captures atomic.Int64          // in progress
	leak     runtime.Cleanup
	released atomic.Bool // the context is gone
	staging  staging

	mu    sync.Mutex
	live  map[*queue]struct{} // streams that are not destroyed
	later []func() error      // what a host function could not do

	_ [4]uint64 // whole lines of the cache: the allocator begins at one then
}

// newGPU retains the primary context of a device.
func newGPU(d cu.Driver, ordinal int, label string) (*GPU, error) {
	dev, err := d.DeviceGet(int32(ordinal))
	if err != nil {
		return nil, err
	}
	g := &GPU{driver: d, emulated: cu.AsEmulated(d), device: dev, label: label, born: time.Now(), live: map[*queue]struct{}{}}
	if g.name, err = d.DeviceGetName(dev); err != nil {
		return nil, err
	}
	if err := g.probe(); err != nil {
		return nil, err
	}
	g.shared = registryOf(d)
	if err := g.retain(); err != nil {
		g.shared.drop()
		return nil, err
	}
	g.shared.join(g)
	g.gatherer.load(g)
	g.engine = newEngine(g)
	g.legacy = streamOn(newQueue(g, 0, 0))
	g.live[g.legacy.q] = struct{}{}
	g.leak = watchLeak(g, g.String)
	return g, nil
}

// retain takes the primary context, with mapping enabled where a context must
// ask for it. Under unified addressing it is always on, and hardware refuses the
// flag. Drivers from before CUDA 7 have no primary context: one is created.
func (g *GPU) retain() error {
	d := g.driver
	var err error
	if !g.caps.unified {
		var flags cu.CtxFlags
		flags, _, err = d.DevicePrimaryCtxGetState(g.device)
		if err == nil && flags&cu.CtxMapHost == 0 {
			err = d.DevicePrimaryCtxSetFlags(g.device, flags|cu.CtxMapHost)
		}
	}
	if err == nil || errors.Is(err, cu.ErrorPrimaryContextActive) {
		g.ctx, err = d.DevicePrimaryCtxRetain(g.device)
	}
	if errors.Is(err, cu.ErrorNotSupported) {
		g.created = true
		g.ctx, err = d.CtxCreate(cu.CtxMapHost, g.device)
	}
	if err != nil {
		return fmt.Errorf("retain its primary context: %w", err)
	}
	return nil
}

// Wait waits until all work of the device's primary context is done, whoever
// queued it (cuCtxSynchronize). When ctx ends first, the error wraps ctx.Err()
// and the work goes on. Errors are as for [Stream.Wait].
func (g *GPU) Wait(ctx context.Context) error {
	if err := g.enter("wait"); err != nil {
		return err
	}
	defer g.leave()
	if g.captures.Load() != 0 {
		return fmt.Errorf("wait for all work of %s: %w", g.label, errCapturing)
	}
	if err := g.waits.wait(ctx, g, g.synchronize, func(err error) { g.parked.CompareAndSwap(nil, &err) }); err != nil {
		return fmt.Errorf("wait for all work of %s: %w", g.label, err)
	}
	g.tidy()
	return g.unpark()
}

// synchronize waits for the context and notes what has passed.
func (g *GPU) synchronize() error {
	type point struct {
		q *queue
		n uint64
	}
	if err := g.enter("wait"); err != nil { // the caller may have given up
		return err
	}
	defer g.leave()
	var points []point
	for _, q := range g.queues() {
		points = append(points, point{q, q.issued()})
	}
	if err := g.driver.CtxSynchronize(g.ctx); err != nil {
		return err
	}
	for _, p := range points {
		p.q.pass(p.n)
	}
	return nil
}

// unpark is the errors that nobody has been told yet: of the device and of its
// streams.
func (g *GPU) unpark() error {
	var all []error
	if err := g.parked.Swap(nil); err != nil {
		all = append(all, fmt.Errorf("wait for all work of %s: %w", g.label, *err))
	}
	for _, q := range g.queues() {
		if err := q.unpark(); err != nil {
			all = append(all, q.explain(err))
		}
	}
	return errors.Join(all...)
}

// queues is the streams that are not destroyed.
func (g *GPU) queues() []*queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*queue, 0, len(g.live))
	for q := range g.live {
		all = append(all, q)
	}
	return all
}

// forget takes a destroyed stream out of the list.
func (g *GPU) forget(q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, q)
}

// enter begins something that needs the context; leave ends it.
func (g *GPU) enter(what string) error {
	if g == nil {
		return refuse("%s: no GPU given (nil)", what)
	}
	if !g.life.enter() {
		return fmt.Errorf("%s: %s: %w", what, g.label, ErrClosed)
	}
	return nil
}

func (g *GPU) leave() {
	if g.life.leave() {
		_ = g.soon(g.release)
	}
}

// soon does something now, or, if this is a host function, where the driver must
// not be called, after it.
func (g *GPU) soon(f func() error) error {
	err := f()
	if !inCallback(err) {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.later = append(g.later, f)
	g.pending.Store(int64(len(g.later)))
	return nil
}

// tidy does what host functions left to do.
func (g *GPU) tidy() {
	if g.pending.Load() == 0 {
		return
	}
	g.mu.Lock()
	later := g.later
	g.later = nil
	g.pending.Store(0)
	g.mu.Unlock()
	for _, f := range later {
		_ = g.soon(f) // its errors are those of a Close that has returned
	}
}

// Close gives the GPU up: nothing new can be made on it. Buffers, streams, events
// and modules that are open stay good; when the last of them is closed, the work
// still running is waited for and the primary context is released
// (cuDevicePrimaryCtxRelease). Close of a closed or nil GPU is nil.
func (g *GPU) Close() error {
	if g == nil {
		return nil
	}
	g.leak.Stop()
	g.tidy()
	if _, last := g.life.close(); last {
		return g.soon(g.release)
	}
	return nil
}

// release gives the context back. Nothing of this package lives in it any more.
func (g *GPU) release() error {
	err := g.driver.CtxSynchronize(g.ctx)
	if inCallback(err) {
		return err
	}
	err = errors.Join(err, g.staging.close())
	g.released.Store(true)
	g.legacy.now.Store(nil)
	g.shared.quit(g)
	err = errors.Join(err, g.gatherer.unload(g))
	if g.created {
		err = errors.Join(err, g.driver.CtxDestroy(g.ctx))
	} else {
		err = errors.Join(err, g.driver.DevicePrimaryCtxRelease(g.device))
	}
	if err = errors.Join(err, g.unpark()); err != nil {
		return fmt.Errorf("close %s: %w", g.label, err)
	}
	return nil
}
