package check_test

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// lifetimePairs are programs about allocations, frees and bounds.
var lifetimePairs = []pair{
	{"free-of-memory-in-flight", "Memory must not be freed while a copy uses it.", check.FreeInFlight, "cuMemFree",
		func(r *rig) { p := r.alloc(); r.fill(r.a, p, size); ok(r.MemFree(r.ctx, p)) },
		func(r *rig) { p := r.alloc(); r.fill(r.a, p, size); r.sync(r.a); ok(r.MemFree(r.ctx, p)) }},
	{"free-while-a-kernel-runs", "Memory must not be freed while a kernel has its address.", check.FreeInFlight, "cuLaunchKernel",
		func(r *rig) { p := r.alloc(); r.put(r.a, p); ok(r.MemFree(r.ctx, p)) },
		func(r *rig) { p := r.alloc(); r.put(r.a, p); r.sync(r.a); ok(r.MemFree(r.ctx, p)) }},
	{"free-of-page-locked-memory-in-flight", "The same holds for page-locked memory.", check.FreeInFlight, "cuMemFreeHost",
		func(r *rig) { p := r.pinned(size); r.up(r.a, r.dev, p); ok(r.MemFreeHost(r.ctx, at(p))) },
		func(r *rig) { p := r.pinned(size); r.up(r.a, r.dev, p); r.sync(r.a); ok(r.MemFreeHost(r.ctx, at(p))) }},
	{"unregistered-in-flight", "A registration must not end while a copy uses it.", check.FreeInFlight, "cuMemHostUnregister",
		func(r *rig) { p := r.register(size); r.up(r.a, r.dev, p); ok(r.MemHostUnregister(r.ctx, at(p))) },
		func(r *rig) {
			p := r.register(size)
			r.up(r.a, r.dev, p)
			r.sync(r.a)
			ok(r.MemHostUnregister(r.ctx, at(p)))
		}},
	{"wait-for-the-wrong-event", "Before a free, wait for the stream that uses the memory.", check.FreeInFlight, "recorded again",
		func(r *rig) {
			p := r.alloc()
			r.fill(r.a, p, size)
			r.record(r.e, r.a)
			r.record(r.e, r.b)
			r.wait(r.e)
			ok(r.MemFree(r.ctx, p))
		},
		func(r *rig) {
			p := r.alloc()
			r.fill(r.a, p, size)
			r.record(r.e, r.a)
			r.wait(r.e)
			ok(r.MemFree(r.ctx, p))
		}},
	{"copy-after-free", "Freed memory must not be used.", check.UseAfterFree, "freed at",
		func(r *rig) { p := r.alloc(); ok(r.MemFree(r.ctx, p)); _ = r.MemsetD8Async(r.ctx, p, 1, size, r.a) },
		func(r *rig) { p := r.alloc(); r.fill(r.a, p, size); r.sync(r.a); ok(r.MemFree(r.ctx, p)) }},
	{"kernel-after-free", "A kernel must not use freed memory.", check.UseAfterFree, "cuLaunchKernel",
		func(r *rig) {
			p := r.alloc()
			ok(r.MemFree(r.ctx, p))
			r.put(r.a, p)
			_ = r.StreamSynchronize(r.ctx, r.a)
		},
		func(r *rig) { p := r.alloc(); r.put(r.a, p); r.sync(r.a); ok(r.MemFree(r.ctx, p)) }},
	{"freed-twice", "Memory is freed once.", check.DoubleFree, "freed at",
		func(r *rig) { p := r.alloc(); ok(r.MemFree(r.ctx, p)); _ = r.MemFree(r.ctx, p) },
		func(r *rig) { p := r.alloc(); ok(r.MemFree(r.ctx, p)); ok(r.MemFree(r.ctx, 0)) }},
	{"unregistered-twice", "A registration ends once.", check.DoubleFree, "",
		func(r *rig) {
			p := r.register(size)
			ok(r.MemHostUnregister(r.ctx, at(p)))
			_ = r.MemHostUnregister(r.ctx, at(p))
		},
		func(r *rig) { p := r.register(size); ok(r.MemHostUnregister(r.ctx, at(p))) }},
	{"freed-by-the-wrong-call", "Each call frees what its own allocation made.", check.ForeignFree, "cuMemHostAlloc",
		func(r *rig) { _ = r.MemHostUnregister(r.ctx, at(r.pinned(size))) },
		func(r *rig) { ok(r.MemFreeHost(r.ctx, at(r.pinned(size)))) }},
	{"freed-inside", "A free takes the start of an allocation.", check.ForeignFree, "256 bytes inside",
		func(r *rig) { _ = r.MemFree(r.ctx, r.alloc()+256) },
		func(r *rig) { ok(r.MemFree(r.ctx, r.alloc())) }},
	{"foreign-free", "Memory of Go is not the driver's to free.", check.ForeignFree, "no memory of this driver",
		func(r *rig) { _ = r.MemFreeHost(r.ctx, at(make([]byte, size))) },
		func(r *rig) { ok(r.MemFreeHost(r.ctx, at(r.pinned(size)))) }},
	{"past-the-end-of-device-memory", "A copy must not go past the end of an allocation.", check.OutOfRange, "1 bytes are past",
		func(r *rig) { _ = r.MemcpyHtoDAsync(r.ctx, r.dev+1, at(r.host), size, r.a) },
		func(r *rig) { ok(r.MemcpyHtoDAsync(r.ctx, r.dev+1, at(r.host), size-1, r.a)) }},
	{"fill-past-the-end", "A fill of words has four bytes each.", check.OutOfRange, "cuMemsetD32Async",
		func(r *rig) { _ = r.MemsetD32Async(r.ctx, r.dev, 1, size, r.a) },
		func(r *rig) { ok(r.MemsetD32Async(r.ctx, r.dev, 1, size/4, r.a)) }},
	{"past-the-end-of-a-registration", "A copy must not go past the edge of a registration.", check.OutOfRange, "registration",
		func(r *rig) {
			p := make([]byte, 2*size)
			ok(r.MemHostRegister(r.ctx, at(p), size, 0))
			_ = r.MemcpyHtoDAsync(r.ctx, r.dev, at(p[100:]), size, r.a)
		},
		func(r *rig) {
			p := make([]byte, 2*size)
			ok(r.MemHostRegister(r.ctx, at(p), size, 0))
			r.up(r.a, r.dev, p[100:size])
		}},
	{"used-before-its-allocation", "Memory allocated in stream order is there from this point of its stream on.", check.BeforeAlloc, "cuMemAllocAsync",
		func(r *rig) { r.fill(r.b, got(r.MemAllocAsync(r.ctx, size, r.a)), size) },
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.follow(r.b, r.a)
			r.fill(r.b, p, size)
		}},
	{"kernel-before-its-allocation", "The same holds for a kernel that gets the address.", check.BeforeAlloc, "cuLaunchKernel",
		func(r *rig) {
			hold := make(chan struct{})
			r.call(r.a, func() { <-hold })
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			close(hold)
			one := cu.Dim3{X: 1, Y: 1, Z: 1}
			_ = r.LaunchKernel(r.ctx, r.fn, one, one, 0, r.b, binary.LittleEndian.AppendUint64(nil, uint64(p)))
		},
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.follow(r.b, r.a)
			r.put(r.b, p)
		}},
	{"freed-beside-another-stream", "A free in stream order follows the work of its own stream.", check.AfterFree, "cuMemFreeAsync",
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.follow(r.b, r.a)
			r.fill(r.b, p, size)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		},
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.follow(r.b, r.a)
			r.fill(r.b, p, size)
			r.follow(r.a, r.b)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"used-behind-a-free-in-stream-order", "Memory that was freed in stream order must not be used behind the free.", check.UseAfterFree, "cuMemsetD8Async",
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			ok(r.MemFreeAsync(r.ctx, p, r.a))
			_ = r.MemsetD8Async(r.ctx, p, 1, size, r.a)
		},
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.fill(r.a, p, size)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"memory-of-a-graph-behind-its-free", "Memory that a graph frees must not be used by nodes behind the free.", check.UseAfterFree, "cuMemsetD8Async",
		func(r *rig) {
			r.graph(r.a, func() {
				p := got(r.MemAllocAsync(r.ctx, size, r.a))
				ok(r.MemFreeAsync(r.ctx, p, r.a))
				_ = r.MemsetD8Async(r.ctx, p, 1, size, r.a)
			})
		},
		func(r *rig) {
			x := r.graph(r.a, func() {
				p := got(r.MemAllocAsync(r.ctx, size, r.a))
				r.fill(r.a, p, size)
				ok(r.MemFreeAsync(r.ctx, p, r.a))
			})
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.GraphLaunch(r.ctx, x, r.a))
		}},
	{"memory-of-a-graph-that-frees-it", "Memory that a graph allocates and frees is there for its nodes alone.", check.UseAfterFree, "cuMemsetD8Async",
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() {
				p = got(r.MemAllocAsync(r.ctx, size, r.a))
				r.fill(r.a, p, size)
				ok(r.MemFreeAsync(r.ctx, p, r.a))
			})
			ok(r.GraphLaunch(r.ctx, x, r.a))
			_ = r.MemsetD8Async(r.ctx, p, 1, size, r.a)
		},
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() {
				p = got(r.MemAllocAsync(r.ctx, size, r.a))
				r.fill(r.a, p, size)
			})
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.fill(r.a, p, size)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"memory-of-a-graph-that-was-freed", "Memory of a graph must not be used between its free and the next launch.", check.UseAfterFree, "cuMemsetD8Async",
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() { p = got(r.MemAllocAsync(r.ctx, size, r.a)) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.MemFreeAsync(r.ctx, p, r.a))
			_ = r.MemsetD8Async(r.ctx, p, 1, size, r.a)
		},
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() { p = got(r.MemAllocAsync(r.ctx, size, r.a)) })
			for range 2 {
				ok(r.GraphLaunch(r.ctx, x, r.a))
				r.fill(r.a, p, size)
				ok(r.MemFreeAsync(r.ctx, p, r.a))
			}
		}},
	{"memory-of-a-graph-freed-twice", "Memory of a graph is freed once for each launch.", check.DoubleFree, "freed at",
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() { p = got(r.MemAllocAsync(r.ctx, size, r.a)) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.MemFreeAsync(r.ctx, p, r.a))
			_ = r.MemFreeAsync(r.ctx, p, r.a)
		},
		func(r *rig) {
			var p cu.DevicePtr
			x := r.graph(r.a, func() { p = got(r.MemAllocAsync(r.ctx, size, r.a)) })
			for range 2 {
				ok(r.GraphLaunch(r.ctx, x, r.a))
				ok(r.MemFree(r.ctx, p))
			}
		}},
	{"uninitialized", "Device memory has no contents before something writes it.", check.Uninitialized, "nothing has written",
		func(r *rig) { r.down(r.a, r.host, r.alloc()) },
		func(r *rig) { p := r.alloc(); r.fill(r.a, p, size); r.down(r.a, r.host, p) }},
	{"leak", "Memory is freed before its context ends.", check.Leak, "was not freed",
		func(r *rig) { r.context(func(ctx cu.Context) { got(r.MemAlloc(ctx, size)) }) },
		func(r *rig) { r.context(func(ctx cu.Context) { ok(r.MemFree(ctx, got(r.MemAlloc(ctx, size)))) }) }},
	{"write-combined", "The CPU reads write-combined memory slowly.", check.WriteCombined, "the host",
		func(r *rig) { h := r.combined(); h.ReadSlice() },
		func(r *rig) { h := r.combined(); h.Slice()[0] = 1 }},
	{"slice-beside-an-address", "Ferry does not know of copies that use an address.", check.HostInFlight, "writes",
		func(r *rig) { h := r.typed(); ok(r.MemcpyAsync(r.ctx, h.Pointer(), r.dev, size, r.a)); h.Slice() },
		func(r *rig) {
			h := r.typed()
			ok(r.MemcpyAsync(r.ctx, h.Pointer(), r.dev, size, r.a))
			r.sync(r.a)
			h.Slice()
		}},
	{"close-beside-an-address", "Close does not know of copies that use an address.", check.FreeInFlight, "",
		func(r *rig) { h := r.typed(); ok(r.MemcpyAsync(r.ctx, r.dev, h.Pointer(), size, r.a)); ok(h.Close()) },
		func(r *rig) {
			h := r.typed()
			ok(r.MemcpyAsync(r.ctx, r.dev, h.Pointer(), size, r.a))
			r.sync(r.a)
			ok(h.Close())
		}},
	{"typed-streams", "Buffers do not order streams with each other.", check.Unordered, "",
		func(r *rig) { r.typedStreams(false) },
		func(r *rig) { r.typedStreams(true) }},
	{"slice-beside-a-kernel", "Ferry does not know of kernels that get an address.", check.HostInFlight, "cuLaunchKernel",
		func(r *rig) { h := r.typed(); r.put(r.a, cu.DevicePtr(h.Pointer())); h.Slice() },
		func(r *rig) { h := r.typed(); r.put(r.a, cu.DevicePtr(h.Pointer())); r.sync(r.a); h.Slice() }},
	{"page-locked-source-changed", "The source of a copy must not change before the copy has ended.", check.HostInFlight, "has changed page-locked memory",
		func(r *rig) { r.up(r.a, r.dev, r.host); r.host[7]++; r.sync(r.a) },
		func(r *rig) { r.up(r.a, r.dev, r.host); r.sync(r.a); r.host[7]++ }},
	{"foreign-source-changed", "The same holds for memory that another library has page-locked: only the driver knows.", check.HostInFlight, "has changed page-locked memory",
		func(r *rig) { p := r.foreign(); r.up(r.a, r.dev, p); p[7]++; r.sync(r.a) },
		func(r *rig) { p := r.foreign(); r.up(r.a, r.dev, p); r.sync(r.a); p[7]++ }},
	{"foreign-destination", "Two copies to memory that another library has page-locked need an order.", check.Unordered, "page-locked memory",
		func(r *rig) { p := r.foreign(); r.down(r.a, p, r.dev); r.down(r.b, p, r.there) },
		func(r *rig) { p := r.foreign(); r.down(r.a, p, r.dev); r.follow(r.b, r.a); r.down(r.b, p, r.there) }},
	{"typed-first-use", "A buffer of AllocAsync makes another stream wait for its allocation, and not for what fills it.", check.Unordered, "cuMemcpyDtoHAsync",
		func(r *rig) { r.typedFirstUse(false) },
		func(r *rig) { r.typedFirstUse(true) }},
}

