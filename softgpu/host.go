package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// MemHostAlloc takes page-locked memory.
//
// Under unified addressing all of it is mapped at the host's own address and
// known to every context, whatever the flags. Without, it is known to this
// context unless portable, and has a device address only if asked for with
// MemHostAllocDeviceMap in a context that was made with CtxMapHost. Zero bytes
// are nil.
func (d *Driver) MemHostAlloc(h cu.Context, bytes uintptr, flags cu.MemHostAllocFlags) (cu.HostPtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of page-locked memory"
	c, err := d.enter(h, what)
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
	mapped := flags&cu.MemHostAllocDeviceMap != 0
	if err := c.mayMap(mapped, what); err != nil {
		return nil, err
	}
	if err := c.unsafeInCapture(what); err != nil {
		return nil, err
	}
	r := c.newRegion(kindHost)
	if err := r.backHost(uint64(bytes), what); err != nil {
		return nil, err
	}
	d.host += d.prof.Own.HostAlloc.Ns(float64(bytes))
	r.alloc = flags
	r.shared = d.uva || flags&cu.MemHostAllocPortable != 0
	c.mapHost(r, mapped, true, false)
	return r.host, nil
}

// mayMap refuses mapping where the device or the context cannot.
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

// backHost gives r bytes at an address of the host's.
func (r *region) backHost(n uint64, what string) error {
	if n > 1<<47 {
		return refuse(cu.ErrorOutOfMemory, what, "more than a host address can count")
	}
	align := r.alignment(n)
	b, err := r.ctx.drv.back(roundUp(n, align)+align-pageSize, reserveHost, what)
	if err != nil {
		return err
	}
	skip := -addressOf(pointerTo(b.data)) & (align - 1)
	r.back, r.data, r.size = b, b.data[skip:skip+n:skip+n], n
	r.host = pointerTo(r.data)
	r.base = addressOf(r.host)
	return nil
}

// alignment is what the address of n bytes is a multiple of: whole pages of the
// CPU's, and for managed memory such that the device can have it in large ones.
func (r *region) alignment(n uint64) uint64 {
	page := max(pageSize, uint64(r.ctx.drv.prof.Host.Page.Value))
	switch {
	case r.kind != kindManaged:
		return page
	case n < blockSize:
		return max(page, bigPage)
	}
	return blockSize
}

// mapHost gives host memory its device address and enters it in the table. same:
// under unified addressing the device's address is the host's.
func (c *contextState) mapHost(r *region, mapped, same, readOnly bool) {
	d := c.drv
	switch {
	case d.uva && same:
		r.device = r.base
	case d.uva || mapped:
		inPage := r.base % pageSize // pages are mapped whole
		r.device = c.dev.memory.takeAlias(inPage+r.size) + inPage
	}
	r.segments(readOnly)
	r.state.Store(stateLive)
	c.regions[r] = struct{}{}
	d.space.insert(span{base: r.base, end: r.end(), region: r})
	if r.device != 0 && r.device != r.base {
		d.space.insert(span{base: r.device, end: r.device + r.size, region: r, alias: true})
	}
}

// MemFreeHost frees page-locked memory when the work of its context is done.
func (d *Driver) MemFreeHost(h cu.Context, p cu.HostPtr) error {
	const what = "free page-locked memory"
	c, err := d.enter(h, what)
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
	d.host += d.prof.Own.HostFree.Ns(float64(r.size))
	r.raceFree()
	r.free()
	return nil
}

// syncFor waits for all work that may use host memory r.
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

// hostRegion is the region of kind k that starts at p.
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

// MemHostGetDevicePointer is the device address of mapped page-locked memory.
func (d *Driver) MemHostGetDevicePointer(h cu.Context, p cu.HostPtr, flags uint32) (cu.DevicePtr, error) {
	const what = "device address of host memory"
	c, err := d.enter(h, what)
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

// MemHostGetFlags reads the flags of page-locked memory. Under unified addressing
// all of it is mapped, and what was allocated tells nothing of being portable.
func (d *Driver) MemHostGetFlags(h cu.Context, p cu.HostPtr) (cu.MemHostAllocFlags, error) {
	const what = "flags of host memory"
	if _, err := d.enter(h, what); err != nil {
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

// registeredFlags says in the words of an allocation how memory was registered.
func registeredFlags(flags cu.MemHostRegisterFlags) (out cu.MemHostAllocFlags) {
	if flags&cu.MemHostRegisterPortable != 0 {
		out |= cu.MemHostAllocPortable
	}
	if flags&cu.MemHostRegisterDeviceMap != 0 {
		out |= cu.MemHostAllocDeviceMap
	}
	return out
}

// MemHostRegister page-locks memory that exists already.
func (d *Driver) MemHostRegister(h cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error {
	what := "register " + size(uint64(bytes)) + " of host memory"
	c, err := d.enter(h, what)
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
		return refuse(code, what, "it shares bytes with a %v of %s at %#x", x.region.kind, size(x.region.size), x.base)
	}
	if err := probe(p, bytes, flags&cu.MemHostRegisterReadOnly == 0); err != nil {
		return refuse(cu.ErrorInvalidValue, what, "%v", err)
	}
	d.host += d.prof.Own.Register.Ns(float64(bytes))
	r := c.newRegion(kindRegistered)
	r.base, r.size, r.host, r.reg = base, uint64(bytes), p, flags
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
		return refuse(cu.ErrorInvalidValue, what, "nothing to register at %p", p)
	case addressOf(p)+n < n || addressOf(p)+n > deviceBase:
		return refuse(cu.ErrorInvalidValue, what, "%p is no host address, or the range is longer than memory", p)
	case flags&cu.MemHostRegisterIOMemory != 0:
		return refuse(cu.ErrorNotPermitted, what, "the software GPU has no I/O memory to register")
	case flags&cu.MemHostRegisterReadOnly != 0 && c.dev.attr(cu.DeviceAttributeReadOnlyHostRegisterSupported) == 0:
		return c.dev.lacks(what, cu.DeviceAttributeReadOnlyHostRegisterSupported)
	}
	return c.mayMap(flags&cu.MemHostRegisterDeviceMap != 0, what)
}

// MemHostUnregister undoes MemHostRegister when the work of its context is done.
func (d *Driver) MemHostUnregister(h cu.Context, p cu.HostPtr) error {
	const what = "unregister host memory"
	c, err := d.enter(h, what)
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
	d.host += d.prof.Own.Unregister.Ns(float64(r.size))
	r.free()
	return nil
}
