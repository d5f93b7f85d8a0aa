package cutest

import (
	"bytes"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

const poolAccessDoc = "Driver API: cuMemPoolSetAccess, cuMemPoolGetAccess"

// access describes the access of a device to a pool.
func access(dev cu.Device, flags cu.MemAccessFlags) cu.MemAccessDesc {
	return cu.MemAccessDesc{Location: location(dev), Flags: flags}
}

func location(dev cu.Device) cu.MemLocation {
	return cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(dev)}
}

// wantAccess checks the access of a device to a pool.
func (c *trial) wantAccess(what string, pool cu.MemPool, dev cu.Device, want cu.MemAccessFlags) {
	at := location(dev)
	got, err := c.d.MemPoolGetAccess(pool, &at)
	c.ok(err, "access of device to a pool, "+what)
	c.check(got == want, "%s: device %d has access %d, want %d", what, dev, got, want)
}

// farPool is memory of a pool of the second device.
type farPool struct {
	pool cu.MemPool
	ctx  cu.Context // of the second device
	p    cu.DevicePtr
	n    int
	was  []byte // the contents
}

// farPool makes a pool on the second device, and allocates from it there.
func (c *trial) farPool(n int) *farPool {
	dev, ctx := c.second()
	pool, err := c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(dev)})
	c.ok(err, "create a pool on the second device")
	c.cleanup(func() { c.cleanupError("destroy a pool", c.d.MemPoolDestroy(pool)) })
	s := c.streamIn(ctx, cu.StreamNonBlocking)
	p, err := c.d.MemAllocFromPoolAsync(ctx, uintptr(n), pool, s)
	c.ok(err, "allocate from a pool on the second device")
	c.cleanup(func() { c.cleanupError("free on the second device", c.d.MemFreeAsync(ctx, p, s)) })
	c.ok(c.d.StreamSynchronize(ctx, s), "synchronize the second device")
	f := &farPool{pool: pool, ctx: ctx, p: p, n: n}
	f.fill(c)
	return f
}

// fill writes fresh bytes, as its own device.
func (f *farPool) fill(c *trial) {
	f.was = c.random(f.n)
	c.ok(c.d.MemcpyHtoD(f.ctx, f.p, pointerTo(f.was), uintptr(f.n)), "copy to the second device")
	c.ok(c.d.CtxSynchronize(f.ctx), "synchronize the second device")
}

// set opens the pool to the case's device, or closes it.
func (f *farPool) set(c *trial, flags cu.MemAccessFlags) {
	c.ok(c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{access(c.dev, flags)}), "set the access")
	c.wantAccess("after it was set", f.pool, c.dev, flags)
}

// uses are the operations of the case's context that need access to the pool, each with the
// bytes that are in its memory afterwards. The case's context is current.
func (f *farPool) uses(c *trial) map[string]func() ([]byte, error) {
	n := uintptr(f.n)
	near, s := c.device(f.n), c.stream(cu.StreamNonBlocking)
	pinned := c.pinned(f.n, portable)
	other := func() []byte { // fresh bytes in all sources
		b := c.random(f.n)
		c.up(near, b)
		copy(pinned.b, b)
		return b
	}
	after := func(b []byte, err error) ([]byte, error) {
		if err == nil {
			err = c.d.CtxSynchronize(c.ctx)
		}
		return b, err
	}
	reads := func(err error) ([]byte, error) { return after(f.was, err) }
	return map[string]func() ([]byte, error){
		"MemcpyHtoD": func() ([]byte, error) { b := other(); return after(b, c.d.MemcpyHtoD(c.ctx, f.p, pointerTo(b), n)) },
		"MemcpyDtoH": func() ([]byte, error) { return reads(c.d.MemcpyDtoH(c.ctx, pointerTo(c.random(f.n)), f.p, n)) },
		"MemcpyDtoD": func() ([]byte, error) {
			b := other()
			return after(b, c.d.MemcpyDtoD(c.ctx, f.p, near, n))
		},
		"MemcpyHtoDAsync": func() ([]byte, error) { b := other(); return after(b, c.d.MemcpyHtoDAsync(c.ctx, f.p, pinned.p, n, s)) },
		"MemcpyDtoHAsync": func() ([]byte, error) { return reads(c.d.MemcpyDtoHAsync(c.ctx, pinned.p, f.p, n, s)) },
		"MemcpyAsync":     func() ([]byte, error) { b := other(); return after(b, c.d.MemcpyAsync(c.ctx, f.p, near, n, s)) },
		"Memcpy2DAsync": func() ([]byte, error) {
			b := other()
			return after(b, c.d.Memcpy2DAsync(c.ctx, &cu.Memcpy2D{
				SrcMemoryType: cu.MemoryTypeHost, SrcHost: pinned.p, SrcPitch: n / 4,
				DstMemoryType: cu.MemoryTypeDevice, DstDevice: f.p, DstPitch: n / 4, WidthInBytes: n / 4, Height: 4}, s))
		},
		"MemsetD8": func() ([]byte, error) {
			return after(bytes.Repeat([]byte{0x5b}, f.n), c.d.MemsetD8(c.ctx, f.p, 0x5b, n))
		},
		"MemsetD8Async": func() ([]byte, error) {
			return after(bytes.Repeat([]byte{0x5c}, f.n), c.d.MemsetD8Async(c.ctx, f.p, 0x5c, n, s))
		},
		"MemcpyPeerAsync with its own context": func() ([]byte, error) {
			b := other()
			return after(b, c.d.MemcpyPeerAsync(c.ctx, f.p, c.ctx, near, c.ctx, n, s))
		},
	}
}

