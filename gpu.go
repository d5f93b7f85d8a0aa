package ferry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/capability"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/tuning"
)

// ErrClosed is the error that a call wraps when it uses a closed buffer, stream, event,
// module, graph, pool or GPU. The text of the error names the object. A second Close is
// not an error.
var ErrClosed = errors.New("already closed")

// GPU is an open device with its primary context: NVIDIA hardware or the software GPU.
// It is safe for concurrent use.
//
// Functions such as [NewStream], [Alloc] and [Load] make the objects of a GPU. They take
// the GPU as their first argument. For a nil GPU they return an error that wraps
// cu.ErrorInvalidValue, and methods without an error return zero values. A nil object of
// any other type is treated alike.
type GPU struct {
	// Every copy reads the first four fields, so they share one cache line.
	driver    cu.Driver
	ctx       cu.Context
	largest   [2]largeCopy // the latest large copy, by direction: see behindLarge
	largeCopy uintptr      // tuning.Copy.LargeBytes: from this size on a copy is large

	emulated cu.Emulated   // nil on hardware
	watch    hostWatcher   // nil without FERRY_CHECK
	knowing  knowingDriver // driver, if it is one; nil for a wrapped driver
	device   cu.Device
	created  bool // ctx was created, because the driver is too old for primary contexts

	name     string // product name
	label    string // short name: "cuda:0"
	fallback error  // why Open("") took the software GPU
	caps     capability.Set
	tuning   tuning.Settings
	opened   time.Time

	lifetime    inflight.Lifetime // its users are calls, and open objects of the GPU
	released    atomic.Bool       // the context is released
	leak        runtime.Cleanup
	shared      *driverState // shared with the other GPUs of the driver
	hosts       *hostmap.Map // of shared
	legacy      *Stream      // see DefaultStream
	defaultPool *MemPool
	waits       await.Group
	captures    *await.Captures  // in the context, also those of its other GPUs
	account     *account.Account // of the context
	pending     pendingError
	unfinished  unfinishedStreams
	poller      *await.Poller // waits for streams and events; nil if the GPU is emulated
	saveCPU     atomic.Bool   // see SetSaveCPU
	freed       atomic.Bool   // memory was freed in the order of a stream: see trimPools

	pinEngine  *pin.Engine // nil if only the driver can page-lock
	copyKernel copyKernel
	ring       staging.Lazy // see stagingRing

	streamCount, bufferCount, graphCount atomic.Int64 // made so far: the newest has this number

	leftovers   closing.Leftovers // of failed calls: registrations and links
	completions completions
	keptSlices  inflight.Kept

	mu      sync.Mutex
	streams map[*streamState]struct{} // not destroyed
}

