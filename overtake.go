package ferry

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// A copy engine serves one transfer at a time, in the order of arrival, whatever
// the priority of the stream: on an H200 a copy of 50 KiB waits 4.9 ms behind one
// of 256 MiB in another stream. A kernel that copies shares the link instead, and
// is done in 0.03 ms. So a small copy that would wait behind a large one is made
// by the kernel.
const (
	smallCopy = 64 << 10
	largeCopy = 4 << 20 // 75 us on a link of 55 GB/s
)

// engineMark is the large copy that was queued last in one direction. Its two
// words may be of different copies for a moment, which does no harm: the stream is
// asked before anything is concluded.
type engineMark struct {
	q   atomic.Pointer[queue]
	seq atomic.Uint64
}

// markOf is the mark of a copy's direction, nil where none is kept.
func (g *GPU) markOf(dst, src *region) *engineMark {
	to, from := dst.kind(), src.kind()
	switch {
	case to == deviceMemory && from.onHost():
		return &g.engines[toDevice&1]
	case to.onHost() && from == deviceMemory:
		return &g.engines[toHost&1]
	}
	return nil
}

// noteLarge remembers a copy that has been queued.
func (q *queue) noteLarge(dst, src *region, seq uint64) {
	if m := q.g.markOf(dst, src); m != nil && seq != 0 {
		m.q.Store(q)
		m.seq.Store(seq)
	}
}

// mustOvertake says whether a copy would wait behind a large one of another
// stream, as far as that is known, and could be made by the kernel.
func (q *queue) mustOvertake(dst, src *region) bool {
	if dst.bytes > smallCopy || q.c != nil || q.g.gatherer.f == 0 {
		return false
	}
	m := q.g.markOf(dst, src)
	if m == nil {
		return false
	}
	p, seq := m.q.Load(), m.seq.Load()
	return p != nil && p != q && p.passed.Load() < seq && p.isBusy(seq)
}

// isBusy asks the driver whether the stream is at work, and notes that all up to
// seq is done if not. What else the driver says, it says once: Wait shall tell.
func (q *queue) isBusy(seq uint64) bool {
	if !q.enter() {
		return false
	}
	defer q.leave()
	err := q.g.driver.StreamQuery(q.g.ctx, q.handle)
	busy := errors.Is(err, cu.ErrorNotReady)
	switch {
	case err == nil:
		q.pass(seq)
	case !busy:
		q.park(err)
	}
	return busy
}

// overtake makes a small copy by the kernel. It is false if the kernel cannot
// address the memory.
func (q *queue) overtake(dst, src *region) (queued bool, err error) {
	to, ok := q.direct(dst)
	from, also := q.direct(src)
	if !ok || !also {
		return false, nil
	}
	c := copiesPool.Get().(*copies)
	defer c.done()
	c.ranges = append(c.ranges, span64{to, from, dst.bytes})
	c.params = gather(&c.calls, q.g.gatherer.f, q.handle, c.ranges, c.params)
	return c.together(q)
}
