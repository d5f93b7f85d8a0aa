package softgpu

import (
	"fmt"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// span is a part of memory with its owner, such as one side of a copy: bytes of a region, or
// of the caller's ordinary memory.
type span struct {
	region *region    // nil for pageable memory
	off    uint64     // offset in the region
	host   cu.HostPtr // address of pageable memory
	n      uint64
	by     *device // whose access to the region counts, which matters for memory of pools
}

// copyKind is the kind of memory as a copy distinguishes it.
type copyKind uint8

const (
	copyPageable copyKind = iota
	copyPageLocked
	copyDevice
)

// copyKind returns the kind of the span's memory. Managed memory is page-locked or
// device memory, by where most of its bytes are. Pages that were never touched count
// as the device's.
func (p span) copyKind() copyKind {
	switch {
	case p.region == nil:
		return copyPageable
	case p.region.kind == kindManaged:
		if p.region.managed.pages.MostlyCPU(p.off, p.n) {
			return copyPageLocked
		}
		return copyDevice
	case p.region.kind.onHost():
		return copyPageLocked
	}
	return copyDevice
}

// side is the kind of address that one side of a copy must have.
type side uint8

const (
	sideDevice side = iota // an address that the driver knows
	sideHost               // a host pointer, known or not
	sideAny                // either: unified addressing tells them apart
)

// resolve returns the span of n bytes at addr. If the caller gave a host
// pointer, p is that pointer.
func (c *contextState) resolve(addr uint64, p cu.HostPtr, n uint64, want side, what string) (span, error) {
	d := c.drv
	if addr+n < addr {
		return span{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x extend past the end of the address space", size(n), addr)
	}
	x, ok := d.space.find(addr)
	if ok && x.known(c, want) {
		if addr+n > x.end && !d.space.inMappings(x, addr, n) {
			return span{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x extend %s past the end of %s",
				size(n), addr, size(addr+n-x.end), x.String())
		}
		return span{region: x.region, off: addr - x.base, n: n, by: c.dev}, nil
	}
	switch {
	case want == sideDevice || want == sideAny && !d.uva || addr >= deviceBase:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is not an address of this context: %s", addr, d.space.near(addr))
	case addr < pageSize:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is not a host address", addr)
	}
	if y, into := d.space.reaches(addr, addr+n); into && !ok {
		return span{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x begin in ordinary memory and extend into %s", size(n), addr, y.String())
	}
	if p == nil {
		p = hostPointer(addr)
	}
	return span{host: p, n: n}, nil
}

// bytes returns the bytes of the span. It fails if a stream-ordered allocation
// is not made yet, freed already, or of a pool that has been closed.
func (p span) bytes(what string) ([]byte, error) {
	if p.region == nil {
		return bytesAt(p.host, p.n), nil
	}
	if !p.region.live() {
		state := "was freed"
		if p.region.state.Load() == statePending && !p.region.streamFreed.Load() {
			state = "is not allocated yet at this point of the stream"
		}
		return nil, p.fault(what, state)
	}
	if why := p.unusable(false); why != "" {
		return nil, p.fault(what, why)
	}
	if !p.region.opensTo(p.by) { // it was open when the operation was queued
		return nil, p.fault(what, "is of a pool that has been closed to "+p.by.String())
	}
	return p.all(), nil
}

// fault returns the error of an operation that finds memory in a state in which it must not be
// used.
func (p span) fault(what, state string) error {
	return &cu.Fault{Result: cu.ErrorIllegalAddress, Op: what,
		Addr: cu.DevicePtr(p.region.base + p.off), Bytes: int(p.n), Near: "the memory " + state}
}

// all returns the bytes of the span, without a check whether they are
// allocated.
func (p span) all() []byte {
	if p.region == nil {
		return bytesAt(p.host, p.n)
	}
	return p.region.data[p.off : p.off+p.n]
}

// copyCall runs every copy call except those between contexts. describe
// resolves both sides. It returns a nil transfer for an empty copy.
func (d *Driver) copyCall(h cu.Context, stream cu.Stream, async bool, what string, describe func(*contextState) (*transfer, error)) error {
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	if !async {
		defer c.printf.flush()
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	t, err := describe(c)
	if err != nil || t == nil || t.total() == 0 {
		return err
	}
	if !async {
		if err := c.unsafeInCapture(what); err != nil {
			return err
		}
	}
	if t.listed {
		t.dst.by, t.src.by = s.ctx.dev, s.ctx.dev
	}
	if err := t.closed(); err != nil {
		return err
	}
	p := t.plan(c)
	if t.listed {
		p = p.ofList()
	}
	if async && p.waits && s.capture == nil && t.canDetach() {
		if yes, known := s.busy(); !known || *yes {
			p = t.detach(c, yes, p.curve)
		}
	}
	if p.curve == &d.prof.Copy.PageableDtoH && s.capture == nil {
		p.busy, _ = s.busy()
	}
	if err := s.ctx.alive(what); err != nil {
		return err
	}
	return t.queue(s, p, async)
}

// hostToDevice and the two functions below describe one-dimensional copies.
func hostToDevice(what string, dst cu.DevicePtr, src cu.HostPtr, n uintptr) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, uint64(dst), nil, sideDevice, addressOf(src), src, sideHost)
	}
}

func deviceToHost(what string, dst cu.HostPtr, src cu.DevicePtr, n uintptr) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, addressOf(dst), dst, sideHost, uint64(src), nil, sideDevice)
	}
}

