package ferry

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Managed is a buffer that has one address on the host and on the GPU. Its pages migrate
// to where they are accessed. Its methods are safe for concurrent use. Concurrent accesses
// to its elements need synchronization, as for any Go memory.
type Managed[T any] struct {
	_    [0]*T // so that Go converts no Managed of one type to one of another
	span span
}

// ManagedOptions are the options of [AllocManaged].
type ManagedOptions struct {
	// Attach is the initial attachment: cu.MemAttachHost, or cu.MemAttachGlobal for any
	// stream on any device. Zero means cu.MemAttachGlobal. See [Managed.Attach].
	Attach cu.MemAttachFlags
}

// AllocManaged allocates managed memory for n elements (cuMemAllocManaged). A page is
// cleared to zero when it is first touched. With n = 0 the buffer is valid and empty. T
// is as for [Alloc]. An error wraps cu.ErrorNotSupported if the device
// has no managed memory, cu.ErrorOutOfMemory, or cu.ErrorInvalidValue. o may be nil.
func AllocManaged[T any](g *GPU, n int, o *ManagedOptions) (*Managed[T], error) {
	a, err := newAllocation[T](g, managedMemory, n)
	if err != nil {
		return nil, err
	}
	if !g.caps.Managed {
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
			return nil, a.fail("allocate", err, a.memoryHint(a.bytes, err))
		}
		a.host = address.Host(a.dev)
		a.attached.Store(&attachment{flags: attach})
	}
	a.start()
	return &Managed[T]{span: a.whole()}, nil
}

// GPU returns the GPU of the buffer.
func (m *Managed[T]) GPU() *GPU { return m.asSpan(nil).gpu() }

// Len returns the number of elements.
func (m *Managed[T]) Len() int { return m.asSpan(nil).len() }

// Size returns the size in bytes.
func (m *Managed[T]) Size() int { return m.asSpan(nil).size() }

// String returns a description of the buffer: "managed buffer 3 (1000 float32, 3.9 KiB) on
// cuda:0".
func (m *Managed[T]) String() string { return m.asSpan(nil).String() }

// Pointer returns the address of the buffer, which is the same in kernels and on the host.
// It is 0 for an empty buffer.
func (m *Managed[T]) Pointer() cu.DevicePtr { return m.asSpan(nil).pointer() }

// Range returns elements i to j-1 as a buffer that shares the memory. An operation on a
// range is in flight on the whole buffer. A range needs no Close, and is valid until the
// buffer is closed. If i or j is out of bounds, every use of the range is an error.
func (m *Managed[T]) Range(i, j int) *Managed[T] { return &Managed[T]{span: m.asSpan(nil).sub(i, j)} }

// Slice waits until no operation is in flight on the buffer, and returns its memory, to
// read and write. It waits and panics as [Host.Slice] does. If the device has no
// concurrent managed access (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0), Slice
// waits for all streams of all such devices. The program must then not touch the slice
// while a kernel runs on one of them; [Managed.Attach] narrows that. Touching
// the memory migrates pages to the host, which takes time: see [Managed.Prefetch].
func (m *Managed[T]) Slice() []T { return mustSlice[T](m.asSpan(nil), inflight.Write) }

// ReadSlice is [Managed.Slice] for reading only. It does not wait for operations that only
// read the buffer. It panics as Slice does.
func (m *Managed[T]) ReadSlice() []T { return mustSlice[T](m.asSpan(nil), inflight.Read) }

// SliceContext is [Managed.Slice] with a context, and returns errors as
// [Host.SliceContext] does.
func (m *Managed[T]) SliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), m.asSpan(nil), inflight.Write)
}

// ReadSliceContext is [Managed.ReadSlice] with a context, and returns errors as
// [Host.SliceContext] does.
func (m *Managed[T]) ReadSliceContext(ctx context.Context) ([]T, error) {
	return hostSlice[T](await.Context(ctx), m.asSpan(nil), inflight.Read)
}

