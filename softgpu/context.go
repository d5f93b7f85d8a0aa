package softgpu

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// contextState is a context: the objects made in it, and whether it still
// works.
//
// Contexts see each other's memory as on hardware. Copies find every address of
// the process. Kernels reach the device memory of their own context, and of
// contexts with peer access. With unified addressing, all contexts share
// page-locked and managed memory. Without it, they share only portable memory.
type contextState struct {
	drv     *Driver
	dev     *device
	handle  cu.Context
	primary bool
	flags   cu.CtxFlags
	dead    bool
	serial  uint64 // of all contexts of the driver, from 1

	kernelCtx     context.Context // stops the context's kernels when it is destroyed
	cancelKernels context.CancelCauseFunc

	legacy                   *streamState
	perThread                map[uint64]*streamState // by thread
	streams                  []*streamState          // those that are not destroyed
	destroyedLast            []*op                   // last ops of destroyed blocking streams
	destroyedNonBlockingLast []*op                   // last ops of destroyed non-blocking streams
	modules                  map[*module]struct{}
	regions                  map[*region]struct{}
	peers                    map[*contextState]bool
	limits                   map[cu.Limit]uintptr
	printf                   printfBuffer
	heap                     *kernelHeap // of malloc in kernels, nil until a kernel needs it

	late lateErrors // of its operations

	*loss                 // shared with the driver
	open      int         // ops that are not done
	kernels   int         // launches that have not retired in virtual time
	hostQueue serialQueue // host functions run one at a time
	hostEnd   float64     // virtual time at which the last one ended

	// Of old devices.
	launched []*op             // kernels that have not retired in virtual time, and that no later kernel follows
	checking []dependencyCheck // kernels whose end later kernels must wait for
	checks   int               // how many checks there have been
	division cu.FuncCache      // of L1 cache and shared memory, as the last kernel needs it
}

// printfPerMultiprocessor is what each multiprocessor adds to the default size
// of the printf buffer.
const printfPerMultiprocessor = 64 << 10

// newContext makes a context. The caller holds mu.
func (d *Driver) newContext(dev *device, flags cu.CtxFlags) *contextState {
	d.contextsMade++
	c := &contextState{
		drv: d, dev: dev, flags: flags, loss: &d.loss, serial: d.contextsMade,
		perThread: map[uint64]*streamState{},
		modules:   map[*module]struct{}{},
		regions:   map[*region]struct{}{},
		peers:     map[*contextState]bool{},
		limits: map[cu.Limit]uintptr{
			cu.LimitStackSize:      1024,
			cu.LimitPrintfFIFOSize: uintptr(max(1<<20, printfPerMultiprocessor*dev.attr(cu.DeviceAttributeMultiprocessorCount))),
			cu.LimitMallocHeapSize: 8 << 20},
	}
	c.printf.setLimit(c.limits[cu.LimitPrintfFIFOSize])
	c.kernelCtx, c.cancelKernels = context.WithCancelCause(d.kernelCtx)
	c.legacy = c.newStream(cu.StreamDefault, 0)
	c.legacy.handle = cu.StreamLegacy
	return c
}

// context returns the context with the given handle.
func (d *Driver) context(h cu.Context, what string) (*contextState, error) {
	if c, ok := d.handles[uintptr(h)].(*contextState); ok {
		return c, nil
	}
	for _, dev := range d.devices {
		if h != 0 && h == dev.primaryHandle {
			return nil, refuse(cu.ErrorContextIsDestroyed, what, "the primary context of device %d was reset or released: retain it again", dev.ordinal)
		}
	}
	switch {
	case h == 0:
		return nil, refuse(cu.ErrorInvalidContext, what, "no context was given")
	case uintptr(h) >= firstHandle && uintptr(h) < d.nextID:
		return nil, refuse(cu.ErrorInvalidContext, what, "context %#x was destroyed", uintptr(h))
	}
	return nil, refuse(cu.ErrorInvalidContext, what, "%#x was never a context", uintptr(h))
}

// checkFlags refuses unknown and contradictory flags.
func checkFlags(flags cu.CtxFlags, what string) error {
	const known = cu.CtxSchedMask | cu.CtxMapHost | cu.CtxLmemResizeToMax
	switch s := flags & cu.CtxSchedMask; {
	case flags&^known != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^known))
	case s != cu.CtxSchedAuto && s != cu.CtxSchedSpin && s != cu.CtxSchedYield && s != cu.CtxSchedBlockingSync:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x have more than one way to wait", uint32(flags))
	}
	return nil
}

