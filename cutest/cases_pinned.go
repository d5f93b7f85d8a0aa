package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const (
	portable      = cu.MemHostAllocPortable
	deviceMap     = cu.MemHostAllocDeviceMap
	writeCombined = cu.MemHostAllocWriteCombined
)

var pinnedChecks = []check{
	{"pinned/host-can-use", "the host uses page-locked memory like ordinary memory",
		"Programming Guide: Page-Locked Host Memory", 0, func(c *trial) {
			m := c.pinned(3*page+17, 0)
			want := c.random(len(m.b))
			copy(m.b, want)
			c.same("page-locked memory", m.b, want)
		}},
	{"pinned/copies-both-ways", "copies from and to page-locked memory move every byte",
		"Programming Guide: Page-Locked Host Memory", 0, func(c *trial) {
			for _, flags := range []cu.MemHostAllocFlags{0, portable, deviceMap, writeCombined, portable | deviceMap | writeCombined} {
				if flags&deviceMap != 0 && c.attr(cu.DeviceAttributeCanMapHostMemory) == 0 {
					continue
				}
				const n = 1<<20 + 3
				in, out := c.pinned(n, flags), c.pinned(n, 0)
				want := c.random(n)
				copy(in.b, want)
				p := c.device(n)
				c.ok(c.d.MemcpyHtoD(c.ctx, p, in.p, n), "copy in")
				c.ok(c.d.MemcpyDtoH(c.ctx, out.p, p, n), "copy out")
				c.same(fmt.Sprintf("flags %#x", uint32(flags)), out.b, want)
			}
		}},
	{"pinned/flags-read-back", "the write-combining flag reads back as requested; under unified addressing all memory reads back as mapped and none as portable",
		"Driver API: cuMemHostGetFlags; Unified Addressing", 0, func(c *trial) {
			uva := c.attr(cu.DeviceAttributeUnifiedAddressing) == 1
			for _, flags := range []cu.MemHostAllocFlags{0, portable, deviceMap, writeCombined, portable | deviceMap, portable | deviceMap | writeCombined} {
				if flags&deviceMap != 0 && c.attr(cu.DeviceAttributeCanMapHostMemory) == 0 {
					continue
				}
				m := c.pinned(page, flags)
				got, err := c.d.MemHostGetFlags(c.ctx, m.p)
				c.ok(err, "flags")
				want := flags
				if uva {
					want = flags&writeCombined | deviceMap
				}
				c.check(got == want, "allocated with %v, got %v, want %v", flags, got, want)
			}
		}},
	{"pinned/flags-of-interior", "every address of an allocation has the flags of the allocation",
		"Driver API: cuMemHostGetFlags", 0, func(c *trial) {
			m := c.pinned(2*page, portable)
			base, err := c.d.MemHostGetFlags(c.ctx, m.p)
			c.ok(err, "flags of the start")
			inside, err := c.d.MemHostGetFlags(c.ctx, offsetPointer(m.p, page+5))
			c.ok(err, "flags inside")
			c.check(inside == base, "inside %v, at the start %v", inside, base)
		}},
	{"pinned/distinct-and-aligned", "allocations do not overlap, and are aligned for every type",
		"Driver API: cuMemHostAlloc", 0, func(c *trial) {
			var all []hostMem
			low := ^cu.DevicePtr(0)
			for _, n := range []int{1, 7, 64, 511, 4096, 5000, 65537} {
				m := c.pinned(n, 0)
				a := addressOfPointer(m.p)
				c.check(a%64 == 0, "allocation of %d bytes at %#x is not aligned to 64", n, a)
				low = min(low, a&-a)
				for _, o := range all {
					b := addressOfPointer(o.p)
					c.check(a+cu.DevicePtr(n) <= b || b+cu.DevicePtr(len(o.b)) <= a, "allocations at %#x and %#x overlap", a, b)
				}
				all = append(all, m)
			}
			c.observe("pinned.alignment", uint64(low))
		}},
	{"pinned/portable-in-another-context", "portable memory is page-locked for every context",
		"Programming Guide: Portable Memory", needUVA, func(c *trial) {
			m := c.pinned(page, portable)
			ctx := c.newContext(cu.CtxMapHost)
			p := c.deviceIn(ctx, page)
			s := c.streamIn(ctx, 0)
			want := c.random(page)
			copy(m.b, want)
			c.ok(c.d.MemcpyHtoDAsync(ctx, p, m.p, page, s), "copy in")
			c.ok(c.d.StreamSynchronize(ctx, s), "wait")
			c.same("copied in the other context", c.downIn(ctx, p, page), want)
			a, err := c.d.PointerGetAttributes(ctx, addressOfPointer(m.p))
			c.ok(err, "attributes")
			c.check(a.MemoryType == cu.MemoryTypeHost, "the other context sees %+v", a)
		}},
	{"pinned/address-in-another-context", "under unified addressing page-locked memory has an address in kernels of every context, also if it is not portable",
		"Driver API: Unified Addressing, Automatic Mapping of Host Allocated Host Memory", needUVA, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			m := c.pinned(page, 0)
			a, err := c.d.PointerGetAttributes(ctx, addressOfPointer(m.p)+8)
			c.ok(err, "attributes")
			c.check(a.MemoryType == cu.MemoryTypeHost && a.DevicePointer == addressOfPointer(m.p)+8, "the other context sees %+v, want the device address %#x", a, addressOfPointer(m.p)+8)
			c.check(a.Device == c.dev && a.RangeStart == addressOfPointer(m.p) && a.RangeSize == page, "the other context sees %+v", a)
		}},
	{"pinned/freed-by-another-context", "page-locked memory may be freed in another context",
		"Driver API: Unified Addressing, cuMemFreeHost", needUVA, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			p, err := c.d.MemHostAlloc(c.ctx, page, portable)
			c.ok(err, "allocate")
			c.ok(c.d.MemFreeHost(ctx, p), "free in the other context")
			c.want(c.d.MemFreeHost(c.ctx, p), "free again in its own", cu.ErrorInvalidValue)
		}},
	{"pinned/free-while-a-copy-is-queued", "freeing page-locked memory waits for the work that uses it",
		"Driver API: cuMemFreeHost", needMapHost, func(c *trial) {
			const n = 1 << 20
			p := c.device(n)
			h, err := c.d.MemHostAlloc(c.ctx, n, 0)
			c.ok(err, "allocate")
			want := c.random(n)
			copy(hostBytes(h, n), want)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, h, n, s), "queue a copy")
			c.mustWait(g, "MemFreeHost", func() error { return c.d.MemFreeHost(c.ctx, h) })
			c.same("the copy", c.down(p, n), want)
		}},
}

