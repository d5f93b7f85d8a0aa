package cutest

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

const captureDoc = "Programming Guide: CUDA Graphs, Creating a Graph Using Stream Capture"

// begin begins a capture. It is ended at the end of the case if necessary.
func (c *trial) begin(s cu.Stream, mode cu.StreamCaptureMode) {
	c.ok(c.d.StreamBeginCapture(c.ctx, s, mode), "begin a capture")
	c.cleanup(func() {
		if status, err := c.d.StreamIsCapturing(c.ctx, s); err == nil && status != cu.StreamCaptureStatusNone {
			if g, err := c.d.StreamEndCapture(c.ctx, s); err == nil && g != 0 {
				_ = c.d.GraphDestroy(g)
			}
		}
	})
}

func (c *trial) end(s cu.Stream) cu.Graph {
	g, err := c.d.StreamEndCapture(c.ctx, s)
	c.ok(err, "end a capture")
	c.cleanup(func() { c.cleanupError("destroy a graph", c.d.GraphDestroy(g)) })
	return g
}

// captured returns the graph of the work that body queues in a stream.
func (c *trial) captured(s cu.Stream, body func()) cu.Graph {
	c.begin(s, cu.StreamCaptureModeRelaxed)
	body()
	return c.end(s)
}

func (c *trial) instantiated(g cu.Graph) cu.GraphExec {
	x, err := c.d.GraphInstantiate(c.ctx, g, 0)
	c.ok(err, "instantiate a graph")
	c.cleanup(func() { c.cleanupError("destroy an executable graph", c.d.GraphExecDestroy(x)) })
	return x
}

func (c *trial) runGraph(x cu.GraphExec, s cu.Stream) {
	c.ok(c.d.GraphLaunch(c.ctx, x, s), "launch a graph")
}

// nodeTypes returns the types of a graph's nodes, sorted.
func (c *trial) nodeTypes(g cu.Graph) []cu.GraphNodeType {
	nodes, err := c.d.GraphGetNodes(g)
	c.ok(err, "nodes")
	types := make([]cu.GraphNodeType, len(nodes))
	for i, n := range nodes {
		types[i], err = c.d.GraphNodeGetType(n)
		c.ok(err, "type of a node")
	}
	slices.Sort(types)
	return types
}

func (c *trial) wantNodes(g cu.Graph, want ...cu.GraphNodeType) {
	slices.Sort(want)
	got := c.nodeTypes(g)
	c.check(slices.Equal(got, want), "nodes of the types %v, want %v", got, want)
}

func (c *trial) capturing(s cu.Stream) cu.StreamCaptureStatus {
	status, err := c.d.StreamIsCapturing(c.ctx, s)
	c.ok(err, "capture status")
	return status
}

