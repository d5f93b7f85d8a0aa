package cutest

import (
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

// wantInvalidated fails unless a stream's capture is invalidated. It ends the capture.
func (c *trial) wantInvalidated(when string, s cu.Stream) {
	c.check(c.capturing(s) == cu.StreamCaptureStatusInvalidated, "status %d %s, want invalidated", c.capturing(s), when)
	_, err := c.d.StreamEndCapture(c.ctx, s)
	c.want(err, "end "+when, cu.ErrorStreamCaptureInvalidated)
}

var captureMisuseChecks = []check{
	{"capture/legacy-stream", "the legacy stream does not capture",
		captureDoc + ", Prohibited and Unhandled Operations", 0, func(c *trial) {
			c.want(c.d.StreamBeginCapture(c.ctx, 0, cu.StreamCaptureModeRelaxed), "stream 0", cu.ErrorStreamCaptureUnsupported)
			c.want(c.d.StreamBeginCapture(c.ctx, cu.StreamLegacy, cu.StreamCaptureModeRelaxed), "by name", cu.ErrorStreamCaptureUnsupported)
		}},
	{"capture/begin-and-end-in-turn", "a capture is begun once and ended once, in a mode that exists",
		"Driver API: cuStreamBeginCapture, cuStreamEndCapture", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			_, err := c.d.StreamEndCapture(c.ctx, s)
			c.want(err, "end without begin", cu.ErrorIllegalState)
			c.want(c.d.StreamBeginCapture(c.ctx, s, 99), "mode 99", cu.ErrorInvalidValue)
			c.captured(s, func() {
				c.want(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed), "begin again", cu.ErrorIllegalState)
			})
		}},
	{"capture/unjoined", "a forked stream that was not joined invalidates the capture",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 0, func(c *trial) {
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
	{"capture/destroy-joined", "a stream that joined a capture can be destroyed; work that the first stream does not wait for is then unjoined",
		captureDoc + "; cuStreamDestroy (the manual is silent)", 0, func(c *trial) {
			for _, waits := range []bool{false, true} {
				p, a, e := c.device(4), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
				b, err := c.d.StreamCreate(c.ctx, cu.StreamNonBlocking)
				c.ok(err, "create")
				c.begin(a, cu.StreamCaptureModeRelaxed)
				c.ok(c.d.EventRecord(c.ctx, e, a), "record")
				c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "fork")
				c.launch(b, "store", 1, p, uint32(1), uint32(1))
				if waits {
					c.ok(c.d.EventRecord(c.ctx, e, b), "record the work")
					c.ok(c.d.StreamWaitEvent(c.ctx, a, e, 0), "join")
				}
				c.ok(c.d.StreamDestroy(c.ctx, b), "destroy the stream that joined")
				c.check(c.capturing(a) == cu.StreamCaptureStatusActive, "the capture is not active any more")
				graph, err := c.d.StreamEndCapture(c.ctx, a)
				if !waits {
					c.want(err, "end", cu.ErrorStreamCaptureUnjoined)
					continue
				}
				c.ok(err, "end")
				c.ok(c.d.GraphDestroy(graph), "destroy the graph")
			}
		}},
	{"capture/unmatched", "a capture ends in the stream where it began",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", 0, func(c *trial) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "fork")
			_, err := c.d.StreamEndCapture(c.ctx, b)
			c.want(err, "end in the other stream", cu.ErrorStreamCaptureUnmatched)
			c.wantInvalidated("after that", a)
		}},
	{"capture/no-queries", "a query of a capturing stream, or a wait for it, is refused and invalidates the capture",
		captureDoc + ", Prohibited and Unhandled Operations, Invalidation", 0, func(c *trial) {
			for name, ask := range map[string]func(cu.Stream) error{
				"query":       func(s cu.Stream) error { return c.d.StreamQuery(c.ctx, s) },
				"synchronize": func(s cu.Stream) error { return c.d.StreamSynchronize(c.ctx, s) },
			} {
				s := c.stream(cu.StreamNonBlocking)
				c.begin(s, cu.StreamCaptureModeRelaxed)
				c.want(ask(s), name, cu.ErrorStreamCaptureUnsupported)
				c.check(c.capturing(s) == cu.StreamCaptureStatusInvalidated, "%s: status %d, want invalidated", name, c.capturing(s))
				c.want(c.tryLaunch(c.ctx, s, "noparams", 1), name+": launch into the invalidated capture", cu.ErrorStreamCaptureInvalidated)
				g, err := c.d.StreamEndCapture(c.ctx, s)
				c.want(err, name+": end", cu.ErrorStreamCaptureInvalidated)
				c.check(g == 0, "%s: the end returned a graph", name)
				c.check(c.capturing(s) == cu.StreamCaptureStatusNone, "%s: status %d after the end", name, c.capturing(s))
				c.ok(c.d.StreamSynchronize(c.ctx, s), "the stream afterwards")
			}
		}},
	{"capture/stream-properties", "while a stream captures, its priority and context can be read, but not its id and flags",
		"Driver API: cuStreamGetId, cuStreamGetFlags (silent on capture)", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.streamID(s) // skips the case if the driver has no ids
			c.captured(s, func() {
				_, err := c.d.StreamGetPriority(c.ctx, s)
				c.ok(err, "priority")
				_, err = c.d.StreamGetCtx(c.ctx, s)
				c.ok(err, "context")
			})
			c.begin(s, cu.StreamCaptureModeRelaxed)
			_, err := c.d.StreamGetId(c.ctx, s)
			c.want(err, "id", cu.ErrorStreamCaptureUnsupported)
			c.wantInvalidated("after the id", s)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			_, err = c.d.StreamGetFlags(c.ctx, s)
			c.want(err, "flags", cu.ErrorStreamCaptureUnsupported)
			c.wantInvalidated("after the flags", s)
		}},
	{"capture/context-synchronize", "waiting for the context while a stream captures is refused, and invalidates the capture",
		captureDoc + ", Prohibited and Unhandled Operations", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.want(c.d.CtxSynchronize(c.ctx), "CtxSynchronize", cu.ErrorStreamCaptureUnsupported)
			c.wantInvalidated("after that", s)
		}},
	{"capture/legacy-use-implicit", "legacy stream work while a blocking stream captures would have to wait for the capture, and is refused",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", 0, func(c *trial) {
			p, s := c.device(64), c.stream(cu.StreamDefault)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.want(c.tryLaunch(c.ctx, 0, "noparams", 1), "launch in the legacy stream", cu.ErrorStreamCaptureImplicit)
			c.wantInvalidated("after the launch", s)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.want(c.d.MemsetD8(c.ctx, p, 1, 64), "fill without a stream", cu.ErrorStreamCaptureImplicit)
			_, _ = c.d.StreamEndCapture(c.ctx, s)
			c.ok(c.tryLaunch(c.ctx, 0, "noparams", 1), "launch in the legacy stream after the capture")
		}},
	{"capture/legacy-use-beside-non-blocking", "legacy stream work while a non-blocking stream captures is done",
		captureDoc, 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.launch(0, "store", 1, p, uint32(12), uint32(1))
			c.end(s)
			c.same("stored", c.down(p, 4), words(12))
		}},
	{"capture/captured-event", "the host cannot query an event of a capture: that invalidates the capture, and the event cannot be used until it is recorded again",
		captureDoc + "; CUDA_ERROR_CAPTURED_EVENT", 0, func(c *trial) {
			s, e := c.stream(cu.StreamNonBlocking), c.event(0)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.want(c.d.EventQuery(c.ctx, e), "query", cu.ErrorCapturedEvent)
			c.want(c.d.EventSynchronize(c.ctx, e), "synchronize after the query", cu.ErrorInvalidValue)
			c.wantInvalidated("after the query", s)
			c.want(c.d.EventQuery(c.ctx, e), "query after the capture", cu.ErrorInvalidValue)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record again")
			c.sync(s)
			c.ok(c.d.EventQuery(c.ctx, e), "query after a record outside a capture")
		}},
	{"capture/isolation", "captured work cannot wait for work outside the capture",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_ISOLATION", 0, func(c *trial) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.ok(c.d.EventRecord(c.ctx, e, b), "record outside")
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.want(c.d.StreamWaitEvent(c.ctx, a, e, 0), "wait inside", cu.ErrorStreamCaptureIsolation)
			c.wantInvalidated("after that", a)
		}},
	{"capture/merge", "two captures cannot be joined",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_MERGE", 0, func(c *trial) {
			a, b, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.begin(a, cu.StreamCaptureModeRelaxed)
			c.begin(b, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record in the first")
			c.want(c.d.StreamWaitEvent(c.ctx, b, e, 0), "wait in the second", cu.ErrorStreamCaptureMerge)
		}},
	{"capture/wrong-thread", "a capture that is not relaxed must end on the thread where it began; an attempt on another thread ends it without a graph",
		captureDoc + "; CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", 0, func(c *trial) {
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
			c.want(err, "end on its own thread after that", cu.ErrorIllegalState)
			c.check(c.capturing(s) == cu.StreamCaptureStatusNone, "status %d, want none", c.capturing(s))
			c.ok(c.tryLaunch(c.ctx, s, "noparams", 1), "a launch in the stream afterwards")
			c.sync(s)
		}},
	{"capture/global-forbids-unsafe-calls", "in global mode calls that may synchronize are refused on every thread",
		"Driver API: cuStreamBeginCapture, CU_STREAM_CAPTURE_MODE_GLOBAL", 0, func(c *trial) {
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
			c.check(status == cu.StreamCaptureStatusInvalidated, "status %d after MemAlloc, want invalidated", status)
			c.want(end, "end after MemAlloc", cu.ErrorStreamCaptureInvalidated)
			if err == nil {
				_ = c.d.MemFree(c.ctx, p)
			}
		}},
	{"capture/thread-local-forbids-on-its-thread", "in thread-local mode they are refused on the capturing thread only",
		"Driver API: cuStreamBeginCapture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL", 0, func(c *trial) {
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
	{"capture/pageable-copies", "copies of pageable memory are captured like others, and read and write the memory when launched",
		captureDoc + " (silent)", 0, func(c *trial) {
			p, in, out, s := c.device(4096), c.pageable(4096), c.pageable(4096), c.stream(cu.StreamNonBlocking)
			c.begin(s, cu.StreamCaptureModeRelaxed)
			c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, pointerTo(in), 4096, s), "copy in")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, pointerTo(out), p, 4096, s), "copy out")
			g := c.end(s)
			c.wantNodes(g, cu.GraphNodeTypeMemcpy, cu.GraphNodeTypeMemcpy)
			x := c.instantiated(g)
			for range 2 {
				c.scramble(in)
				c.runGraph(x, s)
				c.sync(s)
				c.same("copied in and out", out, in)
			}
		}},
}