func deviceToDevice(what string, dst, src cu.DevicePtr, n uintptr, want side) func(*contextState) (*transfer, error) {
	return func(c *contextState) (*transfer, error) {
		return c.between(what, n, uint64(dst), nil, want, uint64(src), nil, want)
	}
}

// between resolves both sides of a copy of n bytes.
func (c *contextState) between(what string, n uintptr, dst uint64, dstPtr cu.HostPtr, dstSide side, src uint64, srcPtr cu.HostPtr, srcSide side) (*transfer, error) {
	if n == 0 {
		return nil, nil
	}
	to, err := c.resolve(dst, dstPtr, uint64(n), dstSide, what+": destination")
	if err != nil {
		return nil, err
	}
	from, err := c.resolve(src, srcPtr, uint64(n), srcSide, what+": source")
	if err != nil {
		return nil, err
	}
	return flat(what, to, from, uint64(n)), nil
}

func copyText(n uintptr, how string) string { return "copy " + size(uint64(n)) + " " + how }

// needsUVA refuses copies whose direction only unified addressing could tell.
func (d *Driver) needsUVA(what string) error {
	if d.uva {
		return nil
	}
	return d.devices[0].lacks(what, cu.DeviceAttributeUnifiedAddressing)
}

// Memcpy copies between any two addresses.
func (d *Driver) Memcpy(h cu.Context, dst, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "between addresses")
	if err := d.needsUVA(what); err != nil {
		return err
	}
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToDevice(what, dst, src, bytes, sideAny))
}

// MemcpyAsync copies as Memcpy does, in stream order.
func (d *Driver) MemcpyAsync(h cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "between addresses")
	if err := d.needsUVA(what); err != nil {
		return err
	}
	return d.copyCall(h, stream, true, what, deviceToDevice(what, dst, src, bytes, sideAny))
}

// MemcpyHtoD copies host to device.
func (d *Driver) MemcpyHtoD(h cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr) error {
	what := copyText(bytes, "host to device")
	return d.copyCall(h, cu.StreamLegacy, false, what, hostToDevice(what, dst, src, bytes))
}

// MemcpyHtoDAsync copies as MemcpyHtoD does, in stream order.
func (d *Driver) MemcpyHtoDAsync(h cu.Context, dst cu.DevicePtr, src cu.HostPtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "host to device")
	return d.copyCall(h, stream, true, what, hostToDevice(what, dst, src, bytes))
}

// MemcpyDtoH copies device to host.
func (d *Driver) MemcpyDtoH(h cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "device to host")
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToHost(what, dst, src, bytes))
}

// MemcpyDtoHAsync copies as MemcpyDtoH does, in stream order.
func (d *Driver) MemcpyDtoHAsync(h cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "device to host")
	return d.copyCall(h, stream, true, what, deviceToHost(what, dst, src, bytes))
}

