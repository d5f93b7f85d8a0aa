package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const exclusiveDoc = "Programming Guide: Unified Memory Programming, Coherency and Concurrency; concurrentManagedAccess"

// hostMay is what an emulated device says to a use of memory by the host;
// hardware is not asked, it would end the process.
func (c *T) hostMay(b []byte) error {
	if e := cu.AsEmulated(c.d); e != nil {
		return e.HostAccess(pointerTo(b), uintptr(len(b)), true)
	}
	return nil
}

// attach changes whose some managed memory is, and waits.
func (c *T) attach(s cu.Stream, p cu.DevicePtr, flags cu.MemAttachFlags) {
	c.ok(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, flags), "attach")
	c.sync(s)
}

// managedExclusiveChecks are about who may use managed memory when.
var managedExclusiveChecks = []check{
	{"managed/host-during-kernel-forbidden", "without concurrent access the host must not use managed memory while a kernel is queued or running, even one that does not use it",
		exclusiveDoc, needExclusiveManaged | needMapHost, func(c *T) {
			_, b := c.managed(2*page, attachGlobal)
			g, s := c.behind(cu.StreamNonBlocking)
			c.want(c.hostMay(b), "use by the host while a kernel is queued", cu.ErrorIllegalState)
			g.running(s)
			c.want(c.hostMay(b[page:]), "use of a part while it runs", cu.ErrorIllegalState)
			g.open()
			c.sync(s)
			c.ok(c.hostMay(b), "use by the host after the kernel")
		}},
	{"managed/host-attached-during-kernel", "memory attached to the host is the host's while kernels run",
		exclusiveDoc + ", Stream Associated Memory", needManaged | needMapHost, func(c *T) {
			_, b := c.managed(page, attachHost)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.ok(c.hostMay(b), "use by the host")
			c.scramble(b)
			c.busy(s)
		}},
	{"managed/stream-attached-during-kernel", "memory attached to a stream is the host's while other streams' kernels run",
		exclusiveDoc + ", Stream Associated Memory", needManaged | needMapHost, func(c *T) {
			p, b := c.managed(page, attachGlobal)
			own := c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.ok(c.hostMay(b), "use by the host")
			want := c.random(page)
			copy(b, want)
			g.open()
			c.sync(s)
			c.launch(own, "inc", page/4, p, uint32(2), uint32(page/4))
			c.sync(own)
			c.touch(b)
			c.same("written beside a kernel, then incremented", b, plus(want, 2))
		}},
	{"managed/own-stream-busy", "memory attached to a stream is not the host's while that stream has kernels",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needMapHost, func(c *T) {
			p, b := c.managed(page, attachGlobal)
			own := c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			g := c.gate()
			g.hold(own)
			c.want(c.hostMay(b), "use by the host", cu.ErrorIllegalState)
			g.open()
			c.sync(own)
			c.ok(c.hostMay(b), "use by the host after the kernel")
		}},
	{"managed/kernel-uses-host-attached", "without concurrent access a kernel that uses memory attached to the host faults",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needLone, func(c *T) {
			p, _ := c.managed(page, attachHost)
			c.faulty(0, p)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"managed/kernel-uses-other-streams", "without concurrent access a kernel that uses memory attached to another stream faults",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needLone, func(c *T) {
			p, _ := c.managed(page, attachGlobal)
			own, other := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			c.faulty(own, p)
			c.ok(c.stuck(own), "its own stream")
			c.faulty(other, p)
			c.want(c.stuck(other), "another stream", cu.ErrorIllegalAddress)
		}},
}
