package cutest

import (
	"runtime"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

const captureDoc = "Programming Guide: CUDA Graphs, Creating a Graph Using Stream Capture"

// begin starts a capture and sees to it that none is left at the end.
func (c *T) begin(s cu.Stream, mode cu.StreamCaptureMode) {
	c.ok(c.d.StreamBeginCapture(c.ctx, s, mode), "begin a capture")
	c.later(func() {
		if status, err := c.d.StreamIsCapturing(c.ctx, s); err == nil && status != cu.StreamCaptureStatusNone {
			if g, err := c.d.StreamEndCapture(c.ctx, s); err == nil && g != 0 {
				_ = c.d.GraphDestroy(g)
			}
		}
	})
}

func (c *T) end(s cu.Stream) cu.Graph {
	g, err := c.d.StreamEndCapture(c.ctx, s)
	c.ok(err, "end a capture")
	c.later(func() { c.undo("destroy a graph", c.d.GraphDestroy(g)) })
	return g
}

// captured is the graph of what body queues on a stream.
func (c *T) captured(s cu.Stream, body func()) cu.Graph {
	c.begin(s, cu.StreamCaptureModeRelaxed)
	body()
	return c.end(s)
}

func (c *T) instantiated(g cu.Graph) cu.GraphExec {
	x, err := c.d.GraphInstantiate(c.ctx, g, 0)
	c.ok(err, "instantiate a graph")
	c.later(func() { c.undo("destroy an executable graph", c.d.GraphExecDestroy(x)) })
	return x
}

func (c *T) runGraph(x cu.GraphExec, s cu.Stream) {
	c.ok(c.d.GraphLaunch(c.ctx, x, s), "launch a graph")
}

// nodeTypes is the kinds of a graph's nodes, sorted.
func (c *T) nodeTypes(g cu.Graph) []cu.GraphNodeType {
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

func (c *T) wantNodes(g cu.Graph, want ...cu.GraphNodeType) {
	slices.Sort(want)
	got := c.nodeTypes(g)
	c.check(slices.Equal(got, want), "nodes of the types %v, want %v", got, want)
}

func (c *T) capturing(s cu.Stream) cu.StreamCaptureStatus {
	status, err := c.d.StreamIsCapturing(c.ctx, s)
	c.ok(err, "capture status")
	return status
}

var captureChecks = []check{
	{"capture/records-and-does-not-run", "work captured is not done until its graph is launched",
		captureDoc, 0, func(c *T) {
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
	{"capture/node-types", "each operation becomes a node of its kind",
		captureDoc, 0, func(c *T) {
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
	{"capture/2d-3d-and-device-copies", "copies of every shape are captured",
		captureDoc, 0, func(c *T) {
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
	{"capture/fork-and-join", "a capture spreads to other streams by events and must come back",
		captureDoc + ", Cross-stream Dependencies and Events", 0, func(c *T) {
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
	{"capture/other-streams-run", "streams outside a capture work on",
		captureDoc, 0, func(c *T) {
			p := c.device(8)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			g := c.captured(a, func() {
				c.launch(b, "store", 1, p, uint32(1), uint32(1))
				c.launch(a, "store", 1, p+4, uint32(2), uint32(1))
				c.sync(b)
			})
			c.wantNodes(g, cu.GraphNodeTypeKernel)
			c.check(word(c.down(p, 4), 0) == 1, "the other stream did nothing")
		}},
	{"capture/empty", "an empty capture is an empty graph, which can be launched",
		captureDoc, 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			g := c.captured(s, func() {})
			c.wantNodes(g)
			c.runGraph(c.instantiated(g), s)
			c.sync(s)
		}},
	{"capture/external-event", "an event recorded as external is a node and is recorded by each launch",
		"Driver API: cuEventRecordWithFlags, CU_EVENT_RECORD_EXTERNAL", 0, func(c *T) {
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
	{"capture/relaxed-allows-all", "in relaxed mode calls that have no stream go on as ever",
		captureDoc + "; Driver API: cuStreamBeginCapture", 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			c.captured(s, func() {
				p, err := c.d.MemAlloc(c.ctx, 1<<20)
				c.want(err, "MemAlloc", cu.Success)
				if err == nil {
					c.observeError("capture.relaxed.MemFree", c.d.MemFree(c.ctx, p))
				}
				c.check(c.capturing(s) == cu.StreamCaptureStatusActive, "status %d", c.capturing(s))
			})
		}},
	{"capture/pool-memory", "allocations in a stream become nodes where the driver can, and their memory works",
		"Programming Guide: Graph Memory Nodes", needPools, func(c *T) {
			s, out := c.stream(cu.StreamNonBlocking), c.pinned(4096, 0)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			p, err := c.d.MemAllocAsync(c.ctx, 4096, s)
			c.want(err, "capture.MemAllocAsync", cu.Success, cu.ErrorStreamCaptureUnsupported, cu.ErrorNotSupported)
			if err != nil {
				return
			}
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

var captureMisuseChecks = []check{
	{"capture/legacy-stream", "the legacy stream does not capture",
		captureDoc + ", Prohibited and Unhandled Operations", 0, func(c *T) {
			c.want(c.d.StreamBeginCapture(c.ctx, 0, cu.StreamCaptureModeRelaxed), "stream 0", cu.ErrorStreamCaptureUnsupported)
			c.want(c.d.StreamBeginCapture(c.ctx, cu.StreamLegacy, cu.StreamCaptureModeRelaxed), "by name", cu.ErrorStreamCaptureUnsupported)
		}},
	{"capture/begin-and-end-in-turn", "a capture is begun once and ended once, in a mode that exists",
		"Driver API: cuStreamBeginCapture, cuStreamEndCapture", 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			_, err := c.d.StreamEndCapture(c.ctx, s)
			c.want(err, "end without begin", cu.ErrorIllegalState)
			c.want(c.d.StreamBeginCapture(c.ctx, s, 99), "mode 99", cu.ErrorInvalidValue)
			c.captured(s, func() {
				c.want(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed), "begin again", cu.ErrorIllegalState)
			})
		}},
	{"capture/unjoined", "a forked stream that was not joined spoils the capture",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 0, func(c *T) {
			p, a, b := c.device(4), c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			e := c.event(cu.EventDisableTiming)
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "fork")
			c.launch(b, "store", 1, p, uint32(1), uint32(1))
			_, err := c.d.StreamEndCapture(c.ctx, a)
			c.want(err, "end", cu.ErrorStreamCaptureUnjoined)
			c.check(c.capturing(a) == cu.StreamCaptureStatusNone && c.capturing(b) == cu.StreamCaptureStatusNone, "a stream still captures")
			c.launch(b, "store", 1, p, uint32(2), uint32(1))
			c.same("work after the failure", c.down(p, 4), words(2))
		}},
	{"capture/unmatched", "a capture ends in the stream where it began",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", 0, func(c *T) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "fork")
			_, err := c.d.StreamEndCapture(c.ctx, b)
			c.want(err, "end in the other stream", cu.ErrorStreamCaptureUnmatched)
			c.observe("capture.status-after-unmatched", c.capturing(a))
			_, err = c.d.StreamEndCapture(c.ctx, a)
			c.observeError("capture.end-after-unmatched", err)
		}},
	{"capture/no-queries", "a capturing stream is not asked nor waited for: that spoils the capture",
		captureDoc + ", Prohibited and Unhandled Operations, Invalidation", 0, func(c *T) {
			for name, ask := range map[string]func(cu.Stream) error{
				"query":       func(s cu.Stream) error { return c.d.StreamQuery(c.ctx, s) },
				"synchronize": func(s cu.Stream) error { return c.d.StreamSynchronize(c.ctx, s) },
			} {
				s := c.stream(cu.StreamNonBlocking)
				c.begin(s, cu.StreamCaptureModeRelaxed)
				c.want(ask(s), name, cu.ErrorStreamCaptureUnsupported)
				c.check(c.capturing(s) == cu.StreamCaptureStatusInvalidated, "%s: status %d, want invalidated", name, c.capturing(s))
				c.want(c.tryLaunch(c.ctx, s, "noparams", 1), name+": launch into the spoilt capture", cu.ErrorStreamCaptureInvalidated)
				g, err := c.d.StreamEndCapture(c.ctx, s)
				c.want(err, name+": end", cu.ErrorStreamCaptureInvalidated)
				c.check(g == 0, "%s: the end gave a graph", name)
				c.check(c.capturing(s) == cu.StreamCaptureStatusNone, "%s: status %d after the end", name, c.capturing(s))
				c.ok(c.d.StreamSynchronize(c.ctx, s), "the stream afterwards")
			}
		}},
	{"capture/context-synchronize", "waiting for the context while a stream captures is refused",
		captureDoc + ", Prohibited and Unhandled Operations", 0, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			err := c.d.CtxSynchronize(c.ctx)
			c.want(err, "capture.CtxSynchronize", cu.ErrorStreamCaptureUnsupported, cu.Success)
			c.observe("capture.status-after-CtxSynchronize", c.capturing(s))
		}},
	{"capture/legacy-use-implicit", "legacy stream work while a blocking stream captures would wait for the capture and is refused",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", 0, func(c *T) {
			p, s := c.device(64), c.stream(cu.StreamDefault)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.want(c.tryLaunch(c.ctx, 0, "noparams", 1), "launch in the legacy stream", cu.ErrorStreamCaptureImplicit)
			c.observe("capture.status-after-legacy-launch", c.capturing(s))
			_, _ = c.d.StreamEndCapture(c.ctx, s)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.want(c.d.MemsetD8(c.ctx, p, 1, 64), "fill without a stream", cu.ErrorStreamCaptureImplicit)
			_, _ = c.d.StreamEndCapture(c.ctx, s)
			c.ok(c.tryLaunch(c.ctx, 0, "noparams", 1), "launch in the legacy stream after the capture")
		}},
	{"capture/legacy-use-beside-non-blocking", "legacy stream work while a non-blocking stream captures is done",
		captureDoc, 0, func(c *T) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.launch(0, "store", 1, p, uint32(12), uint32(1))
			c.end(s)
			c.same("stored", c.down(p, 4), words(12))
		}},
	{"capture/captured-event", "the host does not ask for or wait for an event of a capture",
		captureDoc + "; CUDA_ERROR_CAPTURED_EVENT", 0, func(c *T) {
			s, e := c.stream(cu.StreamNonBlocking), c.event(0)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.want(c.d.EventQuery(c.ctx, e), "query", cu.ErrorCapturedEvent)
			c.want(c.d.EventSynchronize(c.ctx, e), "synchronize", cu.ErrorCapturedEvent)
			c.observe("capture.status-after-captured-event", c.capturing(s))
			_, _ = c.d.StreamEndCapture(c.ctx, s)
			c.want(c.d.EventQuery(c.ctx, e), "capture.event-after-the-capture", cu.ErrorCapturedEvent, cu.Success)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record again")
			c.sync(s)
			c.ok(c.d.EventQuery(c.ctx, e), "query after a plain record")
		}},
	{"capture/isolation", "captured work does not wait for work outside the capture",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_ISOLATION", 0, func(c *T) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.ok(c.d.EventRecord(c.ctx, e, b), "record outside")
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.want(c.d.StreamWaitEvent(c.ctx, a, e, 0), "wait inside", cu.ErrorStreamCaptureIsolation)
			c.observe("capture.status-after-isolation", c.capturing(a))
		}},
	{"capture/merge", "two captures are not joined",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_MERGE", 0, func(c *T) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.begin(b, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record in the first")
			c.want(c.d.StreamWaitEvent(c.ctx, b, e, 0), "wait in the second", cu.ErrorStreamCaptureMerge)
		}},
	{"capture/wrong-thread", "a capture that is not relaxed ends on the thread where it began",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", 0, func(c *T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeThreadLocal), "begin")
			err := onThread(func() error {
				_, err := c.d.StreamEndCapture(c.ctx, s)
				return err
			})
			c.want(err, "end on another thread", cu.ErrorStreamCaptureWrongThread)
			_, err = c.d.StreamEndCapture(c.ctx, s)
			c.want(err, "capture.end-after-wrong-thread", cu.Success, cu.ErrorStreamCaptureInvalidated)
		}},
	{"capture/global-forbids-unsafe-calls", "in global mode calls that may synchronise are refused on every thread",
		"Driver API: cuStreamBeginCapture, CU_STREAM_CAPTURE_MODE_GLOBAL", 0, func(c *T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeGlobal), "begin")
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			status := c.capturing(s)
			other := onThread(func() error { _, err := c.d.MemAlloc(c.ctx, 1<<20); return err })
			_, end := c.d.StreamEndCapture(c.ctx, s)
			c.want(err, "MemAlloc on the same thread", cu.ErrorStreamCaptureUnsupported)
			c.want(other, "MemAlloc on another thread", cu.ErrorStreamCaptureUnsupported)
			c.observe("capture.global.status-after-MemAlloc", status)
			c.observeError("capture.global.end-after-MemAlloc", end)
			if err == nil {
				_ = c.d.MemFree(c.ctx, p)
			}
		}},
	{"capture/thread-local-forbids-on-its-thread", "in thread-local mode they are refused on the capturing thread alone",
		"Driver API: cuStreamBeginCapture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", 0, func(c *T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeThreadLocal), "begin")
			other := onThread(func() error {
				p, err := c.d.MemAlloc(c.ctx, 1<<20)
				if err == nil {
					err = c.d.MemFree(c.ctx, p)
				}
				return err
			})
			_, err := c.d.MemAlloc(c.ctx, 1<<20)
			_, _ = c.d.StreamEndCapture(c.ctx, s)
			c.want(other, "MemAlloc on another thread", cu.Success)
			c.want(err, "MemAlloc on the capturing thread", cu.ErrorStreamCaptureUnsupported)
		}},
	{"capture/pageable-copies", "whether copies of pageable memory are captured is observed",
		captureDoc + " (silent)", 0, func(c *T) {
			p, b, s := c.device(4096), c.pageable(4096), c.stream(cu.StreamNonBlocking)
			for name, do := range map[string]func() error{
				"HtoD": func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(b), 4096, s) },
				"DtoH": func() error { return c.d.MemcpyDtoHAsync(c.ctx, pointerTo(b), p, 4096, s) },
			} {
				c.begin(s, cu.StreamCaptureModeRelaxed)
				c.observeError("capture.pageable-"+name, do())
				g, err := c.d.StreamEndCapture(c.ctx, s)
				c.observeError("capture.pageable-"+name+".end", err)
				if err == nil {
					c.observe("capture.pageable-"+name+".nodes", len(c.nodeTypes(g)))
					c.ok(c.d.GraphDestroy(g), "destroy")
				}
			}
		}},
}
