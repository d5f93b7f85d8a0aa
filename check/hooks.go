package check

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// find returns the memory at an address, which may be freed already, and the matching address
// inside it. m is nil if nothing is known there. With host, unknown or freed memory counts as
// pageable memory instead. The caller holds mu.
func (c *call) find(at uint64, host bool) (m *memory, x uint64) {
	m, x = c.d.memories.last(at)
	if host && (m == nil || m.dead) {
		return &c.d.pageable, at
	}
	return m, x
}

// use adds the use of a box to the operation. It returns the memory, nil if it is not
// known. The caller holds mu.
func (c *call) use(x box, how mode, host bool) *memory {
	m, at := c.find(x.at, host)
	if m == nil {
		return nil
	}
	x.at = at
	c.usedGone(m, at, how)
	c.accesses = append(c.accesses, access{m: m, x: x.packed(), mode: how})
	if !m.dead && m.kind != pageable && x.end() > m.end {
		c.outOfRange(m, x, how)
	}
	return m
}

// outOfRange notes that the call goes past the end of memory.
func (c *call) outOfRange(m *memory, x box, how mode) {
	f := Finding{Kind: OutOfRange, Second: &Side{Call: c.name, Place: c.d.place(c.site), site: c.site, Access: how.String(), Offset: x.at - m.base, Bytes: x.end() - x.at}}
	f.What = fmt.Sprintf("%d bytes are past the end of the memory", x.end()-m.end)
	c.d.about(&f, m)
	f.Mend = fmt.Sprintf("use at most %d bytes from there", m.end-min(x.at, m.end))
	if m.kind == registered {
		f.What, f.Mend = f.What[:len(f.What)-len("memory")]+"registration", "register the whole range at once, or make a copy for each registration"
	}
	c.pending = append(c.pending, f)
}

// copies says that the call queues a copy.
func (c *call) copies(ctx cu.Context, stream cu.Stream, async bool, dst, src box, dstHost, srcHost bool) {
	if dst.width == 0 || dst.rows == 0 || dst.layers == 0 {
		return
	}
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	c.lane = d.orders.lane(ctx, stream)
	from := c.use(src, reads, srcHost)
	to := c.use(dst, writes, dstHost)
	c.after = c.waits(from, to, async)
	if c.after == waitsForEarlier || c.early {
		c.pageableSource(from)
	}
	if from != nil && c.lane.capture == nil {
		c.costs(from, to, async)
	}
}

// pageableSource removes the source from an operation that has read it when its call returns.
func (c *call) pageableSource(from *memory) {
	for i := range c.accesses {
		if c.accesses[i].m == from && c.accesses[i].mode == reads {
			c.accesses = append(c.accesses[:i], c.accesses[i+1:]...)
			return
		}
	}
}

// waits returns what a copy waits for, by the kinds of memory: docs/SEMANTICS.md, "Which
// copies return at once". Where that is not sure, it waits.
func (c *call) waits(from, to *memory, async bool) waiting {
	switch {
	case from == nil || to == nil:
		if async {
			return waitsForNothing
		}
		return waitsForItself
	case from.kind == pageable && !to.kind.onHost() && to.kind != managed:
		if c.early = true; async {
			return waitsForNothing
		}
		return waitsForEarlier
	case from.kind == pageable, to.kind == pageable, from.kind.onHost() && to.kind.onHost():
		return waitsForItself
	case async:
		return waitsForNothing
	case !from.kind.onHost() && !to.kind.onHost() && from.kind != managed && to.kind != managed:
		return waitsForNothing
	}
	return waitsForItself
}

// costs notes copies that make the host wait though they are asynchronous, and reads of
// memory that the CPU does not cache.
func (c *call) costs(from, to *memory, async bool) {
	if async && to == &c.d.pageable && from != &c.d.pageable {
		c.pending = append(c.pending, Finding{Kind: PageableWaits, Note: true, Second: &Side{Call: c.name, Place: c.d.place(c.site), site: c.site},
			What: "a copy to pageable memory makes the host wait until it is done", Mend: "copy to page-locked memory"})
	}
	if from.kind == pinned && to != nil && to.kind.onHost() && cu.MemHostAllocFlags(from.flags)&cu.MemHostAllocWriteCombined != 0 {
		c.d.writeCombined(c, from)
	}
}