// recordFault records that an op of c has failed in real time, which loses the devices.
func (c *contextState) recordFault(o *op) {
	if f, ok := o.err.(*cu.Fault); ok {
		c.drv.lose(f)
	}
}

// lose loses the devices. Kernels that wait for kernels of other contexts then complete without
// a run, because the kernels that they wait for may never end. The caller holds mu.
func (d *Driver) lose(f *cu.Fault) {
	if d.loss.poison != nil {
		return
	}
	d.loss.poison = f
	d.stopExchanges()
	for _, dev := range d.devices {
		dev.timeSlices.wakeWaiting()
	}
}

// recordRetired records that o has retired in virtual time, and its error.
// Calls report errors from here, and so at the same place in every run.
func (c *contextState) recordRetired(o *op) {
	if o.work.launch != nil {
		c.kernels--
		if o.stream != nil {
			o.stream.kernels--
		}
	}
	if f, ok := o.err.(*cu.Fault); ok && c.fault == nil {
		c.fault = f
	}
	c.late.record(o)
}

// lastOps returns the last ops of all streams of c, also of destroyed ones.
func (c *contextState) lastOps() []*op {
	out := append(slices.Clone(c.destroyedLast), c.destroyedNonBlockingLast...)
	for _, s := range c.streams {
		if s.last != nil {
			out = append(out, s.last)
		}
	}
	return out
}

// sync waits for all work of c. It returns an error only if the device is lost. Errors of
// single operations stay for the calls that report them: see lateErrors. The caller holds mu,
// which is released during the wait.
func (c *contextState) sync() error {
	d := c.drv
	last := c.lastOps()
	d.releaseMatching(func(o *op) bool { return o.ctx == c })
	for _, o := range last {
		d.finish(o)
	}
	past := func(o *op) bool { return o.done && o.retired }
	c.destroyedLast = slices.DeleteFunc(c.destroyedLast, past)
	c.destroyedNonBlockingLast = slices.DeleteFunc(c.destroyedNonBlockingLast, past)
	c.dev.trimPools()
	if c.fault != nil {
		return c.report()
	}
	return nil
}

// quiesce waits for all work of c, for a call that must not overlap with
// kernels. The caller holds mu, which is released during the wait.
func (c *contextState) quiesce(what string) error {
	last := c.lastOps()
	c.drv.releaseMatching(func(o *op) bool { return o.ctx == c })
	for _, o := range last {
		c.drv.finish(o)
	}
	return c.alive(what)
}

// alive fails if the context was destroyed, or its device lost, while a call
// had released the lock.
func (c *contextState) alive(what string) error {
	if c.dead {
		return refuse(cu.ErrorInvalidContext, what, "the context was destroyed during the call")
	}
	return c.report()
}

// waitForOtherKernels waits for kernels of other contexts that run on the
// device now, or are about to start, as destroying a context does. The caller
// holds mu, which is released during the wait.
func (c *contextState) waitForOtherKernels() {
	d := c.drv
	d.settle()
	ops := append(slices.Clone(d.sim.running), d.sim.pending...)
	for _, o := range append(ops, c.dev.engines.by[engineCompute].queue...) {
		if o.work.launch != nil && o.work.dev == c.dev && o.unretiredDeps == 0 && o.ctx != c && !o.ctx.dead {
			d.finish(o)
		}
	}
}

// errDestroyed stops the kernels of a context that is destroyed.
var errDestroyed = errors.New("the context was destroyed")

// destroyTimeout is how long a context that is destroyed waits without any op
// getting done. Then its kernels are stopped.
const destroyTimeout = time.Second

// destroy ends c. Queued work runs to its end, kernels that never end are
// stopped, and everything made in c is freed. The caller holds mu, which is
// released during the wait.
func (c *contextState) destroy() {
	d := c.drv
	c.dead = true
	delete(d.handles, uintptr(c.handle))
	c.endCaptures()
	c.dropHandles() // first, so that no call queues more work during the wait
	d.releaseMatching(func(o *op) bool { return o.ctx == c })
	c.waitForOtherKernels()
	c.drain()
	c.cancelKernels(errDestroyed)
	d.mu.Unlock()
	c.printf.flush()
	d.mu.Lock()
	for m := range c.modules {
		m.drop()
	}
	for r := range c.regions {
		r.free()
	}
	if c.heap != nil {
		d.deferUnmap(c.heap.backing)
	}
	for _, other := range d.contexts() {
		delete(other.peers, c)
	}
}

// dropHandles removes the handles of the streams and events of c.
func (c *contextState) dropHandles() {
	d := c.drv
	for _, s := range c.streams {
		if s != c.legacy {
			delete(d.handles, uintptr(s.handle))
		}
	}
	for h, x := range d.handles {
		if e, ok := x.(*eventState); ok && e.ctx == c {
			e.unshare()
			delete(d.handles, h)
		}
	}
}

