package softgpu

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// kind is what sort of memory a region is.
type kind uint8

const (
	kindDevice     kind = iota // MemAlloc
	kindPool                   // MemAllocAsync
	kindModule                 // a module's variable
	kindHost                   // MemHostAlloc
	kindRegistered             // MemHostRegister
	kindManaged                // MemAllocManaged and managed variables
)

func (k kind) String() string {
	return [...]string{"device allocation", "stream-ordered device allocation", "module variable",
		"page-locked host allocation", "registered host range", "managed allocation"}[k]
}

// onHost says whether the CPU can read it.
func (k kind) onHost() bool { return k >= kindHost }

// Counters of a launch's traffic, by where the bytes are.
const (
	countDevice = iota
	countHost
	countManaged
	countPeer
	numCounters
)

// region is an allocation, a registration or a variable.
type region struct {
	kind   kind
	base   uint64 // the address it is known by: the host's for host memory
	device uint64 // the address in kernels, 0 for none
	size   uint64
	data   []byte
	host   cu.HostPtr // nil for device memory

	ctx     *contextState
	dev     *device
	id      uint64
	name    string // of a variable
	mod     *module
	alloc   cu.MemHostAllocFlags
	reg     cu.MemHostRegisterFlags
	shared  bool // known to every context
	back    *backing
	charge  uint64 // of device memory
	chunk   *chunk
	pool    *pool
	graph   *graph   // that allocates it when launched
	release *release // a free of it that is queued or done; nil while it is had
	managed *managedState

	// state moves forward only. Stream-ordered memory is pending from the call
	// until the stream gets there.
	state  atomic.Int32
	parked atomic.Bool   // in stream order, and not had again
	copied atomic.Uint64 // bytes of device memory copied in since a kernel last used it
	dirty  dirty         // of page-locked memory; mu guards it

	local, remote simt.Segment // as its own device and as a peer sees it
}

const (
	statePending int32 = iota
	stateLive
	stateFreed
)

// touches is what the race detector is told of allocating and freeing r in stream
// order: all of it is written.
func (r *region) touches(note func(b []byte, write bool)) {
	if len(r.data) <= raceVisible {
		note(r.data, true)
	}
}

func (r *region) live() bool { return r.state.Load() == stateLive }

// gone says whether r was freed in stream order.
func (r *region) gone() bool { return r.parked.Load() }

func (r *region) end() uint64 { return r.base + r.size }

// segments fills in what kernels see.
func (r *region) segments(readOnly bool) {
	near, far := countDevice, countPeer
	switch {
	case r.kind == kindManaged:
		near, far = countManaged, countManaged
	case r.kind.onHost():
		near, far = countHost, countHost
	}
	r.local = simt.Segment{Base: r.device, Data: r.data, ReadOnly: readOnly, Counter: near}
	r.remote = simt.Segment{Base: r.device, Data: r.data, ReadOnly: readOnly, Counter: far}
}
