package cutest

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const managedDoc = "Programming Guide: Unified Memory Programming; Driver API: cuMemAllocManaged"

const (
	attachGlobal = cu.MemAttachGlobal
	attachHost   = cu.MemAttachHost
	attachSingle = cu.MemAttachSingle
)

var managedChecks = []check{
	{"managed/without-capability", "a device without managed memory reports that it is not supported",
		managedDoc, 0, func(c *trial) {
			p, err := c.d.MemAllocManaged(c.ctx, page, attachGlobal)
			if c.attr(cu.DeviceAttributeManagedMemory) == 0 {
				c.want(err, "allocate", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
		}},
	{"managed/host-device-host", "host and kernels use managed memory at one address",
		managedDoc, needManaged, func(c *trial) {
			const n = 100_003
			p, b := c.managed(4*n, attachGlobal)
			for i := range uint32(4) {
				c.touch(b)
				c.scramble(b)
				want := plus(b, 17+i)
				c.launch(0, "inc", n, p, 17+i, uint32(n))
				c.syncAll()
				c.touch(b)
				c.same("incremented by a kernel", b, want)
			}
		}},
	{"managed/sparse-touch", "host and device use different pages of one allocation alternately",
		managedDoc, needManaged, func(c *trial) {
			const pages = 600
			p, b := c.managed(pages*page, attachGlobal)
			want := append([]byte(nil), b...)
			for i := 0; i < pages; i += 37 {
				c.launch(0, "store", 3, p+cu.DevicePtr(i*page+12), uint32(i), uint32(3))
				copy(want[i*page+12:], repeated(uint32(i), 3))
			}
			c.syncAll()
			c.touch(b)
			c.same("all pages", b, want)
			for i := 5; i < pages; i += 53 {
				b[i*page+100] ^= 0xff
				want[i*page+100] ^= 0xff
			}
			q := c.device(pages * page)
			c.ok(c.d.MemcpyDtoD(c.ctx, q, p, pages*page), "copy")
			c.same("what the device sees", c.down(q, pages*page), want)
		}},
	{"managed/mixed-pointers", "one launch can use managed, device and page-locked memory",
		managedDoc, needManaged | needMapHost, func(c *trial) {
			const n = 1500
			m, mb := c.managed(4*n, attachGlobal)
			d, h := c.device(4*n), c.mapped(4*n)
			out, outb := c.managed(4*n, attachGlobal)
			copy(mb, repeated(1, n))
			c.up(d, repeated(20, n))
			copy(h.b, repeated(300, n))
			c.launch(0, "add3", n, out, m, d, h.dev, uint32(n))
			c.syncAll()
			c.touch(outb)
			c.same("the sum", outb, repeated(321, n))
		}},
	{"managed/globals", "a managed variable of a module is one variable for host and kernels",
		"Programming Guide: Unified Memory Programming, Declaring Managed Variables", needManaged, func(c *trial) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(ptxManaged))
			c.ok(err, "load")
			c.cleanup(func() { c.cleanupError("unload", c.d.ModuleUnload(c.ctx, m)) })
			f, err := c.d.ModuleGetFunction(c.ctx, m, "bump")
			c.ok(err, "kernel")
			count, size, err := c.d.ModuleGetGlobal(c.ctx, m, "shared_count")
			c.ok(err, "variable")
			c.check(size == 4, "size %d, want 4", size)
			room, size, err := c.d.ModuleGetGlobal(c.ctx, m, "shared_room")
			c.ok(err, "array")
			c.check(size == page, "size %d, want %d", size, page)
			v, r := hostBytes(hostPointer(count), 4), hostBytes(hostPointer(room), page)
			c.touch(v)
			c.check(word(v, 0) == 1000, "initial value %d, want 1000", word(v, 0))
			for i := range uint32(3) {
				c.touch(v)
				copy(v, words(5000*i))
				c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(7))), "launch")
				c.syncAll()
				c.touch(v)
				c.touch(r)
				c.check(word(v, 0) == 5000*i+7 && word(r, 1023) == 5000*i+7, "got %d and %d, want %d", word(v, 0), word(r, 1023), 5000*i+7)
			}
			a, err := c.d.PointerGetAttributes(c.ctx, count)
			c.ok(err, "attributes")
			c.check(a.IsManaged, "the variable is not reported as managed")
		}},
	{"managed/copies", "copies accept managed memory as source and destination",
		managedDoc, needManaged, func(c *trial) {
			const n = 1<<20 + 9
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			out := c.pageable(n)
			c.ok(c.d.MemcpyDtoH(c.ctx, pointerTo(out), p, n), "out")
			c.same("copied out", out, want)
			c.scramble(out)
			c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(out), n), "in")
			c.syncAll()
			c.touch(b)
			c.same("copied in", b, out)
		}},
	{"managed/free-misuse", "managed memory is freed once, at its start address",
		"Driver API: cuMemFree", needManaged, func(c *trial) {
			p, err := c.d.MemAllocManaged(c.ctx, 1<<20, attachGlobal)
			c.ok(err, "allocate")
			c.want(c.d.MemFree(c.ctx, p+page), "free inside", cu.ErrorInvalidValue)
			c.want(c.d.MemFreeHost(c.ctx, hostPointer(p)), "free as page-locked", cu.ErrorInvalidValue)
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.want(c.d.MemFree(c.ctx, p), "free twice", cu.ErrorInvalidValue)
		}},
	{"managed/alloc-misuse", "managed memory needs a size and either global or host attachment",
		"Driver API: cuMemAllocManaged", needManaged, func(c *trial) {
			for _, a := range []struct {
				n     uintptr
				flags cu.MemAttachFlags
			}{{0, attachGlobal}, {page, 0}, {page, attachSingle}, {page, attachGlobal | attachHost}, {page, 0x80}} {
				p, err := c.d.MemAllocManaged(c.ctx, a.n, a.flags)
				c.want(err, "allocate", cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.MemFree(c.ctx, p)
				}
			}
		}},
	{"managed/host-during-kernel", "with concurrent access the host can use managed memory while kernels run",
		"Programming Guide: Unified Memory Programming, Coherency and Concurrency", needManaged | needConcurrentManaged | needMapHost, func(c *trial) {
			p, b := c.managed(2*page, attachGlobal)
			want := c.random(page)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			done := make(chan struct{})
			go func() {
				defer close(done)
				copy(b[page:], want)
			}()
			c.step("a host write to managed memory while a kernel runs")
			select {
			case <-done:
			case <-time.After(c.suite.times.returnLimit):
				c.fatal("a host write to managed memory waited for a kernel")
			}
			c.busy(s)
			c.launch(s, "inc", page/4, p+page, uint32(3), uint32(page/4))
			g.open()
			c.sync(s)
			c.touch(b)
			c.same("written during a kernel, incremented after it", b[page:], plus(want, 3))
		}},
	{"managed/out-of-memory", "more managed memory than there are addresses is out of memory",
		"Driver API: cuMemAllocManaged", needManaged, func(c *trial) {
			_, err := c.d.MemAllocManaged(c.ctx, 1<<52, attachGlobal)
			c.want(err, "allocate 4 PiB", cu.ErrorOutOfMemory)
		}},
}
