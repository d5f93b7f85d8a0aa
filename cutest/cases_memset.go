package cutest

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

const memsetDoc = "Driver API: cuMemsetD8, cuMemsetD16, cuMemsetD32"

// memsetInto fills the middle of memory with elements of each width, and checks all of
// the memory.
func (c *trial) memsetInto(dev cu.DevicePtr, n int, read func() []byte) {
	before := read()
	want := append([]byte(nil), before...)
	c.ok(c.d.MemsetD8(c.ctx, dev+3, 0x5a, 101), "memset 8")
	copy(want[3:], bytes.Repeat([]byte{0x5a}, 101))
	c.ok(c.d.MemsetD16(c.ctx, dev+202, 0xbeef, 55), "memset 16")
	copy(want[202:], bytes.Repeat([]byte{0xef, 0xbe}, 55))
	c.ok(c.d.MemsetD32(c.ctx, dev+404, 0x12345678, 99), "memset 32")
	copy(want[404:], repeated(0x12345678, 99))
	c.syncAll()
	c.same("after three fills", read(), want)
	c.ok(c.d.MemsetD8(c.ctx, dev, 0, uintptr(n)), "memset of all")
	c.syncAll()
	c.same("after a fill of all", read(), make([]byte, n))
}

var memsetChecks = []check{
	{"memset/device", "fills of 8, 16 and 32 bits set exactly their elements",
		memsetDoc, 0, func(c *trial) {
			const n = 4096
			p := c.device(n)
			c.memsetInto(p, n, func() []byte { return c.down(p, n) })
		}},
	{"memset/page-locked", "page-locked memory is filled through its device address",
		memsetDoc + "; Programming Guide: Mapped Memory", needMapHost, func(c *trial) {
			m := c.mapped(4096)
			c.memsetInto(m.dev, 4096, func() []byte { return append([]byte(nil), m.b...) })
		}},
	{"memset/managed", "managed memory is filled like device memory",
		memsetDoc, needManaged, func(c *trial) {
			p, b := c.managed(4096, cu.MemAttachGlobal)
			c.memsetInto(p, 4096, func() []byte { c.touch(b); return append([]byte(nil), b...) })
		}},
	{"memset/large", "a large fill sets every byte",
		memsetDoc, 0, func(c *trial) {
			const n = 5<<20 + 7
			p := c.device(n)
			c.ok(c.d.MemsetD8(c.ctx, p, 0xc3, n), "memset")
			c.same("filled", c.down(p, n), bytes.Repeat([]byte{0xc3}, n))
		}},
	{"memset/float-bits", "a float is set by its bit pattern, on page-locked memory too",
		memsetDoc, needMapHost, func(c *trial) {
			const n = 300
			m := c.mapped(4 * n)
			c.ok(c.d.MemsetD32(c.ctx, m.dev, math.Float32bits(1.25), n), "memset")
			c.launch(0, "addf", n, m.dev, float32(0.5), uint32(n))
			c.syncAll()
			for i := range n {
				if got := math.Float32frombits(binary.LittleEndian.Uint32(m.b[4*i:])); got != 1.75 {
					c.fatal("float %d is %g, want 1.75", i, got)
				}
			}
		}},
	{"memset/nothing", "a fill of no elements succeeds and changes nothing",
		memsetDoc, 0, func(c *trial) {
			p := c.device(64)
			before := c.down(p, 64)
			c.ok(c.d.MemsetD8(c.ctx, p, 1, 0), "memset 8")
			c.ok(c.d.MemsetD16(c.ctx, p, 1, 0), "memset 16")
			c.ok(c.d.MemsetD32(c.ctx, p, 1, 0), "memset 32")
			c.ok(c.d.MemsetD32Async(c.ctx, p, 1, 0, 0), "memset 32 async")
			c.same("memory", c.down(p, 64), before)
		}},
	{"memset/unaligned", "a fill of 16-bit or 32-bit elements needs an address aligned to them",
		memsetDoc, 0, func(c *trial) {
			p := c.device(256)
			before := c.down(p, 256)
			c.want(c.d.MemsetD16(c.ctx, p+1, 7, 4), "memset 16 at +1", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD32(c.ctx, p+1, 7, 4), "memset 32 at +1", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD32(c.ctx, p+2, 7, 4), "memset 32 at +2", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD16Async(c.ctx, p+3, 7, 4, 0), "memset 16 async at +3", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD32Async(c.ctx, p+2, 7, 4, 0), "memset 32 async at +2", cu.ErrorInvalidValue)
			c.same("memory", c.down(p, 256), before)
		}},
	{"memset/invalid-address", "a fill of an address without device memory is an invalid value",
		memsetDoc, 0, func(c *trial) {
			c.want(c.d.MemsetD8(c.ctx, 0, 1, 16), "memset at 0", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD8(c.ctx, c.unusedAddress(), 1, 16), "memset at an unused address", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD8(c.ctx, addressOf(c.pageable(page)), 1, 16), "memset of pageable memory", cu.ErrorInvalidValue)
		}},
	{"memset/past-the-end", "a fill beyond the end of its allocation is an invalid value",
		memsetDoc, 0, func(c *trial) {
			const n = 4 << 20
			p := c.device(n)
			before := c.down(p, n)
			c.want(c.d.MemsetD8(c.ctx, p+1, 1, n), "memset one byte too far", cu.ErrorInvalidValue)
			c.same("memory", c.down(p, n), before)
		}},
	{"memset/async-ordered", "asynchronous fills run in the order of their stream",
		memsetDoc + "Async", 0, func(c *trial) {
			const n = 1000
			p := c.device(4 * n)
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.MemsetD32Async(c.ctx, p, 10, n, s), "memset 32")
			c.launch(s, "inc", n, p, uint32(5), uint32(n))
			c.ok(c.d.MemsetD16Async(c.ctx, p+400, 0x0101, 2, s), "memset 16")
			c.ok(c.d.MemsetD8Async(c.ctx, p+404, 2, 4, s), "memset 8")
			c.launch(s, "inc", n, p, uint32(1), uint32(n))
			want := repeated(16, n)
			copy(want[400:], words(0x01010102, 0x02020203))
			c.sync(s)
			c.same("after the stream", c.down(p, 4*n), want)
		}},
	{"memset/page-locked-synchronous", "a fill of page-locked memory is done when the call returns",
		"Driver API: API synchronization behavior, Memset", needMapHost, func(c *trial) {
			m := c.mapped(1 << 16)
			for i := range byte(5) {
				c.scramble(m.b)
				c.ok(c.d.MemsetD8(c.ctx, m.dev, i, 1<<16), "memset")
				c.same("right after the call", m.b, bytes.Repeat([]byte{i}, 1<<16))
			}
		}},
}
