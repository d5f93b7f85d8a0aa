package ferry

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Managed is a buffer with one address on host and GPU, whose pages move to where
// they are touched. Its methods are safe for concurrent use; its elements are
// memory like any other.
type Managed[T any] struct{ region }

// ManagedOptions say how managed memory is made.
type ManagedOptions struct {
	// Attach says who may touch the memory at first; zero is
	// cu.MemAttachGlobal, any stream on any device. See [Managed.Attach].
	Attach cu.MemAttachFlags
}

// AllocManaged takes managed memory for n elements (cuMemAllocManaged), cleared to
// zero at its first touch. Zero elements are a valid, empty buffer. T is any type
// without Go pointers. A device without managed memory is cu.ErrorNotSupported,
// too little memory cu.ErrorOutOfMemory. o may be nil.
func AllocManaged[T any](g *GPU, n int, o *ManagedOptions) (*Managed[T], error) {
	a, err := newAllocation[T](g, managedMemory, n)
	if err != nil {
		return nil, err
	}
	if !g.caps.managed {
		g.leave()
		return nil, g.lacking("allocate managed memory", cu.DeviceAttributeManagedMemory, "use Alloc and AllocHost, and copy")
	}
	attach := cu.MemAttachGlobal
	if o != nil && o.Attach != 0 {
		attach = o.Attach
	}
	if attach != cu.MemAttachGlobal && attach != cu.MemAttachHost {
		return nil, a.fail("allocate", refuse("Attach is %#x: use cu.MemAttachGlobal or cu.MemAttachHost, and Managed.Attach for a stream", uint32(attach)), "")
	}
	if a.bytes > 0 {
		if a.dev, err = g.driver.MemAllocManaged(g.ctx, a.bytes, attach); err != nil {
			return nil, a.fail("allocate", err, g.room(a.bytes, err))
		}
		a.host = hostAddress(a.dev)
		a.attached.Store(&attachment{flags: attach})
	}
	a.start()
	return &Managed[T]{a.whole()}, nil
}

// Len is the number of elements.
func (m *Managed[T]) Len() int { return m.where(nil).len() }

// Bytes is the size in bytes.
func (m *Managed[T]) Bytes() int { return m.where(nil).size() }

// Pointer is the address in kernels, which is the host's; 0 for an empty buffer.
func (m *Managed[T]) Pointer() cu.DevicePtr { return m.where(nil).pointer() }

// Range is elements i to j-1, of the same memory: what is in flight on a range is
// in flight on the buffer. It needs no Close and is good until the buffer's. A
// range that does not exist is one whose every use is an error.
func (m *Managed[T]) Range(i, j int) *Managed[T] { return &Managed[T]{m.where(nil).sub(i, j)} }

// Slice is the memory itself, to read and write, once nothing is in flight on it,
// as for [Host.Slice]. Where the device lacks concurrent managed access
// (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0), it waits for all streams
// of all such devices, and the slice must not be touched while any kernel runs
// there; [Managed.Attach] narrows that.
// Touching moves pages to the host, which takes time: see [Managed.Prefetch].
func (m *Managed[T]) Slice() []T { return hostSlice[T](m.where(nil), writes) }

// ReadSlice is [Managed.Slice] for reading only: it does not wait for operations
// that only read the buffer, too.
func (m *Managed[T]) ReadSlice() []T { return hostSlice[T](m.where(nil), reads) }

// Wait waits until nothing is in flight on the buffer, as for [Host.Wait].
func (m *Managed[T]) Wait(ctx context.Context) error { return m.where(nil).ready(ctx, writes) }

// Prefetch moves the buffer's pages to the stream's GPU, or to the host, in the
// order of the stream (cuMemPrefetchAsync). It needs concurrent managed access;
// a device without it is cu.ErrorNotSupported.
func (m *Managed[T]) Prefetch(s *Stream, toDevice bool) error {
	return s.prefetch(m.where(nil), toDevice)
}

// Advise tells the driver how the buffer will be used (cuMemAdvise). dev is a
// device's ordinal, or cu.CPUDevice for the host; advice that takes none ignores
// it. Advice about a device without concurrent managed access is
// cu.ErrorInvalidDevice. [Managed.Advice] reads it back.
func (m *Managed[T]) Advise(advice cu.MemAdvice, dev cu.Device) error {
	r := m.where(nil)
	if err := r.enter(); err != nil {
		return fmt.Errorf("advise: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return nil
	}
	g := r.a.g
	if err := g.mayAdvise(advice, dev); err != nil {
		return fmt.Errorf("advise on %v: %w", r, err)
	}
	if err := g.driver.MemAdvise(g.ctx, r.dev, r.bytes, advice, dev); err != nil {
		return fmt.Errorf("advise on %v: %w", r, err)
	}
	return nil
}

// Close waits for what is in flight on the buffer and frees it (cuMemFree).
// Slices of it must not be used afterwards. Within a host function it is freed
// soon afterwards. Close of a range does nothing; of a closed or nil buffer, too.
func (m *Managed[T]) Close() error { return m.where(nil).close() }

func (m *Managed[T]) where(*T) *region {
	if m == nil {
		return nil
	}
	return &m.region
}

// prefetch queues a move of managed pages. For the rule of flight it is a write:
// the host waits until its pages are there.
func (s *Stream) prefetch(r *region, toDevice bool) error {
	return s.operate("prefetch", r, writes, func(q *queue) (bool, error) {
		if q.c != nil {
			return false, &refusal{cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot prefetch: prefetch before its launch"}
		}
		if !q.g.caps.concurrentManaged {
			return false, q.g.lacking("prefetch managed memory", cu.DeviceAttributeConcurrentManagedAccess, "let pages move when they are touched")
		}
		if err := r.reach(q.g); err != nil || r.bytes == 0 {
			return false, err
		}
		to := cu.CPUDevice
		if toDevice {
			to = q.g.device
		}
		err := q.g.driver.MemPrefetchAsync(q.g.ctx, r.dev, r.bytes, to, q.handle)
		return err == nil, err
	})
}
