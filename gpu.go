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
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// GPU is a device with its primary context: NVIDIA hardware, or the software GPU. It
// is safe for concurrent use.
//
// What is made on a GPU is made by functions that take it first: [NewStream],
// [Alloc], [Load] and so on.
type GPU struct {
	// What every copy reads comes first, in one line of the cache.
	driver    cu.Driver
	ctx       cu.Context
	largest   [2]largeCopy // by direction: see behindLarge
	largeCopy uintptr      // bytes: tuning.copy.LargeBytes

	emulated cu.Emulated // nil on hardware
	device   cu.Device
	created  bool // ctx was created, because the driver is too old for primary contexts

	name     string // product
	label    string // what was opened
	fallback error
	caps     capabilities
	tuning   tuning
	opened   time.Time

	lifetime inflight.Lifetime // its users are all that lives in the context
	released atomic.Bool       // the context is gone
	leak     runtime.Cleanup
	shared   *driverState // with the other GPUs of the driver
	legacy   *Stream
	waits    await.Group
	pending  pendingError
	deferred deferredTasks

	pinEngine  *pin.Engine // page-locks memory, nil where the driver must
	copyKernel copyKernel
	ring       lazyRing // for pageable memory

	streamCount atomic.Int64 // numbers given
	bufferCount atomic.Int64
	graphCount  atomic.Int64
	capturing   atomic.Int64 // captures in progress

	mu      sync.Mutex
	streams map[*streamState]struct{} // those whose driver's stream exists
}

// lazyRing is a GPU's staging ring, made when pageable memory is first copied.
type lazyRing struct {
	once sync.Once
	ring *staging.Ring
}

// newGPU retains the primary context of a device.
func newGPU(d cu.Driver, ordinal int, label string) (*GPU, error) {
	device, err := d.DeviceGet(int32(ordinal))
	if err != nil {
		return nil, err
	}
	g := &GPU{driver: d, emulated: cu.AsEmulated(d), device: device, label: label, opened: time.Now(), streams: map[*streamState]struct{}{}}
	if g.name, err = d.DeviceGetName(device); err != nil {
		return nil, err
	}
	if g.caps, err = probe(d, device); err != nil {
		return nil, err
	}
	g.tuning = tuningFor(g.emulated, g.name)
	g.largeCopy = g.tuning.copy.LargeBytes
	g.shared = stateOf(d)
	if err := g.retain(); err != nil {
		g.shared.drop()
		return nil, err
	}
	g.shared.join(g)
	g.copyKernel.load(d, g.ctx)
	if g.caps.register && g.caps.hostPointers() { // else registered memory is not as good as the driver's
		g.pinEngine = pin.NewEngine(d, g.ctx, g.Now, g.emulated != nil, g.tuning.pin)
	}
	g.legacy = &Stream{state: newStreamState(g, 0, 0, nil)}
	g.streams[g.legacy.state] = struct{}{}
	g.leak = watchLeak(g, g.String)
	return g, nil
}

// retain takes the primary context, with mapping enabled where a context must ask for
// it: under unified addressing it is always on, and hardware refuses the flag. Drivers
// before CUDA 7 have no primary context, so one is created.
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

// Name is the device's product name, "NVIDIA H200". Software that emulates it has the
// same name: see [GPU.Emulated].
func (g *GPU) Name() string { return g.name }

// String is what was opened, "cuda:0 (NVIDIA H200)" or "soft:h200 (software, predicts
// NVIDIA H200)".
func (g *GPU) String() string {
	if g.emulated != nil {
		return g.label + " (software, predicts " + g.name + ")"
	}
	return g.label + " (" + g.name + ")"
}

// Emulated reports whether the GPU is software.
func (g *GPU) Emulated() bool { return g.emulated != nil }

// Profile names the machine that a software GPU emulates, "h200". It is empty on
// hardware.
func (g *GPU) Profile() string {
	if g.emulated == nil {
		return ""
	}
	return g.emulated.Profile()
}

// Fallback is why Open("") took the software GPU: what was tried and found. It is nil
// for a GPU that was asked for by name, and on hardware.
func (g *GPU) Fallback() error { return g.fallback }

// Driver is the driver behind the GPU, for calls that this package lacks. Work queued
// past this package is unknown to the buffers that it uses.
func (g *GPU) Driver() cu.Driver { return g.driver }

// Context is the device's primary context, to be used with [GPU.Driver]. It is valid
// until Close.
func (g *GPU) Context() cu.Context { return g.ctx }

