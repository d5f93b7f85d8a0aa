package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// partsOut is a call of CopyPartsTo. Its bytes are those of all parts, one after the other.
type partsOut struct {
	partsCopy
	parts []Memory[byte]
	w     io.Writer
	ends  []int64 // of each part, in the bytes of the call
	from  int64   // the first byte of the transfer through the ring
}

// run makes the call.
func (c *partsOut) run(ctx context.Context, s *Stream) (n int64, err error) {
	if c.st, err = s.begin(&c.op, copyPartsToText, true); err != nil {
		return 0, err
	}
	defer func() { err = refusal.Join(err, c.end(ctx)) }() // also if the writer panics, or ends the goroutine
	if err = c.prepare(); err != nil {
		return 0, err
	}
	for i := 0; i < len(c.parts) && err == nil; { // a row of parts that go in one way
		way := c.pathOf(i)
		k := i + 1
		for k < len(c.parts) && (c.pathOf(k) == way || c.pathOf(k) == pathNone) {
			k++
		}
		n, err = c.write(ctx, way, i, k)
		i = k
	}
	return n, err
}

// pathOf returns how a part is copied.
func (c *partsOut) pathOf(i int) copyPath {
	plan := planIO(c.st, spanOf(c.parts[i]), inflight.Read)
	return plan.path
}

// prepare checks and acquires all memory.
func (c *partsOut) prepare() error {
	c.ends = make([]int64, len(c.parts))
	end := int64(0)
	for i, m := range c.parts {
		r := spanOf(m)
		err := c.acquire(r, inflight.Read)
		if err == nil {
			err = checkIO(c.st, r, inflight.Read)
		}
		if err == nil && r.a != nil && r.a.g != c.st.g {
			plan := planIO(c.st, r, inflight.Read)
			err = plan.reaches(c.st, r)
		}
		if err != nil {
			return &PartError{Part: i, Err: err, text: c.text(i)}
		}
		end += int64(r.bytes)
		c.ends[i] = end
	}
	return nil
}

// text describes a part.
func (c *partsOut) text(i int) string {
	return fmt.Sprintf("%s: part %d of %d, %v, on %v", copyPartsToText, i+1, len(c.parts), spanOf(c.parts[i]), c.st)
}

// locate returns the error of a byte of the call.
func (c *partsOut) locate(at int64, err error) error {
	if p, ok := errors.AsType[*staging.Panic](err); ok {
		panic(p.Value)
	}
	i := min(c.partAt(at), len(c.parts)-1)
	off := at - c.start(i)
	return &PartError{Part: i, Byte: off, Err: err, text: fmt.Sprintf("%s: byte %d", c.text(i), off)}
}

// start returns where a part begins in the bytes of the call.
func (c *partsOut) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// partAt returns the part that has a byte of the call.
func (c *partsOut) partAt(at int64) int {
	return sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > at })
}

// each calls f for the pieces of n bytes of the call, from byte at, until f returns an error.
func (c *partsOut) each(at, n int64, f func(part int, off int64, r span) error) error {
	for i := c.partAt(at); i < len(c.parts) && c.start(i) < at+n; i++ {
		off, end := max(at, c.start(i)), min(at+n, c.ends[i])
		if off == end {
			continue
		}
		off -= c.start(i)
		if err := f(i, off, spanOf(c.parts[i]).cut(uintptr(off), uintptr(end-c.start(i)-off))); err != nil {
			return err
		}
	}
	return nil
}

// write writes parts i to k-1, which go in one way. n is the number of bytes of the call that are
// written then.
func (c *partsOut) write(ctx context.Context, way copyPath, i, k int) (n int64, err error) {
	from, to := c.start(i), c.ends[k-1]
	switch way {
	case pathRing:
		return c.writeDevice(ctx, from, to)
	case pathCPU:
		return c.writeHost(ctx, i, k)
	}
	return from, nil
}

// writeHost writes host memory, when the stream has reached the call.
func (c *partsOut) writeHost(ctx context.Context, i, k int) (n int64, err error) {
	from, to := c.start(i), c.ends[k-1]
	if err := c.st.Wait(ctx); err != nil {
		return from, c.locate(from, err)
	}
	last := (*allocation)(nil)
	for ; i < k; i++ {
		r := spanOf(c.parts[i])
		if r.a == nil || r.a == last {
			continue
		}
		last = r.a
		if err := r.waitUsed(ctx, inflight.Read); err != nil {
			return from, c.locate(c.start(i), err)
		}
	}
	return c.writeBuffered(ctx, from, to, func(to []byte, r *span) error {
		copy(to, address.Bytes(r.host, r.bytes))
		return nil
	})
}

