package ferry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// RegisterOptions say how existing memory is page-locked.
type RegisterOptions struct {
	// Mapped gives the memory an address in kernels (CU_MEMHOSTREGISTER_DEVICEMAP).
	Mapped bool
	// ReadOnly is for memory that the GPU will only read, such as a file mapped for
	// reading (CU_MEMHOSTREGISTER_READ_ONLY).
	ReadOnly bool
	// NotPortable page-locks for this GPU only (without it:
	// CU_MEMHOSTREGISTER_PORTABLE).
	NotPortable bool
}

// Register page-locks a slice where it is (cuMemHostRegister): Go memory, or memory
// from elsewhere such as a mapped file, from any byte to any other. Until Close the
// elements are kept in memory, whether or not anything else refers to them. One
// registration serves all GPUs of the driver. An empty slice is a valid, empty buffer.
// o may be nil.
//
// Registrations may overlap: each is a buffer of its own. What is page-locked already
// is not page-locked again, and stays so until the last buffer in it is closed. Slice
// and Wait of each wait for what the others have in flight on the same bytes.
//
// What cannot be registered: cu.ErrorNotSupported names the attribute of the device,
// and what to do instead. cu.ErrorHostMemoryAlreadyRegistered is memory registered past
// this package, or in a way that does not go with this one, such as ReadOnly. Other
// errors are most often cu.ErrorInvalidValue: memory of [AllocHost] needs no
// registration, memory that may only be read needs ReadOnly, and a file on a disk must
// not be mapped to share writes (MAP_SHARED with PROT_WRITE): map it MAP_PRIVATE, or
// keep it in /dev/shm.
//
// The caller still has s itself, and must not touch what is in flight: [Host.Slice]
// waits.
func Register[T any](g *GPU, s []T, o *RegisterOptions) (*Host[T], error) {
	a, err := newAllocation[T](g, registeredMemory, len(s))
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &RegisterOptions{}
	}
	a.host = addressOf(s)
	if err := register(a, o); err != nil {
		return nil, err
	}
	return &Host[T]{a.whole()}, nil
}

// register page-locks what is at a.host.
func register(a *allocation, o *RegisterOptions) error {
	g := a.g
	if err := canRegister(g, o); err != nil {
		g.leave()
		return err
	}
	var flags cu.MemHostRegisterFlags
	if a.oneGPU = o.NotPortable; !a.oneGPU {
		flags |= cu.MemHostRegisterPortable
	}
	if o.Mapped {
		flags |= cu.MemHostRegisterDeviceMap
	}
	if a.readOnly = o.ReadOnly; a.readOnly {
		flags |= cu.MemHostRegisterReadOnly
	}
	a.free = unregister
	if a.bytes == 0 {
		a.start()
		return nil
	}
	a.own()
	if err := registerEntries(a, flags); err != nil {
		return a.fail("register", err, registerHint(a, err))
	}
	var err error
	if a.dev, err = registeredAddress(a, o.Mapped); err != nil {
		return a.fail("map", errors.Join(err, unregister(a)), "")
	}
	a.start()
	return nil
}

// registerEntries page-locks what is not page-locked yet of a's memory, and makes a an
// owner of all of it.
func registerEntries(a *allocation, flags cu.MemHostRegisterFlags) error {
	g, hosts := a.g, &a.g.shared.hosts
	unit := uint64(0) // kernels see the memory as one
	if g.caps.hostPointers() {
		unit = uint64(g.tuning.pin.MaxRegistration)
	}
	all, fresh, err := hosts.Claim(hostmap.Claim{Owner: &a.owner, Flags: flags, By: g, Unit: unit, MayWait: g.mayWait,
		Admit: func(e *hostmap.Entry) error { return admit(g, flags, e) }})
	if err != nil {
		return err
	}
	a.entries = all
	for i, e := range fresh {
		g.lifetime.AddUser() // until the entry is unregistered
		if err = g.driver.MemHostRegister(g.ctx, e.Host, uintptr(e.End-e.Start), flags); err != nil {
			g.leave()
			for _, e := range fresh[i:] {
				hosts.Settle(e, true)
			}
			a.entries = slices.DeleteFunc(a.entries, func(e *hostmap.Entry) bool { return slices.Contains(fresh[i:], e) })
			if undo := unregister(a); undo != nil {
				err = fmt.Errorf("%w; and undoing it: %w", err, undo)
			}
			return err
		}
		hosts.Settle(e, false)
	}
	for _, e := range a.entries[1:] {
		a.boundaries = append(a.boundaries, uintptr(e.Start-a.owner.Start))
	}
	return nil
}

