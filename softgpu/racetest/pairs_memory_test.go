package racetest

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// memoryPairs are programs about allocations, managed memory, graphs, devices and
// the bytes that an operation touches.
var memoryPairs = []pair{
	{"allocated-in-another-stream", "Memory allocated in stream order may be used in that stream only.", "allocates",
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
	{"freed-in-another-stream", "A free in stream order follows only the work of its own stream.", "frees",
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
	{"managed-read", "The host must wait for a kernel that writes managed memory.", "kernelWrites",
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
	{"managed-write", "Before it writes managed memory, the host must wait for a kernel that reads it.", "kernelReads",
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
	{"prefetch-is-no-wait", "A prefetch to the host is queued, and does not wait.", "kernelWrites",
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
	{"registered", "Copies to registered memory are asynchronous, as to other page-locked memory.", "copyWrites",
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
	{"graph-branches", "A node of a graph follows only the nodes that it followed in the capture.", "kernelWrites",
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
	{"two-graphs", "Launches of two graphs on two streams are not ordered.", "kernelWrites",
		func(r *rig) {
			x, y := r.graph(func() { r.put(r.a, r.dev) }), r.graph(func() { r.put(r.a, r.dev) })
			ok(r.GraphLaunch(r.ctx, x, r.a)) // queued
			ok(r.GraphLaunch(r.ctx, y, r.b)) // queued
		}, func(r *rig) {
			x, y := r.graph(func() { r.put(r.a, r.dev) }), r.graph(func() { r.put(r.a, r.dev) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			ok(r.GraphLaunch(r.ctx, y, r.a))
		}},
	{"the-other-device", "Synchronizing one device does not wait for another.", "copyWrites",
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
	{"destroyed-event", "Destroying an event does not wait, and does not cancel waits for it.", "copyReads",
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
	{"parts", "Operations on parts of a buffer that share no byte do not race.", "copyWrites",
		func(r *rig) {
			r.up(r.a, r.dev, r.host[:size/2+1])      // queued
			r.up(r.b, r.dev+size/2, r.host[size/2:]) // queued
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host[:size/2+1])
			r.up(r.b, r.dev+size/2+1, r.host[size/2+1:])
			r.down(r.c, r.other[:5], r.there)
			r.other[5] = 1
		}},
	{"rows", "A copy of a rectangle uses its rows, not the bytes between them.", "copyReads",
		func(r *rig) {
			r.rows(r.a) // queued
			r.host[128+63] = 1
		}, func(r *rig) {
			r.rows(r.a)
			r.host[128+64] = 1
		}},
	{"every-other-word", "A kernel races only on bytes that it accesses.", "kernelWrites",
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
	{"readers", "Any number of operations may read the same bytes.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host)   // queued
			r.up(r.b, r.there, r.host) // queued
			r.host[0]++
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			r.run("copy", r.b, r.there, address(r.host))
			sink = r.host[0]
		}},
	{"flag", "Data written before a kernel sets a flag is visible once the host has read the flag.", "kernelWrites",
		func(r *rig) {
			r.run("publish", r.a, flagAt(r.flags), address(r.host)) // queued
			sink = r.host[0]
		}, func(r *rig) {
			r.run("publish", r.a, flagAt(r.flags), address(r.host))
			for atomic.LoadUint32(&r.flags[0]) == 0 {
			}
			sink = r.host[0]
		}},
	{"flag-without-atomics", "The host must read a flag with sync/atomic.", "kernelSignals",
		func(r *rig) {
			r.run("publish", r.a, flagAt(r.flags), address(r.host)) // queued
			sink = byte(r.flags[0])
		}, func(r *rig) {
			r.run("publish", r.a, flagAt(r.flags), address(r.host))
			sink = byte(atomic.LoadUint32(&r.flags[0]))
		}},
	{"value", "Data written before a stream writes a value is visible once the host has read the value.", "copyWrites",
		func(r *rig) {
			r.down(r.a, r.host, r.dev) // queued
			r.writeValue(r.a, 1)
			sink = r.host[0]
		}, func(r *rig) {
			r.down(r.a, r.host, r.dev)
			r.writeValue(r.a, 1)
			for atomic.LoadUint32(&r.flags[0]) != 1 {
			}
			sink = r.host[0]
		}},
	{"value-without-atomics", "The host must read a value with sync/atomic.", "streamSignals",
		func(r *rig) {
			r.writeValue(r.a, 1) // queued
			sink = byte(r.flags[0])
		}, func(r *rig) {
			r.writeValue(r.a, 1)
			sink = byte(atomic.LoadUint32(&r.flags[0]))
			r.sync(r.a)
			sink = byte(r.flags[0])
		}},
	{"value-waited", "Data written before a stream writes a value is visible behind a wait for the value.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host)
			r.writeValue(r.a, 1)
			r.down(r.b, r.other, r.dev) // queued
			r.sync(r.a)
			r.sync(r.b)
		}, func(r *rig) {
			r.up(r.a, r.dev, r.host)
			r.writeValue(r.a, 1)
			r.waitValue(r.b, 1)
			r.down(r.b, r.other, r.dev)
			r.sync(r.a)
			r.sync(r.b)
		}},
	{"value-of-the-host", "What the host wrote before a value is visible behind a stream's wait for the value.", "copyReads",
		func(r *rig) {
			r.up(r.a, r.dev, r.host) // queued
			r.waitValue(r.a, 1)
			r.host[0] = 3
			atomic.StoreUint32(&r.flags[0], 1)
		}, func(r *rig) {
			r.waitValue(r.a, 1)
			r.up(r.a, r.dev, r.host)
			r.host[0] = 3
			atomic.StoreUint32(&r.flags[0], 1)
		}},
	{"value-too-early", "A value says nothing about work behind it.", "copyWrites",
		func(r *rig) {
			r.writeValue(r.a, 1)
			r.down(r.a, r.host, r.dev) // queued
			for atomic.LoadUint32(&r.flags[0]) != 1 {
			}
			sink = r.host[0]
		}, func(r *rig) {
			r.writeValue(r.a, 1)
			r.down(r.a, r.host, r.dev)
			r.writeValue(r.a, 2)
			for atomic.LoadUint32(&r.flags[0]) != 2 {
			}
			sink = r.host[0]
		}},
	{"atomics", "Atomics of kernels do not race with each other, nor with atomic loads of the host, but with other accesses of it.", "kernelSignals",
		func(r *rig) {
			r.run("count", r.a, address(r.host), 0) // queued
			sink = r.host[0]
		}, func(r *rig) {
			r.run("count", r.a, address(r.host), 0)
			r.run("count", r.b, address(r.host), 0)
			sink = byte(atomic.LoadUint32(word(r.host)))
		}},
	{"per-thread-streams", "Every goroutine has its own per-thread stream.", "kernelWrites",
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
	{"another-goroutine", "A wait orders another goroutine only after the two synchronize.", "copyWrites",
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

// graph captures what f queues in stream a.
func (r *rig) graph(f func()) cu.GraphExec {
	ok(r.StreamBeginCapture(r.ctx, r.a, cu.StreamCaptureModeRelaxed))
	f()
	return got(r.GraphInstantiate(r.ctx, got(r.StreamEndCapture(r.ctx, r.a)), 0))
}

// rows copies 32 rows of 64 bytes with a pitch of 128.
func (r *rig) rows(s cu.Stream) {
	ok(r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeHost, SrcHost: at(r.host), SrcPitch: 128,
		DstMemoryType: cu.MemoryTypeDevice, DstDevice: r.dev, DstPitch: 64,
		WidthInBytes: 64, Height: 32,
	}, s))
}

// wide allocates managed memory for a kernel that writes every other word.
func (r *rig) wide() []byte {
	p := got(r.MemAllocManaged(r.ctx, 2*size, cu.MemAttachGlobal))
	return bytesAt(p, 2*size)
}
