package softgpu

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// contextState is a context: what was made in it, and whether it still works.
//
// Contexts see each other's memory as on hardware. Copies find every address of
// the process; kernels reach device memory of their own context, and of others
// that gave peer access. Page-locked and managed memory is everybody's under
// unified addressing; without it, only portable memory is.
type contextState struct {
	drv     *Driver
	dev     *device
	handle  cu.Context
	primary bool
	flags   cu.CtxFlags
	dead    bool

	run    context.Context // ends kernels when the context is destroyed
	cancel context.CancelCauseFunc

	legacy    *streamState
	perThread map[uint64]*streamState
	streams   []*streamState // all that are alive
	orphans   []*op          // last ops of destroyed streams
	loose     []*op          // last ops of destroyed non-blocking streams
	modules   map[*module]struct{}
	regions   map[*region]struct{}
	peers     map[*contextState]bool
	limits    map[cu.Limit]uintptr
	printed   printed

	graphPanics, lostPanics []error // of host functions in graphs and in destroyed streams

	*loss        // the driver's
	open    int  // ops that are not done
	kernels int  // launches that virtual time has not passed
	hosts   line // host functions run one at a time
}

// printfPart is what each multiprocessor adds to the buffer of printf.
const printfPart = 64 << 10

// newContext makes a context. mu is held.
func (d *Driver) newContext(dev *device, flags cu.CtxFlags) *contextState {
	c := &contextState{
		drv: d, dev: dev, flags: flags, loss: &d.loss,
		perThread: map[uint64]*streamState{},
		modules:   map[*module]struct{}{},
		regions:   map[*region]struct{}{},
		peers:     map[*contextState]bool{},
		limits: map[cu.Limit]uintptr{
			cu.LimitStackSize:      1024,
			cu.LimitPrintfFIFOSize: uintptr(max(1<<20, printfPart*dev.attr(cu.DeviceAttributeMultiprocessorCount))),
			cu.LimitMallocHeapSize: 8 << 20},
	}
	c.printed.setLimit(c.limits[cu.LimitPrintfFIFOSize])
	c.run, c.cancel = context.WithCancelCause(d.life)
	c.legacy = c.newStream(cu.StreamDefault, 0)
	c.legacy.handle = cu.StreamLegacy
	return c
}

// context finds a context by its handle.
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

// checkFlags refuses flags that are none.
func checkFlags(flags cu.CtxFlags, what string) error {
	const known = cu.CtxSchedMask | cu.CtxMapHost | cu.CtxLmemResizeToMax
	switch s := flags & cu.CtxSchedMask; {
	case flags&^known != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^known))
	case s != cu.CtxSchedAuto && s != cu.CtxSchedSpin && s != cu.CtxSchedYield && s != cu.CtxSchedBlockingSync:
		return refuse(cu.ErrorInvalidValue, what, "more than one way to wait in flags %#x", uint32(flags))
	}
	return nil
}

// failed notes that an op of c has gone wrong really, which loses the device.
func (c *contextState) failed(o *op) {
	if f, ok := o.err.(*cu.Fault); ok && c.poison == nil {
		c.poison = f
	}
}

// deliver notes in virtual time that o is over, and what went wrong, so that
// calls tell of it at the same place in every run.
func (c *contextState) deliver(o *op) {
	if o.work.launch != nil {
		c.kernels--
		if o.stream != nil {
			o.stream.kernels--
		}
	}
	switch err := o.err.(type) {
	case *cu.Fault:
		if c.fault == nil {
			c.fault = err
		}
	case *cu.HostPanic:
		switch {
		case o.stream == nil:
			c.graphPanics = append(c.graphPanics, err)
		case o.stream.gone:
			c.lostPanics = append(c.lostPanics, err)
		default:
			o.stream.panics = append(o.stream.panics, err)
		}
	}
}

// tellPanics tells once of all host functions of c that panicked.
func (c *contextState) tellPanics() error {
	all := append(c.graphPanics, c.lostPanics...)
	for _, s := range c.streams {
		all = append(all, s.panics...)
		s.panics = nil
	}
	c.graphPanics, c.lostPanics = nil, nil
	return errors.Join(all...)
}

