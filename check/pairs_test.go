package check_test

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// pair is a rule, with a program that breaks it and one that keeps it. kind is the kind of
// the finding, text a part of it.
type pair struct {
	name, rule   string
	kind, text   string
	wrong, right func(r *rig)
}

// onlyRace is the kind of programs that only race builds report.
const onlyRace = "only race builds"

// sink gets what programs read.
var sink byte

// accessPairs are programs in which the CPU itself uses memory in flight.
var accessPairs = []pair{
	{"slice-kept", "The CPU must not read what a copy in flight writes.", onlyRace, "",
		func(r *rig) { r.down(r.a, r.host, r.dev); sink = r.host[0] },
		func(r *rig) { r.down(r.a, r.host, r.dev); r.sync(r.a); sink = r.host[0] }},
	{"host-atomics", "Atomic updates of the CPU get lost beside those of a kernel: the device has no native host atomics.", onlyRace, "",
		func(r *rig) {
			r.launch(r.count, r.a, address(r.host))
			for atomic.AddUint32(word(r.host), 1) < 5000 { // also lost, while the kernel counts on
				_ = r.StreamQuery(r.ctx, r.a)
			}
			atomic.StoreUint32(word(r.host[64:]), 1)
		},
		func(r *rig) {
			atomic.StoreUint32(word(r.host[64:]), 1)
			r.launch(r.count, r.a, address(r.host))
			r.sync(r.a)
			atomic.AddUint32(word(r.host), 1)
		}},
}

