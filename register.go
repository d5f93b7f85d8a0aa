package ferry

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// RegisterOptions say how existing memory is page-locked.
type RegisterOptions struct {
	// Mapped gives the memory an address in kernels (CU_MEMHOSTREGISTER_DEVICEMAP).
	Mapped bool
	// ReadOnly is for memory that the GPU will only read, such as a file mapped
	// for reading (CU_MEMHOSTREGISTER_READ_ONLY).
	ReadOnly bool
	// NotPortable page-locks for this GPU only (without it:
	// CU_MEMHOSTREGISTER_PORTABLE).
	NotPortable bool
}

// Register page-locks a slice where it is (cuMemHostRegister): Go memory, or
// memory from elsewhere such as a mapped file, from any byte to any other. Until
// Close the elements are held in memory, whether or not anything else refers to
// them. One registration serves all GPUs of the driver. An empty slice is a valid,
// empty buffer. o may be nil.
//
// Registrations may overlap: each is a buffer of its own. What is page-locked
// already is not locked again, and stays so until the last buffer in it is closed.
// Slice and Wait of each wait for what the others have in flight on the same bytes.
//
// What cannot be registered: cu.ErrorNotSupported names the attribute of the
// device, and what to do instead. cu.ErrorHostMemoryAlreadyRegistered is memory
// registered past this package, or in a way that does not go with this one, such
// as ReadOnly. Anything else is most often cu.ErrorInvalidValue: memory of
// [AllocHost] needs no registration, memory that may only be read needs ReadOnly,
// and a file on a disk must not be mapped to share writes (MAP_SHARED with
// PROT_WRITE): map it MAP_PRIVATE, or keep it in /dev/shm.
//
// The caller still has s itself, and must not touch what is in flight:
// [Host.Slice] waits.
func Register[T any](g *GPU, s []T, o *RegisterOptions) (*Host[T], error) {
	a, err := newAllocation[T](g, registeredMemory, len(s))
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &RegisterOptions{}
	}
	a.host = addressOf(s)
	if err := a.register(o); err != nil {
		return nil, err
	}
	return &Host[T]{a.whole()}, nil
}

// register page-locks what is at a.host.
func (a *allocation) register(o *RegisterOptions) error {
	g := a.g
	if err := g.canRegister(o); err != nil {
		g.leave()
		return err
	}
	var flags cu.MemHostRegisterFlags
	if a.only = o.NotPortable; !a.only {
		flags |= cu.MemHostRegisterPortable
	}
	if o.Mapped {
		flags |= cu.MemHostRegisterDeviceMap
	}
	if a.readOnly = o.ReadOnly; a.readOnly {
		flags |= cu.MemHostRegisterReadOnly
	}
	if a.bytes == 0 {
		a.start()
		return nil
	}
	if err := a.lock(flags); err != nil {
		return a.fail("register", err, a.registerHint(err))
	}
	var err error
	if a.dev, err = a.mapRegistered(o.Mapped); err != nil {
		return a.fail("map", errors.Join(err, a.unlock()), "")
	}
	a.start()
	return nil
}

// mapRegistered is the address in kernels of registered memory, 0 if it has none.
func (a *allocation) mapRegistered(asked bool) (cu.DevicePtr, error) {
	switch {
	case a.g.hostPointers():
		return deviceAddress(a.host), nil
	case !asked:
		return 0, nil
	case len(a.pieces) > 1:
		return 0, &refusal{cu.ErrorHostMemoryAlreadyRegistered, fmt.Sprintf("parts of it were registered before, and on this device each has an address of its own (%v is 0): close those buffers first, or register without Mapped", cu.DeviceAttributeCanUseHostPointerForRegisteredMem)}
	}
	return a.addressOn(a.g)
}

// hostPointers says that kernels use registered memory at the host's addresses.
func (g *GPU) hostPointers() bool { return g.caps.unified && g.caps.registeredAddress }

// addressOn is the address of mapped host memory in kernels of a GPU.
func (a *allocation) addressOn(g *GPU) (cu.DevicePtr, error) {
	host, off := a.host, uint64(0)
	if len(a.pieces) > 0 { // it may begin before the buffer
		host = a.pieces[0].host
		start, _ := a.span()
		off = start - a.pieces[0].start
	}
	p, err := g.driver.MemHostGetDevicePointer(g.ctx, host, 0)
	return p + cu.DevicePtr(off), err
}

// canRegister checks the capabilities.
func (g *GPU) canRegister(o *RegisterOptions) error {
	switch {
	case !g.caps.register:
		return g.lacking("register host memory", cu.DeviceAttributeHostRegisterSupported, "use AllocHost, or copy from the plain slice")
	case o.Mapped && !g.caps.mapping:
		return g.lacking("map registered memory", cu.DeviceAttributeCanMapHostMemory, "register without Mapped and copy")
	case o.ReadOnly && !g.caps.registerReadOnly:
		return g.lacking("register read-only memory", cu.DeviceAttributeReadOnlyHostRegisterSupported, "copy from the plain slice, or copy the data into a buffer of AllocHost")
	}
	return nil
}

// registerHint says what to do about a failure.
func (a *allocation) registerHint(err error) string {
	if _, ours := errors.AsType[*refusal](err); ours || inCallback(err) || sticky(err) {
		return ""
	}
	if errors.Is(err, cu.ErrorHostMemoryAlreadyRegistered) {
		return "it was registered past this package"
	}
	if hint := a.lockHint(err); hint != "" {
		return hint
	}
	start, end := a.span()
	return mappingHint(start, end, a.readOnly)
}
