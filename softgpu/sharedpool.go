package softgpu

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

// A pool goes to other processes by a descriptor, and each of its allocations by a handle, which
// names the file of the allocation's bytes. The descriptor is of a file that has nothing but the
// number of the pool: it says whose allocations may be imported.

// poolFile is what the file of a pool has in front of its label: as much as a page.
const poolFile = pageSize

// sharedPool is what a pool that processes share has besides.
type sharedPool struct {
	file     *os.File // of a pool that this process exports, nil before
	number   uint64   // of the file: allocations name it
	imported bool
}

// canShare fails if pools of the device cannot be shared in a way.
func (dev *device) canShare(types cu.MemAllocationHandleType, what string) error {
	switch have := cu.MemAllocationHandleType(dev.attr(cu.DeviceAttributeMempoolSupportedHandleTypes)); {
	case types&^cu.MemHandleTypePosixFileDescriptor != 0:
		return refuse(cu.ErrorNotSupported, what, "handle types %#x: the software GPU shares pools by file descriptors only", uint32(types))
	case types&^have != 0:
		return dev.lacks(what, cu.DeviceAttributeMempoolSupportedHandleTypes)
	}
	return nil
}

// MemPoolExportToShareableHandle returns a descriptor of the pool's file.
func (d *Driver) MemPoolExportToShareableHandle(h cu.MemPool, handleType cu.MemAllocationHandleType, flags uint64) (fd int32, err error) {
	const what = "export a pool"
	fd = -1
	err = d.poolCall(h, what, func(p *pool) error {
		switch {
		case handleType != cu.MemHandleTypePosixFileDescriptor:
			return refuse(cu.ErrorNotSupported, what, "handle type %#x: the software GPU shares pools by file descriptors only", uint32(handleType))
		case flags != 0:
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		case p.shared == nil || p.shared.imported:
			return refuse(cu.ErrorInvalidValue, what, "the pool was made without this type of handle: set HandleTypes")
		}
		if err := p.makeFile(); err != nil {
			return refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
		}
		if fd, err = duplicate(p.shared.file.Fd()); err != nil {
			return refuse(cu.ErrorOutOfMemory, what, "%v", err)
		}
		return nil
	})
	return fd, err
}

// makeFile makes the file of a pool, if it has none.
func (p *pool) makeFile() (err error) {
	s := p.shared
	if s.file != nil {
		return nil
	}
	if s.file, err = newMemoryFile(poolFile, p.dev.label()); err != nil {
		s.file = nil
		return err
	}
	s.number, err = inodeOf(s.file)
	return err
}

// MemPoolImportFromShareableHandle makes a pool whose memory is that of another process. It trusts
// the descriptor no more than MemImportFromShareableHandle does.
func (d *Driver) MemPoolImportFromShareableHandle(fd int32, handleType cu.MemAllocationHandleType, flags uint64) (h cu.MemPool, err error) {
	const what = "import a pool"
	if err := d.begin(what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	switch {
	case handleType != cu.MemHandleTypePosixFileDescriptor:
		return 0, refuse(cu.ErrorNotSupported, what, "handle type %#x: the software GPU shares pools by file descriptors only", uint32(handleType))
	case flags != 0:
		return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	}
	if err := d.devices[0].canShare(handleType, what); err != nil {
		return 0, err
	}
	file, n, l, err := openMemoryFile(fd)
	if err != nil {
		return 0, refuse(cu.ErrorUnknown, what, "%v", err) // as driver 580
	}
	defer file.Close()
	number, err := inodeOf(file)
	if err != nil || n != poolFile {
		return 0, refuse(cu.ErrorUnknown, what, "the file of %d bytes is no pool of a software GPU", n)
	}
	dev := d.deviceOf(l)
	if dev == nil {
		return 0, refuse(cu.ErrorNotSupported, what, otherMachine)
	}
	p := &pool{dev: dev, shared: &sharedPool{number: number, imported: true}}
	p.reset()
	p.handle = cu.MemPool(d.newHandle(p))
	dev.pools = append(dev.pools, p)
	return p.handle, nil
}

// MemPoolExportPointer returns a handle of an allocation.
func (d *Driver) MemPoolExportPointer(dptr cu.DevicePtr) (data cu.MemPoolPtrExportData, err error) {
	const what = "export memory of a pool"
	if err := d.begin(what); err != nil {
		return data, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(uint64(dptr))
	r := x.region
	switch {
	case !ok || r.kind != kindPool || r.state.Load() == stateFreed:
		return data, refuse(cu.ErrorInvalidValue, what, "%#x is no memory of a pool: %s", uint64(dptr), d.nearReserved(uint64(dptr)))
	case x.base != uint64(dptr):
		return data, refuse(cu.ErrorInvalidValue, what, "%#x is not the start of an allocation: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case r.pool.shared == nil || r.pool.shared.imported:
		return data, refuse(cu.ErrorInvalidValue, what, "the pool of %#x was made without a type of handle: set HandleTypes", uint64(dptr))
	}
	if err := r.pool.makeFile(); err != nil {
		return data, refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
	}
	ref, err := r.share(sharedPointer, what)
	if err != nil {
		return data, err
	}
	ref.pool = r.pool.shared.number
	return ref.encode(), nil
}

// MemPoolImportPointer maps an allocation of another process, or of this one.
func (d *Driver) MemPoolImportPointer(h cu.MemPool, data *cu.MemPoolPtrExportData) (dptr cu.DevicePtr, err error) {
	const what = "import memory of a pool"
	if data == nil {
		return 0, refuse(cu.ErrorInvalidValue, what, "the data is nil")
	}
	err = d.poolCall(h, what, func(p *pool) error {
		ref, err := decodeShared(*data, sharedPointer, what)
		switch {
		case err != nil:
			return err
		case p.shared == nil || !p.shared.imported:
			return refuse(cu.ErrorInvalidValue, what, "the pool was not imported: see MemPoolImportFromShareableHandle")
		case p.shared.number != ref.pool:
			return refuse(cu.ErrorInvalidValue, what, "the memory is of another pool than the one that was imported")
		}
		if r := p.imported(ref); r != nil {
			dptr = cu.DevicePtr(r.base)
			return nil
		}
		c := p.dev.anyContext()
		if c == nil {
			return refuse(cu.ErrorInvalidContext, what, "%v has no context", p.dev)
		}
		r, err := c.openMemory(ref, kindPool, what)
		if err != nil {
			return err
		}
		r.pool, r.opened = p, &openedMemory{ref: *ref, uses: 1}
		p.live++
		dptr = cu.DevicePtr(r.base)
		return nil
	})
	return dptr, err
}

// imported returns the memory that a handle of a pool has been imported by, and that is not freed, or
// nil. Importing it again gives the same address, as on an H100.
func (p *pool) imported(ref *sharedRef) *region {
	for _, c := range p.dev.drv.contexts() {
		if r := c.opened(ref); r != nil && r.pool == p && r.streamFree == nil {
			return r
		}
	}
	return nil
}

// anyContext returns a context of the device, the primary one if there is one. Memory of a pool
// belongs to no context, but each region has one.
func (dev *device) anyContext() *contextState {
	if dev.primary != nil {
		return dev.primary
	}
	for _, c := range dev.drv.contexts() {
		if c.dev == dev {
			return c
		}
	}
	return nil
}

// allocates fails for a pool of another process.
func (p *pool) allocates(what string) error {
	if p.shared != nil && p.shared.imported {
		return refuse(cu.ErrorInvalidValue, what, "the pool is of another process: only MemPoolImportPointer takes memory of it")
	}
	return nil
}
