package cutest

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// crossing copies memory that begins in a registration and ends beyond it. The copy is
// refused with and without a stream.
func (c *trial) crossing(name string, b []byte) {
	p, s := c.device(len(b)), c.stream(cu.StreamNonBlocking)
	for form, do := range map[string]func() error{
		"HtoD":      func() error { return c.d.MemcpyHtoD(c.ctx, p, pointerTo(b), uintptr(len(b))) },
		"HtoDAsync": func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), s) },
	} {
		c.scramble(b)
		c.want(do(), form+" across "+name, cu.ErrorInvalidValue)
	}
}

var registerOverlapChecks = []check{
	{"register/twice", "memory that is registered cannot be registered again",
		registerDoc + "; CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", needRegister, func(c *trial) {
			b := c.pageable(4 * page)
			c.register(b, 0)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0), "register the same again", cu.ErrorHostMemoryAlreadyRegistered)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0), "register its first page", cu.ErrorHostMemoryAlreadyRegistered)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b[page:]), page, 0), "register a page inside", cu.ErrorHostMemoryAlreadyRegistered)
		}},
	{"register/overlap", "a range that overlaps a registered one is refused, and the old registration stays",
		registerDoc + "; CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", needRegister, func(c *trial) {
			b := c.pageable(6 * page)
			c.register(b[page:3*page], 0)
			for name, part := range map[string][]byte{
				"over its start": b[:2*page], "over its end": b[2*page : 4*page], "over both ends": b,
			} {
				err := c.d.MemHostRegister(c.ctx, pointerTo(part), uintptr(len(part)), 0)
				c.want(err, "register "+name, cu.ErrorHostMemoryAlreadyRegistered)
			}
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[page:])), "unregister the first")
			c.register(b, 0)
		}},
	{"register/same-page", "two parts of one page can be registered side by side",
		registerDoc + " (silent)", needRegister, func(c *trial) {
			b := c.pageable(page)
			c.register(b[:100], 0)
			c.ok(c.d.MemHostRegister(c.ctx, pointerTo(b[200:]), 100, 0), "register the second part")
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[:100])), "unregister the first part")
			p := c.device(100)
			c.up(p, b[200:300])
			c.same("the second part", c.down(p, 100), b[200:300])
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[200:])), "unregister the second part")
		}},
	{"register/adjacent", "adjacent ranges are two registrations, and no copy can span both",
		registerDoc, needRegister, func(c *trial) {
			b := c.pageable(2 * page)
			c.register(b[:page], 0)
			c.register(b[page:], 0)
			p := c.device(2 * page)
			for _, part := range [][]byte{b[:page], b[page:]} {
				c.up(p, part)
				c.same("one of them", c.down(p, page), part)
			}
			c.crossing("two registrations", b)
		}},
	{"register/copy-across-the-end", "no copy can go from registered memory on into pageable memory",
		registerDoc + " (silent)", needRegister, func(c *trial) {
			b := c.pageable(64 * page)
			c.register(b[:32*page], 0)
			c.crossing("registered and pageable memory", b)
		}},
	{"register/copy-into-a-registration", "a copy that begins in pageable memory and goes on into registered memory is one of pageable memory",
		registerDoc + " (silent)", needRegister, func(c *trial) {
			b := c.pageable(64 * page)
			c.register(b[16*page:32*page], 0)
			for name, part := range map[string][]byte{"into it": b[15*page : 20*page], "around it": b} {
				p, s, want := c.device(len(part)), c.stream(cu.StreamNonBlocking), slices.Clone(part)
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(part), uintptr(len(part)), s), "copy from the host "+name)
				c.scramble(part) // the source has been read
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, pointerTo(part), p, uintptr(len(part)), s), "copy to the host "+name)
				c.same("the bytes "+name, part, want) // they are there
			}
		}},
	{"register/page-locked-memory", "memory that is page-locked already cannot be registered",
		registerDoc, needRegister, func(c *trial) {
			m := c.pinned(2*page, 0)
			c.want(c.d.MemHostRegister(c.ctx, m.p, 2*page, 0), "register page-locked memory", cu.ErrorInvalidValue)
		}},
}