// Wait waits until no operation is in flight on the buffer, as [Host.Wait] does.
func (m *Managed[T]) Wait(ctx context.Context) error {
	return m.asSpan(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for the operations in flight on the buffer, and frees it (cuMemFree). Memory of
// [WrapManaged] goes back to its owner instead. The driver may then wait for all other work of the device. Slices of the buffer must not be
// used afterwards. If Close is called in a host function, another goroutine waits and frees
// the buffer. Errors are as for [Device.Close]: also cu.ErrorNotReady while a [CopyFrom] or
// [CopyTo] uses the buffer, which then frees it.
func (m *Managed[T]) Close() error { return m.asSpan(nil).close() }

func (m *Managed[T]) untyped() (*span, int) { return m.asSpan(nil), int(address.SizeOf[T]()) }

func (m *Managed[T]) asSpan(*T) *span {
	if m == nil {
		return nil
	}
	return &m.span
}

// Prefetch migrates the pages of the buffer, in the order of the stream
// (cuMemPrefetchAsync). The destination is a device, as returned by [GPU.CUDevice], or
// cu.CPUDevice for the host. A following Slice waits until the migration is done. If the
// device has no concurrent managed access, the error wraps cu.ErrorNotSupported. In a
// capture it wraps cu.ErrorStreamCaptureUnsupported.
func (m *Managed[T]) Prefetch(s *Stream, to cu.Device) error {
	r := m.asSpan(nil)
	return s.operate("prefetch", r, inflight.Write, func(st *streamState) (bool, error) {
		if st.capture != nil {
			return false, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot prefetch: prefetch before its launch")
		}
		if !st.g.caps.ConcurrentManaged {
			return false, st.g.lacking("prefetch managed memory", cu.DeviceAttributeConcurrentManagedAccess, "leave it out, pages migrate when they are touched")
		}
		if err := r.reachableFrom(st.g); err != nil || r.bytes == 0 {
			return false, err
		}
		return true, st.g.driver.MemPrefetchAsync(st.g.ctx, r.dev, r.bytes, to, st.handle)
	})
}

// Advise gives the driver advice on how the buffer will be used (cuMemAdvise). dev is a
// device, as returned by [GPU.CUDevice], or cu.CPUDevice for the host. Advice that is not
// about a device ignores it. For a device without concurrent managed access, the error
// wraps cu.ErrorInvalidDevice. [Managed.Advice] reads the advice back.
func (m *Managed[T]) Advise(advice cu.MemAdvice, dev cu.Device) error {
	r := m.asSpan(nil)
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

// mayAdvise returns an error for advice about a device that cannot follow it.
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
		return refusal.New(cu.ErrorInvalidDevice, "device %d cannot follow the advice (%v is 0): leave it out", dev, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return nil
}

// Advice is the advice that the driver has about managed memory. A location is a device,
// as returned by [GPU.CUDevice], or cu.CPUDevice for the host. It is cu.InvalidDevice if
// there is none, and if parts of the memory have different ones.
type Advice struct {
	ReadMostly        bool
	PreferredLocation cu.Device
	AccessedBy        []cu.Device // in no order
	LastPrefetch      cu.Device   // the destination of the last Prefetch
}

// Advice returns the advice that [Managed.Advise] and [Managed.Prefetch] gave to the
// driver (cuMemRangeGetAttribute). For an empty buffer it returns no advice.
func (m *Managed[T]) Advice() (Advice, error) {
	none := Advice{PreferredLocation: cu.InvalidDevice, LastPrefetch: cu.InvalidDevice}
	r := m.asSpan(nil)
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

// readAdvice reads the advice from the driver.
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

// attachment says what may access managed memory on devices without concurrent managed
// access.
type attachment struct {
	flags cu.MemAttachFlags
	st    *streamState // the stream of cu.MemAttachSingle
}

// Attach changes what may access the buffer from this point of the stream on
// (cuStreamAttachMemAsync). It matters if the device has no concurrent managed access.
//
//	flags                 access                       Slice waits for
//	cu.MemAttachGlobal    host, all streams            all streams of such devices
//	cu.MemAttachHost      host                         no stream
//	cu.MemAttachSingle    host, kernels of stream s    stream s
//
// A launch of a kernel that may not access the buffer is refused. cu.MemAttachSingle needs
// a stream that is not the default stream. Only a whole buffer can be attached. In a
// capture the error wraps cu.ErrorStreamCaptureUnsupported.
func (m *Managed[T]) Attach(s *Stream, flags cu.MemAttachFlags) error {
	r := m.asSpan(nil)
	return s.operate("attach", r, inflight.Write, func(st *streamState) (bool, error) {
		switch {
		case st.capture != nil:
			return false, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot attach memory: attach before")
		case r.a == nil:
			return false, refusal.Invalid("no buffer given")
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
			return true, err
		}
		r.a.attached.Store(&attachment{flags, st})
		return true, nil
	})
}

// waitExclusive waits for the streams that may access managed memory, on devices without
// concurrent managed access. The operations in flight on the memory are done already.
func (a *allocation) waitExclusive(ctx context.Context) error {
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

// usableBy returns an error if kernels of a stream may not use managed memory, on a device
// without concurrent managed access.
func (a *allocation) usableBy(st *streamState) error {
	at := a.attached.Load()
	switch {
	case at == nil || at.flags == cu.MemAttachGlobal || at.st == st && at.flags == cu.MemAttachSingle:
		return nil
	case at.flags == cu.MemAttachHost:
		return refusal.Invalid("%v is attached to the host, and the device has no concurrent access (%v is 0): Attach it to the stream, or with cu.MemAttachGlobal", a, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return refusal.Invalid("%v is attached to %v, and the device has no concurrent access (%v is 0): launch on that stream, or Attach it to this one", a, at.st, cu.DeviceAttributeConcurrentManagedAccess)
}

// usablePerThread is usableBy for work of a stream that runs in the per-thread default stream. To
// that no memory can be attached.
func (a *allocation) usablePerThread(*streamState) error {
	at := a.attached.Load()
	if at == nil || at.flags == cu.MemAttachGlobal {
		return nil
	}
	to := "the host"
	if at.flags == cu.MemAttachSingle {
		to = at.st.String()
	}
	return refusal.Invalid("%v is attached to %s, the work runs in the per-thread stream, and the device has no concurrent access (%v is 0): Attach it with cu.MemAttachGlobal", a, to, cu.DeviceAttributeConcurrentManagedAccess)
}
