package ferry

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/staging"
)

// PageableSlice is a slice of ordinary Go memory as a [Memory]. [Pageable] makes it.
type PageableSlice[T any] struct{ span span }

// Pageable returns an ordinary slice as a [Memory] for [Copy]. The slice can also be a
// file that is mapped into memory. Large copies go through a staging ring of page-locked
// memory, which several goroutines fill and empty, at nearly the speed of the link. The
// driver makes small copies. These copies are not asynchronous: Copy returns when it has
// read the source or written the destination. For copies that return at once, [Register]
// the slice, or use a buffer of [AllocHost].
//
// If a mapped file has been truncated, a copy of the missing pages through the staging ring
// returns an error that names the byte.
//
// A slice of the memory of a buffer, such as a result of [Host.Slice], is treated as a
// range of that buffer. A copy of it is in flight on the buffer.
//
// T must be a type without Go pointers, otherwise Copy returns an error. Kernels cannot
// use pageable memory.
func Pageable[T any](s []T) *PageableSlice[T] {
	e, err := kernelargs.ElementOf[T]()
	return &PageableSlice[T]{span{host: addressOf(s), n: len(s), bytes: e.Size * uintptr(len(s)), bad: err}}
}

// Len returns the number of elements.
func (p *PageableSlice[T]) Len() int { return p.asSpan(nil).len() }

// Size returns the size in bytes.
func (p *PageableSlice[T]) Size() int { return p.asSpan(nil).size() }

// String returns a description of the memory: "a pageable slice (1000 elements, 3.9 KiB)".
func (p *PageableSlice[T]) String() string { return p.asSpan(nil).String() }

// Range returns elements i to j-1. If i or j is out of bounds, every use of the range is
// an error.
func (p *PageableSlice[T]) Range(i, j int) *PageableSlice[T] {
	return &PageableSlice[T]{p.asSpan(nil).sub(i, j)}
}

// Slice returns the memory. It returns nil for a range out of bounds.
func (p *PageableSlice[T]) Slice() []T {
	r := p.asSpan(nil)
	if r == nil || r.bad != nil {
		return nil
	}
	return sliceAt[T](r.host, r.n)
}

func (p *PageableSlice[T]) untyped() (*span, int) { return p.asSpan(nil), int(sizeOf[T]()) }

func (p *PageableSlice[T]) asSpan(*T) *span {
	if p == nil {
		return nil
	}
	return &p.span
}

// stagingRing returns the staging ring of a GPU. The first call makes it.
func stagingRing(g *GPU) *staging.Ring {
	g.ring.once.Do(func() {
		g.ring.ring = staging.New(g.driver, g.ctx, g.tuning.ring, func(bytes int) (cu.HostPtr, func() error, error) {
			m, err := pageLock(context.Background(), g, uintptr(bytes), &HostOptions{}) // as for a buffer of AllocHost
			return m.host, func() error { return m.free(g) }, err
		})
	})
	return g.ring.ring
}

// pageableHold keeps the pageable side of a copy from being unregistered during the copy.
// Another goroutine may register the memory meanwhile, or close a registration of it.
type pageableHold struct {
	hosts     *hostmap.Map // nil if no side is pageable
	from, to  uint64       // addresses
	untracked bool
	id        hostmap.HoldID
}

// begin starts the hold. The caller must end it.
func (h *pageableHold) begin(st *streamState, dst, src *span) (err error) {
	r := dst
	if r.a != nil {
		r = src
	}
	if r.a != nil || r.bytes == 0 {
		return nil
	}
	hosts, from := &st.g.shared.hosts, uint64(deviceAddress(r.host))
	*h = pageableHold{from: from, to: from + uint64(r.bytes), untracked: r.untracked}
	if h.id, err = hosts.Hold(h.from, h.to, st.g.mayWait); err == nil {
		h.hosts = hosts
	}
	return err
}

func (h *pageableHold) end() {
	if h.hosts != nil {
		h.hosts.EndHold(h.id)
	}
}

// mayBeInFlight reports whether the driver may have queued the copy, because it knows the
// memory. No tracker knows that copy, so the caller must wait for it.
func (h *pageableHold) mayBeInFlight() bool {
	return h.hosts != nil && (h.untracked || h.hosts.Known(h.from, h.to))
}

// copyPageable copies between pageable memory and the device: small copies by the
// driver, others through the ring. direct reports whether the driver got the pageable
// memory.
func copyPageable(ctx context.Context, st *streamState, dst, src *span) (direct bool, err error) {
	in := src.kind() == pageableMemory
	small := st.g.tuning.directOut
	if in {
		small = st.g.tuning.directIn
	}
	untracked := dst.untracked || src.untracked
	if dst.bytes <= small || untracked {
		if !in || untracked { // else the driver copies the source before it returns
			if err := waitToCopy(ctx, st); err != nil {
				return false, err
			}
		}
		return true, memcpyAsync(st, dst, src)
	}
	n, err := copyThroughRing(ctx, st, dst, src, in)
	if err == nil || !errors.Is(err, staging.ErrBusy) {
		return false, err
	}
	// All slots of the ring are in streams that do not advance. The driver has memory of
	// its own for the rest.
	if err := waitToCopy(ctx, st); err != nil {
		return false, err
	}
	to, from := dst.cut(uintptr(n), dst.bytes-uintptr(n)), src.cut(uintptr(n), src.bytes-uintptr(n))
	return true, memcpyAsync(st, &to, &from)
}

// copyThroughRing copies through the staging ring, and returns how many bytes it copied.
func copyThroughRing(ctx context.Context, st *streamState, dst, src *span, in bool) (int64, error) {
	ring := stagingRing(st.g)
	job := staging.Job{Stream: st.handle, StreamID: st.number, Bytes: int64(dst.bytes)}
	if submitted := ring.Submitted(); st.Alone() {
		job.Completed = submitted
	}
	if in {
		job.Device = dst.dev
		return ring.In(ctx, job, staging.Memory(bytesAt(src.host, src.bytes)))
	}
	job.Device = src.dev
	return ring.Out(ctx, job, staging.Memory(bytesAt(dst.host, dst.bytes)))
}
