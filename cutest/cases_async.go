package cutest

import (
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const asyncDoc = "Programming Guide: Concurrent Execution between Host and Device; Driver API: API synchronization behavior"

// behind holds a stream up and gives the gate and the stream.
func (c *T) behind(flags cu.StreamFlags) (*gate, cu.Stream) {
	s := c.stream(flags)
	g := c.gate()
	g.hold(s)
	return g, s
}

var asyncChecks = []check{
	{"async/launch", "a launch returns before the kernel is done",
		asyncDoc, needMapHost, func(c *T) {
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
	{"async/hundreds-of-launches", "hundreds of launches queue up behind a running kernel",
		asyncDoc, needMapHost, func(c *T) {
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
		asyncDoc, needMapHost, func(c *T) {
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
		asyncDoc, needMapHost | needUVA, func(c *T) {
			const n = 1 << 20
			p, in := c.device(n), c.pinned(n, 0)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyAsync", func() error { return c.d.MemcpyAsync(c.ctx, p, addressOfPointer(in.p), n, s) })
			c.busy(s)
			g.open()
			c.same("copied", c.down(p, n), in.b)
		}},
	{"async/registered-copy", "registered memory is copied asynchronously like allocated page-locked memory",
		asyncDoc, needMapHost | needRegister, func(c *T) {
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
		asyncDoc, needMapHost, func(c *T) {
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
		asyncDoc + ", Memset", needMapHost, func(c *T) {
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
		asyncDoc, needMapHost, func(c *T) {
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
		asyncDoc, needMapHost, func(c *T) {
			e, other := c.event(0), c.stream(cu.StreamNonBlocking)
			g, s := c.behind(cu.StreamNonBlocking)
			ran := make(chan struct{})
			c.mustReturn(g, "EventRecord", func() error { return c.d.EventRecord(c.ctx, e, s) })
			c.mustReturn(g, "StreamWaitEvent", func() error { return c.d.StreamWaitEvent(c.ctx, other, e, 0) })
			c.mustReturn(g, "LaunchHostFunc", func() error { return c.d.LaunchHostFunc(c.ctx, s, func() { close(ran) }) })
			select {
			case <-ran:
				c.fail("the host function ran before the kernel in front of it was done")
			default:
			}
			g.open()
			c.sync(s)
			<-ran
		}},
	{"async/parameters-copied", "a launch copies its parameters: the buffer may change at once",
		"Driver API: cuLaunchKernel", needMapHost, func(c *T) {
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

var asyncHostChecks = []check{
	{"async/launch-blocking", "with CUDA_LAUNCH_BLOCKING=1 a launch returns when the kernel is done",
		"Programming Guide: Environment Variables, CUDA_LAUNCH_BLOCKING", needLaunchBlocking, func(c *T) {
			cycles := uint64(20 * delayCycles)
			if cu.AsEmulated(c.d) != nil {
				cycles = delayCycles / 5
			}
			least := time.Duration(float64(cycles) / float64(c.attr(cu.DeviceAttributeClockRate)) * 0.9 * float64(time.Millisecond))
			for _, flags := range []cu.StreamFlags{cu.StreamDefault, cu.StreamNonBlocking} {
				s, e := c.stream(flags), c.event(cu.EventDisableTiming)
				began := c.now()
				c.launch(s, "delay", 1, cycles, cu.DevicePtr(0))
				took := c.now() - began
				c.ok(c.d.StreamQuery(c.ctx, s), "query right after the launch")
				c.check(took >= least, "the launch of a kernel of %v took %v", least, took)
				c.ok(c.d.EventRecord(c.ctx, e, s), "record")
				c.sync(s)
			}
		}},
	{"async/source-read-late", "a queued copy reads its page-locked source when its turn comes",
		asyncDoc, needMapHost, func(c *T) {
			const n = 1 << 20
			p, in := c.device(n), c.pinned(n, 0)
			g, s := c.behind(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, n, s), "copy")
			want := c.random(n)
			copy(in.b, want)
			g.open()
			c.same("copied", c.down(p, n), want)
		}},
	{"async/destination-written-late", "a queued copy leaves its page-locked destination alone until its turn comes",
		asyncDoc, needMapHost, func(c *T) {
			const n = 1 << 20
			p, out := c.device(n), c.pinned(n, 0)
			want, before := c.down(p, n), append([]byte(nil), out.b...)
			g, s := c.behind(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, n, s), "copy")
			c.busy(s)
			time.Sleep(glimpse)
			c.same("the destination while the copy waits", out.b, before)
			g.open()
			c.sync(s)
			c.same("the destination afterwards", out.b, want)
		}},
	{"async/pageable-source-free", "once an asynchronous copy from pageable memory returns, the source may change",
		asyncDoc + ", Memcpy: Asynchronous", 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			for _, n := range []int{16, 4096, 64 << 10, 64<<10 + 4, 3 << 20} {
				p, src := c.device(n), c.pageable(n)
				want := append([]byte(nil), src...)
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(src), uintptr(n), s), "copy")
				c.scramble(src)
				c.sync(s)
				c.same(fmt.Sprintf("%d bytes", n), c.down(p, n), want)
			}
		}},
	{"async/pageable-destination-there", "an asynchronous copy to pageable memory returns when the bytes have arrived",
		asyncDoc + ", Memcpy: Asynchronous", 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			for _, n := range []int{16, 4096, 64 << 10, 3 << 20} {
				p, dst := c.device(n), c.pageable(n)
				want := c.down(p, n)
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, pointerTo(dst), p, uintptr(n), s), "copy")
				c.same(fmt.Sprintf("%d bytes", n), dst, want)
			}
		}},
	{"async/pageable-behind-a-kernel", "an asynchronous copy to pageable memory waits for its stream; one from it returns once the source is read, before its turn",
		asyncDoc + ", Memcpy: Asynchronous", needMapHost, func(c *T) {
			for _, n := range []int{4096, 64 << 10, 64<<10 + 4, 1 << 20} {
				p, host := c.device(n), c.pageable(n)
				want := append([]byte(nil), host...)
				g, s := c.behind(cu.StreamNonBlocking)
				c.mustReturn(g, fmt.Sprintf("MemcpyHtoDAsync of %d bytes of pageable memory", n), func() error {
					return c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(host), uintptr(n), s)
				})
				c.busy(s)
				g.open()
				c.sync(s)
				c.same("copied in", c.down(p, n), want)
				c.scramble(host)
				g, s = c.behind(cu.StreamNonBlocking)
				c.mustWait(g, "MemcpyDtoHAsync to pageable memory", func() error {
					return c.d.MemcpyDtoHAsync(c.ctx, pointerTo(host), p, uintptr(n), s)
				})
				c.same("copied out", host, want)
			}
		}},
	{"sync/copies-to-the-host", "a synchronous copy to the host waits for the work before it",
		asyncDoc + ", Memcpy: Synchronous", needMapHost, func(c *T) {
			for _, n := range []int{16, 64 << 10, 1 << 20} {
				p := c.device(n)
				for _, dst := range [][]byte{c.pageable(n), c.pinned(n, 0).b} {
					g := c.gate()
					g.hold(0)
					c.ok(c.d.MemsetD8(c.ctx, p, byte(n>>4)|3, uintptr(n)), "fill behind the gate")
					c.mustWait(g, "MemcpyDtoH", func() error { return c.d.MemcpyDtoH(c.ctx, pointerTo(dst), p, uintptr(n)) })
					c.check(dst[0] == byte(n>>4)|3 && dst[n-1] == byte(n>>4)|3, "copied %#x and %#x before the fill", dst[0], dst[n-1])
				}
			}
		}},
	{"sync/copies-from-the-host", "a synchronous copy from the host waits for the work before it, small ones too",
		asyncDoc + ", Memcpy: Synchronous; copies of 64 KiB or less", needMapHost, func(c *T) {
			for _, n := range []int{16, 64 << 10, 64<<10 + 4, 1 << 20} {
				p := c.device(n)
				for name, src := range map[string][]byte{"pageable": c.pageable(n), "page-locked": c.pinned(n, 0).b} {
					g := c.gate()
					g.hold(0)
					c.mustWait(g, fmt.Sprintf("MemcpyHtoD of %d bytes of %s memory", n, name), func() error {
						return c.d.MemcpyHtoD(c.ctx, p, pointerTo(src), uintptr(n))
					})
					c.same("copied", c.down(p, n), src)
				}
			}
		}},
	{"sync/host-to-host", "a copy between host addresses waits for the work before it and is done when it returns",
		asyncDoc + ", Memcpy: Synchronous", needMapHost | needUVA, func(c *T) {
			const n = 100_000
			a, b := c.pageable(n), c.pinned(n, 0).b
			c.ok(c.d.Memcpy(c.ctx, addressOf(b), addressOf(a), n), "copy")
			c.same("copied", b, a)
			c.scramble(a)
			g := c.gate()
			g.hold(0)
			c.mustWait(g, "Memcpy between host addresses", func() error { return c.d.Memcpy(c.ctx, addressOf(b), addressOf(a), n) })
			c.same("copied behind a kernel", b, a)
		}},
	{"sync/managed-copy", "a copy from managed to device memory waits for the work before it, with Async it returns at once",
		asyncDoc + ", Memcpy", needMapHost | needManaged, func(c *T) {
			const n = 1 << 20
			m, _ := c.managed(n, attachGlobal)
			p := c.device(n)
			g := c.gate()
			g.hold(0)
			c.mustWait(g, "Memcpy from managed to device memory", func() error { return c.d.Memcpy(c.ctx, p, m, n) })
			c.syncAll()
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyAsync from managed to device memory", func() error { return c.d.MemcpyAsync(c.ctx, p, m, n, s) })
			g.open()
			c.sync(s)
		}},
	{"sync/fill-of-page-locked", "a fill of page-locked memory waits for the work before it",
		asyncDoc + ", Memset", needMapHost, func(c *T) {
			m := c.mapped(page)
			g := c.gate()
			g.hold(0)
			c.mustWait(g, "MemsetD8 of page-locked memory", func() error { return c.d.MemsetD8(c.ctx, m.dev, 9, page) })
			c.same("filled", m.b, repeated(0x09090909, page/4))
		}},
}
