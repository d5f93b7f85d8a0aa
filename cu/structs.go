package cu

import "structs"

// Memcpy2D describes the copy of a rectangle (CUDA_MEMCPY2D).
type Memcpy2D struct {
	_ structs.HostLayout

	SrcXInBytes, SrcY uintptr
	SrcMemoryType     MemoryType
	SrcHost           HostPtr
	SrcDevice         DevicePtr
	SrcArray          uintptr
	SrcPitch          uintptr // bytes from row to row

	DstXInBytes, DstY uintptr
	DstMemoryType     MemoryType
	DstHost           HostPtr
	DstDevice         DevicePtr
	DstArray          uintptr
	DstPitch          uintptr

	WidthInBytes, Height uintptr
}

// Memcpy3D describes the copy of a box (CUDA_MEMCPY3D).
type Memcpy3D struct {
	_ structs.HostLayout

	SrcXInBytes, SrcY, SrcZ, SrcLOD uintptr
	SrcMemoryType                   MemoryType
	SrcHost                         HostPtr
	SrcDevice                       DevicePtr
	SrcArray                        uintptr
	_                               uintptr
	SrcPitch, SrcHeight             uintptr // bytes from row to row, rows from layer to layer

	DstXInBytes, DstY, DstZ, DstLOD uintptr
	DstMemoryType                   MemoryType
	DstHost                         HostPtr
	DstDevice                       DevicePtr
	DstArray                        uintptr
	_                               uintptr
	DstPitch, DstHeight             uintptr

	WidthInBytes, Height, Depth uintptr
}

// MemPoolProps describes the memory of a pool (CUmemPoolProps).
type MemPoolProps struct {
	_ structs.HostLayout

	AllocType    uint32 // MemAllocationTypePinned or MemAllocationTypeManaged
	HandleTypes  uint32 // 0 if not shared with other processes
	LocationType uint32 // MemLocationTypeDevice, for example
	LocationID   int32  // device ordinal, or NUMA node
	_            uintptr
	MaxSize      uintptr // bytes; 0 for all of the device's memory
	Usage        uint16
	_            [54]byte
}

// MemLocation is a place of memory (CUmemLocation).
type MemLocation struct {
	_ structs.HostLayout

	Type uint32 // MemLocationTypeDevice, for example
	ID   int32  // device ordinal, or NUMA node
}

// MemAccessDesc says how a place can use memory (CUmemAccessDesc).
type MemAccessDesc struct {
	_ structs.HostLayout

	Location MemLocation
	Flags    MemAccessFlags
}

// MemAllocationProp describes memory of MemCreate (CUmemAllocationProp).
type MemAllocationProp struct {
	_ structs.HostLayout

	Type                 uint32                  // MemAllocationTypePinned
	RequestedHandleTypes MemAllocationHandleType // by which it can be shared, or 0
	Location             MemLocation
	_                    uintptr // of Windows
	CompressionType      uint8   // 1 asks for compressible memory
	GPUDirectRDMACapable uint8   // 1 asks for memory that other devices of the bus can use
	Usage                uint16
	_                    [4]byte
}

const (
	MemAllocationTypePinned  = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	MemAllocationTypeManaged = 2 // CU_MEM_ALLOCATION_TYPE_MANAGED
	MemLocationTypeNone      = 0 // CU_MEM_LOCATION_TYPE_NONE: managed memory without a preferred place
	MemLocationTypeDevice    = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	MemLocationTypeHost      = 2 // CU_MEM_LOCATION_TYPE_HOST
	MemLocationTypeHostNUMA  = 3 // CU_MEM_LOCATION_TYPE_HOST_NUMA

	MemLocationTypeHostNUMACurrent = 4 // CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: the node of the calling thread
)