// MemcpyDtoD copies within a device and does not wait.
func (d *Driver) MemcpyDtoD(h cu.Context, dst, src cu.DevicePtr, bytes uintptr) error {
	what := copyText(bytes, "device to device")
	return d.copyCall(h, cu.StreamLegacy, false, what, deviceToDevice(what, dst, src, bytes, sideDevice))
}

// MemcpyDtoDAsync copies as MemcpyDtoD does, in stream order.
func (d *Driver) MemcpyDtoDAsync(h cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "device to device")
	return d.copyCall(h, stream, true, what, deviceToDevice(what, dst, src, bytes, sideDevice))
}

// MemcpyPeer copies between the devices of two contexts. It does not wait, and
// is ordered with all work of both contexts.
func (d *Driver) MemcpyPeer(h cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr) error {
	what := copyText(bytes, "between devices")
	to, from, err := d.peerEnds(h, dstCtx, srcCtx, what)
	if err != nil {
		return err
	}
	err = d.copyCall(h, cu.StreamLegacy, false, what, func(c *contextState) (*transfer, error) {
		for _, other := range []*contextState{to, from} {
			if other != c { // the legacy stream follows the streams of the other context
				deps := append(c.legacy.before(), other.legacy.before()...)
				c.legacy.last = d.submit(c, c.legacy, &work{what: "join contexts"}, deps)
			}
		}
		return peerTransfer(what, to, dst, from, src, bytes)
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return err
	}
	for _, other := range []*contextState{to, from} {
		if other != c && !other.dead {
			deps := append(other.legacy.before(), c.legacy.last)
			other.legacy.last = d.submit(other, other.legacy, &work{what: "join contexts"}, deps)
		}
	}
	return nil
}

// peerEnds returns the two contexts. A zero handle stands for the calling
// context.
func (d *Driver) peerEnds(h, dstCtx, srcCtx cu.Context, what string) (to, from *contextState, err error) {
	if err := d.begin(what); err != nil {
		return nil, nil, err
	}
	defer d.mu.Unlock()
	if dstCtx == 0 {
		dstCtx = h
	}
	if srcCtx == 0 {
		srcCtx = h
	}
	if to, err = d.context(dstCtx, what+": destination"); err != nil {
		return nil, nil, err
	}
	from, err = d.context(srcCtx, what+": source")
	return to, from, err
}

// peerTransfer resolves each address in its own context.
func peerTransfer(what string, to *contextState, dst cu.DevicePtr, from *contextState, src cu.DevicePtr, n uintptr) (*transfer, error) {
	if n == 0 {
		return nil, nil
	}
	a, err := to.resolve(uint64(dst), nil, uint64(n), sideDevice, what+": destination")
	if err != nil {
		return nil, err
	}
	b, err := from.resolve(uint64(src), nil, uint64(n), sideDevice, what+": source")
	if err != nil {
		return nil, err
	}
	return flat(what, a, b, uint64(n)), nil
}

// MemcpyPeerAsync copies as MemcpyPeer does, but is ordered only in the stream. As on hardware
// a stream that captures refuses it, and its capture is invalid then.
func (d *Driver) MemcpyPeerAsync(h cu.Context, dst cu.DevicePtr, dstCtx cu.Context, src cu.DevicePtr, srcCtx cu.Context, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "between devices")
	to, from, err := d.peerEnds(h, dstCtx, srcCtx, what)
	if err != nil {
		return err
	}
	return d.copyCall(h, stream, true, what, func(c *contextState) (*transfer, error) {
		if s, err := c.stream(stream, what); err == nil && s.capture != nil {
			s.capture.invalidate()
			return nil, refuse(cu.ErrorStreamCaptureUnsupported, what, "the stream captures, and a graph has no such copy: use MemcpyAsync")
		}
		return peerTransfer(what, to, dst, from, src, bytes)
	})
}

// pitchedSide is one side of a 2D or 3D copy.
type pitchedSide struct {
	kind          cu.MemoryType
	host          cu.HostPtr
	device        cu.DevicePtr
	x, y, z       uintptr
	pitch, height uintptr
}

// Memcpy2D copies a rectangle.
func (d *Driver) Memcpy2D(h cu.Context, p *cu.Memcpy2D) error {
	return d.copy2D(h, p, cu.StreamLegacy, false)
}

