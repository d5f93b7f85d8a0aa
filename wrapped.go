package ferry

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// wrapping is what an allocation has if another library made its memory.
type wrapping struct {
	release  func() error // nil if the caller keeps the memory
	released bool         // release was called, or there is none
	in       *hostmap.Map // which has the addresses
	pool     bool         // it is device memory of a pool, whose access the driver knows
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
// find the buffer. It refuses memory of Ferry's own buffers.
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
