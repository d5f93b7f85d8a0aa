package entry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Results of attributes are memory of the program, written during the call alone.

// pointerAttribute says how an attribute of an address is written: see CUpointer_attribute.
type pointerAttribute struct {
	bytes int
	value func(a *address) uint64
}

// address is an address of a program, and what the driver says of it.
type address struct {
	cu.PointerAttributes
	d   cu.Driver
	ctx cu.Context
	at  cu.DevicePtr
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func none(*address) uint64 { return 0 }

// Attributes that cuPointerGetAttribute and cuPointerGetAttributes treat differently.
const (
	hostPointer = 4 // CU_POINTER_ATTRIBUTE_HOST_POINTER
	peerTokens  = 5 // CU_POINTER_ATTRIBUTE_P2P_TOKENS, which no list may have
)

// pointerAttributes has the attributes by their numbers, and as many bytes as an H200 with driver
// 580.159.04 writes: flags are ints. The software GPU has none of what is
// always 0: tokens of peer access, copies that always wait, memory for the old form of IPC, for other
// devices of the bus, or for decompression. It does not say which pool memory is of (17).
var pointerAttributes = map[uint32]pointerAttribute{
	1:  {8, func(a *address) uint64 { return uint64(a.Context) }},
	2:  {4, func(a *address) uint64 { return uint64(a.MemoryType) }},
	3:  {8, func(a *address) uint64 { return uint64(a.DevicePointer) }},
	4:  {8, func(a *address) uint64 { return uint64(uintptr(a.HostPointer)) }},
	5:  {12, none},
	6:  {4, none},
	7:  {8, func(a *address) uint64 { return a.BufferID }},
	8:  {4, func(a *address) uint64 { return truth(a.IsManaged) }},
	9:  {4, func(a *address) uint64 { return uint64(a.Device) }},
	10: {4, none},
	11: {8, func(a *address) uint64 { return uint64(a.RangeStart) }},
	12: {8, func(a *address) uint64 { return uint64(a.RangeSize) }},
	13: {4, func(a *address) uint64 { return truth(a.Mapped) }},
	14: {8, (*address).handleTypes},
	15: {4, none},
	16: {4, (*address).access},
	17: {8, none},
	18: {8, (*address).mappingBytes},
	19: {8, (*address).mappingStart},
	20: {8, func(a *address) uint64 { return a.BufferID }},
	21: {4, none},
}

// handleTypes returns by which handles memory can be shared that is mapped at the address.
func (a *address) handleTypes() uint64 {
	handle, err := a.d.MemRetainAllocationHandle(a.ctx, a.at)
	if err != nil {
		return 0 // memory of another kind, which has no handles
	}
	defer func() { _ = a.d.MemRelease(a.ctx, handle) }() // the mapping keeps the memory
	props, err := a.d.MemGetAllocationPropertiesFromHandle(a.ctx, handle)
	if err != nil {
		return 0
	}
	return uint64(props.RequestedHandleTypes)
}

// readAndWrite is CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE.
const readAndWrite = 3

// access returns what the current device may do with the memory. Of memory of another device it says
// that copies must go through the host, which they always may.
func (a *address) access() uint64 {
	dev, err := a.d.CtxGetDevice(a.ctx)
	if err == nil && a.Mapped && (a.MemoryType == cu.MemoryTypeHost || a.IsManaged || a.Device == dev) {
		return readAndWrite
	}
	return 0
}

// mapping returns the mapping that contains the address.
func (a *address) mapping() (start cu.DevicePtr, bytes uintptr) {
	start, bytes, err := a.d.MemGetAddressRange(a.ctx, a.DevicePointer)
	if err != nil {
		return 0, 0
	}
	return start, bytes
}

func (a *address) mappingStart() uint64 {
	start, _ := a.mapping()
	return uint64(start)
}

func (a *address) mappingBytes() uint64 {
	_, bytes := a.mapping()
	return uint64(bytes)
}

// write writes the attribute to memory of C.
func (p pointerAttribute) write(to unsafe.Pointer, a *address) {
	v := [2]uint64{p.value(a)}
	copy(unsafe.Slice((*byte)(to), p.bytes), unsafe.Slice((*byte)(unsafe.Pointer(&v)), p.bytes))
}

// addressOf asks the driver about an address.
func addressOf(d cu.Driver, f *Frame, at uint64) (*address, error) {
	a := &address{d: d, ctx: cu.Context(f.Ctx), at: cu.DevicePtr(at)}
	var err error
	a.PointerAttributes, err = d.PointerGetAttributes(a.ctx, a.at)
	return a, err
}

//c:call cuPointerGetAttribute (ptr data, u32 attribute, u64 ptr)
func pointerGetAttribute(d cu.Driver, f *Frame) error {
	a, err := addressOf(d, f, f.In[2])
	if err != nil {
		return err
	}
	p, ok := pointerAttributes[uint32(f.In[1])]
	if a.MemoryType == 0 || !ok || isNull(f.pointer(0)) {
		return cu.ErrorInvalidValue // MemoryType 0: no memory that the driver knows
	}
	p.write(f.pointer(0), a)
	if f.In[1] == hostPointer && a.HostPointer == nil {
		return cu.ErrorInvalidValue // the host has no address for it, which is no error in a list
	}
	return nil
}

//c:call cuPointerGetAttributes (u32 count, ptr attributes, ptr data, u64 ptr)
func pointerGetAttributes(d cu.Driver, f *Frame) error {
	names, data := list[uint32](f.pointer(1), f.In[0]), list[uint64](f.pointer(2), f.In[0])
	if len(names) == 0 || len(data) == 0 {
		return cu.ErrorInvalidValue
	}
	for i, name := range names { // before anything is written
		if _, ok := pointerAttributes[name]; !ok || name == peerTokens || data[i] < page {
			return cu.ErrorInvalidValue
		}
	}
	a, err := addressOf(d, f, f.In[3])
	if err != nil {
		return err
	}
	for i, name := range names {
		pointerAttributes[name].write(pointerAt(&data[i]), a)
	}
	return nil
}
