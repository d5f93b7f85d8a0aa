package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const (
	elsewhereDoc = "Programming Guide: Multi-Device System, Stream and Event Behavior"
	peerDoc      = "Programming Guide: Multi-Device System, Peer-to-Peer Memory Access; Driver API: Peer Context Memory Access"
)

// wrongContext is the result of calls that mix objects of two contexts.
const wrongContext = cu.ErrorInvalidHandle

// foreignContext is another context, on the same or another device, with a stream and
// an event.
type foreignContext struct {
	ctx    cu.Context
	stream cu.Stream
	event  cu.Event
}

func (c *trial) foreign(dev cu.Device) foreignContext {
	ctx := c.newContextOn(dev, cu.CtxMapHost)
	c.kernelIn(ctx, "store")
	return foreignContext{ctx, c.streamIn(ctx, cu.StreamNonBlocking), c.eventIn(ctx, 0)}
}

// launchesElsewhere and the next three functions test the rules for streams and events
// of another context, on the same or another device.
func (c *trial) launchesElsewhere(o foreignContext) {
	p := c.device(4)
	c.want(c.tryLaunch(c.ctx, o.stream, "store", 1, p, uint32(1), uint32(1)), "launch in a foreign stream", wrongContext)
	f := c.kernelIn(o.ctx, "noparams")
	c.want(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, nil), "launch of a foreign kernel", wrongContext)
	c.ok(c.d.CtxSynchronize(o.ctx), "the other context afterwards")
	c.launch(0, "store", 1, p, uint32(2), uint32(1))
	c.same("a launch afterwards", c.down(p, 4), words(2))
}

func (c *trial) copiesElsewhere(o foreignContext) {
	p, h := c.device(page), c.pinned(page, portable)
	c.ok(c.d.MemcpyHtoDAsync(c.ctx, p, h.p, page, o.stream), "copy in a foreign stream")
	c.ok(c.d.StreamSynchronize(o.ctx, o.stream), "the foreign stream")
	c.same("copied", c.down(p, page), h.b)
}

func (c *trial) eventsElsewhere(o foreignContext) {
	mine := c.event(0)
	c.want(c.d.EventRecord(c.ctx, mine, o.stream), "record in a foreign stream", wrongContext)
	c.want(c.d.EventRecord(c.ctx, o.event, c.stream(0)), "record of a foreign event", wrongContext)
	c.ok(c.d.EventRecord(c.ctx, mine, 0), "record")
	c.ok(c.d.EventRecord(o.ctx, o.event, o.stream), "record of the other")
	c.syncAll()
	c.ok(c.d.CtxSynchronize(o.ctx), "the other context")
	_, err := c.d.EventElapsedTime(c.ctx, mine, o.event)
	c.want(err, "time between events of two contexts", wrongContext)
	c.ok(c.d.EventQuery(c.ctx, o.event), "query of a foreign event")
	c.ok(c.d.EventSynchronize(c.ctx, o.event), "synchronize on a foreign event")
}

func (c *trial) waitsElsewhere(o foreignContext) {
	m, s := c.mapped(8), c.stream(cu.StreamNonBlocking)
	e := c.event(cu.EventDisableTiming)
	storeWord(m.b, 4, 0)
	g := c.gate()
	g.hold(s)
	c.launch(s, "store", 1, m.dev, uint32(64), uint32(1))
	c.ok(c.d.EventRecord(c.ctx, e, s), "record")
	c.ok(c.d.StreamWaitEvent(o.ctx, o.stream, e, 0), "wait for a foreign event")
	c.hostFuncIn(o, func() { storeWord(m.b, 4, loadWord(m.b, 0)) })
	c.mustWait(g, "the stream of the other context", func() error { return c.d.StreamSynchronize(o.ctx, o.stream) })
	c.check(loadWord(m.b, 4) == 64, "the other context saw %d, want 64", loadWord(m.b, 4))
}

func (c *trial) hostFuncIn(o foreignContext, f func()) {
	c.ok(c.d.LaunchHostFunc(o.ctx, o.stream, f), "queue a host function")
}