// current makes the case's context current on this thread, which copies look at.
func (c *trial) current() {
	runtime.LockOSThread()
	c.cleanup(runtime.UnlockOSThread)
	_, err := c.d.CtxGetFlags(c.ctx)
	c.ok(err, "flags")
}

// wantClosed checks that the case's device cannot use the memory.
func (f *farPool) wantClosed(c *trial, when string) {
	for use, do := range f.uses(c) {
		_, err := do()
		c.want(err, when+", "+use, cu.ErrorInvalidValue)
		c.same(when+", after a refused "+use, c.downIn(f.ctx, f.p, f.n), f.was)
	}
	a, err := c.d.PointerGetAttributes(c.ctx, f.p)
	c.ok(err, "attributes")
	c.check(a.DevicePointer == 0 && a.RangeSize == uintptr(f.n), "%s: attributes %+v, want no device pointer", when, a)
	_, _, err = c.d.MemGetAddressRange(c.ctx, f.p)
	c.want(err, when+", address range", cu.ErrorNotFound)
}

// wantOpen checks that the case's device can use the memory, and that every byte arrives.
func (f *farPool) wantOpen(c *trial, when string) {
	for use, do := range f.uses(c) {
		want, err := do()
		c.ok(err, when+", "+use)
		c.same(when+", after "+use, c.downIn(f.ctx, f.p, f.n), want)
		f.fill(c)
	}
	a, err := c.d.PointerGetAttributes(c.ctx, f.p)
	c.ok(err, "attributes")
	c.check(a.DevicePointer == f.p, "%s: attributes %+v, want the device pointer", when, a)
	base, size, err := c.d.MemGetAddressRange(c.ctx, f.p)
	c.ok(err, when+", address range")
	c.check(base == f.p && size == uintptr(f.n), "%s: the range is %#x and %d bytes", when, base, size)
}

// poolAccessChecks are of one device.
var poolAccessChecks = []check{
	{"pool/access-of-its-own", "a pool is open to its own device, for good",
		poolAccessDoc, needPools, func(c *trial) {
			for _, pool := range []cu.MemPool{c.pool(), c.defaultPool()} {
				c.wantAccess("at first", pool, c.dev, cu.MemAccessProtReadWrite)
				set := func(flags cu.MemAccessFlags) error {
					return c.d.MemPoolSetAccess(pool, []cu.MemAccessDesc{access(c.dev, flags)})
				}
				c.ok(set(cu.MemAccessProtReadWrite), "set what it has")
				c.want(set(cu.MemAccessProtNone), "close it to its own device", cu.ErrorInvalidDevice)
				c.want(set(cu.MemAccessProtRead), "open it for reading only", cu.ErrorNotSupported)
				c.want(set(2), "access 2", cu.ErrorInvalidValue)
				c.want(set(4), "access 4", cu.ErrorInvalidValue)
				c.wantAccess("after refused calls", pool, c.dev, cu.MemAccessProtReadWrite)
			}
		}},
	{"pool/access-misuse", "access needs a pool, a list and a device that exists",
		poolAccessDoc, needPools, func(c *trial) {
			pool, at := c.pool(), location(c.dev)
			c.want(c.d.MemPoolSetAccess(pool, nil), "no list", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAccess(0, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtReadWrite)}), "no pool", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAccess(pool, []cu.MemAccessDesc{access(99, cu.MemAccessProtReadWrite)}), "device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemPoolSetAccess(pool, []cu.MemAccessDesc{{Flags: cu.MemAccessProtReadWrite}}), "location type 0", cu.ErrorNotSupported)
			_, err := c.d.MemPoolGetAccess(0, &at)
			c.want(err, "access to no pool", cu.ErrorInvalidValue)
			for _, at := range []*cu.MemLocation{nil, {}, {Type: cu.MemLocationTypeDevice, ID: 99}, {Type: 9}} {
				_, err := c.d.MemPoolGetAccess(pool, at)
				c.want(err, "access at a location that does not exist", cu.ErrorInvalidValue)
			}
		}},
	{"pool/access-in-capture", "access is neither read nor set while a stream captures",
		poolAccessDoc + "; Stream Management, cuThreadExchangeStreamCaptureMode", needPools, func(c *trial) {
			c.current()
			pool, at := c.pool(), location(c.dev)
			for _, call := range []func() error{
				func() error { _, err := c.d.MemPoolGetAccess(pool, &at); return err },
				func() error {
					return c.d.MemPoolSetAccess(pool, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtReadWrite)})
				},
			} {
				s := c.stream(cu.StreamNonBlocking)
				c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeGlobal), "begin")
				c.want(call(), "in a global capture", cu.ErrorStreamCaptureUnsupported)
				_, err := c.d.StreamEndCapture(c.ctx, s)
				c.want(err, "end", cu.ErrorStreamCaptureInvalidated)
			}
		}},
}

