package cutest

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const managedDoc = "Programming Guide: Unified Memory Programming; Driver API: cuMemAllocManaged"

const (
	attachGlobal = cu.MemAttachGlobal
	attachHost   = cu.MemAttachHost
	attachSingle = cu.MemAttachSingle
)

var managedChecks = []check{
	{"managed/without-capability", "a device without managed memory says so",
		managedDoc, 0, func(c *T) {
			p, err := c.d.MemAllocManaged(c.ctx, page, attachGlobal)
			if c.attr(cu.DeviceAttributeManagedMemory) == 0 {
				c.want(err, "allocate", cu.ErrorNotSupported)
				return
			}
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
		}},
	{"managed/host-device-host", "host and kernels share managed memory at one address",
		managedDoc, needManaged, func(c *T) {
			const n = 100_003
			p, b := c.managed(4*n, attachGlobal)
			for i := range uint32(4) {
				c.touch(b)
				c.scramble(b)
				want := plus(b, 17+i)
				c.launch(0, "inc", n, p, 17+i, uint32(n))
				c.syncAll()
				c.touch(b)
				c.same("incremented by a kernel", b, want)
			}
		}},
	{"managed/sparse-touch", "host and device use different pages of one allocation in turns",
		managedDoc, needManaged, func(c *T) {
			const pages = 600
			p, b := c.managed(pages*page, attachGlobal)
			want := append([]byte(nil), b...)
			for i := 0; i < pages; i += 37 {
				c.launch(0, "store", 3, p+cu.DevicePtr(i*page+12), uint32(i), uint32(3))
				copy(want[i*page+12:], repeated(uint32(i), 3))
			}
			c.syncAll()
			c.touch(b)
			c.same("all pages", b, want)
			for i := 5; i < pages; i += 53 {
				b[i*page+100] ^= 0xff
				want[i*page+100] ^= 0xff
			}
			q := c.device(pages * page)
			c.ok(c.d.MemcpyDtoD(c.ctx, q, p, pages*page), "copy")
			c.same("what the device sees", c.down(q, pages*page), want)
		}},
	{"managed/mixed-pointers", "managed, device and page-locked memory go into one launch",
		managedDoc, needManaged | needMapHost, func(c *T) {
			const n = 1500
			m, mb := c.managed(4*n, attachGlobal)
			d, h := c.device(4*n), c.mapped(4*n)
			out, outb := c.managed(4*n, attachGlobal)
			copy(mb, repeated(1, n))
			c.up(d, repeated(20, n))
			copy(h.b, repeated(300, n))
			c.launch(0, "add3", n, out, m, d, h.dev, uint32(n))
			c.syncAll()
			c.touch(outb)
			c.same("the sum", outb, repeated(321, n))
		}},
	{"managed/globals", "a managed variable of a module is one variable to host and kernels",
		"Programming Guide: Unified Memory Programming, Declaring Managed Variables", needManaged, func(c *T) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(ptxManaged))
			c.ok(err, "load")
			c.later(func() { c.undo("unload", c.d.ModuleUnload(c.ctx, m)) })
			f, err := c.d.ModuleGetFunction(c.ctx, m, "bump")
			c.ok(err, "kernel")
			count, size, err := c.d.ModuleGetGlobal(c.ctx, m, "shared_count")
			c.ok(err, "variable")
			c.check(size == 4, "size %d, want 4", size)
			room, size, err := c.d.ModuleGetGlobal(c.ctx, m, "shared_room")
			c.ok(err, "array")
			c.check(size == page, "size %d, want %d", size, page)
			v, r := hostBytes(hostPointer(count), 4), hostBytes(hostPointer(room), page)
			c.touch(v)
			c.check(word(v, 0) == 1000, "initial value %d, want 1000", word(v, 0))
			for i := range uint32(3) {
				c.touch(v)
				copy(v, words(5000*i))
				c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(7))), "launch")
				c.syncAll()
				c.touch(v)
				c.touch(r)
				c.check(word(v, 0) == 5000*i+7 && word(r, 1023) == 5000*i+7, "got %d and %d, want %d", word(v, 0), word(r, 1023), 5000*i+7)
			}
			a, err := c.d.PointerGetAttributes(c.ctx, count)
			c.ok(err, "attributes")
			c.check(a.IsManaged, "the variable is said not to be managed")
		}},
	{"managed/copies", "copies name managed memory as source and destination",
		managedDoc, needManaged, func(c *T) {
			const n = 1<<20 + 9
			p, b := c.managed(n, attachGlobal)
			want := append([]byte(nil), b...)
			out := c.pageable(n)
			c.ok(c.d.MemcpyDtoH(c.ctx, pointerTo(out), p, n), "out")
			c.same("copied out", out, want)
			c.scramble(out)
			c.ok(c.d.MemcpyHtoD(c.ctx, p, pointerTo(out), n), "in")
			c.syncAll()
			c.touch(b)
			c.same("copied in", b, out)
		}},
	{"managed/free-misuse", "managed memory is freed once, by its start",
		"Driver API: cuMemFree", needManaged, func(c *T) {
			p, err := c.d.MemAllocManaged(c.ctx, 1<<20, attachGlobal)
			c.ok(err, "allocate")
			c.want(c.d.MemFree(c.ctx, p+page), "free inside", cu.ErrorInvalidValue)
			c.want(c.d.MemFreeHost(c.ctx, hostPointer(p)), "free as page-locked", cu.ErrorInvalidValue)
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.want(c.d.MemFree(c.ctx, p), "free twice", cu.ErrorInvalidValue)
		}},
	{"managed/alloc-misuse", "managed memory wants a size and exactly global or host attachment",
		"Driver API: cuMemAllocManaged", needManaged, func(c *T) {
			for _, a := range []struct {
				n     uintptr
				flags cu.MemAttachFlags
			}{{0, attachGlobal}, {page, 0}, {page, attachSingle}, {page, attachGlobal | attachHost}, {page, 0x80}} {
				p, err := c.d.MemAllocManaged(c.ctx, a.n, a.flags)
				c.want(err, "allocate", cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.MemFree(c.ctx, p)
				}
			}
		}},
	{"managed/host-during-kernel", "with concurrent access the host uses managed memory while kernels run",
		"Programming Guide: Unified Memory Programming, Coherency and Concurrency", needManaged | needConcurrentManaged | needMapHost, func(c *T) {
			p, b := c.managed(2*page, attachGlobal)
			want := c.random(page)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			done := make(chan struct{})
			go func() {
				defer close(done)
				copy(b[page:], want)
			}()
			c.step("a host write to managed memory while a kernel runs")
			select {
			case <-done:
			case <-time.After(patience):
				c.fatal("a host write to managed memory waited for a kernel")
			}
			c.busy(s)
			c.launch(s, "inc", page/4, p+page, uint32(3), uint32(page/4))
			g.open()
			c.sync(s)
			c.touch(b)
			c.same("written during a kernel, incremented after it", b[page:], plus(want, 3))
		}},
	{"managed/out-of-memory", "more managed memory than addresses is out of memory",
		"Driver API: cuMemAllocManaged", needManaged, func(c *T) {
			_, err := c.d.MemAllocManaged(c.ctx, 1<<52, attachGlobal)
			c.want(err, "allocate 4 PiB", cu.ErrorOutOfMemory, cu.ErrorInvalidValue)
		}},
}

