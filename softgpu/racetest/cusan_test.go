package racetest

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
)

// cusanPairs are the situations of CuSan's test cases that no other theme has: see
// docs/generated/cusan.md.
var cusanPairs = []pair{
	{"cusan/event-recorded-only", "A record of an event waits for nothing.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(0, p) // queued
			r.record(r.e, 0)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(0, p)
			r.record(r.e, 0)
			r.wait(r.e)
			sink = host[0]
		}},
	{"cusan/waited-for-on-the-other-device", "An event orders the host also while another device is current; a wait for that device does not.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(0, p) // queued
			r.record(r.e, 0)
			ok(r.CtxSynchronize(r.ctx1))
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(0, p)
			r.record(r.e, 0)
			ok(r.EventSynchronize(r.ctx1, r.e))
			sink = host[0]
		}},
	{"cusan/send", "A library that sends device memory from a stream of its own does not follow the default stream.", "copyReads",
		func(r *rig) {
			r.put(0, r.dev) // queued
			r.send(r.dev)   // queued
		}, func(r *rig) {
			r.put(0, r.dev)
			ok(r.CtxSynchronize(r.ctx))
			r.send(r.dev)
		}},
	{"cusan/receive", "A kernel must not write what a library still receives.", "kernelWrites",
		func(r *rig) {
			r.up(r.b, r.dev, r.other) // queued
			r.put(0, r.dev)           // queued
			r.sync(r.b)
		}, func(r *rig) {
			r.up(r.b, r.dev, r.other)
			r.sync(r.b)
			r.put(0, r.dev)
		}},
	{"cusan/argument-that-is-only-read", "Another stream may read what a kernel only reads, not what it writes.", "copyReads",
		func(r *rig) {
			r.run("copy", 0, r.dev, r.there) // queued
			r.send(r.dev)                    // queued
		}, func(r *rig) {
			r.run("copy", 0, r.dev, r.there)
			r.send(r.there)
		}},
	{"cusan/source-of-the-copy", "A wait for a copy does not wait for the kernel of another stream that writes its source.", "copyReads",
		func(r *rig) {
			plain := make([]byte, size)
			r.put(r.c, r.dev)         // queued
			r.down(r.d, plain, r.dev) // queued
			r.sync(r.d)
			sink = plain[0]
		}, func(r *rig) {
			plain := make([]byte, size)
			r.put(r.c, r.dev)
			r.sync(r.c)
			r.down(r.d, plain, r.dev)
			r.sync(r.d)
			sink = plain[0]
		}},
	{"cusan/event-between-two-kernels", "The host may order two streams: it waits for an event of one before it launches in the other.", "kernelWrites",
		func(r *rig) {
			r.run("copy", r.c, r.dev, r.dev) // queued
			r.record(r.e, r.c)
			r.run("copy", r.d, r.dev, r.dev) // queued
		}, func(r *rig) {
			r.run("copy", r.c, r.dev, r.dev)
			r.record(r.e, r.c)
			r.wait(r.e)
			r.run("copy", r.d, r.dev, r.dev)
		}},
	{"cusan/chunks", "Each chunk of a result has a stream: wait for it before the chunk is read.", "copyWrites",
		func(r *rig) {
			r.sendChunks(func(cu.Stream) { r.sync(r.a) }) // queued
		}, func(r *rig) {
			r.sendChunks(r.sync)
		}},
	{"cusan/copied-onto-itself", "A copy of registered memory onto itself is done when cuMemcpy returns; other goroutines do not know that.", "copyWrites",
		func(r *rig) {
			plain := r.registered()
			join := beside(func() { sink = plain[0] })
			ok(r.Memcpy(r.ctx, address(plain), address(plain), size)) // queued
			join()
		}, func(r *rig) {
			plain := r.registered()
			ok(r.Memcpy(r.ctx, address(plain), address(plain), size))
			sink = plain[0]
		}},
	{"cusan/struct-of-pointers", "A kernel races on what it writes through the members of its argument, not on all that they point to.", "kernelWrites",
		func(r *rig) {
			r.run("put_both", r.c, r.dev, r.there, 0) // queued
			r.run("put_second", r.d, r.dev, r.there)  // queued
			r.run("put_second", r.d, r.dev, r.there)  // queued
			r.run("put_second", r.c, r.dev, r.there)  // queued
		}, func(r *rig) {
			r.run("put_both", r.c, r.dev, r.there, 0)
			r.run("put_second", r.d, r.dev, r.there)
			r.run("put_second", r.d, r.dev, r.there)
			ok(r.CtxSynchronize(r.ctx))
			r.run("put_second", r.c, r.dev, r.there)
		}},
	{"cusan/pointer-to-a-struct", "A kernel races on what it writes through a struct in page-locked memory that it reads, not on the whole of it.", "kernelWrites",
		func(r *rig) {
			writePointers(r.host, r.dev, r.there)
			r.run("put_both", r.c, r.dev, r.there, 0)    // queued
			r.run("put_second_of", r.d, address(r.host)) // queued
			r.run("put_second_of", r.c, address(r.host)) // queued
		}, func(r *rig) {
			writePointers(r.host, r.dev, r.there)
			r.run("put_both", r.c, r.dev, r.there, 0)
			r.run("put_second_of", r.d, address(r.host))
			ok(r.CtxSynchronize(r.ctx))
			r.run("put_second_of", r.c, address(r.host))
		}},
	{"cusan/null-pointer-in-a-struct", "A member of the argument may be a null pointer, if the kernel does not follow it.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.run("put_both", 0, p, cu.DevicePtr(0), 0) // queued
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.run("put_both", 0, p, cu.DevicePtr(0), 0)
			ok(r.CtxSynchronize(r.ctx))
			sink = host[0]
		}},
	{"cusan/negative-index", "A kernel may use what lies before its argument: here a pointer, and what it points to.", "kernelWrites",
		func(r *rig) {
			list, inList := r.managed()
			p, host := r.managed()
			writePointers(inList, p, r.dev)
			r.run("put_before", 0, list+8) // queued
			sink = host[0]
		}, func(r *rig) {
			list, inList := r.managed()
			p, host := r.managed()
			writePointers(inList, p, r.dev)
			r.run("put_before", 0, list+8)
			ok(r.CtxSynchronize(r.ctx))
			sink = host[0]
		}},
	{"cusan/fill-between", "A fill in the default stream comes between the kernels of two blocking streams, so a wait for the second waits for both.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p) // queued
			r.put(r.d, r.dev)
			r.sync(r.d)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p)
			ok(r.MemsetD8(r.ctx, r.there, 1, 4))
			r.put(r.d, r.dev)
			r.sync(r.d)
			sink = host[0]
		}},
	{"cusan/fill-beside-a-non-blocking-stream", "A fill in the default stream orders nothing for the kernel of a non-blocking stream.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p) // queued
			ok(r.MemsetD8(r.ctx, r.there, 1, 4))
			r.put(r.c, r.dev)
			r.sync(r.c)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p)
			ok(r.MemsetD8(r.ctx, r.there, 1, 4))
			r.sync(r.a)
			r.put(r.c, r.dev)
			r.sync(r.c)
			sink = host[0]
		}},
	{"cusan/allocation-between", "An allocation of device or managed memory orders no streams.", "copyReads",
		func(r *rig) {
			plain := make([]byte, size)
			r.put(r.c, r.dev) // queued
			got(r.MemAlloc(r.ctx, size))
			r.managed()
			r.down(r.d, plain, r.dev) // queued
		}, func(r *rig) {
			plain := make([]byte, size)
			r.put(r.c, r.dev)
			got(r.MemAlloc(r.ctx, size))
			r.managed()
			r.sync(r.c)
			r.down(r.d, plain, r.dev)
		}},
	{"cusan/copy-between", "A copy between pageable memory waits for the work that blocking streams have when it is called.", "copyReads",
		func(r *rig) {
			plain, from, to := make([]byte, size), make([]byte, 4), make([]byte, 4)
			ok(r.Memcpy(r.ctx, address(to), address(from), 4))
			r.put(r.c, r.dev)         // queued
			r.down(r.d, plain, r.dev) // queued
		}, func(r *rig) {
			plain, from, to := make([]byte, size), make([]byte, 4), make([]byte, 4)
			r.put(r.c, r.dev)
			ok(r.Memcpy(r.ctx, address(to), address(from), 4))
			r.down(r.d, plain, r.dev)
		}},
	{"cusan/copy-beside-non-blocking-streams", "A copy between pageable memory orders no non-blocking streams.", "copyReads",
		func(r *rig) {
			plain, from, to := make([]byte, size), make([]byte, 4), make([]byte, 4)
			r.put(r.a, r.dev) // queued
			ok(r.Memcpy(r.ctx, address(to), address(from), 4))
			r.down(r.b, plain, r.dev) // queued
		}, func(r *rig) {
			plain, from, to := make([]byte, size), make([]byte, 4), make([]byte, 4)
			r.put(r.a, r.dev)
			ok(r.Memcpy(r.ctx, address(to), address(from), 4))
			r.sync(r.a)
			r.down(r.b, plain, r.dev)
		}},
	{"cusan/rectangle-between", "A synchronous copy of a rectangle to pageable memory comes after the work of blocking streams.", "copyReads",
		func(r *rig) {
			plain := make([]byte, size)
			ok(r.Memcpy2D(r.ctx, rectangle(plain, r.dev)))
			r.put(r.c, r.dev)                                        // queued
			ok(r.Memcpy2DAsync(r.ctx, rectangle(plain, r.dev), r.d)) // queued
		}, func(r *rig) {
			plain := make([]byte, size)
			r.put(r.c, r.dev)
			ok(r.Memcpy2D(r.ctx, rectangle(make([]byte, size), r.dev)))
			ok(r.Memcpy2DAsync(r.ctx, rectangle(plain, r.dev), r.d))
		}},
	{"cusan/default-stream-waited-for", "A launch in the default stream does not make the host wait; a wait for that stream waits for blocking streams, too.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p) // queued
			r.put(0, r.dev)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p)
			r.put(0, r.dev)
			r.sync(0)
			sink = host[0]
		}},
	{"cusan/behind-the-default-stream", "A wait for a blocking stream waits for the work of the default stream before it.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(0, p) // queued
			r.put(r.c, r.dev)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(0, p)
			r.put(r.c, r.dev)
			r.sync(r.c)
			sink = host[0]
		}},
	{"cusan/beside-the-default-stream", "A wait for a non-blocking stream is no wait for the default stream.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(0, p) // queued
			r.put(r.a, r.dev)
			r.sync(r.a)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(0, p)
			r.put(r.a, r.dev)
			r.sync(r.a)
			ok(r.CtxSynchronize(r.ctx))
			sink = host[0]
		}},
	{"cusan/default-stream-synchronized", "A wait for the default stream waits for blocking streams also if it has no work itself, but not for others.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.a, p) // queued
			r.sync(0)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p)
			r.sync(0)
			sink = host[0]
		}},
	{"cusan/default-stream-between", "Work in the default stream comes between two blocking streams: a wait for the second waits for all three.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p) // queued
			r.put(0, r.dev)
			r.put(r.d, r.dev)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			r.put(r.c, p)
			r.put(0, r.dev)
			r.put(r.d, r.dev)
			r.sync(r.d)
			sink = host[0]
		}},
}

