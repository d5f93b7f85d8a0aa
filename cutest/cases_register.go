package cutest

import (
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/cu"
)

const registerDoc = "Driver API: cuMemHostRegister"

// register page-locks b and undoes it at the end.
func (c *T) register(b []byte, flags cu.MemHostRegisterFlags) {
	c.ok(c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), flags), fmt.Sprintf("register %d bytes", len(b)))
	ctx := c.ctx
	c.later(func() {
		err := c.d.MemHostUnregister(ctx, pointerTo(b))
		if !isCode(err, cu.ErrorHostMemoryNotRegistered) { // the case may have done so itself
			c.undo("unregister", err)
		}
	})
}

var registerChecks = []check{
	{"register/slice", "ordinary memory, registered, is page-locked: copies of it are exact and asynchronous",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(64 * page)
			want := append([]byte(nil), b...)
			c.register(b, 0)
			c.same("contents after registration", b, want)
			p := c.device(len(b))
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), s), "copy in")
			c.sync(s)
			c.same("copied", c.down(p, len(b)), want)
		}},
	{"register/unaligned-ends", "any address and size can be registered; copies of it are exact",
		registerDoc, needRegister, func(c *T) {
			for _, ends := range [][2]int{{1, 100}, {3, page}, {page - 1, 2}, {17, 5*page + 3}} {
				b := c.pageable(8 * page)
				part := b[ends[0] : ends[0]+ends[1]]
				err := c.d.MemHostRegister(c.ctx, pointerTo(part), uintptr(len(part)), 0)
				c.observeError(fmt.Sprintf("register.unaligned.+%d.%d", ends[0], ends[1]), err)
				c.ok(err, "register")
				p := c.device(len(part))
				c.up(p, part)
				c.same("copied", c.down(p, len(part)), part)
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(part)), "unregister")
			}
		}},
	{"register/sub-slices", "disjoint parts of one slice can be registered, and unregistered in any order",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(12 * page)
			parts := [][]byte{b[:4*page], b[4*page : 8*page], b[8*page:]}
			for _, part := range parts {
				c.register(part, 0)
			}
			p := c.device(4 * page)
			for _, i := range []int{1, 0, 2} {
				for _, part := range parts {
					c.scramble(part)
					c.up(p, part)
					c.same("a part", c.down(p, 4*page), part)
				}
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(parts[i])), "unregister")
			}
		}},
	{"register/mapped", "registered memory has a device address that kernels can use",
		registerDoc + ", CU_MEMHOSTREGISTER_DEVICEMAP", needRegister | needMapHost, func(c *T) {
			const n = 2000
			b := c.pageable(4 * n)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device pointer")
			want := plus(b, 77)
			c.launch(0, "inc", n, dev, uint32(77), uint32(n))
			c.syncAll()
			c.same("incremented by a kernel", b, want)
			inside, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b[100:]), 0)
			c.ok(err, "device pointer inside")
			c.check(inside == dev+100, "inside %#x, want %#x", inside, dev+100)
		}},
	{"register/host-pointer-on-device", "where the device can, the device address of registered memory is the host's",
		"Driver API: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", needRegister | needHostPointer, func(c *T) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device pointer")
			c.check(dev == addressOf(b), "host %#x, device %#x", addressOf(b), dev)
			want := plus(b, 1)
			c.launch(0, "inc", page/4, addressOf(b), uint32(1), uint32(page/4))
			c.syncAll()
			c.same("incremented by its host address", b, want)
		}},
	{"register/neighbours-untouched", "work on a registered part leaves the bytes around it alone",
		registerDoc, needRegister | needMapHost, func(c *T) {
			b := c.pageable(4 * page)
			before := append([]byte(nil), b...)
			part := b[100 : 100+2*page]
			c.register(part, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(part), 0)
			c.ok(err, "device pointer")
			c.launch(0, "store", page/2, dev, uint32(0x01020304), uint32(page/2))
			c.syncAll()
			copy(before[100:], repeated(0x01020304, page/2))
			c.same("the four pages", b, before)
		}},
	{"register/portable", "portable registration page-locks for every context",
		registerDoc + ", CU_MEMHOSTREGISTER_PORTABLE", needRegister, func(c *T) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterPortable)
			ctx := c.newContext(cu.CtxMapHost)
			p := c.deviceIn(ctx, page)
			s := c.streamIn(ctx, 0)
			c.ok(c.d.MemcpyHtoDAsync(ctx, p, pointerTo(b), page, s), "copy in the other context")
			c.same("copied", c.downIn(ctx, p, page), b)
		}},
	{"register/read-only", "where the device can, read-only memory is registered as such; elsewhere that is not supported",
		registerDoc + ", CU_MEMHOSTREGISTER_READ_ONLY", needRegister, func(c *T) {
			b, file := c.readOnlyFile(4 * page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), cu.MemHostRegisterReadOnly)
			if c.attr(cu.DeviceAttributeReadOnlyHostRegisterSupported) == 0 {
				c.want(err, "register read-only", cu.ErrorNotSupported)
			} else {
				c.ok(err, "register read-only")
				p := c.device(len(b))
				c.up(p, b)
				c.same("copied", c.down(p, len(b)), file)
			}
			if err == nil {
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			}
		}},
	{"register/read-only-without-the-flag", "memory that the host may not write is not registered for writing",
		registerDoc, needRegister, func(c *T) {
			b, _ := c.readOnlyFile(2 * page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0)
			c.observeError("register.read-only-without-flag", err)
			c.check(err != nil, "a read-only mapping was registered for writing")
			if err == nil {
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			}
		}},
	{"register/mapped-file", "a file mapped into memory can be registered, and what a kernel writes is in the file",
		registerDoc, needRegister | needMapHost, func(c *T) {
			b, path := c.writableFile(4 * page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device pointer")
			c.launch(0, "store", page, dev, uint32(0xc0ffee00), uint32(page))
			c.syncAll()
			got, err := os.ReadFile(path)
			c.ok(err, "read the file")
			c.same("the file", got, repeated(0xc0ffee00, page))
		}},
	{"register/mapped-file-on-disk", "whether a shared mapping of a file on disk can be registered is observed",
		registerDoc + " (silent)", needRegister, func(c *T) {
			b, _ := c.sharedFile(4*page, "")
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0)
			c.observeError("register.shared-file-on-disk", err)
			if err != nil {
				return
			}
			p := c.device(len(b))
			c.up(p, b)
			c.same("copied", c.down(p, len(b)), b)
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
		}},
	{"register/again-after-unregister", "memory can be registered again once it was unregistered",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(3 * page)
			p := c.device(len(b))
			for range 5 {
				c.ok(c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0), "register")
				c.scramble(b)
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), 0), "copy")
				c.same("copied", c.down(p, len(b)), b)
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			}
		}},
}

