package cutest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// asyncHostChecks test when copies read and write host memory, and which calls wait.
var asyncHostChecks = []check{
	{"async/launch-blocking", "with CUDA_LAUNCH_BLOCKING=1 a launch returns when the kernel is done",
		"Programming Guide: Environment Variables, CUDA_LAUNCH_BLOCKING", needLaunchBlocking, func(c *trial) {
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
	{"async/source-read-late", "a queued copy reads its page-locked source when it runs, not before",
		asyncDoc, needMapHost, func(c *trial) {
			const n = 1 << 20
			p, in := c.device(n), c.pinned(n, 0)
			g, s := c.behind(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, n, s), "copy")
			want := c.random(n)
			copy(in.b, want)
			g.open()
			c.same("copied", c.down(p, n), want)
		}},
	{"async/destination-written-late", "a queued copy writes its page-locked destination when it runs, not before",
		asyncDoc, needMapHost, func(c *trial) {
			const n = 1 << 20
			p, out := c.device(n), c.pinned(n, 0)
			want, before := c.down(p, n), append([]byte(nil), out.b...)
			g, s := c.behind(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, n, s), "copy")
			c.busy(s)
			time.Sleep(blockedTime)
			c.same("the destination while the copy waits", out.b, before)
			g.open()
			c.sync(s)
			c.same("the destination afterwards", out.b, want)
		}},
	{"async/pageable-source-free", "once an asynchronous copy from pageable memory returns, the source may change",
		asyncDoc + ", Memcpy: Asynchronous", 0, func(c *trial) {
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
		asyncDoc + ", Memcpy: Asynchronous", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			for _, n := range []int{16, 4096, 64 << 10, 3 << 20} {
				p, dst := c.device(n), c.pageable(n)
				want := c.down(p, n)
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, pointerTo(dst), p, uintptr(n), s), "copy")
				c.same(fmt.Sprintf("%d bytes", n), dst, want)
			}
		}},
	{"async/pageable-behind-a-kernel", "an asynchronous copy to pageable memory waits for its stream; a copy from pageable memory returns once the source is read, before earlier work is done",
		asyncDoc + ", Memcpy: Asynchronous", needMapHost, func(c *trial) {
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
	{"async/pageable-arrives-later", "a synchronous copy from pageable memory returns when the source may be reused; its stream and the legacy stream's rules order the destination, and nothing else does",
		asyncDoc + ", Memcpy: Synchronous", 0, func(c *trial) {
			const n, tail, tries = 1 << 20, 4096, 20
			p, seen, src := c.device(n), c.device(tail), c.pageable(n)
			beside, blocking, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamDefault), c.event(cu.EventDisableTiming)
			look := func(s cu.Stream) []byte { // at the last bytes of the destination
				c.launch(s, "copy", tail/4, seen, p+n-tail, uint32(tail/4))
				c.sync(s)
				return c.down(seen, tail)
			}
			stale := 0
			for range tries {
				before := c.down(p+n-tail, tail)
				c.scramble(src)
				want := bytes.Clone(src[n-tail:])
				c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(src), n), "copy")
				c.scramble(src)
				if raceBuild && cu.AsEmulated(c.d) != nil { // the detector would report the next kernel
					c.ok(c.d.EventRecord(c.ctx, e, 0), "record")
					c.ok(c.d.StreamWaitEvent(c.ctx, beside, e, 0), "wait")
				}
				if got := look(beside); bytes.Equal(got, before) {
					stale++
				} else if !eachWordOf(got, before, want) {
					c.fail("a word of the destination is neither old nor new")
				}
				c.same("seen in a blocking stream", look(blocking), want)
			}
			c.observe("stale", stale)
		}},
	{"sync/copies-to-the-host", "a synchronous copy to the host waits for the work before it",
		asyncDoc + ", Memcpy: Synchronous", needMapHost, func(c *trial) {
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
	{"sync/copies-from-the-host", "a synchronous copy from the host waits for the work before it, also if it is small",
		asyncDoc + ", Memcpy: Synchronous; copies of 64 KiB or less", needMapHost, func(c *trial) {
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
		asyncDoc + ", Memcpy: Synchronous", needMapHost | needUVA, func(c *trial) {
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
	{"sync/managed-copy", "a copy from managed to device memory waits for the work before it; with Async it returns at once",
		asyncDoc + ", Memcpy", needMapHost | needManaged, func(c *trial) {
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
		asyncDoc + ", Memset", needMapHost, func(c *trial) {
			m := c.mapped(page)
			g := c.gate()
			g.hold(0)
			c.mustWait(g, "MemsetD8 of page-locked memory", func() error { return c.d.MemsetD8(c.ctx, m.dev, 9, page) })
			c.same("filled", m.b, repeated(0x09090909, page/4))
		}},
}

// eachWordOf reports whether each word of got is the word of a or of b in that place.
func eachWordOf(got, a, b []byte) bool {
	for i := 0; i < len(got); i += 4 {
		if w := got[i : i+4]; !bytes.Equal(w, a[i:i+4]) && !bytes.Equal(w, b[i:i+4]) {
			return false
		}
	}
	return true
}
