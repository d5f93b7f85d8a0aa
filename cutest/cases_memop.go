package cutest

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
)

const memOpDoc = "Driver API: Stream Memory Operations, cuStreamWriteValue32, cuStreamWriteValue64"

// write32 queues a write of 4 bytes. The case skips where the driver has no such call.
func (c *trial) write32(s cu.Stream, p cu.DevicePtr, v uint32) {
	err := c.d.StreamWriteValue32(c.ctx, s, p, v, cu.StreamWriteValueDefault)
	if isCode(err, cu.ErrorNotSupported) {
		c.skip("the driver is older than the call: %v", err)
	}
	c.ok(err, "write of 4 bytes")
}

// write64 queues a write of 8 bytes. The case skips where the device has no such writes.
func (c *trial) write64(s cu.Stream, p cu.DevicePtr, v uint64) {
	c.need64()
	c.ok(c.d.StreamWriteValue64(c.ctx, s, p, v, cu.StreamWriteValueDefault), "write of 8 bytes")
}

func (c *trial) need64() {
	if c.attr(cu.DeviceAttributeCanUse64BitStreamMemOps) == 0 {
		c.skip("the device lacks canUse64BitStreamMemOps")
	}
}

// needWrites skips the case where the driver has no writes of values.
func (c *trial) needWrites() {
	c.write32(0, c.device(4), 1)
	c.syncAll()
}

// writesInto writes words of both sizes into the middle of memory, and checks all of it.
func (c *trial) writesInto(dev cu.DevicePtr, n int, read func() []byte) {
	want := read()
	s := c.stream(cu.StreamNonBlocking)
	for i, at := range []int{0, 12, n / 2, n - 4} {
		v := 0x81828384 + uint32(i)
		c.write32(s, dev+cu.DevicePtr(at), v)
		binary.LittleEndian.PutUint32(want[at:], v)
	}
	if c.attr(cu.DeviceAttributeCanUse64BitStreamMemOps) != 0 {
		for i, at := range []int{24, n/2 + 8} {
			v := 0x9192939495969798 + uint64(i)
			c.write64(s, dev+cu.DevicePtr(at), v)
			binary.LittleEndian.PutUint64(want[at:], v)
		}
	}
	c.sync(s)
	c.same("the memory around the words", read(), want)
}

// refusedWrites makes writes that must fail, and checks that they write nothing.
func (c *trial) refusedWrites(p cu.DevicePtr, n int, calls map[string]func() error, codes ...cu.Result) {
	before := c.down(p, n)
	for what, call := range calls {
		c.want(call(), what, codes...)
	}
	c.syncAll()
	c.same("the memory", c.down(p, n), before)
}

