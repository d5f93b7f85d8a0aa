package bridge

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// Memory describes a buffer, a range of one, or a pageable slice, as one GPU can use it.
type Memory struct {
	Len         int // elements
	ElementSize int // bytes
	// Start is the address of the first byte. It can be compared with other addresses
	// of the same Space: a device, or HostSpace.
	Start uint64
	Space cu.Device
	// Bytes is pageable or page-locked memory. Of page-locked memory that is in flight,
	// nothing may be touched. It is nil for other memory.
	Bytes []byte
	// Pageable reports that only the CPU can copy the memory.
	Pageable bool
	// View is a *ferry.Device[byte] of all bytes, in whichever memory they are. Its
	// ranges can be copied and given to kernels. It is nil for pageable memory.
	View any
	// OnDevice reports memory of the GPU's device.
	OnDevice bool
	// Mapped reports page-locked memory that has one run of addresses in kernels.
	Mapped bool
}

// HostSpace is the Space of host addresses. Managed memory has them, too.
const HostSpace cu.Device = -1

// ErrNotMemory is the error of Describe for values that are not memory of package ferry.
var ErrNotMemory = errors.New("not memory of package ferry")

var (
	// Describe describes memory to a *ferry.GPU. A pageable slice that lies in a buffer
	// is described as that part of the buffer. Memory that operations of the GPU cannot
	// use is refused; with written set, so is memory that may only be read.
	Describe func(gpu, memory any, written bool) (Memory, error)
	// WaitInFlight waits for the operations in flight on a Memory.View that conflict
	// with reading it or, with written set, with writing it.
	WaitInFlight func(ctx context.Context, view any, written bool) error
	// Label is the short name of a *ferry.GPU: "cuda:0". A GPU that is nil or closed is
	// an error, which begins with what the caller does.
	Label func(gpu any, what string) (string, error)
	// Profile is the profile of a *ferry.GPU's machine, nil if there is none.
	Profile func(gpu any) *profile.Profile
	// OwnsPool reports whether a *ferry.PinnedPool belongs to a *ferry.GPU.
	OwnsPool func(gpu, pool any) bool
)
