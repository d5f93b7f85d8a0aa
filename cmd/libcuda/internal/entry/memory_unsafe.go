package entry

import (
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Lists and results of attributes are memory of the program, used during the call alone.

//c:call cuMemAllocHost_v2 (*ptr p, size bytes)
func memAllocHost(d cu.Driver, f *Frame) error {
	p, err := d.MemHostAlloc(cu.Context(f.Ctx), uintptr(f.In[0]), 0)
	f.Out[0] = uint64(uintptr(p))
	return err
}

//c:call cuMemRangeGetAttribute (ptr data, size bytes, u32 attribute, u64 dptr, size count)
func memRangeGetAttribute(d cu.Driver, f *Frame) error {
	if f.In[1]%4 != 0 {
		return cu.ErrorInvalidValue
	}
	return d.MemRangeGetAttribute(cu.Context(f.Ctx), list[int32](f.pointer(0), f.In[1]/4), cu.MemRangeAttribute(f.In[2]), cu.DevicePtr(f.In[3]), uintptr(f.In[4]))
}

//c:call cuMemPoolSetAccess (ptr pool, ptr access, size count)
func memPoolSetAccess(d cu.Driver, f *Frame) error {
	return d.MemPoolSetAccess(cu.MemPool(f.In[0]), list[cu.MemAccessDesc](f.pointer(1), f.In[2]))
}

//c:hand memPoolGetAttribute
func memPoolGetAttribute(d cu.Driver, f *Frame) error {
	v, err := d.MemPoolGetAttribute(cu.MemPool(f.In[0]), cu.MemPoolAttribute(f.In[1]))
	f.Out[0] = v
	return err
}

//c:hand memPoolSetAttribute
func memPoolSetAttribute(d cu.Driver, f *Frame) error {
	return d.MemPoolSetAttribute(cu.MemPool(f.In[0]), cu.MemPoolAttribute(f.In[1]), f.In[2])
}

//c:call cuMemPrefetchAsync_v2 (u64 dptr, size bytes, loc location, u32 flags, stream stream)
func memPrefetch(d cu.Driver, f *Frame) error {
	return d.MemPrefetchAsyncV2(cu.Context(f.Ctx), cu.DevicePtr(f.In[0]), uintptr(f.In[1]), f.location(2), uint32(f.In[3]), cu.Stream(f.In[4]))
}

//c:call cuMemAdvise_v2 (u64 dptr, size bytes, u32 advice, loc location)
func memAdvise(d cu.Driver, f *Frame) error {
	return d.MemAdviseV2(cu.Context(f.Ctx), cu.DevicePtr(f.In[0]), uintptr(f.In[1]), cu.MemAdvice(f.In[2]), f.location(3))
}

// location returns an argument that is a place, which C passes by value.
func (f *Frame) location(i int) cu.MemLocation {
	return cu.MemLocation{Type: uint32(f.In[i]), ID: int32(f.In[i] >> 32)}
}

// ranges returns the first arguments of the calls for lists of ranges.
func (f *Frame) ranges() (dptrs []cu.DevicePtr, sizes []uintptr) {
	return list[cu.DevicePtr](f.pointer(0), f.In[2]), list[uintptr](f.pointer(1), f.In[2])
}

// places returns the arguments that follow.
func (f *Frame) places() (locations []cu.MemLocation, firsts []uintptr) {
	return list[cu.MemLocation](f.pointer(3), f.In[5]), list[uintptr](f.pointer(4), f.In[5])
}

//c:call cuMemPrefetchBatchAsync (ptr dptrs, ptr sizes, size count, ptr locations, ptr firsts, size places, u64 flags, stream stream)
func memPrefetchBatch(d cu.Driver, f *Frame) error {
	dptrs, sizes := f.ranges()
	locations, firsts := f.places()
	return d.MemPrefetchBatchAsync(cu.Context(f.Ctx), dptrs, sizes, locations, firsts, f.In[6], cu.Stream(f.In[7]))
}

//c:call cuMemDiscardBatchAsync (ptr dptrs, ptr sizes, size count, u64 flags, stream stream)
func memDiscardBatch(d cu.Driver, f *Frame) error {
	dptrs, sizes := f.ranges()
	return d.MemDiscardBatchAsync(cu.Context(f.Ctx), dptrs, sizes, f.In[3], cu.Stream(f.In[4]))
}

//c:call cuMemDiscardAndPrefetchBatchAsync (ptr dptrs, ptr sizes, size count, ptr locations, ptr firsts, size places, u64 flags, stream stream)
func memDiscardAndPrefetchBatch(d cu.Driver, f *Frame) error {
	dptrs, sizes := f.ranges()
	locations, firsts := f.places()
	return d.MemDiscardAndPrefetchBatchAsync(cu.Context(f.Ctx), dptrs, sizes, locations, firsts, f.In[6], cu.Stream(f.In[7]))
}

//c:call cuMemSetAccess (u64 dptr, size bytes, ptr access, size count)
func memSetAccess(d cu.Driver, f *Frame) error {
	return d.MemSetAccess(cu.Context(f.Ctx), cu.DevicePtr(f.In[0]), uintptr(f.In[1]), list[cu.MemAccessDesc](f.pointer(2), f.In[3]))
}

//c:call cuMemGetAccess (*u64 flags, [8] location, u64 dptr)
func memGetAccess(d cu.Driver, f *Frame) error {
	flags, err := d.MemGetAccess(cu.Context(f.Ctx), (*cu.MemLocation)(f.pointer(0)), cu.DevicePtr(f.In[1]))
	f.Out[0] = uint64(flags)
	return err
}

//c:call cuMemGetAllocationPropertiesFromHandle (*[32] props, u64 handle)
func memGetProperties(d cu.Driver, f *Frame) error {
	props, err := d.MemGetAllocationPropertiesFromHandle(cu.Context(f.Ctx), cu.MemHandle(f.In[0]))
	*(*cu.MemAllocationProp)(unsafe.Pointer(&f.Out)) = props
	return err
}

//c:call cuMemExportToShareableHandle (*i32 fd, u64 handle, u32 type, u64 flags)
func memExport(d cu.Driver, f *Frame) error {
	fd, err := d.MemExportToShareableHandle(cu.Context(f.Ctx), cu.MemHandle(f.In[0]), cu.MemAllocationHandleType(f.In[1]), f.In[2])
	f.Out[0] = uint64(fd)
	return err
}

//c:call cuMemImportFromShareableHandle (*u64 handle, ptr fd, u32 type)
func memImport(d cu.Driver, f *Frame) error {
	handle, err := d.MemImportFromShareableHandle(cu.Context(f.Ctx), int32(f.In[0]), cu.MemAllocationHandleType(f.In[1]))
	f.Out[0] = uint64(handle)
	return err
}

// Orders in which the sources of a batch of copies may be read (CUmemcpySrcAccessOrder).
const (
	orderStream = 1
	orderAny    = 3
)

// copyAttributes is CUmemcpyAttributes.
type copyAttributes struct {
	order uint32
	_     [2]cu.MemLocation // hints where source and destination are
	_     uint32            // flags
}

// batchCopy makes the copies of both forms of cuMemcpyBatchAsync.
func batchCopy(d cu.Driver, f *Frame, stream cu.Stream) error {
	n := f.In[3]
	attrs := list[copyAttributes](f.pointer(4), f.In[6])
	if len(attrs) == 0 || isNull(f.pointer(5)) {
		return cu.ErrorInvalidValue
	}
	for _, a := range attrs {
		if a.order != orderStream && a.order != orderAny {
			return cu.ErrorNotSupported // sources that are read during the call
		}
	}
	return d.MemcpyBatchAsync(cu.Context(f.Ctx), list[cu.DevicePtr](f.pointer(0), n), list[cu.DevicePtr](f.pointer(1), n), list[uintptr](f.pointer(2), n), stream)
}

// noCopy is the number of no copy of a batch, for an error that belongs to none.
const noCopy = math.MaxUint64

// memcpyBatchOld names no copy that has failed: errors of the driver do not say which one it was.
//
//c:call cuMemcpyBatchAsync (ptr dsts, ptr srcs, ptr sizes, size count, ptr attrs, ptr firsts, size attributes, ptr failed, stream stream)
func memcpyBatchOld(d cu.Driver, f *Frame) error {
	if failed := list[uint64](f.pointer(7), 1); failed != nil {
		failed[0] = noCopy
	}
	return batchCopy(d, f, cu.Stream(f.In[8]))
}

//c:call cuMemcpyBatchAsync_v2 (ptr dsts, ptr srcs, ptr sizes, size count, ptr attrs, ptr firsts, size attributes, stream stream)
func memcpyBatch(d cu.Driver, f *Frame) error { return batchCopy(d, f, cu.Stream(f.In[7])) }

// unaligned copies a rectangle whatever its alignment, as Memcpy2D does here.
//
//c:call cuMemcpy2DUnaligned_v2 ([128] p)
func unaligned(d cu.Driver, f *Frame) error {
	return d.Memcpy2D(cu.Context(f.Ctx), f.rectangle(0))
}

// isRectangle reports whether rows do not overlap, and all bytes have an address.
func isRectangle(dst, pitch, width, height, elementBytes uint64) bool {
	high, row := bits.Mul64(width, elementBytes)
	if high != 0 || height > 1 && pitch < row {
		return false
	}
	high, last := bits.Mul64(pitch, height-1) // where the last row begins
	if high != 0 {
		return false
	}
	bytes, over := bits.Add64(last, row, 0)
	return over == 0 && dst <= math.MaxUint64-bytes
}

// rows makes a fill of each row of a rectangle, or one of all where no byte lies between them.
func rows(dst, pitch, width, height uint64, elementBytes uint64, fill func(dst cu.DevicePtr, n uintptr) error) error {
	switch {
	case width == 0 || height == 0:
		return fill(cu.DevicePtr(dst), 0)
	case !isRectangle(dst, pitch, width, height, elementBytes):
		return cu.ErrorInvalidValue
	case pitch == width*elementBytes || height == 1:
		return fill(cu.DevicePtr(dst), uintptr(width*height))
	}
	for range height {
		if err := fill(cu.DevicePtr(dst), uintptr(width)); err != nil {
			return err
		}
		dst += pitch
	}
	return nil
}

//c:call cuMemsetD2D8_v2 (u64 dst, size pitch, u8 value, size width, size height)
func memset2D8(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 1, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD8(cu.Context(f.Ctx), dst, uint8(f.In[2]), n)
	})
}

