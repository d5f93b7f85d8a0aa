package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// WrapDevice returns device memory of another library as a buffer of n elements. The memory must be
// on the GPU's device, in its primary context or in a pool that is open to it. WrapDevice asks the
// driver (cuPointerGetAttributes), and refuses an address of another device or context, of other
// memory, of freed memory, and of memory with fewer than n elements from there on. The error wraps
// cu.ErrorInvalidValue and has what the driver says. Memory that is freed later is not noticed: its
// use is an error on the software GPU and undefined on hardware.
//
// The buffer is used as one of [Alloc] is. T is as for Alloc, and ptr must be a multiple of its
// alignment. Work that the other library queues is in flight on the buffer only if the program says
// so. Several wraps of the same bytes are buffers of their own, and an operation on one is in flight
// on all. Do not wrap memory of a [Device] buffer: the two would not know of each other. Use its
// Range, or [View].
//
// Close gives the memory back: when the buffer is closed and nothing is in flight on its bytes,
// release is called, once, however many Closes there are, and by whatever runs the last of them,
// such as [Graph.Close] for a buffer that a graph has captured. Close returns its error. With a nil
// release the memory stays with its owner. release may call Ferry. A panic of it reaches the caller
// of that Close, and runtime.Goexit ends it. For a Close in a host function another goroutine calls
// release, and a panic there ends the process. After an error of WrapDevice release is not called.
//
// If the driver has no unified addressing, the error wraps cu.ErrorNotSupported.
func WrapDevice[T any](g *GPU, ptr cu.DevicePtr, n int, release func() error) (*Device[T], error) {
	a, err := wrapMemory[T](g, deviceMemory, ptr, nil, n, release)
	if err != nil {
		return nil, err
	}
	return &Device[T]{span: a.whole()}, nil
}

// WrapHost returns host memory that another library page-locked as a buffer, as [WrapDevice] does
// for device memory. The library may have allocated the memory (cuMemHostAlloc) or registered it
// (cuMemHostRegister), also for another GPU, if kernels of g can address it. All of the slice must
// be in one such allocation or registration. Memory that is not page-locked is refused: [Register]
// it. A copy of a [Pageable] slice of the memory is a copy of the buffer, as with memory of
// [AllocHost].
func WrapHost[T any](g *GPU, s []T, release func() error) (*Host[T], error) {
	p := address.Of(s)
	a, err := wrapMemory[T](g, hostMemory, address.Device(p), p, len(s), release)
	if err != nil {
		return nil, err
	}
	return &Host[T]{span: a.whole()}, nil
}

// WrapManaged returns managed memory of another library (cuMemAllocManaged) as a buffer, as
// [WrapDevice] does for device memory. It counts as attached to all streams, whatever the library
// has done: see [Managed.Attach].
func WrapManaged[T any](g *GPU, ptr cu.DevicePtr, n int, release func() error) (*Managed[T], error) {
	a, err := wrapMemory[T](g, managedMemory, ptr, address.Host(ptr), n, release)
	if err != nil {
		return nil, err
	}
	return &Managed[T]{span: a.whole()}, nil
}

// wrapMemory implements the functions that wrap memory. host is the same address for the host, or
// nil.
func wrapMemory[T any](g *GPU, k kind, at cu.DevicePtr, host cu.HostPtr, n int, release func() error) (*allocation, error) {
	a, err := describeMemory[T]("wrap", g, k, n)
	if err != nil {
		return nil, err
	}
	a.free = freeWrapped
	a.wrap = &wrapping{release: release, in: g.hosts}
	if k == deviceMemory {
		a.wrap.in = &g.shared.wraps
	}
	if a.bytes > 0 {
		e, _ := kernelargs.ElementOf[T]() // which describeMemory has checked
		a.host = host
		if err := a.wrapAt(at, e); err != nil {
			return nil, a.fail("wrap", err, "")
		}
	}
	a.start()
	return a, nil
}

// wrapAt checks the memory at an address, and makes it the memory of the allocation.
func (a *allocation) wrapAt(at cu.DevicePtr, e *kernelargs.Element) error {
	g := a.g
	switch {
	case !g.caps.Unified:
		return g.lacking("ask for the owner of an address", cu.DeviceAttributeUnifiedAddressing, "copy through a Pageable slice")
	case at == 0:
		return refusal.Invalid("no address given (0)")
	case uint64(at)%uint64(e.Align) != 0:
		return refusal.Invalid("the address %#x is no multiple of %d, the alignment of %s", at, e.Align, e.Name)
	case uint64(at)+uint64(a.bytes) < uint64(at):
		return refusal.Invalid("the address %#x and its size are more than an address can count", at)
	}
	about, err := g.driver.PointerGetAttributes(g.ctx, at)
	if err == nil {
		err = a.mayWrap(at, &about)
	}
	if err == nil && a.kind == deviceMemory && about.Context == 0 {
		err = a.allMapped(at)
	}
	if err != nil {
		return err
	}
	a.wrap.pool = a.kind == deviceMemory && about.Context == 0
	a.dev = about.DevicePointer
	return a.claimWrapped()
}

