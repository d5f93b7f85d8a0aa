package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// pointerAttributes lists the attributes that PointerGetAttributes asks for
// (CUpointer_attribute), in the order of pointerValues.
var pointerAttributes = [...]uint32{
	1,  // CU_POINTER_ATTRIBUTE_CONTEXT
	2,  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
	3,  // CU_POINTER_ATTRIBUTE_DEVICE_POINTER
	4,  // CU_POINTER_ATTRIBUTE_HOST_POINTER
	7,  // CU_POINTER_ATTRIBUTE_BUFFER_ID
	8,  // CU_POINTER_ATTRIBUTE_IS_MANAGED
	9,  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	11, // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
	12, // CU_POINTER_ATTRIBUTE_RANGE_SIZE
	13, // CU_POINTER_ATTRIBUTE_MAPPED
}

// pointerValues has 8 bytes for each attribute, zero before the call. The manual
// leaves the width of some attributes open; a narrower little-endian number fills the
// first bytes.
type pointerValues struct {
	context       cu.Context
	memoryType    uint64
	devicePointer cu.DevicePtr
	hostPointer   cu.HostPtr
	bufferID      uint64
	isManaged     uint64
	device        int64
	rangeStart    cu.DevicePtr
	rangeSize     uintptr
	mapped        uint64
}

// pointerQuery is the memory of one call.
type pointerQuery struct {
	data   [len(pointerAttributes)]unsafe.Pointer
	values pointerValues
}

// PointerGetAttributes calls cuPointerGetAttributes once for all attributes; see
// [cu.Memory].
func (d *Driver) PointerGetAttributes(ctx cu.Context, ptr cu.DevicePtr) (cu.PointerAttributes, error) {
	q := new(pointerQuery)
	for i := range q.data {
		q.data[i] = unsafe.Add(unsafe.Pointer(&q.values), i*8)
	}
	err := d.bound6(procPointerGetAttributes, ctx, uintptr(len(pointerAttributes)),
		uintptr(unsafe.Pointer(&pointerAttributes[0])), uintptr(unsafe.Pointer(&q.data[0])), uintptr(ptr), 0, 0)
	v := &q.values
	if err != nil || uint32(v.memoryType) == 0 {
		return cu.PointerAttributes{Device: cu.InvalidDevice}, err
	}
	return cu.PointerAttributes{
		Context:       v.context,
		MemoryType:    cu.MemoryType(v.memoryType),
		DevicePointer: v.devicePointer,
		HostPointer:   v.hostPointer,
		Device:        cu.Device(v.device),
		IsManaged:     v.isManaged&0xff != 0,
		RangeStart:    v.rangeStart,
		RangeSize:     v.rangeSize,
		Mapped:        v.mapped&0xff != 0,
		BufferID:      v.bufferID,
	}, nil
}

// MemRangeGetAttribute calls cuMemRangeGetAttribute; see [cu.ManagedMemory].
func (d *Driver) MemRangeGetAttribute(ctx cu.Context, data []int32, attribute cu.MemRangeAttribute, dptr cu.DevicePtr, bytes uintptr) error {
	if len(data) == 0 {
		return cu.ErrorInvalidValue
	}
	return d.bound6(procMemRangeGetAttribute, ctx, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data))*4,
		uintptr(attribute), uintptr(dptr), bytes, 0)
}

// MemPoolGetAttribute calls cuMemPoolGetAttribute; see [cu.MemPools]. In C, settings
// that are 0 or 1 have 32 bits, and all others 64.
func (d *Driver) MemPoolGetAttribute(pool cu.MemPool, attr cu.MemPoolAttribute) (value uint64, err error) {
	err = d.call3(procMemPoolGetAttribute, uintptr(pool), uintptr(attr), uintptr(unsafe.Pointer(&value)))
	return value, err
}

// MemPoolSetAttribute calls cuMemPoolSetAttribute; see [cu.MemPools].
func (d *Driver) MemPoolSetAttribute(pool cu.MemPool, attr cu.MemPoolAttribute, value uint64) error {
	return d.call3(procMemPoolSetAttribute, uintptr(pool), uintptr(attr), uintptr(unsafe.Pointer(&value)))
}

// MemPoolSetAccess calls cuMemPoolSetAccess; see [cu.MemPools].
func (d *Driver) MemPoolSetAccess(pool cu.MemPool, access []cu.MemAccessDesc) error {
	return d.call3(procMemPoolSetAccess, uintptr(pool), uintptr(unsafe.Pointer(unsafe.SliceData(access))), uintptr(len(access)))
}

// DeviceSetGraphMemAttribute calls cuDeviceSetGraphMemAttribute; see [cu.GraphMemory].
func (d *Driver) DeviceSetGraphMemAttribute(dev cu.Device, attr cu.GraphMemAttribute, value uint64) error {
	return d.call3(procDeviceSetGraphMemAttribute, uintptr(dev), uintptr(attr), uintptr(unsafe.Pointer(&value)))
}