// rangeAttribute asks for one number about a range.
func (c *T) rangeAttribute(a cu.MemRangeAttribute, p cu.DevicePtr, n int) int32 {
	v := []int32{-99}
	c.ok(c.d.MemRangeGetAttribute(c.ctx, v, a, p, uintptr(n)), "range attribute")
	return v[0]
}

func (c *T) advise(p cu.DevicePtr, n int, a cu.MemAdvice, dev cu.Device) {
	c.ok(c.d.MemAdvise(c.ctx, p, uintptr(n), a, dev), "advise")
}

func (c *T) wantAttribute(what string, a cu.MemRangeAttribute, p cu.DevicePtr, n int, want int32) {
	got := c.rangeAttribute(a, p, n)
	c.check(got == want, "%s: got %d, want %d", what, got, want)
}

const (
	adviseDoc   = "Driver API: cuMemAdvise, cuMemRangeGetAttribute"
	prefetchDoc = "Programming Guide: Unified Memory Programming, Data Prefetching; Driver API: cuMemPrefetchAsync"
)

var managedAdviceChecks = []check{
	{"managed/prefetch", "prefetching moves pages and not contents; the last destination reads back",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *T) {
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
	{"managed/prefetch-part", "a part can be prefetched; over parts that differ the location is none",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *T) {
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
	{"managed/prefetch-ordered", "a prefetch takes its turn in its stream",
		prefetchDoc, needManaged | needConcurrentManaged | needMapHost, func(c *T) {
			p, _ := c.managed(4<<20, attachGlobal)
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			returned, err := c.returns(g, "MemPrefetchAsync", patience/8, func() error { return c.d.MemPrefetchAsync(c.ctx, p, 4<<20, c.dev, s) })
			c.ok(err, "prefetch")
			c.observe("managed.prefetch-behind-a-kernel.returns-at-once", returned)
			g.open()
			c.sync(s)
		}},
	{"managed/prefetch-misuse", "a prefetch wants managed memory, a whole range and a device that is there",
		prefetchDoc, needManaged | needConcurrentManaged, func(c *T) {
			p, _ := c.managed(1<<20, attachGlobal)
			d := c.device(1 << 20)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 1<<20, 99, 0), "to device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemPrefetchAsync(c.ctx, d, 1<<20, c.dev, 0), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 64<<20, c.dev, 0), "past the end", cu.ErrorInvalidValue)
			c.want(c.d.MemPrefetchAsync(c.ctx, p, 0, c.dev, 0), "managed.prefetch-nothing", cu.ErrorInvalidValue, cu.Success)
			c.syncAll()
		}},
	{"managed/prefetch-without-concurrent-access", "without concurrent access nothing is prefetched to the device",
		prefetchDoc, needManaged, func(c *T) {
			p, _ := c.managed(1<<20, attachGlobal)
			err := c.d.MemPrefetchAsync(c.ctx, p, 1<<20, c.dev, 0)
			if c.attr(cu.DeviceAttributeConcurrentManagedAccess) == 0 {
				c.want(err, "prefetch", cu.ErrorInvalidDevice, cu.ErrorNotSupported)
				return
			}
			c.ok(err, "prefetch")
			c.syncAll()
		}},
	{"managed/advise-read-mostly", "read-mostly is set, read back and taken back",
		adviseDoc, needManaged | needConcurrentManaged, func(c *T) {
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
	{"managed/advise-preferred-location", "the preferred location is a device or the host, and can be taken back",
		adviseDoc, needManaged | needConcurrentManaged, func(c *T) {
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
	{"managed/advise-accessed-by", "accessed-by collects devices, the host among them",
		adviseDoc, needManaged | needConcurrentManaged, func(c *T) {
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
			both := get()
			c.observe("managed.accessed-by.device-and-host", both)
			c.check(both == [3]int32{int32(c.dev), -1, none} || both == [3]int32{-1, int32(c.dev), none}, "with both: %v", both)
			c.advise(p, n, cu.MemAdviseUnsetAccessedBy, c.dev)
			c.check(get() == [3]int32{-1, none, none}, "with the host: %v", get())
		}},
	{"managed/advise-misuse", "advice wants managed memory, a known advice and a device that is there",
		adviseDoc, needManaged | needConcurrentManaged, func(c *T) {
			p, _ := c.managed(1<<20, attachGlobal)
			d := c.device(1 << 20)
			c.want(c.d.MemAdvise(c.ctx, p, 1<<20, cu.MemAdviseSetPreferredLocation, 99), "device 99", cu.ErrorInvalidDevice)
			c.want(c.d.MemAdvise(c.ctx, p, 1<<20, 77, c.dev), "advice 77", cu.ErrorInvalidValue)
			c.want(c.d.MemAdvise(c.ctx, d, 1<<20, cu.MemAdviseSetReadMostly, c.dev), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemAdvise(c.ctx, p, 64<<20, cu.MemAdviseSetReadMostly, c.dev), "past the end", cu.ErrorInvalidValue)
			c.observeError("managed.advise-pageable", c.d.MemAdvise(c.ctx, addressOf(c.pageable(1<<20)), 1<<20, cu.MemAdviseSetReadMostly, c.dev))
		}},
	{"managed/range-attribute-misuse", "range attributes are of managed memory only",
		"Driver API: cuMemRangeGetAttribute", needManaged | needConcurrentManaged, func(c *T) {
			p, _ := c.managed(1<<20, attachGlobal)
			v := []int32{0}
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, 99, p, 1<<20), "attribute 99", cu.ErrorInvalidValue)
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, cu.MemRangeAttributeReadMostly, c.device(1<<20), 1<<20), "device memory", cu.ErrorInvalidValue)
			c.want(c.d.MemRangeGetAttribute(c.ctx, v, cu.MemRangeAttributeReadMostly, p, 0), "managed.range-attribute-of-nothing", cu.ErrorInvalidValue, cu.Success)
		}},
}

const attachDoc = "Programming Guide: Unified Memory Programming, Stream Associated Memory; Driver API: cuStreamAttachMemAsync"

var managedAttachChecks = []check{
	{"managed/attach-to-stream", "memory attached to a stream is used by that stream and the host",
		attachDoc, needManaged, func(c *T) {
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
	{"managed/attach-global-and-host", "memory moves between global and host attachment",
		attachDoc, needManaged, func(c *T) {
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
	{"managed/attach-misuse", "attachment wants managed memory, all of it, one flag and a stream of its own",
		attachDoc, needManaged, func(c *T) {
			p, _ := c.managed(4*page, attachGlobal)
			s := c.stream(cu.StreamDefault)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, page, attachSingle), "a part", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p+page, 0, attachSingle), "an interior address", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, 0), "no flag", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, p, 0, attachHost|attachGlobal), "two flags", cu.ErrorInvalidValue)
			c.want(c.d.StreamAttachMemAsync(c.ctx, 0, p, 0, attachSingle), "the legacy stream alone", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			c.want(c.d.StreamAttachMemAsync(c.ctx, s, c.device(page), 0, attachSingle), "device memory", cu.ErrorInvalidValue)
		}},
}
