package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const (
	placesDoc  = "Driver API: Unified Addressing, cuMemPrefetchAsync (v2), cuMemAdvise (v2)"
	discardDoc = "Driver API: Unified Addressing, cuMemDiscardBatchAsync"
	rangesDoc  = "Driver API: Unified Addressing, cuMemPrefetchBatchAsync"
	needPlaces = needManaged | needConcurrentManaged
)

// onDevice, onHost and onNode are places.
func (c *trial) onDevice() cu.MemLocation {
	return cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}
}

func onHost() cu.MemLocation { return cu.MemLocation{Type: cu.MemLocationTypeHost, ID: 77} } // the number is ignored

func onNode(n int32) cu.MemLocation { return cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: n} }

// node returns a NUMA node of the host: the one of the device, or 0.
func (c *trial) node() int32 { return max(0, int32(c.attr(cu.DeviceAttributeHostNUMAID))) }

// prefetchTo queues a prefetch. The case skips where the driver has no places.
func (c *trial) prefetchTo(at cu.MemLocation, p cu.DevicePtr, n int, s cu.Stream) {
	c.ok(c.d.MemPrefetchAsyncV2(c.ctx, p, uintptr(n), at, 0, s), "prefetch to a place")
}

// sizesOf returns sizes of one length.
func sizesOf(n uintptr, count int) []uintptr {
	all := make([]uintptr, count)
	for i := range all {
		all[i] = n
	}
	return all
}

