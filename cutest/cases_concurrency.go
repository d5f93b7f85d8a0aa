package cutest

import (
	"fmt"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const overlapDoc = "Programming Guide: Overlap of Data Transfer and Kernel Execution; Concurrent Data Transfers; Overlapping Behavior"

// manyGates makes n streams, each blocked by a gate of its own. The end of the case opens
// all gates.
func (c *trial) manyGates(n int) ([]*gate, []cu.Stream) {
	gates, streams := make([]*gate, n), make([]cu.Stream, n)
	for i := range n {
		gates[i], streams[i] = c.gate(), c.stream(cu.StreamNonBlocking)
	}
	for i := range n {
		gates[i].hold(streams[i])
	}
	return gates, streams
}

// started counts the gates' kernels that run. It queries their streams for up to limit.
func (c *trial) started(gates []*gate, streams []cu.Stream, limit time.Duration) int {
	for until := time.Now().Add(limit); ; {
		n := 0
		for i, g := range gates {
			_ = c.d.StreamQuery(c.ctx, streams[i])
			n += int(loadWord(g.mem.b, 4))
		}
		if n == len(gates) || time.Now().After(until) {
			return n
		}
		time.Sleep(time.Millisecond)
	}
}

// timed returns how long work takes on the device, in milliseconds: the time between two
// events that fork to and join from streams. It is the shortest of several runs.
func (c *trial) timed(streams []cu.Stream, work func()) float32 {
	main, fork := c.stream(cu.StreamNonBlocking), c.event(0)
	end := c.event(0)
	best, runs := float32(1e9), 5
	if cu.AsEmulated(c.d) != nil {
		runs = 1 // all runs take the same time
	}
	for range runs {
		c.ok(c.d.EventRecord(c.ctx, fork, main), "record")
		for _, s := range streams {
			c.ok(c.d.StreamWaitEvent(c.ctx, s, fork, 0), "fork")
		}
		work()
		for _, s := range streams {
			join := c.event(cu.EventDisableTiming)
			c.ok(c.d.EventRecord(c.ctx, join, s), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, main, join, 0), "join")
		}
		c.ok(c.d.EventRecord(c.ctx, end, main), "record")
		c.sync(main)
		best = min(best, c.elapsed(fork, end))
	}
	return best
}

// capability returns 10 times the major plus the minor number of the compute capability.
func (c *trial) capability() int32 {
	return int32(10*c.attr(cu.DeviceAttributeComputeCapabilityMajor) + c.attr(cu.DeviceAttributeComputeCapabilityMinor))
}

// twoKernels returns how long two kernels of one block take in two streams, in
// milliseconds, with a call between the launches.
func (c *trial) twoKernels(cycles uint64, between func(first cu.Stream)) float32 {
	s := []cu.Stream{c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)}
	return c.timed(s, func() {
		c.launch(s[0], "delay", 1, cycles, cu.DevicePtr(0))
		between(s[0])
		c.launch(s[1], "delay", 1, cycles, cu.DevicePtr(0))
	})
}

// pipeline is copy, kernel, copy on several buffers, with a stream for each.
type pipeline struct {
	c       *trial
	n       int    // bytes per buffer
	kernels int    // for each buffer
	cycles  uint64 // time that the kernels take besides, in clock cycles
	streams []cu.Stream
	dev     []cu.DevicePtr
	in, out []hostMem
}

func (c *trial) pipeline(buffers int) *pipeline {
	// Kernels take about as long as a copy. On an emulated device, kernels that do not
	// read the clock take the same time in every run.
	l := &pipeline{c: c, n: 4 << 20, kernels: 1, cycles: 150_000}
	if cu.AsEmulated(c.d) != nil {
		l.n, l.kernels, l.cycles = 1<<18, 3, 0
	}
	for range buffers {
		l.streams, l.dev = append(l.streams, c.stream(cu.StreamNonBlocking)), append(l.dev, c.device(l.n))
		l.in, l.out = append(l.in, c.pinned(l.n, 0)), append(l.out, c.pinned(l.n, 0))
	}
	return l
}

// step queues one of the three operations for buffer i.
func (l *pipeline) step(k, i int, streams []cu.Stream) {
	c, s := l.c, streams[i%len(streams)]
	switch k {
	case 0:
		c.ok(c.d.MemcpyHtoDAsync(c.ctx, l.dev[i], l.in[i].p, uintptr(l.n), s), "copy in")
	case 1:
		for range l.kernels {
			c.launch(s, "inc", l.n/4, l.dev[i], uint32(i+1), uint32(l.n/4))
		}
		if l.cycles > 0 {
			c.launch(s, "delay", 1, l.cycles, cu.DevicePtr(0))
		}
	case 2:
		c.ok(c.d.MemcpyDtoHAsync(c.ctx, l.out[i].p, l.dev[i], uintptr(l.n), s), "copy out")
	}
}