// drain waits until all ops of c are done. If none gets done for
// destroyTimeout, it stops the kernels. The caller holds mu, which is released
// during the wait.
func (c *contextState) drain() {
	d := c.drv
	for open, since := c.open, time.Now(); c.open > 0; {
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		ch := d.changed
		d.mu.Unlock()
		timer := time.NewTimer(destroyTimeout)
		select {
		case <-ch:
		case <-timer.C:
		}
		timer.Stop()
		d.mu.Lock()
		if c.open != open {
			open, since = c.open, time.Now()
		}
		if time.Since(since) >= destroyTimeout {
			c.cancelKernels(errDestroyed)
		}
	}
}

// contexts returns all contexts that are alive.
func (d *Driver) contexts() []*contextState {
	var out []*contextState
	for _, x := range d.handles {
		if c, ok := x.(*contextState); ok {
			out = append(out, c)
		}
	}
	return out
}

// newStream makes a stream without a handle.
func (c *contextState) newStream(flags cu.StreamFlags, priority int32) *streamState {
	s := &streamState{ctx: c, flags: flags, priority: priority}
	c.streams = append(c.streams, s)
	return s
}

// stream returns the stream with the given handle.
func (c *contextState) stream(h cu.Stream, what string) (*streamState, error) {
	switch h {
	case 0, cu.StreamLegacy:
		return c.legacy, nil
	case cu.StreamPerThread:
		id := threadID()
		s := c.perThread[id]
		if s == nil {
			s = c.newStream(cu.StreamDefault, 0)
			s.handle = cu.StreamPerThread
			c.perThread[id] = s
		}
		return s, nil
	}
	s, err := lookup[*streamState](c.drv, uintptr(h), what, "stream")
	if err != nil {
		return nil, err
	}
	if s.ctx.fault != nil {
		return nil, s.ctx.report()
	}
	return s, nil
}

// ownStream returns the stream with the given handle. It refuses a stream of
// another context.
func (c *contextState) ownStream(h cu.Stream, what string) (*streamState, error) {
	s, err := c.stream(h, what)
	if err == nil && s.ctx != c {
		return nil, refuse(cu.ErrorInvalidHandle, what, "the stream belongs to another context, of device %d", s.ctx.dev.ordinal)
	}
	return s, err
}

// endCaptures ends all captures of c.
func (c *contextState) endCaptures() {
	for p := range c.drv.captures {
		if p.ctx == c {
			p.end()
		}
	}
}

// blockingCapture returns a capture of c in which a blocking stream takes part,
// or nil.
func (c *contextState) blockingCapture() *capture {
	for _, s := range c.streams {
		if s.capture != nil && !s.nonBlocking() {
			return s.capture
		}
	}
	return nil
}

// mustNotCapture refuses a wait for all work of c while any of its streams
// captures. It also invalidates the captures.
func (c *contextState) mustNotCapture(what string) error {
	var err error
	for p := range c.drv.captures {
		if p.ctx == c {
			p.invalidate()
			err = refuse(cu.ErrorStreamCaptureUnsupported, what, "a stream of the context captures")
		}
	}
	return err
}

// CtxCreate makes a context.
func (d *Driver) CtxCreate(flags cu.CtxFlags, h cu.Device) (cu.Context, error) {
	const what = "create a context"
	return deviceCall(d, h, what, func(dev *device) (cu.Context, error) {
		if err := checkFlags(flags, what); err != nil {
			return 0, err
		}
		if dev.fault != nil {
			return 0, dev.report()
		}
		c := d.newContext(dev, flags)
		c.handle = cu.Context(d.newHandle(c))
		return c.handle, nil
	})
}

// CtxDestroy destroys a context made with CtxCreate. It waits for kernels of
// other contexts that run on the device. It is the last call that returns errors of the
// context's operations: see lateErrors.
func (d *Driver) CtxDestroy(h cu.Context) error {
	const what = "destroy a context"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return err
	}
	if c.primary {
		return refuse(cu.ErrorInvalidContext, what, "this is the primary context of device %d: release it", c.dev.ordinal)
	}
	last := c.lastOps()
	c.destroy()
	for _, o := range last {
		o.acquired()
	}
	return c.reportLast(last)
}

