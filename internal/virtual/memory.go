package virtual

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Memory is reserved addresses with the memory that is mapped at their start.
type Memory struct {
	Base cu.DevicePtr

	d        cu.Driver
	ctx      cu.Context
	reserved uintptr // bytes of addresses
	unit     uintptr // of sizes and addresses
	props    cu.MemAllocationProp
	known    func(cu.DevicePtr) bool // whether the driver has memory at an address
	imported bool                    // by a descriptor: the driver exports it no more

	// mu is held during calls of the driver, so that one goroutine at a time maps memory and gives
	// access to it. Operations on the memory need it only to open the memory to a device, once.
	mu     sync.Mutex
	parts  []uintptr                          // bytes of the mappings, which follow each other
	stuck  uintptr                            // bytes behind them of a mapping that failed and was not unmapped
	access atomic.Pointer[[]cu.MemAccessDesc] // of all mappings; changed under mu
}

// Lacking returns the attribute that says that a device has no virtual memory, or cannot share it; 0
// if it can.
func Lacking(d cu.Driver, device cu.Device, types cu.MemAllocationHandleType) (cu.DeviceAttribute, error) {
	needs := []cu.DeviceAttribute{cu.DeviceAttributeVirtualMemoryManagementSupported}
	if types != cu.MemHandleTypeNone {
		needs = append(needs, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported)
	}
	for _, attribute := range needs {
		v, err := d.DeviceGetAttribute(attribute, device)
		if err == nil && v == 0 || errors.Is(err, cu.ErrorInvalidValue) { // a driver older than the attribute
			return attribute, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Reserve reserves addresses for memory of a device that can be shared in the given ways. Nothing is
// mapped there yet. known asks the driver whether it has memory at an address: a call that fails may
// have unmapped it.
func Reserve(d cu.Driver, ctx cu.Context, device cu.Device, bytes uintptr, types cu.MemAllocationHandleType, known func(cu.DevicePtr) bool) (*Memory, error) {
	at := location(device)
	m := &Memory{
		d: d, ctx: ctx, known: known,
		props: cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, RequestedHandleTypes: types, Location: at},
	}
	m.access.Store(&[]cu.MemAccessDesc{{Location: at, Flags: cu.MemAccessProtReadWrite}})
	var err error
	if m.unit, err = d.MemGetAllocationGranularity(ctx, &m.props, cu.MemAllocGranularityMinimum); err != nil {
		return nil, err
	}
	if m.reserved = m.round(bytes); m.reserved < bytes {
		return nil, refusal.New(cu.ErrorOutOfMemory, "%d bytes are more than an address can count", bytes)
	}
	if m.Base, err = d.MemAddressReserve(ctx, m.reserved, 0, 0, 0); err != nil {
		return nil, err
	}
	return m, nil
}

func location(device cu.Device) cu.MemLocation {
	return cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(device)}
}

// Shares reports whether the memory can be shared with other processes, or is.
func (m *Memory) Shares() bool { return m != nil && m.props.RequestedHandleTypes != 0 }

// Imported reports whether the memory came by a descriptor.
func (m *Memory) Imported() bool { return m.imported }

func (m *Memory) round(bytes uintptr) uintptr { return (bytes + m.unit - 1) / m.unit * m.unit }

// mapped returns how many bytes have memory.
func (m *Memory) mapped() (sum uintptr) {
	for _, n := range m.parts {
		sum += n
	}
	return sum
}

// Grow maps new memory behind the old, until the given number of bytes has memory. If it fails,
// everything is as it was.
func (m *Memory) Grow(bytes uintptr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.mapped()
	if bytes <= have {
		return nil
	}
	if err := m.unstick(); err != nil && m.stuck > 0 {
		return err
	}
	n := m.round(bytes - have)
	h, err := m.d.MemCreate(m.ctx, n, &m.props, 0)
	if err != nil {
		return err
	}
	return m.attach(h, n)
}

// attach maps n bytes of memory behind what is mapped, and releases its handle: the mapping keeps
// the memory. If that fails nothing is mapped. The caller holds mu.
func (m *Memory) attach(h cu.MemHandle, n uintptr) error {
	at := m.Base + cu.DevicePtr(m.mapped())
	err := m.d.MemMap(m.ctx, at, n, 0, h, 0)
	mapped := err == nil
	if m.imported && errors.Is(err, cu.ErrorNotSupported) {
		err = refusal.Invalid("the memory of the descriptor has another size than %s, which the elements need in units of %s: give the number of elements that it was allocated with (%v)",
			refusal.Size(n), refusal.Size(m.unit), err)
	}
	err = refusal.Join(err, m.release(h))
	if err == nil {
		err = m.d.MemSetAccess(m.ctx, at, n, *m.access.Load())
	}
	if err == nil {
		m.parts = append(m.parts, n)
		return nil
	}
	if mapped {
		m.stuck = n
		err = refusal.Join(err, m.unstick())
	}
	return err
}

// unstick unmaps what attach could not use. If that fails, and the memory is gone all the same, nothing
// is stuck any more. The caller holds mu.
func (m *Memory) unstick() error {
	if m.stuck == 0 {
		return nil
	}
	at := m.Base + cu.DevicePtr(m.mapped())
	err := m.d.MemUnmap(m.ctx, at, m.stuck)
	if err == nil || !m.known(at) {
		m.stuck = 0
	}
	return err
}

// Lacks returns how many of bytes have no memory. A nil Memory lacks all.
func (m *Memory) Lacks(bytes uintptr) uintptr {
	if m == nil {
		return bytes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes - min(bytes, m.mapped())
}

// release gives a handle back. If that fails, and the driver still knows the handle, it tries again,
// because nobody else has the handle. It returns the first error.
func (m *Memory) release(h cu.MemHandle) error {
	err := m.d.MemRelease(m.ctx, h)
	if err != nil && !refusal.Sticky(err) {
		if _, gone := m.d.MemGetAllocationPropertiesFromHandle(m.ctx, h); gone == nil {
			_ = m.d.MemRelease(m.ctx, h)
		}
	}
	return err
}

// OpenTo opens the memory, and what it grows by, to another device that can access it. A nil Memory
// needs no opening.
func (m *Memory) OpenTo(device cu.Device) error {
	if m == nil {
		return nil
	}
	next := cu.MemAccessDesc{Location: location(device), Flags: cu.MemAccessProtReadWrite}
	if slices.Contains(*m.access.Load(), next) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	open := *m.access.Load()
	if slices.Contains(open, next) {
		return nil
	}
	if n := m.mapped(); n > 0 {
		if err := m.d.MemSetAccess(m.ctx, m.Base, n, []cu.MemAccessDesc{next}); err != nil {
			return err
		}
	}
	open = append(slices.Clip(open), next)
	m.access.Store(&open)
	return nil
}

// Free unmaps the memory, its start last, and frees the addresses. If a call fails that has not
// unmapped, another Free goes on with what is left.
func (m *Memory) Free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	failed := m.unstick() // of calls that have unmapped all the same
	if m.stuck > 0 {
		return failed
	}
	for len(m.parts) > 0 {
		last := m.parts[len(m.parts)-1]
		at := m.Base + cu.DevicePtr(m.mapped()-last)
		if err := m.d.MemUnmap(m.ctx, at, last); err != nil {
			failed = refusal.Join(failed, err)
			if m.known(at) {
				return failed
			}
		}
		m.parts = m.parts[:len(m.parts)-1]
	}
	return refusal.Join(failed, m.d.MemAddressFree(m.ctx, m.Base, m.reserved))
}
