package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// MemHostAlloc allocates page-locked memory.
//
// With unified addressing all of it is mapped at the host's own address and
// known to every context, whatever the flags. Without, only this context knows
// it unless it is portable. It then has a device address only with
// MemHostAllocDeviceMap, in a context that was made with CtxMapHost. An
// allocation of zero bytes is nil.
func (d *Driver) MemHostAlloc(h cu.Context, bytes uintptr, flags cu.MemHostAllocFlags) (cu.HostPtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of page-locked memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	const known = cu.MemHostAllocPortable | cu.MemHostAllocDeviceMap | cu.MemHostAllocWriteCombined
	switch {
	case flags&^known != 0:
		return nil, refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^known))
	case bytes == 0:
		return nil, nil
	}
	if most := d.prof.Host.WriteCombined.Value; flags&cu.MemHostAllocWriteCombined != 0 && most > 0 && float64(bytes) > most {
		return nil, refuse(cu.ErrorInvalidValue, what, "it is write-combined, and this machine (%s) refuses more than %s of that: allocate without CU_MEMHOSTALLOC_WRITECOMBINED", d.prof.Name, size(uint64(most)))
	}
	mapped := flags&cu.MemHostAllocDeviceMap != 0
	if err := c.mayMap(mapped, what); err != nil {
		return nil, err
	}
	if err := c.unsafeInCapture(what); err != nil {
		return nil, err
	}
	r := c.newRegion(kindHost)
	if err := r.allocHost(uint64(bytes), what); err != nil {
		return nil, err
	}
	d.spend(d.prof.Own.HostAlloc.Ns(float64(bytes)))
	r.alloc = flags
	r.shared = d.uva || flags&cu.MemHostAllocPortable != 0
	c.mapHost(r, mapped, true, false)
	return r.host, nil
}

// mayMap fails if the device or the context cannot map host memory.
func (c *contextState) mayMap(mapped bool, what string) error {
	switch {
	case !mapped:
	case c.dev.attr(cu.DeviceAttributeCanMapHostMemory) == 0:
		return c.dev.lacks(what, cu.DeviceAttributeCanMapHostMemory)
	case !c.drv.uva && c.flags&cu.CtxMapHost == 0:
		return refuse(cu.ErrorInvalidValue, what, "mapping needs a context made with CtxMapHost on a device without unified addressing")
	}
	return nil
}

// mapHost gives host memory its device address and adds it to the address
// table. If same is true, the device's address is the host's under unified
// addressing.
func (c *contextState) mapHost(r *region, mapped, same, readOnly bool) {
	d := c.drv
	switch {
	case d.uva && same:
		r.device = r.base
	case d.uva || mapped:
		inPage := r.base % pageSize // pages are mapped whole
		r.device = c.dev.memory.nextAlias(inPage+r.size) + inPage
	}
	r.segments(readOnly)
	r.state.Store(stateLive)
	c.regions[r] = struct{}{}
	d.space.insert(addressRange{base: r.base, end: r.end(), region: r})
	if r.device != 0 && r.device != r.base {
		d.space.insert(addressRange{base: r.device, end: r.device + r.size, region: r, alias: true})
	}
}

// MemFreeHost frees page-locked memory when the work of its context is done.
func (d *Driver) MemFreeHost(h cu.Context, p cu.HostPtr) error {
	const what = "free page-locked memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	r, err := d.hostRegion(p, kindHost, what)
	if err != nil {
		return err
	}
	if err := d.syncFor(r); err != nil {
		return err
	}
	if r, err = d.hostRegion(p, kindHost, what); err != nil {
		return err
	}
	d.spend(d.prof.Own.HostFree.Ns(float64(r.size)))
	r.raceFree()
	r.free()
	return nil
}

// syncFor waits for all work that may use host memory r. Only an error of its own context
// counts.
func (d *Driver) syncFor(r *region) error {
	if !r.shared {
		return r.ctx.sync()
	}
	for _, c := range d.contexts() {
		if err := c.sync(); err != nil && c == r.ctx {
			return err
		}
	}
	return nil
}

// hostRegion returns the region of kind k that starts at p.
func (d *Driver) hostRegion(p cu.HostPtr, k kind, what string) (*region, error) {
	x, ok := d.space.find(addressOf(p))
	switch {
	case !ok:
		return nil, refuse(cu.ErrorInvalidValue, what, "%p: %s", p, d.space.near(addressOf(p)))
	case x.region.kind != k:
		return nil, refuse(cu.ErrorInvalidValue, what, "%p is a %v, not a %v", p, x.region.kind, k)
	case x.base != addressOf(p):
		return nil, refuse(cu.ErrorInvalidValue, what, "%p is inside a %v that starts at %#x", p, k, x.base)
	}
	return x.region, nil
}

