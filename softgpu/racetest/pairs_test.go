package racetest

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// pair is an ordering rule, with a program that breaks it and one that keeps
// it. A report must show a line with the word "queued".
type pair struct {
	name, rule  string
	op          string // the function that the report shows, or errorReport and a part of the error
	racy, right func(r *rig)
}

func (r *rig) open() {
	if !r.opened {
		r.opened = true
		atomic.StoreUint32(&r.heldBy[0], 1)
	}
}

// hold keeps a stream busy until open is called.
func (r *rig) hold(s cu.Stream) { r.run("hold", s, flagAt(r.heldBy), 0) }

// streamPairs are programs about streams, events, copies and host functions.
var streamPairs = []pair{
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
	{"copy-then-write", "An asynchronous copy from page-locked memory reads it after the call.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host) // queued
			r.host[7] = 1
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			sink = r.host[7] // both read
			r.sync(r.a)
			r.host[7] = 1
		}},
	{"reused-staging-buffer", "A staging buffer may be reused when its copy is done, not when it is queued.", "copyReads",
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
	{"wrong-stream", "Synchronizing a stream waits for that stream only.", "copyWrites",
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
	{"event-recorded-again", "An event that is recorded again stands for the second record only.", "copyWrites",
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
	{"event-waited-for-then-recorded-again", "A stream waits for the record that the event had when the wait was queued.", "kernelWrites",
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
	{"event-query-failed", "A query of an event that has not succeeded orders nothing.", "copyWrites",
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
	{"wait-on-the-wrong-stream", "Waiting for an event delays only the stream that waits.", "copyReads",
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
	{"wait-after-the-copy", "Work that was in the stream before the wait does not wait.", "copyReads",
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
	{"fill-beside-kernel", "A fill in a stream is ordered like a kernel.", "fillWrites",
		func(r *rig) {
			r.put(r.a, r.dev)        // queued
			r.fill(r.b, r.dev, size) // queued
		}, func(r *rig) {
			r.put(r.a, r.dev)
			r.sync(r.a)
			r.fill(r.b, r.dev, size)
		}},
	{"fill-without-async", "cuMemset of device memory does not wait, and does not order non-blocking streams.", "fillWrites",
		func(r *rig) {
			ok(r.MemsetD8(r.ctx, r.dev, 1, size)) // queued
			r.put(r.a, r.dev)                     // queued
		}, func(r *rig) {
			ok(r.MemsetD8(r.ctx, r.dev, 1, size))
			r.sync(0)
			r.put(r.a, r.dev)
		}},
	{"fill-of-page-locked-memory", "cuMemset of page-locked memory waits, its Async form does not.", "fillWrites",
		func(r *rig) {
			r.fill(0, address(r.host), size) // queued
			sink = r.host[0]
		}, func(r *rig) {
			ok(r.MemsetD8(r.ctx, address(r.host), 1, size))
			sink = r.host[0]
		}},
	{"copy-within-the-device", "cuMemcpyDtoD does not wait, and neither does its Async form.", "copyWrites",
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
	{"non-blocking-then-legacy", "Work in the legacy stream does not follow a non-blocking stream.", "copyReads",
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
	{"synchronous-copy-and-non-blocking", "A synchronous copy waits for the legacy stream, not for non-blocking streams.", "copyReads",
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
	{"large-pageable-copy", "A copy from pageable memory of any size returns when its source is read, before the bytes have arrived.", "kernelReads",
		func(r *rig) {
			big := got(r.MemAlloc(r.ctx, megabyte))
			ok(r.MemcpyHtoD(r.ctx, big, at(make([]byte, megabyte)), megabyte)) // queued
			r.run("copy", r.a, r.there, big+megabyte-size)                     // queued
		}, func(r *rig) {
			big := got(r.MemAlloc(r.ctx, megabyte))
			ok(r.MemcpyHtoD(r.ctx, big, at(make([]byte, megabyte)), megabyte))
			r.record(r.e, 0)
			r.await(r.a, r.e)
			r.run("copy", r.a, r.there, big+megabyte-size)
		}},
	{"large-pageable-copy-in-a-stream", "The same holds for the asynchronous form.", "copyReads",
		func(r *rig) {
			big := got(r.MemAlloc(r.ctx, megabyte))
			r.up(r.a, big, make([]byte, megabyte)) // queued
			r.down(r.b, r.host, big)               // queued
		}, func(r *rig) {
			big := got(r.MemAlloc(r.ctx, megabyte))
			r.up(r.a, big, make([]byte, megabyte))
			r.sync(r.a)
			r.down(r.b, r.host, big)
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
	{"host-to-host-is-a-barrier", "A host-to-host copy waits for the legacy stream and so for blocking streams, not for non-blocking ones.", "kernelWrites",
		func(r *rig) {
			r.put(r.a, address(r.host)) // queued
			ok(r.Memcpy(r.ctx, address(r.other[:8]), address(r.other[8:]), 8))
			sink = r.host[0]
		}, func(r *rig) {
			r.put(r.c, address(r.host))
			ok(r.Memcpy(r.ctx, address(r.other[:8]), address(r.other[8:]), 8))
			sink = r.host[0]
		}},
	{"host-function-reads", "A host function runs when its stream reaches it.", "racetest",
		func(r *rig) {
			r.call(r.a, func() { sink = r.host[3] }) // queued
			r.host[3] = 1
		}, func(r *rig) {
			r.host[3] = 1
			r.call(r.a, func() { sink = r.host[3] })
			r.sync(r.a)
			r.host[3] = 2
		}},
	{"host-function-writes", "The host sees the writes of a host function after a synchronization.", "racetest",
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
	{"host-functions-of-two-streams", "Host functions of two streams are not ordered.", "racetest",
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
	{"host-function-then-copy", "Work behind a host function follows it only in the same stream.", "copyReads",
		func(r *rig) {
			r.call(r.a, func() { r.host[0] = 1 }) // queued
			r.up(r.b, r.dev, r.host)              // queued
		}, func(r *rig) {
			r.call(r.a, func() { r.host[0] = 1 })
			r.up(r.a, r.dev, r.host)
		}},
}