// CtxSynchronize waits until all work of the context is done.
func (d *Driver) CtxSynchronize(h cu.Context) error {
	const what = "synchronize the context"
	c, err := d.beginInLost(h, what)
	if err != nil {
		return err
	}
	defer c.printf.flush()
	defer d.mu.Unlock()
	if err := c.mayWait(what); err != nil { // before the device goes on, which takes time
		return err
	}
	if err := d.proceed(c, what); err != nil {
		return err
	}
	if err := c.sync(); err != nil {
		return err
	}
	return c.reportLate()
}

// mayWait refuses a wait for all work of c that a capture forbids.
func (c *contextState) mayWait(what string) error {
	if err := c.alive(what); err != nil {
		return err
	}
	if err := c.mustNotCapture(what); err != nil {
		return err
	}
	return c.unsafeInCapture(what)
}

// CtxGetFlags returns the flags as they were given.
func (d *Driver) CtxGetFlags(h cu.Context) (cu.CtxFlags, error) {
	c, err := d.beginInLost(h, "read the context's flags")
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return c.flags, nil
}

// CtxGetId returns the number of the context (cuCtxGetId). A primary context has a new one after a
// reset, as on hardware, though its handle stays.
func (d *Driver) CtxGetId(h cu.Context) (uint64, error) {
	c, err := d.beginInLost(h, "read the context's id")
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return c.serial, nil
}

// CtxGetDevice returns the device of the context.
func (d *Driver) CtxGetDevice(h cu.Context) (cu.Device, error) {
	c, err := d.beginIn(h, "read the context's device")
	if err != nil {
		return cu.InvalidDevice, err
	}
	defer d.mu.Unlock()
	return cu.Device(c.dev.ordinal), nil
}

// CtxGetStreamPriorityRange returns the profile's range.
func (d *Driver) CtxGetStreamPriorityRange(h cu.Context) (least, greatest int32, err error) {
	if _, err := d.beginIn(h, "read the range of priorities"); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	return int32(d.prof.Priority.Least.Value), int32(d.prof.Priority.Greatest.Value), nil
}

// CtxGetLimit returns a limit.
func (d *Driver) CtxGetLimit(h cu.Context, limit cu.Limit) (uintptr, error) {
	const what = "read a limit"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	v, ok := c.limits[limit]
	if !ok {
		return 0, refuse(cu.ErrorInvalidValue, what, "limit %d is not known", limit)
	}
	return v, nil
}

// CtxSetLimit sets a limit. The printf limit bounds what kernels print, the limit
// of the heap what they allocate. The limit of the stack bounds the calls of kernels
// whose need is not known at compile time: those that recurse, also through pointers,
// and those that call alloca. As on hardware, setting it waits for the context's work,
// and the heap cannot change after a launch of a kernel that uses it.
func (d *Driver) CtxSetLimit(h cu.Context, limit cu.Limit, value uintptr) error {
	const what = "set a limit"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if _, ok := c.limits[limit]; !ok {
		return refuse(cu.ErrorInvalidValue, what, "limit %d is not known", limit)
	}
	if limit == cu.LimitStackSize && value >= 512<<10 {
		return refuse(cu.ErrorInvalidValue, what, "a stack of %s: must be less than 512 KiB a thread", size(uint64(value)))
	}
	if limit == cu.LimitMallocHeapSize && c.heap != nil {
		return refuse(cu.ErrorInvalidValue, what, "a kernel that calls malloc or free was launched: set the size of the heap before")
	}
	if limit == cu.LimitStackSize {
		if err := c.quiesce(what); err != nil {
			return err
		}
	}
	c.limits[limit] = uintptr(roundUp(uint64(value), 16))
	if limit == cu.LimitPrintfFIFOSize {
		c.printf.setLimit(c.limits[limit])
	}
	return nil
}

// CtxEnablePeerAccess lets kernels of h use memory of peer.
func (d *Driver) CtxEnablePeerAccess(h, peer cu.Context, flags uint32) error {
	const what = "enable peer access"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.context(peer, what)
	switch {
	case err != nil:
		return err
	case flags != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	case p == c:
		return refuse(cu.ErrorPeerAccessUnsupported, what, "a context is not a peer of itself")
	case p.dev == c.dev || !d.peerAccess():
		return refuse(cu.ErrorPeerAccessUnsupported, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	case c.peers[p]:
		return refuse(cu.ErrorPeerAccessAlreadyEnabled, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	}
	c.peers[p] = true
	return nil
}

// CtxDisablePeerAccess undoes CtxEnablePeerAccess.
func (d *Driver) CtxDisablePeerAccess(h, peer cu.Context) error {
	const what = "disable peer access"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.context(peer, what)
	if err != nil {
		return err
	}
	if !c.peers[p] {
		return refuse(cu.ErrorPeerAccessNotEnabled, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	}
	delete(c.peers, p)
	return nil
}
