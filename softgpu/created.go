package softgpu

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

// createdMemory is memory of MemCreate, or imported memory. It has no addresses: a reservation
// maps it. It lives while a handle or a mapping refers to it.
//
// Its bytes are those of a file in memory, so that all of its mappings share them, also in other
// processes.
type createdMemory struct {
	drv      *Driver
	dev      *device
	handle   cu.MemHandle
	size     uint64
	props    cu.MemAllocationProp
	file     *os.File
	imported bool // another handle pays for it
	refs     int  // handles that are not released
	mappings int
}

// memoryLabel marks the file of created memory: the format, and the UUID of the device.
type memoryLabel [32]byte

const labelText = "ferry softgpu 1\n"

// label returns the label of the device's memory.
func (dev *device) label() (l memoryLabel) {
	uuid := dev.uuid()
	copy(l[copy(l[:], labelText):], uuid[:])
	return l
}

// hasVirtualMemory fails if the device has no created memory. The result is true on all devices of a
// machine or on none.
func (dev *device) hasVirtualMemory(what string) error {
	if err := dev.drv.needsUVA(what); err != nil {
		return err
	}
	if dev.attr(cu.DeviceAttributeVirtualMemoryManagementSupported) == 0 {
		return dev.lacks(what, cu.DeviceAttributeVirtualMemoryManagementSupported)
	}
	return nil
}

// virtualCall runs a call about created memory or reserved addresses.
func (d *Driver) virtualCall(h cu.Context, what string, f func(*contextState) error) error {
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := c.dev.hasVirtualMemory(what); err != nil {
		return err
	}
	return f(c)
}

// described returns the device that properties of created memory name.
func (d *Driver) described(props *cu.MemAllocationProp, what string) (*device, error) {
	switch {
	case props == nil:
		return nil, refuse(cu.ErrorInvalidValue, what, "the properties are nil")
	case props.Type != cu.MemAllocationTypePinned:
		return nil, refuse(cu.ErrorInvalidValue, what, "allocation type %d is not known: use MemAllocationTypePinned", props.Type)
	case props.Location.Type == cu.MemLocationTypeHost || props.Location.Type == cu.MemLocationTypeHostNUMA:
		return nil, refuse(cu.ErrorNotSupported, what, "the software GPU creates memory of devices only, not of the host")
	case props.Location.Type != cu.MemLocationTypeDevice:
		return nil, refuse(cu.ErrorInvalidValue, what, "location type %d is not known", props.Location.Type)
	}
	dev, err := d.device(cu.Device(props.Location.ID), what)
	if err != nil {
		return nil, err
	}
	const posix = cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported
	switch types := props.RequestedHandleTypes; {
	case types&^cu.MemHandleTypePosixFileDescriptor != 0:
		return nil, refuse(cu.ErrorNotSupported, what, "handle types %#x: the software GPU shares memory by file descriptors only", uint32(types))
	case types != 0 && dev.attr(posix) == 0:
		return nil, dev.lacks(what, posix)
	}
	return dev, nil
}

// MemGetAllocationGranularity returns 2 MiB, as hardware does for memory of a device.
func (d *Driver) MemGetAllocationGranularity(h cu.Context, props *cu.MemAllocationProp, option cu.MemAllocationGranularity) (uintptr, error) {
	const what = "get the granularity of memory"
	err := d.virtualCall(h, what, func(*contextState) error {
		if option > cu.MemAllocGranularityRecommended {
			return refuse(cu.ErrorInvalidValue, what, "option %d is not known", option)
		}
		_, err := d.described(props, what)
		return err
	})
	if err != nil {
		return 0, err
	}
	return granularity, nil
}

// granularity is the unit of created memory and its mappings.
const granularity = slabSize

// MemCreate creates memory of a device.
func (d *Driver) MemCreate(h cu.Context, bytes uintptr, props *cu.MemAllocationProp, flags uint64) (handle cu.MemHandle, err error) {
	what := "create " + size(uint64(bytes)) + " of device memory"
	err = d.virtualCall(h, what, func(*contextState) error {
		dev, err := d.described(props, what)
		switch {
		case err != nil:
			return err
		case flags != 0:
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		case bytes == 0 || bytes%granularity != 0:
			return refuse(cu.ErrorInvalidValue, what, "%d bytes are not a multiple of %d, the granularity", bytes, granularity)
		}
		m, err := dev.memory.create(uint64(bytes), *props, what)
		if err == nil {
			handle = m.handle
		}
		return err
	})
	return handle, err
}

// create creates n bytes of memory with one handle.
func (m *deviceMemory) create(n uint64, props cu.MemAllocationProp, what string) (*createdMemory, error) {
	d := m.dev.drv
	if n > m.free() {
		return nil, refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", m.dev.ordinal, size(m.free()), size(m.total()))
	}
	file, err := newMemoryFile(n, m.dev.label())
	if err != nil {
		return nil, refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
	}
	d.contents.putFile(file, n)
	d.spend(d.prof.Own.DeviceAllocate.Value + d.prof.Own.DeviceGrow.Ns(float64(n)))
	m.largeBytes += n
	d.backedBytes += n
	d.deviceBytes += n
	return m.newCreated(&createdMemory{size: n, props: props, file: file}), nil
}