var memOpChecks = []check{
	{"memop/device", "a stream writes 4 or 8 bytes of device memory, and nothing around them",
		memOpDoc, 0, func(c *trial) {
			const n = 256
			p := c.device(n)
			c.up(p, c.random(n))
			c.writesInto(p, n, func() []byte { return c.down(p, n) })
		}},
	{"memop/mapped", "a stream writes to page-locked memory through its device address",
		memOpDoc, needMapHost, func(c *trial) {
			m := c.mapped(256)
			c.writesInto(m.dev, 256, func() []byte { return append([]byte(nil), m.b...) })
		}},
	{"memop/registered", "a stream writes to registered memory through its device address",
		memOpDoc + " (cuMemHostGetDevicePointer)", needMapHost | needRegister, func(c *trial) {
			b := c.pageable(2 * page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device address")
			c.writesInto(dev, len(b), func() []byte { return append([]byte(nil), b...) })
		}},
	{"memop/pool", "memory of a pool cannot be used",
		memOpDoc + " (silent on cuMemAllocAsync)", needPools, func(c *trial) {
			c.needWrites()
			s := c.stream(cu.StreamNonBlocking)
			p, err := c.d.MemAllocAsync(c.ctx, 64, s)
			c.ok(err, "allocate")
			c.want(c.d.StreamWriteValue32(c.ctx, s, p+8, 7, 0), "write", cu.ErrorInvalidValue)
			c.ok(c.d.MemFreeAsync(c.ctx, p, s), "free")
			c.sync(s)
		}},
	{"memop/variable", "a stream writes to a variable of a module",
		memOpDoc + "; cuModuleGetGlobal", 0, func(c *trial) {
			p := c.global(c.module(suitePTX), "answer", 4)
			c.write32(0, p, 0x31323334)
			c.syncAll()
			c.same("the variable", c.down(p, 4), words(0x31323334))
		}},
	{"memop/wide-attribute", "writes of 8 bytes work where the device has the attribute",
		memOpDoc + "; CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS", 0, func(c *trial) {
			c.needWrites()
			p := c.device(8)
			err := c.d.StreamWriteValue64(c.ctx, 0, p, 1, cu.StreamWriteValueDefault)
			if c.attr(cu.DeviceAttributeCanUse64BitStreamMemOps) == 0 {
				c.want(err, "write of 8 bytes", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "write of 8 bytes")
			c.syncAll()
			c.same("the word", c.down(p, 8), words(1, 0))
		}},
	{"memop/in-order", "a write happens after the work before it in the stream, and before the work behind it",
		memOpDoc, needMapHost, func(c *trial) {
			c.needWrites()
			for _, flags := range []cu.StreamFlags{cu.StreamDefault, cu.StreamNonBlocking} {
				m, p := c.mapped(4), c.device(4)
				storeWord(m.b, 0, 5)
				g, s := c.behind(flags)
				c.mustReturn(g, "StreamWriteValue32", func() error {
					c.write32(s, m.dev, 6)
					return nil
				})
				c.write32(s, p, 40)
				c.launch(s, "inc", 1, p, uint32(2), uint32(1))
				c.launch(s, "inc", 1, m.dev, uint32(3), uint32(1))
				g.running(s)
				c.busy(s)
				c.check(loadWord(m.b, 0) == 5, "got %d while the work before runs, want 5", loadWord(m.b, 0))
				g.open()
				c.sync(s)
				c.check(loadWord(m.b, 0) == 9, "got %d, want 9", loadWord(m.b, 0))
				c.same("device memory", c.down(p, 4), words(42))
			}
		}},
	{"memop/repeated", "writes of one stream to one word happen in their order",
		memOpDoc, needMapHost, func(c *trial) {
			const n = 500
			m := c.mapped(8)
			storeWord(m.b, 0, 0)
			s := c.stream(cu.StreamNonBlocking)
			for i := range uint32(n) {
				c.write32(s, m.dev, i+1)
			}
			last := uint32(0)
			c.until("the last value", func() bool {
				v := loadWord(m.b, 0)
				c.check(v >= last && v <= n, "got %d after %d", v, last)
				last = v
				_ = c.d.StreamQuery(c.ctx, s)
				return v == n
			})
			c.sync(s)
		}},
	{"memop/data-behind-a-value", "when the host sees the value, it sees what earlier kernels and copies of the stream wrote",
		memOpDoc + "; CU_STREAM_WRITE_VALUE_DEFAULT", needMapHost, func(c *trial) {
			const n = 1 << 16
			p := c.device(4 * n)
			data, copied, word := c.mapped(4*n), c.mapped(4*n), c.mapped(4)
			for i := range uint32(10) {
				storeWord(word.b, 0, 0)
				want := c.random(4 * n)
				c.up(p, want)
				s := c.stream(cu.StreamNonBlocking)
				g := c.gate()
				c.launch(s, "store", n, data.dev, 0xabcd0000+i, uint32(n))
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, copied.p, p, 4*n, s), "copy")
				c.write32(s, word.dev, i+1)
				g.hold(s) // the stream stays busy
				c.until("the value", func() bool { _ = c.d.StreamQuery(c.ctx, s); return loadWord(word.b, 0) == i+1 })
				c.same("what the kernel wrote", data.b, repeated(0xabcd0000+i, n))
				c.same("what the copy wrote", copied.b, want)
				c.busy(s)
				g.open()
				c.sync(s)
			}
		}},
	{"memop/other-stream", "a write does not wait for other streams that are non-blocking",
		memOpDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(4)
			storeWord(m.b, 0, 1)
			g, first := c.behind(cu.StreamNonBlocking)
			g.running(first)
			s := c.stream(cu.StreamNonBlocking)
			c.write32(s, m.dev, 2)
			c.mustReturn(g, "StreamSynchronize", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(loadWord(m.b, 0) == 2, "got %d, want 2", loadWord(m.b, 0))
			c.busy(first)
		}},
	{"memop/legacy-stream", "a write in the legacy stream waits for blocking streams, and they wait for it",
		memOpDoc + "; API synchronization behavior, Legacy default stream", needMapHost, func(c *trial) {
			m := c.mapped(4)
			storeWord(m.b, 0, 1)
			g, s := c.behind(cu.StreamDefault)
			c.write32(0, m.dev, 10)
			other := c.stream(cu.StreamDefault)
			c.launch(other, "inc", 1, m.dev, uint32(5), uint32(1))
			g.running(s)
			c.check(loadWord(m.b, 0) == 1, "got %d before the blocking stream is done, want 1", loadWord(m.b, 0))
			g.open()
			c.sync(other)
			c.check(loadWord(m.b, 0) == 15, "got %d, want 15", loadWord(m.b, 0))
		}},
	{"memop/starts-a-kernel", "a kernel that waits for a word goes on when another stream writes it",
		memOpDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.busy(s)
			other := c.stream(cu.StreamNonBlocking)
			c.write32(other, g.mem.dev, 1)
			c.sync(other)
			c.sync(s)
		}},
	{"memop/misaligned", "the address is aligned to the word, or it is an invalid value",
		memOpDoc, 0, func(c *trial) {
			c.needWrites()
			p := c.device(64)
			write32 := func(off cu.DevicePtr) func() error {
				return func() error { return c.d.StreamWriteValue32(c.ctx, 0, p+off, 7, 0) }
			}
			c.refusedWrites(p, 64, map[string]func() error{
				"4 bytes at +1": write32(1), "4 bytes at +2": write32(2), "4 bytes at +3": write32(3),
			}, cu.ErrorInvalidValue)
			c.need64()
			c.refusedWrites(p, 64, map[string]func() error{
				"8 bytes at +4": func() error { return c.d.StreamWriteValue64(c.ctx, 0, p+4, 7, 0) },
				"8 bytes at +1": func() error { return c.d.StreamWriteValue64(c.ctx, 0, p+1, 7, 0) },
			}, cu.ErrorInvalidValue)
		}},
	{"memop/invalid-address", "an address without memory that the device can use is an invalid value",
		memOpDoc, needIsolation, func(c *trial) {
			c.needWrites()
			c.want(c.d.StreamWriteValue32(c.ctx, 0, 0, 7, 0), "address 0", cu.ErrorInvalidValue)
			c.want(c.d.StreamWriteValue32(c.ctx, 0, c.unusedAddress(), 7, 0), "an unused address", cu.ErrorInvalidValue)
			c.want(c.d.StreamWriteValue32(c.ctx, 0, addressOf(c.pageable(page)), 7, 0), "pageable memory", cu.ErrorInvalidValue)
			c.syncAll()
		}},
	{"memop/freed", "an address of freed memory is an invalid value",
		memOpDoc, needIsolation, func(c *trial) {
			c.needWrites()
			const n = 4 << 20
			p, err := c.d.MemAlloc(c.ctx, n)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.want(c.d.StreamWriteValue32(c.ctx, 0, p+64, 7, 0), "freed memory", cu.ErrorInvalidValue)
		}},
	{"memop/managed", "managed memory cannot be used",
		memOpDoc + " (this function cannot be used with managed memory)", needManaged | needIsolation, func(c *trial) {
			c.needWrites()
			p, b := c.managed(64, cu.MemAttachGlobal)
			copy(b, repeated(3, 16))
			c.want(c.d.StreamWriteValue32(c.ctx, 0, p+4, 9, 0), "write", cu.ErrorInvalidValue)
			c.syncAll()
			c.same("the memory", b, repeated(3, 16))
		}},
	{"memop/flags", "a write without a barrier is not supported in this form of the call, and other flags do not exist",
		memOpDoc + "; CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER (not supported in the v2 API)", 0, func(c *trial) {
			c.needWrites()
			p := c.device(8)
			write := func(flags cu.StreamWriteValueFlags) func() error {
				return func() error { return c.d.StreamWriteValue32(c.ctx, 0, p, 2, flags) }
			}
			c.refusedWrites(p, 8, map[string]func() error{
				"no barrier": write(cu.StreamWriteValueNoMemoryBarrier), "flag 2": write(2), "flag 2^30": write(1 << 30),
			}, cu.ErrorInvalidValue)
		}},
	{"memop/no-stream", "a stream that does not exist is an invalid handle",
		memOpDoc, needEmulated, func(c *trial) {
			c.needWrites()
			p := c.device(4)
			c.want(c.d.StreamWriteValue32(c.ctx, 0x999, p, 1, 0), "write", cu.ErrorInvalidHandle)
		}},
	{"memop/capture", "a write is captured as a node, and every launch of the graph writes",
		memOpDoc + "; CU_GRAPH_NODE_TYPE_BATCH_MEM_OP", needMapHost, func(c *trial) {
			c.needWrites()
			m := c.mapped(8)
			storeWord(m.b, 0, 3)
			s := c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.write32(s, m.dev, 10)
			c.launch(s, "inc", 1, m.dev, uint32(5), uint32(1))
			g := c.end(s)
			c.wantNodes(g, cu.GraphNodeTypeBatchMemOp, cu.GraphNodeTypeKernel)
			c.check(loadWord(m.b, 0) == 3, "got %d after the capture, want 3", loadWord(m.b, 0))
			x := c.instantiated(g)
			for range 3 {
				storeWord(m.b, 0, 100)
				c.runGraph(x, s)
				c.sync(s)
				c.check(loadWord(m.b, 0) == 15, "got %d, want 15", loadWord(m.b, 0))
			}
		}},
	{"memop/capture-update", "an update gives the node of an executable graph another word and value",
		memOpDoc + "; cuGraphExecUpdate", needMapHost, func(c *trial) {
			c.needWrites()
			m := c.mapped(8)
			copy(m.b, words(1, 1))
			s := c.stream(cu.StreamNonBlocking)
			graphs := [2]cu.Graph{}
			for i := range graphs {
				graphs[i] = c.captured(s, func() { c.write32(s, m.dev+cu.DevicePtr(4*i), uint32(10+i)) })
			}
			x := c.instantiated(graphs[0])
			c.ok(c.d.GraphExecUpdate(c.ctx, x, graphs[1]), "update")
			c.runGraph(x, s)
			c.sync(s)
			c.same("the words", m.b, words(1, 11))
		}},
	{"memop/behind-a-fault", "a write behind a kernel that faults does not happen",
		memOpDoc + "; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needMapHost | needIsolation, func(c *trial) {
			m := c.mapped(4)
			c.needWrites()
			storeWord(m.b, 0, 1)
			g, s := c.behind(cu.StreamNonBlocking)
			c.launchFaulty(s, 0x10)
			c.write32(s, m.dev, 2)
			g.open()
			c.want(c.waitForFault(s), "wait", cu.ErrorIllegalAddress)
			c.check(loadWord(m.b, 0) == 1, "got %d, want 1", loadWord(m.b, 0))
			c.want(c.d.StreamWriteValue32(c.ctx, s, m.dev, 3, 0), "write after the fault", cu.ErrorIllegalAddress)
		}},
	{"memop/elsewhere", "a write in a stream of another context works, whichever context is current",
		memOpDoc + " (silent on the current context)", needMapHost, func(c *trial) {
			c.needWrites()
			o := c.foreign(c.dev)
			m := c.mapped(4)
			storeWord(m.b, 0, 1)
			c.write32(o.stream, m.dev, 2)
			c.ok(c.d.StreamSynchronize(o.ctx, o.stream), "synchronize")
			c.check(loadWord(m.b, 0) == 2, "got %d, want 2", loadWord(m.b, 0))
		}},
}
