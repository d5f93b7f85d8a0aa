package racetest

import (
	"bytes"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
)

// poolPairs are programs that give memory back to a pool while something still uses it, and
// pipelines whose Step, ends or goroutines share memory.
var poolPairs = []pair{
	{"pool/given-back-and-taken-again", "A slice of a buffer that was given back to its pool is memory of the next buffer.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			raw := h.Slice()
			ok(h.Close())
			ok(h.Alloc(pool, size))
			x.copy(x.s, h, x.dev) // queued
			raw[0] = 1
		}, func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			ok(h.Close())
			ok(h.Alloc(pool, size))
			x.copy(x.s, h, x.dev)
			h.Slice()[0] = 1
		}},
	{"pool/given-back-in-flight", "Close of a buffer of a pool does not wait for the copy that writes it.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			h, _ := x.fromPool()
			raw := h.Slice()
			x.copy(x.s, h, x.dev) // queued
			ok(h.Close())
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			h, _ := x.fromPool()
			raw := h.Slice()
			x.copy(x.s, h, x.dev)
			sink = h.Slice()[0]
			ok(h.Close())
			clear(raw[:0])
		}},
	{"pool/given-back-while-a-kernel-reads", "The pool does not know of kernels that use an address.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			x.reads(x.s, x.dev, h.Pointer()) // queued
			ok(h.Close())
			ok(h.Alloc(pool, size))
			h.Slice()[0] = 1
		}, func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			x.reads(x.s, x.dev, h)
			ok(h.Close())
			ok(h.Alloc(pool, size))
			h.Slice()[0] = 1
		}},
	{"pool/shared-by-two-goroutines", "Close on one goroutine and use of the slice on another need an order, because the pool gives the memory to others.", "racetest",
		func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			raw := h.Slice()
			join := beside(func() { raw[0] = 1 }) // queued
			ok(h.Close())
			ok(h.Alloc(pool, size))
			h.Slice()[0] = 2
			join()
		}, func(r *rig) {
			x := r.typed()
			h, pool := x.fromPool()
			raw := h.Slice()
			beside(func() { raw[0] = 1 })()
			ok(h.Close())
			ok(h.Alloc(pool, size))
			h.Slice()[0] = 2
		}},
	{"pool/allocated-in-one-stream", "An address of AllocAsync is valid in its stream; a Buffer makes other streams wait.", "allocates",
		func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil)) // queued
			x.writes(x.s, x.dev)
			ok(r.MemsetD8Async(r.ctx, d.Pointer(), 1, size, r.a)) // queued
			x.wait(x.s)
		}, func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil))
			x.fill(x.t, d)
		}},
	{"pool/first-use-in-another-stream", "A Buffer of AllocAsync makes other streams wait for the allocation, and not for what fills it.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil))
			x.fill(x.s, d) // queued
			x.fill(x.t, d) // queued
		}, func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil))
			x.fill(x.s, d)
			x.follow(x.t, x.s)
			x.fill(x.t, d)
		}},
	{"pool/freed-in-stream-order", "Close of a buffer of AllocAsync knows streams that used the buffer, not those that used its address.", "frees",
		func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil))
			x.wait(x.s)
			ok(r.MemsetD8Async(r.ctx, d.Pointer(), 1, size, r.a)) // queued
			ok(d.Close())                                         // queued
		}, func(r *rig) {
			x := r.typed()
			d := got(ferry.AllocAsync[byte](x.s, size, nil))
			x.fill(x.t, d)
			ok(d.Close())
		}},
	{"pool/of-the-driver", "Memory of a pool made with cuMemPoolCreate is allocated and freed in stream order.", "frees",
		func(r *rig) {
			pool := got(r.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice}))
			p := got(r.MemAllocFromPoolAsync(r.ctx, size, pool, r.a))
			r.sync(r.a)
			r.down(r.b, r.host, p)            // queued
			ok(r.MemFreeAsync(r.ctx, p, r.a)) // queued
		}, func(r *rig) {
			pool := got(r.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice}))
			p := got(r.MemAllocFromPoolAsync(r.ctx, size, pool, r.a))
			r.sync(r.a)
			r.down(r.b, r.host, p)
			r.sync(r.b)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"pipeline/input-changed", "The input of a pipeline must not change before Run has returned.", "racetest",
		func(r *rig) {
			x, in := r.typed(), make([]byte, data)
			join := beside(func() { in[data-1] = 1 })
			x.run(ferry.Pageable(in), ferry.Pageable(make([]byte, data)), x.passes) // queued
			join()
		}, func(r *rig) {
			x, in := r.typed(), make([]byte, data)
			x.run(ferry.Pageable(in), ferry.Pageable(make([]byte, data)), x.passes)
			in[data-1] = 1
		}},
	{"pipeline/output-read", "The output of a pipeline must not be read before Run has returned.", "racetest",
		func(r *rig) {
			x, out := r.typed(), make([]byte, data)
			join := beside(func() { sink = out[0] })
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(out), x.passes) // queued
			join()
		}, func(r *rig) {
			x, out := r.typed(), make([]byte, data)
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(out), x.passes)
			sink = out[0]
		}},
	{"pipeline/step-reads-the-output", "Step must not read what earlier chunks write to the output.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			out := x.large()
			raw := out.Slice()
			x.run(ferry.Pageable(make([]byte, data)), out, r.atOnce(x, func(s *ferry.Stream, c *pipeline.Chunk) error { // queued
				if c.Index == 3 {
					sink = raw[0]
				}
				return x.passes(s, c)
			}))
		}, func(r *rig) {
			x := r.typed()
			out := x.large()
			x.run(ferry.Pageable(make([]byte, data)), out, x.passes)
			sink = out.Slice()[0]
		}},
	{"pipeline/pinned-input-changed", "A page-locked end is read by copies in flight while Run runs.", "copyReads",
		func(r *rig) {
			x := r.typed()
			in := x.large()
			raw := in.Slice()
			join := beside(func() { raw[data-1] = 1 })
			x.run(in, ferry.Pageable(make([]byte, data)), x.passes) // queued
			join()
		}, func(r *rig) {
			x := r.typed()
			in := x.large()
			raw := in.Slice()
			x.run(in, ferry.Pageable(make([]byte, data)), x.passes)
			raw[data-1] = 1
		}},
	{"pipeline/one-scratch-buffer", "Chunks are in flight at the same time, so they must not share a scratch buffer.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), r.atOnce(x, func(s *ferry.Stream, c *pipeline.Chunk) error {
				x.writes(s, x.dev) // queued
				return x.passes(s, c)
			}))
		}, func(r *rig) {
			x := r.typed()
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), func(s *ferry.Stream, c *pipeline.Chunk) error {
				x.writes(s, x.device())
				return x.passes(s, c)
			})
		}},
	{"pipeline/another-stream", "What Step queues in another stream does not follow the copy of the chunk.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), func(s *ferry.Stream, c *pipeline.Chunk) error {
				x.reads(x.t, x.dev, c.In[0].Pointer()) // queued
				return x.passes(s, c)
			})
			x.wait(x.t)
		}, func(r *rig) {
			x := r.typed()
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), func(s *ferry.Stream, c *pipeline.Chunk) error {
				x.follow(x.t, s)
				x.reads(x.t, x.dev, c.In[0].Pointer())
				x.follow(s, x.t)
				return x.passes(s, c)
			})
		}},
	{"pipeline/host-functions", "Host functions of chunks run beside each other.", "racetest",
		func(r *rig) {
			x, n := r.typed(), 0
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), r.atOnce(x, func(s *ferry.Stream, c *pipeline.Chunk) error {
				ok(s.HostFunc(func() { n++ })) // queued
				return x.passes(s, c)
			}))
		}, func(r *rig) {
			x, n := r.typed(), 0
			var mu sync.Mutex
			x.run(ferry.Pageable(make([]byte, data)), ferry.Pageable(make([]byte, data)), func(s *ferry.Stream, c *pipeline.Chunk) error {
				ok(s.HostFunc(func() {
					mu.Lock()
					defer mu.Unlock()
					n++
				}))
				return x.passes(s, c)
			})
		}},
	{"pipeline/two-runs-one-output", "Two pipelines that run at once must not write one output.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			out := got(ferry.Alloc[byte](x.g, data))
			step := x.meeting() // queued
			join := beside(func() { x.run(ferry.Pageable(make([]byte, data)), out, step) })
			x.run(ferry.Pageable(make([]byte, data)), out, step)
			join()
		}, func(r *rig) {
			x := r.typed()
			out := got(ferry.Alloc[byte](x.g, 2*data))
			step := x.meeting()
			join := beside(func() { x.run(ferry.Pageable(make([]byte, data)), out.Range(0, data), step) })
			x.run(ferry.Pageable(make([]byte, data)), out.Range(data, 2*data), step)
			join()
		}},
	{"pipeline/device-end-beside-a-stream", "A Device end is used by the kernels of Step, which other streams do not follow.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			d := got(ferry.Alloc[byte](x.g, data))
			x.run(ferry.Pageable(make([]byte, data)), d, func(s *ferry.Stream, c *pipeline.Chunk) error {
				ok(r.MemsetD8Async(r.ctx, d.Pointer(), 1, data, r.a)) // queued
				return x.passes(s, c)
			})
			r.sync(r.a)
		}, func(r *rig) {
			x := r.typed()
			d := got(ferry.Alloc[byte](x.g, data))
			x.fill(x.t, d)
			x.run(ferry.Pageable(make([]byte, data)), d, x.passes)
		}},
	{"pipeline/reader-keeps-its-argument", "A Reader must not write its argument after Read has returned: it is memory of a chunk.", "copyReads",
		func(r *rig) {
			x, in := r.typed(), &keepingReader{from: bytes.NewReader(make([]byte, data))}
			x.run(pipeline.From[byte](in), ferry.Pageable(make([]byte, data)), func(s *ferry.Stream, c *pipeline.Chunk) error {
				return x.passes(s, c) // queued
			})
			in.end()
		}, func(r *rig) {
			x := r.typed()
			x.run(pipeline.From[byte](bytes.NewReader(make([]byte, data))), ferry.Pageable(make([]byte, data)), x.passes)
		}},
}

