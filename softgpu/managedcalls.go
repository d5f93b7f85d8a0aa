package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/uvm"
)

// MemAllocManaged takes managed memory.
func (d *Driver) MemAllocManaged(h cu.Context, bytes uintptr, flags cu.MemAttachFlags) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of managed memory"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	switch {
	case c.dev.attr(cu.DeviceAttributeManagedMemory) == 0:
		return 0, c.dev.lacks(what, cu.DeviceAttributeManagedMemory)
	case flags != cu.MemAttachGlobal && flags != cu.MemAttachHost:
		return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be MemAttachGlobal or MemAttachHost", uint32(flags))
	case bytes == 0:
		return 0, refuse(cu.ErrorInvalidValue, what, "there is no allocation of zero bytes")
	}
	if err := c.unsafeInCapture(what); err != nil {
		return 0, err
	}
	d.host += d.prof.Own.DeviceAllocate.Value
	r, err := c.allocateManaged(uint64(bytes), flags, what)
	if err != nil {
		return 0, err
	}
	return cu.DevicePtr(r.base), nil
}

// allocateManaged makes a managed region.
func (c *contextState) allocateManaged(n uint64, flags cu.MemAttachFlags, what string) (*region, error) {
	r := c.newRegion(kindManaged)
	if err := r.backHost(n, what); err != nil {
		return nil, err
	}
	r.managed = c.drv.newManagedState(n, flags)
	r.shared = true
	c.mapHost(r, true, true, false)
	return r, nil
}

// managedRange finds the managed region that holds all of a range.
func (d *Driver) managedRange(dptr cu.DevicePtr, n uint64, what string) (*region, uint64, error) {
	x, ok := d.space.find(uint64(dptr))
	switch {
	case n == 0:
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "the range is empty")
	case !ok || x.region.kind != kindManaged:
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "%#x is not managed memory: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case n > x.end-uint64(dptr):
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "%s at %#x end past %s", size(n), uint64(dptr), x.words())
	}
	return x.region, uint64(dptr) - x.base, nil
}

