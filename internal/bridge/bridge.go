package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/profile"
)

// Memory describes a buffer, a range of one, or a pageable slice, as one GPU can use it.
type Memory struct {
	Len         int // elements
	ElementSize int // bytes
	// Start is the address of the first byte. Only addresses in the same Space can be
	// compared. Space is a device, or HostSpace.
	Start uint64
	Space cu.Device
	// Bytes is the memory, if it is pageable or page-locked, otherwise nil. Page-locked
	// memory must not be touched while it is in flight.
	Bytes []byte
	// Pageable reports whether only the CPU can copy the memory.
	Pageable bool
	// View is the memory as a *ferry.Device[byte], for every kind of memory but pageable,
	// where it is nil. Its ranges can be copied, and passed to kernels.
	View any
	// OnDevice reports whether the memory is on the GPU's device.
	OnDevice bool
	// Mapped reports whether the memory is page-locked and has one range of addresses in
	// kernels.
	Mapped bool
}

// Param is a ferrybind.Param.
type Param struct {
	Name  string
	Type  string
	Size  int
	Reads bool
}

// Kind is where memory is, and which call made it.
type Kind uint8

// The kinds of memory.
const (
	PageableKind Kind = iota
	DeviceKind
	HostKind // page-locked
	ManagedKind
)

// Exported is memory that another library holds.
type Exported struct {
	Kind     Kind
	Device   cu.Device // of device memory
	Address  uint64    // for the host, and of device memory for kernels
	ReadOnly bool      // nobody may write it
	// Release ends the hold. It neither waits nor calls the driver: another goroutine frees a
	// buffer that was closed meanwhile. It must be called once.
	Release func()
}

// PinPrediction is the result of PredictPin.
type PinPrediction struct {
	Time      time.Duration // approximate duration; 0 if the allocation cannot succeed
	Node      int           // NUMA node of the memory, -1 if it is not known
	HugePages bool          // the memory will be on huge pages
	Err       error         // a *ferry.PinError if the allocation cannot succeed, otherwise nil
}

// Work is work of a library in a stream, for Queue. A caller uses it again for the next call, so
// that Queue allocates nothing.
type Work struct {
	Stream any      // a *ferry.Stream
	Memory [2]Piece // what the work uses; a Piece without Memory is none
	Handle cu.Stream
	Op     inflight.Op // of Queue alone
}

// Piece is memory that a Work uses.
type Piece struct {
	Memory  any // a ferry.Memory of any element type
	Written bool
	Address cu.DevicePtr // set by Queue: where work of the stream finds it
}

// HostSpace is the Space of host addresses, including the addresses of managed memory.
const HostSpace cu.Device = -1

// ErrNotMemory is the error of Describe for values that are not memory of package ferry.
var ErrNotMemory = errors.New("not memory of package ferry")

var (
	// Describe describes memory for operations of a *ferry.GPU. A pageable slice that lies
	// in a buffer is described as that part of the buffer. Describe returns an error for
	// memory that the GPU cannot use and, if written is set, for read-only memory.
	Describe func(gpu, memory any, written bool) (Memory, error)
	// Export waits until nothing is in flight on memory, or nothing that writes it if only reads is
	// set. Then it holds the memory until Release: its buffer may be closed meanwhile, and is freed
	// after that.
	Export func(memory any, onlyReads bool) (Exported, error)
	// SetReadOnly lets operations that write a fresh buffer fail. Memory that is pageable is left as
	// it is.
	SetReadOnly func(memory any)
	// WaitInFlight waits for the operations in flight on a Memory.View that conflict
	// with reading it or, with written set, with writing it.
	WaitInFlight func(ctx context.Context, view any, written bool) error
	// Label returns the short name of a *ferry.GPU: "cuda:0". It returns an error for a GPU
	// that is nil or closed. what is the operation that the error names.
	Label func(gpu any, what string) (string, error)
	// Profile returns the profile of a *ferry.GPU's machine, or nil if there is none.
	Profile func(gpu any) *profile.Profile
	// Bind finds a kernel of a *ferry.Module whose source is known: see ferrybind.Kernel. The
	// result is a *ferry.Kernel.
	Bind func(module any, name string, params []Param) (any, error)
	// PredictPin predicts how long ferry.AllocHost of a number of bytes will take on a
	// *ferry.GPU, and whether it can succeed. It uses the free memory and the limits of the
	// machine at this moment. The first call page-locks up to 256 MiB as a trial, which takes
	// some 30 ms. options is a *ferry.HostOptions or nil.
	PredictPin func(gpu any, bytes int, options any) (PinPrediction, error)
	// Queue queues work of a library that Ferry knows. It sets Handle and the addresses of all works,
	// and calls f, once, on a thread in which the context of the first stream's GPU is current. f
	// hands the work to the library and does not call Ferry. When Queue returns, the memory is in
	// flight, also after an error of f. Pageable memory is refused, and so is a stream of another
	// GPU than gpus has in its place.
	Queue func(what string, gpus []any, works []*Work, f func() error) error
	// KeepGPU keeps the context of a *ferry.GPU until release is called, also after Close of the GPU. what
	// is the operation that an error names.
	KeepGPU func(gpu any, what string) (release func(), err error)
	// CloseOrLeave closes what a call makes and does not return, and returns the error. After an error
	// Close of the *ferry.GPU calls close again.
	CloseOrLeave func(gpu any, close func() error) error
	// AllocHost allocates page-locked memory that counts as that of pipelines. The result is a
	// *ferry.Host[byte].
	AllocHost func(ctx context.Context, gpu any, n int) (any, error)
	// AllocPooled is Host.AllocContext of a *ferry.PinnedPool that does not wait at a limit: a pipeline has
	// buffers, and would wait for itself. The result is a *ferry.Host[byte].
	AllocPooled func(ctx context.Context, pool any, n int) (any, error)
	// HostRoom returns how many bytes the limit of a *ferry.GPU lets page-lock now. limited is false
	// without a limit.
	HostRoom func(gpu any) (bytes int, limited bool)
	// OwnsPool reports whether a *ferry.PinnedPool belongs to a *ferry.GPU.
	OwnsPool func(gpu, pool any) bool
)