// send stands for a call of a library such as MPI that reads device memory in a stream of its
// own, and waits for that.
func (r *rig) send(p cu.DevicePtr) {
	r.down(r.b, r.other, p)
	r.sync(r.b)
}

// sendChunks copies four chunks to the host in a stream each, and reads each after wait.
func (r *rig) sendChunks(wait func(s cu.Stream)) {
	const chunk = size / 4
	r.put(r.c, r.dev)
	r.sync(r.c)
	streams := []cu.Stream{r.a, r.b, r.c, r.d}
	for i, s := range streams {
		r.down(s, r.host[i*chunk:(i+1)*chunk], r.dev+cu.DevicePtr(i*chunk))
	}
	for i, s := range streams {
		wait(s)
		sink = r.host[i*chunk]
	}
}

// registered returns ordinary memory that is registered.
func (r *rig) registered() []byte {
	plain := make([]byte, size)
	ok(r.MemHostRegister(r.ctx, at(plain), size, 0))
	return plain
}

// writePointers writes a struct of two pointers.
func writePointers(to []byte, first, second cu.DevicePtr) {
	binary.LittleEndian.PutUint64(to, uint64(first))
	binary.LittleEndian.PutUint64(to[8:], uint64(second))
}

// rectangle describes a copy of 32 rows of 64 bytes from memory with a pitch of 128.
func rectangle(to []byte, from cu.DevicePtr) *cu.Memcpy2D {
	return &cu.Memcpy2D{
		SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: from, SrcPitch: 128,
		DstMemoryType: cu.MemoryTypeHost, DstHost: at(to), DstPitch: 64,
		WidthInBytes: 64, Height: 32,
	}
}
