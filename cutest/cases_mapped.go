package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

var mappedChecks = []check{
	{"mapped/one-address", "under unified addressing page-locked memory has the same address on the device and the host",
		"Programming Guide: Mapped Memory; Driver API: Unified Addressing", needMapHost, func(c *trial) {
			m := c.mapped(page)
			same := m.dev == addressOfPointer(m.p)
			c.check(same == (c.attr(cu.DeviceAttributeUnifiedAddressing) == 1),
				"host %p, device %#x, unified addressing %d", m.p, m.dev, c.attr(cu.DeviceAttributeUnifiedAddressing))
		}},
	{"mapped/interior-pointer", "the device address of an address inside an allocation is the base's plus the offset",
		"Driver API: cuMemHostGetDevicePointer", needMapHost, func(c *trial) {
			m := c.mapped(2 * page)
			inside, err := c.d.MemHostGetDevicePointer(c.ctx, offsetPointer(m.p, page+12), 0)
			c.ok(err, "device pointer of an interior address")
			c.check(inside == m.dev+page+12, "got %#x, want %#x", inside, m.dev+page+12)
		}},
	{"mapped/enabled-in-the-context", "mapping is enabled by a flag of the context, unless unified addressing always enables it",
		"Programming Guide: Mapped Memory; Driver API: CU_CTX_MAP_HOST", needMapHost, func(c *trial) {
			ctx := c.newContext(0)
			p, err := c.d.MemHostAlloc(ctx, page, deviceMap)
			if err == nil {
				_, err = c.d.MemHostGetDevicePointer(ctx, p, 0)
				c.cleanupError("free", c.d.MemFreeHost(ctx, p))
			}
			if c.attr(cu.DeviceAttributeUnifiedAddressing) == 1 {
				c.ok(err, "mapping in a context made without the flag")
				return
			}
			c.want(err, "mapping in a context made without the flag", cu.ErrorInvalidValue, cu.ErrorNotSupported)
		}},
	{"mapped/all-memory-under-uva", "under unified addressing all page-locked memory is mapped, with and without the flag",
		"Driver API: Unified Addressing, Automatic Mapping of Host Allocated Host Memory", needMapHost | needUVA, func(c *trial) {
			m := c.pinned(64, 0)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, m.p, 0)
			c.ok(err, "device pointer")
			copy(m.b, repeated(3, 16))
			c.launch(0, "inc", 16, dev, uint32(4), uint32(16))
			c.syncAll()
			c.same("memory allocated without flags", m.b, repeated(7, 16))
		}},
	{"mapped/write-combined", "write-combined memory can be mapped; under unified addressing it has the same address on the device",
		"Programming Guide: Write-Combining Memory; Driver API: cuMemHostAlloc", needMapHost, func(c *trial) {
			m := c.pinned(page, deviceMap|writeCombined)
			same := m.dev == addressOfPointer(m.p)
			c.check(same == (c.attr(cu.DeviceAttributeUnifiedAddressing) == 1), "host %p, device %#x", m.p, m.dev)
			want := c.random(page)
			copy(m.b, want)
			p := c.device(page)
			c.launch(0, "copy", page/4, p, m.dev, uint32(page/4))
			c.same("what the kernel read", c.down(p, page), want)
		}},
	{"mapped/kernel-reads", "a kernel reads what the host wrote before the launch",
		"Programming Guide: Mapped Memory", needMapHost, func(c *trial) {
			const n = 1000
			m, p := c.mapped(4*n), c.device(4*n)
			for range 3 {
				want := c.random(4 * n)
				copy(m.b, want)
				c.launch(0, "copy", n, p, m.dev, uint32(n))
				c.same("what the kernel read", c.down(p, 4*n), want)
			}
		}},
	{"mapped/kernel-writes", "after a wait the host reads what a kernel wrote",
		"Programming Guide: Mapped Memory", needMapHost, func(c *trial) {
			const n = 3001
			m := c.mapped(4*n + 8)
			for i := range uint32(3) {
				before := c.random(len(m.b))
				copy(m.b, before)
				c.launch(0, "store", n+5, m.dev+4, 0xfeed0000+i, uint32(n))
				c.syncAll()
				c.same("written", m.b[4:4+4*n], repeated(0xfeed0000+i, n))
				c.same("before it", m.b[:4], before[:4])
				c.same("after it", m.b[4+4*n:], before[4+4*n:])
			}
		}},
	{"mapped/host-pointer-as-argument", "under unified addressing a kernel can use a host pointer",
		"Programming Guide: Unified Virtual Address Space", needMapHost | needUVA, func(c *trial) {
			m := c.mapped(page)
			want := plus(m.b, 9)
			c.launch(0, "inc", page/4, addressOfPointer(m.p), uint32(9), uint32(page/4))
			c.syncAll()
			c.same("incremented at its host address", m.b, want)
		}},
	{"mapped/flags-while-running", "host and kernel exchange flags through mapped memory while the kernel runs",
		"Programming Guide: Mapped Memory; Memory Fence Functions, __threadfence_system", needMapHost, func(c *trial) {
			const rounds = 50
			m := c.mapped(128)
			storeWord(m.b, 0, 0)
			storeWord(m.b, 64, 0)
			c.kernel("pingpong")
			c.cleanup(func() { storeWord(m.b, 0, ^uint32(0)) })
			s := c.stream(cu.StreamNonBlocking)
			c.launch(s, "pingpong", 1, m.dev, m.dev+64, uint32(rounds))
			defer storeWord(m.b, 0, ^uint32(0)) // ends the kernel if this fails
			for i := range uint32(rounds) {
				storeWord(m.b, 0, i+1)
				c.until(fmt.Sprintf("answer %d of a running kernel", i+1), func() bool {
					if loadWord(m.b, 64) == i+1 {
						return true
					}
					_ = c.d.StreamQuery(c.ctx, s)
					return loadWord(m.b, 64) == i+1
				})
			}
			c.sync(s)
		}},
	{"mapped/data-behind-a-flag", "when the host sees a flag written after a system fence, it sees what the kernel wrote before the fence",
		"Programming Guide: Memory Fence Functions", needMapHost, func(c *trial) {
			const n = 4096
			data := c.mapped(4 * n)
			s := c.stream(cu.StreamNonBlocking)
			g, flag := c.gate(), c.mapped(8)
			storeWord(flag.b, 0, 0)
			c.launch(s, "store", n, data.dev, uint32(0xabcd1234), uint32(n))
			c.launch(s, "gate", 1, g.mem.dev, flag.dev) // sets the flag, then keeps running
			c.until("the flag", func() bool { _ = c.d.StreamQuery(c.ctx, s); return loadWord(flag.b, 0) == 1 })
			c.same("data behind the flag", data.b, repeated(0xabcd1234, n))
			c.busy(s)
		}},
	{"mapped/atomics", "atomics of a kernel on mapped memory are atomic among its threads",
		"Programming Guide: Mapped Memory; Atomic Functions", needMapHost, func(c *trial) {
			m := c.mapped(4)
			storeWord(m.b, 0, 100)
			f := c.kernel("count")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(7), dim(96), 0, 0, pack(m.dev)), "launch")
			c.syncAll()
			c.check(loadWord(m.b, 0) == 100+7*96, "got %d, want %d", loadWord(m.b, 0), 100+7*96)
		}},
	{"mapped/unaligned-start", "a kernel may use any suitably aligned address in mapped memory",
		"Programming Guide: Mapped Memory", needMapHost, func(c *trial) {
			m := c.mapped(3 * page)
			before := append([]byte(nil), m.b...)
			c.launch(0, "store", 1, m.dev+page-4, uint32(0x11223344), uint32(1))
			c.launch(0, "store", 3, m.dev+2*page-8, uint32(0x55667788), uint32(3))
			c.syncAll()
			copy(before[page-4:], words(0x11223344))
			copy(before[2*page-8:], repeated(0x55667788, 3))
			c.same("the three pages", m.b, before)
		}},
	{"mapped/mixed-with-device-memory", "one launch can use mapped and device memory together",
		"Programming Guide: Mapped Memory", needMapHost, func(c *trial) {
			const n = 777
			in, dev, out := c.mapped(4*n), c.device(4*n), c.mapped(4*n)
			copy(in.b, repeated(5, n))
			c.up(dev, repeated(6, n))
			c.launch(0, "add3", n, out.dev, in.dev, dev, in.dev, uint32(n))
			c.syncAll()
			c.same("the sum", out.b, repeated(16, n))
		}},
}
