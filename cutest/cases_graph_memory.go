package cutest

import "github.com/ferrygpu/ferry/cu"

const graphMemoryDoc = "Programming Guide: Graph Memory Nodes; Driver API: cuGraphAddMemAllocNode"

// graphMem is memory that a graph allocates and fills with a word.
type graphMem struct {
	c *trial
	s cu.Stream
	p cu.DevicePtr
	g cu.Graph
	x cu.GraphExec
}

const graphMemWords = 1024

// needsGraphMemory skips the case if graphs of the driver allocate no memory.
func (c *trial) needsGraphMemory() {
	if v, _ := c.d.DriverGetVersion(); v < 11040 {
		c.skip("graphs allocate memory from CUDA 11.4 on")
	}
}

// graphMem makes a graph that allocates words and fills them. within is called in the capture, after
// the fill. When the case ends, the memory is freed if a launch has left it.
func (c *trial) graphMem(word uint32, flags uint64, within func(m *graphMem)) *graphMem {
	c.needsGraphMemory()
	m := &graphMem{c: c, s: c.stream(cu.StreamNonBlocking)}
	c.begin(m.s, cu.StreamCaptureModeRelaxed)
	var err error
	m.p, err = c.d.MemAllocAsync(c.ctx, 4*graphMemWords, m.s)
	c.ok(err, "allocate in a capture")
	c.launch(m.s, "store", graphMemWords, m.p, word, uint32(graphMemWords))
	if within != nil {
		within(m)
	}
	m.g = c.end(m.s)
	m.x = c.instantiatedWith(m.g, flags)
	c.cleanup(func() { _ = c.d.MemFreeAsync(c.ctx, m.p, m.s) })
	return m
}

// instantiatedWith is instantiated with flags.
func (c *trial) instantiatedWith(g cu.Graph, flags uint64) cu.GraphExec {
	x, err := c.d.GraphInstantiate(c.ctx, g, flags)
	c.ok(err, "instantiate a graph")
	c.cleanup(func() { _ = c.d.GraphExecDestroy(x) })
	return x
}

func (m *graphMem) run() { m.c.runGraph(m.x, m.s) }

func (m *graphMem) launch() error { return m.c.d.GraphLaunch(m.c.ctx, m.x, m.s) }

func (m *graphMem) freeAsync() error { return m.c.d.MemFreeAsync(m.c.ctx, m.p, m.s) }

// holds compares the words with what a launch has written.
func (m *graphMem) holds(when string, word uint32) {
	m.c.sync(m.s)
	m.c.same(when, m.c.down(m.p, 4*graphMemWords), repeated(word, graphMemWords))
}

// freeingGraph makes a graph whose only node frees m.
func (m *graphMem) freeingGraph() cu.GraphExec {
	g := m.c.captured(m.s, func() {
		m.c.ok(m.freeAsync(), "free in another capture")
		m.c.want(m.freeAsync(), "free twice in another capture", cu.ErrorInvalidValue)
	})
	m.c.wantNodes(g, cu.GraphNodeTypeMemFree)
	return m.c.instantiated(g)
}

func (c *trial) graphMemAttr(a cu.GraphMemAttribute) uint64 {
	v, err := c.d.DeviceGetGraphMemAttribute(c.dev, a)
	c.ok(err, "counter of the memory of graphs")
	return v
}