// orderPairs are programs about the order of streams.
var orderPairs = []pair{
	{"fills", "Two streams have no order.", check.Unordered, "cuMemsetD8Async",
		func(r *rig) { r.fill(r.a, r.dev, size); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.fill(r.a, r.dev, size); r.follow(r.b, r.a); r.fill(r.b, r.dev, size) }},
	{"one-byte", "One byte that two streams write needs an order.", check.Unordered, "bytes 99 to",
		func(r *rig) { r.fill(r.a, r.dev, 100); r.fill(r.b, r.dev+99, 100) },
		func(r *rig) { r.fill(r.a, r.dev, 100); r.fill(r.b, r.dev+100, 100) }},
	{"copy-beside-fill", "A copy may not read what another stream fills.", check.Unordered, "cuMemcpyDtoHAsync",
		func(r *rig) { r.fill(r.a, r.dev, size); r.down(r.b, r.host, r.dev) },
		func(r *rig) { r.fill(r.a, r.dev, size); r.sync(r.a); r.down(r.b, r.host, r.dev) }},
	{"write-behind-read", "A stream may not write what another one still reads.", check.Unordered, "reads",
		func(r *rig) { r.down(r.a, r.host, r.dev); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.down(r.a, r.host, r.dev); r.down(r.b, r.other, r.dev) }},
	{"host-destination", "Two copies to one page-locked buffer need an order.", check.Unordered, "page-locked memory",
		func(r *rig) { r.down(r.a, r.host, r.dev); r.down(r.b, r.host, r.there) },
		func(r *rig) { r.down(r.a, r.host, r.dev); r.down(r.a, r.host, r.there) }},
	{"within-the-device", "cuMemcpyDtoD without Async does not wait.", check.Unordered, "cuMemcpyDtoD",
		func(r *rig) { ok(r.MemcpyDtoD(r.ctx, r.there, r.dev, size)); r.fill(r.a, r.dev, size) },
		func(r *rig) { ok(r.MemcpyDtoD(r.ctx, r.there, r.dev, size)); r.fill(r.s, r.dev, size) }},
	{"fill-without-async", "cuMemsetD8 of device memory does not wait.", check.Unordered, "cuMemsetD8 ",
		func(r *rig) { ok(r.MemsetD8(r.ctx, r.dev, 1, size)); r.fill(r.a, r.dev, size) },
		func(r *rig) { ok(r.MemsetD8(r.ctx, cu.DevicePtr(address(r.host)), 1, size)); r.up(r.a, r.dev, r.host) }},
	{"blocking-streams", "Blocking streams are ordered with the default stream, not with each other.", check.Unordered, "",
		func(r *rig) { r.fill(r.s, r.dev, size); r.fill(r.t, r.dev, size) },
		func(r *rig) { r.fill(r.s, r.dev, size); r.fill(0, r.there, 1); r.fill(r.t, r.dev, size) }},
	{"default-and-non-blocking", "A non-blocking stream does not follow the default stream.", check.Unordered, "the default stream",
		func(r *rig) { r.fill(0, r.dev, size); r.fill(r.a, r.dev, size) },
		func(r *rig) { r.fill(0, r.dev, size); r.fill(r.s, r.dev, size) }},
	{"non-blocking-then-default", "The default stream does not follow a non-blocking stream.", check.Unordered, "the default stream",
		func(r *rig) { r.fill(r.a, r.dev, size); r.fill(0, r.dev, size) },
		func(r *rig) { r.fill(r.s, r.dev, size); r.fill(0, r.dev, size) }},
	{"wrong-stream-synchronized", "Synchronizing a stream waits for that stream.", check.Unordered, "",
		func(r *rig) { r.fill(r.a, r.dev, size); r.sync(r.t); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.fill(r.a, r.dev, size); r.sync(r.a); r.fill(r.b, r.dev, size) }},
	{"context-synchronized", "A query that has not succeeded orders nothing.", check.Unordered, "",
		func(r *rig) {
			hold := make(chan struct{})
			r.call(r.a, func() { <-hold })
			r.fill(r.a, r.dev, size)
			_ = r.StreamQuery(r.ctx, r.a)
			r.fill(r.b, r.dev, size)
			close(hold)
		},
		func(r *rig) { r.fill(r.a, r.dev, size); ok(r.CtxSynchronize(r.ctx)); r.fill(r.b, r.dev, size) }},
	{"rows", "A rectangle uses its rows, not the bytes between them.", check.Unordered, "cuMemcpy2DAsync",
		func(r *rig) { r.rectangle(r.a, 0); r.rectangle(r.b, 63) },
		func(r *rig) { r.rectangle(r.a, 0); r.rectangle(r.b, 64) }},
	{"destroyed-stream", "Destroying a stream does not wait for its work.", check.Unordered, "",
		func(r *rig) {
			s := r.stream(cu.StreamNonBlocking)
			r.fill(s, r.dev, size)
			ok(r.StreamDestroy(r.ctx, s))
			r.fill(r.stream(cu.StreamNonBlocking), r.dev, size)
		},
		func(r *rig) {
			s := r.stream(cu.StreamNonBlocking)
			r.fill(s, r.dev, size)
			ok(r.StreamDestroy(r.ctx, s))
			ok(r.CtxSynchronize(r.ctx))
			r.fill(r.stream(cu.StreamNonBlocking), r.dev, size)
		}},
	{"batch", "Operations of a batch are in flight when Submit has returned.", check.Unordered, "",
		func(r *rig) { r.submit(r.a); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.submit(r.a); r.fill(r.a, r.dev, size) }},
	{"host-function-is-no-barrier", "A host function orders its own stream.", check.Unordered, "",
		func(r *rig) { r.fill(r.a, r.dev, size); r.call(r.b, func() {}); r.fill(r.b, r.dev, size) },
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			c := make(chan bool)
			r.call(r.a, func() { close(c) })
			_ = r.StreamQuery(r.ctx, r.a) // lets a lazy schedule begin
			<-c
			r.fill(r.b, r.dev, size)
		}},
	{"kernel-beside-fill", "A kernel that gets the address of a byte may use it: another stream that writes the byte needs an order.", check.KernelArgument, "cuLaunchKernel",
		func(r *rig) { r.put(r.a, r.dev); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.put(r.a, r.dev+256); r.fill(r.b, r.dev, 256) }},
	{"kernel-behind-copy", "The same holds for a copy before the kernel.", check.KernelArgument, "cuMemcpyHtoDAsync",
		func(r *rig) { r.up(r.a, r.dev, r.host); r.put(r.b, r.dev) },
		func(r *rig) { r.up(r.a, r.dev, r.host); r.follow(r.b, r.a); r.put(r.b, r.dev) }},
	{"list", "Copies of one list have no order.", check.List, "cuMemcpyBatchAsync",
		func(r *rig) { r.list(r.a, r.there, r.there+100) },
		func(r *rig) { r.list(r.a, r.there, r.there+200) }},
}