// newGPU opens a device and retains its primary context.
func newGPU(d cu.Driver, ordinal int, label string) (*GPU, error) {
	device, err := d.DeviceGet(int32(ordinal))
	if err != nil {
		return nil, err
	}
	g := &GPU{driver: d, emulated: cu.AsEmulated(d), watch: watcherIn(d), device: device, label: label, opened: time.Now(),
		streams: map[*streamState]struct{}{}}
	g.knowing, _ = d.(knowingDriver)
	if g.name, err = d.DeviceGetName(device); err != nil {
		return nil, err
	}
	if g.caps, err = capability.Probe(d, device); err != nil {
		return nil, err
	}
	g.tuning = tuning.For(g.emulated, g.name)
	g.largeCopy = g.tuning.Copy.LargeBytes
	if g.emulated == nil {
		g.poller = await.NewPoller(g.tuning.Wait, relaxed{d})
	}
	g.shared = stateOf(d)
	g.hosts = &g.shared.hosts
	if err := g.retain(); err != nil {
		g.shared.drop()
		return nil, err
	}
	g.legacy = &Stream{state: newStreamState(g, 0, 0, nil)}
	g.streams[g.legacy.state] = struct{}{}
	g.defaultPool = &MemPool{g: g}
	g.shared.join(g) // from here on, others look at its streams
	g.copyKernel.load(d, g.ctx)
	if g.caps.Register && g.caps.HostPointers() { // otherwise the driver's own memory is better: one buffer has one device address
		if g.pinEngine = pin.NewEngine(d, g.ctx, g.Now, tuning.EmulatedHost(g.emulated), g.tuning.Pin); g.pinEngine != nil {
			g.pinEngine.Keep = func() func() { g.lifetime.AddUser(); return g.leave }
			g.pinEngine.Settle, g.pinEngine.Left = g.settle, g.endAtClose
			g.pinEngine.Small = func(bytes uintptr) {
				oplog.Bytes(slog.LevelWarn, oplog.Fallback, "small pages instead of huge ones", bytes, g.label)
			}
			g.pinEngine.Trial = func(bytes int) { g.account.Add(account.Allocated, bytes) }
			if d, ok := g.emulated.(interface{ FreshHost(cu.HostPtr, uintptr) }); ok {
				g.pinEngine.Fresh = d.FreshHost
			}
		}
	}
	g.leak = leak.Watch(g, g.String)
	return g, nil
}