// location checks a device that managed memory may go to.
func (d *Driver) location(dev cu.Device, what string) error {
	if dev == cu.CPUDevice {
		return nil
	}
	if dev < 0 || int(dev) >= len(d.devices) {
		return refuse(cu.ErrorInvalidDevice, what, "no device %d, there are %d", dev, len(d.devices))
	}
	if d.devices[dev].attr(cu.DeviceAttributeConcurrentManagedAccess) == 0 {
		return refuse(cu.ErrorInvalidDevice, what, "device %d has %v = 0", dev, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return nil
}

// MemPrefetchAsync moves pages at this point of the stream.
func (d *Driver) MemPrefetchAsync(h cu.Context, dptr cu.DevicePtr, bytes uintptr, dst cu.Device, stream cu.Stream) error {
	what := "prefetch " + size(uint64(bytes))
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	r, off, err := d.managedRange(dptr, uint64(bytes), what)
	if err != nil {
		return err
	}
	if err := d.location(dst, what); err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil { // hardware does not capture it
		return err
	}
	w := &work{kind: cu.GraphNodeTypeMemcpy, what: what, engine: engineIn, dev: c.dev}
	use, busy := resIn, s.busy()
	if err := s.ctx.alive(what); err != nil {
		return err
	}
	if dst == cu.CPUDevice {
		w.engine, use = engineOut, resOut
	} else {
		w.dev = d.devices[dst]
	}
	w.price = func(*op) cost { return d.prefetch(r.managed, off, uint64(bytes), processor(dst), use, busy) }
	d.host += d.prof.Managed.PrefetchCall.Value
	_, err = s.enqueue(w, what)
	return err
}

// processor is who a device of the driver API is.
func processor(dev cu.Device) uvm.Processor {
	if dev == cu.CPUDevice {
		return uvm.CPU
	}
	return uvm.Processor(dev)
}

// prefetch moves pages and is what that costs.
func (d *Driver) prefetch(m *managedState, off, n uint64, to uvm.Processor, use resource, busy bool) cost {
	m.prefetchedTo(off, n, to)
	w := m.pages.Migrate(off, n, to)
	curve := &d.prof.Managed.PrefetchHtoD
	if to == uvm.CPU {
		curve = &d.prof.Managed.PrefetchDtoH
	}
	k := curveCost(curve, w.In+w.Out+w.Peer+w.Zeroed, use)
	if extra := d.prof.Managed.PrefetchBusy.Ns(float64(n)); busy && extra > 0 {
		k.use[use] *= k.ns / (k.ns + extra)
		k.ns += extra
	}
	return k
}

// MemAdvise gives advice on pages.
func (d *Driver) MemAdvise(h cu.Context, dptr cu.DevicePtr, bytes uintptr, how cu.MemAdvice, dev cu.Device) error {
	what := "advise on " + size(uint64(bytes))
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	r, off, err := d.managedRange(dptr, uint64(bytes), what)
	if err != nil {
		return err
	}
	change, located := adviceChange(how, dev)
	switch {
	case change == nil:
		return refuse(cu.ErrorInvalidValue, what, "no advice %d", how)
	case located:
		if err := d.location(dev, what); err != nil {
			return err
		}
	}
	r.managed.pages.Advise(off, uint64(bytes), change)
	return nil
}

// adviceChange is what a piece of advice changes, and whether dev matters.
func adviceChange(how cu.MemAdvice, dev cu.Device) (change func(*uvm.Advice), located bool) {
	bit := uint32(1) << (uint32(dev) & 31) // the host's is the last
	switch how {
	case cu.MemAdviseSetReadMostly:
		return func(a *uvm.Advice) { a.ReadMostly = true }, false
	case cu.MemAdviseUnsetReadMostly:
		return func(a *uvm.Advice) { a.ReadMostly = false }, false
	case cu.MemAdviseSetPreferredLocation:
		return func(a *uvm.Advice) { a.Preferred = processor(dev) }, true
	case cu.MemAdviseUnsetPreferredLocation:
		return func(a *uvm.Advice) { a.Preferred = uvm.Nowhere }, false
	case cu.MemAdviseSetAccessedBy:
		return func(a *uvm.Advice) { a.AccessedBy |= bit }, true
	case cu.MemAdviseUnsetAccessedBy:
		return func(a *uvm.Advice) { a.AccessedBy &^= bit }, true
	}
	return nil, false
}

// MemRangeGetAttribute reads advice back.
func (d *Driver) MemRangeGetAttribute(h cu.Context, data []int32, attribute cu.MemRangeAttribute, dptr cu.DevicePtr, bytes uintptr) error {
	const what = "read advice"
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	r, off, err := d.managedRange(dptr, uint64(bytes), what)
	if err != nil {
		return err
	}
	if len(data) == 0 || attribute != cu.MemRangeAttributeAccessedBy && len(data) != 1 {
		return refuse(cu.ErrorInvalidValue, what, "%d places for the answer to attribute %d", len(data), attribute)
	}
	m := r.managed
	place := func(v int32, ok bool) {
		if !ok {
			v = int32(cu.InvalidDevice)
		}
		data[0] = v
	}
	switch attribute {
	case cu.MemRangeAttributeReadMostly:
		data[0], _ = m.common(off, uint64(bytes), func(a uvm.Advice) int32 {
			if a.ReadMostly {
				return 1
			}
			return 0
		})
	case cu.MemRangeAttributePreferredLocation:
		place(m.common(off, uint64(bytes), func(a uvm.Advice) int32 { return int32(a.Preferred) }))
	case cu.MemRangeAttributeLastPrefetchLocation:
		at, ok := m.lastPrefetch(off, uint64(bytes))
		place(int32(at), ok)
	case cu.MemRangeAttributeAccessedBy:
		m.accessors(data, off, uint64(bytes))
	default:
		return refuse(cu.ErrorInvalidValue, what, "no attribute %d", attribute)
	}
	return nil
}

// accessors lists who all pages of a range are accessed by.
func (m *managedState) accessors(data []int32, off, n uint64) {
	n0 := 0
	for bit := range 32 {
		v, ok := m.common(off, n, func(a uvm.Advice) int32 { return int32(a.AccessedBy >> bit & 1) })
		if !ok || v == 0 || n0 == len(data) {
			continue
		}
		data[n0] = int32(bit)
		if bit == 31 {
			data[n0] = int32(cu.CPUDevice)
		}
		n0++
	}
	for ; n0 < len(data); n0++ {
		data[n0] = int32(cu.InvalidDevice)
	}
}

// StreamAttachMemAsync changes who may touch managed memory from this point of
// the stream on. It matters where CONCURRENT_MANAGED_ACCESS is 0.
func (d *Driver) StreamAttachMemAsync(h cu.Context, stream cu.Stream, dptr cu.DevicePtr, bytes uintptr, flags cu.MemAttachFlags) error {
	const what = "attach managed memory"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	r, off, err := d.managedRange(dptr, max(uint64(bytes), 1), what)
	switch {
	case err != nil:
		return err
	case off != 0 || bytes != 0 && uint64(bytes) != r.size:
		return refuse(cu.ErrorInvalidValue, what, "only a whole allocation can be attached")
	case flags != cu.MemAttachGlobal && flags != cu.MemAttachHost && flags != cu.MemAttachSingle:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not one of the three", uint32(flags))
	case flags == cu.MemAttachSingle && (s == s.ctx.legacy):
		return refuse(cu.ErrorInvalidValue, what, "MemAttachSingle needs a stream of your own")
	case s.capture != nil:
		s.capture.invalidate()
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "the stream captures")
	}
	a := &attachment{flags: flags}
	if flags == cu.MemAttachSingle {
		a.stream = s
	}
	_, err = s.enqueue(&work{kind: cu.GraphNodeTypeEmpty, what: what, done: func(*op) { r.managed.attach.Store(a) }}, what)
	return err
}