// Memcpy2DAsync copies a rectangle in stream order.
func (d *Driver) Memcpy2DAsync(h cu.Context, p *cu.Memcpy2D, stream cu.Stream) error {
	return d.copy2D(h, p, stream, true)
}

func (d *Driver) copy2D(h cu.Context, p *cu.Memcpy2D, stream cu.Stream, async bool) error {
	const what = "copy a rectangle"
	if p == nil {
		return refuse(cu.ErrorInvalidValue, what, "the description is nil")
	}
	q := *p
	dst := pitchedSide{kind: q.DstMemoryType, host: q.DstHost, device: q.DstDevice, x: q.DstXInBytes, y: q.DstY, pitch: q.DstPitch}
	src := pitchedSide{kind: q.SrcMemoryType, host: q.SrcHost, device: q.SrcDevice, x: q.SrcXInBytes, y: q.SrcY, pitch: q.SrcPitch}
	return d.copyCall(h, stream, async, what, func(c *contextState) (*transfer, error) {
		return c.pitched(what, dst, src, q.WidthInBytes, q.Height, 1)
	})
}

// Memcpy3D copies rows of several layers.
func (d *Driver) Memcpy3D(h cu.Context, p *cu.Memcpy3D) error {
	return d.copy3D(h, p, cu.StreamLegacy, false)
}

// Memcpy3DAsync copies rows of several layers in stream order.
func (d *Driver) Memcpy3DAsync(h cu.Context, p *cu.Memcpy3D, stream cu.Stream) error {
	return d.copy3D(h, p, stream, true)
}

func (d *Driver) copy3D(h cu.Context, p *cu.Memcpy3D, stream cu.Stream, async bool) error {
	const what = "copy a 3D rectangle"
	if p == nil {
		return refuse(cu.ErrorInvalidValue, what, "the description is nil")
	}
	q := *p
	dst := pitchedSide{q.DstMemoryType, q.DstHost, q.DstDevice, q.DstXInBytes, q.DstY, q.DstZ, q.DstPitch, q.DstHeight}
	src := pitchedSide{q.SrcMemoryType, q.SrcHost, q.SrcDevice, q.SrcXInBytes, q.SrcY, q.SrcZ, q.SrcPitch, q.SrcHeight}
	return d.copyCall(h, stream, async, what, func(c *contextState) (*transfer, error) {
		if q.DstLOD != 0 || q.SrcLOD != 0 {
			return nil, refuse(cu.ErrorInvalidValue, what, "the level of detail must be 0")
		}
		return c.pitched(what, dst, src, q.WidthInBytes, q.Height, q.Depth)
	})
}

// pitched checks the dimensions and resolves both sides.
func (c *contextState) pitched(what string, dst, src pitchedSide, width, height, depth uintptr) (*transfer, error) {
	if width == 0 || height == 0 || depth == 0 {
		return nil, nil
	}
	to, err := c.resolvePitched(what+": destination", &dst, width, height, depth)
	if err != nil {
		return nil, err
	}
	from, err := c.resolvePitched(what+": source", &src, width, height, depth)
	if err != nil {
		return nil, err
	}
	return &transfer{
		what: what, dst: to, src: from,
		width: uint64(width), height: uint64(height), depth: uint64(depth),
		dstPitch: uint64(dst.pitch), dstLayer: uint64(dst.pitch * dst.height),
		srcPitch: uint64(src.pitch), srcLayer: uint64(src.pitch * src.height),
	}, nil
}

