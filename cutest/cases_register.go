package cutest

import (
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/cu"
)

const registerDoc = "Driver API: cuMemHostRegister"

// register registers b, and unregisters it at the end.
func (c *trial) register(b []byte, flags cu.MemHostRegisterFlags) {
	c.ok(c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), flags), fmt.Sprintf("register %d bytes", len(b)))
	ctx := c.ctx
	c.cleanup(func() {
		err := c.d.MemHostUnregister(ctx, pointerTo(b))
		if !isCode(err, cu.ErrorHostMemoryNotRegistered) { // the case may have unregistered it already
			c.cleanupError("unregister", err)
		}
	})
}

var registerChecks = []check{
	{"register/slice", "registered memory is page-locked: copies of it are exact and asynchronous",
		registerDoc, needRegister, func(c *trial) {
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
		registerDoc, needRegister, func(c *trial) {
			for _, ends := range [][2]int{{1, 100}, {3, page}, {page - 1, 2}, {17, 5*page + 3}} {
				b := c.pageable(8 * page)
				part := b[ends[0] : ends[0]+ends[1]]
				c.ok(c.d.MemHostRegister(c.ctx, pointerTo(part), uintptr(len(part)), 0), "register")
				p := c.device(len(part))
				c.up(p, part)
				c.same("copied", c.down(p, len(part)), part)
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(part)), "unregister")
			}
		}},
	{"register/sub-slices", "disjoint parts of one slice can be registered, and unregistered in any order",
		registerDoc, needRegister, func(c *trial) {
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
		registerDoc + ", CU_MEMHOSTREGISTER_DEVICEMAP", needRegister | needMapHost, func(c *trial) {
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
	{"register/host-pointer-on-device", "if the device supports it, registered memory has the same address on the device",
		"Driver API: CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", needRegister | needHostPointer, func(c *trial) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device pointer")
			c.check(dev == addressOf(b), "host %#x, device %#x", addressOf(b), dev)
			want := plus(b, 1)
			c.launch(0, "inc", page/4, addressOf(b), uint32(1), uint32(page/4))
			c.syncAll()
			c.same("incremented at its host address", b, want)
		}},
	{"register/neighbours-untouched", "work on a registered part does not change the bytes around it",
		registerDoc, needRegister | needMapHost, func(c *trial) {
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
	{"register/portable", "portable registration page-locks memory for every context",
		registerDoc + ", CU_MEMHOSTREGISTER_PORTABLE", needRegister, func(c *trial) {
			b := c.pageable(page)
			c.register(b, cu.MemHostRegisterPortable)
			ctx := c.newContext(cu.CtxMapHost)
			p := c.deviceIn(ctx, page)
			s := c.streamIn(ctx, 0)
			c.ok(c.d.MemcpyHtoDAsync(ctx, p, pointerTo(b), page, s), "copy in the other context")
			c.same("copied", c.downIn(ctx, p, page), b)
		}},
	{"register/read-only", "if the device supports it, read-only memory can be registered as such; otherwise the call is not supported",
		registerDoc + ", CU_MEMHOSTREGISTER_READ_ONLY", needRegister, func(c *trial) {
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
	{"register/read-only-without-the-flag", "memory that the host must not write cannot be registered for writing",
		registerDoc, needRegister, func(c *trial) {
			b, _ := c.readOnlyFile(2 * page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0)
			c.want(err, "register for writing", cu.ErrorInvalidValue)
			if err == nil {
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			}
		}},
	{"register/io-memory", "ordinary memory is not memory of a device: what the driver says to that, and that a refusal leaves nothing behind",
		registerDoc + ", CU_MEMHOSTREGISTER_IOMEMORY (silent on ordinary memory)", needRegister, func(c *trial) {
			b := c.pageable(4 * page)
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), cu.MemHostRegisterIOMemory)
			c.observeError("ordinary memory registered as I/O memory", err)
			if err == nil {
				c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			}
			c.register(b, 0)
			p := c.device(len(b))
			c.up(p, b)
			c.same("copied", c.down(p, len(b)), b)
		}},
	{"register/mapped-file", "a file mapped into memory can be registered, and what a kernel writes reaches the file",
		registerDoc, needRegister | needMapHost, func(c *trial) {
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
	{"register/mapped-file-on-disk", "hardware refuses to register a shared mapping of a file on disk; if an emulated device accepts it, copies are exact",
		registerDoc + " (silent)", needRegister, func(c *trial) {
			b, path := c.sharedFile(4*page, "")
			if inMemory(path) {
				c.skip("the folder for temporary files is in memory")
			}
			err := c.d.MemHostRegister(c.ctx, pointerTo(b), uintptr(len(b)), 0)
			c.wantOrEmulated(err, "register", cu.ErrorInvalidValue, cu.Success)
			if err != nil {
				return
			}
			p := c.device(len(b))
			c.up(p, b)
			c.same("copied", c.down(p, len(b)), b)
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
		}},
	{"register/again-after-unregister", "memory can be registered again after it was unregistered",
		registerDoc, needRegister, func(c *trial) {
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
