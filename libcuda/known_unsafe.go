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

// MemcpyKnowing makes the copy of a call, which is a [cu.OpMemcpyHtoDAsync] or a
// [cu.OpMemcpyDtoHAsync], and then asks the driver whether it knows the host memory
// (cuPointerGetAttributes). Both are one call from Go to C. For memory that the driver knows,
// the copy may be in flight when MemcpyKnowing returns. If the question fails, known is true.
//
// The question is about the first byte. The driver chooses by that: it copies memory that it
// does not know there as ordinary memory, and refuses a copy that leaves a registration.
// It is asked last, because memory may be page-locked at any time. Memory that was
// page-locked during the copy and is not any more is no longer in use: calls that end this
// wait for the copy.
func (d *Driver) MemcpyKnowing(ctx cu.Context, x cu.Call) (known bool, err error) {
	c := knowingCopies.Get().(*knowingCopy)
	defer knowingCopies.Put(c)
	id, err := d.layCall(&c.list[0], &x, nil)
	if err != nil {
		return false, err
	}
	ask := &c.list[1]
	if err := d.prepare(ask, procPointerGetAttributes); err != nil {
		return true, x.Do(d, ctx)
	}
	ask[4] = uintptr(x.Host)
	c.memory, c.done, c.set = 0, 0, 0
	if d.byHandle(id, ctx, uintptr(x.Stream)) == 0 {
		if err := d.bind(&c.binding, ctx); err != nil {
			return false, err
		}
	}
	r := c.make()
	seeHostFuncs()
	runtime.KeepAlive(x.Host)
	if c.done == 0 && c.set == 0 && wantsContext(r) {
		return true, x.Do(d, ctx)
	}
	if c.done > 0 { // the copy is queued
		return r != cu.Success || uint32(c.memory) != 0, nil
	}
	return false, result(r)
}