// crossing observes a copy of memory that is more than one registration. It is
// exact or refused, with and without a stream.
func (c *T) crossing(name string, b []byte) {
	p, s := c.device(len(b)), c.stream(cu.StreamNonBlocking)
	for form, do := range map[string]func() error{
		"HtoD":      func() error { return c.d.MemcpyHtoD(c.ctx, p, pointerTo(b), uintptr(len(b))) },
		"HtoDAsync": func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), s) },
	} {
		c.scramble(b)
		err := do()
		c.want(err, "register.copy-across-"+name+"."+form, cu.Success, cu.ErrorInvalidValue)
		if err == nil {
			c.same("copied across", c.down(p, len(b)), b)
		}
	}
}

var registerOverlapChecks = []check{
	{"register/twice", "memory that is registered cannot be registered again",
		registerDoc + "; CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", needRegister, func(c *T) {
			b := c.pageable(4 * page)
			c.register(b, 0)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0), "register the same again", cu.ErrorHostMemoryAlreadyRegistered)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0), "register its first page", cu.ErrorHostMemoryAlreadyRegistered)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b[page:]), page, 0), "register a page inside", cu.ErrorHostMemoryAlreadyRegistered)
		}},
	{"register/overlap", "a range that overlaps a registered one is refused, and the old registration stays",
		registerDoc + "; CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", needRegister, func(c *T) {
			b := c.pageable(6 * page)
			c.register(b[page:3*page], 0)
			for name, part := range map[string][]byte{
				"over its start": b[:2*page], "over its end": b[2*page : 4*page], "all round it": b,
			} {
				err := c.d.MemHostRegister(c.ctx, pointerTo(part), uintptr(len(part)), 0)
				c.want(err, "register "+name, cu.ErrorHostMemoryAlreadyRegistered, cu.ErrorInvalidValue)
			}
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[page:])), "unregister the first")
			c.register(b, 0)
		}},
	{"register/same-page", "whether two parts of one page can be registered side by side is observed",
		registerDoc + " (silent)", needRegister, func(c *T) {
			b := c.pageable(page)
			c.register(b[:100], 0)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b[200:]), 100, 0)
			c.want(err, "register.second-part-of-a-page", cu.Success, cu.ErrorHostMemoryAlreadyRegistered)
			if err != nil {
				return
			}
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[:100])), "unregister the first part")
			p := c.device(100)
			c.up(p, b[200:300])
			c.same("the second part", c.down(p, 100), b[200:300])
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b[200:])), "unregister the second part")
		}},
	{"register/adjacent", "ranges that touch without overlapping are two registrations",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(2 * page)
			c.register(b[:page], 0)
			c.register(b[page:], 0)
			p := c.device(2 * page)
			for _, part := range [][]byte{b[:page], b[page:]} {
				c.up(p, part)
				c.same("one of them", c.down(p, page), part)
			}
			c.crossing("two-registrations", b)
		}},
	{"register/copy-across-the-end", "whether a copy may leave registered memory for pageable memory is observed",
		registerDoc + " (silent)", needRegister, func(c *T) {
			b := c.pageable(64 * page)
			c.register(b[:32*page], 0)
			c.crossing("registered-and-pageable", b)
		}},
	{"register/page-locked-memory", "memory that is page-locked already cannot be registered",
		registerDoc, needRegister, func(c *T) {
			m := c.pinned(2*page, 0)
			c.want(c.d.MemHostRegister(c.ctx, m.p, 2*page, 0), "register page-locked memory",
				cu.ErrorHostMemoryAlreadyRegistered, cu.ErrorInvalidValue)
		}},
}