func (c *call) beforeMemcpy(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr) {
	c.copies(ctx, 0, false, flat(uint64(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), c.d.mayBeHost(dst), c.d.mayBeHost(src))
}

func (c *call) beforeMemcpyAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.copies(ctx, stream, true, flat(uint64(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), c.d.mayBeHost(dst), c.d.mayBeHost(src))
}

// mayBeHost reports whether an address that is not known may be ordinary memory: not if it
// was device memory.
func (d *Driver) mayBeHost(p cu.DevicePtr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.memories.gone(uint64(p))
	return m == nil || m.kind.onHost()
}

func (c *call) beforeMemcpyHtoD(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr) {
	c.copies(ctx, 0, false, flat(uint64(dst), uint64(bytes)), flat(addressOf(src), uint64(bytes)), false, true)
}

func (c *call) beforeMemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, stream cu.Stream) {
	c.foreign(ctx, src, bytes)
	c.copies(ctx, stream, true, flat(uint64(dst), uint64(bytes)), flat(addressOf(src), uint64(bytes)), false, true)
	c.keeps(src, bytes, reads)
	c.watchSource(src, bytes)
}

func (c *call) beforeMemcpyDtoH(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr) {
	c.copies(ctx, 0, false, flat(addressOf(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), true, false)
}

func (c *call) beforeMemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.foreign(ctx, dst, bytes)
	c.copies(ctx, stream, true, flat(addressOf(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), true, false)
	c.keeps(dst, bytes, writes)
}

func (c *call) beforeMemcpyDtoD(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr) {
	c.copies(ctx, 0, false, flat(uint64(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), false, false)
}

func (c *call) beforeMemcpyDtoDAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.copies(ctx, stream, true, flat(uint64(dst), uint64(bytes)), flat(uint64(src), uint64(bytes)), false, false)
}

func (c *call) beforeMemcpyPeer(ctx cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr) {
	c.beforeMemcpyDtoD(ctx, dst, src, bytes)
	if c.lane == nil {
		return
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	for _, other := range []cu.Context{dstCtx, srcCtx} {
		if other != 0 && other != ctx {
			c.joins = append(c.joins, c.d.orders.lane(other, 0))
		}
	}
}

func (c *call) beforeMemcpyPeerAsync(ctx cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr, stream cu.Stream) {
	c.beforeMemcpyDtoDAsync(ctx, dst, src, bytes, stream)
}

func (c *call) beforeMemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) {
	if len(dsts) == 0 || len(dsts) != len(srcs) || len(dsts) != len(sizes) {
		return
	}
	d := c.d
	host := make([]bool, 2*len(dsts))
	for i := range dsts {
		host[2*i], host[2*i+1] = d.mayBeHost(dsts[i]), d.mayBeHost(srcs[i])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c.lane = d.orders.lane(ctx, stream)
	for i, n := range sizes {
		if n > 0 {
			c.use(flat(uint64(srcs[i]), uint64(n)), reads, host[2*i+1])
			c.use(flat(uint64(dsts[i]), uint64(n)), writes, host[2*i])
		}
	}
	c.listed()
}

func (c *call) beforeMemcpy2D(ctx cu.Context, p *cu.Memcpy2D) { c.rectangle(ctx, 0, false, p) }

func (c *call) beforeMemcpy2DAsync(ctx cu.Context, p *cu.Memcpy2D, stream cu.Stream) {
	c.rectangle(ctx, stream, true, p)
}

func (c *call) rectangle(ctx cu.Context, stream cu.Stream, async bool, p *cu.Memcpy2D) {
	if p == nil {
		return
	}
	q := cu.Memcpy3D{
		SrcXInBytes: p.SrcXInBytes, SrcY: p.SrcY, SrcMemoryType: p.SrcMemoryType, SrcHost: p.SrcHost, SrcDevice: p.SrcDevice, SrcPitch: p.SrcPitch,
		DstXInBytes: p.DstXInBytes, DstY: p.DstY, DstMemoryType: p.DstMemoryType, DstHost: p.DstHost, DstDevice: p.DstDevice, DstPitch: p.DstPitch,
		WidthInBytes: p.WidthInBytes, Height: p.Height, Depth: 1,
	}
	c.box(ctx, stream, async, &q)
}

func (c *call) beforeMemcpy3D(ctx cu.Context, p *cu.Memcpy3D) { c.box(ctx, 0, false, p) }

func (c *call) beforeMemcpy3DAsync(ctx cu.Context, p *cu.Memcpy3D, stream cu.Stream) {
	c.box(ctx, stream, true, p)
}

func (c *call) box(ctx cu.Context, stream cu.Stream, async bool, p *cu.Memcpy3D) {
	if p == nil || p.WidthInBytes == 0 || p.Height == 0 || p.Depth == 0 {
		return
	}
	dst, dstHost, ok1 := c.corner(p.DstMemoryType, p.DstHost, p.DstDevice, p.DstXInBytes, p.DstY, p.DstZ, p.DstPitch, p.DstHeight, p)
	src, srcHost, ok2 := c.corner(p.SrcMemoryType, p.SrcHost, p.SrcDevice, p.SrcXInBytes, p.SrcY, p.SrcZ, p.SrcPitch, p.SrcHeight, p)
	if ok1 && ok2 {
		c.copies(ctx, stream, async, dst, src, dstHost, srcHost)
		if p.SrcMemoryType == cu.MemoryTypeHost {
			c.keeps(p.SrcHost, uintptr(src.end()-src.at), reads)
		}
		if p.DstMemoryType == cu.MemoryTypeHost {
			c.keeps(p.DstHost, uintptr(dst.end()-dst.at), writes)
		}
	}
}

// corner returns one side of a rectangle or box, and whether it may be ordinary memory.
func (c *call) corner(t cu.MemoryType, host cu.HostPtr, dev cu.DevicePtr, x, y, z, pitch, height uintptr, p *cu.Memcpy3D) (box, bool, bool) {
	if pitch == 0 {
		pitch = p.WidthInBytes
	}
	if height == 0 {
		height = p.Height
	}
	e := box{width: uint64(p.WidthInBytes), pitch: uint64(pitch), rows: uint64(p.Height), layer: uint64(pitch * height), layers: uint64(p.Depth)}
	off := uint64(x + y*pitch + z*pitch*height)
	switch t {
	case cu.MemoryTypeHost:
		e.at = addressOf(host) + off
		return e, true, host != nil
	case cu.MemoryTypeDevice:
		e.at = uint64(dev) + off
		return e, false, dev != 0
	case cu.MemoryTypeUnified:
		e.at = uint64(dev) + off
		return e, c.d.mayBeHost(dev), dev != 0
	}
	return e, false, false
}

// fill says that the call queues a fill.
func (c *call) fill(ctx cu.Context, stream cu.Stream, async bool, dst cu.DevicePtr, bytes uintptr) {
	if bytes == 0 {
		return
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane = c.d.orders.lane(ctx, stream)
	if m := c.use(flat(uint64(dst), uint64(bytes)), writes, false); !async && (m == nil || m.kind.onHost() || m.kind == managed) {
		c.after = waitsForItself
	}
}

func (c *call) beforeMemsetD8(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr) {
	c.fill(ctx, 0, false, dst, n)
}

func (c *call) beforeMemsetD16(ctx cu.Context, dst cu.DevicePtr, value uint16, n uintptr) {
	c.fill(ctx, 0, false, dst, 2*n)
}

func (c *call) beforeMemsetD32(ctx cu.Context, dst cu.DevicePtr, value uint32, n uintptr) {
	c.fill(ctx, 0, false, dst, 4*n)
}

func (c *call) beforeMemsetD8Async(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr, stream cu.Stream) {
	c.fill(ctx, stream, true, dst, n)
}

func (c *call) beforeMemsetD16Async(ctx cu.Context, dst cu.DevicePtr, value uint16, n uintptr, stream cu.Stream) {
	c.fill(ctx, stream, true, dst, 2*n)
}

func (c *call) beforeMemsetD32Async(ctx cu.Context, dst cu.DevicePtr, value uint32, n uintptr, stream cu.Stream) {
	c.fill(ctx, stream, true, dst, 4*n)
}