// Device is the device in the driver's words, which is its ordinal: where
// [Managed.Prefetch] and [Managed.Advise] move memory to.
func (g *GPU) Device() cu.Device { return g.device }

// Attribute is one number about the device (cuDeviceGetAttribute). An attribute that
// the driver is too old for is cu.ErrorInvalidValue.
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

// Priorities is the range of [StreamOptions].Priority (cuCtxGetStreamPriorityRange):
// the number of the least priority and of the greatest, which is the lower number.
// Both are 0 where the device has no priorities.
func (g *GPU) Priorities() (least, greatest int, err error) {
	if err := g.enter("read stream priorities"); err != nil {
		return 0, 0, err
	}
	defer g.leave()
	l, h, err := g.driver.CtxGetStreamPriorityRange(g.ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read stream priorities of %s: %w", g.label, err)
	}
	return int(l), int(h), nil
}

// Now is a clock that only goes forward: on hardware the time since Open; on the
// software GPU its virtual time, which advances with what calls and waits would cost
// on the machine that it emulates. Measure with the difference of two.
func (g *GPU) Now() time.Duration {
	if g.emulated != nil {
		return g.emulated.Now()
	}
	return time.Since(g.opened)
}

// Grid is a launch configuration for a kernel that is right for any number of blocks,
// each of whose threads steps over the elements of the others, as the kernels of
// package kernels do. It has as many blocks as n threads need, or as many as keep the
// GPU busy, whichever is less. A kernel that reads or writes host memory then has the
// rate of the link. For kernels that move 16 bytes a thread, n is the bytes divided by
// 16.
func (g *GPU) Grid(n int) LaunchConfig {
	c := Grid(n, g.tuning.launch.Threads)
	c.Grid.X = min(c.Grid.X, uint32(max(1, g.caps.processors*g.tuning.launch.Blocks)))
	return c
}

// CanAccessPeer reports whether kernels of g can be allowed to use the memory of
// another GPU (cuDeviceCanAccessPeer). A GPU can use its own. GPUs of different
// drivers cannot use each other's.
func (g *GPU) CanAccessPeer(other *GPU) (bool, error) {
	const what = "ask for peer access"
	if err := g.enter(what); err != nil {
		return false, err
	}
	defer g.leave()
	if err := other.enter(what); err != nil {
		return false, err
	}
	defer other.leave()
	switch {
	case !sameDriver(g.driver, other.driver):
		return false, nil
	case g.device == other.device:
		return true, nil
	}
	can, err := g.driver.DeviceCanAccessPeer(g.device, other.device)
	if err != nil {
		return false, fmt.Errorf("%s of %s to %s: %w", what, g.label, other.label, err)
	}
	return can != 0, nil
}

// EnablePeer allows kernels of g to use the device memory of another GPU
// (cuCtxEnablePeerAccess), and [Copy] between the two to go directly. It holds for all
// that is open on the two devices, until their last GPU is closed. The other direction
// needs a call of its own. To enable twice, or a GPU with itself, is a success. Where
// [GPU.CanAccessPeer] is false, the error wraps cu.ErrorPeerAccessUnsupported.
func (g *GPU) EnablePeer(other *GPU) error {
	const what = "enable peer access"
	if err := g.enter(what); err != nil {
		return err
	}
	defer g.leave()
	if err := other.enter(what); err != nil {
		return err
	}
	defer other.leave()
	switch can, err := g.CanAccessPeer(other); {
	case err != nil:
		return err
	case !can && !sameDriver(g.driver, other.driver):
		return refusal.New(cu.ErrorPeerAccessUnsupported, "%s of %s to %s: they belong to different drivers", what, g.label, other.label)
	case !can:
		return refusal.New(cu.ErrorPeerAccessUnsupported, "%s of %s to %s: the machine cannot (cuDeviceCanAccessPeer is 0): copy between them", what, g.label, other.label)
	case g.device == other.device:
		return nil
	}
	if err := g.driver.CtxEnablePeerAccess(g.ctx, other.ctx, 0); err != nil && !errors.Is(err, cu.ErrorPeerAccessAlreadyEnabled) {
		return fmt.Errorf("%s of %s to %s: %w", what, g.label, other.label, err)
	}
	g.shared.allow(g, other)
	return nil
}