var registerMisuseChecks = []check{
	{"register/zero-bytes", "nothing cannot be registered",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(page)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), 0, 0), "0 bytes", cu.ErrorInvalidValue)
			c.want(c.d.MemHostRegister(c.ctx, nil, page, 0), "nil", cu.ErrorInvalidValue)
		}},
	{"register/unknown-flags", "flags that do not exist are refused",
		registerDoc, needRegister, func(c *T) {
			b := c.pageable(page)
			c.want(c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0x100), "flags 0x100", cu.ErrorInvalidValue)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister", cu.ErrorHostMemoryNotRegistered)
		}},
	{"register/unmapped-address", "addresses without memory behind them cannot be registered",
		registerDoc, needRegister, func(c *T) {
			hole := c.hole(4 * page)
			err := c.d.MemHostRegister(c.ctx, hole, 4*page, 0)
			c.want(err, "register a hole", cu.ErrorInvalidValue)
			if err == nil {
				_ = c.d.MemHostUnregister(c.ctx, hole)
			}
		}},
	{"register/unregister-misuse", "only the start of a registration can be unregistered, once",
		"Driver API: cuMemHostUnregister; CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", needRegister, func(c *T) {
			b := c.pageable(4 * page)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister what never was", cu.ErrorHostMemoryNotRegistered)
			c.register(b, 0)
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b[page:])), "unregister inside", cu.ErrorHostMemoryNotRegistered, cu.ErrorInvalidValue)
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			c.want(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister twice", cu.ErrorHostMemoryNotRegistered)
		}},
	{"register/wrong-undo", "registered memory is not freed, and allocated memory is not unregistered",
		"Driver API: cuMemFreeHost, cuMemHostUnregister", needRegister, func(c *T) {
			b, m := c.pageable(page), c.pinned(page, 0)
			c.register(b, 0)
			c.want(c.d.MemFreeHost(c.ctx, pointerTo(b)), "free registered memory", cu.ErrorInvalidValue)
			c.want(c.d.MemHostUnregister(c.ctx, m.p), "unregister allocated memory", cu.ErrorInvalidValue, cu.ErrorHostMemoryNotRegistered)
			b[0], m.b[0] = 1, 1
		}},
	{"register/flags-of-registered", "whether registered memory has allocation flags is observed",
		"Driver API: cuMemHostGetFlags (silent)", needRegister, func(c *T) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterPortable|cu.MemHostRegisterDeviceMap)
			flags, err := c.d.MemHostGetFlags(c.ctx, pointerTo(b))
			c.want(err, "register.flags", cu.Success, cu.ErrorInvalidValue)
			c.observe("register.flags.value", fmt.Sprintf("%#x", uint32(flags)))
		}},
	{"register/without-capability", "a device that cannot register says so",
		registerDoc + "; CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED", 0, func(c *T) {
			b := c.pageable(page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), page, 0)
			if c.attr(cu.DeviceAttributeHostRegisterSupported) == 0 {
				c.want(err, "register", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "register")
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
		}},
	{"register/unregister-while-a-copy-is-queued", "unregistering memory in use loses nothing",
		"Driver API: cuMemHostUnregister (silent)", needRegister | needMapHost, func(c *T) {
			b := c.pageable(64 * page)
			want := append([]byte(nil), b...)
			p := c.device(len(b))
			s := c.stream(cu.StreamNonBlocking)
			c.register(b, 0)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), uintptr(len(b)), s), "queue a copy")
			returned, err := c.returns(g, "MemHostUnregister", glimpse, func() error { return c.d.MemHostUnregister(c.ctx, pointerTo(b)) })
			c.observe("implicit.MemHostUnregister-in-use.returns-at-once", returned)
			c.ok(err, "unregister")
			if returned {
				return // the copy now reads memory that is not locked: the manual promises nothing
			}
			c.same("the copy", c.down(p, len(b)), want)
		}},
}