// retain retains the primary context. Without unified addressing it first enables the
// mapping of host memory. With unified addressing mapping is always on, and hardware
// refuses the flag. Drivers before CUDA 7 have no primary context: retain creates a
// context.
func (g *GPU) retain() error {
	d := g.driver
	var err error
	if !g.caps.Unified {
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

// Name returns the product name of the device, such as "NVIDIA H200" (cuDeviceGetName).
// A software GPU has the name of the device that it emulates: see [GPU.Emulated].
func (g *GPU) Name() string {
	if g == nil {
		return ""
	}
	return g.name
}

// String returns the short name and the product name of the GPU: "cuda:0 (NVIDIA H200)"
// or "soft:h200 (software, predicts NVIDIA H200)".
func (g *GPU) String() string {
	switch {
	case g.none():
		return "no GPU"
	case g.emulated != nil:
		return g.label + " (software, predicts " + g.name + ")"
	}
	return g.label + " (" + g.name + ")"
}

// Emulated reports whether the GPU is software.
func (g *GPU) Emulated() bool { return g != nil && g.emulated != nil }

// Profile returns the name of the machine profile that a software GPU emulates, such as
// "h200". It returns "" on hardware.
func (g *GPU) Profile() string {
	if !g.Emulated() {
		return ""
	}
	return g.emulated.Profile()
}

// Fallback returns why Open("") opened the software GPU: the error of opening hardware.
// It returns nil on hardware, and if FERRY_DEVICE or the name chose the software GPU.
func (g *GPU) Fallback() error {
	if g == nil {
		return nil
	}
	return g.fallback
}

// Driver returns the driver of the GPU, for calls that this package lacks. Buffers do
// not track the operations that a program queues through it.
func (g *GPU) Driver() cu.Driver {
	if g == nil {
		return nil
	}
	return g.driver
}

// CUContext returns the primary context of the device, for calls of [GPU.Driver]
// (cuDevicePrimaryCtxRetain). It is valid until Close. Unlike a context.Context, it ends no
// wait.
func (g *GPU) CUContext() cu.Context {
	if g == nil {
		return 0
	}
	return g.ctx
}

// CUDevice returns the driver's handle of the device, which is its ordinal (cuDeviceGet).
// [Managed.Prefetch] and [Managed.Advise] take it as a location.
func (g *GPU) CUDevice() cu.Device {
	if g == nil {
		return 0
	}
	return g.device
}

// Attribute returns the value of a device attribute (cuDeviceGetAttribute). If the driver
// is too old to know the attribute, the error wraps cu.ErrorInvalidValue.
func (g *GPU) Attribute(a cu.DeviceAttribute) (int, error) {
	if g.none() {
		return 0, errNoGPU("read an attribute")
	}
	v, err := g.driver.DeviceGetAttribute(a, g.device)
	if err != nil {
		return 0, fmt.Errorf("read %v of %s: %w", a, g.label, err)
	}
	return int(v), nil
}

// MemInfo returns the free and the total memory of the device in bytes (cuMemGetInfo).
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

// Priorities returns the range of [StreamOptions].Priority
// (cuCtxGetStreamPriorityRange): the numbers of the least and of the greatest priority.
// The greatest priority has the lowest number. Both are 0 if the device has no
// priorities.
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

// Now returns the time of a monotonic clock. On hardware that is the time since Open. On
// the software GPU it is virtual time, which advances by the time that calls and waits
// would take on the emulated machine. Only differences between two times have a meaning.
func (g *GPU) Now() time.Duration {
	switch {
	case g.none():
		return 0
	case g.emulated != nil:
		return g.emulated.Now()
	}
	return time.Since(g.opened)
}

// DefaultStream returns the stream that exists in every context, CUDA's legacy default
// stream. Its work waits for earlier work of all streams that are not NonBlocking, and
// their work waits for earlier work of the default stream. Close of it does nothing.
//
// Before another library queues work in it, call [Stream.Handle] or [Stream.External], so that
// Ferry asks the driver for that work. CUDA's per-thread default stream is no [Stream], because a
// goroutine can move to another thread at any time: make a stream for each goroutine, and call
// code that uses the per-thread stream by [Stream.ExternalPerThread].
func (g *GPU) DefaultStream() *Stream {
	if g == nil {
		return nil
	}
	return g.legacy
}

// DefaultMemPool returns the memory pool that the device has from the start
// (cuDeviceGetDefaultMemPool). [AllocAsync] without a pool uses it, unless the program sets
// another one with [GPU.Driver]. The whole process shares the pool, and its Close does
// nothing. If the device has no pools, uses of it fail with cu.ErrorNotSupported.
func (g *GPU) DefaultMemPool() *MemPool {
	if g == nil {
		return nil
	}
	return g.defaultPool
}

// GridStride returns a launch configuration for n elements and a grid-stride kernel: a kernel
// that is correct for any number of blocks, such as those of package kernels. It has as
// many blocks as n threads need, but not more than keep the GPU busy. With it, a kernel
// that reads or writes host memory reaches the rate of the link. For kernels that move 16
// bytes per thread, n is the number of bytes divided by 16.
func (g *GPU) GridStride(n int) LaunchConfig {
	if g.none() {
		return LaunchConfig{}
	}
	c := Cover(n, g.tuning.Launch.Threads)
	c.Grid.X = min(c.Grid.X, uint32(max(1, g.caps.Processors*g.tuning.Launch.Blocks)))
	return c
}

// CanAccessPeer reports whether kernels of g can be allowed to use the device memory of
// another GPU (cuDeviceCanAccessPeer). It is true for two GPUs of one device. It is false
// for GPUs that were opened with different drivers.
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
// (cuCtxEnablePeerAccess). [Copy] between the two devices then transfers directly.
//
// It also opens the memory pools of the other GPU to g, because the driver keeps their access
// by pool (cuMemPoolSetAccess): the default pool, the current one, and those of [NewMemPool],
// made before or after the call. Memory that they have already is open at once. Without that,
// streams of g cannot fill memory of [AllocAsync] of the other GPU or copy it from and to the
// host, and kernels of g cannot use it. Only Copy between the two GPUs needs no access. Other
// pools, which a program makes with [GPU.Driver], are its own to open, and so is a pool whose
// Close came before this call.
//
// The permission holds for every GPU that is open on these devices, until the last GPU of one
// of them is closed. The opposite direction needs a call of its own. A repeated call
// succeeds, and so does a call for the device of g itself. Where [GPU.CanAccessPeer] is
// false, the error wraps cu.ErrorPeerAccessUnsupported.
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
		return refusal.New(cu.ErrorPeerAccessUnsupported, "%s of %s to %s: they were opened with different drivers: copy through a pageable slice", what, g.label, other.label)
	case !can:
		return refusal.New(cu.ErrorPeerAccessUnsupported, "%s of %s to %s: the devices do not support it (cuDeviceCanAccessPeer is 0): copy between them", what, g.label, other.label)
	case g.device == other.device:
		return nil
	}
	if err := g.driver.CtxEnablePeerAccess(g.ctx, other.ctx, 0); err != nil && !errors.Is(err, cu.ErrorPeerAccessAlreadyEnabled) {
		return fmt.Errorf("%s of %s to %s: %w", what, g.label, other.label, err)
	}
	g.shared.allow(g, other)
	if err := openPools(g, other); err != nil {
		return fmt.Errorf("%s of %s to %s: %w", what, g.label, other.label, err)
	}
	return nil
}