var managedPlacesChecks = []check{
	{"managed/prefetch-to-places", "a prefetch to a device, the host, a NUMA node or that of the thread changes no contents",
		placesDoc, needPlaces, func(c *trial) {
			const n = 4<<20 + 40
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			s := c.stream(cu.StreamNonBlocking)
			for i, at := range []cu.MemLocation{c.onDevice(), onHost(), c.onDevice(), onNode(c.node()), c.onDevice(), {Type: cu.MemLocationTypeHostNUMACurrent}} {
				c.prefetchTo(at, p, n, s)
				if i%2 == 0 {
					c.launch(s, "inc", n/4, p, uint32(i+1), uint32(n/4))
					want = plus(want, uint32(i+1))
				}
				c.sync(s)
				last := c.rangeAttribute(cu.MemRangeAttributeLastPrefetchLocation, p, n)
				if i < 2 {
					c.check(last == []int32{int32(c.dev), int32(cu.CPUDevice)}[i], "the last location is %d after a prefetch to %+v", last, at)
				}
				c.touch(b)
				c.same("contents", b, want)
			}
		}},
	{"managed/prefetch-to-places-misuse", "unknown places, devices, nodes and flags are refused",
		placesDoc, needPlaces, func(c *trial) {
			p, _ := c.managed(1<<20, attachGlobal)
			c.prefetchTo(onHost(), p, 1<<20, 0)
			for what, at := range map[string]cu.MemLocation{"type 0": {}, "type 99": {Type: 99}, "node -1": onNode(-1), "node 1000": onNode(1000)} {
				c.want(c.d.MemPrefetchAsyncV2(c.ctx, p, 1<<20, at, 0, 0), what, cu.ErrorInvalidValue, cu.ErrorInvalidDevice)
			}
			c.want(c.d.MemPrefetchAsyncV2(c.ctx, p, 1<<20, cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: 99}, 0, 0), "device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemPrefetchAsyncV2(c.ctx, p, 1<<20, onHost(), 1, 0), "flags 1", cu.ErrorInvalidValue)
			c.want(c.d.MemPrefetchAsyncV2(c.ctx, c.device(64), 64, onHost(), 0, 0), "device memory", cu.ErrorInvalidValue)
			c.syncAll()
		}},
	{"managed/advise-places", "a preferred location can be a device, the host or a NUMA node; accessed-by takes no node",
		placesDoc + "; cuMemRangeGetAttribute", needPlaces, func(c *trial) {
			const n = 2 << 20
			p, _ := c.managed(n, attachGlobal)
			advise := func(a cu.MemAdvice, at cu.MemLocation) error { return c.d.MemAdviseV2(c.ctx, p, n, a, at) }
			c.ok(advise(cu.MemAdviseSetPreferredLocation, c.onDevice()), "prefer the device")
			c.wantAttribute("preferred location", cu.MemRangeAttributePreferredLocation, p, n, int32(c.dev))
			c.ok(advise(cu.MemAdviseSetPreferredLocation, onHost()), "prefer the host")
			c.wantAttribute("preferred location", cu.MemRangeAttributePreferredLocation, p, n, int32(cu.CPUDevice))
			c.ok(advise(cu.MemAdviseSetPreferredLocation, onNode(c.node())), "prefer a node")
			c.observe("the preferred location as a device, if it is a node", c.rangeAttribute(cu.MemRangeAttributePreferredLocation, p, n))
			for _, a := range []cu.MemAdvice{cu.MemAdviseUnsetPreferredLocation, cu.MemAdviseSetReadMostly, cu.MemAdviseSetPreferredLocation} {
				c.want(advise(a, cu.MemLocation{}), "no type of location", cu.ErrorInvalidValue)
			}
			c.ok(advise(cu.MemAdviseUnsetPreferredLocation, onHost()), "prefer nothing")
			c.wantAttribute("preferred location", cu.MemRangeAttributePreferredLocation, p, n, int32(cu.InvalidDevice))
			c.ok(advise(cu.MemAdviseSetReadMostly, onHost()), "read-mostly")
			c.wantAttribute("read-mostly", cu.MemRangeAttributeReadMostly, p, n, 1)
			c.ok(advise(cu.MemAdviseSetAccessedBy, c.onDevice()), "accessed by the device")
			c.wantAttribute("accessed by", cu.MemRangeAttributeAccessedBy, p, n, int32(c.dev))
			c.want(advise(cu.MemAdviseSetAccessedBy, onNode(c.node())), "accessed by a node", cu.ErrorInvalidValue)
			c.want(advise(77, onHost()), "advice 77", cu.ErrorInvalidValue)
		}},
	{"managed/prefetch-batch", "a list of prefetches moves each range to its place, and changes no contents",
		rangesDoc, needPlaces, func(c *trial) {
			const n = 2 << 20
			p, b := c.managed(3*n, attachGlobal)
			want := append([]byte(nil), b...)
			s := c.stream(cu.StreamNonBlocking)
			ranges := []cu.DevicePtr{p, p + n, p + 2*n}
			c.ok(c.d.MemPrefetchBatchAsync(c.ctx, ranges, sizesOf(n, 3), []cu.MemLocation{c.onDevice(), onHost()}, []uintptr{0, 2}, 0, s), "prefetch")
			c.sync(s)
			for i, at := range []int32{int32(c.dev), int32(c.dev), int32(cu.CPUDevice)} {
				c.wantAttribute("last location", cu.MemRangeAttributeLastPrefetchLocation, ranges[i], n, at)
			}
			c.touch(b)
			c.same("contents", b, want)
		}},
	{"managed/discard-batch", "a discarded range can be written again, and others keep their contents",
		discardDoc, needPlaces, func(c *trial) {
			const n = 2 << 20
			p, b := c.managed(3*n, attachGlobal)
			want := append([]byte(nil), b...)
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.MemDiscardBatchAsync(c.ctx, []cu.DevicePtr{p + n, p + 2*n}, sizesOf(n, 2), 0, s), "discard")
			c.launch(s, "store", n/4, p+n, uint32(0x1234567), uint32(n/4))
			c.sync(s)
			c.touch(b)
			c.same("the range before", b[:n], want[:n])
			c.same("the range that was written", b[n:2*n], repeated(0x1234567, n/4))
			for i := range b[2*n:] {
				b[2*n+i] = byte(i)
			}
			copy(want[2*n:], b[2*n:])
			c.launch(s, "inc", n/4, p+2*n, uint32(3), uint32(n/4))
			c.sync(s)
			c.touch(b)
			c.same("the range that the host wrote", b[2*n:], plus(want[2*n:], 3))
		}},
	{"managed/discard-in-order", "a discard happens after the work before it in its stream",
		discardDoc, needPlaces, func(c *trial) {
			const n = 2 << 20
			p, _ := c.managed(n, attachGlobal)
			q, s := c.device(n), c.stream(cu.StreamNonBlocking)
			for i := range uint32(5) {
				c.launch(s, "store", n/4, p, 0x7654000+i, uint32(n/4))
				c.launch(s, "copy", n/4, q, p, uint32(n/4))
				c.ok(c.d.MemDiscardBatchAsync(c.ctx, []cu.DevicePtr{p}, sizesOf(n, 1), 0, s), "discard")
				c.sync(s)
				c.same("what was read before the discard", c.down(q, n), repeated(0x7654000+i, n/4))
			}
		}},
	{"managed/discard-and-prefetch-batch", "discarded and prefetched ranges are where they were sent, and can be written",
		"Driver API: Unified Addressing, cuMemDiscardAndPrefetchBatchAsync", needPlaces, func(c *trial) {
			const n = 2 << 20
			p, b := c.managed(2*n, attachGlobal)
			want := append([]byte(nil), b[n:]...)
			s := c.stream(cu.StreamNonBlocking)
			c.ok(c.d.MemDiscardAndPrefetchBatchAsync(c.ctx, []cu.DevicePtr{p}, sizesOf(n, 1), []cu.MemLocation{c.onDevice()}, []uintptr{0}, 0, s), "discard and prefetch")
			c.launch(s, "store", n/4, p, uint32(0x2345678), uint32(n/4))
			c.sync(s)
			c.wantAttribute("last location", cu.MemRangeAttributeLastPrefetchLocation, p, n, int32(c.dev))
			c.touch(b)
			c.same("the range", b[:n], repeated(0x2345678, n/4))
			c.same("the range behind", b[n:], want)
		}},
	{"managed/batch-misuse", "lists need a stream, ranges of managed memory, flags 0, and places that begin at 0 and ascend",
		rangesDoc + ", cuMemDiscardBatchAsync", needPlaces, func(c *trial) {
			const n = 1 << 20
			p, b := c.managed(4*n, attachGlobal)
			want := append([]byte(nil), b...)
			s, plain := c.stream(cu.StreamNonBlocking), c.device(n)
			ranges, places := []cu.DevicePtr{p, p + n}, []cu.MemLocation{onHost(), c.onDevice()}
			discard := func(ranges []cu.DevicePtr, n uintptr, flags uint64, s cu.Stream) error {
				return c.d.MemDiscardBatchAsync(c.ctx, ranges, sizesOf(n, len(ranges)), flags, s)
			}
			move := func(places []cu.MemLocation, firsts ...uintptr) error {
				return c.d.MemPrefetchBatchAsync(c.ctx, ranges, sizesOf(n, 2), places, firsts, 0, s)
			}
			c.ok(move(places, 0, 1), "a right list")
			for what, err := range map[string]error{
				"the default stream": discard(ranges, n, 0, 0), "flags 1": discard(ranges, n, 1, s), "device memory": discard([]cu.DevicePtr{p, plain}, n, 0, s),
				"past the end": discard([]cu.DevicePtr{p + 3*n}, 2*n, 0, s), "no places": move(nil), "a first range of 1": move(places[:1], 1),
				"first ranges that descend": move(append(places, onHost())[1:], 1, 0), "a first range past the end": move(places, 0, 2),
				"more places than ranges": move(append(places, onHost()), 0, 1, 2),
			} {
				c.want(err, what, cu.ErrorInvalidValue)
			}
			c.want(move(places, 0, 0), "two places for one range", cu.ErrorInvalidValue, cu.Success)
			c.want(move([]cu.MemLocation{{Type: cu.MemLocationTypeDevice, ID: 99}}, 0), "device 99", cu.ErrorInvalidDevice, cu.ErrorInvalidValue)
			c.sync(s)
			c.touch(b)
			c.same("contents", b, want)
		}},
	{"managed/batch-without-concurrent-access", "lists of ranges need concurrent access of every device",
		rangesDoc, needManaged, func(c *trial) {
			if c.attr(cu.DeviceAttributeConcurrentManagedAccess) != 0 {
				c.skip("the device has concurrent access")
			}
			p, _ := c.managed(1<<20, attachGlobal)
			err := c.d.MemDiscardBatchAsync(c.ctx, []cu.DevicePtr{p}, sizesOf(1<<20, 1), 0, c.stream(cu.StreamNonBlocking))
			c.skipMissing(err)
			c.check(err != nil, "the discard succeeded")
			c.observeError("discard without concurrent access", err)
		}},
}