//c:call cuMemsetD2D16_v2 (u64 dst, size pitch, u16 value, size width, size height)
func memset2D16(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 2, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD16(cu.Context(f.Ctx), dst, uint16(f.In[2]), n)
	})
}

//c:call cuMemsetD2D32_v2 (u64 dst, size pitch, u32 value, size width, size height)
func memset2D32(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 4, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD32(cu.Context(f.Ctx), dst, uint32(f.In[2]), n)
	})
}

//c:call cuMemsetD2D8Async (u64 dst, size pitch, u8 value, size width, size height, stream stream)
func memset2D8Async(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 1, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD8Async(f.contextOf(d, f.In[5]), dst, uint8(f.In[2]), n, cu.Stream(f.In[5]))
	})
}

//c:call cuMemsetD2D16Async (u64 dst, size pitch, u16 value, size width, size height, stream stream)
func memset2D16Async(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 2, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD16Async(f.contextOf(d, f.In[5]), dst, uint16(f.In[2]), n, cu.Stream(f.In[5]))
	})
}

//c:call cuMemsetD2D32Async (u64 dst, size pitch, u32 value, size width, size height, stream stream)
func memset2D32Async(d cu.Driver, f *Frame) error {
	return rows(f.In[0], f.In[1], f.In[3], f.In[4], 4, func(dst cu.DevicePtr, n uintptr) error {
		return d.MemsetD32Async(f.contextOf(d, f.In[5]), dst, uint32(f.In[2]), n, cu.Stream(f.In[5]))
	})
}

