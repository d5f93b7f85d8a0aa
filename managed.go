package ferry

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Managed is a buffer with one address on host and GPU, whose pages move to where they
// are touched. Its methods are safe for concurrent use; its elements are memory like
// any other.
type Managed[T any] struct{ span span }

// ManagedOptions say how managed memory is made.
type ManagedOptions struct {
	// Attach says who may touch the memory at first; zero is cu.MemAttachGlobal, any
	// stream on any device. See [Managed.Attach].
	Attach cu.MemAttachFlags
}

// AllocManaged takes managed memory for n elements (cuMemAllocManaged), cleared to
// zero at its first touch. Zero elements are a valid, empty buffer. T is any type
// without Go pointers. A device without managed memory is cu.ErrorNotSupported, too
// little memory cu.ErrorOutOfMemory. o may be nil.
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
		return nil, a.fail("allocate", refusal.Invalid("Attach is %#x: use cu.MemAttachGlobal or cu.MemAttachHost, and Managed.Attach for a stream", uint32(attach)), "")
	}
	if a.bytes > 0 {
		if a.dev, err = g.driver.MemAllocManaged(g.ctx, a.bytes, attach); err != nil {
			return nil, a.fail("allocate", err, a.room(err))
		}
		a.host = hostAddress(a.dev)
		a.attached.Store(&attachment{flags: attach})
	}
	a.start()
	return &Managed[T]{a.whole()}, nil
}

// Len is the number of elements.
func (m *Managed[T]) Len() int { return m.where(nil).len() }

// Size is the size in bytes.
func (m *Managed[T]) Size() int { return m.where(nil).size() }

// String describes the buffer: "managed buffer 3 (1000 float32, 3.9 KiB) on cuda:0".
func (m *Managed[T]) String() string { return m.where(nil).String() }

// Pointer is the address in kernels, which is the host's; 0 for an empty buffer.
func (m *Managed[T]) Pointer() cu.DevicePtr { return m.where(nil).pointer() }

// Range is elements i to j-1, of the same memory: what is in flight on a range is in
// flight on the buffer. It needs no Close and is good until the buffer's. A range that
// does not exist is one whose every use is an error.
func (m *Managed[T]) Range(i, j int) *Managed[T] { return &Managed[T]{m.where(nil).sub(i, j)} }

// Slice is the memory itself, to read and write, once nothing is in flight on it. It
// waits and panics as [Host.Slice] does. Where the device lacks concurrent managed
// access (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0), it waits for all
// streams of all such devices, and the slice must not be touched while any kernel runs
// there; [Managed.Attach] narrows that. To touch the memory moves pages to the host,
// which takes time: see [Managed.Prefetch].
func (m *Managed[T]) Slice() []T { return mustSlice[T](m.where(nil), inflight.Write) }

// ReadSlice is [Managed.Slice] for reading only: it does not wait for operations that
// only read the buffer.
func (m *Managed[T]) ReadSlice() []T { return mustSlice[T](m.where(nil), inflight.Read) }

// SliceContext is [Managed.Slice] with an end and an error, as [Host.SliceContext].
func (m *Managed[T]) SliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), m.where(nil), inflight.Write)
}

// ReadSliceContext is [Managed.ReadSlice] with an end and an error.
func (m *Managed[T]) ReadSliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), m.where(nil), inflight.Read)
}