// Wait waits until all work of the device's primary context is done, whoever queued
// it (cuCtxSynchronize). When ctx ends first, the error wraps ctx.Err() and the work
// goes on. A nil ctx never ends. Errors are as for [Stream.Wait].
func (g *GPU) Wait(ctx context.Context) error {
	if err := g.enter("wait"); err != nil {
		return err
	}
	defer g.leave()
	if g.capturing.Load() != 0 {
		return fmt.Errorf("wait for all work of %s: %w", g.label, errCapturing)
	}
	if err := g.await(await.Context(ctx), &g.waits, g.synchronize, g.pending.add); err != nil {
		return fmt.Errorf("wait for all work of %s: %w", g.label, err)
	}
	g.deferred.run()
	return g.takePending()
}

// synchronize waits for the context and notes what is done.
func (g *GPU) synchronize() error {
	type issued struct {
		st *streamState
		n  uint64
	}
	if err := g.enter("wait"); err != nil { // the caller may have given up
		return err
	}
	defer g.leave()
	var all []issued
	for _, st := range g.openStreams() {
		all = append(all, issued{st, st.Issued()})
	}
	if err := g.driver.CtxSynchronize(g.ctx); err != nil {
		return err
	}
	for _, x := range all {
		x.st.Complete(x.n)
	}
	return nil
}

// await waits for a driver call on behalf of a caller with a context.
func (g *GPU) await(ctx context.Context, waits *await.Group, sync func() error, lost func(error)) error {
	if ctx.Done() != nil && ctx.Err() == nil {
		if err := g.mayWait(); err != nil {
			return err
		}
	}
	return waits.Wait(ctx, sync, lost)
}

// mayWait is an error within a host function, where a wait could be for this very
// function. The call asks nothing of the device and takes no time of its clock.
func (g *GPU) mayWait() error {
	if _, err := g.driver.DriverGetVersion(); inHostFunction(err) {
		return err
	}
	return nil
}

// takePending is the errors that nobody has been told of yet: those of the device and
// of its streams.
func (g *GPU) takePending() error {
	var all []error
	if err := g.pending.take(); err != nil {
		all = append(all, fmt.Errorf("wait for all work of %s: %w", g.label, err))
	}
	for _, st := range g.openStreams() {
		if err := st.pending.take(); err != nil {
			all = append(all, st.explain(err))
		}
	}
	return errors.Join(all...)
}

// openStreams is the streams that are not destroyed.
func (g *GPU) openStreams() []*streamState {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*streamState, 0, len(g.streams))
	for st := range g.streams {
		all = append(all, st)
	}
	return all
}

// addStream adds a stream to the list, or (gone) removes it.
func (g *GPU) addStream(st *streamState, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gone {
		delete(g.streams, st)
	} else {
		g.streams[st] = struct{}{}
	}
}

// enter counts a user of the context. leave ends the use.
func (g *GPU) enter(what string) error {
	if g == nil || g.driver == nil {
		return refusal.Invalid("%s: no GPU given (nil)", what)
	}
	if !g.lifetime.Enter() {
		return fmt.Errorf("%s: %s: %w", what, g.label, ErrClosed)
	}
	return nil
}

func (g *GPU) leave() {
	if g.lifetime.Leave() {
		_ = g.deferred.do(g.release)
	}
}

// lacking is the refusal of what the device cannot do, as its attribute tells.
func (g *GPU) lacking(what string, attribute cu.DeviceAttribute, remedy string) error {
	return refusal.New(cu.ErrorNotSupported, "%s on %s: the device cannot (%s is 0): %s", what, g.label, attribute, remedy)
}

// sameContext reports whether two GPUs have one context.
func (g *GPU) sameContext(o *GPU) bool {
	return g == o || sameDriver(g.driver, o.driver) && g.ctx == o.ctx
}

// Close gives the GPU up: nothing new can be made on it. Buffers, streams, events and
// modules that are open stay good. When the last of them is closed, the work that
// still runs is waited for and the primary context is released
// (cuDevicePrimaryCtxRelease). Close of a closed or nil GPU is nil.
func (g *GPU) Close() error {
	if g == nil || g.driver == nil {
		return nil
	}
	g.leak.Stop()
	g.deferred.run()
	if _, unused := g.lifetime.Close(); unused {
		return g.deferred.do(g.release)
	}
	return nil
}