// writeDevice writes other memory through the ring. If other transfers have all slots, it writes the
// rest through ordinary memory, by the driver.
func (c *partsOut) writeDevice(ctx context.Context, from, to int64) (n int64, err error) {
	st := c.st
	if err := st.g.enter("copy"); err != nil { // the GPU stays open while a Write that hangs uses the ring
		return from, err
	}
	defer c.runs.end()
	job := staging.Job{Stream: st.handle, StreamID: st.number, Bytes: to - from, Yields: true, Ordered: true,
		Copy: c.queueSlot, Sent: c.sent, Done: st.g.leave}
	c.op.Queued()
	c.from = from
	n, err = stagingRing(st.g).Out(ctx, job, staging.Writer(c.w))
	n += from
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, staging.ErrBusy):
		return n, c.locateCopy(n, err)
	}
	return c.writeBuffered(ctx, n, to, func(to []byte, r *span) error {
		if err := waitToCopy(ctx, st); err != nil {
			return err
		}
		plan, host := planIO(st, r, inflight.Read), Pageable(to).span
		_, err := memcpyPageable(st, &plan, &host, r)
		return err
	})
}

// locateCopy is locate for an error of the ring.
func (c *partsOut) locateCopy(at int64, err error) error {
	if failed, ok := errors.AsType[*pieceError](err); ok {
		return c.locate(c.start(failed.part)+failed.off, failed.err)
	}
	if located, ok := errors.AsType[*staging.OffsetError](err); ok {
		return c.locate(c.from+located.Offset, located.Err)
	}
	return c.locate(at, err)
}

// queueSlot queues the copies of a part of the transfer to a slot of the ring.
func (c *partsOut) queueSlot(slot cu.HostPtr, off, n int64) error {
	c.runs.begin(c.st, inflight.Read, slot)
	at := int64(0)
	_ = c.each(c.from+off, n, func(part int, skip int64, r span) error {
		c.runs.add(slotRun{r, at, part, skip})
		at += int64(r.bytes)
		return nil
	})
	return c.runs.queue()
}

// sent is called when the writer has the bytes of memory, which begin at a byte of the transfer.
func (c *partsOut) sent(off, n int64, memory []byte) error {
	if err := c.hash(memory, c.from+off); err != nil {
		return err
	}
	c.advance(n)
	return nil
}

// hash gives the bytes of the call from byte at on to the hashes of their parts.
func (c *partsOut) hash(memory []byte, at int64) error {
	if c.hashes == nil {
		return nil
	}
	var jobs []hashJob
	_ = c.each(at, int64(len(memory)), func(part int, _ int64, r span) error {
		if h := c.hashes[part]; h != nil {
			jobs = append(jobs, hashJob{h, memory[:r.bytes]})
		}
		memory = memory[r.bytes:]
		return nil
	})
	return hashAll(jobs)
}

// writeBuffered writes bytes of the call through ordinary memory. fetch copies a part of a run of
// memory to it.
func (c *partsOut) writeBuffered(ctx context.Context, from, to int64, fetch func(to []byte, r *span) error) (n int64, err error) {
	own := make([]byte, min(to-from, hostPart))
	for n = from; n < to; {
		if err := ctx.Err(); err != nil {
			return n, c.locate(n, err)
		}
		block := own[:min(int64(len(own)), to-n)]
		rest := block
		err := c.each(n, int64(len(block)), func(part int, off int64, r span) error {
			if err := fetch(rest[:r.bytes], &r); err != nil {
				return c.locate(c.start(part)+off, err)
			}
			rest = rest[r.bytes:]
			return nil
		})
		if err != nil {
			return n, err
		}
		k, err := c.writeBlock(ctx, block)
		if failed := c.hash(block[:k], n); err == nil {
			err = failed
		}
		c.advance(int64(k))
		if n += int64(k); err != nil {
			return n, c.locate(n, err)
		}
	}
	return n, nil
}

// writeBlock calls the writer. If ctx ends while a Write hangs, p must not be used again.
func (c *partsOut) writeBlock(ctx context.Context, p []byte) (n int, err error) {
	to := sink{c.w}
	if ctx.Done() == nil || !to.mayHang() {
		return to.host(p)
	}
	written := 0
	abandoned, err := staging.Call(ctx, func() (err error) { written, err = to.host(p); return err })
	if abandoned != nil {
		return 0, err
	}
	return written, err
}
