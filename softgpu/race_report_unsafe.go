//go:build race || hosttsan

package softgpu

import (
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The file belongs to those that tell a race detector addresses. They are within live
// regions, and the sizes of accesses were checked.

// raceHow is the kind of an access. It selects the function that a report
// shows.
type raceHow uint8

const (
	kernelRead raceHow = iota
	kernelWrite
	kernelAcquire
	kernelRelease
	kernelLock   // a release of a word of mapped memory that updates may change
	kernelUpdate // an update of such a word
	copyRead
	copyWrite
	fillWrite
	allocateWrite
	freeWrite
	valueWrite
)

func howOf(kind cu.GraphNodeType, write bool) raceHow {
	switch {
	case kind == cu.GraphNodeTypeMemset:
		return fillWrite
	case kind == cu.GraphNodeTypeMemAlloc:
		return allocateWrite
	case kind == cu.GraphNodeTypeMemFree:
		return freeWrite
	case write:
		return copyWrite
	}
	return copyRead
}

// replay reports accesses to the detector. If the detector finds a race it also
// prints the operation's name.
func (r *raceOp) replay(log []raceAccess) {
	r.clock.on(func() {
		before := raceErrors()
		replay(log)
		if raceErrors() != before {
			r.printName()
		}
	})
}

// replay reads a log that another goroutine wrote.
//
//go:norace
func replay(log []raceAccess) {
	for i := range log {
		switch a := &log[i]; a.how {
		case kernelRead:
			kernelReads(a.p, a.n)
		case kernelWrite:
			kernelWrites(a.p, a.n)
		case kernelAcquire:
			kernelWaitsFor(a.p, a.n)
		case kernelRelease:
			kernelSignals(a.p, a.n)
		case kernelLock:
			lockedSignal(a.p, a.n, kernelSignals)
		case kernelUpdate:
			kernelUpdates(a.p, a.n)
		case copyRead:
			copyReads(a.p, a.n)
		case copyWrite:
			copyWrites(a.p, a.n)
		case fillWrite:
			fillWrites(a.p, a.n)
		case allocateWrite:
			allocates(a.p, a.n)
		case freeWrite:
			frees(a.p, a.n)
		case valueWrite:
			lockedSignal(a.p, a.n, streamSignals)
		}
	}
}

// kernelUpdates reports an atomic operation that is a read and a later write to the host: what
// the host writes between the two is lost. So it is a plain read, too.
//
//go:noinline
func kernelUpdates(p, n uintptr) {
	lockedSignal(p, n, func(p, n uintptr) {
		read(p, n)
		kernelSignals(p, n)
	})
}

// updateLocks order the operations of devices on one word of mapped memory, because updates of
// kernels are atomic to each other.
var updateLocks [64]sync.Mutex

func lockedSignal(p, n uintptr, report func(p, n uintptr)) {
	mu := &updateLocks[p/8%uintptr(len(updateLocks))]
	mu.Lock()
	defer mu.Unlock()
	report(p, n)
}

// streamSignals reports the write of a value at a point of a stream, which orders what
// was before.
//
//go:noinline
func streamSignals(p, n uintptr) { signal(p, n) }