func (l *pipeline) depthFirst(streams []cu.Stream) {
	for i := range l.dev {
		for k := range 3 {
			l.step(k, i, streams)
		}
	}
}

func (l *pipeline) breadthFirst(streams []cu.Stream) {
	for k := range 3 {
		for i := range l.dev {
			l.step(k, i, streams)
		}
	}
}

// timed returns the milliseconds that one order takes. It checks the output.
func (l *pipeline) timed(what string, streams []cu.Stream, order func([]cu.Stream)) float32 {
	ms := l.c.timed(streams, func() { order(streams) })
	for i := range l.out {
		l.c.same(fmt.Sprintf("%s, buffer %d", what, i), l.out[i].b, plus(l.in[i].b, uint32(l.kernels*(i+1))))
		l.c.scramble(l.in[i].b[:1<<12])
		l.c.scramble(l.out[i].b)
	}
	return ms
}

var concurrencyChecks = []check{
	{"concurrency/kernels-side-by-side", "kernels of several streams run at once if and only if the device can",
		"Programming Guide: Concurrent Kernel Execution; CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS", needMapHost, func(c *trial) {
			gates, streams := c.manyGates(4)
			if c.attr(cu.DeviceAttributeConcurrentKernels) == 0 {
				n := c.started(gates, streams, 4*blockedTime)
				c.check(n <= 1, "%d kernels run at once", n)
				return
			}
			n := c.started(gates, streams, c.suite.times.returnLimit)
			c.check(n == 4, "%d of 4 kernels run", n)
			for _, s := range streams {
				c.busy(s)
			}
		}},
	{"concurrency/many-streams", "the number of streams whose kernels run at the same time is observed",
		"Programming Guide: Concurrent Kernel Execution; CUDA_DEVICE_MAX_CONNECTIONS", needMapHost | needConcurrentKernels, func(c *trial) {
			all := 16
			if cu.AsEmulated(c.d) != nil {
				all = 6 // each spinning kernel uses a core of this machine
			}
			gates, streams := c.manyGates(all)
			n := c.started(gates, streams, 10*blockedTime)
			c.observe(fmt.Sprintf("concurrency.of-%d-streams-run", all), n)
			c.check(n >= 1, "no kernel runs")
		}},
	{"concurrency/copies-beside-kernels", "with a copy engine, copies of page-locked memory run beside a kernel",
		overlapDoc + "; CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT", needMapHost, func(c *trial) {
			const n = 4 << 20
			p, in, out := c.device(n), c.pinned(n, 0), c.pinned(n, 0)
			b := c.stream(cu.StreamNonBlocking)
			g, a := c.behind(cu.StreamNonBlocking)
			g.running(a)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, n, b), "copy in")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, n, b), "copy out")
			if c.attr(cu.DeviceAttributeAsyncEngineCount) == 0 {
				c.mustWait(g, "copies without a copy engine", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			} else {
				c.mustReturn(g, "copies beside a kernel", func() error { return c.d.StreamSynchronize(c.ctx, b) })
				c.busy(a)
			}
			c.same("round trip", out.b, in.b)
		}},
	{"concurrency/both-directions", "with two copy engines a copy in and a copy out overlap; with one they run one after the other",
		overlapDoc, 0, func(c *trial) {
			n := 32 << 20
			if cu.AsEmulated(c.d) != nil {
				n = 8 << 20
			}
			p, q, in, out := c.device(n), c.device(n), c.pinned(n, 0), c.pinned(n, 0)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			copyIn := func() { c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, uintptr(n), a), "copy in") }
			copyOut := func() { c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, q, uintptr(n), b), "copy out") }
			one := c.timed([]cu.Stream{a, b}, copyIn) + c.timed([]cu.Stream{a, b}, copyOut)
			both := c.timed([]cu.Stream{a, b}, func() { copyIn(); copyOut() })
			engines := c.attr(cu.DeviceAttributeAsyncEngineCount)
			c.observe("concurrency.both-directions-to-one-after-the-other", fmt.Sprintf("%.2f", both/one))
			if engines >= 2 {
				c.check(both < 0.8*one, "both take %g ms, one after the other %g, with %d engines", both, one, engines)
			} else {
				c.check(both > 0.9*one, "both take %g ms, one after the other %g, with %d engines", both, one, engines)
			}
			c.same("copied in", c.down(p, 1<<16), in.b[:1<<16])
		}},
	{"concurrency/issue-order", "copy, kernel, copy over three streams gives the same result in either order of issue; two copy engines overlap them in either order, one engine with one queue for all streams only breadth first",
		overlapDoc, 0, func(c *trial) {
			l := c.pipeline(3)
			one := l.timed("in one stream", l.streams[:1], l.depthFirst)
			depth := l.timed("depth first", l.streams, l.depthFirst)
			breadth := l.timed("breadth first", l.streams, l.breadthFirst)
			c.observe("concurrency.one-stream-ms", one)
			c.observe("concurrency.depth-first-ms", depth)
			c.observe("concurrency.breadth-first-ms", breadth)
			engines := c.attr(cu.DeviceAttributeAsyncEngineCount)
			if engines == 0 {
				return // kernels of several streams may still overlap
			}
			// Since compute capability 3.5 each stream has its own hardware queue.
			queues := c.capability() >= 35
			c.check((depth < 0.9*one) == (engines > 1 || queues), "depth first %g ms, in one stream %g, with %d engines", depth, one, engines)
			c.check(breadth < 0.9*one, "breadth first %g ms, in one stream %g, with %d engines", breadth, one, engines)
		}},
	{"concurrency/dependency-check", "an event record behind a kernel, and a switch of the cache preference, hold back later kernels of other streams up to compute capability 3.0 and not on newer devices",
		"Programming Guide: Implicit Synchronization; Overlapping Behavior", needConcurrentKernels, func(c *trial) {
			checks := c.capability() <= 30
			cycles := uint64(1_000_000)
			if cu.AsEmulated(c.d) != nil {
				cycles = 20_000
			}
			free := c.twoKernels(cycles, func(cu.Stream) {})
			behind := c.twoKernels(cycles, func(s cu.Stream) { c.ok(c.d.EventRecord(c.ctx, c.event(cu.EventDisableTiming), s), "record") })
			switched := c.twoKernels(cycles, func(cu.Stream) {
				c.ok(c.d.FuncSetCacheConfig(c.ctx, c.kernel("delay"), cu.FuncCachePreferL1), "prefer L1")
			})
			c.ok(c.d.FuncSetCacheConfig(c.ctx, c.kernel("delay"), cu.FuncCachePreferNone), "no preference")
			c.observe("concurrency.two-kernels-ms", free)
			c.observe("concurrency.two-kernels-with-a-record-ms", behind)
			c.observe("concurrency.two-kernels-with-a-switch-ms", switched)
			c.check((behind > 1.5*free) == checks, "two kernels take %g ms, with a record behind the first %g", free, behind)
			if checks {
				c.check(switched > 1.5*free, "two kernels take %g ms, with a switch of the cache %g", free, switched)
			}
		}},
	{"concurrency/priority-preferred", "work of a stream with higher priority runs before blocks of a stream with lower priority that have not started",
		"Programming Guide: Stream Priorities", needPriorities | needConcurrentKernels, func(c *trial) {
			_, greatest, err := c.d.CtxGetStreamPriorityRange(c.ctx)
			c.ok(err, "range")
			low := c.stream(cu.StreamNonBlocking)
			high, err := c.d.StreamCreateWithPriority(c.ctx, cu.StreamNonBlocking, greatest)
			c.ok(err, "create")
			c.cleanup(func() { c.cleanupError("destroy", c.d.StreamDestroy(c.ctx, high)) })
			// Six times as many blocks as the device holds. With the race detector that
			// many take too long, so blocks use so much shared memory that few fit.
			resident, shared, cycles := max(c.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor), 8), int32(0), uint64(200_000)
			if cu.AsEmulated(c.d) != nil {
				cycles = 20_000
				if raceBuild {
					shared = c.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock)
					resident = c.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor)/shared + 1
				}
			}
			blocks := uint32(6 * c.attr(cu.DeviceAttributeMultiprocessorCount) * resident)
			start, lowEnd, highEnd := c.event(0), c.event(0), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, start, low), "record")
			c.ok(c.d.LaunchKernel(c.ctx, c.kernel("delay"), dim(blocks), dim(32), uint32(shared), low, pack(cycles, cu.DevicePtr(0))), "the large grid")
			c.ok(c.d.EventRecord(c.ctx, lowEnd, low), "record")
			c.launch(high, "delay", 1, cycles, cu.DevicePtr(0))
			c.ok(c.d.EventRecord(c.ctx, highEnd, high), "record")
			c.sync(high)
			c.sync(low)
			l, h := c.elapsed(start, lowEnd), c.elapsed(start, highEnd)
			c.observe("concurrency.high-priority-done-after-share-of-the-low-grid", fmt.Sprintf("%.2f", h/l))
			c.check(h < l, "the high priority kernel was done after %g ms, the low priority grid before it after %g", h, l)
		}},
}
