package cutest

import (
	"bytes"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

const batchDoc = "package cu: Batches; the rules of each call"

// submit makes the calls of a batch, which must all succeed.
func (c *trial) submit(b *cu.Batch) {
	done, err := c.d.Submit(c.ctx, b)
	c.ok(err, "submit")
	c.check(done == b.Len(), "%d of %d calls done", done, b.Len())
}

// addInc appends a kernel that adds v to n words.
func (c *trial) addInc(b *cu.Batch, s cu.Stream, p cu.DevicePtr, v uint32, n int) {
	grid, block := cu.Dim3{X: uint32(n+255) / 256, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}
	b.LaunchKernel(c.kernel("inc"), grid, block, 0, s, pack(p, v, uint32(n)))
}

var batchChecks = []check{
	{"batch/every-call", "every call of a batch does the same as alone, in the order of its stream",
		batchDoc, needUVA, func(c *trial) {
			const n = 3000
			in, out := c.pinned(4*n, 0), c.pinned(4*n, 0)
			p, q, r, s := c.device(4*n), c.device(4*n), c.device(4*n), c.stream(cu.StreamNonBlocking)
			for range 3 {
				c.scramble(in.b)
				c.scramble(out.b)
				var b cu.Batch
				b.MemcpyHtoDAsync(p, in.p, 4*n, s)
				c.addInc(&b, s, p, 9, n)
				b.MemcpyDtoDAsync(q, p, 4*n, s)
				b.MemcpyAsync(r, q, 4*n, s)
				b.MemcpyPeerAsync(q, c.ctx, r, c.ctx, 4*n, s)
				b.MemsetD8Async(q, 0x5a, 1, s)
				b.MemsetD16Async(q+4, 0xbeef, 1, s)
				b.MemsetD32Async(q+8, 0xdeadbeef, 1, s)
				b.MemcpyDtoHAsync(out.p, q, 4*n, s)
				c.submit(&b)
				c.sync(s)
				want := plus(in.b, 9)
				want[0] = 0x5a
				copy(want[4:], []byte{0xef, 0xbe})
				copy(want[8:], words(0xdeadbeef))
				c.same("through the batch", out.b, want)
			}
		}},
	{"batch/streams", "a batch can use several streams, and an event in it orders them",
		batchDoc, 0, func(c *trial) {
			p, first, second, e := c.device(4), c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(0)
			var b cu.Batch
			b.MemsetD32Async(p, 1000, 1, first)
			for range 50 {
				c.addInc(&b, first, p, 1, 1)
			}
			b.EventRecord(e, first)
			b.StreamWaitEvent(second, e)
			c.addInc(&b, second, p, 7, 1)
			c.submit(&b)
			c.sync(second)
			c.same("after both", c.down(p, 4), words(1057))
		}},
	{"batch/again", "a batch can be submitted again, and its calls then use the current contents of memory",
		batchDoc, 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			var b cu.Batch
			c.addInc(&b, s, p, 3, 1)
			c.submit(&b)
			c.submit(&b)
			c.sync(s)
			c.same("after two", c.down(p, 4), words(6))
		}},
	{"batch/returns", "submitting a batch does not wait for its work",
		batchDoc, needMapHost, func(c *trial) {
			p, s, g := c.device(4), c.stream(cu.StreamNonBlocking), c.gate()
			g.hold(s)
			var b cu.Batch
			b.MemsetD32Async(p, 5, 1, s)
			c.addInc(&b, s, p, 1, 1)
			c.mustReturn(g, "Submit", func() error { _, err := c.d.Submit(c.ctx, &b); return err })
			c.busy(s)
			g.open()
			c.sync(s)
			c.same("after the gate", c.down(p, 4), words(6))
		}},
	{"batch/stops-at-an-error", "a batch stops at the first call that fails, and returns the number of calls made",
		batchDoc, 0, func(c *trial) {
			p, s := c.device(4), c.stream(cu.StreamNonBlocking)
			c.up(p, words(0))
			var b cu.Batch
			c.addInc(&b, s, p, 1, 1)
			c.addInc(&b, s, p, 10, 1)
			b.LaunchKernel(c.kernel("inc"), cu.Dim3{}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, s, pack(p, uint32(100), uint32(1)))
			c.addInc(&b, s, p, 1000, 1)
			done, err := c.d.Submit(c.ctx, &b)
			c.want(err, "an empty grid in a batch", cu.ErrorInvalidValue)
			c.check(done == 2, "%d done, want 2", done)
			c.sync(s)
			c.same("what was before", c.down(p, 4), words(11))
		}},
	{"batch/empty", "an empty batch does nothing", batchDoc, 0, func(c *trial) {
		var b cu.Batch
		c.submit(&b)
	}},
	{"batch/no-context", "a batch without a context is refused", batchDoc, 0, func(c *trial) {
		var b cu.Batch
		b.EventRecord(c.event(0), c.stream(cu.StreamNonBlocking))
		done, err := c.d.Submit(0, &b)
		c.want(err, "submit without a context", cu.ErrorInvalidContext)
		c.check(done == 0, "%d done, want 0", done)
	}},
	{"batch/captured", "a batch on a capturing stream is captured", batchDoc, 0, func(c *trial) {
		p, s := c.device(4), c.stream(cu.StreamNonBlocking)
		c.up(p, words(0))
		x := c.instantiated(c.captured(s, func() {
			var b cu.Batch
			b.MemsetD32Async(p, 40, 1, s)
			c.addInc(&b, s, p, 2, 1)
			c.submit(&b)
		}))
		c.sync(s)
		c.same("before a launch", c.down(p, 4), words(0))
		c.runGraph(x, s)
		c.sync(s)
		c.same("after a launch", c.down(p, 4), words(42))
	}},
	{"batch/copies", "a batch of copies runs in stream order; each copy is between any two addresses",
		"Driver API: cuMemcpyBatchAsync", needUVA, func(c *trial) {
			const n, count = 700, 30
			in, out := c.pinned(n*count, 0), c.pinned(n*count, 0)
			p, s := c.device(n*count), c.stream(cu.StreamNonBlocking)
			for range 3 {
				c.scramble(in.b)
				c.scramble(out.b)
				c.ok(c.d.MemsetD8Async(c.ctx, p, 0x33, n*count, s), "fill")
				up, down, dev, sizes := pieces(addressOfPointer(in.p), n, count), pieces(addressOfPointer(out.p), n, count), pieces(p, n, count), make([]uintptr, count)
				want := append([]byte(nil), in.b...)
				for i := range sizes {
					sizes[i] = uintptr(n - i)
					copy(want[n*(i+1)-i:n*(i+1)], out.b[n*(i+1)-i:])
				}
				c.ok(c.d.MemcpyBatchAsync(c.ctx, dev, up, sizes, s), "in")
				c.ok(c.d.MemcpyBatchAsync(c.ctx, down, dev, sizes, s), "out")
				c.sync(s)
				c.same("there and back", out.b, want)
			}
		}},
	{"batch/copies-return", "a batch of copies of page-locked memory returns before the copies are done",
		"Driver API: cuMemcpyBatchAsync", needUVA | needMapHost, func(c *trial) {
			in := c.pinned(4096, 0)
			p, s, g := c.device(4096), c.stream(cu.StreamNonBlocking), c.gate()
			g.hold(s)
			c.scramble(in.b)
			c.mustReturn(g, "MemcpyBatchAsync", func() error {
				return c.d.MemcpyBatchAsync(c.ctx, pieces(p, 2048, 2), pieces(addressOfPointer(in.p), 2048, 2), []uintptr{2048, 2048}, s)
			})
			c.busy(s)
			c.scramble(in.b) // the copies read their sources in stream order
			g.open()
			c.sync(s)
			c.same("in", c.down(p, 4096), in.b)
		}},
	{"batch/pageable", "a batch of copies uses pageable memory when its stream gets there: it returns before the bytes are at the host, and may read a source after it returns",
		"Driver API: cuMemcpyBatchAsync", needUVA | needMapHost, func(c *trial) {
			const n = 1 << 20
			p, s, src, dst := c.device(n), c.stream(cu.StreamNonBlocking), c.pageable(n), c.pageable(n)
			list := func(dst, src cu.DevicePtr) error {
				return c.d.MemcpyBatchAsync(c.ctx, pieces(dst, n/2, 2), pieces(src, n/2, 2), []uintptr{n / 2, n / 2}, s)
			}
			from, to := addressOfPointer(pointerTo(src)), addressOfPointer(pointerTo(dst))
			before := bytes.Clone(src)
			c.ok(list(p, from), "in")
			if !(raceBuild && cu.AsEmulated(c.d) != nil) { // the detector would report it
				c.scramble(src)
			}
			c.sync(s)
			in := c.down(p, n)
			if !eachWordOf(in, before, src) {
				c.fail("a word of the destination is in none of the states of the source")
			}
			g := c.gate()
			g.hold(s)
			c.mustReturn(g, "MemcpyBatchAsync to pageable memory", func() error { return list(to, p) })
			c.busy(s)
			g.open()
			c.sync(s)
			c.same("out", dst, in)
			runtime.KeepAlive(src)
		}},
	{"batch/copies-refused", "a batch of no copies, on the default stream, or with lists of different lengths is refused",
		"Driver API: cuMemcpyBatchAsync", needUVA, func(c *trial) {
			in := c.pinned(64, 0)
			p, s := c.device(64), c.stream(cu.StreamNonBlocking)
			to, from := []cu.DevicePtr{p}, []cu.DevicePtr{addressOfPointer(in.p)}
			c.want(c.d.MemcpyBatchAsync(c.ctx, nil, nil, nil, s), "no copies", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyBatchAsync(c.ctx, to, from, []uintptr{64}, 0), "stream 0", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyBatchAsync(c.ctx, to, from, []uintptr{64}, cu.StreamLegacy), "the legacy stream", cu.ErrorInvalidValue)
			c.want(c.d.MemcpyBatchAsync(c.ctx, to, from, nil, s), "no sizes", cu.ErrorInvalidValue)
		}},
}

// pieces returns addresses that are n bytes apart.
func pieces(p cu.DevicePtr, n, count int) []cu.DevicePtr {
	all := make([]cu.DevicePtr, count)
	for i := range all {
		all[i] = p + cu.DevicePtr(i*n)
	}
	return all
}
