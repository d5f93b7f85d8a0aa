package trace

import "github.com/ferrygpu/ferry/cu"

// Names of operations, as in the tables of nvprof.
const (
	nameMemset   = "[CUDA memset]"
	namePrefetch = "[CUDA managed memory prefetch]"
	nameHostFunc = "[host function]"
	nameWrite    = "[stream write value]"
	nameWait     = "[stream wait value]"
	nameDiscard  = "[discard]"
)

// copyName returns the name of a copy between two kinds of memory.
func copyName(from, to string) string {
	return "[CUDA memcpy " + side(from) + "to" + side(to) + "]"
}

func side(kind string) string {
	switch kind {
	case device:
		return "D"
	case managed:
		return "M"
	}
	return "H"
}

// Engines of hardware, by the kind of an operation: which one served it is not known.
const (
	engineCompute = "compute"
	engineIn      = "copy in"
	engineOut     = "copy out"
	enginePeer    = "copy peer"
	engineHost    = "host"
)

// copyEngine returns the engine that serves a copy.
func copyEngine(from, to string) string {
	switch {
	case from == device && to == device:
		return engineCompute
	case to == device || from != device && to == managed:
		return engineIn
	case from == device || from == managed:
		return engineOut
	}
	return engineHost
}

// operation notes that the call queues an operation in a stream.
func (c *call) operation(stream cu.Stream, o opRow) {
	if c.d.soft != nil {
		c.d.soft.enter(c)
		return
	}
	c.d.timer.beginOp(c, stream, &o)
}

// overlaps notes that the next operation of a stream may start before the last one ends.
func (c *call) overlaps(stream cu.Stream) {
	if c.d.timer != nil {
		c.d.timer.unknown(c.ctx, stream)
	}
}

// copies notes that the call queues a copy.
func (c *call) copies(stream cu.Stream, from, to string, bytes uintptr) {
	if bytes == 0 {
		return
	}
	c.operation(stream, opRow{name: copyName(from, to), engine: copyEngine(from, to), from: from, to: to, bytes: uint64(bytes)})
}

// touches notes the addresses that the call writes and reads; 0 for none.
func (c *call) touches(address, source uint64) { c.address, c.source = address, source }

// addressIn returns the address of one side of a rectangle or box, without its offset.
func addressIn(t cu.MemoryType, host cu.HostPtr, dev cu.DevicePtr) uint64 {
	if t == cu.MemoryTypeHost {
		return addressOf(host)
	}
	return uint64(dev)
}

// at returns the kind of memory at an address. The call itself does not say which it is.
func (c *call) at(p cu.DevicePtr) string { return c.d.memory.kind(uint64(p), pageable) }

// onDevice returns the kind of memory at an address that is not pageable memory.
func (c *call) onDevice(p cu.DevicePtr) string { return c.d.memory.kind(uint64(p), device) }

// onHost returns the kind of memory at a host address.
func (c *call) onHost(p cu.HostPtr) string { return c.d.memory.kind(addressOf(p), pageable) }

func (c *call) beforeMemcpy(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr) {
	c.touches(uint64(dst), uint64(src))
	c.copies(0, c.at(src), c.at(dst), bytes)
}

func (c *call) beforeMemcpyAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.touches(uint64(dst), uint64(src))
	c.copies(stream, c.at(src), c.at(dst), bytes)
}

func (c *call) beforeMemcpyHtoD(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr) {
	c.touches(uint64(dst), addressOf(src))
	c.copies(0, c.onHost(src), c.onDevice(dst), bytes)
}

func (c *call) beforeMemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, stream cu.Stream) {
	c.touches(uint64(dst), addressOf(src))
	c.copies(stream, c.onHost(src), c.onDevice(dst), bytes)
}

func (c *call) beforeMemcpyDtoH(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr) {
	c.touches(addressOf(dst), uint64(src))
	c.copies(0, c.onDevice(src), c.onHost(dst), bytes)
}

func (c *call) beforeMemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.touches(addressOf(dst), uint64(src))
	c.copies(stream, c.onDevice(src), c.onHost(dst), bytes)
}

func (c *call) beforeMemcpyDtoD(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr) {
	c.touches(uint64(dst), uint64(src))
	c.copies(0, c.onDevice(src), c.onDevice(dst), bytes)
}

func (c *call) beforeMemcpyDtoDAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) {
	c.touches(uint64(dst), uint64(src))
	c.copies(stream, c.onDevice(src), c.onDevice(dst), bytes)
}

