package racetest

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// pair is a rule of what orders what, a program that breaks it and one that
// keeps it. Lines with the word "queued" are those that a report must show.
type pair struct {
	name, rule  string
	op          string // the function of the report
	racy, right func(r *rig)
}

func (r *rig) open() {
	if !r.opened {
		r.opened = true
		atomic.StoreUint32(&r.heldBy[0], 1)
	}
}

// hold keeps a stream busy until open.
func (r *rig) hold(s cu.Stream) { r.run("hold", s, flagAt(r.heldBy), 0) }

// driverPairs are programs that call the driver.
var driverPairs = []pair{
	{"kernel-then-read", "A launch returns before the kernel is done.", "kernelWrites",
		func(r *rig) {
			r.put(r.a, address(r.host)) // queued
			sink = r.host[0]
		}, func(r *rig) {
			r.put(r.a, address(r.host))
			r.sync(r.a)
			sink = r.host[0]
		}},
	{"kernel-then-write", "A kernel reads mapped memory after the launch has returned.", "kernelReads",
		func(r *rig) {
			r.run("copy", r.a, r.dev, address(r.host)) // queued
			r.host[0] = 1
		}, func(r *rig) {
			r.host[0] = 1
			r.run("copy", r.a, r.dev, address(r.host))
			r.sync(r.a)
			r.host[0] = 2
		}},
	{"copy-then-read", "An asynchronous copy to page-locked memory returns at once.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			sink = r.host[size-1]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			r.sync(r.a)
			sink = r.host[size-1]
		}},
	{"copy-then-write", "An asynchronous copy reads page-locked memory later.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host) // queued
			r.host[7] = 1
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			sink = r.host[7] // both read
			r.sync(r.a)
			r.host[7] = 1
		}},
	{"reused-staging-buffer", "A staging buffer is free when its copy is done, not when it is queued.", "copyReads",
		func(r *rig) {
			for i := range 2 {
				r.host[100] = byte(i)
				r.up(r.a, r.dev, r.host) // queued
			}
		}, func(r *rig) {
			for i := range 2 {
				r.wait(r.e)
				r.host[100] = byte(i)
				r.up(r.a, r.dev, r.host)
				r.record(r.e, r.a)
			}
		}},
	{"wrong-stream", "A synchronisation is of one stream.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			r.sync(r.b)
			sink = r.host[0]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			r.sync(r.b)
			r.sync(r.a)
			sink = r.host[0]
		}},
	{"event-too-early", "An event stands for what was in the stream when it was recorded.", "copyWrites",
		func(r *rig) {
			r.record(r.e, r.a)
			r.down(r.a, r.host, r.dev) // queued
			r.wait(r.e)
			sink = r.host[0]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			r.record(r.e, r.a)
			r.wait(r.e)
			sink = r.host[0]
		}},
	{"event-recorded-again", "An event that is recorded again stands for the second place only.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			r.record(r.e, r.a)
			r.record(r.e, r.b)
			r.wait(r.e)
			sink = r.host[0]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			r.record(r.e, r.a)
			r.record(r.f, r.b)
			r.wait(r.e)
			sink = r.host[0]
		}},
	{"event-waited-for-then-recorded-again", "A stream that waits for an event waits for what it stood for then.", "kernelWrites",
		func(r *rig) {
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.put(r.a, r.dev) // queued
			r.record(r.e, r.a)
			r.down(r.b, r.host, r.dev) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.record(r.e, r.b)
			r.down(r.b, r.host, r.dev)
		}},
	{"query-failed", "A query that has not succeeded orders nothing.", "copyWrites",
		func(r *rig) {
			r.hold(r.a)
			r.down(r.a, r.host, r.dev) // queued
			r.failedWith = r.StreamQuery(r.ctx, r.a)
			r.open()
			sink = r.host[0]
		}, func(r *rig) {
			r.hold(r.a)
			r.down(r.a, r.host, r.dev)
			r.open()
			for r.StreamQuery(r.ctx, r.a) != nil {
			}
			sink = r.host[0]
		}},
	{"event-query-failed", "The same of an event.", "copyWrites",
		func(r *rig) {
			r.hold(r.a)
			r.down(r.a, r.host, r.dev) // queued
			r.record(r.e, r.a)
			r.failedWith = r.EventQuery(r.ctx, r.e)
			r.open()
			sink = r.host[0]
		}, func(r *rig) {
			r.hold(r.a)
			r.down(r.a, r.host, r.dev)
			r.record(r.e, r.a)
			r.open()
			for errors.Is(r.EventQuery(r.ctx, r.e), cu.ErrorNotReady) {
			}
			sink = r.host[0]
		}},
	{"kernel-beside-copy", "Streams are not ordered: a kernel writes what another stream copies.", "copyReads",
		func(r *rig) {
			r.put(r.a, r.dev)          // queued
			r.down(r.b, r.host, r.dev) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.down(r.b, r.host, r.dev)
		}},
	{"copy-beside-kernel", "A kernel reads what another stream copies in.", "kernelReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host)           // queued
			r.run("copy", r.b, r.there, r.dev) // queued
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.run("copy", r.b, r.there, r.dev)
		}},
	{"two-kernels", "Two kernels write one buffer on two streams.", "kernelWrites",
		func(r *rig) {
			r.put(r.a, r.dev) // queued
			r.put(r.b, r.dev) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.put(r.a, r.dev)
			r.put(r.b, r.there)
		}},
	{"wait-on-the-wrong-stream", "Only the stream that waits is held back.", "copyReads",
		func(r *rig) {
			r.put(r.a, r.dev) // queued
			r.record(r.e, r.a)
			r.await(r.c, r.e)
			r.down(r.b, r.host, r.dev) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.record(r.e, r.a)
			r.await(r.c, r.e)
			r.down(r.c, r.host, r.dev)
		}},
	{"wait-after-the-copy", "What is in the stream before the wait is not held back.", "copyReads",
		func(r *rig) {
			r.put(r.a, r.dev) // queued
			r.record(r.e, r.a)
			r.down(r.b, r.host, r.dev) // queued
			r.await(r.b, r.e)
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.down(r.b, r.host, r.dev)
		}},
	{"fill-beside-kernel", "A fill in a stream is no different from a kernel.", "fillWrites",
		func(r *rig) {
			r.put(r.a, r.dev)        // queued
			r.fill(r.b, r.dev, size) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.sync(r.a)
			r.fill(r.b, r.dev, size)
		}},
	{"fill-without-async", "cuMemset of device memory does not wait either, and does not order non-blocking streams.", "fillWrites",
		func(r *rig) {
			ok(r.MemsetD8(r.ctx, r.dev, 1, size)) // queued
			r.put(r.a, r.dev)                     // queued
		}, func(r *rig) {
			ok(r.MemsetD8(r.ctx, r.dev, 1, size))
			r.sync(0)
			r.put(r.a, r.dev)
		}},
	{"fill-of-page-locked-memory", "cuMemset of page-locked memory waits, with Async it does not.", "fillWrites",
		func(r *rig) {
			r.fill(0, address(r.host), size) // queued
			sink = r.host[0]
		}, func(r *rig) {
			ok(r.MemsetD8(r.ctx, address(r.host), 1, size))
			sink = r.host[0]
		}},
	{"copy-within-the-device", "cuMemcpyDtoD does not wait, with Async or without.", "copyWrites",
		func(r *rig) {
			ok(r.MemcpyDtoD(r.ctx, r.dev, r.there, size)) // queued
			r.put(r.a, r.dev)                             // queued
		}, func(r *rig) {
			ok(r.MemcpyDtoD(r.ctx, r.dev, r.there, size))
			r.sync(cu.StreamLegacy)
			r.put(r.a, r.dev)
		}},
	{"legacy-and-non-blocking", "The legacy stream does not order non-blocking streams.", "fillWrites",
		func(r *rig) {
			r.fill(0, r.dev, size) // queued
			r.put(r.a, r.dev)      // queued
		}, func(r *rig) {
			r.fill(0, r.dev, size)
			r.put(r.c, r.dev)
			r.fill(0, r.dev, size)
		}},
	{"non-blocking-then-legacy", "Nor the other way: work without a stream does not follow a non-blocking one.", "copyReads",
		func(r *rig) {
			r.put(r.a, r.dev)        // queued
			r.down(0, r.host, r.dev) // queued
		}, func(r *rig) {
			r.put(r.c, r.dev)
			r.down(0, r.host, r.dev)
		}},
	{"two-blocking-streams", "Blocking streams are ordered with the legacy stream only, not with each other.", "kernelWrites",
		func(r *rig) {
			r.put(r.c, r.dev) // queued
			r.put(r.d, r.dev) // queued
		}, func(r *rig) {
			r.put(r.c, r.dev)
			r.fill(0, r.there, 1) // a barrier
			r.put(r.d, r.dev)
		}},
	{"synchronous-copy-and-non-blocking", "A copy without Async waits for the legacy stream, not for others.", "copyReads",
		func(r *rig) {
			r.put(r.a, r.dev)                                // queued
			ok(r.MemcpyDtoH(r.ctx, at(r.host), r.dev, size)) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.sync(r.a)
			ok(r.MemcpyDtoH(r.ctx, at(r.host), r.dev, size))
			sink = r.host[0]
		}},
	{"small-pageable-copy", "A small copy from pageable memory returns when the bytes are staged.", "kernelReads",
		func(r *rig) {
			ok(r.MemcpyHtoD(r.ctx, r.dev, at(make([]byte, size)), size)) // queued
			r.run("copy", r.a, r.there, r.dev)                           // queued
		}, func(r *rig) {
			ok(r.MemcpyHtoD(r.ctx, r.dev, at(make([]byte, size)), size))
			r.run("copy", 0, r.there, r.dev)
		}},
	{"source-after-the-call", "A pageable source may be changed when the call returns, a page-locked one may not.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host) // queued
			copy(r.host, r.other)
		}, func(r *rig) {
			plain := make([]byte, size)
			r.up(r.a, r.dev, plain)
			copy(plain, r.other)
		}},
	{"destination-after-the-call", "A copy to pageable memory is done when the call returns, one to page-locked memory is not.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			sink = r.host[9]
		}, func(r *rig) {
			plain := make([]byte, size)
			r.down(r.a, plain, r.dev)
			sink = plain[9]
		}},
	{"host-to-host-is-a-barrier", "A host-to-host copy waits for the legacy stream, and so for blocking streams, not for others.", "kernelWrites",
		func(r *rig) {
			r.put(r.a, address(r.host)) // queued
			ok(r.Memcpy(r.ctx, address(r.other[:8]), address(r.other[8:]), 8))
			sink = r.host[0]
		}, func(r *rig) {
			r.put(r.c, address(r.host))
			ok(r.Memcpy(r.ctx, address(r.other[:8]), address(r.other[8:]), 8))
			sink = r.host[0]
		}},
	{"host-function-reads", "A host function runs when the stream comes to it.", "racetest",
		func(r *rig) {
			r.call(r.a, func() { sink = r.host[3] }) // queued
			r.host[3] = 1
		}, func(r *rig) {
			r.host[3] = 1
			r.call(r.a, func() { sink = r.host[3] })
			r.sync(r.a)
			r.host[3] = 2
		}},
	{"host-function-writes", "What a host function has done is known after a synchronisation.", "racetest",
		func(r *rig) {
			x := new(int)
			r.call(r.a, func() { *x = 1 }) // queued
			sink = byte(*x)
		}, func(r *rig) {
			x := new(int)
			r.call(r.a, func() { *x = 1 })
			r.sync(r.a)
			sink = byte(*x)
		}},
	{"host-functions-of-two-streams", "Host functions of two streams are in no order.", "racetest",
		func(r *rig) {
			x := new(int)
			r.call(r.a, func() { *x = 1 }) // queued
			r.call(r.b, func() { *x = 2 }) // queued
		}, func(r *rig) {
			x := new(int)
			r.call(r.a, func() { *x = 1 })
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.call(r.b, func() { *x = 2 })
		}},
	{"host-function-then-copy", "Work behind a host function follows it, in its own stream.", "copyReads",
		func(r *rig) {
			r.call(r.a, func() { r.host[0] = 1 }) // queued
			r.up(r.b, r.dev, r.host)              // queued
		}, func(r *rig) {
			r.call(r.a, func() { r.host[0] = 1 })
			r.up(r.a, r.dev, r.host)
		}},
	{"allocated-in-another-stream", "Memory of a stream's allocation is there for that stream only.", "allocates",
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a)) // queued
			r.sync(r.c)
			r.fill(r.b, p, size) // queued
		}, func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.record(r.e, r.a)
			r.await(r.b, r.e)
			r.put(r.b, p)
			r.sync(r.b)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"freed-in-another-stream", "A free in stream order follows its own stream only.", "frees",
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.sync(r.a)
			r.fill(r.b, p, size)              // queued
			ok(r.MemFreeAsync(r.ctx, p, r.a)) // queued
		}, func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.sync(r.a)
			r.put(r.b, p)
			r.record(r.e, r.b)
			r.await(r.a, r.e)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"free-while-read", "Page-locked memory must not be read while another goroutine frees it.", "hostFrees",
		func(r *rig) {
			p, read := r.pinned(), make(chan int)
			go func() { sink = p[0]; close(read) }()
			ok(r.MemFreeHost(r.ctx, at(p))) // queued
			<-read
		}, func(r *rig) {
			p, read := r.pinned(), make(chan int)
			go func() { sink = p[0]; close(read) }()
			<-read
			ok(r.MemFreeHost(r.ctx, at(p)))
		}},
	{"managed-read", "Managed memory is shared: the host waits for the kernel that writes it.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p) // queued
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p)
			r.sync(r.a)
			sink = host[0]
		}},
	{"managed-write", "And for the kernel that reads it.", "kernelReads",
		func(r *rig) {
			p, host := r.managed()
			r.run("copy", r.a, r.dev, p) // queued
			host[0] = 1
		}, func(r *rig) {
			p, host := r.managed()
			host[0] = 1
			r.run("copy", r.a, r.dev, p)
			sink = host[0] // both read
		}},
	{"prefetch-is-no-wait", "A prefetch to the host is queued like anything else.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p) // queued
			ok(r.MemPrefetchAsync(r.ctx, p, size, cu.CPUDevice, r.a))
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p)
			ok(r.MemPrefetchAsync(r.ctx, p, size, cu.CPUDevice, r.a))
			r.sync(r.a)
			sink = host[0]
		}},
	{"registered", "Registered memory is page-locked memory.", "copyWrites",
		func(r *rig) {
			plain := make([]byte, size)
			ok(r.MemHostRegister(r.ctx, at(plain), size, 0))
			r.down(r.a, plain, r.dev) // queued
			sink = plain[0]
			ok(r.MemHostUnregister(r.ctx, at(plain)))
		}, func(r *rig) {
			plain := make([]byte, size)
			ok(r.MemHostRegister(r.ctx, at(plain), size, 0))
			r.down(r.a, plain, r.dev)
			ok(r.MemHostUnregister(r.ctx, at(plain))) // waits
			sink = plain[0]
		}},
	{"graph-then-read", "A launch of a graph returns before its nodes are done.", "copyWrites",
		func(r *rig) {
			x := r.graph(func() { r.down(r.a, r.host, r.dev) })
			ok(r.GraphLaunch(r.ctx, x, r.b)) // queued
			sink = r.host[0]
		}, func(r *rig) {
			x := r.graph(func() { r.down(r.a, r.host, r.dev) })
			sink = r.host[0] // a capture runs nothing
			ok(r.GraphLaunch(r.ctx, x, r.b))
			r.sync(r.b)
			sink = r.host[0]
		}},
	{"graph-branches", "Nodes of a graph follow only what they followed in the capture.", "kernelWrites",
		func(r *rig) {
			x := r.graph(func() {
				r.record(r.e, r.a)
				r.await(r.b, r.e)
				r.put(r.a, r.dev)
				r.put(r.b, r.dev)
				r.record(r.f, r.b)
				r.await(r.a, r.f)
			})
			ok(r.GraphLaunch(r.ctx, x, r.a)) // queued
		}, func(r *rig) {
			x := r.graph(func() {
				r.put(r.a, r.dev)
				r.record(r.e, r.a)
				r.await(r.b, r.e)
				r.put(r.b, r.dev)
				r.record(r.f, r.b)
				r.await(r.a, r.f)
			})
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.GraphLaunch(r.ctx, x, r.b)) // launches of one graph follow each other
		}},
	{"two-graphs", "Launches of two graphs on two streams are in no order.", "kernelWrites",
		func(r *rig) {
			x, y := r.graph(func() { r.put(r.a, r.dev) }), r.graph(func() { r.put(r.a, r.dev) })
			ok(r.GraphLaunch(r.ctx, x, r.a)) // queued
			ok(r.GraphLaunch(r.ctx, y, r.b)) // queued
		}, func(r *rig) {
			x, y := r.graph(func() { r.put(r.a, r.dev) }), r.graph(func() { r.put(r.a, r.dev) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.GraphLaunch(r.ctx, y, r.a))
		}},
	{"the-other-device", "Synchronising one device does not wait for another.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			ok(r.CtxSynchronize(r.ctx1))
			sink = r.host[0]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			ok(r.CtxSynchronize(r.ctx))
			sink = r.host[0]
		}},
	{"between-devices", "A copy between devices is ordered in its stream.", "copyWrites",
		func(r *rig) {
			ok(r.MemcpyPeerAsync(r.ctx, r.dev, r.ctx, r.elsewhere, r.ctx1, size, r.a)) // queued
			r.put(r.b, r.dev)                                                          // queued
		}, func(r *rig) {
			ok(r.MemcpyPeerAsync(r.ctx, r.dev, r.ctx, r.elsewhere, r.ctx1, size, r.a))
			r.put(r.a, r.dev)
		}},
	{"event-of-another-device", "A stream may wait for another device's event.", "fillWrites",
		func(r *rig) {
			ok(r.MemcpyPeerAsync(r.ctx, r.dev, r.ctx, r.elsewhere, r.ctx1, size, r.a)) // queued
			ok(r.MemsetD8Async(r.ctx1, r.elsewhere, 1, size, 0))                       // queued
		}, func(r *rig) {
			ok(r.MemcpyPeerAsync(r.ctx, r.dev, r.ctx, r.elsewhere, r.ctx1, size, r.a))
			r.record(r.e, r.a)
			ok(r.StreamWaitEvent(r.ctx1, 0, r.e, 0))
			ok(r.MemsetD8Async(r.ctx1, r.elsewhere, 1, size, 0))
		}},
	{"destroyed-stream", "Destroying a stream does not wait for its work.", "copyWrites",
		func(r *rig) {
			s := got(r.StreamCreate(r.ctx, cu.StreamNonBlocking))
			r.down(s, r.host, r.dev) // queued
			ok(r.StreamDestroy(r.ctx, s))
			sink = r.host[0]
		}, func(r *rig) {
			s := got(r.StreamCreate(r.ctx, cu.StreamNonBlocking))
			r.down(s, r.host, r.dev)
			ok(r.StreamDestroy(r.ctx, s))
			ok(r.CtxSynchronize(r.ctx))
			sink = r.host[0]
		}},
	{"destroyed-event", "Destroying an event does not wait, and undoes no wait.", "copyReads",
		func(r *rig) {
			e := got(r.EventCreate(r.ctx, 0))
			r.put(r.a, r.dev) // queued
			r.record(e, r.a)
			ok(r.EventDestroy(r.ctx, e))
			r.down(r.b, r.host, r.dev) // queued
		}, func(r *rig) {
			e := got(r.EventCreate(r.ctx, 0))
			r.put(r.a, r.dev)
			r.record(e, r.a)
			r.await(r.b, e)
			ok(r.EventDestroy(r.ctx, e))
			r.down(r.b, r.host, r.dev)
		}},
	{"parts", "Parts of one buffer that share no byte are no race.", "copyWrites",
		func(r *rig) {
			r.up(r.a, r.dev, r.host[:size/2+1])      // queued
			r.up(r.b, r.dev+size/2, r.host[size/2:]) // queued
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host[:size/2+1])
			r.up(r.b, r.dev+size/2+1, r.host[size/2+1:])
			r.down(r.c, r.other[:5], r.there)
			r.other[5] = 1
		}},
	{"rows", "A rectangle is its rows: what lies between them is free.", "copyReads",
		func(r *rig) {
			r.rows(r.a) // queued
			r.host[128+63] = 1
		}, func(r *rig) {
			r.rows(r.a)
			r.host[128+64] = 1
		}},
	{"every-other-word", "Of a kernel's accesses, just those that it makes count.", "kernelWrites",
		func(r *rig) {
			p := r.wide()
			r.run("put", r.a, address(p), 2) // queued
			p[16] = 1
		}, func(r *rig) {
			p := r.wide()
			r.run("put", r.a, address(p), 2)
			p[12] = 1
			sink = p[20]
		}},
	{"readers", "Any number may read.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host)   // queued
			r.up(r.b, r.there, r.host) // queued
			r.host[0]++
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			r.run("copy", r.b, r.there, address(r.host))
			sink = r.host[0]
		}},
	{"flag", "Data behind a flag that a kernel sets is there when the host has seen the flag.", "kernelWrites",
		func(r *rig) {
			r.run("tell", r.a, flagAt(r.flags), address(r.host)) // queued
			sink = r.host[0]
		}, func(r *rig) {
			r.run("tell", r.a, flagAt(r.flags), address(r.host))
			for atomic.LoadUint32(&r.flags[0]) == 0 {
			}
			sink = r.host[0]
		}},
	{"flag-without-atomics", "A flag is read with sync/atomic.", "kernelSignals",
		func(r *rig) {
			r.run("tell", r.a, flagAt(r.flags), address(r.host)) // queued
			sink = byte(r.flags[0])
		}, func(r *rig) {
			r.run("tell", r.a, flagAt(r.flags), address(r.host))
			sink = byte(atomic.LoadUint32(&r.flags[0]))
		}},
	{"atomics", "Atomics of kernels and of the host go together, plain accesses beside them do not.", "kernelSignals",
		func(r *rig) {
			r.run("count", r.a, address(r.host), 0) // queued
			sink = r.host[0]
		}, func(r *rig) {
			r.run("count", r.a, address(r.host), 0)
			r.run("count", r.b, address(r.host), 0)
			atomic.AddUint32(word(r.host), 1)
		}},
	{"per-thread-streams", "Every goroutine has a per-thread stream of its own.", "kernelWrites",
		func(r *rig) {
			done := make(chan int)
			r.put(cu.StreamPerThread, r.dev) // queued
			go func() {
				r.put(cu.StreamPerThread, r.dev) // queued
				close(done)
			}()
			<-done
		}, func(r *rig) {
			done := make(chan int)
			r.put(cu.StreamPerThread, r.dev)
			r.record(r.e, cu.StreamPerThread)
			go func() {
				r.await(cu.StreamPerThread, r.e)
				r.put(cu.StreamPerThread, r.dev)
				close(done)
			}()
			<-done
		}},
	{"another-goroutine", "A goroutine knows what another has waited for when that one tells it.", "copyWrites",
		func(r *rig) {
			done := make(chan int)
			r.down(r.a, r.host, r.dev) // queued
			go func() { sink = r.host[0]; close(done) }()
			r.sync(r.a)
			<-done
		}, func(r *rig) {
			done := make(chan int)
			r.down(r.a, r.host, r.dev)
			go func() { r.sync(r.a); close(done) }()
			<-done
			sink = r.host[0]
		}},
}

// graph is what f queues in stream a, to be launched.
func (r *rig) graph(f func()) cu.GraphExec {
	ok(r.StreamBeginCapture(r.ctx, r.a, cu.StreamCaptureModeRelaxed))
	f()
	return got(r.GraphInstantiate(r.ctx, got(r.StreamEndCapture(r.ctx, r.a)), 0))
}

// rows copies 32 rows of 64 bytes, 128 apart.
func (r *rig) rows(s cu.Stream) {
	ok(r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeHost, SrcHost: at(r.host), SrcPitch: 128,
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: r.dev, DstPitch: 64,
		WidthInBytes: 64, Height: 32,
	}, s))
}

// wide is managed memory for a kernel that leaves every other word out.
func (r *rig) wide() []byte {
	p := got(r.MemAllocManaged(r.ctx, 2*size, cu.MemAttachGlobal))
	return bytesAt(p, 2*size)
}