var twoContextChecks = []check{
	{"elsewhere/launch", "a kernel launch fails in a stream of another context",
		elsewhereDoc, 0, func(c *trial) { c.launchesElsewhere(c.foreign(c.dev)) }},
	{"elsewhere/copy", "a copy in a stream of another context is done in that stream",
		elsewhereDoc, 0, func(c *trial) { c.copiesElsewhere(c.foreign(c.dev)) }},
	{"elsewhere/events", "events are recorded in streams of their own context and timed within it; every context may wait for them",
		elsewhereDoc, 0, func(c *trial) { c.eventsElsewhere(c.foreign(c.dev)) }},
	{"elsewhere/wait-event", "a stream may wait for an event of another context",
		elsewhereDoc, needMapHost | needUVA, func(c *trial) { c.waitsElsewhere(c.foreign(c.dev)) }},
	{"elsewhere/streams-answer", "a stream of another context can be queried, synchronized and asked for its priority",
		elsewhereDoc + " (silent)", 0, func(c *trial) {
			o := c.foreign(c.dev)
			c.ok(c.d.StreamQuery(c.ctx, o.stream), "query")
			c.ok(c.d.StreamSynchronize(c.ctx, o.stream), "synchronize")
			_, err := c.d.StreamGetPriority(c.ctx, o.stream)
			c.ok(err, "priority")
		}},
	{"elsewhere/synchronize-own-only", "synchronizing a context does not wait for another",
		"Driver API: cuCtxSynchronize", needMapHost, func(c *trial) {
			o := c.foreign(c.dev)
			c.ok(c.tryLaunch(o.ctx, o.stream, "noparams", 1), "warm up the other context")
			c.ok(c.d.CtxSynchronize(o.ctx), "synchronize it")
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "CtxSynchronize of an idle context", func() error { return c.d.CtxSynchronize(o.ctx) })
			c.busy(s)
		}},
	{"elsewhere/kernels-in-turn", "hardware shares its time among contexts: a kernel runs while a kernel of another context spins; an emulated device may run them one after the other",
		"Programming Guide: Concurrent Kernel Execution (kernels of different contexts do not overlap)", needMapHost | needUVA, func(c *trial) {
			o := c.foreign(c.dev)
			p := c.deviceIn(o.ctx, 4)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.ok(c.tryLaunch(o.ctx, o.stream, "store", 1, p, uint32(1), uint32(1)), "launch in the other context")
			wait := func() error { return c.d.StreamSynchronize(o.ctx, o.stream) }
			if cu.AsEmulated(c.d) == nil {
				c.mustReturn(g, "a kernel of another context", wait)
			} else {
				_, err := c.returns(g, "a kernel of another context", blockedTime, wait)
				c.ok(err, "synchronize")
			}
			g.open()
			c.sync(s)
		}},
	{"elsewhere/copy-between", "memory is copied between two contexts of a device",
		"Driver API: cuMemcpyPeer", needUVA, func(c *trial) {
			o := c.foreign(c.dev)
			const n = 1<<20 + 3
			p, q := c.device(n), c.deviceIn(o.ctx, n)
			want := c.down(p, n)
			c.ok(c.d.MemcpyPeer(c.ctx, q, o.ctx, p, c.ctx, n), "MemcpyPeer")
			c.syncAll()
			c.same("copied", c.downIn(o.ctx, q, n), want)
		}},
}