func (c *call) beforeMemcpyPeer(ctx cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr) {
	c.touches(uint64(dst), uint64(src))
	c.peer(0, bytes)
}

func (c *call) beforeMemcpyPeerAsync(ctx cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr, stream cu.Stream) {
	c.touches(uint64(dst), uint64(src))
	c.peer(stream, bytes)
}

func (c *call) peer(stream cu.Stream, bytes uintptr) {
	if bytes != 0 {
		c.operation(stream, opRow{name: "[CUDA memcpy PtoP]", engine: enginePeer, from: device, to: device, bytes: uint64(bytes)})
	}
}

func (c *call) beforeMemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) {
	var total uintptr
	for _, n := range sizes {
		total += n
	}
	if len(dsts) == 0 || len(srcs) == 0 {
		return
	}
	c.bytes = uint64(total)
	c.touches(uint64(dsts[0]), uint64(srcs[0]))
	from, to := c.at(srcs[0]), c.at(dsts[0])
	c.operation(stream, opRow{name: copyName(from, to), engine: copyEngine(from, to), from: from, to: to, bytes: uint64(total), count: len(sizes)})
}

func (c *call) beforeMemcpy2D(ctx cu.Context, p *cu.Memcpy2D) { c.rectangle(0, p) }

func (c *call) beforeMemcpy2DAsync(ctx cu.Context, p *cu.Memcpy2D, stream cu.Stream) {
	c.rectangle(stream, p)
}

func (c *call) rectangle(stream cu.Stream, p *cu.Memcpy2D) {
	if p == nil {
		return
	}
	c.bytes = uint64(p.WidthInBytes * p.Height)
	c.touches(addressIn(p.DstMemoryType, p.DstHost, p.DstDevice), addressIn(p.SrcMemoryType, p.SrcHost, p.SrcDevice))
	c.copies(stream, c.sideOf(p.SrcMemoryType, p.SrcHost, p.SrcDevice), c.sideOf(p.DstMemoryType, p.DstHost, p.DstDevice), p.WidthInBytes*p.Height)
}

func (c *call) beforeMemcpy3D(ctx cu.Context, p *cu.Memcpy3D) { c.box(0, p) }

func (c *call) beforeMemcpy3DAsync(ctx cu.Context, p *cu.Memcpy3D, stream cu.Stream) {
	c.box(stream, p)
}

func (c *call) box(stream cu.Stream, p *cu.Memcpy3D) {
	if p == nil {
		return
	}
	bytes := p.WidthInBytes * p.Height * p.Depth
	c.bytes = uint64(bytes)
	c.touches(addressIn(p.DstMemoryType, p.DstHost, p.DstDevice), addressIn(p.SrcMemoryType, p.SrcHost, p.SrcDevice))
	c.copies(stream, c.sideOf(p.SrcMemoryType, p.SrcHost, p.SrcDevice), c.sideOf(p.DstMemoryType, p.DstHost, p.DstDevice), bytes)
}

// sideOf returns the kind of memory of one side of a rectangle or box.
func (c *call) sideOf(t cu.MemoryType, host cu.HostPtr, dev cu.DevicePtr) string {
	switch t {
	case cu.MemoryTypeHost:
		return c.onHost(host)
	case cu.MemoryTypeDevice:
		return c.onDevice(dev)
	}
	return c.at(dev)
}

func (c *call) fill(stream cu.Stream, dst cu.DevicePtr, bytes uintptr) {
	c.bytes = uint64(bytes)
	c.touches(uint64(dst), 0)
	if bytes != 0 {
		c.operation(stream, opRow{name: nameMemset, engine: engineCompute, to: c.onDevice(dst), bytes: uint64(bytes)})
	}
}

func (c *call) beforeMemsetD8(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr) {
	c.fill(0, dst, n)
}

func (c *call) beforeMemsetD16(ctx cu.Context, dst cu.DevicePtr, value uint16, n uintptr) {
	c.fill(0, dst, 2*n)
}

func (c *call) beforeMemsetD32(ctx cu.Context, dst cu.DevicePtr, value uint32, n uintptr) {
	c.fill(0, dst, 4*n)
}

func (c *call) beforeMemsetD8Async(ctx cu.Context, dst cu.DevicePtr, value uint8, n uintptr, stream cu.Stream) {
	c.fill(stream, dst, n)
}

func (c *call) beforeMemsetD16Async(ctx cu.Context, dst cu.DevicePtr, value uint16, n uintptr, stream cu.Stream) {
	c.fill(stream, dst, 2*n)
}