// memOp is CUstreamBatchMemOpParams of a write or a wait.
type memOp struct {
	op    uint32
	_     uint32
	addr  cu.DevicePtr
	value uint64
	flags uint32
	_     uint32
	_     [2]uint64
}

// Operations of cuStreamBatchMemOp (CUstreamBatchMemOpType).
const (
	opWait32  = 1
	opWrite32 = 2
	opWait64  = 4
	opWrite64 = 5
)

//c:call cuStreamBatchMemOp_v2 (stream stream, u32 count, ptr ops, u32 flags)
func streamBatchMemOp(d cu.Driver, f *Frame) error {
	ctx, stream := f.contextOf(d, f.In[0]), cu.Stream(f.In[0])
	ops := slices.Clone(list[memOp](f.pointer(2), f.In[1]))
	if len(ops) == 0 && f.In[1] > 0 || f.In[3] != 0 {
		return cu.ErrorInvalidValue
	}
	for _, o := range ops {
		if o.op != opWait32 && o.op != opWrite32 && o.op != opWait64 && o.op != opWrite64 {
			return cu.ErrorNotSupported
		}
	}
	for _, o := range ops {
		var err error
		switch o.op {
		case opWait32:
			err = d.StreamWaitValue32(ctx, stream, o.addr, uint32(o.value), cu.StreamWaitValueFlags(o.flags))
		case opWait64:
			err = d.StreamWaitValue64(ctx, stream, o.addr, o.value, cu.StreamWaitValueFlags(o.flags))
		case opWrite32:
			err = d.StreamWriteValue32(ctx, stream, o.addr, uint32(o.value), cu.StreamWriteValueFlags(o.flags))
		case opWrite64:
			err = d.StreamWriteValue64(ctx, stream, o.addr, o.value, cu.StreamWriteValueFlags(o.flags))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setGraphMemory gets the value by the address of a copy.
//
//c:call cuDeviceSetGraphMemAttribute (i32 dev, u32 attribute, [8] value)
func setGraphMemory(d cu.Driver, f *Frame) error {
	return d.DeviceSetGraphMemAttribute(cu.Device(f.In[0]), cu.GraphMemAttribute(f.In[1]), *(*uint64)(f.pointer(2)))
}
