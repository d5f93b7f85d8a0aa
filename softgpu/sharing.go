package softgpu

import (
	"encoding/binary"
	"os"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// Memory and events go to other processes by a handle, which names a file in memory: a process, a
// descriptor of that process, and the number of the file, so that another file with the same
// descriptor is refused. The system gives the file to processes of the same user.

// sharedKind is what a handle stands for.
type sharedKind [8]byte

var (
	sharedMemory  = sharedKind([]byte("ferry m1"))
	sharedEvent   = sharedKind([]byte("ferry e1"))
	sharedPointer = sharedKind([]byte("ferry p1"))
)

// sharedRef is the contents of a handle.
type sharedRef struct {
	kind    sharedKind
	process uint64 // the token of the exporting process
	pid, fd uint32 // its number, and its descriptor of the file
	inode   uint64 // of the file
	off, n  uint64 // where the memory is in the file, and its bytes
	id      uint64 // of the allocation
	pool    uint64 // of the allocation, or 0
}

func (s *sharedRef) encode() (h [64]byte) {
	if _, err := binary.Encode(h[:], binary.LittleEndian, s.words()); err != nil {
		panic("BUG: a handle has too many bytes: " + err.Error())
	}
	copy(h[:], s.kind[:])
	return h
}

// words returns the contents of a handle in their order.
func (s *sharedRef) words() *[8]uint64 {
	return &[8]uint64{1: s.process, 2: uint64(s.pid)<<32 | uint64(s.fd), 3: s.inode, 4: s.off, 5: s.n, 6: s.id, 7: s.pool}
}

// decodeShared reads a handle of a kind. Nothing in it is trusted.
func decodeShared(h [64]byte, kind sharedKind, what string) (*sharedRef, error) {
	if sharedKind(h[:8]) != kind {
		return nil, refuse(cu.ErrorInvalidValue, what, "the 64 bytes are no such handle of a software GPU: they begin with %q", h[:8])
	}
	var w [8]uint64
	if _, err := binary.Decode(h[:], binary.LittleEndian, &w); err != nil {
		panic("BUG: a handle has too few bytes: " + err.Error())
	}
	return &sharedRef{kind: kind, process: w[1], pid: uint32(w[2] >> 32), fd: uint32(w[2]), inode: w[3], off: w[4], n: w[5], id: w[6], pool: w[7]}, nil
}

// refTo returns the handle of a file, without what it has of memory.
func refTo(kind sharedKind, file *os.File) (*sharedRef, error) {
	inode, err := inodeOf(file)
	return &sharedRef{kind: kind, process: processToken(), pid: uint32(os.Getpid()), fd: uint32(file.Fd()), inode: inode}, err
}

// open opens the file of a handle, and returns its bytes and the device that it is of.
func (s *sharedRef) open(d *Driver, what string) (*os.File, uint64, *device, error) {
	file, n, l, err := openSharedFile(s)
	if err != nil {
		return nil, 0, nil, refuse(cu.ErrorMapFailed, what, "process %d does not share it any more, or not with this process: %v", s.pid, err)
	}
	if s.off > n || s.n > n-s.off || s.n == 0 {
		file.Close()
		return nil, 0, nil, refuse(cu.ErrorInvalidValue, what, "the handle names %d bytes from byte %d of a file of %d", s.n, s.off, n)
	}
	dev := d.deviceOf(l)
	if dev == nil {
		file.Close()
		return nil, 0, nil, refuse(cu.ErrorNotSupported, what, otherMachine)
	}
	return file, n, dev, nil
}

// deviceOf returns the device that files with a label are of, or nil.
func (d *Driver) deviceOf(l memoryLabel) *device {
	if i := slices.IndexFunc(d.devices, func(dev *device) bool { return dev.label() == l }); i >= 0 {
		return d.devices[i]
	}
	return nil
}

const otherMachine = "it is of a device that this process does not have: open the same profile in both"

// hasSharing fails if devices cannot share memory and events by handles.
func (dev *device) hasSharing(what string) error {
	if err := dev.drv.needsUVA(what); err != nil {
		return err
	}
	if dev.attr(cu.DeviceAttributeIPCEventSupported) == 0 {
		return dev.lacks(what, cu.DeviceAttributeIPCEventSupported)
	}
	return nil
}

// sharingCall runs a call about handles.
func (d *Driver) sharingCall(h cu.Context, what string, f func(*contextState) error) error {
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := c.dev.hasSharing(what); err != nil {
		return err
	}
	return f(c)
}

// IpcGetMemHandle returns a handle of memory of MemAlloc.
func (d *Driver) IpcGetMemHandle(h cu.Context, dptr cu.DevicePtr) (handle cu.IpcMemHandle, err error) {
	const what = "share memory by a handle"
	err = d.sharingCall(h, what, func(c *contextState) error {
		r, err := d.shareable(dptr, what)
		if err != nil {
			return err
		}
		ref, err := r.share(sharedMemory, what)
		if err == nil {
			handle = cu.IpcMemHandle(ref.encode())
		}
		return err
	})
	return handle, err
}

// shareable returns the allocation of MemAlloc that has dptr. As on an H100, any address in it will do,
// and the handle is that of its start.
func (d *Driver) shareable(dptr cu.DevicePtr, what string) (*region, error) {
	x, ok := d.space.find(uint64(dptr))
	r := x.region
	switch {
	case !ok || !r.live() || r.kind != kindDevice:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is no memory of MemAlloc: %s", uint64(dptr), d.nearReserved(uint64(dptr)))
	case r.opened != nil:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is memory of another process: pass on the handle by which it was opened", uint64(dptr))
	}
	return r, nil
}

// share puts the bytes of r into a file, if they are not, and returns a handle of it. The first time
// for a region it waits until no kernel, copy or fill executes. Allocations below 1 MiB lie in one
// file with their neighbours, which the other process can see, as on hardware. Each has a descriptor
// of its own, so that its handle is good until it is freed.
func (r *region) share(kind sharedKind, what string) (*sharedRef, error) {
	d := r.dev.drv
	if r.shares == nil {
		d.pauseWriters()
		if !r.live() {
			return nil, refuse(cu.ErrorInvalidValue, what, "the memory was freed during the call")
		}
	}
	b, off := r.backing, uint64(0)
	if r.slab != nil {
		b, off = r.slab.backing, r.base-r.slab.base
	}
	if r.shares == nil {
		file, err := b.share(r.dev.label())
		if err != nil {
			return nil, refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
		}
		r.shares = file
	}
	ref, err := refTo(kind, r.shares)
	if err != nil {
		return nil, refuse(cu.ErrorOutOfMemory, what, "%v", err)
	}
	ref.off, ref.n, ref.id = off, r.size, r.id
	d.values.wrote(r.base, r.size) // from now on by anybody
	return ref, nil
}

// pauseWriters waits until no operation executes that can write memory of a device. Host functions
// and waits for values do not. The caller holds mu, which is released during the wait; when it
// returns, none begins before mu is released.
func (d *Driver) pauseWriters() {
	for d.running > d.parked {
		d.waitAnyDone()
	}
}

// parks reports whether the execution of o writes no memory of a device. An exchange says when it does.
func (o *op) parks() bool {
	return o.work.kind == cu.GraphNodeTypeHost || o.work.waits != nil || o.work.remote || o.work.exchange != nil
}

// openedMemory is what memory of another process has besides.
type openedMemory struct {
	ref  sharedRef
	uses int // IpcOpenMemHandle less IpcCloseMemHandle
}

// IpcOpenMemHandle maps memory of another process.
func (d *Driver) IpcOpenMemHandle(h cu.Context, handle cu.IpcMemHandle, flags cu.IpcMemFlags) (dptr cu.DevicePtr, err error) {
	const what = "open memory of another process"
	err = d.sharingCall(h, what, func(c *contextState) error {
		if flags != cu.IpcMemLazyEnablePeerAccess {
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be IpcMemLazyEnablePeerAccess", uint32(flags))
		}
		ref, err := decodeShared(handle, sharedMemory, what)
		switch {
		case err != nil:
			return err
		case ref.process == processToken():
			return refuse(cu.ErrorInvalidContext, what, "the handle is of this process, which has the memory: use its address")
		}
		r := c.opened(ref)
		if r == nil {
			if r, err = c.openMemory(ref, kindDevice, what); err != nil {
				return err
			}
			r.opened = &openedMemory{ref: *ref}
		}
		r.opened.uses++
		dptr = cu.DevicePtr(r.base)
		return nil
	})
	return dptr, err
}

// opened returns the memory that a context has opened by a handle, or nil.
func (c *contextState) opened(ref *sharedRef) *region {
	for r := range c.regions {
		if r.opened != nil && r.opened.ref == *ref {
			return r
		}
	}
	return nil
}

// openMemory maps the memory of a handle. It counts as memory of c, and takes none of the device.
func (c *contextState) openMemory(ref *sharedRef, k kind, what string) (*region, error) {
	d := c.drv
	file, n, dev, err := ref.open(d, what)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if dev != c.dev && !d.peerAccess() {
		return nil, refuse(cu.ErrorPeerAccessUnsupported, what, "it is memory of %v, which %v cannot access", dev, c.dev)
	}
	b, err := mapShared(file, n)
	if err != nil {
		return nil, refuse(cu.ErrorMapFailed, what, "this computer cannot provide it: %v", err)
	}
	d.owns(b)
	r := c.newRegion(k)
	r.dev, r.backing, r.data, r.size = dev, b, b.data[ref.off:ref.off+ref.n:ref.off+ref.n], ref.n
	r.base = dev.memory.nextAddress(roundUp(ref.n, slabSize))
	r.device = r.base
	r.segments(false)
	r.state.Store(stateLive)
	c.regions[r] = struct{}{}
	d.space.insert(addressRange{base: r.base, end: r.base + r.size, region: r})
	d.values.wrote(r.base, r.size)
	return r, nil
}

// IpcCloseMemHandle ends a use of memory of another process. The last one waits for the work of the
// context, as MemFree does.
func (d *Driver) IpcCloseMemHandle(h cu.Context, dptr cu.DevicePtr) error {
	const what = "close memory of another process"
	return d.sharingCall(h, what, func(c *contextState) error {
		r, err := d.openedAt(dptr, what)
		if err != nil {
			return err
		}
		if r.opened.uses > 1 {
			r.opened.uses--
			return nil
		}
		if err := c.unsafeInCapture(what); err != nil {
			return err
		}
		if err := r.ctx.sync(); err != nil {
			return err
		}
		if r, err = d.openedAt(dptr, what); err != nil { // another call may have closed it during the wait
			return err
		}
		if r.opened.uses--; r.opened.uses == 0 {
			r.free()
		}
		return nil
	})
}

// openedAt returns the memory of another process that starts at dptr.
func (d *Driver) openedAt(dptr cu.DevicePtr, what string) (*region, error) {
	x, ok := d.space.find(uint64(dptr))
	if !ok || x.base != uint64(dptr) || x.region.opened == nil {
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is no address of IpcOpenMemHandle: %s", uint64(dptr), d.nearReserved(uint64(dptr)))
	}
	return x.region, nil
}

// MemGetHandleForAddressRange is not supported: a file in memory is no DMA-BUF.
func (d *Driver) MemGetHandleForAddressRange(h cu.Context, dptr cu.DevicePtr, bytes uintptr, handleType cu.MemRangeHandleType, flags cu.MemRangeFlags) (int32, error) {
	what := "get a descriptor of " + size(uint64(bytes))
	if err := d.since("cuMemGetHandleForAddressRange", 11070); err != nil {
		return -1, err
	}
	c, err := d.beginIn(h, what)
	if err != nil {
		return -1, err
	}
	defer d.mu.Unlock()
	if handleType != cu.MemRangeHandleTypeDMABufFD {
		return -1, refuse(cu.ErrorNotSupported, what, "handle type %d is not known", handleType)
	}
	return -1, c.dev.lacks(what, cu.DeviceAttributeDMABufSupported)
}
