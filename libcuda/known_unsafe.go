package libcuda

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The steps and what they point to are in one object on the heap, which does not move.
// It stays alive until C returns.

// knowingCopy is a copy and a question about its host memory, in one call from Go to C.
type knowingCopy struct {
	crossing
	list      [2]step
	attribute uint32 // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
	data      unsafe.Pointer
	memory    uint64 // the answer, a cu.MemoryType: 0 for memory that the driver does not know
}

var knowingCopies = sync.Pool{New: func() any {
	c := &knowingCopy{attribute: 2}
	c.data = unsafe.Pointer(&c.memory)
	c.steps, c.n = &c.list[0], uintptr(len(c.list))
	s := &c.list[1]
	s[1], s[2], s[3] = 1, uintptr(unsafe.Pointer(&c.attribute)), uintptr(unsafe.Pointer(&c.data))
	return c
}}

// MemcpyKnowing makes MemcpyHtoDAsync or MemcpyDtoHAsync, and then asks the driver whether it
// knows the host memory (cuPointerGetAttributes). Both are one call from Go to C. For memory
// that the driver knows, the copy may be in flight when MemcpyKnowing returns. If the question
// fails, known is true.
//
// The question is about the first byte. The driver chooses by that: it copies memory that it
// does not know there as ordinary memory, and refuses a copy that leaves a registration.
// It is asked last, because memory may be page-locked at any time. Memory that was
// page-locked during the copy and is not any more is no longer in use: calls that end this
// wait for the copy.
func (d *Driver) MemcpyKnowing(ctx cu.Context, toDevice bool, dev cu.DevicePtr, host cu.HostPtr, bytes uintptr, stream cu.Stream) (known bool, err error) {
	id, dst, src := procMemcpyDtoHAsync, uintptr(host), uintptr(dev)
	if toDevice {
		id, dst, src = procMemcpyHtoDAsync, uintptr(dev), uintptr(host)
	}
	copies, asks := d.byHandle(id, ctx, uintptr(stream)), d.procs[procPointerGetAttributes].Load()
	if copies == 0 || asks == 0 {
		return d.memcpyThenAsk(ctx, toDevice, dev, host, bytes, stream)
	}
	c := knowingCopies.Get().(*knowingCopy)
	s := &c.list[0]
	s[0], s[1], s[2], s[3], s[4] = copies, dst, src, bytes, uintptr(stream)
	c.list[1][0], c.list[1][4] = asks, uintptr(host)
	c.memory, c.done = 0, 0
	r := c.make()
	runtime.KeepAlive(host)
	done, memory := c.done, uint32(c.memory)
	knowingCopies.Put(c)
	seeHostFuncs()
	switch {
	case done > 0: // the copy is queued
		return r != cu.Success || memory != 0, nil
	case wantsContext(r):
		return d.memcpyThenAsk(ctx, toDevice, dev, host, bytes, stream)
	}
	return false, result(r)
}

// memcpyThenAsk is MemcpyKnowing in two calls, with a context and with functions that are not
// looked up yet.
func (d *Driver) memcpyThenAsk(ctx cu.Context, toDevice bool, dev cu.DevicePtr, host cu.HostPtr, bytes uintptr, stream cu.Stream) (known bool, err error) {
	if toDevice {
		err = d.MemcpyHtoDAsync(ctx, dev, host, bytes, stream)
	} else {
		err = d.MemcpyDtoHAsync(ctx, host, dev, bytes, stream)
	}
	if err != nil {
		return false, err
	}
	about, err := d.PointerGetAttributes(ctx, cu.DevicePtr(uintptr(host)))
	return err != nil || about.MemoryType != 0, nil
}
