package softgpu

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// boxEnd is one side of a 2D or 3D copy.
type boxEnd struct {
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

// Memcpy2DAsync is Memcpy2D, stream-ordered.
func (d *Driver) Memcpy2DAsync(h cu.Context, p *cu.Memcpy2D, stream cu.Stream) error {
	return d.copy2D(h, p, stream, true)
}

func (d *Driver) copy2D(h cu.Context, p *cu.Memcpy2D, stream cu.Stream, async bool) error {
	const what = "copy a rectangle"
	if p == nil {
		return refuse(cu.ErrorInvalidValue, what, "there is no description of it")
	}
	q := *p
	dst := boxEnd{kind: q.DstMemoryType, host: q.DstHost, device: q.DstDevice, x: q.DstXInBytes, y: q.DstY, pitch: q.DstPitch}
	src := boxEnd{kind: q.SrcMemoryType, host: q.SrcHost, device: q.SrcDevice, x: q.SrcXInBytes, y: q.SrcY, pitch: q.SrcPitch}
	return d.copyCall(h, stream, async, what, func(c *contextState) (*transfer, error) {
		return c.box(what, dst, src, q.WidthInBytes, q.Height, 1)
	})
}

// Memcpy3D copies a box.
func (d *Driver) Memcpy3D(h cu.Context, p *cu.Memcpy3D) error {
	return d.copy3D(h, p, cu.StreamLegacy, false)
}

// Memcpy3DAsync is Memcpy3D, stream-ordered.
func (d *Driver) Memcpy3DAsync(h cu.Context, p *cu.Memcpy3D, stream cu.Stream) error {
	return d.copy3D(h, p, stream, true)
}

func (d *Driver) copy3D(h cu.Context, p *cu.Memcpy3D, stream cu.Stream, async bool) error {
	const what = "copy a box"
	if p == nil {
		return refuse(cu.ErrorInvalidValue, what, "there is no description of it")
	}
	q := *p
	dst := boxEnd{q.DstMemoryType, q.DstHost, q.DstDevice, q.DstXInBytes, q.DstY, q.DstZ, q.DstPitch, q.DstHeight}
	src := boxEnd{q.SrcMemoryType, q.SrcHost, q.SrcDevice, q.SrcXInBytes, q.SrcY, q.SrcZ, q.SrcPitch, q.SrcHeight}
	return d.copyCall(h, stream, async, what, func(c *contextState) (*transfer, error) {
		if q.DstLOD != 0 || q.SrcLOD != 0 {
			return nil, refuse(cu.ErrorInvalidValue, what, "the level of detail must be 0")
		}
		return c.box(what, dst, src, q.WidthInBytes, q.Height, q.Depth)
	})
}

// box checks the shape and resolves both ends.
func (c *contextState) box(what string, dst, src boxEnd, width, height, depth uintptr) (*transfer, error) {
	if width == 0 || height == 0 || depth == 0 {
		return nil, nil
	}
	to, err := c.boxPlace(what+": destination", &dst, width, height, depth)
	if err != nil {
		return nil, err
	}
	from, err := c.boxPlace(what+": source", &src, width, height, depth)
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

// boxPlace resolves one end. A pitch or height of 0 stands for rows or layers
// without gaps.
func (c *contextState) boxPlace(what string, e *boxEnd, width, height, depth uintptr) (place, error) {
	if e.pitch == 0 {
		e.pitch = width
	}
	if e.height == 0 {
		e.height = height
	}
	maxPitch := uintptr(c.dev.attr(cu.DeviceAttributeMaxPitch))
	switch {
	case e.pitch > maxPitch:
		return place{}, refuse(cu.ErrorInvalidValue, what, "a pitch of %d bytes is more than MAX_PITCH, %d", e.pitch, maxPitch)
	case e.x > e.pitch || width > e.pitch-e.x && (height > 1 || depth > 1 || e.y > 0 || e.z > 0):
		return place{}, refuse(cu.ErrorInvalidValue, what, "rows of %d bytes at offset %d do not fit a pitch of %d", width, e.x, e.pitch)
	case depth > 1 && (e.y > e.height || height > e.height-e.y):
		return place{}, refuse(cu.ErrorInvalidValue, what, "%d rows at offset %d do not fit a layer of %d", height, e.y, e.height)
	}
	start, ok1 := extent(e.pitch, e.height, e.x, e.y, e.z)
	last, ok2 := extent(e.pitch, e.height, width, height-1, depth-1)
	if !ok1 || !ok2 {
		return place{}, refuse(cu.ErrorInvalidValue, what, "the shape is larger than memory")
	}
	switch e.kind {
	case cu.MemoryTypeHost:
		return c.resolve(addressOf(e.host)+start, nil, last, sideHost, what)
	case cu.MemoryTypeDevice:
		return c.resolve(uint64(e.device)+start, nil, last, sideDevice, what)
	case cu.MemoryTypeUnified:
		if err := c.drv.needsUVA(what); err != nil {
			return place{}, err
		}
		return c.resolve(uint64(e.device)+start, nil, last, sideAny, what)
	case cu.MemoryTypeArray:
		return place{}, refuse(cu.ErrorNotSupported, what, "the software GPU has no arrays")
	}
	return place{}, refuse(cu.ErrorInvalidValue, what, "no memory type %d", e.kind)
}

// extent is x + y*pitch + z*pitch*height, if it can be counted.
func extent(pitch, height, x, y, z uintptr) (uint64, bool) {
	h1, layer := bits.Mul64(uint64(pitch), uint64(height))
	h2, rows := bits.Mul64(uint64(y), uint64(pitch))
	h3, layers := bits.Mul64(uint64(z), layer)
	sum, c1 := bits.Add64(rows, layers, 0)
	sum, c2 := bits.Add64(sum, uint64(x), 0)
	return sum, h1|h2|h3|c1|c2 == 0 && sum < 1<<62
}