// mayWrap returns an error for memory that a buffer of the GPU cannot be.
func (a *allocation) mayWrap(at cu.DevicePtr, about *cu.PointerAttributes) error {
	g, is := a.g, wrappedKind(about)
	says := func(format string, args ...any) error {
		return refusal.Invalid("the driver says that %#x is %s: %s", at, driverText(about), fmt.Sprintf(format, args...))
	}
	switch {
	case is == pageableMemory && a.kind == hostMemory:
		return says("Register memory that is not page-locked, and wrap other memory before it is freed")
	case is == pageableMemory:
		return says("wrap memory before it is freed")
	case is != a.kind:
		return says("use %s", map[kind]string{deviceMemory: "WrapDevice", hostMemory: "WrapHost", managedMemory: "WrapManaged"}[is])
	case is != hostMemory && about.Device != g.device:
		return says("wrap it on the GPU of that device, not on %s", g.label)
	case is != hostMemory && about.Context != 0 && about.Context != g.ctx:
		return says("it belongs to context %#x, and the GPU has the primary context of the device, %#x: make the library use that (cuDevicePrimaryCtxRetain)", about.Context, g.ctx)
	case about.DevicePointer == 0:
		return says("it has no address in kernels of %s: open its pool (cuMemPoolSetAccess), or page-lock it with CU_MEMHOSTREGISTER_PORTABLE", g.label)
	}
	if there := about.RangeSize - uintptr(at-about.RangeStart); at < about.RangeStart || there > about.RangeSize || there < a.bytes {
		return says("%s of it are there, and the buffer needs %s: wrap fewer elements", refusal.Size(min(there, about.RangeSize)), refusal.Size(a.bytes))
	}
	return nil
}

// allMapped refuses memory at reserved addresses that is not mapped throughout: the driver's range
// is that of the addresses (cuMemMap).
func (a *allocation) allMapped(at cu.DevicePtr) error {
	for next := at; uintptr(next-at) < a.bytes; {
		base, bytes, err := a.g.driver.MemGetAddressRange(a.g.ctx, next)
		if err == nil && base+cu.DevicePtr(bytes) <= next {
			err = cu.ErrorNotFound
		}
		if err != nil {
			return refusal.Invalid("the driver knows no memory at %#x, %s behind the start, that %s can use: map it (cuMemMap), give access (cuMemSetAccess), and wrap it then (%v)",
				next, refusal.Size(uintptr(next-at)), a.g.label, err)
		}
		next = base + cu.DevicePtr(bytes)
	}
	return nil
}

// wrappedKind returns the kind of memory that an address is by its attributes. It is pageable if
// the driver does not know it.
func wrappedKind(about *cu.PointerAttributes) kind {
	switch {
	case about.MemoryType == 0:
		return pageableMemory
	case about.IsManaged:
		return managedMemory
	case about.MemoryType == cu.MemoryTypeHost:
		return hostMemory
	}
	return deviceMemory
}

// driverText says what a driver says of an address.
func driverText(about *cu.PointerAttributes) string {
	if about.MemoryType == 0 {
		return "memory that it does not know"
	}
	return fmt.Sprintf("%v memory of device %d (%s from %#x on)", wrappedKind(about), about.Device, refusal.Size(about.RangeSize), about.RangeStart)
}

// claimWrapped records the addresses, so that other wraps of them and copies of pageable slices
// find the buffer. It refuses host memory of Ferry's own buffers.
func (a *allocation) claimWrapped() error {
	a.own()
	a.owner.Starting.Store(true)
	admit := func(e *hostmap.Entry) error {
		if e.Foreign {
			return nil
		}
		return refusal.Invalid("it shares bytes with %v, which needs no wrap: use its Range, or View", e)
	}
	all, fresh, err := a.wrap.in.Claim(hostmap.Claim{Owner: &a.owner, Foreign: true, MayWait: a.g.mayWait, Admit: admit})
	if err != nil {
		return err
	}
	a.entries = all
	for _, e := range fresh {
		a.wrap.in.Finish(e, false)
	}
	a.owner.Starting.Store(false)
	return nil
}

// freeWrapped gives wrapped memory back, which nothing of its own buffer uses any more. It waits for
// operations of other buffers on the same bytes.
func freeWrapped(a *allocation) error {
	w := a.wrap
	if err := a.g.mayWait(); err != nil { // in a host function: release may call the driver
		return err
	}
	var lost error
	if r := a.whole(); a.bytes > 0 && a.owner.Shared.Load() {
		if lost = r.waitSharing(context.Background(), inflight.Write); lost != nil && !refusal.Sticky(lost) {
			return lost
		}
	}
	for len(a.entries) > 0 {
		e := a.entries[0]
		last, err := w.in.Release(e, &a.owner, a.g.mayWait)
		if err != nil {
			return err
		}
		if last {
			w.in.Finish(e, true)
		}
		a.entries = a.entries[1:]
	}
	w.released = true
	return refusal.Join(lost, a.callRelease())
}