// Wait waits until all work in the primary context of the device is done, including work
// that was not queued by this package (cuCtxSynchronize). When ctx ends first, the error
// wraps ctx.Err() and the work continues. A nil ctx never ends. While a stream captures,
// the error wraps cu.ErrorStreamCaptureUnsupported, and the capture goes on. Other errors are
// as for [Stream.Wait]: Wait returns those of all streams that no other wait has returned.
func (g *GPU) Wait(ctx context.Context) error {
	if err := g.enter("wait"); err != nil {
		return err
	}
	defer g.leave()
	ctx = await.Context(ctx)
	err := g.await(ctx, &g.waits, g.synchronize, g.pending.add)
	if ofCapture(err) { // perhaps of a wait that began before this one, which await shared
		err = g.await(ctx, &g.waits, g.synchronize, g.pending.add)
	}
	if err != nil {
		return fmt.Errorf("wait for all work of %s: %w", g.label, err)
	}
	return g.takePending()
}

// Current runs f with the primary context of the GPU current in the calling thread, to which the
// goroutine is locked until f returns (runtime.LockOSThread). Code that calls the driver, or a
// library on top of it, by purego or cgo needs that: Ferry passes the context with every call, and
// leaves any context or none in the thread.
//
// f may call Ferry. The context stays current then, also if f uses another GPU, and so does a
// context that f has made current itself. Calls of Current can be nested. The context that was
// current before is current again after f, however f ends. The exception is a context that was
// destroyed meanwhile, or that f has popped. Goroutines that f starts run on other threads, where
// the context is not current. While f runs, calls of Ferry in other threads can take a few hundred
// nanoseconds more.
//
// Current returns the error of f. A panic of f reaches the caller, and runtime.Goexit ends it. In
// a host function the error wraps cu.ErrorNotPermitted. With a driver that wraps another one and
// has no method Unwrap, it wraps cu.ErrorNotSupported. The software GPU has no contexts of threads:
// there Current only locks the thread.
func (g *GPU) Current(f func() error) error {
	const what = "make a context current"
	if err := g.enter(what); err != nil {
		return err
	}
	defer g.leave()
	if f == nil {
		return refusal.Invalid("%s on %s: no function given (nil)", what, g.label)
	}
	return g.current(f)
}

// current is Current for a caller that keeps the GPU open.
func (g *GPU) current(f func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unbind, err := g.bindThread()
	if err != nil {
		return fmt.Errorf("make the context of %s current: %w", g.label, err)
	}
	defer func() { err = refusal.Join(err, unbind()) }()
	return f()
}

// bindThread makes the context current, where threads have one.
func (g *GPU) bindThread() (unbind func() error, err error) {
	binder, ok := cu.As[cu.ThreadBinder](g.driver)
	switch {
	case ok:
		return binder.BindThread(g.ctx)
	case g.emulated == nil:
		return nil, refusal.New(cu.ErrorNotSupported, "the driver has no BindThread (cu.ThreadBinder): a driver around another one needs a method Unwrap")
	}
	return func() error { return nil }, g.mayWait()
}