// tails are the last ops of all streams of c.
func (c *contextState) tails() []*op {
	out := append(slices.Clone(c.orphans), c.loose...)
	for _, s := range c.streams {
		if s.tail != nil {
			out = append(out, s.tail)
		}
	}
	return out
}

// sync waits for all work of c. mu is held, let go of and taken again.
func (c *contextState) sync() error {
	d := c.drv
	tails := c.tails()
	d.pushAll(func(o *op) bool { return o.ctx == c })
	for _, o := range tails {
		d.finish(o)
	}
	past := func(o *op) bool { return o.done && o.retired }
	c.orphans = slices.DeleteFunc(c.orphans, past)
	c.loose = slices.DeleteFunc(c.loose, past)
	c.dev.trimPools()
	if c.fault != nil {
		return c.fault
	}
	return c.tellPanics()
}

// settle waits for all work of c, for a call that cannot go on beside kernels.
// mu is held, let go of and taken again.
func (c *contextState) settle(what string) error {
	tails := c.tails()
	c.drv.pushAll(func(o *op) bool { return o.ctx == c })
	for _, o := range tails {
		c.drv.finish(o)
	}
	return c.alive(what)
}

// alive refuses to go on in a context that ended while a call let go of the lock.
func (c *contextState) alive(what string) error {
	if c.dead {
		return refuse(cu.ErrorInvalidContext, what, "the context was destroyed meanwhile")
	}
	return c.fault
}

// settleKernels waits for the kernels of other contexts that run on the device
// now, or are about to, as the end of a context does. mu is held, let go of and taken again.
func (c *contextState) settleKernels() {
	d := c.drv
	d.sim.run(d, d.host, nil)
	ops := append(slices.Clone(d.sim.running), d.sim.pending...)
	for _, o := range append(ops, c.dev.engines.by[engineCompute].queue...) {
		if o.work.launch != nil && o.work.dev == c.dev && o.simWait == 0 && o.ctx != c && !o.ctx.dead {
			d.finish(o)
		}
	}
}

// errDestroyed ends the kernels of a context that is destroyed.
var errDestroyed = errors.New("the context was destroyed")

// destroyPatience is how long a context's queued work may go on, without any of
// it getting done, before what runs is ended.
const destroyPatience = time.Second

// destroy ends c: queued work runs to its end, kernels that never end are ended,
// and all that was made in c is freed. mu is held, let go of and taken again.
func (c *contextState) destroy() {
	d := c.drv
	c.dead = true
	delete(d.handles, uintptr(c.handle))
	c.endCaptures()
	c.dropHandles() // first, so that nobody queues more while it waits
	d.pushAll(func(o *op) bool { return o.ctx == c })
	c.settleKernels()
	c.drain()
	c.cancel(errDestroyed)
	d.mu.Unlock()
	c.printed.flush()
	d.mu.Lock()
	for m := range c.modules {
		m.drop()
	}
	for r := range c.regions {
		r.free()
	}
	for _, other := range d.contexts() {
		delete(other.peers, c)
	}
}

// dropHandles forgets the streams and events of c.
func (c *contextState) dropHandles() {
	d := c.drv
	for _, s := range c.streams {
		if s != c.legacy {
			delete(d.handles, uintptr(s.handle))
		}
	}
	for h, x := range d.handles {
		if e, ok := x.(*eventState); ok && e.ctx == c {
			delete(d.handles, h)
		}
	}
}

// drain waits until no op of c is open. When nothing gets done for a while the
// kernels are ended.
func (c *contextState) drain() {
	d := c.drv
	for open, since := c.open, time.Now(); c.open > 0; {
		if d.changed == nil {
			d.changed = make(chan struct{})
		}
		ch := d.changed
		d.mu.Unlock()
		timer := time.NewTimer(destroyPatience)
		select {
		case <-ch:
		case <-timer.C:
		}
		timer.Stop()
		d.mu.Lock()
		if c.open != open {
			open, since = c.open, time.Now()
		}
		if time.Since(since) >= destroyPatience {
			c.cancel(errDestroyed)
		}
	}
}

// contexts are all that are alive.
func (d *Driver) contexts() []*contextState {
	var out []*contextState
	for _, x := range d.handles {
		if c, ok := x.(*contextState); ok {
			out = append(out, c)
		}
	}
	return out
}