// callRelease calls the function of the program. If that does not return, it leaves the GPU, as
// allocation.release does otherwise.
func (a *allocation) callRelease() (err error) {
	release := a.wrap.release
	if release == nil {
		return nil
	}
	a.wrap.release = nil
	returned := false
	defer func() {
		if !returned {
			a.g.leave()
		}
	}()
	if err = release(); err != nil {
		err = fmt.Errorf("release: %w", err)
	}
	returned = true
	return err
}

// WrapStream returns a stream of another library as a [Stream]. It must be of the GPU's primary
// context (cuStreamGetCtx), else the error wraps cu.ErrorInvalidValue. A handle of no stream is
// cu.ErrorInvalidHandle on the software GPU, and undefined on hardware. For cu.StreamLegacy and 0,
// WrapStream returns [GPU.DefaultStream]. It refuses cu.StreamPerThread, which is another stream in
// each thread.
//
// Ferry does not see what the library queues, so it never takes the stream for idle, and asks the
// driver. [Stream.Wait] and [Stream.Done] are about all work in the stream. Buffers that the
// library's work uses are not in flight by that.
//
// Close does not destroy the stream. The library may do that when Close has returned nil, and not
// before. Close waits for calls that use the stream, such as an External, for 100 ms, and not at all
// in a host function. Then its error wraps cu.ErrorNotReady: call Close again. The library must not capture in the stream meanwhile. [Stream.Capture] records in a stream of its
// own.
func WrapStream(g *GPU, handle cu.Stream) (*Stream, error) {
	const what = "wrap a stream"
	if err := g.enter(what); err != nil {
		return nil, err
	}
	switch handle {
	case 0, cu.StreamLegacy:
		defer g.leave()
		g.legacy.state.Share()
		return g.legacy, nil
	}
	priority, err := mayWrapStream(g, handle)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("%s on %s: %w", what, g.label, err)
	}
	s := &Stream{state: newStreamState(g, handle, int(g.streamCount.Add(1)), nil)}
	s.state.wrapped, s.state.priority = true, priority
	s.state.Share()
	g.addStream(s.state, false)
	s.leak = leak.Watch(s, s.state.String)
	return s, nil
}

// mayWrapStream returns the priority of a stream that can be wrapped. Older drivers lack these
// calls: then it is not checked.
func mayWrapStream(g *GPU, handle cu.Stream) (priority int16, err error) {
	if handle == cu.StreamPerThread {
		return 0, refusal.Invalid("cu.StreamPerThread is another stream in each thread, and goroutines change threads: wrap a stream that the library made")
	}
	of, err := g.driver.StreamGetCtx(g.ctx, handle)
	switch {
	case err == nil && of != g.ctx:
		return 0, refusal.Invalid("the driver says that the stream belongs to context %#x, and the GPU has the primary context of its device, %#x", of, g.ctx)
	case err != nil && !errors.Is(err, cu.ErrorNotSupported):
		return 0, err
	}
	captures, err := g.driver.StreamIsCapturing(g.ctx, handle)
	switch {
	case err == nil && captures != cu.StreamCaptureStatusNone:
		return 0, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures: wrap it after the capture")
	case err != nil && !errors.Is(err, cu.ErrorNotSupported):
		return 0, err
	}
	p, err := g.driver.StreamGetPriority(g.ctx, handle)
	if err != nil && !errors.Is(err, cu.ErrorNotSupported) {
		return 0, err
	}
	return int16(p), nil
}

// WrapEvent returns an event of another library as an [Event]. CUDA has no call that names the
// context of an event: a Record in a stream of another context fails. A handle of no event is
// cu.ErrorInvalidHandle on the software GPU, and undefined on hardware. An event that was recorded
// in a capture is refused (cu.ErrorCapturedEvent, cu.ErrorInvalidValue).
//
// The event stands for what the library or Ferry recorded last. [Event.Since] fails with
// cu.ErrorInvalidHandle if the library made it without timing. Close does not destroy the event. The
// library may do that when Close has returned and no other goroutine is in a call with the event.
func WrapEvent(g *GPU, handle cu.Event) (*Event, error) {
	const what = "wrap an event"
	if err := g.enter(what); err != nil {
		return nil, err
	}
	if err := mayWrapEvent(g, handle); err != nil {
		g.leave()
		return nil, fmt.Errorf("%s on %s: %w", what, g.label, err)
	}
	e := &Event{g: g, handle: handle, timing: true, wrapped: true}
	e.state.Share()
	e.leak = leak.Watch(e, e.String)
	return e, nil
}

// mayWrapEvent returns an error for an event that the driver does not know.
func mayWrapEvent(g *GPU, handle cu.Event) error {
	if handle == 0 {
		return refusal.New(cu.ErrorInvalidHandle, "no event given (0)")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := relaxed{g.driver} // the question must not invalidate a capture of the library
	defer thread.Leave(thread.Enter())
	if err := g.driver.EventQuery(g.ctx, handle); !notReady(err) {
		return err
	}
	return nil
}