// resolvePitched resolves one side. A pitch or height of 0 stands for rows or
// layers without gaps.
func (c *contextState) resolvePitched(what string, e *pitchedSide, width, height, depth uintptr) (span, error) {
	if e.pitch == 0 {
		e.pitch = width
	}
	if e.height == 0 {
		e.height = height
	}
	maxPitch := uintptr(c.dev.attr(cu.DeviceAttributeMaxPitch))
	switch {
	case e.pitch > maxPitch:
		return span{}, refuse(cu.ErrorInvalidValue, what, "a pitch of %d bytes is more than MAX_PITCH, %d", e.pitch, maxPitch)
	case e.x > e.pitch || width > e.pitch-e.x && (height > 1 || depth > 1 || e.y > 0 || e.z > 0):
		return span{}, refuse(cu.ErrorInvalidValue, what, "rows of %d bytes at offset %d do not fit a pitch of %d", width, e.x, e.pitch)
	case depth > 1 && (e.y > e.height || height > e.height-e.y):
		return span{}, refuse(cu.ErrorInvalidValue, what, "%d rows at offset %d do not fit a layer of %d", height, e.y, e.height)
	}
	start, ok1 := extent(e.pitch, e.height, e.x, e.y, e.z)
	last, ok2 := extent(e.pitch, e.height, width, height-1, depth-1)
	if !ok1 || !ok2 {
		return span{}, refuse(cu.ErrorInvalidValue, what, "it is larger than the address space")
	}
	switch e.kind {
	case cu.MemoryTypeHost:
		return c.resolve(addressOf(e.host)+start, nil, last, sideHost, what)
	case cu.MemoryTypeDevice:
		return c.resolve(uint64(e.device)+start, nil, last, sideDevice, what)
	case cu.MemoryTypeUnified:
		if err := c.drv.needsUVA(what); err != nil {
			return span{}, err
		}
		return c.resolve(uint64(e.device)+start, nil, last, sideAny, what)
	case cu.MemoryTypeArray:
		return span{}, refuse(cu.ErrorNotSupported, what, "the software GPU has no arrays")
	}
	return span{}, refuse(cu.ErrorInvalidValue, what, "memory type %d is not known", e.kind)
}

// extent returns x + y*pitch + z*pitch*height, or false if that overflows.
func extent(pitch, height, x, y, z uintptr) (uint64, bool) {
	h1, layer := bits.Mul64(uint64(pitch), uint64(height))
	h2, rows := bits.Mul64(uint64(y), uint64(pitch))
	h3, layers := bits.Mul64(uint64(z), layer)
	sum, c1 := bits.Add64(rows, layers, 0)
	sum, c2 := bits.Add64(sum, uint64(x), 0)
	return sum, h1|h2|h3|c1|c2 == 0 && sum < 1<<62
}

// Submit makes the calls of b one by one; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) { return b.Do(d, ctx) }

// MemcpyBatchAsync makes the copies one after the other. Any order is allowed; see
// [cu.Copies]. Pageable memory is in use until they are done. In race builds, copies that
// would differ in another order are reported as a data race.
func (d *Driver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	if err := d.since("cuMemcpyBatchAsync", 12080); err != nil {
		return err
	}
	if len(dsts) == 0 || len(dsts) != len(srcs) || len(dsts) != len(sizes) || stream == 0 || stream == cu.StreamLegacy {
		return cu.ErrorInvalidValue
	}
	for i := range dsts {
		if err := d.listedCopy(ctx, dsts[i], srcs[i], sizes[i], stream); err != nil {
			return err
		}
	}
	if unordered.Enabled {
		reportUnordered(dsts, srcs, sizes)
	}
	return nil
}

// listedCopy makes a copy of a list.
func (d *Driver) listedCopy(h cu.Context, dst, src cu.DevicePtr, bytes uintptr, stream cu.Stream) error {
	what := copyText(bytes, "between addresses")
	if err := d.needsUVA(what); err != nil {
		return err
	}
	describe := deviceToDevice(what, dst, src, bytes, sideAny)
	return d.copyCall(h, stream, true, what, func(c *contextState) (*transfer, error) {
		t, err := describe(c)
		if t != nil {
			t.listed = true
		}
		return t, err
	})
}

// reportUnordered reports copies of one list that conflict to the race detector.
func reportUnordered(dsts, srcs []cu.DevicePtr, sizes []uintptr) {
	copies := make([]unordered.Copy, len(dsts))
	for i, n := range sizes {
		copies[i] = unordered.Copy{Dst: unordered.Range{From: uintptr(dsts[i]), Bytes: n}, Src: unordered.Range{From: uintptr(srcs[i]), Bytes: n}}
	}
	unordered.Report(copies, func(i int) string {
		return fmt.Sprintf("copy %d of %d, of %d bytes to %#x from %#x", i+1, len(dsts), sizes[i], dsts[i], srcs[i])
	})
}
