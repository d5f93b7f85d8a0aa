package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const copyDoc = "Driver API: cuMemcpy, cuMemcpyHtoD, cuMemcpyDtoH, cuMemcpyDtoD"

// place is n bytes of one kind of memory, with functions to write and read them.
type place struct {
	name  string
	addr  cu.DevicePtr
	write func(b []byte)
	read  func() []byte
}

// places allocates n bytes of every kind of memory that the device has.
func (c *trial) places(n int) []place {
	host := func(name string, addr cu.DevicePtr, b []byte) place {
		return place{name, addr, func(v []byte) { copy(b, v) }, func() []byte { c.syncAll(); return append([]byte(nil), b...) }}
	}
	dev := c.device(n)
	pageable, pinned := c.pageable(n), c.pinned(n, 0)
	all := []place{
		{"device", dev, func(v []byte) { c.up(dev, v) }, func() []byte { return c.down(dev, n) }},
		host("pageable", addressOf(pageable), pageable),
		host("page-locked", addressOfPointer(pinned.p), pinned.b),
	}
	if c.attr(cu.DeviceAttributeHostRegisterSupported) != 0 {
		b := c.pageable(n)
		c.register(b, 0)
		all = append(all, host("registered", addressOf(b), b))
	}
	if c.attr(cu.DeviceAttributeManagedMemory) != 0 {
		p, b := c.managed(n, cu.MemAttachGlobal)
		m := host("managed", p, b)
		inner := m.read
		m.read = func() []byte { c.syncAll(); c.touch(b); return inner() }
		all = append(all, m)
	}
	return all
}

// everyPair copies between all kinds of places and checks both ends.
func (c *trial) everyPair(n int, copyBytes func(dst, src cu.DevicePtr, n uintptr) error) {
	from, to := c.places(n), c.places(n)
	for _, src := range from {
		for _, dst := range to {
			want := c.random(n)
			src.write(want)
			dst.write(c.random(n))
			c.syncAll()
			what := fmt.Sprintf("%d bytes, %s to %s", n, src.name, dst.name)
			c.ok(copyBytes(dst.addr, src.addr, uintptr(n)), what)
			c.same(what, dst.read(), want)
			c.same(what+", the source", src.read(), want)
		}
	}
}

var copyChecks = []check{
	{"copy/inferred-direction", "under unified addressing a copy finds its direction from the addresses, for every kind of memory",
		"Programming Guide: Unified Virtual Address Space; Driver API: cuMemcpy", needUVA, func(c *trial) {
			c.everyPair(70_001, func(dst, src cu.DevicePtr, n uintptr) error { return c.d.Memcpy(c.ctx, dst, src, n) })
		}},
	{"copy/inferred-direction-small", "a copy of a few bytes finds its direction from the addresses",
		"Programming Guide: Unified Virtual Address Space; Driver API: cuMemcpy", needUVA, func(c *trial) {
			c.everyPair(13, func(dst, src cu.DevicePtr, n uintptr) error { return c.d.Memcpy(c.ctx, dst, src, n) })
		}},
	{"copy/inferred-direction-async", "an asynchronous copy finds its direction from the addresses",
		"Programming Guide: Unified Virtual Address Space; Driver API: cuMemcpyAsync", needUVA, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.everyPair(65_536, func(dst, src cu.DevicePtr, n uintptr) error {
				if err := c.d.MemcpyAsync(c.ctx, dst, src, n, s); err != nil {
					return err
				}
				return c.d.StreamSynchronize(c.ctx, s)
			})
		}},
	{"copy/every-size", "copies of any size and alignment move exactly the given bytes",
		copyDoc, 0, func(c *trial) {
			for _, n := range []int{1, 2, 3, 7, 255, 4095, 4097, 65535, 65536, 65537, 1<<20 + 1} {
				p := c.device(n + 64)
				want := c.down(p, n+64)
				b := c.random(n)
				c.ok(c.d.MemcpyHtoD(c.ctx, p+5, pointerTo(b), uintptr(n)), "copy in")
				copy(want[5:], b)
				c.same(fmt.Sprintf("%d bytes in", n), c.down(p, n+64), want)
				out := c.random(n + 2)
				ends := [2]byte{out[0], out[n+1]}
				c.ok(c.d.MemcpyDtoH(c.ctx, pointerTo(out[1:]), p+5, uintptr(n)), "copy out")
				c.same(fmt.Sprintf("%d bytes out", n), out[1:n+1], b)
				c.check(out[0] == ends[0] && out[n+1] == ends[1], "a copy of %d bytes wrote beside its destination", n)
			}
		}},
	{"copy/device-to-device", "copies within the device move exactly the given bytes",
		copyDoc, 0, func(c *trial) {
			const n = 3<<20 + 5
			a, b := c.device(n), c.device(n)
			src, want := c.random(n), c.down(b, n)
			c.up(a, src)
			c.ok(c.d.MemcpyDtoD(c.ctx, b+7, a+3, n-20), "copy")
			copy(want[7:], src[3:n-17])
			c.same("destination", c.down(b, n), want)
			c.same("source", c.down(a, n), src)
		}},
	{"copy/nothing", "a copy of no bytes succeeds and does nothing",
		copyDoc, 0, func(c *trial) {
			p, b := c.device(64), c.random(64)
			before := c.down(p, 64)
			c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(b), 0), "host to device")
			c.ok(c.d.MemcpyDtoH(c.ctx, pointerTo(b), p, 0), "device to host")
			c.ok(c.d.MemcpyDtoD(c.ctx, p, p+32, 0), "device to device")
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), 0, 0), "host to device async")
			c.same("memory", c.down(p, 64), before)
		}},
	{"copy/source-free-after-return", "once a synchronous copy to the device returns, its source may change",
		"Driver API: API synchronization behavior, Memcpy", 0, func(c *trial) {
			for _, n := range []int{100, 64 << 10, 64<<10 + 1, 4 << 20} {
				p := c.device(n)
				for _, src := range [][]byte{c.pageable(n), c.pinned(n, 0).b} {
					want := append([]byte(nil), src...)
					c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(src), uintptr(n)), "copy")
					c.scramble(src)
					c.same(fmt.Sprintf("%d bytes", n), c.down(p, n), want)
				}
			}
		}},
	{"copy/there-when-returned", "once a synchronous copy to the host returns, the bytes are there",
		"Driver API: API synchronization behavior, Memcpy", 0, func(c *trial) {
			for _, n := range []int{100, 64 << 10, 4 << 20} {
				p, want := c.device(n), c.random(n)
				c.up(p, want)
				for _, dst := range [][]byte{c.pageable(n), c.pinned(n, 0).b} {
					c.ok(c.d.MemcpyDtoH(c.ctx, pointerTo(dst), p, uintptr(n)), "copy")
					c.same(fmt.Sprintf("%d bytes", n), dst, want)
				}
			}
		}},
	{"copy/sees-earlier-work", "a synchronous copy sees the results of work queued earlier on blocking streams",
		"Programming Guide: Implicit Synchronization, Default Stream", needMapHost, func(c *trial) {
			const n = 1000
			p, s := c.device(4*n), c.stream(0)
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", n, p, uint32(0x7777), uint32(n))
			b := c.random(4 * n)
			c.mustWait(g, "MemcpyDtoH", func() error { return c.d.MemcpyDtoH(c.ctx, pointerTo(b), p, 4*n) })
			c.same("copied", b, repeated(0x7777, n))
		}},
	{"copy/many-small", "many small copies on one stream keep their order and their bytes",
		copyDoc, 0, func(c *trial) {
			const n, size = 500, 64
			src, dst := c.pinned(n*size, 0), c.pinned(n*size, 0)
			p := c.device(size)
			s := c.stream(cu.StreamNonBlocking)
			for i := range n {
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, offsetPointer(src.p, i*size), size, s), "copy in")
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, offsetPointer(dst.p, i*size), p, size, s), "copy out")
			}
			c.sync(s)
			c.same("through one buffer", dst.b, src.b)
		}},
}

