package cutest

import (
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const valueWaitDoc = "Driver API: Stream Memory Operations, cuStreamWaitValue32, cuStreamWaitValue64"

// waitWord is a word of page-locked memory for waits of streams.
type waitWord struct {
	c    *trial
	mem  hostMem
	wide bool // 8 bytes
}

// waitWord makes a word that a stream waits for. When the case ends, the word becomes last, which
// fulfils what still waits.
func (c *trial) waitWord(wide bool, first, last uint64) *waitWord {
	w := &waitWord{c, c.mapped(8), wide}
	w.store(first)
	c.cleanup(func() { w.store(last) })
	return w
}

func (w *waitWord) store(v uint64) {
	if w.wide {
		storeWide(w.mem.b, 0, v)
	} else {
		storeWord(w.mem.b, 0, uint32(v))
	}
}

// wait queues a wait for the word. The case skips where the driver or the device has no such wait.
func (w *waitWord) wait(s cu.Stream, value uint64, flags cu.StreamWaitValueFlags) {
	c := w.c
	var err error
	if w.wide {
		c.need64()
		err = c.d.StreamWaitValue64(c.ctx, s, w.mem.dev, value, flags)
	} else {
		err = c.d.StreamWaitValue32(c.ctx, s, w.mem.dev, uint32(value), flags)
	}
	c.ok(err, fmt.Sprintf("wait for %#x with %v", value, flags))
}

// wait32 queues a wait for 4 bytes at any address.
func (c *trial) wait32(s cu.Stream, p cu.DevicePtr, value uint32, flags cu.StreamWaitValueFlags) {
	c.ok(c.d.StreamWaitValue32(c.ctx, s, p, value, flags), "wait for a value")
}

// condition is a condition of a wait, with words that do not fulfil it, and then one that does.
type condition struct {
	flags cu.StreamWaitValueFlags
	value uint64
	words []uint64
}

// conditions are conditions for words of 4 or 8 bytes. top is the highest bit.
func conditions(top uint64) []condition {
	all := top | (top - 1)
	return []condition{
		{cu.StreamWaitValueGEQ, 7, []uint64{6, 0, all, 7}},
		{cu.StreamWaitValueGEQ, 7, []uint64{top + 7, top + 8, 6, top + 6}}, // the farthest word that counts as larger
		{cu.StreamWaitValueGEQ, all, []uint64{all - 1, top - 1, all}},
		{cu.StreamWaitValueGEQ, all - 2, []uint64{all - 3, 5}}, // 5 is 8 more, because words wrap around
		{cu.StreamWaitValueEQ, top + 5, []uint64{5, top + 6, top + 4, all, top + 5}},
		{cu.StreamWaitValueAND, top | 4, []uint64{0, 3, top - 1 - 4, top}},
		{cu.StreamWaitValueNOR, top | 4, []uint64{all, all - 4, all - top, all - 1}},
	}
}

// testConditions lets a stream wait for each condition, with words that do not fulfil it until the
// last one does.
func (c *trial) testConditions(wide bool, top uint64) {
	s := c.stream(cu.StreamNonBlocking)
	done := c.mapped(4)
	for i, k := range conditions(top) {
		if k.flags == cu.StreamWaitValueNOR && c.attr(cu.DeviceAttributeCanUseStreamWaitValueNOR) == 0 {
			continue
		}
		last := k.words[len(k.words)-1]
		w := c.waitWord(wide, k.words[0], last)
		storeWord(done.b, 0, 0)
		w.wait(s, k.value, k.flags)
		c.write32(s, done.dev, uint32(i+1))
		for _, v := range k.words[:len(k.words)-1] {
			w.store(v)
			c.remains(s, done, fmt.Sprintf("%#x for %v of %#x", v, k.flags, k.value))
		}
		w.store(last)
		c.sync(s)
		c.check(loadWord(done.b, 0) == uint32(i+1), "%#x for %v of %#x: the work behind the wait was not done", last, k.flags, k.value)
		w.wait(s, k.value, k.flags) // a condition that is fulfilled
		c.sync(s)
	}
}

// remains fails unless a stream goes on waiting for a while.
func (c *trial) remains(s cu.Stream, done hostMem, what string) {
	for range 3 {
		c.busy(s)
		time.Sleep(blockedTime / 10)
	}
	c.check(loadWord(done.b, 0) == 0, "%s ended the wait", what)
}

// refusedWaits makes waits that must fail, and checks that the stream waits for nothing.
func (c *trial) refusedWaits(calls map[string]func() error, codes ...cu.Result) {
	for what, call := range calls {
		c.want(call(), what, codes...)
	}
	c.syncAll()
}

// needWaits skips the case where the driver has no waits for values.
func (c *trial) needWaits() {
	p := c.device(4)
	c.up(p, words(1))
	c.wait32(0, p, 1, cu.StreamWaitValueEQ)
	c.syncAll()
}

var valueWaitChecks = []check{
	{"valuewait/conditions", "a stream waits until a word of 4 bytes fulfils the condition; greater-or-equal is cyclic",
		valueWaitDoc + "; CUstreamWaitValue_flags", needMapHost, func(c *trial) { c.testConditions(false, 1<<31) }},
	{"valuewait/wide-conditions", "the same for a word of 8 bytes",
		valueWaitDoc + "; CUstreamWaitValue_flags; CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS", needMapHost, func(c *trial) {
			c.need64()
			c.testConditions(true, 1<<63)
		}},
	{"valuewait/wide-attribute", "waits for 8 bytes work where the device has the attribute",
		valueWaitDoc + "; CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS", 0, func(c *trial) {
			c.needWaits()
			p := c.device(8)
			c.up(p, words(2, 0))
			err := c.d.StreamWaitValue64(c.ctx, 0, p, 2, cu.StreamWaitValueEQ)
			if c.attr(cu.DeviceAttributeCanUse64BitStreamMemOps) == 0 {
				c.want(err, "wait for 8 bytes", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "wait for 8 bytes")
			c.syncAll()
		}},
	{"valuewait/nor-attribute", "waits with NOR work where the device has the attribute",
		valueWaitDoc + "; CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR", 0, func(c *trial) {
			c.attributed(cu.StreamWaitValueNOR, cu.DeviceAttributeCanUseStreamWaitValueNOR)
		}},
	{"valuewait/flush-attribute", "waits with a flush of remote writes work where the device has the attribute",
		valueWaitDoc + "; CU_STREAM_WAIT_VALUE_FLUSH; CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES", 0, func(c *trial) {
			c.attributed(cu.StreamWaitValueGEQ|cu.StreamWaitValueFlush, cu.DeviceAttributeCanFlushRemoteWrites)
		}},
	{"valuewait/other-stream", "work behind a wait sees what another stream wrote before it wrote the value",
		valueWaitDoc + "; cuStreamWriteValue32", needMapHost | needConcurrentKernels, func(c *trial) {
			const n = 1 << 14
			c.needWaits()
			word, data := c.device(4), c.device(4*n)
			for i := range uint32(5) {
				c.up(word, words(0))
				c.up(data, c.random(4*n))
				g, first := c.behind(cu.StreamNonBlocking)
				second, got := c.stream(cu.StreamNonBlocking), c.mapped(4*n)
				c.launch(first, "store", n, data, 0xabcd0000+i, uint32(n))
				c.write32(first, word, i+1)
				g.running(first)
				c.wait32(second, word, i+1, cu.StreamWaitValueGEQ)
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, got.p, data, 4*n, second), "copy")
				c.busy(second)
				g.open()
				c.sync(second)
				c.same("the data", got.b, repeated(0xabcd0000+i, n))
				c.sync(first)
			}
		}},
	{"valuewait/kernel", "a wait ends when a kernel writes the value",
		valueWaitDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			c.needWaits()
			word := c.device(4)
			c.up(word, words(3))
			g, first := c.behind(cu.StreamNonBlocking)
			second := c.stream(cu.StreamNonBlocking)
			c.launch(first, "store", 1, word, uint32(9), uint32(1))
			g.running(first)
			c.wait32(second, word, 9, cu.StreamWaitValueEQ)
			c.busy(second)
			g.open()
			c.sync(second)
			c.sync(first)
		}},
	{"valuewait/copy", "a wait ends when a copy writes the value",
		valueWaitDoc + " (silent on copies)", needMapHost | needConcurrentKernels, func(c *trial) {
			c.needWaits()
			word, from := c.device(4), c.mapped(4)
			c.up(word, words(3))
			storeWord(from.b, 0, 9)
			g, first := c.behind(cu.StreamNonBlocking)
			second := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, word, from.p, 4, first), "copy")
			g.running(first)
			c.wait32(second, word, 9, cu.StreamWaitValueEQ)
			c.busy(second)
			g.open()
			c.sync(second)
			c.sync(first)
		}},
	{"valuewait/in-order", "a wait begins after the work before it in the stream",
		valueWaitDoc, needMapHost, func(c *trial) {
			c.needWaits()
			m := c.mapped(4)
			storeWord(m.b, 0, 1)
			g, s := c.behind(cu.StreamNonBlocking)
			c.write32(s, m.dev, 5) // the wait would never end if it began before
			c.mustReturn(g, "StreamWaitValue32", func() error { return c.d.StreamWaitValue32(c.ctx, s, m.dev, 5, cu.StreamWaitValueEQ) })
			g.open()
			c.sync(s)
		}},
	{"valuewait/alone", "a wait holds up its own stream only",
		valueWaitDoc, needMapHost, func(c *trial) {
			c.needWaits()
			g := c.gate()
			s, other, p := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.device(4)
			c.wait32(s, g.mem.dev, 1, cu.StreamWaitValueEQ)
			c.write32(other, p, 8)
			c.mustReturn(g, "StreamSynchronize", func() error { return c.d.StreamSynchronize(c.ctx, other) })
			c.busy(s)
			g.open()
			c.sync(s)
		}},
	{"valuewait/registered", "a stream waits for registered memory by its device address",
		valueWaitDoc + " (cuMemHostGetDevicePointer)", needMapHost | needRegister, func(c *trial) {
			c.needWaits()
			b := c.pageable(2 * page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			dev, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(b), 0)
			c.ok(err, "device address")
			storeWord(b, 64, 1)
			c.cleanup(func() { storeWord(b, 64, 2) })
			s := c.stream(cu.StreamNonBlocking)
			c.wait32(s, dev+64, 2, cu.StreamWaitValueEQ)
			c.busy(s)
			storeWord(b, 64, 2)
			c.sync(s)
		}},
	{"valuewait/pool", "memory of a pool (the manual is silent)",
		valueWaitDoc + " (silent on cuMemAllocAsync)", needPools, func(c *trial) {
			c.needWaits()
			s := c.stream(cu.StreamNonBlocking)
			p, err := c.d.MemAllocAsync(c.ctx, 64, s)
			c.ok(err, "allocate")
			c.ok(c.d.MemsetD8Async(c.ctx, p, 0, 64, s), "fill")
			c.observeError("wait for memory of cuMemAllocAsync", c.d.StreamWaitValue32(c.ctx, s, p+8, 0, cu.StreamWaitValueEQ))
			c.ok(c.d.MemFreeAsync(c.ctx, p, s), "free")
			c.sync(s)
		}},
	{"valuewait/misaligned", "the address is aligned to the word, or it is an invalid value",
		valueWaitDoc + " (silent on alignment)", 0, func(c *trial) {
			c.needWaits()
			p := c.device(64)
			c.up(p, make([]byte, 64))
			calls := map[string]func() error{}
			for off := range cu.DevicePtr(3) {
				calls[fmt.Sprintf("4 bytes at +%d", off+1)] = func() error { return c.d.StreamWaitValue32(c.ctx, 0, p+off+1, 0, cu.StreamWaitValueEQ) }
			}
			c.refusedWaits(calls, cu.ErrorInvalidValue)
			c.need64()
			c.refusedWaits(map[string]func() error{
				"8 bytes at +4": func() error { return c.d.StreamWaitValue64(c.ctx, 0, p+4, 0, cu.StreamWaitValueEQ) },
			}, cu.ErrorInvalidValue)
		}},
	{"valuewait/invalid-address", "an address without memory that the device can use is an invalid value",
		valueWaitDoc, needIsolation, func(c *trial) {
			c.needWaits()
			wait := func(p cu.DevicePtr) func() error {
				return func() error { return c.d.StreamWaitValue32(c.ctx, 0, p, 0, cu.StreamWaitValueGEQ) }
			}
			c.refusedWaits(map[string]func() error{
				"address 0": wait(0), "an unused address": wait(c.unusedAddress()), "pageable memory": wait(addressOf(c.pageable(page))),
			}, cu.ErrorInvalidValue)
		}},
	{"valuewait/managed", "managed memory cannot be used",
		valueWaitDoc + " (this function cannot be used with managed memory)", needManaged | needIsolation, func(c *trial) {
			c.needWaits()
			p, b := c.managed(64, cu.MemAttachGlobal)
			copy(b, repeated(3, 16))
			c.refusedWaits(map[string]func() error{
				"wait": func() error { return c.d.StreamWaitValue32(c.ctx, 0, p+4, 3, cu.StreamWaitValueEQ) },
			}, cu.ErrorInvalidValue)
		}},
	{"valuewait/flags", "flags that do not exist are an invalid value",
		valueWaitDoc + "; CUstreamWaitValue_flags", 0, func(c *trial) {
			c.needWaits()
			p := c.device(8)
			c.up(p, words(0, 0))
			calls := map[string]func() error{}
			for _, flags := range []cu.StreamWaitValueFlags{4, 8, 1 << 29, 1 << 31} {
				calls[fmt.Sprintf("flags %#x", uint32(flags))] = func() error { return c.d.StreamWaitValue32(c.ctx, 0, p, 0, flags) }
			}
			c.refusedWaits(calls, cu.ErrorInvalidValue)
		}},
	{"valuewait/no-stream", "a stream that does not exist is an invalid handle",
		valueWaitDoc, needEmulated, func(c *trial) {
			c.needWaits()
			c.want(c.d.StreamWaitValue32(c.ctx, 0x999, c.device(4), 1, 0), "wait", cu.ErrorInvalidHandle)
		}},
	{"valuewait/capture", "a wait is captured as a node, and every launch of the graph waits",
		valueWaitDoc + "; CU_GRAPH_NODE_TYPE_BATCH_MEM_OP", needMapHost, func(c *trial) {
			c.needWaits()
			m, w := c.mapped(8), c.waitWord(false, 0, 1000)
			s := c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			w.wait(s, 10, cu.StreamWaitValueGEQ)
			c.launch(s, "inc", 1, m.dev, uint32(5), uint32(1))
			g := c.end(s)
			c.wantNodes(g, cu.GraphNodeTypeBatchMemOp, cu.GraphNodeTypeKernel)
			x := c.instantiated(g)
			for range 3 {
				w.store(9)
				storeWord(m.b, 0, 0)
				c.runGraph(x, s)
				c.remains(s, m, "a word that does not fulfil the condition")
				w.store(11)
				c.sync(s)
				c.check(loadWord(m.b, 0) == 5, "got %d, want 5", loadWord(m.b, 0))
			}
		}},
	{"valuewait/capture-update", "an update gives the node of an executable graph another word and value",
		valueWaitDoc + "; cuGraphExecUpdate", needMapHost, func(c *trial) {
			c.needWaits()
			first, second := c.waitWord(false, 0, 10), c.waitWord(false, 0, 11)
			s := c.stream(cu.StreamNonBlocking)
			x := c.instantiated(c.captured(s, func() { first.wait(s, 10, cu.StreamWaitValueEQ) }))
			c.ok(c.d.GraphExecUpdate(c.ctx, x, c.captured(s, func() { second.wait(s, 11, cu.StreamWaitValueEQ) })), "update")
			c.runGraph(x, s)
			c.busy(s)
			first.store(10)
			c.busy(s)
			second.store(11)
			c.sync(s)
		}},
	{"valuewait/elsewhere", "a wait in a stream of another context works, whichever context is current",
		valueWaitDoc + " (silent on the current context)", needMapHost, func(c *trial) {
			c.needWaits()
			o, w := c.foreign(c.dev), c.waitWord(false, 0, 3)
			w.wait(o.stream, 3, cu.StreamWaitValueEQ)
			c.want(c.d.StreamQuery(o.ctx, o.stream), "query", cu.ErrorNotReady)
			w.store(3)
			c.ok(c.d.StreamSynchronize(o.ctx, o.stream), "synchronize")
		}},
	{"valuewait/behind-a-fault", "a wait behind a kernel that faults ends with the fault",
		valueWaitDoc + "; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needMapHost | needIsolation, func(c *trial) {
			c.needWaits()
			w := c.waitWord(false, 0, 1)
			g, s := c.behind(cu.StreamNonBlocking)
			c.launchFaulty(s, 0x10)
			w.wait(s, 1, cu.StreamWaitValueEQ)
			g.open()
			c.want(c.waitForFault(s), "wait", cu.ErrorIllegalAddress)
			c.want(c.d.StreamWaitValue32(c.ctx, s, w.mem.dev, 0, 0), "wait after the fault", cu.ErrorIllegalAddress)
		}},
}

// attributed waits with flags for a word that fulfils every condition, which works if the device
// has an attribute.
func (c *trial) attributed(flags cu.StreamWaitValueFlags, a cu.DeviceAttribute) {
	c.needWaits()
	p := c.device(4)
	c.up(p, words(1))
	err := c.d.StreamWaitValue32(c.ctx, 0, p, 1, flags)
	if c.attr(a) == 0 {
		c.want(err, fmt.Sprintf("wait with %v", flags), cu.ErrorNotSupported)
	} else {
		c.ok(err, fmt.Sprintf("wait with %v", flags))
	}
	c.syncAll()
}