func (r *rig) alloc() cu.DevicePtr { return got(r.MemAlloc(r.ctx, size)) }

func (r *rig) register(n uintptr) []byte {
	p := make([]byte, n)
	ok(r.MemHostRegister(r.ctx, at(p), n, 0))
	return p
}

// context runs f with a context that it destroys.
func (r *rig) context(f func(cu.Context)) {
	ctx := got(r.CtxCreate(0, 0))
	f(ctx)
	ok(r.CtxDestroy(ctx))
}

func (r *rig) typed() *ferry.Host[byte] {
	return got(ferry.AllocHost[byte](got(ferry.OpenDriver(r.Driver, 0)), size, nil))
}

func (r *rig) combined() *ferry.Host[byte] {
	return got(ferry.AllocHost[byte](got(ferry.OpenDriver(r.Driver, 0)), size, &ferry.HostOptions{WriteCombined: true}))
}

// typedStreams fills and copies a buffer in two streams, ordered or not.
func (r *rig) typedStreams(ordered bool) {
	g := got(ferry.OpenDriver(r.Driver, 0))
	o := &ferry.StreamOptions{NonBlocking: true}
	s, t, e := got(ferry.NewStream(g, o)), got(ferry.NewStream(g, o)), got(ferry.NewEvent(g, nil))
	dev, host := got(ferry.Alloc[byte](g, size)), got(ferry.AllocHost[byte](g, size, nil))
	ok(ferry.Fill(s, dev, 1))
	ok(s.Record(e))
	if ordered {
		ok(t.WaitEvent(e))
	}
	ok(ferry.Copy(t, host, dev))
}

// typedFirstUse allocates and fills a buffer in one stream, and uses it for the first time in
// another one, ordered or not.
func (r *rig) typedFirstUse(ordered bool) {
	g := got(ferry.OpenDriver(r.Driver, 0))
	o := &ferry.StreamOptions{NonBlocking: true}
	s, t, e := got(ferry.NewStream(g, o)), got(ferry.NewStream(g, o)), got(ferry.NewEvent(g, nil))
	host := got(ferry.AllocHost[byte](g, size, nil))
	dev := got(ferry.AllocAsync[byte](s, size, nil))
	ok(ferry.Fill(s, dev, 1))
	ok(s.Record(e))
	if ordered {
		ok(t.WaitEvent(e))
	}
	ok(ferry.Copy(t, host, dev))
}