// SetSaveCPU sets whether goroutines that wait for the GPU save processor time. Otherwise a
// goroutine asks the driver for a short time before it sleeps, and while many goroutines
// wait, one thread asks for all of them. With SetSaveCPU all sleep, and the thread does, too,
// between two asks. So a wait ends later, by up to a millisecond: see docs/PERFORMANCE.md.
// SetSaveCPU changes nothing on the software GPU. It is safe for concurrent use. The error is
// that of a GPU that is nil or closed.
func (g *GPU) SetSaveCPU(save bool) error {
	if err := g.enter("set whether waits save processor time"); err != nil {
		return err
	}
	defer g.leave()
	g.saveCPU.Store(save)
	return nil
}

// openStreams returns the streams that are not destroyed.
func (g *GPU) openStreams() []*streamState {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*streamState, 0, len(g.streams))
	for st := range g.streams {
		all = append(all, st)
	}
	return all
}

// idle reports whether all operations in open streams are known to be done.
func (g *GPU) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for st := range g.streams {
		if !st.Idle() {
			return false
		}
	}
	return true
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

// addStream adds a stream to the list or, if gone is set, removes it.
func (g *GPU) addStream(st *streamState, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gone {
		delete(g.streams, st)
	} else {
		g.streams[st] = struct{}{}
	}
}

// none reports whether there is no GPU: g is nil, or not from Open.
func (g *GPU) none() bool { return g == nil || g.driver == nil }

func errNoGPU(what string) error { return refusal.Invalid("%s: no GPU given (nil)", what) }

// enter counts a user of the context. It fails when the GPU is nil or closed, and in a forked
// child. leave ends the use.
func (g *GPU) enter(what string) error {
	if g.none() {
		return errNoGPU(what)
	}
	if forked.Child() {
		return forked.New(what)
	}
	if !g.lifetime.Enter() {
		return fmt.Errorf("%s: %s: %w", what, g.label, ErrClosed)
	}
	return nil
}

func (g *GPU) leave() {
	if g.lifetime.Leave() {
		_ = closing.AfterHostFunction(g.release)
	}
}

// mayWait returns an error in a forked child, and within a host function, where a wait could be
// for that same function. cuDriverGetVersion does not use the device and takes no virtual time.
func (g *GPU) mayWait() error {
	if forked.Child() {
		return forked.New("wait")
	}
	if _, err := g.driver.DriverGetVersion(); closing.InHostFunction(err) {
		return err
	}
	return nil
}

// lacking returns the error for a feature that the device lacks because attribute is 0.
func (g *GPU) lacking(what string, attribute cu.DeviceAttribute, remedy string) error {
	return refusal.New(cu.ErrorNotSupported, "%s on %s: the device cannot (%s is 0): %s", what, g.label, attribute, remedy)
}

// sameDriver reports whether two driver values are equal. Values of types that Go cannot
// compare count as different.
func sameDriver(a, b cu.Driver) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// sameContext reports whether two GPUs share a context.
func (g *GPU) sameContext(o *GPU) bool {
	return g == o || sameDriver(g.driver, o.driver) && g.ctx == o.ctx
}

// Close closes the GPU: no new objects can be made on it. Open buffers, streams, events,
// graphs and modules stay valid. When the last of them is closed, its Close waits for the
// remaining work and releases the primary context (cuDevicePrimaryCtxRelease). If the last
// thing to be closed is the GPU, Close returns errors of the work that no wait has returned:
// see [Stream.Wait]. While other GPUs have the context, their waits return such errors. Close
// also ends what failed calls could not end: registrations of [Register] and [AllocHost], a link of
// [Link], and the buffer of [Upload]. After an error another Close tries again. Otherwise Close of a closed or nil GPU does nothing and returns nil.
func (g *GPU) Close() error {
	if g.none() {
		return nil
	}
	if forked.Child() {
		return forked.New("close")
	}
	g.leak.Stop()
	if _, unused := g.lifetime.Close(); unused {
		return closing.AfterHostFunction(g.release)
	}
	return closing.AfterHostFunction(g.leftovers.Undo)
}