var pinnedMisuseChecks = []check{
	{"pinned/zero-bytes", "an allocation of zero bytes of page-locked memory returns nil without an error",
		"Driver API: cuMemHostAlloc", 0, func(c *trial) {
			p, err := c.d.MemHostAlloc(c.ctx, 0, 0)
			c.ok(err, "allocate 0 bytes")
			c.check(p == nil, "got memory at %p", p)
		}},
	{"pinned/unknown-flags", "flags that do not exist are refused",
		"Driver API: cuMemHostAlloc", 0, func(c *trial) {
			for _, flags := range []cu.MemHostAllocFlags{0x8, 0x100, 0x8000_0000} {
				p, err := c.d.MemHostAlloc(c.ctx, page, flags)
				c.want(err, fmt.Sprintf("flags %#x", uint32(flags)), cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.MemFreeHost(c.ctx, p)
				}
			}
		}},
	{"pinned/too-much", "a request for more page-locked memory than can exist is out of memory, and has no other effect",
		"Driver API: cuMemHostAlloc", 0, func(c *trial) {
			_, err := c.d.MemHostAlloc(c.ctx, 1<<52, 0)
			c.want(err, "4 PiB", cu.ErrorOutOfMemory)
			m := c.pinned(page, 0)
			m.b[0] = 1
		}},
	{"pinned/free-misuse", "only the start address of an existing page-locked allocation can be freed; nil is accepted",
		"Driver API: cuMemFreeHost", 0, func(c *trial) {
			p, err := c.d.MemHostAlloc(c.ctx, 2*page, 0)
			c.ok(err, "allocate")
			c.want(c.d.MemFreeHost(c.ctx, offsetPointer(p, page)), "free inside", cu.ErrorInvalidValue)
			c.ok(c.d.MemFreeHost(c.ctx, p), "free")
			c.want(c.d.MemFreeHost(c.ctx, p), "free twice", cu.ErrorInvalidValue)
			b := c.pageable(page)
			c.want(c.d.MemFreeHost(c.ctx, pointerTo(b)), "free pageable memory", cu.ErrorInvalidValue)
			c.ok(c.d.MemFreeHost(c.ctx, nil), "free nil")
		}},
	{"pinned/free-by-the-wrong-call", "MemFree refuses page-locked memory, and MemFreeHost refuses device memory",
		"Driver API: cuMemFree, cuMemFreeHost", needUVA, func(c *trial) {
			m, p := c.pinned(page, 0), c.device(page)
			c.want(c.d.MemFree(c.ctx, addressOfPointer(m.p)), "MemFree of page-locked memory", cu.ErrorInvalidValue)
			c.want(c.d.MemFreeHost(c.ctx, hostPointer(p)), "MemFreeHost of device memory", cu.ErrorInvalidValue)
			m.b[0] = 1
		}},
	{"pinned/flags-of-other-memory", "memory that is not page-locked has no flags to read",
		"Driver API: cuMemHostGetFlags", 0, func(c *trial) {
			_, err := c.d.MemHostGetFlags(c.ctx, pointerTo(c.pageable(page)))
			c.want(err, "flags of pageable memory", cu.ErrorInvalidValue)
			_, err = c.d.MemHostGetFlags(c.ctx, nil)
			c.want(err, "flags of nil", cu.ErrorInvalidValue)
		}},
	{"pinned/device-pointer-misuse", "only mapped page-locked memory has a device pointer, and the flags must be 0",
		"Driver API: cuMemHostGetDevicePointer", needMapHost, func(c *trial) {
			m := c.mapped(page)
			_, err := c.d.MemHostGetDevicePointer(c.ctx, m.p, 1)
			c.want(err, "flags 1", cu.ErrorInvalidValue)
			_, err = c.d.MemHostGetDevicePointer(c.ctx, pointerTo(c.pageable(page)), 0)
			c.want(err, "pageable memory", cu.ErrorInvalidValue)
			_, err = c.d.MemHostGetDevicePointer(c.ctx, nil, 0)
			c.want(err, "nil", cu.ErrorInvalidValue)
		}},
	{"pinned/mapping-without-capability", "without the capability a request for mapped memory is refused",
		"Programming Guide: Mapped Memory", 0, func(c *trial) {
			if c.attr(cu.DeviceAttributeCanMapHostMemory) != 0 {
				m := c.mapped(page)
				c.check(m.dev != 0, "mapped memory has no device address")
				return
			}
			p, err := c.d.MemHostAlloc(c.ctx, page, deviceMap)
			if err == nil {
				_, err = c.d.MemHostGetDevicePointer(c.ctx, p, 0)
				c.cleanupError("free", c.d.MemFreeHost(c.ctx, p))
			}
			c.want(err, "mapping", cu.ErrorNotSupported, cu.ErrorInvalidValue)
		}},
}
