package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

var streamChecks = []check{
	{"stream/flags-read-back", "a stream has the flags that it was created with",
		"Driver API: cuStreamCreate, cuStreamGetFlags", 0, func(c *trial) {
			for _, want := range []cu.StreamFlags{cu.StreamDefault, cu.StreamNonBlocking} {
				got, err := c.d.StreamGetFlags(c.ctx, c.stream(want))
				c.ok(err, "flags")
				c.check(got == want, "created with %d, got %d", want, got)
			}
		}},
	{"stream/priority-range", "priorities go from the least, 0, down to the greatest; without the capability both are 0",
		"Programming Guide: Stream Priorities; Driver API: cuCtxGetStreamPriorityRange", 0, func(c *trial) {
			least, greatest, err := c.d.CtxGetStreamPriorityRange(c.ctx)
			c.ok(err, "range")
			c.observe("stream.priorities", fmt.Sprintf("%d..%d", least, greatest))
			c.check(least == 0, "least priority %d, want 0", least)
			c.check((greatest < 0) == (c.attr(cu.DeviceAttributeStreamPrioritiesSupported) != 0), "greatest priority %d, capability %d",
				greatest, c.attr(cu.DeviceAttributeStreamPrioritiesSupported))
		}},
	{"stream/priority-clamped", "a priority outside the range is clamped to the range",
		"Driver API: cuStreamCreateWithPriority", 0, func(c *trial) {
			least, greatest, err := c.d.CtxGetStreamPriorityRange(c.ctx)
			c.ok(err, "range")
			for _, ask := range []int32{greatest - 100, greatest, least, least + 100} {
				s, err := c.d.StreamCreateWithPriority(c.ctx, cu.StreamNonBlocking, ask)
				c.ok(err, "create")
				c.cleanup(func() { c.cleanupError("destroy", c.d.StreamDestroy(c.ctx, s)) })
				got, err := c.d.StreamGetPriority(c.ctx, s)
				c.ok(err, "priority")
				want := min(max(ask, greatest), least)
				c.check(got == want, "asked for %d, got %d, want %d", ask, got, want)
			}
		}},
	{"stream/priority-default", "a stream created without a priority has priority 0",
		"Driver API: cuStreamCreate", 0, func(c *trial) {
			got, err := c.d.StreamGetPriority(c.ctx, c.stream(0))
			c.ok(err, "priority")
			c.check(got == 0, "got %d", got)
		}},
	{"stream/context-of", "a stream belongs to the context that it was created in",
		"Driver API: cuStreamGetCtx", 0, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			for _, want := range []cu.Context{c.ctx, ctx} {
				got, err := c.d.StreamGetCtx(want, c.streamIn(want, 0))
				c.ok(err, "context")
				c.check(got == want, "got %#x, want %#x", got, want)
			}
		}},
	{"stream/context-of-from-another", "the context of a stream can be asked for in any context",
		"Driver API: cuStreamGetCtx", 0, func(c *trial) {
			other := c.newContext(cu.CtxMapHost)
			for _, of := range []cu.Context{c.ctx, other} {
				s := c.streamIn(of, 0)
				for _, current := range []cu.Context{c.ctx, other} {
					got, err := c.d.StreamGetCtx(current, s)
					c.ok(err, "context")
					c.check(got == of, "in context %#x: got %#x, want %#x", current, got, of)
				}
			}
		}},
	{"stream/id", "a stream has one id, which no other stream of the program has or had; the default streams have ids too",
		"Driver API: cuStreamGetId", 0, func(c *trial) {
			owners := map[uint64]string{}
			unique := func(id uint64, owner string) {
				c.check(owners[id] == "", "%s has the id %d of %s", owner, id, owners[id])
				owners[id] = owner
			}
			legacy := c.streamID(cu.StreamLegacy)
			unique(legacy, "the legacy stream")
			c.observe("stream.id-of-zero-is-that-of-legacy", c.streamID(0) == legacy)
			var perThread uint64
			c.ok(onThread(func() (err error) {
				perThread, err = c.d.StreamGetId(c.ctx, cu.StreamPerThread)
				return err
			}), "id of the per-thread stream")
			unique(perThread, "the per-thread stream")
			p := c.device(64)
			for i := range 20 {
				s, err := c.d.StreamCreate(c.ctx, cu.StreamNonBlocking)
				c.ok(err, "create")
				id := c.streamID(s)
				unique(id, fmt.Sprintf("stream %d, destroyed since,", i))
				c.ok(c.d.MemsetD8Async(c.ctx, p, 0, 64, s), "fill")
				c.check(c.streamID(s) == id, "id %d became %d", id, c.streamID(s))
				c.sync(s)
				c.check(c.streamID(s) == id, "id %d became %d", id, c.streamID(s))
				c.ok(c.d.StreamDestroy(c.ctx, s), "destroy")
			}
			unique(c.streamID(c.stream(cu.StreamDefault)), "a stream")
			unique(c.streamID(c.stream(cu.StreamNonBlocking)), "a second stream")
		}},
	{"stream/query", "a stream is not ready while it has work, and ready when it has none",
		"Driver API: cuStreamQuery", needMapHost, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamQuery(c.ctx, s), "query of a fresh stream")
			g := c.gate()
			g.hold(s)
			c.busy(s)
			c.busy(s)
			g.open()
			c.until("the stream to be ready", func() bool { return c.d.StreamQuery(c.ctx, s) == nil })
			c.ok(c.d.StreamQuery(c.ctx, s), "query of an idle stream")
		}},
	{"stream/synchronize", "synchronizing a stream waits for its work",
		"Programming Guide: Explicit Synchronization; Driver API: cuStreamSynchronize", needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", 1, m.dev, uint32(42), uint32(1))
			c.mustWait(g, "StreamSynchronize", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(loadWord(m.b, 0) == 42, "got %d after the wait, want 42", loadWord(m.b, 0))
			c.sync(s)
		}},
	{"stream/synchronize-one", "synchronizing a stream does not wait for another",
		"Programming Guide: Explicit Synchronization", needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(4)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(a)
			c.launch(b, "store", 1, m.dev, uint32(43), uint32(1))
			c.mustReturn(g, "synchronizing a free stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.check(loadWord(m.b, 0) == 43, "got %d after the wait, want 43", loadWord(m.b, 0))
			c.busy(a)
		}},
	{"stream/destroy-busy", "destroying a busy stream returns at once, and its work goes on to its end",
		"Programming Guide: Creation and Destruction of Streams; Driver API: cuStreamDestroy", needMapHost, func(c *trial) {
			m := c.mapped(4)
			s, err := c.d.StreamCreate(c.ctx, cu.StreamNonBlocking)
			c.ok(err, "create")
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", 1, m.dev, uint32(0x600d), uint32(1))
			done := c.event(cu.EventDisableTiming)
			c.ok(c.d.EventRecord(c.ctx, done, s), "record")
			c.mustReturn(g, "StreamDestroy", func() error { return c.d.StreamDestroy(c.ctx, s) })
			c.want(c.d.EventQuery(c.ctx, done), "work of the destroyed stream", cu.ErrorNotReady)
			g.open()
			c.step("the event of a destroyed stream")
			c.ok(c.d.EventSynchronize(c.ctx, done), "wait")
			c.check(loadWord(m.b, 0) == 0x600d, "the work was lost: got %#x", loadWord(m.b, 0))
		}},
	{"stream/many", "hundreds of streams can be used at the same time",
		"Programming Guide: Streams", 0, func(c *trial) {
			const n = 300
			p := c.device(4 * n)
			c.up(p, repeated(0, n))
			for i := range n {
				c.launch(c.stream(cu.StreamNonBlocking), "store", 1, p+cu.DevicePtr(4*i), uint32(i+1), uint32(1))
			}
			got := c.down(p, 4*n)
			for i := range n {
				if word(got, i) != uint32(i+1) {
					c.fatal("stream %d wrote %d, want %d", i, word(got, i), i+1)
				}
			}
		}},
	{"stream/concurrent-use", "one stream can be used from many goroutines at once",
		"Driver API: Stream Management (thread safety)", 0, func(c *trial) {
			const workers, each = 8, 50
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			c.kernel("inc")
			errs := make(chan error, workers)
			for range workers {
				go func() {
					var first error
					for range each {
						if err := c.tryLaunch(c.ctx, s, "inc", 1, p, uint32(1), uint32(1)); err != nil && first == nil {
							first = err
						}
					}
					errs <- first
				}()
			}
			for range workers {
				c.ok(<-errs, "launch from a goroutine")
			}
			c.same("the count", c.down(p, 4), words(workers*each))
		}},
}