var registerMisuseChecks = []check{
	{"register/zero-bytes", "zero bytes cannot be registered",
		registerDoc, needRegister, func(c *trial) {
			b := c.pageable(page)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), 0, 0), "0 bytes", cu.ErrorInvalidValue)
			c.want(c.d.MemHostRegister(c.ctx, nil, page, 0), "nil", cu.ErrorInvalidValue)
		}},
	{"register/unknown-flags", "flags that do not exist are refused",
		registerDoc, needRegister, func(c *trial) {
			b := c.pageable(page)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0x100), "flags 0x100", cu.ErrorInvalidValue)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister", cu.ErrorHostMemoryNotRegistered)
		}},
	{"register/unmapped-address", "addresses without memory cannot be registered",
		registerDoc, needRegister, func(c *trial) {
			var err error
			for range 8 { // another thread of the process may map memory there meanwhile
				hole := c.hole(4 * page)
				if err = c.d.MemHostRegister(c.ctx, hole, 4*page, 0); err != nil {
					break
				}
				_ = c.d.MemHostUnregister(c.ctx, hole)
			}
			c.want(err, "register unmapped addresses", cu.ErrorInvalidValue)
		}},
	{"register/unregister-misuse", "only the start of a registration can be unregistered, once",
		"Driver API: cuMemHostUnregister; CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", needRegister, func(c *trial) {
			b := c.pageable(4 * page)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister memory that was never registered", cu.ErrorHostMemoryNotRegistered)
			c.register(b, 0)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b[page:])), "unregister inside", cu.ErrorInvalidValue)
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister twice", cu.ErrorHostMemoryNotRegistered)
		}},
	{"register/wrong-undo", "registered memory cannot be freed, and allocated memory cannot be unregistered",
		"Driver API: cuMemFreeHost, cuMemHostUnregister", needRegister, func(c *trial) {
			b, m := c.pageable(page), c.pinned(page, 0)
			c.register(b, 0)
			c.want(c.d.MemFreeHost(c.ctx, pointerTo(b)), "free registered memory", cu.ErrorInvalidValue)
			c.want(c.d.MemHostUnregister(c.ctx, m.p), "unregister allocated memory", cu.ErrorInvalidValue)
			b[0], m.b[0] = 1, 1
		}},
	{"register/flags-of-registered", "registered memory has the flags that it was registered with",
		"Driver API: cuMemHostGetFlags (silent)", needRegister | needMapHost, func(c *trial) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterPortable|cu.MemHostRegisterDeviceMap)
			flags, err := c.d.MemHostGetFlags(c.ctx, pointerTo(b))
			c.ok(err, "flags")
			c.check(flags == portable|deviceMap, "flags %v, want %v", flags, portable|deviceMap)
		}},
	{"register/without-capability", "a device that cannot register memory reports that it is not supported",
		registerDoc + "; CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED", 0, func(c *trial) {
			b := c.pageable(page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0)
			if c.attr(cu.DeviceAttributeHostRegisterSupported) == 0 {
				c.want(err, "register", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "register")
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
		}},
	{"register/unregister-while-a-copy-is-queued", "unregistering memory waits for the work that uses it",
		"Driver API: cuMemHostUnregister (silent)", needRegister | needMapHost, func(c *trial) {
			b := c.pageable(64 * page)
			want := append([]byte(nil), b...)
			p := c.device(len(b))
			s := c.stream(cu.StreamNonBlocking)
			c.register(b, 0)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), s), "queue a copy")
			c.mustWait(g, "MemHostUnregister", func() error { return c.d.MemHostUnregister(c.ctx, pointerTo(b)) })
			c.same("the copy", c.down(p, len(b)), want)
		}},
}
