package ferry

import (
	"errors"
	"runtime"
	"sync"

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
// memory from elsewhere such as a mapped file. Until Close the elements are held
// in memory, whether or not anything else refers to them. A page that is
// registered already is cu.ErrorHostMemoryAlreadyRegistered: one registration
// serves all GPUs, ranges of it are made with [Host.Range]. An empty slice is a
// valid, empty buffer. A device that cannot register is cu.ErrorNotSupported.
// o may be nil.
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

// register asks the driver to page-lock what is at a.host.
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
	a.held = hold(a.host)
	if err := g.driver.MemHostRegister(g.ctx, a.host, a.bytes, flags); err != nil {
		a.held.release()
		return a.fail("register", err, a.registerHint(err))
	}
	var err error
	if a.dev, err = g.mapped(a.host, o.Mapped, g.caps.unified && g.caps.registeredAddress); err != nil {
		err = errors.Join(err, g.driver.MemHostUnregister(g.ctx, a.host))
		a.held.release()
		return a.fail("map", err, "")
	}
	a.start()
	return nil
}

// canRegister checks the capabilities.
func (g *GPU) canRegister(o *RegisterOptions) error {
	switch {
	case !g.caps.register:
		return g.lacking("register host memory", cu.DeviceAttributeHostRegisterSupported, "use AllocHost, or copy from the plain slice")
	case o.Mapped && !g.caps.mapping:
		return g.lacking("map registered memory", cu.DeviceAttributeCanMapHostMemory, "register without Mapped and copy")
	case o.ReadOnly && !g.caps.registerReadOnly:
		return g.lacking("register read-only memory", cu.DeviceAttributeReadOnlyHostRegisterSupported, "copy the data into a buffer of AllocHost")
	}
	return nil
}

// registerHint says what to do about a failure.
func (a *allocation) registerHint(err error) string {
	if errors.Is(err, cu.ErrorHostMemoryAlreadyRegistered) {
		return "register the whole once and use Range for its parts"
	}
	return a.lockHint(err)
}

// registration keeps registered Go memory from being collected, even if the
// program loses the buffer without closing it: to the driver it stays registered.
type registration struct{ pinner runtime.Pinner }

var registrations struct {
	mu   sync.Mutex
	held map[*registration]struct{}
}

// hold keeps the object at p.
func hold(p cu.HostPtr) *registration {
	r := new(registration)
	r.pinner.Pin(p)
	registrations.mu.Lock()
	defer registrations.mu.Unlock()
	if registrations.held == nil {
		registrations.held = map[*registration]struct{}{}
	}
	registrations.held[r] = struct{}{}
	return r
}

// release lets go. It does nothing for nil.
func (r *registration) release() {
	if r == nil {
		return
	}
	r.pinner.Unpin()
	registrations.mu.Lock()
	defer registrations.mu.Unlock()
	delete(registrations.held, r)
}