var captureChecks = []check{
	{"capture/records-and-does-not-run", "captured work is not done until its graph is launched",
		captureDoc, 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(1))
			c.check(c.capturing(s) == cu.StreamCaptureStatusNone, "a fresh stream captures")
			g := c.captured(s, func() {
				c.check(c.capturing(s) == cu.StreamCaptureStatusActive, "status %d during a capture", c.capturing(s))
				c.launch(s, "inc", 1, p, uint32(10), uint32(1))
			})
			c.check(c.capturing(s) == cu.StreamCaptureStatusNone, "status %d after a capture", c.capturing(s))
			c.same("before the launch", c.down(p, 4), words(1))
			x := c.instantiated(g)
			c.same("before the launch", c.down(p, 4), words(1))
			for i := range uint32(3) {
				c.runGraph(x, s)
				c.same("after a launch", c.down(p, 4), words(11+10*i))
			}
		}},
	{"capture/node-types", "each operation becomes a node of its type",
		captureDoc, 0, func(c *trial) {
			p, h, s := c.device(4096), c.pinned(4096, 0), c.stream(cu.StreamNonBlocking)
			g := c.captured(s, func() {
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, h.p, 4096, s), "copy in")
				c.launch(s, "inc", 4, p, uint32(1), uint32(4))
				c.ok(c.d.MemsetD32Async(c.ctx, p+64, 7, 4, s), "fill")
				c.hostFunc(s, func() {})
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, h.p, p, 4096, s), "copy out")
			})
			c.wantNodes(g, cu.GraphNodeTypeMemcpy, cu.GraphNodeTypeKernel, cu.GraphNodeTypeMemset, cu.GraphNodeTypeHost, cu.GraphNodeTypeMemcpy)
			want := plus(h.b[:16], 1)
			want = append(append(want, h.b[16:64]...), repeated(7, 4)...)
			x := c.instantiated(g)
			c.runGraph(x, s)
			c.sync(s)
			c.same("after the pipeline", h.b[:80], want)
		}},
	{"capture/parameters-copied", "a graph keeps the parameters of its kernels: the buffer may change after the capture",
		captureDoc + "; Driver API: cuLaunchKernel", 0, func(c *trial) {
			p, s, f := c.device(4), c.stream(cu.StreamNonBlocking), c.kernel("store")
			params := pack(p, uint32(72), uint32(1))
			g := c.captured(s, func() { c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, s, params), "launch") })
			c.scramble(params)
			x := c.instantiated(g)
			c.runGraph(x, s)
			c.same("stored", c.down(p, 4), words(72))
		}},
	{"capture/2d-3d-and-device-copies", "copies of every shape are captured",
		captureDoc, 0, func(c *trial) {
			p, q, h, s := c.device(1<<14), c.device(1<<14), c.pinned(1<<14, 0), c.stream(cu.StreamNonBlocking)
			before := c.down(q, 1<<14)
			g := c.captured(s, func() {
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, h.p, 1<<14, s), "copy in")
				d := rects[0].descriptor()
				setDevice(&d, true, cu.MemoryTypeDevice, p)
				setDevice(&d, false, cu.MemoryTypeDevice, q)
				c.ok(c.d.Memcpy2DAsync(c.ctx, &d, s), "2D copy")
				b := boxes[1].descriptor()
				b.SrcMemoryType, b.SrcDevice = cu.MemoryTypeDevice, p
				b.DstMemoryType, b.DstDevice = cu.MemoryTypeDevice, q
				c.ok(c.d.Memcpy3DAsync(c.ctx, &b, s), "3D copy")
				c.ok(c.d.MemcpyDtoDAsync(c.ctx, q, p+100, 8, s), "copy within")
			})
			c.wantNodes(g, slices.Repeat([]cu.GraphNodeType{cu.GraphNodeTypeMemcpy}, 4)...)
			c.runGraph(c.instantiated(g), s)
			want := boxes[1].expect(rects[0].expect(before, h.b), h.b)
			copy(want, h.b[100:108])
			c.same("after the graph", c.down(q, 1<<14), want)
		}},
	{"capture/fork-and-join", "events extend a capture to other streams, which must be joined again",
		captureDoc + ", Cross-stream Dependencies and Events", 0, func(c *trial) {
			const n = 100
			p, q := c.device(4*n), c.device(4*n)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			fork, join := c.event(cu.EventDisableTiming), c.event(cu.EventDisableTiming)
			g := c.captured(a, func() {
				c.launch(a, "store", n, p, uint32(4), uint32(n))
				c.ok(c.d.EventRecord(c.ctx, fork, a), "record")
				c.ok(c.d.StreamWaitEvent(c.ctx, b, fork, 0), "fork")
				c.check(c.capturing(b) == cu.StreamCaptureStatusActive, "the forked stream has status %d", c.capturing(b))
				c.launch(b, "copy", n, q, p, uint32(n))
				c.launch(b, "inc", n, q, uint32(6), uint32(n))
				c.ok(c.d.EventRecord(c.ctx, join, b), "record")
				c.ok(c.d.StreamWaitEvent(c.ctx, a, join, 0), "join")
				c.launch(a, "add3", n, p, p, q, q, uint32(n))
			})
			c.check(c.capturing(b) == cu.StreamCaptureStatusNone, "the forked stream has status %d after the end", c.capturing(b))
			c.wantNodes(g, slices.Repeat([]cu.GraphNodeType{cu.GraphNodeTypeKernel}, 4)...)
			x := c.instantiated(g)
			for range 3 {
				c.up(p, c.random(4*n))
				c.up(q, c.random(4*n))
				c.runGraph(x, a)
				c.same("joined", c.down(p, 4*n), repeated(24, n))
			}
		}},
	{"capture/other-streams-run", "streams outside a capture go on working",
		captureDoc, 0, func(c *trial) {
			p := c.device(8)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			g := c.captured(a, func() {
				c.launch(b, "store", 1, p, uint32(1), uint32(1))
				c.launch(a, "store", 1, p+4, uint32(2), uint32(1))
				c.sync(b)
			})
			c.wantNodes(g, cu.GraphNodeTypeKernel)
			c.check(word(c.down(p, 4), 0) == 1, "the other stream's work was not done")
		}},
	{"capture/empty", "an empty capture gives an empty graph, which can be launched",
		captureDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			g := c.captured(s, func() {})
			c.wantNodes(g)
			c.runGraph(c.instantiated(g), s)
			c.sync(s)
		}},
	{"capture/external-event", "an event recorded as external becomes a node, and each launch records it",
		"Driver API: cuEventRecordWithFlags, CU_EVENT_RECORD_EXTERNAL", 0, func(c *trial) {
			p, s, e := c.device(4), c.stream(cu.StreamNonBlocking), c.event(0)
			g := c.captured(s, func() {
				c.launch(s, "store", 1, p, uint32(2), uint32(1))
				c.ok(c.d.EventRecordWithFlags(c.ctx, e, s, cu.EventRecordExternal), "record")
			})
			c.wantNodes(g, cu.GraphNodeTypeKernel, cu.GraphNodeTypeEventRecord)
			c.runGraph(c.instantiated(g), s)
			c.step("an event that a graph records")
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait")
			c.same("stored", c.down(p, 4), words(2))
		}},
	{"capture/relaxed-allows-all", "in relaxed mode calls without a stream work as outside a capture",
		captureDoc + "; Driver API: cuStreamBeginCapture", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.captured(s, func() {
				p, err := c.d.MemAlloc(c.ctx, 1<<20)
				c.want(err, "MemAlloc", cu.Success)
				if err == nil {
					c.want(c.d.MemFree(c.ctx, p), "MemFree", cu.Success)
				}
				c.check(c.capturing(s) == cu.StreamCaptureStatusActive, "status %d", c.capturing(s))
			})
		}},
	{"capture/pool-memory", "allocations in a stream become nodes if the driver supports it, and their memory can be used",
		"Programming Guide: Graph Memory Nodes", needPools, func(c *trial) {
			c.needsGraphMemory()
			s, out := c.stream(cu.StreamNonBlocking), c.pinned(4096, 0)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			p, err := c.d.MemAllocAsync(c.ctx, 4096, s)
			c.ok(err, "allocate")
			c.launch(s, "store", 1024, p, uint32(99), uint32(1024))
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, 4096, s), "copy")
			c.freeAsync(p, s)
			g := c.end(s)
			c.wantNodes(g, cu.GraphNodeTypeMemAlloc, cu.GraphNodeTypeKernel, cu.GraphNodeTypeMemcpy, cu.GraphNodeTypeMemFree)
			x := c.instantiated(g)
			for range 2 {
				c.scramble(out.b)
				c.runGraph(x, s)
				c.sync(s)
				c.same("copied", out.b, repeated(99, 1024))
			}
		}},
}