var graphMemoryChecks = []check{
	{"graphmemory/lives-after-launch", "memory that a graph does not free can be used in stream order after the launch",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(5, 0, nil)
			c.wantNodes(m.g, cu.GraphNodeTypeMemAlloc, cu.GraphNodeTypeKernel)
			m.run()
			c.launch(m.s, "inc", graphMemWords, m.p, uint32(2), uint32(graphMemWords))
			m.holds("after the launch and a kernel", 7)
			c.ok(m.freeAsync(), "free")
			c.sync(m.s)
		}},
	{"graphmemory/launch-while-unfreed", "a graph whose memory is not freed cannot be launched again",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(6, 0, nil)
			m.run()
			c.want(m.launch(), "launch while unfreed", cu.ErrorInvalidValue)
			m.holds("after the refused launch", 6)
			c.ok(m.freeAsync(), "free")
			m.run() // the free is queued only
			m.holds("after the second launch", 6)
			c.ok(m.freeAsync(), "free")
			c.sync(m.s)
		}},
	{"graphmemory/address-stays", "each launch gives the memory at the same address, with what the launch writes",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(8, 0, nil)
			for range 3 {
				m.run()
				m.holds("after a launch", 8)
				c.ok(c.d.MemsetD32Async(c.ctx, m.p, 0, graphMemWords, m.s), "fill")
				c.ok(m.freeAsync(), "free")
			}
			c.sync(m.s)
		}},
	{"graphmemory/free", "cuMemFree frees the memory of a launched graph, too",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(9, 0, nil)
			m.run()
			c.ok(c.d.MemFree(c.ctx, m.p), "cuMemFree")
			m.run()
			m.holds("after the second launch", 9)
			c.ok(c.d.MemFree(c.ctx, m.p), "cuMemFree")
		}},
	{"graphmemory/auto-free", "with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH a launch first frees what the last one allocated",
		graphMemoryDoc + "; cuGraphInstantiateWithFlags", needPools, func(c *trial) {
			m := c.graphMem(10, cu.GraphInstantiateAutoFreeOnLaunch, nil)
			for range 3 {
				m.run()
				m.holds("after a launch", 10)
			}
			c.ok(m.freeAsync(), "free")
			m.run()
			m.holds("after a free and a launch", 10)
			c.ok(m.freeAsync(), "free")
			c.sync(m.s)
		}},
	{"graphmemory/free-elsewhere", "another graph can free the memory, each time that it was allocated",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(11, 0, nil)
			x := m.freeingGraph()
			c.want(c.d.GraphLaunch(c.ctx, x, m.s), "free what is not allocated", cu.ErrorInvalidValue)
			for range 2 {
				m.run()
				c.runGraph(x, m.s)
			}
			c.sync(m.s)
			m.run()
			m.holds("after the third launch", 11)
			c.runGraph(x, m.s)
			c.want(c.d.GraphLaunch(c.ctx, x, m.s), "free it again", cu.ErrorInvalidValue)
			c.sync(m.s)
		}},
	{"graphmemory/outlives-graph", "memory stays when its graph and executable graph are destroyed, until it is freed",
		graphMemoryDoc, needPools, func(c *trial) {
			c.needsGraphMemory()
			s := c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			p, err := c.d.MemAllocAsync(c.ctx, 4*graphMemWords, s)
			c.ok(err, "allocate")
			c.launch(s, "store", graphMemWords, p, uint32(12), uint32(graphMemWords))
			g, err := c.d.StreamEndCapture(c.ctx, s)
			c.ok(err, "end")
			x, err := c.d.GraphInstantiate(c.ctx, g, 0)
			c.ok(err, "instantiate")
			c.ok(c.d.GraphDestroy(g), "destroy the graph")
			c.runGraph(x, s)
			c.ok(c.d.GraphExecDestroy(x), "destroy the executable graph")
			c.sync(s)
			c.same("afterwards", c.down(p, 4*graphMemWords), repeated(12, graphMemWords))
			c.ok(c.d.MemFreeAsync(c.ctx, p, s), "free")
			c.sync(s)
			c.want(c.d.MemFreeAsync(c.ctx, p, s), "free again", cu.ErrorInvalidValue)
		}},
	{"graphmemory/one-instance", "a graph that allocates or frees memory has one executable graph at a time",
		graphMemoryDoc + "; cuGraphInstantiateWithFlags", needPools, func(c *trial) {
			m := c.graphMem(13, 0, func(m *graphMem) { c.freeAsync(m.p, m.s) })
			_, err := c.d.GraphInstantiate(c.ctx, m.g, 0)
			c.want(err, "instantiate twice", cu.ErrorNotSupported)
			c.ok(c.d.GraphExecDestroy(m.x), "destroy the first")
			m.x = c.instantiatedWith(m.g, 0)
			m.run()
			c.sync(m.s)
		}},
	{"graphmemory/free-misuse", "memory of a graph is freed once, by the graph itself or elsewhere, and a graph frees no other memory",
		graphMemoryDoc + "; cuGraphAddMemFreeNode", needPools, func(c *trial) {
			inside := c.graphMem(14, 0, func(m *graphMem) { c.freeAsync(m.p, m.s) })
			inside.run()
			c.want(inside.freeAsync(), "free outside what the graph frees", cu.ErrorInvalidValue)
			c.sync(inside.s)
			m := c.graphMem(15, 0, nil)
			c.want(m.freeAsync(), "free before the first launch", cu.ErrorInvalidValue)
			m.run()
			c.ok(m.freeAsync(), "free")
			c.want(m.freeAsync(), "free again", cu.ErrorInvalidValue)
			c.sync(m.s)
		}},
	{"graphmemory/unknown-address", "the driver knows the address from the launch on, until the memory is freed",
		graphMemoryDoc, needPools, func(c *trial) {
			m := c.graphMem(19, 0, nil)
			known := func(when string, want bool) {
				at, err := c.d.PointerGetAttributes(c.ctx, m.p)
				c.ok(err, "attributes "+when)
				c.check((at.MemoryType != 0) == want, "%s: memory type %d, is it known: want %v", when, at.MemoryType, want)
				if !want {
					c.want(c.d.MemsetD8Async(c.ctx, m.p, 1, 16, m.s), "fill "+when, cu.ErrorInvalidValue)
				}
			}
			known("before the launch", false)
			m.run()
			known("after the launch", true)
			c.ok(m.freeAsync(), "free")
			known("after the free", false)
			c.sync(m.s)
		}},
	{"graphmemory/foreign-free", "a graph frees only memory of graphs, and each once",
		graphMemoryDoc + "; cuGraphAddMemFreeNode, cuMemFreeAsync", needPools, func(c *trial) {
			c.needsGraphMemory()
			s := c.stream(cu.StreamNonBlocking)
			pooled, err := c.d.MemAllocAsync(c.ctx, page, s)
			c.ok(err, "allocate")
			c.sync(s)
			for _, p := range []cu.DevicePtr{pooled, c.device(page)} {
				c.begin(s, cu.StreamCaptureModeRelaxed)
				c.want(c.d.MemFreeAsync(c.ctx, p, s), "free other memory in a capture", cu.ErrorInvalidValue)
				c.endRefused(s)
			}
			c.freeAsync(pooled, s)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			p, err := c.d.MemAllocAsync(c.ctx, page, s)
			c.ok(err, "allocate in a capture")
			c.freeAsync(p, s)
			c.want(c.d.MemFreeAsync(c.ctx, p, s), "free twice in a capture", cu.ErrorInvalidValue)
			c.endRefused(s)
			c.sync(s)
		}},
	{"graphmemory/no-update", "an update of an executable graph that allocates memory is refused or made, and the graph runs",
		graphMemoryDoc + "; cuGraphExecUpdate", needPools, func(c *trial) {
			free := func(m *graphMem) { c.freeAsync(m.p, m.s) }
			m, other := c.graphMem(16, 0, free), c.graphMem(17, 0, free)
			c.ok(c.d.GraphExecDestroy(other.x), "destroy the executable graph") // else driver 580 says CUDA_ERROR_NOT_SUPPORTED
			err := c.d.GraphExecUpdate(c.ctx, m.x, other.g)
			c.skipMissing(err)
			c.want(err, "update", cu.ErrorGraphExecUpdateFailure, cu.ErrorNotSupported, cu.Success)
			m.run()
			c.sync(m.s)
		}},
	{"graphmemory/counters", "the counters have the memory of graphs, and a trim gives back what no graph uses",
		"Driver API: cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute, cuDeviceGraphMemTrim", needPools, func(c *trial) {
			c.ok(c.d.DeviceGraphMemTrim(c.dev), "trim")
			before := c.graphMemAttr(cu.GraphMemAttrUsedMemCurrent)
			m := c.graphMem(18, 0, nil)
			m.run()
			m.holds("after the launch", 18)
			used, reserved := c.graphMemAttr(cu.GraphMemAttrUsedMemCurrent), c.graphMemAttr(cu.GraphMemAttrReservedMemCurrent)
			c.check(used >= before+4*graphMemWords, "%d bytes used after the launch, %d before", used, before)
			c.check(reserved >= used, "%d bytes reserved, %d used", reserved, used)
			c.check(c.graphMemAttr(cu.GraphMemAttrUsedMemHigh) >= used, "the high-water mark is below %d", used)
			c.ok(c.d.DeviceGraphMemTrim(c.dev), "trim while in use")
			m.holds("after a trim", 18)
			c.ok(m.freeAsync(), "free")
			c.sync(m.s)
			c.ok(c.d.GraphExecDestroy(m.x), "destroy")
			c.ok(c.d.DeviceGraphMemTrim(c.dev), "trim")
			c.check(c.graphMemAttr(cu.GraphMemAttrUsedMemCurrent) == before, "%d bytes used after a trim, %d before", c.graphMemAttr(cu.GraphMemAttrUsedMemCurrent), before)
			for _, a := range []cu.GraphMemAttribute{cu.GraphMemAttrUsedMemHigh, cu.GraphMemAttrReservedMemHigh} {
				c.ok(c.d.DeviceSetGraphMemAttribute(c.dev, a, 0), "reset a high-water mark")
				c.check(c.graphMemAttr(a) == c.graphMemAttr(a-1), "the mark is %d, the counter %d", c.graphMemAttr(a), c.graphMemAttr(a-1))
			}
		}},
}

// endRefused ends a capture that a refused call may have invalidated.
func (c *trial) endRefused(s cu.Stream) {
	g, err := c.d.StreamEndCapture(c.ctx, s)
	c.observeError("capture after a refused free", err)
	if err == nil {
		c.cleanupError("destroy a graph", c.d.GraphDestroy(g))
	}
}