var peerSelfChecks = []check{
	{"peer/copy-in-capture", "a stream that captures refuses a peer copy; the copy of addresses becomes a node",
		"Driver API: cuMemcpyPeerAsync, cuMemcpyAsync (silent on capture)", needUVA, func(c *trial) {
			const n = 4096
			p, q, s := c.device(n), c.device(n), c.stream(cu.StreamNonBlocking)
			c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed), "begin")
			c.want(c.d.MemcpyPeerAsync(c.ctx, p, c.ctx, q, c.ctx, n, s), "peer copy", cu.ErrorStreamCaptureUnsupported)
			_, err := c.d.StreamEndCapture(c.ctx, s)
			c.want(err, "end after a peer copy", cu.ErrorStreamCaptureInvalidated)
			c.ok(c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed), "begin again")
			c.ok(c.d.MemcpyAsync(c.ctx, p, q, n, s), "copy")
			g, err := c.d.StreamEndCapture(c.ctx, s)
			c.ok(err, "end")
			c.ok(c.d.GraphDestroy(g), "destroy")
		}},
	{"peer/copy-to-itself", "a peer copy from a context to itself is a copy",
		"Driver API: cuMemcpyPeer, cuMemcpyPeerAsync", 0, func(c *trial) {
			const n = 300_001
			p, q, s := c.device(n), c.device(n), c.stream(cu.StreamNonBlocking)
			want := c.down(p, n)
			c.ok(c.d.MemcpyPeer(c.ctx, q, c.ctx, p, c.ctx, n), "MemcpyPeer")
			c.same("copied", c.down(q, n), want)
			c.up(q, c.random(n))
			c.ok(c.d.MemcpyPeerAsync(c.ctx, q, c.ctx, p, c.ctx, n, s), "MemcpyPeerAsync")
			c.sync(s)
			c.same("copied again", c.down(q, n), want)
		}},
	{"peer/copy-misuse", "a peer copy needs addresses of memory; under unified addressing it needs no context",
		"Driver API: cuMemcpyPeer", 0, func(c *trial) {
			p := c.device(page)
			if c.attr(cu.DeviceAttributeUnifiedAddressing) == 1 {
				q, want := c.device(page), c.down(p, page)
				c.ok(c.d.MemcpyPeer(c.ctx, q, 0, p, c.ctx, page), "no destination context")
				c.same("copied", c.down(q, page), want)
			}
			c.want(c.d.MemcpyPeer(c.ctx, c.unusedAddress(), c.ctx, p, c.ctx, page), "an unused destination", cu.ErrorInvalidValue)
		}},
	{"peer/enable-itself", "a context cannot enable access to itself, nor to context 0",
		peerDoc, 0, func(c *trial) {
			c.want(c.d.CtxEnablePeerAccess(c.ctx, c.ctx, 0), "enable itself", cu.ErrorPeerAccessUnsupported)
			c.want(c.d.CtxEnablePeerAccess(c.ctx, 0, 0), "enable context 0", cu.ErrorInvalidContext)
			c.want(c.d.CtxDisablePeerAccess(c.ctx, 0), "disable context 0", cu.ErrorInvalidContext)
		}},
	{"peer/same-device", "two contexts of one device are no peers; access that was not enabled cannot be disabled",
		peerDoc, 0, func(c *trial) {
			o := c.newContext(cu.CtxMapHost)
			c.want(c.d.CtxDisablePeerAccess(c.ctx, o), "disable", cu.ErrorPeerAccessNotEnabled)
			c.want(c.d.CtxEnablePeerAccess(c.ctx, o, 0), "enable", cu.ErrorPeerAccessUnsupported)
		}},
	{"context/kernel-uses-memory-of-another", "under unified addressing a kernel uses memory of other contexts of its device",
		"Programming Guide: Unified Virtual Address Space", 0, func(c *trial) {
			if c.attr(cu.DeviceAttributeUnifiedAddressing) == 0 {
				c.skip("no unified addressing")
			}
			o, mine := c.newContext(cu.CtxMapHost), c.device(64)
			theirs, err := c.d.MemAlloc(o, 64)
			c.ok(err, "allocate in the other context")
			c.ok(c.d.MemsetD32(o, theirs, 42, 16), "fill in the other context")
			c.ok(c.d.CtxSynchronize(o), "the other context")
			c.launch(0, "copy", 16, mine, theirs, uint32(16))
			c.same("read", c.down(mine, 64), repeated(42, 16))
			c.launch(0, "store", 16, theirs, uint32(7), uint32(16))
			c.syncAll()
			got := c.pinned(64, portable)
			c.ok(c.d.MemcpyDtoH(o, got.p, theirs, 64), "copy in the other context")
			c.same("written", got.b, repeated(7, 16))
		}},
}
