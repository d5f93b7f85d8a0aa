package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const copy2DDoc = "Driver API: cuMemcpy2D, CUDA_MEMCPY2D"

// rect is a 2D copy of w bytes by h rows, from (sx, sy) with pitch sp to (dx, dy) with
// pitch dp.
type rect struct{ w, h, sx, sy, sp, dx, dy, dp int }

// expect returns what dst must contain after the copy.
func (r rect) expect(dst, src []byte) []byte {
	out := append([]byte(nil), dst...)
	for y := range r.h {
		s := (r.sy+y)*r.sp + r.sx
		copy(out[(r.dy+y)*r.dp+r.dx:][:r.w], src[s:s+r.w])
	}
	return out
}

func (r rect) descriptor() cu.Memcpy2D {
	return cu.Memcpy2D{
		SrcXInBytes: uintptr(r.sx), SrcY: uintptr(r.sy), SrcPitch: uintptr(r.sp),
		DstXInBytes: uintptr(r.dx), DstY: uintptr(r.dy), DstPitch: uintptr(r.dp),
		WidthInBytes: uintptr(r.w), Height: uintptr(r.h),
	}
}

var rects = []rect{
	{16, 4, 0, 0, 64, 0, 0, 32},
	{13, 9, 3, 2, 101, 5, 1, 57},
	{64, 16, 0, 0, 64, 0, 0, 64},
	{1, 30, 7, 0, 40, 39, 1, 40},
	{1000, 33, 1, 1, 1024, 24, 5, 1024},
}

// rectRoom is the size in bytes of each end, enough for all of rects.
const rectRoom = 1 << 16

// end is memory that can be the source or the destination of a 2D copy, with functions to
// fill it and to read it.
type end struct {
	name  string
	set   func(p *cu.Memcpy2D, src bool) // makes it the source or the destination of p
	write func(b []byte)
	read  func() []byte
}

func setHost(p *cu.Memcpy2D, src bool, h cu.HostPtr) {
	if src {
		p.SrcMemoryType, p.SrcHost = cu.MemoryTypeHost, h
	} else {
		p.DstMemoryType, p.DstHost = cu.MemoryTypeHost, h
	}
}

func setDevice(p *cu.Memcpy2D, src bool, kind cu.MemoryType, d cu.DevicePtr) {
	if src {
		p.SrcMemoryType, p.SrcDevice = kind, d
	} else {
		p.DstMemoryType, p.DstDevice = kind, d
	}
}

func (c *trial) ends() []end {
	dev := c.device(rectRoom)
	pageable, pinned := c.pageable(rectRoom), c.pinned(rectRoom, 0).b
	host := func(name string, b []byte) end {
		return end{name, func(p *cu.Memcpy2D, src bool) { setHost(p, src, pointerTo(b)) },
			func(v []byte) { copy(b, v) }, func() []byte { c.syncAll(); return append([]byte(nil), b...) }}
	}
	device := func(name string, kind cu.MemoryType) end {
		return end{name, func(p *cu.Memcpy2D, src bool) { setDevice(p, src, kind, dev) },
			func(v []byte) { c.up(dev, v) }, func() []byte { return c.down(dev, rectRoom) }}
	}
	all := []end{device("device", cu.MemoryTypeDevice), host("pageable", pageable), host("page-locked", pinned)}
	if c.attr(cu.DeviceAttributeUnifiedAddressing) != 0 {
		all = append(all, device("unified", cu.MemoryTypeUnified))
	}
	return all
}

// everyRect copies every rectangle between all kinds of ends.
func (c *trial) everyRect(do func(p *cu.Memcpy2D) error) {
	from, to := c.ends(), c.ends()
	for _, r := range rects {
		for _, s := range from {
			for _, d := range to {
				src, dst := c.random(rectRoom), c.random(rectRoom)
				s.write(src)
				d.write(dst)
				p := r.descriptor()
				s.set(&p, true)
				d.set(&p, false)
				what := fmt.Sprintf("%+v, %s to %s", r, s.name, d.name)
				c.ok(do(&p), what)
				c.same(what, d.read(), r.expect(dst, src))
			}
		}
	}
}

