package ferry

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// Host is a page-locked buffer in the host's memory, allocated by [AllocHost] or
// registered by [Register]. Copies to and from it run at the speed of the link
// while the program goes on. Its methods are safe for concurrent use; its
// elements are memory like any other.
type Host[T any] struct{ region }

// HostOptions say how a page-locked buffer is made.
type HostOptions struct {
	// Mapped gives the buffer an address in kernels, which then read and write
	// host memory over the link (zero-copy; CU_MEMHOSTALLOC_DEVICEMAP).
	Mapped bool
	// WriteCombined bypasses the CPU's caches. Writing in order is fast, reading
	// is tens of times slower: for buffers that Go only fills. On most machines
	// copies are not faster for it (CU_MEMHOSTALLOC_WRITECOMBINED).
	WriteCombined bool
	// NotPortable page-locks for this GPU only. Other GPUs of the driver cannot
	// use the buffer (without it: CU_MEMHOSTALLOC_PORTABLE).
	NotPortable bool
	// NUMANode is where to put the memory, as far as the node has room; nil is the
	// node of the GPU. A node that is not there is cu.ErrorInvalidValue.
	NUMANode *int
	// Progress, if not nil, is called after every piece of a large buffer with the
	// bytes that are page-locked now and those there will be, by the goroutine
	// that allocates.
	Progress func(done, total int)
	// Pool takes the memory from a pool; the pool's options hold then, and the
	// others here do not. It is one of the same GPU.
	Pool *HostPool
}

// AllocHost takes page-locked memory for n elements. Large buffers are made by
// Ferry: many goroutines touch the memory, on huge pages where those are faster and
// near the GPU, and it is registered in pieces of at most 1 GiB
// (cuMemHostRegister), of which nothing else tells. Small and write-combined ones
// are the driver's (cuMemHostAlloc). Either is slow beside a copy: keep buffers and
// use them again, or take them from a [HostPool]. [GPU.PredictPin] tells how slow.
//
// Zero elements are a valid, empty buffer. T is any type without Go pointers. An
// error wraps cu.ErrorNotSupported if the device cannot map and that was asked for,
// cu.ErrorOutOfMemory, or cu.ErrorInvalidValue; a *[PinError] is one found before it
// was tried. After an error nothing is left of the buffer. o may be nil.
func AllocHost[T any](g *GPU, n int, o *HostOptions) (*Host[T], error) {
	return AllocHostContext[T](context.Background(), g, n, o)
}

// AllocHostContext is [AllocHost], given up when ctx ends: a large buffer at the
// next piece, within some 50 ms on hardware. The error then wraps ctx.Err().
func AllocHostContext[T any](ctx context.Context, g *GPU, n int, o *HostOptions) (*Host[T], error) {
	if o != nil && o.Pool != nil {
		h := new(Host[T])
		if err := h.alloc(ctx, g, o.Pool, n); err != nil {
			return nil, err
		}
		return h, nil
	}
	a, err := newAllocation[T](g, hostMemory, n)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &HostOptions{}
	}
	if err := a.allocHost(ctx, o); err != nil {
		return nil, err
	}
	return &Host[T]{a.whole()}, nil
}

// allocHost takes page-locked memory, from the engine or the driver.
func (a *allocation) allocHost(ctx context.Context, o *HostOptions) error {
	g := a.g
	if o.Mapped && !g.caps.mapping {
		g.leave()
		return g.lacking("map page-locked memory", cu.DeviceAttributeCanMapHostMemory, "allocate without Mapped and copy")
	}
	a.only = o.NotPortable
	if a.bytes == 0 {
		a.start()
		return nil
	}
	m, err := g.pageLock(ctx, a.bytes, o)
	if err != nil {
		return a.fail("allocate", err, a.lockHint(err))
	}
	a.made, a.host, a.cuts = m.made, m.host, m.cuts()
	if a.dev, err = g.mapped(a.host, o.Mapped, g.caps.unified); err != nil {
		return a.fail("map", errors.Join(err, a.free()), "")
	}
	a.start()
	return nil
}

// flags is the options in the driver's words.
func (o *HostOptions) flags() cu.MemHostAllocFlags {
	flags := cu.MemHostAllocPortable
	if o.NotPortable {
		flags = 0
	}
	if o.Mapped {
		flags |= cu.MemHostAllocDeviceMap
	}
	if o.WriteCombined {
		flags |= cu.MemHostAllocWriteCombined
	}
	return flags
}