// closeOrLeave closes what a call makes and does not return, and returns the error. After an error
// Close of the GPU tries again.
func (g *GPU) closeOrLeave(close func() error) error {
	err, left := closing.Twice(close)
	if left != nil {
		g.endAtClose(func() error { _, left := closing.Twice(close); return left })
	}
	return err
}

// endAtClose lets Close of the GPU run a task that must end before the context does, because it
// failed before. The task runs until it returns no error, or the context is lost.
func (g *GPU) endAtClose(task func() error) {
	g.lifetime.AddUser()
	g.leftovers.Add(func() error {
		if err := task(); err != nil && !refusal.Sticky(err) {
			return err
		}
		g.leave()
		return nil
	})
}

// release waits for the context and releases it. All objects of the GPU are closed. If the
// default stream has users, such as the caller, the last of them continues.
func (g *GPU) release() error {
	timer := sayIfSlow(g, g)
	err := g.finish(g.unfinished.list())
	timer.Stop()
	if closing.InHostFunction(err) {
		return err
	}
	unused := false
	g.poller.Quiet(func() { unused = g.legacy.state.Close() }) // without Quiet, a poll in progress may count as a user
	switch {
	case unused:
		return g.releaseContext(err)
	case err != nil:
		return fmt.Errorf("close %s: %w", g.label, err)
	}
	return nil
}

// releaseContext waits for the context and releases it. Nothing uses the GPU any more. first
// is the error of an earlier wait. This wait may return the same error again.
func (g *GPU) releaseContext(first error) error {
	err := g.finish(nil)
	if closing.InHostFunction(err) {
		return err
	}
	g.released.Store(true)
	close(g.legacy.state.destroyed)
	all := []error{first, err, g.completions.drop(g), g.ring.Close(), g.shared.quit(g), g.copyKernel.unload(g.driver, g.ctx)}
	if g.created {
		all = append(all, g.driver.CtxDestroy(g.ctx))
	} else {
		all = append(all, g.driver.DevicePrimaryCtxRelease(g.device))
	}
	if err = refusal.Join(append(all, g.takePending())...); err != nil {
		return fmt.Errorf("close %s: %w", g.label, err)
	}
	return nil
}

// knowingDriver is a driver that makes a copy and says whether it knows the host memory of the
// copy, in less time than two calls take.
type knowingDriver interface {
	MemcpyKnowing(ctx cu.Context, toDevice bool, dev cu.DevicePtr, host cu.HostPtr, bytes uintptr, stream cu.Stream) (known bool, err error)
}

// driverKnows reports whether the driver knows the first byte of host memory. It asks the
// driver without wrappers: the question is no operation of the program. If that fails, the
// driver may know the memory.
func (g *GPU) driverKnows(p cu.DevicePtr) bool {
	about, err := g.attributesOf(p)
	return err != nil || about.MemoryType != 0
}

// attributesOf asks the driver without wrappers what it knows of an address in the context of g.
func (g *GPU) attributesOf(p cu.DevicePtr) (cu.PointerAttributes, error) {
	return g.shared.driver.PointerGetAttributes(g.ctx, p)
}

// moveByCPU tells an emulated machine that Go is about to copy host memory to host memory,
// because its CPU would take time.
func (g *GPU) moveByCPU(dst, src cu.HostPtr, bytes uintptr) {
	if m, ok := g.emulated.(interface {
		HostMove(dst, src cu.HostPtr, bytes uintptr)
	}); ok {
		m.HostMove(dst, src, bytes)
	}
}