var copy2DChecks = []check{
	{"copy2d/rectangles", "a 2D copy moves exactly its rectangle, between any two kinds of memory",
		copy2DDoc, 0, func(c *trial) {
			c.everyRect(func(p *cu.Memcpy2D) error { return c.d.Memcpy2D(c.ctx, p) })
		}},
	{"copy2d/rectangles-async", "an asynchronous 2D copy moves exactly its rectangle",
		copy2DDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.everyRect(func(p *cu.Memcpy2D) error {
				if err := c.d.Memcpy2DAsync(c.ctx, p, s); err != nil {
					return err
				}
				return c.d.StreamSynchronize(c.ctx, s)
			})
		}},
	{"copy2d/pitched-memory", "rows can be copied to pitched memory and back",
		copy2DDoc + "; cuMemAllocPitch", 0, func(c *trial) {
			const w, h = 517, 19
			p, pitch, err := c.d.MemAllocPitch(c.ctx, w, h, 4)
			c.ok(err, "allocate")
			c.cleanup(func() { c.cleanupError("free", c.d.MemFree(c.ctx, p)) })
			in, out := c.pageable(w*h), c.pageable(w*h)
			c.ok(c.d.Memcpy2D(c.ctx, &cu.Memcpy2D{
				SrcMemoryType: cu.MemoryTypeHost, SrcHost: pointerTo(in), SrcPitch: w,
				DstMemoryType: cu.MemoryTypeDevice, DstDevice: p, DstPitch: pitch, WidthInBytes: w, Height: h,
			}), "in")
			c.same("the seventh row", c.down(p+cu.DevicePtr(6*pitch), w), in[6*w:7*w])
			c.ok(c.d.Memcpy2D(c.ctx, &cu.Memcpy2D{
				SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: p, SrcPitch: pitch,
				DstMemoryType: cu.MemoryTypeHost, DstHost: pointerTo(out), DstPitch: w, WidthInBytes: w, Height: h,
			}), "out")
			c.same("all rows", out, in)
		}},
	{"copy2d/nothing", "a copy of a rectangle of width or height 0 succeeds and does nothing",
		copy2DDoc, 0, func(c *trial) {
			p, b := c.device(4096), c.pageable(4096)
			before := c.down(p, 4096)
			for _, r := range []rect{{0, 5, 0, 0, 64, 0, 0, 64}, {5, 0, 0, 0, 64, 0, 0, 64}} {
				d := r.descriptor()
				setHost(&d, true, pointerTo(b))
				setDevice(&d, false, cu.MemoryTypeDevice, p)
				c.ok(c.d.Memcpy2D(c.ctx, &d), fmt.Sprintf("%d by %d", r.w, r.h))
			}
			c.same("memory", c.down(p, 4096), before)
		}},
	{"copy2d/misuse", "a copy is refused if a pitch is below the width or above the device's limit, or if the source or destination is missing",
		copy2DDoc, 0, func(c *trial) {
			p, b := c.device(1<<16), c.pageable(1<<16)
			try := func(what string, change func(d *cu.Memcpy2D)) {
				d := rect{32, 4, 0, 0, 64, 0, 0, 64}.descriptor()
				setHost(&d, true, pointerTo(b))
				setDevice(&d, false, cu.MemoryTypeDevice, p)
				change(&d)
				c.want(c.d.Memcpy2D(c.ctx, &d), what, cu.ErrorInvalidValue)
			}
			try("source pitch below the width", func(d *cu.Memcpy2D) { d.SrcPitch = 16 })
			try("destination pitch below the width", func(d *cu.Memcpy2D) { d.DstPitch = 16 })
			try("pitch above the largest", func(d *cu.Memcpy2D) {
				d.DstPitch = uintptr(c.attr(cu.DeviceAttributeMaxPitch)) + 4096
			})
			try("no source", func(d *cu.Memcpy2D) { d.SrcHost = nil })
			try("no destination", func(d *cu.Memcpy2D) { d.DstDevice = 0 })
			try("unknown memory type", func(d *cu.Memcpy2D) { d.SrcMemoryType = 77 })
			try("memory type 0", func(d *cu.Memcpy2D) { d.DstMemoryType = 0 })
		}},
	{"copy2d/past-the-end", "a rectangle beyond the end of its allocation is refused",
		copy2DDoc, 0, func(c *trial) {
			const n = 4 << 20
			p, b := c.device(n), c.pageable(n)
			d := rect{4096, n/4096 + 1, 0, 0, 4096, 0, 0, 4096}.descriptor()
			setDevice(&d, true, cu.MemoryTypeDevice, p)
			setHost(&d, false, pointerTo(append(b, make([]byte, 4096)...)))
			c.want(c.d.Memcpy2D(c.ctx, &d), "one row too many", cu.ErrorInvalidValue)
		}},
}
