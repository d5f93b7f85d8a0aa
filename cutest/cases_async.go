package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const asyncDoc = "Programming Guide: Concurrent Execution between Host and Device; Driver API: API synchronization behavior"

// behind makes a stream that is blocked by a gate, and returns both.
func (c *trial) behind(flags cu.StreamFlags) (*gate, cu.Stream) {
	s := c.stream(flags)
	g := c.gate()
	g.hold(s)
	return g, s
}

var asyncChecks = []check{
	{"async/launch", "a launch returns before the kernel is done",
		asyncDoc, needMapHost, func(c *trial) {
			m := c.mapped(4)
			for _, flags := range []cu.StreamFlags{cu.StreamDefault, cu.StreamNonBlocking} {
				g, s := c.behind(flags)
				c.mustReturn(g, "LaunchKernel", func() error {
					return c.tryLaunch(c.ctx, s, "store", 1, m.dev, uint32(11), uint32(1))
				})
				c.busy(s)
				g.open()
				c.sync(s)
			}
			c.check(loadWord(m.b, 0) == 11, "got %d, want 11", loadWord(m.b, 0))
		}},
	{"async/hundreds-of-launches", "hundreds of launches can be queued behind a running kernel",
		asyncDoc, needMapHost, func(c *trial) {
			const n = 300
			p := c.device(4)
			c.up(p, words(0))
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "300 launches", func() error {
				for range n {
					if err := c.tryLaunch(c.ctx, s, "inc", 1, p, uint32(1), uint32(1)); err != nil {
						return err
					}
				}
				return nil
			})
			c.busy(s)
			g.open()
			c.same("the count", c.down(p, 4), words(n))
		}},
	{"async/page-locked-copies", "asynchronous copies between the device and page-locked memory return before they are done",
		asyncDoc, needMapHost, func(c *trial) {
			for _, n := range []int{64, 64 << 10, 4 << 20} {
				p, in, out := c.device(n), c.pinned(n, 0), c.pinned(n, 0)
				g, s := c.behind(cu.StreamNonBlocking)
				c.mustReturn(g, fmt.Sprintf("MemcpyHtoDAsync of %d bytes", n), func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, in.p, uintptr(n), s) })
				c.mustReturn(g, fmt.Sprintf("MemcpyDtoHAsync of %d bytes", n), func() error { return c.d.MemcpyDtoHAsync(c.ctx, out.p, p, uintptr(n), s) })
				c.busy(s)
				g.open()
				c.sync(s)
				c.same("round trip", out.b, in.b)
			}
		}},
	{"async/generic-copy", "an asynchronous copy of inferred direction returns before it is done",
		asyncDoc, needMapHost | needUVA, func(c *trial) {
			const n = 1 << 20
			p, in := c.device(n), c.pinned(n, 0)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyAsync", func() error { return c.d.MemcpyAsync(c.ctx, p, addressOfPointer(in.p), n, s) })
			c.busy(s)
			g.open()
			c.same("copied", c.down(p, n), in.b)
		}},
	{"async/registered-copy", "registered memory is copied asynchronously like allocated page-locked memory",
		asyncDoc, needMapHost | needRegister, func(c *trial) {
			const n = 1 << 20
			p, b := c.device(n), c.pageable(n)
			c.register(b, 0)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyHtoDAsync", func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), n, s) })
			c.busy(s)
			g.open()
			c.same("copied", c.down(p, n), b)
		}},
	{"async/device-copies", "copies within the device return before they are done, with and without Async",
		asyncDoc, needMapHost, func(c *trial) {
			const n = 1 << 20
			p, q := c.device(n), c.device(n)
			want := c.down(p, n)
			g := c.gate()
			g.hold(0)
			c.mustReturn(g, "MemcpyDtoD", func() error { return c.d.MemcpyDtoD(c.ctx, q, p, n) })
			c.busy(0)
			g.open()
			c.same("copied", c.down(q, n), want)
			c.up(q, c.random(n))
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyDtoDAsync", func() error { return c.d.MemcpyDtoDAsync(c.ctx, q, p, n, s) })
			c.busy(s)
			g.open()
			c.same("copied", c.down(q, n), want)
		}},
	{"async/fills", "fills of device memory return before they are done, with and without Async",
		asyncDoc + ", Memset", needMapHost, func(c *trial) {
			p := c.device(4096)
			g := c.gate()
			g.hold(0)
			c.mustReturn(g, "MemsetD8", func() error { return c.d.MemsetD8(c.ctx, p, 1, 1024) })
			c.mustReturn(g, "MemsetD32", func() error { return c.d.MemsetD32(c.ctx, p+1024, 0x02020202, 256) })
			c.busy(0)
			g.open()
			c.syncAll()
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemsetD16Async", func() error { return c.d.MemsetD16Async(c.ctx, p+2048, 0x0303, 512, s) })
			c.mustReturn(g, "MemsetD8Async", func() error { return c.d.MemsetD8Async(c.ctx, p+3072, 4, 1024, s) })
			c.busy(s)
			g.open()
			want := append(append(append(repeated(0x01010101, 256), repeated(0x02020202, 256)...), repeated(0x03030303, 256)...), repeated(0x04040404, 256)...)
			c.same("filled", c.down(p, 4096), want)
		}},
	{"async/2d-and-3d", "asynchronous 2D and 3D copies of page-locked memory return before they are done",
		asyncDoc, needMapHost, func(c *trial) {
			const n = 1 << 16
			p, in := c.device(n), c.pinned(n, 0)
			two := rect{64, 100, 0, 0, 128, 0, 0, 256}
			before := c.down(p, n)
			g, s := c.behind(cu.StreamNonBlocking)
			d := two.descriptor()
			setHost(&d, true, in.p)
			setDevice(&d, false, cu.MemoryTypeDevice, p)
			c.mustReturn(g, "Memcpy2DAsync", func() error { return c.d.Memcpy2DAsync(c.ctx, &d, s) })
			b := boxes[1].descriptor()
			b.SrcMemoryType, b.SrcHost = cu.MemoryTypeHost, in.p
			b.DstMemoryType, b.DstDevice = cu.MemoryTypeDevice, p+n/2
			c.mustReturn(g, "Memcpy3DAsync", func() error { return c.d.Memcpy3DAsync(c.ctx, &b, s) })
			c.busy(s)
			g.open()
			want := two.expect(before, in.b)
			copy(want[n/2:], boxes[1].expect(want[n/2:], in.b))
			c.same("copied", c.down(p, n), want)
		}},
	{"async/records-and-waits", "recording an event, waiting for it on a stream and queueing a host function return at once",
		asyncDoc, needMapHost, func(c *trial) {
			e, other := c.event(0), c.stream(cu.StreamNonBlocking)
			g, s := c.behind(cu.StreamNonBlocking)
			ran := make(chan struct{})
			c.mustReturn(g, "EventRecord", func() error { return c.d.EventRecord(c.ctx, e, s) })
			c.mustReturn(g, "StreamWaitEvent", func() error { return c.d.StreamWaitEvent(c.ctx, other, e, 0) })
			c.mustReturn(g, "LaunchHostFunc", func() error { return c.d.LaunchHostFunc(c.ctx, s, func() { close(ran) }) })
			select {
			case <-ran:
				c.fail("the host function ran before the kernel before it was done")
			default:
			}
			g.open()
			c.sync(s)
			<-ran
		}},
	{"async/parameters-copied", "a launch copies its parameters: the buffer may change at once",
		"Driver API: cuLaunchKernel", needMapHost, func(c *trial) {
			p := c.device(4)
			f := c.kernel("store")
			g, s := c.behind(cu.StreamNonBlocking)
			params := pack(p, uint32(71), uint32(1))
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, s, params), "launch")
			c.scramble(params)
			g.open()
			c.same("stored", c.down(p, 4), words(71))
		}},
}
