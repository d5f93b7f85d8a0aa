package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

// rangeAttribute reads a range attribute that is one number.
func (c *trial) rangeAttribute(a cu.MemRangeAttribute, p cu.DevicePtr, n int) int32 {
	v := []int32{-99}
	c.ok(c.d.MemRangeGetAttribute(c.ctx, v, a, p, uintptr(n)), "range attribute")
	return v[0]
}

func (c *trial) advise(p cu.DevicePtr, n int, a cu.MemAdvice, dev cu.Device) {
	c.ok(c.d.MemAdvise(c.ctx, p, uintptr(n), a, dev), "advise")
}

func (c *trial) wantAttribute(what string, a cu.MemRangeAttribute, p cu.DevicePtr, n int, want int32) {
	got := c.rangeAttribute(a, p, n)
	c.check(got == want, "%s: got %d, want %d", what, got, want)
}

const (
	adviseDoc   = "Driver API: cuMemAdvise, cuMemRangeGetAttribute"
	prefetchDoc = "Programming Guide: Unified Memory Programming, Data Prefetching; Driver API: cuMemPrefetchAsync"
)

var managedAdviceChecks = []check{
	{"managed/prefetch", "a prefetch moves pages without changing their contents, and the last destination can be read",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *trial) {
			const n = 4<<20 + 40
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			s := c.stream(cu.StreamNonBlocking)
			none := int32(cu.InvalidDevice)
			c.wantAttribute("before any prefetch", cu.MemRangeAttributeLastPrefetchLocation, p, n, none)
			c.ok(c.d.MemPrefetchAsync(c.ctx, p, n, c.dev, s), "prefetch to the device")
			c.sync(s)
			c.wantAttribute("after a prefetch to the device", cu.MemRangeAttributeLastPrefetchLocation, p, n, int32(c.dev))
			c.launch(s, "inc", n/4, p, uint32(2), uint32(n/4))
			c.ok(c.d.MemPrefetchAsync(c.ctx, p, n, cu.CPUDevice, s), "prefetch to the host")
			c.sync(s)
			c.wantAttribute("after a prefetch to the host", cu.MemRangeAttributeLastPrefetchLocation, p, n, int32(cu.CPUDevice))
			c.touch(b)
			c.same("contents", b, plus(want, 2))
		}},
	{"managed/prefetch-part", "a part of an allocation can be prefetched; a range whose parts were prefetched to different places has no last location",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *trial) {
			const n = 8 << 20
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			c.ok(c.d.MemPrefetchAsync(c.ctx, p, n/2, c.dev, 0), "prefetch the first half")
			c.syncAll()
			c.wantAttribute("first half", cu.MemRangeAttributeLastPrefetchLocation, p, n/2, int32(c.dev))
			c.wantAttribute("whole", cu.MemRangeAttributeLastPrefetchLocation, p, n, int32(cu.InvalidDevice))
			c.touch(b)
			c.same("contents", b, want)
		}},
	{"managed/prefetch-ordered", "a prefetch runs in the order of its stream, and the call does not wait",
		prefetchDoc, needManaged | needConcurrentManaged | needMapHost, func(c *trial) {
			p, _ := c.managed(4<<20, attachGlobal)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.mustReturn(g, "MemPrefetchAsync", func() error { return c.d.MemPrefetchAsync(c.ctx, p, 4<<20, c.dev, s) })
			g.open()
			c.sync(s)
		}},
	{"managed/prefetch-misuse", "a prefetch needs managed memory, a range inside it and a device that exists",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *trial) {
			p, _ := c.managed(1<<20, attachGlobal)
			d := c.device(1 << 20)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 1<<20, 99, 0), "to device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemPrefetchAsync(c.ctx, d, 1<<20, c.dev, 0), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 64<<20, c.dev, 0), "past the end", cu.ErrorInvalidValue)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 0, c.dev, 0), "nothing", cu.ErrorInvalidValue)
			c.syncAll()
		}},
	{"managed/prefetch-without-concurrent-access", "without concurrent access nothing is prefetched to the device",
		prefetchDoc, needManaged, func(c *trial) {
			p, _ := c.managed(1<<20, attachGlobal)
			err := c.d.MemPrefetchAsync(c.ctx, p, 1<<20, c.dev, 0)
			if c.attr(cu.DeviceAttributeConcurrentManagedAccess) == 0 {
				c.want(err, "prefetch", cu.ErrorInvalidDevice)
				return
			}
			c.ok(err, "prefetch")
			c.syncAll()
		}},
	{"managed/advise-read-mostly", "read-mostly can be set, read and unset",
		adviseDoc, needManaged | needConcurrentManaged, func(c *trial) {
			const n = 2 << 20
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			c.wantAttribute("before", cu.MemRangeAttributeReadMostly, p, n, 0)
			c.advise(p, n, cu.MemAdviseSetReadMostly, c.dev)
			c.wantAttribute("set", cu.MemRangeAttributeReadMostly, p, n, 1)
			q := c.device(n)
			c.launch(0, "copy", n/4, q, p, uint32(n/4))
			c.same("what the device reads", c.down(q, n), want)
			c.touch(b)
			c.same("what the host reads", b, want)
			c.launch(0, "inc", n/4, p, uint32(1), uint32(n/4))
			c.syncAll()
			c.touch(b)
			c.same("written in spite of the advice", b, plus(want, 1))
			c.advise(p, n, cu.MemAdviseUnsetReadMostly, c.dev)
			c.wantAttribute("unset", cu.MemRangeAttributeReadMostly, p, n, 0)
		}},
	{"managed/advise-preferred-location", "the preferred location is a device or the host, and can be unset",
		adviseDoc, needManaged | needConcurrentManaged, func(c *trial) {
			const n = 2 << 20
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			c.wantAttribute("before", cu.MemRangeAttributePreferredLocation, p, n, int32(cu.InvalidDevice))
			c.advise(p, n, cu.MemAdviseSetPreferredLocation, c.dev)
			c.wantAttribute("the device", cu.MemRangeAttributePreferredLocation, p, n, int32(c.dev))
			c.advise(p, n, cu.MemAdviseSetPreferredLocation, cu.CPUDevice)
			c.wantAttribute("the host", cu.MemRangeAttributePreferredLocation, p, n, int32(cu.CPUDevice))
			c.launch(0, "inc", n/4, p, uint32(1), uint32(n/4))
			c.syncAll()
			c.touch(b)
			c.same("contents", b, plus(want, 1))
			c.advise(p, n, cu.MemAdviseUnsetPreferredLocation, c.dev)
			c.wantAttribute("unset", cu.MemRangeAttributePreferredLocation, p, n, int32(cu.InvalidDevice))
		}},
	{"managed/advise-accessed-by", "accessed-by has a list of devices, which can include the host",
		adviseDoc, needManaged | needConcurrentManaged, func(c *trial) {
			const n = 2 << 20
			p, _ := c.managed(n, attachGlobal)
			get := func() [3]int32 {
				v := []int32{-99, -99, -99}
				c.ok(c.d.MemRangeGetAttribute(c.ctx, v, cu.MemRangeAttributeAccessedBy, p, n), "accessed by")
				return [3]int32(v)
			}
			none := int32(cu.InvalidDevice)
			c.check(get() == [3]int32{none, none, none}, "before: %v", get())
			c.advise(p, n, cu.MemAdviseSetAccessedBy, c.dev)
			c.check(get() == [3]int32{int32(c.dev), none, none}, "with the device: %v", get())
			c.advise(p, n, cu.MemAdviseSetAccessedBy, cu.CPUDevice)
			c.check(get() == [3]int32{int32(c.dev), -1, none}, "with both: %v", get())
			c.advise(p, n, cu.MemAdviseUnsetAccessedBy, c.dev)
			c.check(get() == [3]int32{-1, none, none}, "with the host: %v", get())
		}},
	{"managed/advise-misuse", "advice needs managed memory, a known kind of advice and an existing device",
		adviseDoc, needManaged | needConcurrentManaged, func(c *trial) {
			p, _ := c.managed(1<<20, attachGlobal)
			d := c.device(1 << 20)
			c.want(c.d.MemAdvise(c.ctx, p, 1<<20, cu.MemAdviseSetPreferredLocation, 99), "device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemAdvise(c.ctx, p, 1<<20, 77, c.dev), "advice 77", cu.ErrorInvalidValue)
			c.want(c.d.MemAdvise(c.ctx, d, 1<<20, cu.MemAdviseSetReadMostly, c.dev), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemAdvise(c.ctx, p, 64<<20, cu.MemAdviseSetReadMostly, c.dev), "past the end", cu.ErrorInvalidValue)
			err := c.d.MemAdvise(c.ctx, addressOf(c.pageable(1<<20)), 1<<20, cu.MemAdviseSetReadMostly, c.dev)
			if c.attr(cu.DeviceAttributePageableMemoryAccess) == 0 {
				c.want(err, "pageable memory", cu.ErrorInvalidValue)
			}
		}},
	{"managed/range-attribute-misuse", "only managed memory has range attributes",
		"Driver API: cuMemRangeGetAttribute", needManaged | needConcurrentManaged, func(c *trial) {
			p, _ := c.managed(1<<20, attachGlobal)
			v := []int32{0}
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, 99, p, 1<<20), "attribute 99", cu.ErrorInvalidValue)
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, cu.MemRangeAttributeReadMostly, c.device(1<<20), 1<<20), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, cu.MemRangeAttributeReadMostly, p, 0), "of 0 bytes", cu.ErrorInvalidValue)
		}},
}