// unregister ends a's use of its entries. The driver unregisters those without another
// owner. After an error within a host function it goes on where it stopped.
func unregister(a *allocation) error {
	hosts := &a.g.shared.hosts
	var failed error
	for len(a.entries) > 0 {
		e := a.entries[0]
		if hosts.Release(e, &a.owner) {
			by := e.By.(*GPU)
			err := by.driver.MemHostUnregister(by.ctx, e.Host)
			hosts.Settle(e, !inHostFunction(err))
			if inHostFunction(err) {
				return err
			}
			by.leave()
			if failed == nil {
				failed = err
			}
		}
		a.entries = a.entries[1:]
	}
	return failed
}

// admit returns why a buffer of g with these flags cannot use memory that the driver
// knows.
func admit(g *GPU, flags cu.MemHostRegisterFlags, e *hostmap.Entry) error {
	already := func(format string, args ...any) error {
		return refusal.New(cu.ErrorHostMemoryAlreadyRegistered, "it shares bytes with %v%s", e, fmt.Sprintf(format, args...))
	}
	missing := flags &^ e.Flags
	switch {
	case !e.Registered:
		return refusal.Invalid("it shares bytes with %v, which needs no registration: use its Range", e)
	case e.Flags&cu.MemHostRegisterReadOnly != 0 && flags&cu.MemHostRegisterReadOnly == 0:
		return already(", registered with ReadOnly: close that first, or register with ReadOnly, too")
	case g.caps.unified: // all is mapped, for every device
		return nil
	case missing&cu.MemHostRegisterDeviceMap != 0:
		return already(", registered without Mapped: close that first (%v is 0)", cu.DeviceAttributeUnifiedAddressing)
	case e.Flags&cu.MemHostRegisterPortable == 0 && e.By.(*GPU).ctx != g.ctx:
		return already(", registered with NotPortable for %s: close that first (%v is 0)", e.By.(*GPU).label, cu.DeviceAttributeUnifiedAddressing)
	}
	return nil
}

// registeredAddress is the address in kernels of registered memory, 0 if it has none.
func registeredAddress(a *allocation, asked bool) (cu.DevicePtr, error) {
	switch {
	case a.g.caps.hostPointers():
		return deviceAddress(a.host), nil
	case !asked:
		return 0, nil
	case len(a.entries) > 1:
		return 0, refusal.New(cu.ErrorHostMemoryAlreadyRegistered, "parts of it were registered before, and on this device each has an address of its own (%v is 0): close those buffers first, or register without Mapped", cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	}
	return a.addressOn(a.g)
}

// canRegister checks the capabilities.
func canRegister(g *GPU, o *RegisterOptions) error {
	switch {
	case !g.caps.register:
		return g.lacking("register host memory", cu.DeviceAttributeHostRegisterSupported, "use AllocHost, or copy from the pageable slice")
	case o.Mapped && !g.caps.mapping:
		return g.lacking("map registered memory", cu.DeviceAttributeCanMapHostMemory, "register without Mapped and copy")
	case o.ReadOnly && !g.caps.registerReadOnly:
		return g.lacking("register read-only memory", cu.DeviceAttributeReadOnlyHostRegisterSupported, "copy from the pageable slice, or copy the data into a buffer of AllocHost")
	}
	return nil
}

// registerHint says what to do about a failure.
func registerHint(a *allocation, err error) string {
	if refusal.Is(err) || inHostFunction(err) || sticky(err) {
		return ""
	}
	if errors.Is(err, cu.ErrorHostMemoryAlreadyRegistered) {
		return "it was registered past this package"
	}
	if hint := lockHint(a, err); hint != "" {
		return hint
	}
	return hostmap.Hint(a.owner.Start, a.owner.End, a.readOnly)
}
