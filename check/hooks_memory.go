package check

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
)

// owns notes that the call has made or page-locked memory.
func (c *call) owns(ctx cu.Context, base, bytes uint64, s memoryKind, flags uint32) *memory {
	if base == 0 || bytes == 0 {
		return nil
	}
	byPin := s == registered && callsite.ByPin()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	m := &memory{base: base, end: base + bytes, kind: s, byPin: byPin, ctx: ctx, flags: flags, made: c.site, call: c.name, launches: c.d.launches, known: s == device || s == pooled}
	c.d.memories.add(m)
	return m
}

func (c *call) afterMemAlloc(ctx cu.Context, bytes uintptr, p cu.DevicePtr) {
	c.owns(ctx, uint64(p), uint64(bytes), device, 0)
}

func (c *call) afterMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32, p cu.DevicePtr, pitch uintptr) {
	c.owns(ctx, uint64(p), uint64(pitch*height), device, 0)
}

func (c *call) afterMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags, p cu.DevicePtr) {
	c.owns(ctx, uint64(p), uint64(bytes), managed, 0)
}

func (c *call) afterMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags, p cu.HostPtr) {
	c.owns(ctx, addressOf(p), uint64(bytes), pinned, uint32(flags))
}

func (c *call) afterMemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) {
	if m := c.owns(ctx, addressOf(p), uint64(bytes), registered, 0); m != nil {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		m.hold = newHold(p, bytes)
		m.hold.follow(p)
	}
}

func (c *call) afterModuleGetGlobal(ctx cu.Context, module cu.Module, name string, p cu.DevicePtr, bytes uintptr) {
	c.d.mu.Lock()
	m, at := c.d.memories.find(uint64(p))
	known := m != nil && m.module == module && at == m.base && m.end-m.base == uint64(bytes)
	c.d.mu.Unlock()
	if known {
		return
	}
	if m = c.owns(ctx, uint64(p), uint64(bytes), variable, 0); m != nil {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		m.module = module
	}
}

// doneModuleUnload ends the life of the module's variables.
func (c *call) doneModuleUnload(ctx cu.Context, module cu.Module, err error) {
	if err == nil {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		c.d.memories.removeAll(c, func(m *memory) bool { return m.kind == variable && m.module == module })
	}
}

func (c *call) afterMemHostGetDevicePointer(ctx cu.Context, p cu.HostPtr, flags uint32, dev cu.DevicePtr) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	x := &c.d.memories
	m, at := x.find(addressOf(p))
	if m == nil || uint64(dev) == at {
		return
	}
	x.alias(addressRange{uint64(dev) - (at - m.base), uint64(dev) + (m.end - at), m, m.base})
}

func (c *call) afterMemAllocAsync(ctx cu.Context, bytes uintptr, stream cu.Stream, p cu.DevicePtr) {
	m := c.owns(ctx, uint64(p), uint64(bytes), pooled, 0)
	if m == nil {
		return
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane = c.d.orders.lane(ctx, stream)
	if c.lane.capture != nil {
		m.graph, m.known = true, false
		p := c.lane.capture
		p.memory.made, c.lane = append(p.memory.made, m), nil
		return
	}
	c.accesses = []access{{m: m, x: flat(m.base, m.end-m.base), mode: makes}}
}

func (c *call) afterMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, pool cu.MemPool, stream cu.Stream, p cu.DevicePtr) {
	c.afterMemAllocAsync(ctx, bytes, stream, p)
}

func (c *call) beforeMemFreeAsync(ctx cu.Context, p cu.DevicePtr, stream cu.Stream) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	m, _ := c.d.memories.find(uint64(p))
	if m == nil || m.base != uint64(p) {
		return
	}
	c.freeing = m
	if l := c.d.orders.lane(ctx, stream); l.capture == nil && !m.graph {
		c.lane = l
		c.accesses = []access{{m: m, x: flat(m.base, m.end-m.base), mode: frees}}
	}
}

func (c *call) doneMemFreeAsync(ctx cu.Context, p cu.DevicePtr, stream cu.Stream, err error) {
	if c.freedInCapture(ctx, stream, err) {
		return
	}
	c.freed(uint64(p), err)
}

// freedInCapture notes the free of memory by a node of a graph. It reports whether the call was one.
func (c *call) freedInCapture(ctx cu.Context, stream cu.Stream, err error) bool {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	p := c.d.orders.lane(ctx, stream).capture
	if p == nil || err != nil || c.freeing == nil {
		return false
	}
	p.freesInGraph(c.freeing, c)
	return true
}

func (c *call) beforeMemPrefetchAsync(ctx cu.Context, p cu.DevicePtr, bytes uintptr, dst cu.Device, stream cu.Stream) {
	c.moves(ctx, stream, p, bytes)
}

func (c *call) beforeMemPrefetchAsyncV2(ctx cu.Context, p cu.DevicePtr, bytes uintptr, location cu.MemLocation, flags uint32, stream cu.Stream) {
	c.moves(ctx, stream, p, bytes)
}

func (c *call) beforeMemPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) {
	c.ranges(ctx, stream, dptrs, sizes, uses)
}

func (c *call) beforeMemDiscardBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, flags uint64, stream cu.Stream) {
	c.ranges(ctx, stream, dptrs, sizes, writes)
}

func (c *call) beforeMemDiscardAndPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) {
	c.ranges(ctx, stream, dptrs, sizes, writes)
}

// ranges says that the call queues work on ranges of managed memory. A discard counts as a write:
// what other work reads at the same time is not defined.
func (c *call) ranges(ctx cu.Context, stream cu.Stream, dptrs []cu.DevicePtr, sizes []uintptr, how mode) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane = c.d.orders.lane(ctx, stream)
	for i, p := range dptrs[:min(len(dptrs), len(sizes))] {
		c.use(flat(uint64(p), uint64(sizes[i])), how, false)
	}
}

func (c *call) beforeStreamAttachMemAsync(ctx cu.Context, stream cu.Stream, p cu.DevicePtr, bytes uintptr, flags cu.MemAttachFlags) {
	c.moves(ctx, stream, p, bytes)
}

// moves says that the call queues work on managed memory which leaves its bytes as they are.
func (c *call) moves(ctx cu.Context, stream cu.Stream, p cu.DevicePtr, bytes uintptr) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane = c.d.orders.lane(ctx, stream)
	c.use(flat(uint64(p), uint64(max(bytes, 1))), uses, false) // 0 bytes stand for all of the memory
}

// frees says that the call frees memory, which waits for the work of its context. It must
// not be in flight.
func (c *call) frees(ctx cu.Context, at uint64) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	m, _ := d.memories.find(at)
	if m == nil || m.base != at {
		return
	}
	c.freeing = m
	d.compareSources(c, func(b *access) bool { return b.m == m })
	if m.kind.onHost() || ctx != m.ctx {
		ctx = 0
	}
	c.reach = d.orders.all(ctx)
	if b := d.inFlight(m, flat(m.base, m.end-m.base), frees, ^uint64(0)); b != nil && !m.graph {
		c.pending = append(c.pending, d.freedInFlight(c, b))
	}
}

// freed ends a free. If the driver has freed the memory, the memory is dead. If it has refused,
// freed reports the mistake.
func (c *call) freed(at uint64, err error) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && c.freeing != nil && c.freeing.graph:
		c.freeing.ends(c)
	case err == nil && c.freeing != nil:
		d.memories.remove(c.freeing, c)
		if c.lane == nil {
			c.freeing.accesses = nil
		}
	case err != nil && at != 0 && (errors.Is(err, cu.ErrorInvalidValue) || errors.Is(err, cu.ErrorHostMemoryNotRegistered)):
		d.badFree(c, at)
	}
}

// badFree reports a free that the driver has refused. The caller holds mu.
func (d *Driver) badFree(c *call, at uint64) {
	f := Finding{Kind: ForeignFree, Second: &Side{Call: c.name, Place: d.place(c.site), site: c.site, Access: "frees"}}
	m, x := d.memories.last(at)
	switch {
	case m == nil || m.dead && x != m.base:
		m = nil
		f.What, f.Mend = "the address is of no memory of this driver", "free the address that the allocation returned"
	case m.dead:
		f.Kind, f.What, f.Mend = DoubleFree, "the memory was freed already, by "+m.freedBy, "free it once"
	case x != m.base:
		f.What = fmt.Sprintf("the address is %d bytes inside of the memory, not its start", x-m.base)
		f.Mend = "free the address that the allocation returned"
	case freedBy(m.kind, c.name):
		return // the right call: the driver refused it for another reason
	case m.byPin:
		f.What, f.Mend = "the memory is a buffer of ferry.AllocHost, which no call of the driver frees", "close the buffer"
	default:
		f.What = fmt.Sprintf("the memory was made by %s, which another call frees", m.call)
		f.Mend = "free it by " + freeOf[m.kind]
	}
	if m != nil {
		d.about(&f, m)
	}
	d.report(f)
}

// freedBy reports whether a call is one that frees a kind of memory.
func freedBy(s memoryKind, call string) bool {
	switch call {
	case "cuMemFree":
		return s == device || s == pooled || s == managed
	case "cuMemAddressFree":
		return s == virtual
	case "cuMemFreeAsync":
		return s == device || s == pooled
	}
	return freeOf[s] == call
}

// freeOf has the call that frees each kind of memory.
var freeOf = [...]string{device: "cuMemFree", pooled: "cuMemFreeAsync or cuMemFree", pinned: "cuMemFreeHost", registered: "cuMemHostUnregister", managed: "cuMemFree", virtual: "cuMemUnmap, cuMemRelease and cuMemAddressFree",
	variable: "unloading its module", pageable: "what made it"}

func (c *call) beforeMemFree(ctx cu.Context, p cu.DevicePtr)         { c.frees(ctx, uint64(p)) }
func (c *call) beforeMemFreeHost(ctx cu.Context, p cu.HostPtr)       { c.frees(ctx, addressOf(p)) }
func (c *call) beforeMemHostUnregister(ctx cu.Context, p cu.HostPtr) { c.frees(ctx, addressOf(p)) }

func (c *call) doneMemFree(ctx cu.Context, p cu.DevicePtr, err error)   { c.freed(uint64(p), err) }
func (c *call) doneMemFreeHost(ctx cu.Context, p cu.HostPtr, err error) { c.freed(addressOf(p), err) }
func (c *call) doneMemHostUnregister(ctx cu.Context, p cu.HostPtr, err error) {
	c.freed(addressOf(p), err)
}