// rectangle copies 4 rows of 64 bytes, 128 bytes apart, to dev.
func (r *rig) rectangle(s cu.Stream, x uintptr) {
	ok(r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeHost, SrcHost: at(r.host), SrcPitch: 128,
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: r.dev, DstPitch: 128, DstXInBytes: x, WidthInBytes: 64, Height: 4,
	}, s))
}

func (r *rig) submit(s cu.Stream) {
	var b cu.Batch
	b.MemsetD8Async(r.dev, 7, size, s)
	got(r.Submit(r.ctx, &b))
}

// list copies 200 bytes to each of two places.
func (r *rig) list(s cu.Stream, p, q cu.DevicePtr) {
	ok(r.MemcpyBatchAsync(r.ctx, []cu.DevicePtr{p, q}, []cu.DevicePtr{r.dev, r.dev}, []uintptr{200, 200}, s))
}

// eventPairs are programs about events, pageable copies and graphs.
var eventPairs = []pair{
	{"event-never-recorded", "A wait for an event that was never recorded waits for nothing.", check.Unordered, "had not been recorded",
		func(r *rig) { r.fill(r.a, r.dev, size); r.await(r.b, r.e); r.fill(r.b, r.dev, size) },
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		}},
	{"event-too-early", "An event stands for what was in the stream when it was recorded.", check.Unordered, "before the operation",
		func(r *rig) {
			r.record(r.e, r.a)
			r.fill(r.a, r.dev, size)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		},
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		}},
	{"event-recorded-again", "An event that is recorded again stands for the second record.", check.Unordered, "recorded again",
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.record(r.e, r.t)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		},
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.record(r.e, r.t)
			r.fill(r.b, r.dev, size)
		}},
	{"event-of-the-wrong-stream", "An event stands for the stream in which it was recorded.", check.Unordered, "",
		func(r *rig) { r.fill(r.a, r.dev, size); r.record(r.e, r.t); r.wait(r.e); r.fill(r.b, r.dev, size) },
		func(r *rig) { r.fill(r.a, r.dev, size); r.record(r.e, r.a); r.wait(r.e); r.fill(r.b, r.dev, size) }},
	{"wait-behind-the-work", "Work that was in the stream before the wait does not wait.", check.Unordered, "",
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.fill(r.b, r.dev, size)
			r.await(r.b, r.e)
		},
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		}},
	{"broken-chain", "A chain of events orders if each record is behind the wait before it.", check.Unordered, "",
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.t)
			r.follow(r.t, r.a)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		},
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.follow(r.t, r.a)
			r.record(r.e, r.t)
			r.await(r.b, r.e)
			r.fill(r.b, r.dev, size)
		}},
	{"event-query-failed", "A query of an event that has not succeeded orders nothing.", check.Unordered, "",
		func(r *rig) {
			hold := make(chan struct{})
			r.call(r.a, func() { <-hold })
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			_ = r.EventQuery(r.ctx, r.e)
			r.fill(r.b, r.dev, size)
			close(hold)
		},
		func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.record(r.e, r.a)
			for r.EventQuery(r.ctx, r.e) != nil {
			}
			r.fill(r.b, r.dev, size)
		}},
	{"event-of-another-device", "An event is recorded in streams of its own context.", check.Event, "another context",
		func(r *rig) { ctx := r.second(); _ = r.EventRecord(ctx, got(r.EventCreate(ctx, 0)), r.a) },
		func(r *rig) { r.record(got(r.EventCreate(r.ctx, 0)), r.a) }},
	{"pageable-then-other-stream", "A copy from pageable memory returns before its bytes have arrived.", check.Unordered, "may not have arrived",
		func(r *rig) { r.up(r.a, r.dev, make([]byte, size)); r.down(r.b, r.host, r.dev) },
		func(r *rig) { r.up(r.a, r.dev, make([]byte, size)); r.sync(r.a); r.down(r.b, r.host, r.dev) }},
	{"pageable-does-not-wait", "An asynchronous copy from pageable memory does not wait for the work before it.", check.Unordered, "cuMemsetD8Async",
		func(r *rig) {
			r.fill(r.a, r.there, size)
			r.up(r.a, r.dev, make([]byte, size))
			r.fill(r.b, r.there, size)
		},
		func(r *rig) {
			r.fill(r.s, r.there, size)
			ok(r.MemcpyHtoD(r.ctx, r.dev, at(make([]byte, size)), size))
			r.fill(r.b, r.there, size)
		}},
	{"pageable-without-async", "The same holds for cuMemcpyHtoD.", check.Unordered, "cuMemcpyHtoD ",
		func(r *rig) { ok(r.MemcpyHtoD(r.ctx, r.dev, at(make([]byte, size)), size)); r.down(r.a, r.host, r.dev) },
		func(r *rig) { ok(r.MemcpyHtoD(r.ctx, r.dev, at(r.host), size)); r.down(r.a, r.other, r.dev) }},
	{"pageable-waits", "An asynchronous copy to pageable memory makes the host wait.", check.PageableWaits, "page-locked memory",
		func(r *rig) { r.down(r.a, make([]byte, size), r.dev) },
		func(r *rig) { r.down(r.a, r.host, r.dev) }},
	{"graph-then-fill", "A launch of a graph is in flight when it has returned.", check.Unordered, "of a graph",
		func(r *rig) {
			x := r.graph(r.a, func() { r.fill(r.a, r.dev, size) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.fill(r.b, r.dev, size)
		},
		func(r *rig) {
			x := r.graph(r.a, func() { r.fill(r.a, r.dev, size) })
			ok(r.GraphLaunch(r.ctx, x, r.b))
			r.fill(r.b, r.dev, size)
		}},
	{"two-graphs", "Launches of one executable graph follow each other, those of two do not.", check.Unordered, "of a graph",
		func(r *rig) {
			for _, s := range []cu.Stream{r.a, r.b} {
				ok(r.GraphLaunch(r.ctx, r.graph(r.t, func() { r.fill(r.t, r.dev, size) }), s))
			}
		},
		func(r *rig) {
			x := r.graph(r.t, func() { r.fill(r.t, r.dev, size) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.GraphLaunch(r.ctx, x, r.b))
		}},
	{"graph-branches", "Branches of a graph have no order.", check.Unordered, "",
		func(r *rig) { r.branches(0) },
		func(r *rig) { r.branches(size / 2) }},
	{"graph-of-freed-memory", "A graph does not keep the memory that its nodes use.", check.UseAfterFree, "of a graph",
		func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			x := r.graph(r.a, func() { r.fill(r.a, p, size) })
			ok(r.MemFree(r.ctx, p))
			_ = r.GraphLaunch(r.ctx, x, r.a)
		},
		func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			x := r.graph(r.a, func() { r.fill(r.a, p, size) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{"host-function-calls-driver", "A host function must not call the driver.", check.HostFunction, "cuStreamQuery",
		func(r *rig) { r.call(r.a, func() { _ = r.StreamQuery(r.ctx, r.b) }); r.sync(r.a) },
		func(r *rig) { r.call(r.a, func() {}); r.sync(r.a); _ = r.StreamQuery(r.ctx, r.b) }},
}

// branches captures two streams that fill halves of dev, the second one from an offset.
func (r *rig) branches(off uintptr) {
	r.graph(r.a, func() {
		r.record(r.e, r.a)
		r.await(r.b, r.e)
		r.fill(r.a, r.dev, size/2)
		r.fill(r.b, r.dev+cu.DevicePtr(off), size/2)
		r.record(r.f, r.b)
		r.await(r.a, r.f)
	})
}