// Wait waits until nothing is in flight on the buffer, as [Host.Wait] does.
func (m *Managed[T]) Wait(ctx context.Context) error {
	return m.where(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for what is in flight on the buffer and frees it (cuMemFree). Slices of
// it must not be used afterwards. Within a host function it is freed soon afterwards.
// Close of a range does nothing; of a closed or nil buffer, too.
func (m *Managed[T]) Close() error { return m.where(nil).close() }

func (m *Managed[T]) untyped() (*span, int) { return m.where(nil), int(sizeOf[T]()) }

func (m *Managed[T]) where(*T) *span {
	if m == nil {
		return nil
	}
	return &m.span
}

// Prefetch moves the buffer's pages to a place in the order of the stream
// (cuMemPrefetchAsync): to a GPU, as [GPU.Device] names it, or to the host, which is
// cu.CPUDevice. It needs concurrent managed access; a device without it is
// cu.ErrorNotSupported. The host's next Slice waits until the pages are there.
func (m *Managed[T]) Prefetch(s *Stream, to cu.Device) error {
	r := m.where(nil)
	return s.operate("prefetch", r, inflight.Write, func(st *streamState) (bool, error) {
		if st.capture != nil {
			return false, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot prefetch: prefetch before its launch")
		}
		if !st.g.caps.concurrentManaged {
			return false, st.g.lacking("prefetch managed memory", cu.DeviceAttributeConcurrentManagedAccess, "let pages move when they are touched")
		}
		if err := r.reachableFrom(st.g); err != nil || r.bytes == 0 {
			return false, err
		}
		err := st.g.driver.MemPrefetchAsync(st.g.ctx, r.dev, r.bytes, to, st.handle)
		return err == nil, err
	})
}

// Advise tells the driver how the buffer will be used (cuMemAdvise). dev is a device as
// [GPU.Device] names it, or cu.CPUDevice for the host; advice that takes none ignores
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
	err := mayAdvise(g, advice, dev)
	if err == nil {
		err = g.driver.MemAdvise(g.ctx, r.dev, r.bytes, advice, dev)
	}
	if err != nil {
		return fmt.Errorf("advise on %v: %w", r, err)
	}
	return nil
}

// mayAdvise refuses advice about a device that cannot follow it.
func mayAdvise(g *GPU, advice cu.MemAdvice, dev cu.Device) error {
	switch advice {
	case cu.MemAdviseSetPreferredLocation, cu.MemAdviseSetAccessedBy, cu.MemAdviseUnsetAccessedBy:
	default:
		return nil
	}
	if dev == cu.CPUDevice {
		return nil
	}
	v, err := g.driver.DeviceGetAttribute(cu.DeviceAttributeConcurrentManagedAccess, dev)
	switch {
	case err != nil:
		return fmt.Errorf("device %d: %w", dev, err)
	case v == 0:
		return refusal.New(cu.ErrorInvalidDevice, "device %d cannot follow it (%v is 0): leave it out", dev, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return nil
}

// Advice is what the driver was told about managed memory. A place is a device, as
// [GPU.Device] names it, cu.CPUDevice for the host, or cu.InvalidDevice for none, or
// when parts of the memory differ.
type Advice struct {
	ReadMostly        bool
	PreferredLocation cu.Device
	AccessedBy        []cu.Device // in no order
	LastPrefetch      cu.Device   // where Prefetch was last queued to
}

// Advice reads back what [Managed.Advise] and [Managed.Prefetch] told the driver
// (cuMemRangeGetAttribute). For an empty buffer it is no advice.
func (m *Managed[T]) Advice() (Advice, error) {
	none := Advice{PreferredLocation: cu.InvalidDevice, LastPrefetch: cu.InvalidDevice}
	r := m.where(nil)
	if err := r.enter(); err != nil {
		return none, fmt.Errorf("read advice: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return none, nil
	}
	a, err := readAdvice(r)
	if err != nil {
		return none, fmt.Errorf("read advice on %v: %w", r, err)
	}
	return a, nil
}

// readAdvice asks the driver.
func readAdvice(r *span) (a Advice, err error) {
	g := r.a.g
	ask := func(what cu.MemRangeAttribute, places int) []int32 {
		data := make([]int32, places)
		if err == nil {
			err = g.driver.MemRangeGetAttribute(g.ctx, data, what, r.dev, r.bytes)
		}
		return data
	}
	count, err := g.driver.DeviceGetCount()
	a.ReadMostly = ask(cu.MemRangeAttributeReadMostly, 1)[0] != 0
	a.PreferredLocation = cu.Device(ask(cu.MemRangeAttributePreferredLocation, 1)[0])
	a.LastPrefetch = cu.Device(ask(cu.MemRangeAttributeLastPrefetchLocation, 1)[0])
	for _, dev := range ask(cu.MemRangeAttributeAccessedBy, int(count)+1) {
		if d := cu.Device(dev); d != cu.InvalidDevice {
			a.AccessedBy = append(a.AccessedBy, d)
		}
	}
	return a, err
}

// attachment says who may touch managed memory where host and devices must take turns.
type attachment struct {
	flags cu.MemAttachFlags
	st    *streamState // of cu.MemAttachSingle
}

// Attach says who may touch the buffer from this point of the stream on
// (cuStreamAttachMemAsync): with cu.MemAttachGlobal anybody, with cu.MemAttachHost the
// host alone, with cu.MemAttachSingle the host and this stream alone, which must not
// be the default stream. It matters where the device lacks concurrent managed access:
// Slice then waits for every stream of such devices, for none, or for this one; and
// kernels that may not use the buffer are refused it. Only a whole buffer can be
// attached.
func (m *Managed[T]) Attach(s *Stream, flags cu.MemAttachFlags) error {
	r := m.where(nil)
	return s.operate("attach", r, inflight.Write, func(st *streamState) (bool, error) {
		switch {
		case st.capture != nil:
			return false, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot attach memory: attach before")
		case r.a == nil:
			return false, refusal.Invalid("there is no buffer")
		case r.bytes != r.a.bytes:
			return false, refusal.Invalid("only the whole buffer can be attached")
		case flags != cu.MemAttachGlobal && flags != cu.MemAttachHost && flags != cu.MemAttachSingle:
			return false, refusal.Invalid("flags are %#x: use cu.MemAttachGlobal, MemAttachHost or MemAttachSingle", uint32(flags))
		case flags == cu.MemAttachSingle && st.number == 0:
			return false, refusal.Invalid("cu.MemAttachSingle needs a stream made by NewStream")
		}
		if err := r.reachableFrom(st.g); err != nil || r.bytes == 0 {
			return false, err
		}
		if err := st.g.driver.StreamAttachMemAsync(st.g.ctx, st.handle, r.dev, 0, flags); err != nil {
			return false, err
		}
		r.a.attached.Store(&attachment{flags, st})
		return true, nil
	})
}

// waitTurn waits until the host may touch managed memory where host and devices must
// take turns. What is in flight on it has been waited for.
func (a *allocation) waitTurn(ctx context.Context) error {
	at := a.attached.Load()
	switch {
	case at == nil || at.flags == cu.MemAttachGlobal:
		for _, st := range a.g.shared.busyExclusive() {
			if err := st.Wait(ctx); err != nil {
				return err
			}
		}
	case at.flags == cu.MemAttachSingle && !at.st.Idle():
		return at.st.Wait(ctx)
	}
	return nil
}

// usableBy refuses managed memory that kernels of a stream may not use, on a device
// without concurrent managed access.
func (a *allocation) usableBy(st *streamState) error {
	at := a.attached.Load()
	switch {
	case at == nil || at.flags == cu.MemAttachGlobal || at.st == st && at.flags == cu.MemAttachSingle:
		return nil
	case at.flags == cu.MemAttachHost:
		return refusal.Invalid("%v is attached to the host, and the device has no concurrent access (%v is 0): Attach it to the stream, or cu.MemAttachGlobal", a, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return refusal.Invalid("%v is attached to %v, and the device has no concurrent access (%v is 0): launch there, or Attach it to this stream", a, at.st, cu.DeviceAttributeConcurrentManagedAccess)
}
