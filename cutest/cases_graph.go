package cutest

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

const graphDoc = "Programming Guide: CUDA Graphs"

// incGraph captures a graph of one kernel that adds v to n words at p.
func (c *trial) incGraph(s cu.Stream, p cu.DevicePtr, v uint32, n int) cu.Graph {
	return c.captured(s, func() { c.launch(s, "inc", n, p, v, uint32(n)) })
}

var graphChecks = []check{
	{"graph/fresh-data-every-launch", "a launch reads the contents of memory at that time, not at the time of the capture",
		graphDoc, 0, func(c *trial) {
			const n = 3000
			p, in, out, s := c.device(4*n), c.pinned(4*n, 0), c.pinned(4*n, 0), c.stream(cu.StreamNonBlocking)
			x := c.instantiated(c.captured(s, func() {
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, 4*n, s), "in")
				c.launch(s, "inc", n, p, uint32(3), uint32(n))
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, 4*n, s), "out")
			}))
			for range 4 {
				c.scramble(in.b)
				c.scramble(out.b)
				c.runGraph(x, s)
				c.sync(s)
				c.same("through the graph", out.b, plus(in.b, 3))
			}
		}},
	{"graph/exec-outlives-graph", "an executable graph stays valid when its graph is destroyed",
		"Driver API: cuGraphDestroy, cuGraphInstantiate", 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.launch(s, "inc", 1, p, uint32(5), uint32(1))
			g, err := c.d.StreamEndCapture(c.ctx, s)
			c.ok(err, "end")
			x := c.instantiated(g)
			c.ok(c.d.GraphDestroy(g), "destroy the graph")
			c.runGraph(x, s)
			c.runGraph(x, s)
			c.same("after two launches", c.down(p, 4), words(10))
		}},
	{"graph/in-stream-order", "a graph runs in the order of its stream",
		"Driver API: cuGraphLaunch", 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			x := c.instantiated(c.incGraph(s, p, 7, 1))
			c.ok(c.d.MemsetD32Async(c.ctx, p, 100, 1, s), "fill")
			for range 10 {
				c.runGraph(x, s)
				c.launch(s, "inc", 1, p, uint32(1), uint32(1))
			}
			c.same("after all", c.down(p, 4), words(180))
		}},
	{"graph/launch-returns", "launching a graph returns before it is done",
		"Driver API: cuGraphLaunch", needMapHost, func(c *trial) {
			p, t := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			x := c.instantiated(c.incGraph(t, p, 1, 1))
			c.runGraph(x, t)
			c.sync(t)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "GraphLaunch", func() error { return c.d.GraphLaunch(c.ctx, x, s) })
			c.busy(s)
			g.open()
			c.same("after both launches", c.down(p, 4), words(2))
		}},
	{"graph/launches-of-one-exec-follow", "launches of one executable graph do not overlap, whatever their streams",
		"Driver API: cuGraphLaunch", needMapHost, func(c *trial) {
			p := c.device(4)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			x := c.instantiated(c.incGraph(a, p, 1, 1))
			c.up(p, words(0))
			g := c.gate()
			g.hold(a)
			c.runGraph(x, a)
			c.runGraph(x, b)
			c.mustWait(g, "the second stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.same("after both launches", c.down(p, 4), words(2))
		}},
	{"graph/host-node", "a host function in a graph runs at every launch, in order",
		graphDoc, needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			var runs, wrong atomic.Int32
			x := c.instantiated(c.captured(s, func() {
				c.launch(s, "store", 1, m.dev, uint32(50), uint32(1))
				c.hostFunc(s, func() {
					runs.Add(1)
					if loadWord(m.b, 0) != 50 {
						wrong.Add(1)
					}
					storeWord(m.b, 0, 60)
				})
				c.launch(s, "inc", 1, m.dev, uint32(1), uint32(1))
			}))
			c.check(runs.Load() == 0, "the function ran while it was captured")
			for i := range int32(3) {
				c.runGraph(x, s)
				c.sync(s)
				c.check(runs.Load() == i+1, "%d runs after %d launches", runs.Load(), i+1)
				c.check(loadWord(m.b, 0) == 61, "got %d, want 61", loadWord(m.b, 0))
			}
			c.check(wrong.Load() == 0, "the function ran before the kernel before it was done, %d times", wrong.Load())
		}},
	{"graph/destroy-exec-running", "an executable graph may be destroyed while it runs: the call returns at once, and the run goes on",
		"Driver API: cuGraphExecDestroy", needMapHost, func(c *trial) {
			p, t := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			graph := c.incGraph(t, p, 9, 1)
			x, err := c.d.GraphInstantiate(c.ctx, graph, 0)
			c.ok(err, "instantiate")
			c.runGraph(x, t)
			c.sync(t)
			g, s := c.behind(cu.StreamNonBlocking)
			c.runGraph(x, s)
			c.mustReturn(g, "GraphExecDestroy", func() error { return c.d.GraphExecDestroy(x) })
			g.open()
			c.sync(s)
			c.same("after both launches", c.down(p, 4), words(18))
		}},
	{"graph/legacy-stream", "a graph can be launched into the legacy stream",
		"Driver API: cuGraphLaunch", 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			x := c.instantiated(c.incGraph(s, p, 4, 1))
			c.runGraph(x, 0)
			c.same("after the launch", c.down(p, 4), words(4))
		}},
	{"graph/large", "a graph of a thousand kernels runs them in order",
		graphDoc, 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			x := c.instantiated(c.captured(s, func() {
				c.ok(c.d.MemsetD32Async(c.ctx, p, 0, 1, s), "fill")
				for range 1000 {
					c.launch(s, "inc", 1, p, uint32(1), uint32(1))
				}
			}))
			c.runGraph(x, s)
			c.runGraph(x, s)
			c.same("after two launches", c.down(p, 4), words(1000))
		}},
	{"graph/no-handle", "graph 0 is an invalid value",
		"Driver API: Graph Management", 0, func(c *trial) {
			const bad = cu.ErrorInvalidValue
			c.want(c.d.GraphDestroy(0), "destroy", bad)
			c.want(c.d.GraphExecDestroy(0), "destroy executable", bad)
			c.want(c.d.GraphLaunch(c.ctx, 0, 0), "launch", bad)
			_, err := c.d.GraphInstantiate(c.ctx, 0, 0)
			c.want(err, "instantiate", bad)
			_, err = c.d.GraphGetNodes(0)
			c.want(err, "nodes", bad)
			_, err = c.d.GraphNodeGetType(0)
			c.want(err, "type of node 0", bad)
		}},
	{"graph/instantiate-flags", "flags that do not exist are refused",
		"Driver API: cuGraphInstantiateWithFlags", 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			x, err := c.d.GraphInstantiate(c.ctx, c.incGraph(s, p, 1, 1), 1<<40)
			c.want(err, "instantiate", cu.ErrorInvalidValue)
			if err == nil {
				_ = c.d.GraphExecDestroy(x)
			}
		}},
}