// MemHostGetDevicePointer returns the device address of mapped page-locked
// memory.
func (d *Driver) MemHostGetDevicePointer(h cu.Context, p cu.HostPtr, flags uint32) (cu.DevicePtr, error) {
	const what = "get the device address of host memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(addressOf(p))
	r := x.region
	switch {
	case flags != 0:
		return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	case !ok || x.alias || !r.kind.onHost():
		return 0, refuse(cu.ErrorInvalidValue, what, "%p is not page-locked memory: %s", p, d.space.near(addressOf(p)))
	case !r.seenBy(c):
		return 0, refuse(cu.ErrorInvalidValue, what, "%p was page-locked in another context and is not portable", p)
	case r.device == 0:
		return 0, refuse(cu.ErrorInvalidValue, what, "%p was page-locked without DeviceMap", p)
	}
	return cu.DevicePtr(r.device + addressOf(p) - r.base), nil
}

// MemHostGetFlags returns the flags of page-locked memory. As on hardware, with
// unified addressing all of it is mapped, and an allocation does not report
// whether it is portable.
func (d *Driver) MemHostGetFlags(h cu.Context, p cu.HostPtr) (cu.MemHostAllocFlags, error) {
	const what = "get flags of host memory"
	if _, err := d.beginIn(h, what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(addressOf(p))
	if !ok || x.region.kind != kindHost && x.region.kind != kindRegistered {
		return 0, refuse(cu.ErrorInvalidValue, what, "%p is not page-locked: %s", p, d.space.near(addressOf(p)))
	}
	r := x.region
	flags := r.alloc
	if r.kind == kindRegistered {
		flags = registeredFlags(r.reg)
	}
	if !d.uva {
		return flags, nil
	}
	if r.kind == kindHost {
		flags &^= cu.MemHostAllocPortable
	}
	return flags | cu.MemHostAllocDeviceMap, nil
}

// registeredFlags converts registration flags to allocation flags.
func registeredFlags(flags cu.MemHostRegisterFlags) (out cu.MemHostAllocFlags) {
	if flags&cu.MemHostRegisterPortable != 0 {
		out |= cu.MemHostAllocPortable
	}
	if flags&cu.MemHostRegisterDeviceMap != 0 {
		out |= cu.MemHostAllocDeviceMap
	}
	return out
}

// MemHostRegister page-locks existing memory.
func (d *Driver) MemHostRegister(h cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error {
	what := "register " + size(uint64(bytes)) + " of host memory"
	byPin := callsite.ByPin()
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := c.mayRegister(p, uint64(bytes), flags, what); err != nil {
		return err
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	base := addressOf(p)
	if x, taken := d.space.overlaps(base, base+uint64(bytes)); taken {
		code := cu.ErrorInvalidValue
		if x.region.kind == kindRegistered {
			code = cu.ErrorHostMemoryAlreadyRegistered
		}
		return refuse(code, what, "it overlaps with a %v of %s at %#x", x.region.shownKind(), size(x.region.size), x.base)
	}
	if err := d.mayLock(uint64(bytes), false, what); err != nil {
		return err
	}
	if err := probe(p, bytes, flags&cu.MemHostRegisterReadOnly == 0); err != nil {
		return refuse(cu.ErrorInvalidValue, what, "%v", err)
	}
	d.spend(d.prof.Own.Register.Ns(float64(bytes)))
	r := c.newRegion(kindRegistered)
	r.base, r.size, r.host, r.reg, r.byPin = base, uint64(bytes), p, flags, byPin
	r.data = bytesAt(p, r.size)
	r.shared = d.uva || flags&cu.MemHostRegisterPortable != 0
	same := c.dev.attr(cu.DeviceAttributeCanUseHostPointerForRegisteredMem) != 0
	c.mapHost(r, flags&cu.MemHostRegisterDeviceMap != 0, same, flags&cu.MemHostRegisterReadOnly != 0)
	return nil
}

func (c *contextState) mayRegister(p cu.HostPtr, n uint64, flags cu.MemHostRegisterFlags, what string) error {
	const known = cu.MemHostRegisterPortable | cu.MemHostRegisterDeviceMap | cu.MemHostRegisterIOMemory | cu.MemHostRegisterReadOnly
	switch {
	case c.dev.attr(cu.DeviceAttributeHostRegisterSupported) == 0:
		return c.dev.lacks(what, cu.DeviceAttributeHostRegisterSupported)
	case flags&^known != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^known))
	case p == nil || n == 0:
		return refuse(cu.ErrorInvalidValue, what, "%p is nil, or the range is empty", p)
	case addressOf(p)+n < n || addressOf(p)+n > deviceBase:
		return refuse(cu.ErrorInvalidValue, what, "%p is not a host address, or the range is longer than the address space", p)
	case flags&cu.MemHostRegisterIOMemory != 0:
		return refuse(cu.ErrorInvalidValue, what, "the software GPU has no I/O memory to register")
	case flags&cu.MemHostRegisterReadOnly != 0 && c.dev.attr(cu.DeviceAttributeReadOnlyHostRegisterSupported) == 0:
		return c.dev.lacks(what, cu.DeviceAttributeReadOnlyHostRegisterSupported)
	}
	return c.mayMap(flags&cu.MemHostRegisterDeviceMap != 0, what)
}

// MemHostUnregister undoes MemHostRegister when the work of its context is
// done.
func (d *Driver) MemHostUnregister(h cu.Context, p cu.HostPtr) error {
	const what = "unregister host memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if p == nil {
		return refuse(cu.ErrorInvalidValue, what, "the address is nil")
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	find := func() (*region, error) {
		r, err := d.hostRegion(p, kindRegistered, what)
		if _, known := d.space.find(addressOf(p)); err != nil && !known {
			err = refuse(cu.ErrorHostMemoryNotRegistered, what, "no registration starts at %p: %s", p, d.space.near(addressOf(p)))
		}
		return r, err
	}
	r, err := find()
	if err != nil {
		return err
	}
	if err := d.syncFor(r); err != nil {
		return err
	}
	if r, err = find(); err != nil {
		return err
	}
	d.spend(d.prof.Own.Unregister.Ns(float64(r.size)))
	r.free()
	return nil
}

// HostAccess reports that the host is about to use n bytes at p.
//
// Managed pages on a device migrate to the host, which waits for them. Reads of
// page-locked memory cost the host time, more so if the CPU does not cache it,
// as of write-combined memory. On virtual machines that memory is cached. Writes
// stay modified in the CPU's caches, so the device's next read is slower. Bytes of
// page-locked memory cost time at the first call after a kernel, or after another
// operation that uses the memory. Loads and stores that no call tells of cost
// nothing. If host and devices must not use managed memory at the same time,
// HostAccess fails while a kernel that may use it is queued or running.
func (d *Driver) HostAccess(p cu.HostPtr, n uintptr, write bool) error {
	if forked.Child() {
		return forked.New("host access")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, end := addressOf(p), addressOf(p)+uint64(n)
	copied := d.moves.takes(addr, n, write)
	for addr < end {
		x, ok := d.space.overlaps(addr, end)
		if !ok {
			return nil
		}
		if x.region.managed != nil {
			if err := d.checkHostAccess(x); err != nil {
				return err
			}
			from, to := max(addr, x.base), min(end, x.end)
			d.atNow(func() { d.touchManaged(x.region, from-x.base, to-from, write) })
		} else {
			d.touchPinned(x.region, max(addr, x.base), min(end, x.end), write, copied)
		}
		addr = x.end
	}
	return nil
}

// touchManaged moves managed pages that the host touches, and lets the host
// wait for them.
func (d *Driver) touchManaged(r *region, off, n uint64, write bool) {
	if write {
		d.written += n
		r.dirty = dirty{bytes: n, upTo: d.written}
	}
	m := r.managed
	price, ns := hostFaults(&d.prof.Managed), 0.0
	w := m.pages.CPU(off, n, write, d.host, func(w uvm.Work) float64 {
		part := price(w)
		ns += part
		return part
	})
	d.host += ns + w.Slept
}

// checkHostAccess fails if CONCURRENT_MANAGED_ACCESS is 0 and a kernel may be
// using the managed memory.
func (d *Driver) checkHostAccess(x addressRange) error {
	if !d.devices[0].concurrentManaged() {
		d.settle() // the kernels that have ended must be known
	}
	what := "host access to " + x.String()
	refused := func(n int, whose string) error {
		return refuse(cu.ErrorIllegalState, what, "%d kernels of %s are queued or running, and this machine has %v = 0: synchronize first, or attach the memory to the host or to another stream with StreamAttachMemAsync",
			n, whose, cu.DeviceAttributeConcurrentManagedAccess)
	}
	switch a := x.region.managed.attach.Load(); a.flags {
	case cu.MemAttachHost:
	case cu.MemAttachSingle:
		if n := a.stream.kernels; n > 0 && !a.stream.ctx.dev.concurrentManaged() {
			return refused(n, "the stream to which it is attached")
		}
	default:
		for _, c := range d.contexts() {
			if c.kernels > 0 && !c.dev.concurrentManaged() {
				return refused(c.kernels, "a context")
			}
		}
	}
	return nil
}

// touchPinned records the host's use of a range of page-locked memory. The first
// use costs the host time, more so if the CPU does not cache the memory. copied
// says that the time of a copy by the CPU has it already.
func (d *Driver) touchPinned(r *region, from, to uint64, write, copied bool) {
	if write {
		d.inOrder(func() {
			d.written += to - from
			r.dirty = dirty{bytes: to - from, upTo: d.written}
		})
	}
	h, n := &d.prof.Host, float64(r.firstTouch(from, to, write))
	switch {
	case n == 0 || copied:
	case write:
		d.spend(h.CachedWrite.Ns(n))
	case r.alloc&cu.MemHostAllocWriteCombined != 0:
		d.spend(h.CachedRead.Ns(n) + h.WriteCombinedRead.Ns(n))
	default:
		d.spend(h.CachedRead.Ns(n) + h.UncachedRead.Ns(n))
	}
}

// noteUses notes the memory that o may use, when it is queued.
func (o *op) noteUses() {
	if o.kind == cu.GraphNodeTypeKernel {
		o.ctx.drv.lastKernel = o.id
	}
	for _, r := range o.work.uses {
		if r != nil {
			r.used = o.id
		}
	}
}

// seen is bytes that the host has used after an op, and before any later one.
type seen struct {
	from, to uint64
	after    uint64 // the op
}

// firstTouch returns how many bytes the host uses for the first time after the last op that was
// queued on r, and notes them. It remembers one range.
func (r *region) firstTouch(from, to uint64, write bool) uint64 {
	s := &r.seen[0]
	if write {
		s = &r.seen[1]
	}
	last := max(r.used, r.ctx.drv.lastKernel)
	if last > s.after || from > s.to || to < s.from {
		*s = seen{from, to, last}
		return to - from
	}
	known := min(to, s.to) - max(from, s.from)
	s.from, s.to = min(from, s.from), max(to, s.to)
	return to - from - known
}

// dirty is what the host wrote to a region last and no device has read since.
type dirty struct {
	bytes uint64
	upTo  uint64 // Driver.written after the write
}

// dirtyReadNs returns the extra time of the device's read of n bytes of r
// because the host's caches hold modified bytes. The extra time is charged
// once. Later writes of the host push the bytes to slower, larger caches, or to
// memory. The curve gives the cost of all bytes down to a depth.
func (d *Driver) dirtyReadNs(r *region, n uint64) float64 {
	w := r.dirty
	r.dirty = dirty{}
	if w.bytes == 0 {
		return 0
	}
	depth := float64(d.written - w.upTo)
	fresh := &d.prof.Link.Fresh
	return max(0, fresh.Ns(depth+float64(min(n, w.bytes)))-fresh.Ns(depth))
}

// HostMove reports that the host is about to copy n bytes from src to dst by
// itself, before HostAccess of both. The host's clock advances by the time of that
// copy on the emulated machine. So HostAccess counts no time for them then.
func (d *Driver) HostMove(dst, src cu.HostPtr, n uintptr) {
	if forked.Child() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spend(d.prof.Copy.HtoH.Ns(float64(n)))
	d.moves = hostMove{addressOf(src), addressOf(dst), n}
}

// hostMove is a copy by the CPU that is about to use its source and destination. An
// address is 0 when HostAccess has had it.
type hostMove struct {
	from, to uint64
	bytes    uintptr
}

// takes reports whether n bytes at an address are the side of the copy that is used next.
func (m *hostMove) takes(addr uint64, n uintptr, write bool) bool {
	side := &m.from
	if write {
		side = &m.to
	}
	if *side != addr || m.bytes != n {
		return false
	}
	*side = 0
	return true
}

// HostCopy reports that threads of the host have copied n bytes from ordinary
// to page-locked memory, or back. The host's clock advances by the time of that
// copy on the emulated machine.
func (d *Driver) HostCopy(n uintptr, threads int, back bool) {
	k := &d.prof.Staging
	one, most := k.Fill.Value, k.FillMost.Value
	if back {
		one, most = k.Drain.Value, k.DrainMost.Value
	}
	rate := min(float64(max(1, threads))*one, most)
	if rate <= 0 || forked.Child() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spend(float64(n) / rate * 1e9)
}
