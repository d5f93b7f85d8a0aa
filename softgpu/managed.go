package softgpu

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// Managed memory has one address for host and device, and both can always use
// its bytes. Package uvm records where the pages would be on hardware, for the
// time model and for queries. Driver.mu guards all of it.

// managedState is the managed memory of a region.
type managedState struct {
	pages      *uvm.Range
	size       uint64
	prefetched []uvm.Processor // by page: the place of the last prefetch; nil before the first
	attach     atomic.Pointer[attachment]
}

// attachment restricts the use of memory that host and device must not use at
// the same time.
type attachment struct {
	flags  cu.MemAttachFlags
	stream *streamState // of MemAttachSingle
}

func (d *Driver) newManagedState(n uint64, flags cu.MemAttachFlags) *managedState {
	m := &managedState{size: n, pages: d.managed.Alloc(n)}
	m.attach.Store(&attachment{flags: flags})
	return m
}

// newManagedSpace makes the managed memory of d's devices.
func (d *Driver) newManagedSpace() *uvm.Space {
	s := uvm.NewSpace(len(d.devices))
	s.Capacity = func(dev uvm.Processor) uint64 { return d.devices[dev].memory.free() }
	return s
}

// advicePages returns the pages of n bytes at off, counted from the region's
// start.
func advicePages(off, n uint64) (first, past uint64) {
	return off >> uvm.PageShift, (off + n + uvm.PageSize - 1) >> uvm.PageShift
}

// prefetchedTo records that n bytes at off were prefetched to a processor.
func (m *managedState) prefetchedTo(off, n uint64, at uvm.Processor) {
	if m.prefetched == nil {
		_, all := advicePages(0, m.size)
		m.prefetched = make([]uvm.Processor, all)
		for i := range m.prefetched {
			m.prefetched[i] = uvm.Nowhere
		}
	}
	for i, past := advicePages(off, n); i < past; i++ {
		m.prefetched[i] = at
	}
}

// lastPrefetch returns the place to which n bytes at off were prefetched last.
// ok is false if it is not the same for all of them.
func (m *managedState) lastPrefetch(off, n uint64) (at uvm.Processor, ok bool) {
	if m.prefetched == nil {
		return uvm.Nowhere, true
	}
	first, past := advicePages(off, n)
	at = m.prefetched[first]
	for _, p := range m.prefetched[first:past] {
		if p != at {
			return at, false
		}
	}
	return at, true
}

// common returns the part of the advice that read selects. ok is false if it is
// not the same for the whole range.
func (m *managedState) common(off, n uint64, read func(uvm.Advice) int32) (v int32, ok bool) {
	return m.pages.Common(off, n, read)
}

// MemAllocManaged allocates managed memory.
func (d *Driver) MemAllocManaged(h cu.Context, bytes uintptr, flags cu.MemAttachFlags) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of managed memory"
	c, err := d.beginIn(h, what)
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
		return 0, refuse(cu.ErrorInvalidValue, what, "an allocation of zero bytes is not allowed")
	}
	if err := c.unsafeInCapture(what); err != nil {
		return 0, err
	}
	d.spend(d.prof.Own.DeviceAllocate.Value)
	r, err := c.allocateManaged(uint64(bytes), flags, what)
	if err != nil {
		return 0, err
	}
	return cu.DevicePtr(r.base), nil
}

// managedRange returns the managed region that contains the whole range, and
// the offset of the range in it.
func (d *Driver) managedRange(dptr cu.DevicePtr, n uint64, what string) (*region, uint64, error) {
	x, ok := d.space.find(uint64(dptr))
	switch {
	case n == 0:
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "the range is empty")
	case !ok || x.region.kind != kindManaged:
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "%#x is not managed memory: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case n > x.end-uint64(dptr):
		return nil, 0, refuse(cu.ErrorInvalidValue, what, "%s at %#x extend past the end of %s", size(n), uint64(dptr), x.String())
	}
	return x.region, uint64(dptr) - x.base, nil
}

