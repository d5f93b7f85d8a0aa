package ferry

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/staging"
)

// PageableSlice is ordinary Go memory as [Memory], made by [Pageable].
type PageableSlice[T any] struct{ span span }

// Pageable lets [Copy] use an ordinary slice, or a file mapped into memory. Large
// copies go through a ring of page-locked memory of Ferry's, filled and emptied by
// several goroutines, at nearly the speed of the link; small ones through the driver's.
// They are not asynchronous: Copy returns when a source has been read or a destination
// written. Pages of a mapped file that was cut off are an error that says at which
// byte, if the copy is large enough for the ring. Register the slice, or copy from a
// buffer of [AllocHost], for copies that return at once.
//
// A slice of a buffer's memory, as Host.Slice gives it, or of memory that is
// registered, is treated as that range of the buffer: it is in flight like one.
//
// T must be a type without Go pointers, or Copy says so. Kernels cannot use pageable
// memory.
func Pageable[T any](s []T) *PageableSlice[T] {
	e, err := elementOf[T]()
	return &PageableSlice[T]{span{host: addressOf(s), n: len(s), bytes: e.size * uintptr(len(s)), bad: err}}
}

// Len is the number of elements.
func (p *PageableSlice[T]) Len() int { return p.where(nil).len() }

// Size is the size in bytes.
func (p *PageableSlice[T]) Size() int { return p.where(nil).size() }

// String describes the memory: "a pageable slice (1000 elements, 3.9 KiB)".
func (p *PageableSlice[T]) String() string { return p.where(nil).String() }

// Range is elements i to j-1. A range that does not exist is one whose every use is an
// error.
func (p *PageableSlice[T]) Range(i, j int) *PageableSlice[T] {
	return &PageableSlice[T]{p.where(nil).sub(i, j)}
}

// Slice is the memory itself. It is nil for a range that does not exist.
func (p *PageableSlice[T]) Slice() []T {
	r := p.where(nil)
	if r == nil || r.bad != nil {
		return nil
	}
	return sliceAt[T](r.host, r.n)
}

func (p *PageableSlice[T]) untyped() (*span, int) { return p.where(nil), int(sizeOf[T]()) }

func (p *PageableSlice[T]) where(*T) *span {
	if p == nil {
		return nil
	}
	return &p.span
}

// stagingRing is the GPU's ring for pageable memory.
func stagingRing(g *GPU) *staging.Ring {
	g.ring.once.Do(func() {
		g.ring.ring = staging.New(g.driver, g.ctx, g.tuning.ring, func(bytes int) (cu.HostPtr, func() error, error) {
			m, err := pageLock(context.Background(), g, uintptr(bytes), &HostOptions{}) // as for a buffer of AllocHost
			return m.host, func() error { return m.free(g) }, err
		})
	})
	return g.ring.ring
}

// copyPageable copies between pageable memory and the device: small copies by the
// driver, others through the ring.
func copyPageable(ctx context.Context, st *streamState, dst, src *span) error {
	in := src.kind() == pageableMemory
	direct := st.g.tuning.directOut
	if in {
		direct = st.g.tuning.directIn
	}
	if dst.bytes <= direct || dst.untracked || src.untracked {
		return memcpyAsync(st, dst, src)
	}
	n, err := copyThroughRing(ctx, st, dst, src, in)
	if err == nil || !errors.Is(err, staging.ErrBusy) {
		return err
	}
	// The ring's slots wait in streams that stand still: the driver has its own.
	to, from := dst.cut(uintptr(n), dst.bytes-uintptr(n)), src.cut(uintptr(n), src.bytes-uintptr(n))
	return memcpyAsync(st, &to, &from)
}

// copyThroughRing returns how many bytes were copied.
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
