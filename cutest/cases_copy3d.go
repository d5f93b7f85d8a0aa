package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const copy3DDoc = "Driver API: cuMemcpy3D, CUDA_MEMCPY3D"

// box is a 3D copy. pitch and height describe the memory around the box.
type box struct {
	w, h, d                        int
	sx, sy, sz, spitch, srows      int
	dx, dy, dz, dpitch, drows, all int
}

func (b box) expect(dst, src []byte) []byte {
	out := append([]byte(nil), dst...)
	for z := range b.d {
		for y := range b.h {
			s := ((b.sz+z)*b.srows+b.sy+y)*b.spitch + b.sx
			d := ((b.dz+z)*b.drows+b.dy+y)*b.dpitch + b.dx
			copy(out[d:d+b.w], src[s:s+b.w])
		}
	}
	return out
}

func (b box) descriptor() cu.Memcpy3D {
	return cu.Memcpy3D{
		SrcXInBytes: uintptr(b.sx), SrcY: uintptr(b.sy), SrcZ: uintptr(b.sz), SrcPitch: uintptr(b.spitch), SrcHeight: uintptr(b.srows),
		DstXInBytes: uintptr(b.dx), DstY: uintptr(b.dy), DstZ: uintptr(b.dz), DstPitch: uintptr(b.dpitch), DstHeight: uintptr(b.drows),
		WidthInBytes: uintptr(b.w), Height: uintptr(b.h), Depth: uintptr(b.d),
	}
}

var boxes = []box{
	{w: 16, h: 4, d: 3, spitch: 32, srows: 5, dpitch: 16, drows: 4, all: 1 << 14},
	{w: 21, h: 6, d: 5, sx: 3, sy: 1, sz: 1, spitch: 40, srows: 9, dx: 7, dy: 2, dz: 1, dpitch: 64, drows: 11, all: 1 << 14},
	{w: 1, h: 1, d: 9, spitch: 10, srows: 3, dx: 1, dpitch: 12, drows: 7, all: 1 << 14},
}

// everyBox copies all boxes into, within and out of the device.
func (c *trial) everyBox(do func(p *cu.Memcpy3D) error) {
	for i, b := range boxes {
		host, from, to := c.pageable(b.all), c.device(b.all), c.device(b.all)
		src, dst := c.random(b.all), c.random(b.all)
		copy(host, src)
		c.up(to, dst)
		in := b.descriptor()
		in.SrcMemoryType, in.SrcHost = cu.MemoryTypeHost, pointerTo(host)
		in.DstMemoryType, in.DstDevice = cu.MemoryTypeDevice, to
		c.ok(do(&in), "box in")
		c.same(fmt.Sprintf("box %d in", i), c.down(to, b.all), b.expect(dst, src))

		c.up(from, src)
		c.up(to, dst)
		within := b.descriptor()
		within.SrcMemoryType, within.SrcDevice = cu.MemoryTypeDevice, from
		within.DstMemoryType, within.DstDevice = cu.MemoryTypeDevice, to
		c.ok(do(&within), "box within")
		c.same(fmt.Sprintf("box %d within", i), c.down(to, b.all), b.expect(dst, src))

		out := b.descriptor()
		out.SrcMemoryType, out.SrcDevice = cu.MemoryTypeDevice, from
		out.DstMemoryType, out.DstHost = cu.MemoryTypeHost, pointerTo(host)
		before := append([]byte(nil), host...)
		c.ok(do(&out), "box out")
		c.syncAll()
		c.same(fmt.Sprintf("box %d out", i), host, b.expect(before, src))
	}
}

var copy3DChecks = []check{
	{"copy3d/boxes", "a 3D copy moves exactly its box into, within and out of the device",
		copy3DDoc, 0, func(c *trial) {
			c.everyBox(func(p *cu.Memcpy3D) error { return c.d.Memcpy3D(c.ctx, p) })
		}},
	{"copy3d/boxes-async", "an asynchronous 3D copy moves exactly its box",
		copy3DDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.everyBox(func(p *cu.Memcpy3D) error {
				if err := c.d.Memcpy3DAsync(c.ctx, p, s); err != nil {
					return err
				}
				return c.d.StreamSynchronize(c.ctx, s)
			})
		}},
	{"copy3d/misuse", "a box wider than its pitch or higher than its layers is refused",
		copy3DDoc, 0, func(c *trial) {
			p, q := c.device(1<<16), c.device(1<<16)
			try := func(what string, change func(d *cu.Memcpy3D)) {
				d := boxes[0].descriptor()
				d.SrcMemoryType, d.SrcDevice = cu.MemoryTypeDevice, p
				d.DstMemoryType, d.DstDevice = cu.MemoryTypeDevice, q
				change(&d)
				c.want(c.d.Memcpy3D(c.ctx, &d), what, cu.ErrorInvalidValue)
			}
			try("pitch below the width", func(d *cu.Memcpy3D) { d.SrcPitch = 8 })
			try("layers lower than the box", func(d *cu.Memcpy3D) { d.DstHeight = 2 })
			try("no source", func(d *cu.Memcpy3D) { d.SrcDevice = 0 })
			try("unknown memory type", func(d *cu.Memcpy3D) { d.DstMemoryType = 99 })
		}},
	{"copy3d/nothing", "a box without extent succeeds and does nothing",
		copy3DDoc, 0, func(c *trial) {
			p, q := c.device(1<<14), c.device(1<<14)
			before := c.down(q, 1<<14)
			for axis := range 3 {
				d := boxes[0].descriptor()
				d.SrcMemoryType, d.SrcDevice = cu.MemoryTypeDevice, p
				d.DstMemoryType, d.DstDevice = cu.MemoryTypeDevice, q
				*[]*uintptr{&d.WidthInBytes, &d.Height, &d.Depth}[axis] = 0
				c.ok(c.d.Memcpy3D(c.ctx, &d), "an empty box")
			}
			c.same("memory", c.down(q, 1<<14), before)
		}},
}