// data is the length of the ends of pipelines: four chunks.
const data = 4 * size

// large allocates a page-locked end of a pipeline.
func (x *typed) large() *ferry.Host[byte] { return got(ferry.AllocHost[byte](x.g, data, nil)) }

// run runs a pipeline of bytes.
func (x *typed) run(in, out pipeline.End, step stepFunc) {
	p := pipeline.Pipeline{GPU: x.g, In: []pipeline.End{in}, Out: []pipeline.End{out}, Step: step, ChunkLen: size, Depth: 4}
	got(p.Run(background))
	ok(p.Close())
}

// passes is a Step that copies its input to its output.
func (x *typed) passes(s *ferry.Stream, c *pipeline.Chunk) error {
	return s.Launch(x.copies, shape, c.Out[0], c.In[0])
}

// atOnce returns step for a pipeline whose chunks are in flight at once, as they may be. The
// first is held until Step is called for the last: without that, Run might see each chunk
// done before it begins the next, and then they are ordered.
func (r *rig) atOnce(x *typed, step stepFunc) stepFunc {
	return func(s *ferry.Stream, c *pipeline.Chunk) error {
		switch c.Index {
		case 0:
			r.holdTyped(x, s)
		case 3:
			r.open()
		}
		return step(s, c)
	}
}

// meeting returns passes as a Step for two pipelines, which waits until both are at their
// first chunk.
func (x *typed) meeting() stepFunc {
	var both sync.WaitGroup
	both.Add(2)
	return func(s *ferry.Stream, c *pipeline.Chunk) error {
		if c.Index == 0 {
			both.Done()
			both.Wait()
		}
		return x.passes(s, c) // queued
	}
}

type stepFunc = func(*ferry.Stream, *pipeline.Chunk) error

// fromPool returns a buffer of a new pool.
func (x *typed) fromPool() (*ferry.Host[byte], *ferry.PinnedPool) {
	pool := got(ferry.NewPinnedPool(x.g, &ferry.PinnedPoolOptions{Mapped: true}))
	h := new(ferry.Host[byte])
	ok(h.Alloc(pool, size))
	return h, pool
}

// keepingReader is a Reader whose first argument is written by a goroutine that nothing
// orders.
type keepingReader struct {
	from *bytes.Reader
	end  func()
}

func (k *keepingReader) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	if k.end == nil {
		k.end = beside(func() { p[0] = 1 })
	}
	return n, err
}