// checkLocation fails if managed memory cannot move to dev.
func (d *Driver) checkLocation(dev cu.Device, what string) error {
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

// MemPrefetchAsync moves pages in stream order.
func (d *Driver) MemPrefetchAsync(h cu.Context, dptr cu.DevicePtr, bytes uintptr, dst cu.Device, stream cu.Stream) error {
	return d.prefetchCall(h, dptr, bytes, stream, func(what string) (cu.Device, error) { return dst, d.checkLocation(dst, what) })
}

// prefetchCall makes the call of a prefetch to a place that the driver checks when it is locked.
func (d *Driver) prefetchCall(h cu.Context, dptr cu.DevicePtr, bytes uintptr, stream cu.Stream, place func(what string) (cu.Device, error)) error {
	what := "prefetch " + size(uint64(bytes))
	c, err := d.beginIn(h, what)
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
	dst, err := place(what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil { // as on hardware, a prefetch cannot be captured
		return err
	}
	return d.queuePrefetch(c, s, r, off, uint64(bytes), dst, what)
}

// queuePrefetch queues a prefetch that has been checked.
func (d *Driver) queuePrefetch(c *contextState, s *streamState, r *region, off, bytes uint64, dst cu.Device, what string) error {
	w := &work{kind: cu.GraphNodeTypeMemcpy, what: what, engine: engineIn, dev: c.dev, moved: moved{bytes, "managed", "managed"}}
	use := resIn
	busy, _ := s.busy()
	if err := s.ctx.alive(what); err != nil {
		return err
	}
	if dst == cu.CPUDevice {
		w.engine, use = engineOut, resOut
	} else {
		w.dev = d.devices[dst]
	}
	w.price = func(*op) cost { return d.prefetch(r.managed, off, bytes, processor(dst), use, *busy) }
	d.spend(d.prof.Managed.PrefetchCall.Value)
	_, err := s.enqueue(w, what)
	return err
}

// processor converts a device of the driver API.
func processor(dev cu.Device) uvm.Processor {
	if dev == cu.CPUDevice {
		return uvm.CPU
	}
	return uvm.Processor(dev)
}

// prefetch moves pages and returns the cost.
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
	return d.adviseCall(h, dptr, bytes, how, func(string) (cu.Device, error) { return dev, nil })
}

// adviseCall makes the call of advice about a place that the driver checks when it is locked.
func (d *Driver) adviseCall(h cu.Context, dptr cu.DevicePtr, bytes uintptr, how cu.MemAdvice, place func(what string) (cu.Device, error)) error {
	what := "advise on " + size(uint64(bytes))
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	r, off, err := d.managedRange(dptr, uint64(bytes), what)
	if err != nil {
		return err
	}
	dev, err := place(what)
	if err != nil {
		return err
	}
	change, located := adviceChange(how, dev)
	switch {
	case change == nil:
		return refuse(cu.ErrorInvalidValue, what, "advice %d is not known", how)
	case located:
		if err := d.checkLocation(dev, what); err != nil {
			return err
		}
	}
	r.managed.pages.Advise(off, uint64(bytes), change)
	return nil
}

// adviceChange returns the change that a piece of advice makes. located reports
// whether dev matters.
func adviceChange(how cu.MemAdvice, dev cu.Device) (change func(*uvm.Advice), located bool) {
	bit := uint32(1) << (uint32(dev) & 31) // the host's bit is the last
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

// MemRangeGetAttribute returns the advice on a range.
func (d *Driver) MemRangeGetAttribute(h cu.Context, data []int32, attribute cu.MemRangeAttribute, dptr cu.DevicePtr, bytes uintptr) error {
	const what = "read advice"
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	r, off, err := d.managedRange(dptr, uint64(bytes), what)
	if err != nil {
		return err
	}
	if len(data) == 0 || attribute != cu.MemRangeAttributeAccessedBy && len(data) != 1 {
		return refuse(cu.ErrorInvalidValue, what, "%d elements for the value of attribute %d", len(data), attribute)
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
		return refuse(cu.ErrorInvalidValue, what, "attribute %d is not known", attribute)
	}
	return nil
}

// accessors lists the processors that the advice accessed-by names for the
// whole range.
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

// StreamAttachMemAsync changes, in stream order, which stream or processor may
// use managed memory. It matters only if CONCURRENT_MANAGED_ACCESS is 0.
func (d *Driver) StreamAttachMemAsync(h cu.Context, stream cu.Stream, dptr cu.DevicePtr, bytes uintptr, flags cu.MemAttachFlags) error {
	const what = "attach managed memory"
	c, err := d.beginIn(h, what)
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
		return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be MemAttachGlobal, MemAttachHost or MemAttachSingle", uint32(flags))
	case flags == cu.MemAttachSingle && (s == s.ctx.legacy):
		return refuse(cu.ErrorInvalidValue, what, "MemAttachSingle needs a stream other than the legacy default stream")
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

// partNs returns the additional cost of blocks that moved to a device in part.
// The rest of such a block stays mapped where it is, in smaller pages.
func partNs(s *profile.Service, w uvm.Work) float64 {
	return s.Part.Value*float64(w.Parts) + s.PartMiB.Value*float64(w.PartBytes)/(1<<20)
}

// dirtyManagedNs returns the extra time of a kernel's reads of managed memory
// that the host has just written and that the kernel uses over the link, n bytes
// in all. What has moved to the device has the cost of the move.
func (x *execution) dirtyManagedNs(d *Driver, n uint64) (ns float64) {
	remote := n > 0
	for _, r := range inOrder(*x.view.own.Load()) {
		switch {
		case r.managed == nil:
		case remote:
			here := min(n, r.size)
			ns += d.dirtyReadNs(r, here)
			n -= here
		default:
			r.dirty = dirty{}
		}
	}
	return ns
}
