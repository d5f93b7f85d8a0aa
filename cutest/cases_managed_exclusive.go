package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const exclusiveDoc = "Programming Guide: Unified Memory Programming, Coherency and Concurrency; concurrentManagedAccess"

// hostAccess announces an access of the host to an emulated device. It does nothing on
// hardware, which would end the process.
func (c *trial) hostAccess(b []byte) error {
	if e := cu.AsEmulated(c.d); e != nil {
		return e.HostAccess(pointerTo(b), uintptr(len(b)), true)
	}
	return nil
}

// attach changes the attachment of managed memory, and waits.
func (c *trial) attach(s cu.Stream, p cu.DevicePtr, flags cu.MemAttachFlags) {
	c.ok(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, flags), "attach")
	c.sync(s)
}

// managedExclusiveChecks test when host and streams may use managed memory.
var managedExclusiveChecks = []check{
	{"managed/host-during-kernel-forbidden", "without concurrent access the host must not use managed memory while a kernel is queued or running, even one that does not use it",
		exclusiveDoc, needExclusiveManaged | needMapHost, func(c *trial) {
			_, b := c.managed(2*page, attachGlobal)
			g, s := c.behind(cu.StreamNonBlocking)
			c.want(c.hostAccess(b), "use by the host while a kernel is queued", cu.ErrorIllegalState)
			g.running(s)
			c.want(c.hostAccess(b[page:]), "use of a part while it runs", cu.ErrorIllegalState)
			g.open()
			c.sync(s)
			c.ok(c.hostAccess(b), "use by the host after the kernel")
		}},
	{"managed/host-attached-during-kernel", "the host can use memory attached to it while kernels run",
		exclusiveDoc + ", Stream Associated Memory", needManaged | needMapHost, func(c *trial) {
			_, b := c.managed(page, attachHost)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.ok(c.hostAccess(b), "use by the host")
			c.scramble(b)
			c.busy(s)
		}},
	{"managed/stream-attached-during-kernel", "the host can use memory attached to a stream while kernels of other streams run",
		exclusiveDoc + ", Stream Associated Memory", needManaged | needMapHost, func(c *trial) {
			p, b := c.managed(page, attachGlobal)
			own := c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.ok(c.hostAccess(b), "use by the host")
			want := c.random(page)
			copy(b, want)
			g.open()
			c.sync(s)
			c.launch(own, "inc", page/4, p, uint32(2), uint32(page/4))
			c.sync(own)
			c.touch(b)
			c.same("written beside a kernel, then incremented", b, plus(want, 2))
		}},
	{"managed/own-stream-busy", "the host must not use memory attached to a stream while that stream has kernels",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needMapHost, func(c *trial) {
			p, b := c.managed(page, attachGlobal)
			own := c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			g := c.gate()
			g.hold(own)
			c.want(c.hostAccess(b), "use by the host", cu.ErrorIllegalState)
			g.open()
			c.sync(own)
			c.ok(c.hostAccess(b), "use by the host after the kernel")
		}},
	{"managed/kernel-uses-host-attached", "without concurrent access a kernel that uses memory attached to the host faults",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needIsolation, func(c *trial) {
			p, _ := c.managed(page, attachHost)
			c.launchFaulty(0, p)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"managed/kernel-uses-other-streams", "without concurrent access a kernel that uses memory attached to another stream faults",
		exclusiveDoc + ", Stream Associated Memory", needExclusiveManaged | needIsolation, func(c *trial) {
			p, _ := c.managed(page, attachGlobal)
			own, other := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			c.attach(own, p, attachSingle)
			c.launchFaulty(own, p)
			c.ok(c.waitForFault(own), "its own stream")
			c.launchFaulty(other, p)
			c.want(c.waitForFault(other), "another stream", cu.ErrorIllegalAddress)
		}},
}