// defaultPool returns the default pool of the case's device.
func (c *trial) defaultPool() cu.MemPool {
	p, err := c.d.DeviceGetDefaultMemPool(c.dev)
	c.ok(err, "default pool")
	return p
}

const needFarPool = needTwoDevices | needPeer | needPools | needUVA

var farPoolChecks = []check{
	{"devices/pool-access", "another device uses the memory of a pool after cuMemPoolSetAccess and no longer, also what was allocated before; peer access between contexts does not matter",
		poolDoc + ", Multi-GPU Support; " + poolAccessDoc, needFarPool, func(c *trial) {
			f := c.farPool(1 << 16)
			c.current()
			f.wantClosed(c, "at first")
			c.peerAccess(c.ctx, f.ctx)
			f.wantClosed(c, "with peer access")
			f.set(c, cu.MemAccessProtReadWrite)
			f.wantOpen(c, "open")
			f.set(c, cu.MemAccessProtNone)
			f.wantClosed(c, "closed again")
		}},
	{"devices/pool-access-alone", "cuMemPoolSetAccess needs no peer access between contexts",
		poolAccessDoc, needFarPool, func(c *trial) {
			f := c.farPool(1 << 16)
			c.current()
			f.set(c, cu.MemAccessProtReadWrite)
			f.wantOpen(c, "open")
		}},
	{"devices/pool-access-kernel", "a kernel reads and writes the memory of a pool that is open to its device",
		poolAccessDoc, needFarPool, func(c *trial) {
			f := c.farPool(1 << 16)
			f.set(c, cu.MemAccessProtReadWrite)
			near := c.device(f.n)
			c.launch(0, "copy", f.n/4, near, f.p, uint32(f.n/4))
			c.same("read from the other device", c.down(near, f.n), f.was)
			c.launch(0, "inc", f.n/4, f.p, uint32(3), uint32(f.n/4))
			c.syncAll()
			c.same("written on the other device", c.downIn(f.ctx, f.p, f.n), plus(f.was, 3))
		}},
	{"devices/pool-access-list", "a list of access is checked as a whole, and its last entry for a device counts",
		poolAccessDoc, needFarPool, func(c *trial) {
			f := c.farPool(4096)
			own, err := c.d.CtxGetDevice(f.ctx)
			c.ok(err, "device of the second context")
			open, shut := access(c.dev, cu.MemAccessProtReadWrite), access(c.dev, cu.MemAccessProtNone)
			for _, bad := range []cu.MemAccessDesc{access(own, cu.MemAccessProtNone), access(99, cu.MemAccessProtReadWrite)} {
				c.want(c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{open, bad}), "a list with a bad entry", cu.ErrorInvalidDevice)
				c.wantAccess("after it", f.pool, c.dev, cu.MemAccessProtNone)
			}
			c.ok(c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{shut, open}), "close and open")
			c.wantAccess("after close and open", f.pool, c.dev, cu.MemAccessProtReadWrite)
			c.ok(c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{open, shut}), "open and close")
			c.wantAccess("after open and close", f.pool, c.dev, cu.MemAccessProtNone)
			c.want(c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtRead)}), "read-only", cu.ErrorNotSupported)
		}},
	{"devices/pool-peer-copy", "copies between devices need no access to pools, and lose no byte with it",
		"Driver API: cuMemcpyPeerAsync, cuMemPoolSetAccess", needFarPool, func(c *trial) {
			f := c.farPool(3<<20 + 1)
			near, t := c.device(f.n), c.streamIn(f.ctx, cu.StreamNonBlocking)
			s := c.stream(cu.StreamNonBlocking)
			for range 3 {
				for _, flags := range []cu.MemAccessFlags{cu.MemAccessProtNone, cu.MemAccessProtReadWrite} {
					f.set(c, flags)
					for _, by := range []struct {
						ctx cu.Context
						s   cu.Stream
					}{{c.ctx, s}, {f.ctx, t}} {
						f.fill(c)
						c.up(near, c.random(f.n))
						c.ok(c.d.MemcpyPeerAsync(by.ctx, near, c.ctx, f.p, f.ctx, uintptr(f.n), by.s), "from the pool")
						c.ok(c.d.StreamSynchronize(by.ctx, by.s), "synchronize")
						c.same("copied from the pool", c.down(near, f.n), f.was)
						want := c.random(f.n)
						c.up(near, want)
						c.ok(c.d.MemcpyPeerAsync(by.ctx, f.p, f.ctx, near, c.ctx, uintptr(f.n), by.s), "to the pool")
						c.ok(c.d.StreamSynchronize(by.ctx, by.s), "synchronize")
						c.same("copied to the pool", c.downIn(f.ctx, f.p, f.n), want)
					}
				}
			}
		}},
	{"devices/pool-access-of-graphs", "memory that a graph allocates keeps the access that its pool had at the capture",
		"Programming Guide: Graph Memory Nodes, Peer Access with Stream Capture", needFarPool, func(c *trial) {
			c.needsGraphMemory()
			f := c.farPool(4096)
			c.current()
			for _, flags := range []cu.MemAccessFlags{cu.MemAccessProtReadWrite, cu.MemAccessProtNone} {
				f.set(c, flags)
				t := c.streamIn(f.ctx, cu.StreamNonBlocking)
				c.ok(c.d.StreamBeginCapture(f.ctx, t, cu.StreamCaptureModeRelaxed), "begin")
				p, err := c.d.MemAllocFromPoolAsync(f.ctx, 4096, f.pool, t)
				c.ok(err, "allocate in a capture")
				g, err := c.d.StreamEndCapture(f.ctx, t)
				c.ok(err, "end")
				f.set(c, cu.MemAccessProtReadWrite-flags)
				exec, err := c.d.GraphInstantiate(f.ctx, g, 0)
				c.ok(err, "instantiate")
				c.ok(c.d.GraphLaunch(f.ctx, exec, t), "launch")
				c.ok(c.d.StreamSynchronize(f.ctx, t), "synchronize")
				want := cu.Success
				if flags == cu.MemAccessProtNone {
					want = cu.ErrorInvalidValue
				}
				c.want(c.d.MemsetD8(c.ctx, p, 1, 4096), "fill memory of a graph", want)
				c.syncAll()
				c.ok(c.d.MemFreeAsync(f.ctx, p, t), "free outside of the graph")
				c.ok(c.d.StreamSynchronize(f.ctx, t), "synchronize")
				c.ok(c.d.GraphExecDestroy(exec), "destroy the executable graph")
				c.ok(c.d.GraphDestroy(g), "destroy the graph")
			}
		}},
	{"fault/closed-pool", "a kernel that uses the memory of a pool that is not open to its device faults",
		poolAccessDoc + "; Error codes, CUDA_ERROR_ILLEGAL_ADDRESS", needFarPool | needIsolation, func(c *trial) {
			f := c.farPool(4096)
			c.peerAccess(c.ctx, f.ctx) // does not help
			c.launch(0, "store", 1, f.p, uint32(1), uint32(1))
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/pool-closed-before-a-fill", "closing a pool does not wait for queued work, which then faults",
		poolAccessDoc + " (silent)", needFarPool | needIsolation | needMapHost, func(c *trial) {
			f := c.farPool(4096)
			f.set(c, cu.MemAccessProtReadWrite)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.MemsetD8Async(c.ctx, f.p, 1, 4096, s), "fill")
			c.mustReturn(g, "MemPoolSetAccess", func() error {
				return c.d.MemPoolSetAccess(f.pool, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtNone)})
			})
			c.busy(s)
			g.open()
			c.want(c.waitForFault(s), "wait", cu.ErrorIllegalAddress, cu.ErrorLaunchFailed)
		}},
}