// release gives the context back. Nothing of this package lives in it any more.
func (g *GPU) release() error {
	err := g.driver.CtxSynchronize(g.ctx)
	if inHostFunction(err) {
		return err
	}
	g.released.Store(true)
	g.legacy.state.Close()
	g.legacy.state.Drain()
	err = errors.Join(err, g.ring.close())
	g.shared.quit(g)
	err = errors.Join(err, g.copyKernel.unload(g.driver, g.ctx))
	if g.created {
		err = errors.Join(err, g.driver.CtxDestroy(g.ctx))
	} else {
		err = errors.Join(err, g.driver.DevicePrimaryCtxRelease(g.device))
	}
	if err = errors.Join(err, g.takePending()); err != nil {
		return fmt.Errorf("close %s: %w", g.label, err)
	}
	return nil
}

// close gives the ring's memory back. From then on there is none.
func (l *lazyRing) close() error {
	l.once.Do(func() {})
	if l.ring == nil {
		return nil
	}
	if err := l.ring.Close(); !sticky(err) { // a lost context has lost all
		return err
	}
	return nil
}

// deferredTasks is what host functions could not do, because the driver must not be
// called there.
type deferredTasks struct {
	count atomic.Int64 // len(tasks), to look without a lock
	mu    sync.Mutex
	tasks []func() error
}

// do runs a task now or, if this is a host function, keeps it until run.
func (d *deferredTasks) do(task func() error) error {
	err := task()
	if !inHostFunction(err) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks = append(d.tasks, task)
	d.count.Store(int64(len(d.tasks)))
	return nil
}

// run runs the tasks kept. Their errors are those of a Close that has returned.
func (d *deferredTasks) run() {
	if d.count.Load() == 0 {
		return
	}
	d.mu.Lock()
	tasks := d.tasks
	d.tasks = nil
	d.count.Store(0)
	d.mu.Unlock()
	for _, task := range tasks {
		_ = d.do(task)
	}
}

// capabilities is what the device can do, as its attributes tell.
type capabilities struct {
	unified, mapping, register, registerReadOnly, registeredAddress bool
	managed, concurrentManaged, pools                               bool
	batchCopies                                                     bool // the driver has cuMemcpyBatchAsync

	processors        int
	threads           int
	block, grid       [3]int
	shared, sharedMax int // bytes a block: by default, and when asked for
	pitch             int // bytes from row to row of a copy; 0 if not known
}

// hostPointers reports that kernels use registered memory at the host's addresses.
func (c *capabilities) hostPointers() bool { return c.unified && c.registeredAddress }

// probe reads the attributes that decide what is allowed.
func probe(d cu.Driver, device cu.Device) (c capabilities, failed error) {
	read := func(a cu.DeviceAttribute, unknown int) int {
		v, err := d.DeviceGetAttribute(a, device)
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
	c.unified = has(cu.DeviceAttributeUnifiedAddressing, 0)
	c.mapping = has(cu.DeviceAttributeCanMapHostMemory, 0)
	c.register = has(cu.DeviceAttributeHostRegisterSupported, 1)
	c.registerReadOnly = has(cu.DeviceAttributeReadOnlyHostRegisterSupported, 0)
	c.registeredAddress = has(cu.DeviceAttributeCanUseHostPointerForRegisteredMem, 0)
	c.managed = has(cu.DeviceAttributeManagedMemory, 0)
	c.concurrentManaged = has(cu.DeviceAttributeConcurrentManagedAccess, 0)
	c.pools = has(cu.DeviceAttributeMemoryPoolsSupported, 0)
	if version, err := d.DriverGetVersion(); err == nil {
		c.batchCopies = c.unified && version >= 12080
	}
	c.processors = read(cu.DeviceAttributeMultiprocessorCount, 0)
	c.threads = read(cu.DeviceAttributeMaxThreadsPerBlock, 0)
	c.block = [3]int{read(cu.DeviceAttributeMaxBlockDimX, 0), read(cu.DeviceAttributeMaxBlockDimY, 0), read(cu.DeviceAttributeMaxBlockDimZ, 0)}
	c.grid = [3]int{read(cu.DeviceAttributeMaxGridDimX, 0), read(cu.DeviceAttributeMaxGridDimY, 0), read(cu.DeviceAttributeMaxGridDimZ, 0)}
	c.shared = read(cu.DeviceAttributeMaxSharedMemoryPerBlock, 0)
	c.pitch = read(cu.DeviceAttributeMaxPitch, 0)
	c.sharedMax = max(c.shared, read(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin, 0))
	return c, failed
}
