package ferry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// RegisterOptions are the options of [Register].
type RegisterOptions struct {
	// Mapped gives the memory an address in kernels (CU_MEMHOSTREGISTER_DEVICEMAP).
	Mapped bool
	// ReadOnly is for memory that the GPU only reads, such as a file that is mapped for
	// reading (CU_MEMHOSTREGISTER_READ_ONLY).
	ReadOnly bool
	// NotPortable page-locks the memory for this GPU only. The default is
	// CU_MEMHOSTREGISTER_PORTABLE.
	NotPortable bool
	// IOMemory is for memory of another device on the bus, such as a part of a PCI BAR that the
	// program has mapped (CU_MEMHOSTREGISTER_IOMEMORY). The GPU takes the range for contiguous and
	// not cache-coherent. The driver decides whether it takes it: an error is mostly
	// cu.ErrorNotPermitted, cu.ErrorNotSupported or cu.ErrorInvalidValue. The software GPU has
	// no other device, and refuses it.
	IOMemory bool
}

// Register page-locks the memory of a slice and returns it as a buffer
// (cuMemHostRegister). The slice can be Go memory or other memory, such as a mapped file.
// It need not be aligned to pages. Until Close, the garbage collector does not free Go
// memory of the slice, even if the program no longer refers to it. One registration serves
// all GPUs of the driver. An empty slice makes a valid, empty buffer. T is as for [Alloc].
// o may be nil.
//
// Registrations may overlap, and each is a buffer of its own. Memory that is page-locked
// already is not page-locked again. It stays page-locked until the last of its buffers is
// closed. Slice and Wait of a buffer also wait for operations on the other buffers, if
// these operations are in flight on the same bytes.
//
// An error wraps one of these results:
//
//   - cu.ErrorNotSupported: the device cannot register such memory. The text names the
//     attribute of the device and what to do instead.
//   - cu.ErrorHostMemoryAlreadyRegistered: another library page-locked the memory, for which
//     there is [WrapHost], or it was registered with options that do not allow this use, such
//     as ReadOnly.
//   - cu.ErrorInvalidValue: most other causes. Memory of [AllocHost] needs no
//     registration. Memory that may only be read needs ReadOnly. A file on a disk must not
//     be mapped with both MAP_SHARED and PROT_WRITE: map it with MAP_PRIVATE, or keep it
//     in /dev/shm.
//
// The caller can still access s directly, and must not touch bytes that are in flight.
// [Host.Slice] waits for that.
func Register[T any](g *GPU, s []T, o *RegisterOptions) (*Host[T], error) {
	a, err := newAllocation[T](g, registeredMemory, len(s))
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &RegisterOptions{}
	}
	a.host = address.Of(s)
	if err := register(a, o); err != nil {
		return nil, err
	}
	return &Host[T]{span: a.whole()}, nil
}

// register page-locks the memory at a.host.
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
	if a.readOnly.Store(o.ReadOnly); o.ReadOnly {
		flags |= cu.MemHostRegisterReadOnly
	}
	if o.IOMemory {
		flags |= cu.MemHostRegisterIOMemory
	}
	a.free = unregister
	if a.bytes == 0 {
		a.start()
		return nil
	}
	a.own()
	a.owner.Starting.Store(true)
	if err := registerEntries(a, flags); err != nil {
		return a.fail("register", explainPin(err), registerHint(a, err))
	}
	var err error
	if a.dev, err = registeredAddress(a, o.Mapped); err != nil {
		return a.fail("map", undoRegister(a, err), "")
	}
	a.owner.Starting.Store(false) // from here on copies of a Pageable slice find the buffer
	a.start()
	return nil
}

// registerEntries page-locks the part of a's memory that is not page-locked yet, and makes
// a an owner of the whole memory.
func registerEntries(a *allocation, flags cu.MemHostRegisterFlags) error {
	g, hosts := a.g, a.g.hosts
	unit := uint64(0) // one registration: kernels need one range of addresses
	if g.caps.HostPointers() {
		unit = uint64(g.tuning.Pin.MaxRegistration)
	}
	all, fresh, err := hosts.Claim(hostmap.Claim{Owner: &a.owner, Flags: flags, By: g, Unit: unit, MayWait: g.mayWait,
		Admit: func(e *hostmap.Entry) error { return admit(g, flags, e) }})
	if err != nil {
		return err
	}
	a.entries = all
	bytes := uint64(0)
	for _, e := range fresh {
		bytes += e.End - e.Start
	}
	claim, err := claimPinned(g, account.Registered, uintptr(bytes), false)
	if err == nil {
		defer claim.End()
	}
	if oplog.On() {
		begin := g.Now()
		defer func() { oplog.Locked(uintptr(bytes), g.Now()-begin, g.label) }()
	}
	for i, e := range fresh {
		g.lifetime.AddUser() // until the entry is unregistered
		if err == nil {
			err = g.driver.MemHostRegister(g.ctx, e.Host, uintptr(e.End-e.Start), flags)
		}
		if err != nil {
			g.leave()
			for _, e := range fresh[i:] {
				hosts.Finish(e, true)
			}
			a.entries = slices.DeleteFunc(a.entries, func(e *hostmap.Entry) bool { return slices.Contains(fresh[i:], e) })
			return undoRegister(a, err)
		}
		e.Locked = claim.Part(int(e.End - e.Start))
		hosts.Finish(e, false)
	}
	for _, e := range a.entries[1:] {
		a.boundaries = append(a.boundaries, uintptr(e.Start-a.owner.Start))
	}
	return nil
}

