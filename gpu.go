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
)

// GPU is a device with its primary context: real, or played in software.
// It is safe for concurrent use.
type GPU struct {
	driver   cu.Driver
	emulated cu.Emulated // nil on hardware
	device   cu.Device
	ctx      cu.Context
	created  bool // ctx was created, the driver being too old for primary contexts

	name     string // product
	label    string // what was opened
	fallback error
	caps     caps
	born     time.Time

	life    lifetime // entered by all that lives in the context
	legacy  *Stream
	waits   waiter
	parked  atomic.Pointer[error] // found by nobody's wait
	streams atomic.Int64          // numbers given
	buffers atomic.Int64          // numbers given
	pending atomic.Int64          // len(later)
	leak    runtime.Cleanup

	mu    sync.Mutex
	live  map[*queue]struct{} // streams that are not destroyed
	later []func() error      // what a host function could not do
}

// caps is what the device can do, as its attributes say.
type caps struct {
	unified, mapping, register, registerReadOnly, registeredAddress bool
	managed, concurrentManaged                                      bool

	threads           int
	block, grid       [3]int
	shared, sharedMax int // bytes a block: by default, and when asked for
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
	if err := g.retain(); err != nil {
		return nil, err
	}
	g.legacy = &Stream{q: newQueue(g, 0, 0)}
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

// probe reads the attributes that decide what is allowed.
func (g *GPU) probe() error {
	var failed error
	read := func(a cu.DeviceAttribute, unknown int) int {
		v, err := g.driver.DeviceGetAttribute(a, g.device)
		switch {
		case err == nil:
			return int(v)
		case errors.Is(err, cu.ErrorInvalidValue): // the driver is older than the attribute
			return unknown
		}
		failed = errors.Join(failed, fmt.Errorf("%v: %w", a, err))
		return unknown
	}
	has := func(a cu.DeviceAttribute, unknown int) bool { return read(a, unknown) != 0 }
	c := &g.caps
	c.unified = has(cu.DeviceAttributeUnifiedAddressing, 0)
	c.mapping = has(cu.DeviceAttributeCanMapHostMemory, 0)
	c.register = has(cu.DeviceAttributeHostRegisterSupported, 1)
	c.registerReadOnly = has(cu.DeviceAttributeReadOnlyHostRegisterSupported, 0)
	c.registeredAddress = has(cu.DeviceAttributeCanUseHostPointerForRegisteredMem, 0)
	c.managed = has(cu.DeviceAttributeManagedMemory, 0)
	c.concurrentManaged = has(cu.DeviceAttributeConcurrentManagedAccess, 0)
	c.threads = read(cu.DeviceAttributeMaxThreadsPerBlock, 0)
	c.block = [3]int{read(cu.DeviceAttributeMaxBlockDimX, 0), read(cu.DeviceAttributeMaxBlockDimY, 0), read(cu.DeviceAttributeMaxBlockDimZ, 0)}
	c.grid = [3]int{read(cu.DeviceAttributeMaxGridDimX, 0), read(cu.DeviceAttributeMaxGridDimY, 0), read(cu.DeviceAttributeMaxGridDimZ, 0)}
	c.shared = read(cu.DeviceAttributeMaxSharedMemoryPerBlock, 0)
	c.sharedMax = max(c.shared, read(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin, 0))
	return failed
}

// Name is the device's product name, "NVIDIA H200". Software that plays it has
// the same name: see [GPU.Emulated].
func (g *GPU) Name() string { return g.name }

// String is what was opened, "cuda:0 (NVIDIA H200)" or "soft:h200 (software,
// predicts NVIDIA H200)".
func (g *GPU) String() string {
	if g.emulated != nil {
		return g.label + " (software, predicts " + g.name + ")"
	}
	return g.label + " (" + g.name + ")"
}

// Emulated says whether the GPU is software.
func (g *GPU) Emulated() bool { return g.emulated != nil }

// Profile names the machine that a software GPU plays, "h200". It is empty on
// hardware.
func (g *GPU) Profile() string {
	if g.emulated == nil {
		return ""
	}
	return g.emulated.Profile()
}

// Fallback is why Open("") took the software GPU: what was tried and found. It
// is nil for a GPU that was asked for by name, and on hardware.
func (g *GPU) Fallback() error { return g.fallback }

// Driver is the driver behind the GPU, for calls that this package lacks.
// Work queued past this package is unknown to the buffers it uses.
func (g *GPU) Driver() cu.Driver { return g.driver }

// Context is the device's primary context, to be used with [GPU.Driver]. It is
// valid until Close.
func (g *GPU) Context() cu.Context { return g.ctx }

// Ordinal is the device's number with its driver, from 0.
func (g *GPU) Ordinal() int { return int(g.device) }

// Attribute is one number about the device (cuDeviceGetAttribute). An attribute
// that the driver is too old for is cu.ErrorInvalidValue.
func (g *GPU) Attribute(a cu.DeviceAttribute) (int, error) {
	v, err := g.driver.DeviceGetAttribute(a, g.device)
	if err != nil {
		return 0, fmt.Errorf("read %v of %s: %w", a, g.label, err)
	}
	return int(v), nil
}

// MemInfo is the device's free and total memory in bytes (cuMemGetInfo).
func (g *GPU) MemInfo() (free, total int, err error) {
	if err := g.enter("read memory sizes"); err != nil {
		return 0, 0, err
	}
	defer g.leave()
	f, t, err := g.driver.MemGetInfo(g.ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read memory sizes of %s: %w", g.label, err)
	}
	return int(f), int(t), nil
}

// Now is a clock that only goes forward: on hardware the time since Open, on the
// software GPU its virtual time, which advances with what calls and waits would
// cost on the machine it plays. Measure with the difference of two.
func (g *GPU) Now() time.Duration {
	if g.emulated != nil {
		return g.emulated.Now()
	}
	return time.Since(g.born)
}

// Wait waits until all work of the device's primary context is done, whoever
// queued it (cuCtxSynchronize). When ctx ends first, the error wraps ctx.Err()
// and the work goes on. Errors are as for [Stream.Wait].
func (g *GPU) Wait(ctx context.Context) error {
	if err := g.enter("wait"); err != nil {
		return err
	}
	defer g.leave()
	if err := g.waits.wait(ctx, g.synchronize, func(err error) { g.parked.CompareAndSwap(nil, &err) }); err != nil {
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

// quiet waits until no stream of the device has work, for host access to managed
// memory where host and device must take turns.
func (g *GPU) quiet(ctx context.Context) error {
	for _, q := range g.queues() {
		if q.idle() {
			continue
		}
		if err := q.settle(ctx); err != nil {
			return err
		}
	}
	return nil
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