func (c *call) beforeMemsetD32Async(ctx cu.Context, dst cu.DevicePtr, value uint32, n uintptr, stream cu.Stream) {
	c.fill(stream, dst, 4*n)
}

func (c *call) beforeMemPrefetchAsync(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, dst cu.Device, stream cu.Stream) {
	c.touches(uint64(dptr), 0)
	engine := engineIn
	if dst == cu.CPUDevice {
		engine = engineOut
	}
	c.operation(stream, opRow{name: namePrefetch, engine: engine, from: managed, to: managed, bytes: uint64(bytes)})
}

func (c *call) beforeMemPrefetchAsyncV2(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr, location cu.MemLocation, flags uint32, stream cu.Stream) {
	c.touches(uint64(dptr), 0)
	c.operation(stream, prefetchRow(location, bytes))
}

func (c *call) beforeMemPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) {
	c.prefetches(dptrs, sizes, locations, stream)
}

func (c *call) beforeMemDiscardBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, flags uint64, stream cu.Stream) {
	c.operation(stream, opRow{name: nameDiscard, from: managed, to: managed, bytes: uint64(total(sizes))})
}

func (c *call) beforeMemDiscardAndPrefetchBatchAsync(ctx cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) {
	c.prefetches(dptrs, sizes, locations, stream)
}

// prefetches notes that the call queues prefetches. It is one operation, with the engine of the
// first one.
func (c *call) prefetches(dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, stream cu.Stream) {
	if len(dptrs) > 0 && len(locations) > 0 {
		c.touches(uint64(dptrs[0]), 0)
		c.operation(stream, prefetchRow(locations[0], total(sizes)))
	}
}

func prefetchRow(to cu.MemLocation, bytes uintptr) opRow {
	engine := engineOut
	if to.Type == cu.MemLocationTypeDevice {
		engine = engineIn
	}
	return opRow{name: namePrefetch, engine: engine, from: managed, to: managed, bytes: uint64(bytes)}
}

func total(sizes []uintptr) (sum uintptr) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

func (c *call) beforeLaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, stream cu.Stream, params []byte) {
	c.operation(stream, opRow{name: c.d.names.kernel(f), engine: engineCompute})
}

func (c *call) beforeLaunchKernelEx(ctx cu.Context, config *cu.LaunchConfig, f cu.Function, params []byte) {
	if config != nil {
		c.stream = config.Stream
		c.overlaps(config.Stream)
		c.operation(config.Stream, opRow{name: c.d.names.kernel(f), engine: engineCompute})
	}
}

func (c *call) beforeLaunchHostFunc(ctx cu.Context, stream cu.Stream, fn func()) {
	c.operation(stream, opRow{name: nameHostFunc, engine: engineHost})
}

func (c *call) beforeStreamWriteValue32(ctx cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint32, flags cu.StreamWriteValueFlags) {
	c.writes(stream, dst, 4)
}

func (c *call) beforeStreamWriteValue64(ctx cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint64, flags cu.StreamWriteValueFlags) {
	c.writes(stream, dst, 8)
}

// writes notes that a stream writes a word. It occupies no engine.
func (c *call) writes(stream cu.Stream, dst cu.DevicePtr, bytes uint64) {
	c.bytes = bytes
	c.touches(uint64(dst), 0)
	c.operation(stream, opRow{name: nameWrite, to: c.at(dst), bytes: bytes})
}

func (c *call) beforeStreamWaitValue32(ctx cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint32, flags cu.StreamWaitValueFlags) {
	c.waitsForValue(stream, addr, 4)
}

func (c *call) beforeStreamWaitValue64(ctx cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint64, flags cu.StreamWaitValueFlags) {
	c.waitsForValue(stream, addr, 8)
}

// waitsForValue notes that a stream waits for a word. It occupies no engine.
func (c *call) waitsForValue(stream cu.Stream, addr cu.DevicePtr, bytes uint64) {
	c.bytes = bytes
	c.touches(0, uint64(addr))
	c.operation(stream, opRow{name: nameWait, from: c.at(addr), bytes: bytes})
}

func (c *call) beforeGraphLaunch(ctx cu.Context, exec cu.GraphExec, stream cu.Stream) {
	c.operation(stream, opRow{name: "[graph]"}) // its engines are not known
}

func (c *call) beforeSubmit(b *cu.Batch) {
	if b == nil {
		return
	}
	if c.d.soft != nil {
		c.d.soft.enter(c)
		return
	}
	c.d.timer.beginBatch(c, b)
}
