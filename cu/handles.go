package cu

// Device is the number of a device, from 0 to DeviceGetCount()-1.
type Device int32

// CPUDevice stands for the host where a call takes a device or the host.
const CPUDevice Device = -1

// DevicePtr is an address as the device sees it. Under unified addressing the
// device address of page-locked and managed memory is the host's.
type DevicePtr uint64

// Handles. The zero value of each is "none"; for [Stream] that is the legacy
// default stream.
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
)

// The two default streams by name (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD).
// The per-thread stream belongs to an operating-system thread: use it only
// between runtime.LockOSThread and UnlockOSThread.
const (
	StreamLegacy    Stream = 1
	StreamPerThread Stream = 2
)

// Dim3 is the extent of a grid in blocks or of a block in threads. Drivers take
// it as it is: a zero in any place is CUDA_ERROR_INVALID_VALUE.
type Dim3 struct{ X, Y, Z uint32 }

// Count is the number of blocks or threads that d spans.
func (d Dim3) Count() uint64 { return uint64(d.X) * uint64(d.Y) * uint64(d.Z) }