// newCreated gives created memory its first handle.
func (m *deviceMemory) newCreated(x *createdMemory) *createdMemory {
	x.drv, x.dev, x.refs = m.dev.drv, m.dev, 1
	x.handle = cu.MemHandle(x.drv.newHandle(x))
	return x
}

// drop frees memory that no handle and no mapping refers to.
func (x *createdMemory) drop() {
	if x.refs > 0 || x.mappings > 0 {
		return
	}
	d := x.drv
	x.file.Close()
	if x.imported {
		return
	}
	d.spend(d.prof.Own.DeviceShrink.Ns(float64(x.size)))
	x.dev.memory.largeBytes -= x.size
	d.backedBytes -= x.size
	d.deviceBytes -= x.size
}

// created returns the memory of a handle.
func (d *Driver) created(h cu.MemHandle, what string) (*createdMemory, error) {
	return lookupGraph[*createdMemory](d, uintptr(h), what, "memory handle")
}

// MemRelease gives a handle back.
func (d *Driver) MemRelease(h cu.Context, handle cu.MemHandle) error {
	const what = "release a memory handle"
	return d.virtualCall(h, what, func(*contextState) error {
		x, err := d.created(handle, what)
		if err != nil {
			return err
		}
		if x.refs--; x.refs == 0 {
			delete(d.handles, uintptr(handle))
		}
		x.drop()
		return nil
	})
}

// MemRetainAllocationHandle returns one more handle of mapped memory, with the value that it
// was mapped by.
func (d *Driver) MemRetainAllocationHandle(h cu.Context, addr cu.DevicePtr) (handle cu.MemHandle, err error) {
	const what = "retain a memory handle"
	err = d.virtualCall(h, what, func(*contextState) error {
		x, ok := d.space.find(uint64(addr))
		if !ok || x.region.mapping == nil {
			return refuse(cu.ErrorInvalidValue, what, "nothing is mapped at %#x: %s", uint64(addr), d.nearReserved(uint64(addr)))
		}
		m := x.region.mapping.memory
		m.refs++
		d.handles[uintptr(m.handle)] = m
		handle = m.handle
		return nil
	})
	return handle, err
}

// MemGetAllocationPropertiesFromHandle returns what the memory was created with.
func (d *Driver) MemGetAllocationPropertiesFromHandle(h cu.Context, handle cu.MemHandle) (props cu.MemAllocationProp, err error) {
	const what = "read the properties of memory"
	err = d.virtualCall(h, what, func(*contextState) error {
		x, err := d.created(handle, what)
		if err == nil {
			props = x.props
		}
		return err
	})
	return props, err
}

// MemExportToShareableHandle returns a descriptor of the memory's file.
func (d *Driver) MemExportToShareableHandle(h cu.Context, handle cu.MemHandle, handleType cu.MemAllocationHandleType, flags uint64) (fd int32, err error) {
	const what = "export memory"
	fd = -1
	err = d.virtualCall(h, what, func(*contextState) error {
		x, err := d.created(handle, what)
		switch {
		case err != nil:
			return err
		case handleType != cu.MemHandleTypePosixFileDescriptor:
			return refuse(cu.ErrorNotSupported, what, "handle type %#x: the software GPU shares memory by file descriptors only", uint32(handleType))
		case flags != 0:
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		case x.props.RequestedHandleTypes&handleType == 0:
			return refuse(cu.ErrorInvalidValue, what, "the memory was created without this type of handle, or imported: set RequestedHandleTypes, and pass on the descriptor that was imported")
		}
		if fd, err = duplicate(x.file.Fd()); err != nil {
			return refuse(cu.ErrorOutOfMemory, what, "%v", err)
		}
		return nil
	})
	return fd, err
}

// MemImportFromShareableHandle returns a handle of memory that this process or another one has
// exported. It trusts nothing that came with the descriptor: the system says how large its file
// is and that nobody can make it smaller.
func (d *Driver) MemImportFromShareableHandle(h cu.Context, fd int32, handleType cu.MemAllocationHandleType) (handle cu.MemHandle, err error) {
	const what = "import memory"
	err = d.virtualCall(h, what, func(*contextState) error {
		if handleType != cu.MemHandleTypePosixFileDescriptor {
			return refuse(cu.ErrorNotSupported, what, "handle type %#x: the software GPU shares memory by file descriptors only", uint32(handleType))
		}
		file, n, l, err := openMemoryFile(fd)
		if err != nil {
			return refuse(cu.ErrorUnknown, what, "%v", err)
		}
		dev, err := d.labelled(l, n, what)
		if err != nil {
			file.Close()
			return err
		}
		handle = dev.memory.newCreated(&createdMemory{size: n, file: file, imported: true, props: cu.MemAllocationProp{
			Type:     cu.MemAllocationTypePinned, // without a type of handle: it is not exported again
			Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(dev.ordinal)},
		}}).handle
		return nil
	})
	return handle, err
}

// labelled returns the device of imported memory of n bytes.
func (d *Driver) labelled(l memoryLabel, n uint64, what string) (*device, error) {
	if string(l[:len(labelText)]) != labelText || n == 0 || n%granularity != 0 {
		return nil, refuse(cu.ErrorUnknown, what, "the file of %d bytes is no memory of a software GPU", n)
	}
	if dev := d.deviceOf(l); dev != nil {
		return dev, nil
	}
	return nil, refuse(cu.ErrorNotSupported, what, otherMachine)
}