const attachDoc = "Programming Guide: Unified Memory Programming, Stream Associated Memory; Driver API: cuStreamAttachMemAsync"

var managedAttachChecks = []check{
	{"managed/attach-to-stream", "memory attached to a stream can be used by that stream and the host",
		attachDoc, needManaged, func(c *trial) {
			const n = 5000
			p, b := c.managed(4*n, attachHost)
			s := c.stream(cu.StreamDefault)
			c.ok(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, attachSingle), "attach")
			c.sync(s)
			want := plus(b, 5)
			c.launch(s, "inc", n, p, uint32(5), uint32(n))
			c.sync(s)
			c.touch(b)
			c.same("incremented", b, want)
		}},
	{"managed/attach-global-and-host", "the attachment of memory can change between global and host",
		attachDoc, needManaged, func(c *trial) {
			const n = 2048
			p, b := c.managed(4*n, attachGlobal)
			s := c.stream(cu.StreamDefault)
			want := plus(b, 1)
			c.ok(c.d.StreamAttachMemAsync(c.ctx, s, p, 4*n, attachHost), "attach to the host")
			c.ok(c.d.StreamAttachMemAsync(c.ctx, s, p, 4*n, attachGlobal), "attach globally")
			c.launch(s, "inc", n, p, uint32(1), uint32(n))
			c.sync(s)
			c.touch(b)
			c.same("incremented", b, want)
		}},
	{"managed/attach-misuse", "attachment needs managed memory, the whole allocation, one flag, and a created stream for single attachment",
		attachDoc, needManaged, func(c *trial) {
			p, _ := c.managed(4*page, attachGlobal)
			s := c.stream(cu.StreamDefault)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, page, attachSingle), "a part", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p+page, 0, attachSingle), "an interior address", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, 0), "no flag", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, attachHost|attachGlobal), "two flags", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, 0, p, 0, attachSingle), "single attachment to the legacy stream", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, c.device(page), 0, attachSingle), "device memory", cu.ErrorInvalidValue)
		}},
}
