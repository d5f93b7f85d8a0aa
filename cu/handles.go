package cu

// Device is the ordinal of a device, from 0 to DeviceGetCount()-1.
type Device int32

// CPUDevice is the host, where a call takes a device or the host.
const CPUDevice Device = -1

// DevicePtr is an address that the device uses. Under unified addressing, page-locked
// and managed memory has the same address on host and device.
type DevicePtr uint64

// Handles. The zero value of each means none; for [Stream] it is the legacy default
// stream.
type (
	Context   uintptr // CUcontext
	Stream    uintptr // CUstream
	Event     uintptr // CUevent
	Module    uintptr // CUmodule
	Function  uintptr // CUfunction
	MemPool   uintptr // CUmemoryPool
	Graph     uintptr // CUgraph
	GraphExec uintptr // CUgraphExec
	GraphNode uintptr // CUgraphNode
	LinkState uintptr // CUlinkState
	MemHandle uint64  // CUmemGenericAllocationHandle: memory of MemCreate
)

// Handles of the two default streams (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). The
// per-thread stream belongs to an operating-system thread: use it only between
// runtime.LockOSThread and UnlockOSThread.
const (
	StreamLegacy    Stream = 1
	StreamPerThread Stream = 2
)

// Dim3 is the size of a grid in blocks, or of a block in threads. A zero in any
// dimension is CUDA_ERROR_INVALID_VALUE.
type Dim3 struct{ X, Y, Z uint32 }

// Count returns the number of blocks or threads.
func (d Dim3) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }

// IpcMemHandle stands for memory in another process (CUipcMemHandle). See [Sharing].
type IpcMemHandle [64]byte

// IpcEventHandle stands for an event in another process (CUipcEventHandle). See [Sharing].
type IpcEventHandle [64]byte

// MemPoolPtrExportData describes an allocation of a pool that processes share
// (CUmemPoolPtrExportData).
type MemPoolPtrExportData [64]byte
