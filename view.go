package ferry

import (
	"context"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// MemoryView is memory whose bytes are seen as elements of type T. [View] makes it. Its methods
// are safe for concurrent use.
type MemoryView[T any] struct {
	_    [0]*T // so that Go converts no MemoryView of one type to one of another
	span span
}

// View returns memory as elements of type U, over the same bytes:
//
//	frame, err := ferry.AllocHost[byte](gpu, n, nil)
//	pixels := ferry.View[float32](frame)
//
// A view is used as a range of the buffer is, by [Copy], [CopyAll], [Fill], [CopyFrom], kernels and
// pipelines. An operation on it is in flight on the whole buffer. It needs no Close, and is valid
// until the buffer is closed. A view of a range begins where the range begins, and a view of a view
// is a view of the same buffer.
//
// U is as for [Alloc]. The memory must be a whole number of elements of type U, and begin at a
// multiple of U's alignment in Go. Otherwise every use of the view is an error that wraps
// cu.ErrorInvalidValue. A kernel may need more: it reads a float4 at addresses that are multiples
// of 16, while [4]float32 has an alignment of 4.
func View[U, T any](m Memory[T]) *MemoryView[U] {
	e, err := kernelargs.ElementOf[U]()
	return &MemoryView[U]{span: spanOf(m).as(e, err)}
}

// Bytes returns the buffer as bytes. It shares the memory, as a [Host.Range] does, and needs no
// Close.
func (h *Host[T]) Bytes() *Host[byte] {
	e, err := kernelargs.ElementOf[byte]()
	return &Host[byte]{span: h.asSpan(nil).as(e, err)}
}

// as returns a span as elements of another type, which cannot be elements if err is not nil. If
// the view is not valid, every use of the result is an error.
func (r *span) as(e *kernelargs.Element, err error) span {
	switch {
	case r == nil:
		return span{bad: refusal.Invalid("view of no buffer (nil)")}
	case r.bad != nil:
		return *r
	case err != nil:
	case e.Size == 0:
		err = refusal.Invalid("view %v as elements of type %s, which have no bytes", r, e.Name)
	case r.bytes%e.Size != 0:
		err = refusal.Invalid("view %v as elements of type %s: its %d bytes are no multiple of %d, the bytes of an element: view a range of it", r, e.Name, r.bytes, e.Size)
	case r.bytes > 0 && r.address()%uint64(e.Align) != 0:
		err = refusal.Invalid("view %v as elements of type %s: it begins at %#x, which is no multiple of their alignment, %d: begin the range elsewhere", r, e.Name, r.address(), e.Align)
	}
	if err != nil {
		return span{a: r.a, generation: r.generation, part: true, bad: err}
	}
	out := *r
	out.part, out.n = true, int(r.bytes/e.Size)
	return out
}

// GPU returns the GPU of the buffer, nil for pageable memory.
func (v *MemoryView[T]) GPU() *GPU { return v.asSpan(nil).gpu() }

// Len returns the number of elements.
func (v *MemoryView[T]) Len() int { return v.asSpan(nil).len() }

// Size returns the size in bytes.
func (v *MemoryView[T]) Size() int { return v.asSpan(nil).size() }

// String returns a description of the memory: "3.9 KiB of page-locked buffer 3 (4000 uint8, 3.9
// KiB) on cuda:0".
func (v *MemoryView[T]) String() string { return v.asSpan(nil).String() }

// Pointer returns the address of the memory in kernels. It is 0 if there is none: see
// [Host.Pointer].
func (v *MemoryView[T]) Pointer() cu.DevicePtr { return v.asSpan(nil).pointer() }

// Range returns elements i to j-1. If i or j is out of bounds, every use of the range is an
// error.
func (v *MemoryView[T]) Range(i, j int) *MemoryView[T] {
	return &MemoryView[T]{span: v.asSpan(nil).sub(i, j)}
}

// Slice waits until no operation is in flight on the buffer, and returns the memory, to read and
// write, as [Host.Slice] and [Managed.Slice] do. It panics as they do, and for device memory,
// which the host cannot access. Pageable memory is returned without a wait.
func (v *MemoryView[T]) Slice() []T { return mustView[T](v.asSpan(nil), inflight.Write) }

// ReadSlice is [MemoryView.Slice] for reading only. It does not wait for operations that only
// read the buffer. It panics as Slice does.
func (v *MemoryView[T]) ReadSlice() []T { return mustView[T](v.asSpan(nil), inflight.Read) }

// SliceContext is [MemoryView.Slice] with a context, and returns errors as [Host.SliceContext]
// does.
func (v *MemoryView[T]) SliceContext(ctx context.Context) ([]T, error) {
	return viewSlice[T](await.Context(ctx), v.asSpan(nil), inflight.Write)
}

// ReadSliceContext is [MemoryView.ReadSlice] with a context, and returns errors as
// [Host.SliceContext] does.
func (v *MemoryView[T]) ReadSliceContext(ctx context.Context) ([]T, error) {
	return viewSlice[T](await.Context(ctx), v.asSpan(nil), inflight.Read)
}

// Wait waits until no operation is in flight on the buffer, as [Host.Wait] does.
func (v *MemoryView[T]) Wait(ctx context.Context) error {
	return v.asSpan(nil).waitHost(await.Context(ctx), inflight.Write)
}

func (v *MemoryView[T]) untyped() (*span, int) { return v.asSpan(nil), int(address.SizeOf[T]()) }

func (v *MemoryView[T]) asSpan(*T) *span {
	if v == nil {
		return nil
	}
	return &v.span
}

// viewSlice is hostSlice for memory of any kind. It refuses device memory.
func viewSlice[T any](ctx context.Context, r *span, a inflight.Access) ([]T, error) {
	if r.check() == nil && r.host == nil && r.bytes > 0 {
		return nil, refusal.Invalid("host access to %v: it is device memory: use Download, or Copy to host memory", r)
	}
	return hostSlice[T](ctx, r, a)
}

// mustView is viewSlice without a context. It panics with the error.
func mustView[T any](r *span, a inflight.Access) []T {
	s, err := viewSlice[T](context.Background(), r, a)
	if err != nil {
		panic(err)
	}
	return s
}
