package cutest

import (
	"bytes"

	"github.com/ferrygpu/ferry/cu"
)

// second returns the second device's primary context.
func (c *trial) second() (cu.Device, cu.Context) {
	dev := c.suite.devices[1]
	ctx, err := c.suite.context(dev)
	c.ok(err, "context of the second device")
	c.kernelIn(ctx, "store")
	c.cleanup(func() { _ = c.d.CtxSynchronize(ctx) })
	return dev, ctx
}

// peerAccess gives two contexts access to each other until the end of the case.
func (c *trial) peerAccess(a, b cu.Context) {
	for _, pair := range [][2]cu.Context{{a, b}, {b, a}} {
		c.ok(c.d.CtxEnablePeerAccess(pair[0], pair[1], 0), "enable peer access")
		c.cleanup(func() {
			if err := c.d.CtxDisablePeerAccess(pair[0], pair[1]); !isCode(err, cu.ErrorPeerAccessNotEnabled) {
				c.cleanupError("disable peer access", err)
			}
		})
	}
}

var multiDeviceChecks = []check{
	{"devices/distinct", "two devices have different bus addresses, and separate memory",
		"Programming Guide: Multi-Device System, Device Enumeration", needTwoDevices, func(c *trial) {
			dev, ctx := c.second()
			a, err := c.d.DeviceGetPCIBusId(c.dev)
			c.ok(err, "bus id")
			b, err := c.d.DeviceGetPCIBusId(dev)
			c.ok(err, "bus id of the second")
			c.check(a != b, "both devices have the bus address %s", a)
			before, _, err := c.d.MemGetInfo(ctx)
			c.ok(err, "memory info")
			c.device(64 << 20)
			after, _, err := c.d.MemGetInfo(ctx)
			c.ok(err, "memory info")
			c.check(after == before, "an allocation on the first device changed the second's free memory from %d to %d", before, after)
		}},
	{"devices/work-on-both", "each device runs the work of its context on its own memory",
		"Programming Guide: Multi-Device System, Device Selection", needTwoDevices, func(c *trial) {
			_, ctx := c.second()
			const n = 1000
			p, q := c.device(4*n), c.deviceIn(ctx, 4*n)
			c.launch(0, "store", n, p, uint32(1), uint32(n))
			c.ok(c.tryLaunch(ctx, 0, "store", n, q, uint32(2), uint32(n)), "launch on the second")
			c.same("first", c.down(p, 4*n), repeated(1, n))
			c.same("second", c.downIn(ctx, q, 4*n), repeated(2, n))
		}},
	{"devices/run-at-once", "a device works while the other is busy, and a wait for one does not wait for the other",
		"Programming Guide: Multi-Device System, Stream and Event Behavior", needTwoDevices | needMapHost, func(c *trial) {
			_, ctx := c.second()
			q := c.deviceIn(ctx, 4)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "work on the second device", func() error {
				if err := c.tryLaunch(ctx, 0, "store", 1, q, uint32(3), uint32(1)); err != nil {
					return err
				}
				return c.d.CtxSynchronize(ctx)
			})
			c.busy(s)
		}},
	{"devices/legacy-streams-are-apart", "each device has a legacy default stream of its own",
		"Programming Guide: Multi-Device System, Stream and Event Behavior", needTwoDevices | needMapHost, func(c *trial) {
			_, ctx := c.second()
			g := c.gate()
			g.hold(0)
			c.mustReturn(g, "the second device's legacy stream", func() error {
				if err := c.tryLaunch(ctx, 0, "noparams", 1); err != nil {
					return err
				}
				return c.d.StreamSynchronize(ctx, 0)
			})
			c.busy(0)
		}},
	{"devices/attributes", "the driver knows on which device memory is",
		pointerDoc, needTwoDevices | needUVA, func(c *trial) {
			dev, ctx := c.second()
			q := c.deviceIn(ctx, page)
			a := c.attributes(q)
			c.check(a.Device == dev && a.MemoryType == cu.MemoryTypeDevice, "attributes %+v, want device %d", a, dev)
		}},
	{"devices/portable-memory", "both devices can use one portable page-locked buffer",
		"Programming Guide: Portable Memory", needTwoDevices | needMapHost, func(c *trial) {
			_, ctx := c.second()
			const n = 1 << 20
			h := c.pinned(n, portable|deviceMap)
			p, q := c.device(n), c.deviceIn(ctx, n)
			s, t := c.stream(cu.StreamNonBlocking), c.streamIn(ctx, cu.StreamNonBlocking)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, h.p, n, s), "copy to the first")
			c.ok(c.d.MemcpyHtoDAsync(ctx, q, h.p, n, t), "copy to the second")
			c.sync(s)
			c.ok(c.d.StreamSynchronize(ctx, t), "synchronize the second")
			c.same("first", c.down(p, n), h.b)
			c.same("second", c.downIn(ctx, q, n), h.b)
			dev, err := c.d.MemHostGetDevicePointer(ctx, h.p, 0)
			c.ok(err, "device pointer on the second")
			want := plus(h.b[:page], 5)
			c.ok(c.tryLaunch(ctx, 0, "inc", page/4, dev, uint32(5), uint32(page/4)), "launch on the second")
			c.ok(c.d.CtxSynchronize(ctx), "synchronize the second")
			c.same("incremented by the second device", h.b[:page], want)
		}},
	{"devices/flags-between-kernels", "kernels of two devices exchange flags through mapped memory",
		"Programming Guide: Mapped Memory", needTwoDevices | needMapHost, func(c *trial) {
			_, ctx := c.second()
			c.kernelIn(ctx, "gate")
			m := c.pinned(128, portable|deviceMap)
			storeWord(m.b, 0, 0)
			storeWord(m.b, 32, 1)
			storeWord(m.b, 64, 0)
			far, err := c.d.MemHostGetDevicePointer(ctx, m.p, 0)
			c.ok(err, "device pointer on the second")
			defer storeWord(m.b, 0, 1)
			t := c.streamIn(ctx, cu.StreamNonBlocking)
			c.ok(c.tryLaunch(ctx, t, "gate", 1, far, far+64), "wait on the second device")
			c.want(c.d.StreamQuery(ctx, t), "the second device", cu.ErrorNotReady)
			c.launch(0, "gate", 1, m.dev+32, m.dev) // the gate is open; the kernel reports that it runs
			c.step("a kernel that waits for a kernel of the other device")
			c.ok(c.d.StreamSynchronize(ctx, t), "synchronize the second")
		}},
	{"devices/launch-elsewhere", "a kernel launch in a stream of the other device fails",
		elsewhereDoc, needTwoDevices, func(c *trial) { c.launchesElsewhere(c.foreign(c.suite.devices[1])) }},
	{"devices/copy-elsewhere", "a copy in a stream of the other device is done in that stream",
		elsewhereDoc, needTwoDevices, func(c *trial) { c.copiesElsewhere(c.foreign(c.suite.devices[1])) }},
	{"devices/events-elsewhere", "events are recorded and timed on their device; every device may wait for them",
		elsewhereDoc, needTwoDevices, func(c *trial) { c.eventsElsewhere(c.foreign(c.suite.devices[1])) }},
	{"devices/wait-event-elsewhere", "a stream waits for an event of the other device",
		elsewhereDoc, needTwoDevices | needMapHost | needUVA, func(c *trial) { c.waitsElsewhere(c.foreign(c.suite.devices[1])) }},
	{"devices/peer-copy", "memory is copied between devices, with or without access",
		"Programming Guide: Multi-Device System, Peer-to-Peer Memory Copy", needTwoDevices, func(c *trial) {
			_, ctx := c.second()
			for _, n := range []int{5, 4096, 3<<20 + 1} {
				p, q := c.device(n), c.deviceIn(ctx, n)
				want := c.random(n)
				c.up(p, want)
				c.ok(c.d.MemcpyPeer(c.ctx, q, ctx, p, c.ctx, uintptr(n)), "to the second")
				c.same("copied there", c.downIn(ctx, q, n), want)
				c.up(p, c.random(n))
				s := c.stream(cu.StreamNonBlocking)
				c.ok(c.d.MemcpyPeerAsync(c.ctx, p, c.ctx, q, ctx, uintptr(n), s), "back")
				c.sync(s)
				c.same("copied back", c.down(p, n), want)
			}
		}},
	{"devices/generic-copy", "under unified addressing an ordinary copy can be between devices",
		"Programming Guide: Unified Virtual Address Space; Peer-to-Peer Memory Copy", needTwoDevices | needUVA, func(c *trial) {
			_, ctx := c.second()
			const n = 1<<20 + 7
			p, q := c.device(n), c.deviceIn(ctx, n)
			want := c.down(p, n)
			c.ok(c.d.Memcpy(c.ctx, q, p, n), "copy")
			c.syncAll()
			c.same("copied", c.downIn(ctx, q, n), want)
		}},
	{"devices/peer-copy-waits", "a peer copy starts when the earlier work of both devices' streams that it must follow is done",
		"Programming Guide: Multi-Device System, Peer-to-Peer Memory Copy", needTwoDevices | needMapHost, func(c *trial) {
			_, ctx := c.second()
			const n = 1 << 16
			p, q := c.device(n), c.deviceIn(ctx, n)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", n/4, p, uint32(0x1357), uint32(n/4))
			c.mustReturn(g, "MemcpyPeerAsync", func() error { return c.d.MemcpyPeerAsync(c.ctx, q, ctx, p, c.ctx, n, s) })
			c.busy(s)
			g.open()
			c.sync(s)
			c.same("copied", c.downIn(ctx, q, n), repeated(0x1357, n/4))
		}},
	{"devices/peer-access", "with access enabled a kernel reads and writes the other device's memory",
		peerDoc, needTwoDevices | needPeer, func(c *trial) {
			_, ctx := c.second()
			const n = 5000
			p, q := c.device(4*n), c.deviceIn(ctx, 4*n)
			c.peerAccess(c.ctx, ctx)
			want := c.downIn(ctx, q, 4*n)
			c.launch(0, "copy", n, p, q, uint32(n))
			c.same("read from the other device", c.down(p, 4*n), want)
			c.launch(0, "inc", n, q, uint32(3), uint32(n))
			c.syncAll()
			c.same("written on the other device", c.downIn(ctx, q, 4*n), plus(want, 3))
			c.ok(c.d.MemcpyPeer(c.ctx, q, ctx, p, c.ctx, 4*n), "peer copy with access")
			c.syncAll()
			c.same("copied", c.downIn(ctx, q, 4*n), want)
		}},
	{"devices/peer-fill", "a stream fills memory of another device only with access enabled",
		"Driver API: Memory Management, cuMemsetD8Async; Peer Context Memory Access", needTwoDevices | needPeer, func(c *trial) {
			_, ctx := c.second()
			const n = 5000
			q, s := c.deviceIn(ctx, n), c.stream(cu.StreamNonBlocking)
			before := c.downIn(ctx, q, n)
			c.want(c.d.MemsetD8Async(c.ctx, q, 0x5a, n, s), "fill in the order of a stream", cu.ErrorInvalidValue)
			c.want(c.d.MemsetD8(c.ctx, q, 0x5a, n), "fill", cu.ErrorInvalidValue)
			c.sync(s)
			c.same("after refused fills", c.downIn(ctx, q, n), before)
			c.peerAccess(c.ctx, ctx)
			c.ok(c.d.MemsetD8Async(c.ctx, q, 0x5a, n, s), "fill with access")
			c.sync(s)
			c.same("filled", c.downIn(ctx, q, n), bytes.Repeat([]byte{0x5a}, n))
		}},
	{"devices/peer-access-twice", "access is enabled once and disabled once, without flags",
		peerDoc + "; CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", needTwoDevices | needPeer, func(c *trial) {
			_, ctx := c.second()
			c.want(c.d.CtxEnablePeerAccess(c.ctx, ctx, 1), "flags 1", cu.ErrorInvalidValue)
			c.want(c.d.CtxDisablePeerAccess(c.ctx, ctx), "disable before enabling", cu.ErrorPeerAccessNotEnabled)
			c.ok(c.d.CtxEnablePeerAccess(c.ctx, ctx, 0), "enable")
			c.want(c.d.CtxEnablePeerAccess(c.ctx, ctx, 0), "enable again", cu.ErrorPeerAccessAlreadyEnabled)
			c.ok(c.d.CtxDisablePeerAccess(c.ctx, ctx), "disable")
			c.want(c.d.CtxDisablePeerAccess(c.ctx, ctx), "disable again", cu.ErrorPeerAccessNotEnabled)
		}},
	{"devices/peer-access-unsupported", "devices without peer access report that it is unsupported",
		peerDoc + "; CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", needTwoDevices, func(c *trial) {
			dev, ctx := c.second()
			can, err := c.d.DeviceCanAccessPeer(c.dev, dev)
			c.ok(err, "can access peer")
			err = c.d.CtxEnablePeerAccess(c.ctx, ctx, 0)
			if can == 0 {
				c.want(err, "enable", cu.ErrorPeerAccessUnsupported)
				return
			}
			c.ok(err, "enable")
			c.ok(c.d.CtxDisablePeerAccess(c.ctx, ctx), "disable")
		}},
	{"devices/managed-everywhere", "managed memory has the same contents on the host and both devices",
		managedDoc, needTwoDevices | needManaged, func(c *trial) {
			_, ctx := c.second()
			const n = 50_000
			p, b := c.managed(4*n, attachGlobal)
			want := plus(b, 30)
			for i := range 3 {
				c.launch(0, "inc", n, p, uint32(4), uint32(n))
				c.syncAll()
				c.ok(c.tryLaunch(ctx, 0, "inc", n, p, uint32(6), uint32(n)), "launch on the second")
				c.ok(c.d.CtxSynchronize(ctx), "synchronize the second")
				c.touch(b)
				c.check(word(b, i) == word(want, i)-30+uint32(10*(i+1)), "the host sees %d after round %d", word(b, i), i)
			}
			c.same("after three rounds", b, want)
		}},
	{"devices/prefetch-to-second", "managed memory is prefetched to the given device",
		prefetchDoc, needTwoDevices | needManaged | needConcurrentManaged, func(c *trial) {
			dev, ctx := c.second()
			p, b := c.managed(4<<20, attachGlobal)
			want := append([]byte(nil), b...)
			c.ok(c.d.MemPrefetchAsync(ctx, p, 4<<20, dev, 0), "prefetch")
			c.ok(c.d.CtxSynchronize(ctx), "synchronize the second")
			c.wantAttribute("after the prefetch", cu.MemRangeAttributeLastPrefetchLocation, p, 4<<20, int32(dev))
			c.touch(b)
			c.same("contents", b, want)
		}},
	{"devices/pools-are-apart", "each device has a default pool of its own",
		poolDoc + ", Multi-GPU Support", needTwoDevices | needPools, func(c *trial) {
			dev, ctx := c.second()
			a, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			b, err := c.d.DeviceGetDefaultMemPool(dev)
			c.ok(err, "default pool of the second")
			c.check(a != b, "both devices have pool %#x", a)
			p, err := c.d.MemAllocAsync(ctx, 4096, 0)
			c.ok(err, "allocate on the second")
			c.ok(c.tryLaunch(ctx, 0, "store", 1024, p, uint32(6), uint32(1024)), "launch on the second")
			c.same("memory of the second's pool", c.downIn(ctx, p, 4096), repeated(6, 1024))
			attrs, err := c.d.PointerGetAttributes(ctx, p)
			c.ok(err, "attributes")
			c.check(attrs.Device == dev, "it is on device %d, want %d", attrs.Device, dev)
			c.ok(c.d.MemFreeAsync(ctx, p, 0), "free")
			c.ok(c.d.CtxSynchronize(ctx), "synchronize the second")
		}},
}