var streamOrderChecks = []check{
	{"stream/in-order", "work of one stream is done in the order of the calls",
		"Programming Guide: Streams", 0, func(c *trial) {
			const n = 512
			for _, s := range []cu.Stream{0, c.stream(0), c.stream(cu.StreamNonBlocking)} {
				p, q := c.device(4*n), c.device(4*n)
				in, out := c.pinned(4*n, 0), c.pinned(4*n, 0)
				copy(in.b, repeated(100, n))
				c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, in.p, 4*n, s), "in")
				for i := range uint32(40) {
					c.launch(s, "inc", n, p, i, uint32(n))
					c.ok(c.d.MemcpyDtoDAsync(c.ctx, q, p, 4*n, s), "within")
					c.launch(s, "inc", n, q, uint32(1), uint32(n))
					c.ok(c.d.MemcpyDtoDAsync(c.ctx, p, q, 4*n, s), "within back")
				}
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, 4*n, s), "out")
				c.sync(s)
				c.same("after 160 operations", out.b, repeated(100+39*40/2+40, n))
			}
		}},
	{"stream/independent", "a stream does not wait for another",
		"Programming Guide: Concurrent Kernel Execution", needMapHost | needConcurrentKernels, func(c *trial) {
			a, b := c.stream(cu.StreamNonBlocking), c.stream(0)
			p := c.device(1 << 16)
			h := c.pinned(1<<16, 0)
			g := c.gate()
			g.hold(a)
			c.launch(b, "store", 100, p, uint32(1), uint32(100))
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, h.p, p, 400, b), "copy")
			c.ok(c.d.MemsetD8Async(c.ctx, p, 0, 1<<16, b), "memset")
			c.mustReturn(g, "synchronizing the free stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.same("copied in the meantime", h.b[:400], repeated(1, 100))
			c.busy(a)
		}},
	{"stream/wait-event", "a stream that waits for an event goes on when the recorded work is done",
		"Programming Guide: Explicit Synchronization; Driver API: cuStreamWaitEvent", needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(8)
			storeWord(m.b, 4, 0)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			e := c.event(cu.EventDisableTiming)
			g := c.gate()
			g.hold(a)
			c.launch(a, "store", 1, m.dev, uint32(5), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "wait-event")
			c.launch(b, "copy", 1, m.dev+4, m.dev, uint32(1))
			c.mustWait(g, "the waiting stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.check(loadWord(m.b, 4) == 5, "the second stream saw %d, want 5", loadWord(m.b, 4))
		}},
	{"stream/wait-event-returns", "a wait for an event blocks the stream, not the host",
		"Driver API: cuStreamWaitEvent", needMapHost, func(c *trial) {
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			e := c.event(0)
			g := c.gate()
			g.hold(a)
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.mustReturn(g, "StreamWaitEvent", func() error { return c.d.StreamWaitEvent(c.ctx, b, e, 0) })
			c.busy(b)
		}},
	{"stream/wait-event-never-recorded", "a stream does not wait for an event that was never recorded",
		"Driver API: cuStreamWaitEvent", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamWaitEvent(c.ctx, s, c.event(0), 0), "wait-event")
			c.sync(s)
		}},
	{"stream/wait-event-snapshot", "a wait is for the last record before it, and not for later records",
		"Driver API: cuStreamWaitEvent, cuEventRecord", needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(4)
			a, b, busy := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			e := c.event(cu.EventDisableTiming)
			c.launch(a, "store", 1, m.dev, uint32(1), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "wait-event")
			g := c.gate()
			g.hold(busy)
			c.ok(c.d.EventRecord(c.ctx, e, busy), "record again, behind the gate")
			c.mustReturn(g, "the stream that waited for the first record", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.want(c.d.EventQuery(c.ctx, e), "the event of the second record", cu.ErrorNotReady)
		}},
	{"stream/wait-event-destroyed", "an event may be destroyed right after the wait was queued",
		"Driver API: cuEventDestroy", needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(8)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			e, err := c.d.EventCreate(c.ctx, cu.EventDisableTiming)
			c.ok(err, "create")
			g := c.gate()
			g.hold(a)
			c.launch(a, "store", 1, m.dev, uint32(9), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, e, 0), "wait-event")
			c.mustReturn(g, "EventDestroy", func() error { return c.d.EventDestroy(c.ctx, e) })
			c.launch(b, "copy", 1, m.dev+4, m.dev, uint32(1))
			c.mustWait(g, "the waiting stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.check(loadWord(m.b, 4) == 9, "the second stream saw %d, want 9", loadWord(m.b, 4))
		}},
	{"stream/diamond", "events order a fork to three streams and its join",
		"Programming Guide: Events; Explicit Synchronization", 0, func(c *trial) {
			const n = 300
			p, q, r := c.device(4*n), c.device(4*n), c.device(4*n)
			s := []cu.Stream{c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)}
			fork, left, right := c.event(cu.EventDisableTiming), c.event(cu.EventDisableTiming), c.event(cu.EventDisableTiming)
			for i := range uint32(20) {
				c.launch(s[0], "store", n, p, i, uint32(n))
				c.ok(c.d.EventRecord(c.ctx, fork, s[0]), "record")
				for j, e := range []cu.Event{left, right} {
					c.ok(c.d.StreamWaitEvent(c.ctx, s[j+1], fork, 0), "fork")
					c.launch(s[j+1], "copy", n, []cu.DevicePtr{q, r}[j], p, uint32(n))
					c.launch(s[j+1], "inc", n, []cu.DevicePtr{q, r}[j], uint32(j+1)*100, uint32(n))
					c.ok(c.d.EventRecord(c.ctx, e, s[j+1]), "record")
					c.ok(c.d.StreamWaitEvent(c.ctx, s[0], e, 0), "join")
				}
				c.launch(s[0], "add3", n, p, p, q, r, uint32(n))
				if i%5 == 4 {
					c.sync(s[0])
					c.same("joined", c.down(p, 4*n), repeated(3*i+300, n))
				}
			}
		}},
}

// streamID returns the id of a stream. The case skips if the driver has none.
func (c *trial) streamID(s cu.Stream) uint64 {
	id, err := c.d.StreamGetId(c.ctx, s)
	if isCode(err, cu.ErrorNotSupported) {
		c.skip("the driver is older than the call: %v", err)
	}
	c.ok(err, "id")
	return id
}