// mapped is the address in kernels of page-locked memory; 0 if it has none. same
// says that it is the host's.
func (g *GPU) mapped(p cu.HostPtr, asked, same bool) (cu.DevicePtr, error) {
	switch {
	case same:
		return deviceAddress(p), nil
	case asked:
		return g.driver.MemHostGetDevicePointer(g.ctx, p, 0)
	}
	return 0, nil
}

// lockHint says what may be in the way of page-locking on this machine.
func (a *allocation) lockHint(err error) string {
	if a.g.emulated != nil || !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	if _, told := errors.AsType[*PinError](err); told {
		return ""
	}
	m := pin.ReadMachine(os.DirFS("/"))
	if free := min(m.Available, m.Group.Left); free != pin.Unknown {
		return fmt.Sprintf("%s of host memory are available", sizeText(uintptr(free)))
	}
	return ""
}

// Len is the number of elements.
func (h *Host[T]) Len() int { return h.where(nil).len() }

// Bytes is the size in bytes.
func (h *Host[T]) Bytes() int { return h.where(nil).size() }

// Pointer is the address in kernels. It is 0 if there is none: the buffer was
// made without Mapped and the device has no unified addressing.
func (h *Host[T]) Pointer() cu.DevicePtr { return h.where(nil).pointer() }

// Flags is how the driver says that the buffer is page-locked (cuMemHostGetFlags).
// Hardware never tells cu.MemHostAllocPortable of memory it allocated, and with
// unified addressing always tells cu.MemHostAllocDeviceMap: all of it is mapped.
func (h *Host[T]) Flags() (cu.MemHostAllocFlags, error) { return h.where(nil).flags() }

// Range is elements i to j-1, of the same memory: what is in flight on a range is
// in flight on the buffer. It needs no Close and is good until the buffer's. A
// range that does not exist is one whose every use is an error.
func (h *Host[T]) Range(i, j int) *Host[T] { return &Host[T]{h.where(nil).sub(i, j)} }

// Slice is the memory itself, to read and write, once nothing is in flight on it:
// it waits for all operations queued so far that use the buffer, and perhaps for
// later ones on the same streams. The slice is good until Close; whoever queues
// another operation on the buffer must call Slice again or wait in another way
// before touching it.
//
// It is nil when the buffer is closed or the wait fails; [Host.Wait] is the same
// wait with the error. Within a host function it cannot wait: take the slice
// before.
func (h *Host[T]) Slice() []T { return hostSlice[T](h.where(nil), writes) }

// ReadSlice is [Host.Slice] for reading only: it does not wait for operations
// that only read the buffer, too.
func (h *Host[T]) ReadSlice() []T { return hostSlice[T](h.where(nil), reads) }

// Wait waits until nothing is in flight on the buffer, so that Slice need not.
// When ctx ends first, the error wraps ctx.Err() and the work goes on. An error
// of the work itself is told here and, once more, by [Stream.Wait].
func (h *Host[T]) Wait(ctx context.Context) error { return h.where(nil).ready(ctx, writes) }

// Close waits for what is in flight on the buffer and frees it (cuMemFreeHost, or
// cuMemHostUnregister of what Ferry made), or ends its registration. Slices of an allocated buffer must
// not be used afterwards. Within a host function it is freed soon afterwards.
// Close of a range does nothing; of a closed or nil buffer, too.
func (h *Host[T]) Close() error { return h.where(nil).close() }

func (h *Host[T]) where(*T) *region {
	if h == nil {
		return nil
	}
	return &h.region
}

// flags is Flags.
func (r *region) flags() (cu.MemHostAllocFlags, error) {
	if err := r.enter(); err != nil {
		return 0, fmt.Errorf("read flags: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return 0, nil
	}
	flags, err := r.a.g.driver.MemHostGetFlags(r.a.g.ctx, r.host)
	if err != nil {
		return 0, fmt.Errorf("read flags of %v: %w", r, err)
	}
	return flags, nil
}

// hostSlice is the elements of a region when it is ready, else nil.
func hostSlice[T any](r *region, a access) []T {
	if r.ready(context.Background(), a) != nil {
		return nil
	}
	return sliceAt[T](r.host, r.n)
}