// undoRegister ends a's use of its entries after an error of its registration, which it returns.
// What the driver does not unregister is left to Close of the GPU, because a becomes no buffer.
func undoRegister(a *allocation, err error) error {
	undo := unregister(a)
	switch {
	case undo == nil:
		return err
	case len(a.entries) > 0:
		a.g.leftovers.Add(func() error { return unregister(a) })
		return fmt.Errorf("%w; the rest stays page-locked until the GPU is closed, because unregistering it failed: %w", err, undo)
	}
	return fmt.Errorf("%w; unregistering the rest failed: %w", err, undo)
}

// unregister ends a's use of its entries. The driver unregisters entries that have no other
// owner. If a host function stops it, the next call continues at the same entry, and with an
// entry that the driver could not unregister.
func unregister(a *allocation) error {
	hosts := a.g.hosts
	var failed error
	var left []*hostmap.Entry
	defer func() { a.entries = append(left, a.entries...) }()
	for len(a.entries) > 0 {
		e := a.entries[0]
		last, err := hosts.Release(e, &a.owner, a.g.mayWait)
		if err != nil {
			return err
		}
		if last {
			by := e.By.(*GPU)
			err := by.settle()
			if err == nil {
				err = by.driver.MemHostUnregister(by.ctx, e.Host)
			}
			stays := err != nil && !refusal.Sticky(err) && by.driverKnows(address.Device(e.Host))
			hosts.Finish(e, !stays)
			switch {
			case closing.InHostFunction(err):
				return err
			case stays:
				left = append(left, e)
			default:
				e.Locked.Keep(0)
				by.leave()
			}
			if failed == nil {
				failed = err
			}
		}
		a.entries = a.entries[1:]
	}
	return failed
}

// admit returns an error if a buffer of g with these flags cannot use memory that the
// driver knows already.
func admit(g *GPU, flags cu.MemHostRegisterFlags, e *hostmap.Entry) error {
	already := func(format string, args ...any) error {
		return refusal.New(cu.ErrorHostMemoryAlreadyRegistered, "it shares bytes with %v%s", e, fmt.Sprintf(format, args...))
	}
	missing := flags &^ e.Flags
	switch {
	case !e.Registered:
		return refusal.Invalid("it shares bytes with %v, which needs no registration: use its Range", e)
	case e.Flags&cu.MemHostRegisterReadOnly != 0 && flags&cu.MemHostRegisterReadOnly == 0:
		return already(", registered with ReadOnly: close that first, or register this with ReadOnly")
	case (e.Flags^flags)&cu.MemHostRegisterIOMemory != 0:
		return already(", registered with another IOMemory: close that first, or register both alike")
	case g.caps.Unified: // all page-locked memory is mapped for every device
		return nil
	case missing&cu.MemHostRegisterDeviceMap != 0:
		return already(", registered without Mapped: close that first (%v is 0)", cu.DeviceAttributeUnifiedAddressing)
	case e.Flags&cu.MemHostRegisterPortable == 0 && e.By.(*GPU).ctx != g.ctx:
		return already(", registered with NotPortable for %s: close that first (%v is 0)", e.By.(*GPU).label, cu.DeviceAttributeUnifiedAddressing)
	}
	return nil
}

// registeredAddress returns the address of registered memory in kernels, or 0 if it has
// none.
func registeredAddress(a *allocation, asked bool) (cu.DevicePtr, error) {
	switch {
	case a.g.caps.HostPointers():
		return address.Device(a.host), nil
	case !asked:
		return 0, nil
	case len(a.entries) > 1:
		return 0, refusal.New(cu.ErrorHostMemoryAlreadyRegistered, "other buffers registered parts of it, and on this device each part has its own address (%v is 0): close those buffers first, or register without Mapped", cu.DeviceAttributeCanUseHostPointerForRegisteredMem)
	}
	return a.addressOn(a.g)
}

// canRegister returns an error for options that the device does not support.
func canRegister(g *GPU, o *RegisterOptions) error {
	switch {
	case !g.caps.Register:
		return g.lacking("register host memory", cu.DeviceAttributeHostRegisterSupported, "use AllocHost, or copy from the pageable slice")
	case o.Mapped && !g.caps.Mapping:
		return g.lacking("map registered memory", cu.DeviceAttributeCanMapHostMemory, "register without Mapped and copy")
	case o.ReadOnly && !g.caps.RegisterReadOnly:
		return g.lacking("register read-only memory", cu.DeviceAttributeReadOnlyHostRegisterSupported, "copy from the pageable slice, or copy the data into a buffer of AllocHost")
	}
	return nil
}

// registerHint says why a registration may have failed, and what to do.
func registerHint(a *allocation, err error) string {
	if _, explained := errors.AsType[*PinError](explainPin(err)); explained || refusal.Is(err) || closing.InHostFunction(err) || refusal.Sticky(err) {
		return ""
	}
	if errors.Is(err, cu.ErrorHostMemoryAlreadyRegistered) || a.g.driverKnows(address.Device(a.host)) {
		return "another library page-locked it: use WrapHost"
	}
	if hint := lockHint(a, err); hint != "" {
		return hint
	}
	return hostmap.Hint(a.owner.Start, a.owner.End, a.readOnly.Load())
}