const updateDoc = graphDoc + ", Updating Instantiated Graphs"

var graphUpdateChecks = []check{
	{"graph/update-same-shape", "an executable graph can get the parameters of a graph with the same topology",
		updateDoc + ", Whole Graph Update; Driver API: cuGraphExecUpdate", 0, func(c *trial) {
			const n = 200
			p, q, s := c.device(4*n), c.device(4*n), c.stream(cu.StreamNonBlocking)
			c.up(p, repeated(1, n))
			c.up(q, repeated(1, n))
			x := c.instantiated(c.incGraph(s, p, 10, n))
			c.runGraph(x, s)
			c.ok(c.d.GraphExecUpdate(c.ctx, x, c.incGraph(s, q, 20, n)), "update")
			c.runGraph(x, s)
			c.same("the first buffer", c.down(p, 4*n), repeated(11, n))
			c.same("the second buffer", c.down(q, 4*n), repeated(21, n))
		}},
	{"graph/update-other-shape", "a graph with another topology is refused, and the executable graph does not change",
		updateDoc + "; CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", 0, func(c *trial) {
			p, s := c.device(8), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0, 0))
			x := c.instantiated(c.incGraph(s, p, 10, 1))
			two := c.captured(s, func() {
				c.launch(s, "inc", 1, p, uint32(1), uint32(1))
				c.launch(s, "inc", 1, p+4, uint32(1), uint32(1))
			})
			c.want(c.d.GraphExecUpdate(c.ctx, x, two), "two nodes instead of one", cu.ErrorGraphExecUpdateFailure)
			fill := c.captured(s, func() { c.ok(c.d.MemsetD32Async(c.ctx, p, 77, 1, s), "fill") })
			c.want(c.d.GraphExecUpdate(c.ctx, x, fill), "a fill instead of a kernel", cu.ErrorGraphExecUpdateFailure)
			c.runGraph(x, s)
			c.same("after the launch", c.down(p, 8), words(10, 0))
		}},
	{"graph/update-copy", "a copy's addresses can be updated",
		updateDoc, 0, func(c *trial) {
			p, h, s := c.device(4096), c.pinned(8192, 0), c.stream(cu.StreamNonBlocking)
			in := func(offset int) cu.Graph {
				return c.captured(s, func() {
					c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, offsetPointer(h.p, offset), 4096, s), "copy")
				})
			}
			x := c.instantiated(in(0))
			c.runGraph(x, s)
			c.same("the first half", c.down(p, 4096), h.b[:4096])
			c.ok(c.d.GraphExecUpdate(c.ctx, x, in(4096)), "update")
			c.runGraph(x, s)
			c.same("the second half", c.down(p, 4096), h.b[4096:])
		}},
	{"graph/kernel-node-params", "a kernel's parameters and grid can be changed in one executable graph only",
		updateDoc + ", Individual Node Update; Driver API: cuGraphExecKernelNodeSetParams", 0, func(c *trial) {
			const n = 64
			p, s := c.device(4*n), c.stream(cu.StreamNonBlocking)
			g := c.incGraph(s, p, 1, 32)
			x, y := c.instantiated(g), c.instantiated(g)
			nodes, err := c.d.GraphGetNodes(g)
			c.ok(err, "nodes")
			c.up(p, repeated(0, n))
			c.ok(c.d.GraphExecKernelNodeSetParams(c.ctx, x, nodes[0], c.kernel("inc"), dim(2), dim(32), 0, pack(p, uint32(5), uint32(n))), "set")
			c.runGraph(x, s)
			c.same("with new parameters", c.down(p, 4*n), repeated(5, n))
			c.runGraph(y, s)
			c.same("the other executable graph", c.down(p, 4*n), append(repeated(6, 32), repeated(5, 32)...))
		}},
	{"graph/kernel-node-misuse", "only kernels have kernel parameters",
		"Driver API: cuGraphExecKernelNodeSetParams", 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			g := c.captured(s, func() { c.ok(c.d.MemsetD32Async(c.ctx, p, 1, 1, s), "fill") })
			x := c.instantiated(g)
			nodes, err := c.d.GraphGetNodes(g)
			c.ok(err, "nodes")
			f := c.kernel("inc")
			c.want(c.d.GraphExecKernelNodeSetParams(c.ctx, x, nodes[0], f, dim(1), dim(1), 0, pack(p, uint32(1), uint32(1))), "of a fill", cu.ErrorInvalidValue)
			c.want(c.d.GraphExecKernelNodeSetParams(c.ctx, x, 0, f, dim(1), dim(1), 0, pack(p, uint32(1), uint32(1))), "of node 0", cu.ErrorInvalidValue)
		}},
}