var copyMisuseChecks = []check{
	{"copy/invalid-address", "copies from or to addresses without memory are an invalid value",
		copyDoc, 0, func(c *trial) {
			b, p, wild := c.pageable(256), c.device(256), c.unusedAddress()
			h := pointerTo(b)
			c.want(c.d.MemcpyHtoD(c.ctx, 0, h, 16), "to device address 0", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyHtoD(c.ctx, wild, h, 16), "to an unused device address", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyDtoH(c.ctx, h, wild, 16), "from an unused device address", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyDtoD(c.ctx, p, wild, 16), "within the device from an unused address", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyHtoD(c.ctx, p, nil, 16), "from nil", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyDtoH(c.ctx, nil, p, 16), "to nil", cu.ErrorInvalidValue)
			c.ok(c.d.CtxSynchronize(c.ctx), "the context afterwards")
		}},
	{"copy/past-the-end", "a copy beyond the end of its allocation is an invalid value",
		copyDoc, 0, func(c *trial) {
			const n = 4 << 20
			p, b := c.device(n), c.pageable(n+1)
			c.want(c.d.MemcpyDtoH(c.ctx, pointerTo(b), p, n+1), "out, one byte too many", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyHtoD(c.ctx, p+1, pointerTo(b), n), "in, one byte too far", cu.ErrorInvalidValue)
			c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(b), n), "in, all")
		}},
	{"copy/freed-memory", "a copy from freed memory is an invalid value",
		copyDoc, 0, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 32<<20)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.want(c.d.MemcpyDtoH(c.ctx, pointerTo(c.pageable(64)), p, 64), "copy", cu.ErrorInvalidValue)
		}},
	{"copy/async-invalid-address", "asynchronous copies of addresses without memory are refused by the call",
		copyDoc, 0, func(c *trial) {
			m, p, wild := c.pinned(256, 0), c.device(256), c.unusedAddress()
			s := c.stream(0)
			c.want(c.d.MemcpyHtoDAsync(c.ctx, wild, m.p, 16, s), "in", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyDtoHAsync(c.ctx, m.p, wild, 16, s), "out", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyDtoDAsync(c.ctx, wild, p, 16, s), "within", cu.ErrorInvalidValue)
			c.sync(s)
		}},
}
