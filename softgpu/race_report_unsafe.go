//go:build race

package softgpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The race detector gets addresses within live regions, and the sizes of accesses
// that were checked.

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
	before := runtime.RaceErrors()
	replay(log)
	if runtime.RaceErrors() != before {
		r.printName()
	}
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

// raceGrain is the size of one report to the detector. The detector drops an
// access if it has already reported a race on its first eight bytes, whatever
// its length. It stops at the first race that it finds.
const raceGrain = 128

//go:noinline
//go:nocheckptr
func read(p, n uintptr) {
	for at := uintptr(0); at < n; at += raceGrain {
		runtime.RaceReadRange(unsafe.Add(nil, p+at), int(min(n-at, raceGrain)))
	}
}

//go:noinline
//go:nocheckptr
func write(p, n uintptr) {
	for at := uintptr(0); at < n; at += raceGrain {
		runtime.RaceWriteRange(unsafe.Add(nil, p+at), int(min(n-at, raceGrain)))
	}
}

// The functions whose names appear in reports.

//go:noinline
func kernelReads(p, n uintptr) { read(p, n) }

//go:noinline
func kernelWrites(p, n uintptr) { write(p, n) }

//go:noinline
func copyReads(p, n uintptr) { read(p, n) }

//go:noinline
func copyWrites(p, n uintptr) { write(p, n) }

//go:noinline
func fillWrites(p, n uintptr) { write(p, n) }

//go:noinline
func allocates(p, n uintptr) { write(p, n) }

//go:noinline
func frees(p, n uintptr) { write(p, n) }

//go:noinline
func hostFrees(p, n uintptr) { write(p, n) }

// kernelWaitsFor reports a read that orders what follows.
//
//go:noinline
func kernelWaitsFor(p, n uintptr) { wait(p, n) }

// kernelSignals reports a write that orders what was before.
//
//go:noinline
func kernelSignals(p, n uintptr) { signal(p, n) }

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

// wait reports an atomic read.
//
//go:noinline
//go:nocheckptr
func wait(p, n uintptr) {
	switch {
	case n == 4 && p%4 == 0:
		atomic.LoadUint32((*uint32)(unsafe.Add(nil, p)))
	case n%8 == 0 && p%8 == 0:
		for i := uintptr(0); i < n; i += 8 {
			atomic.LoadUint64((*uint64)(unsafe.Add(nil, p+i)))
		}
	default:
		runtime.RaceAcquire(unsafe.Add(nil, p))
	}
}

// signal reports an atomic write, by one that changes nothing.
//
//go:noinline
//go:nocheckptr
func signal(p, n uintptr) {
	switch {
	case n == 4 && p%4 == 0:
		atomic.AddUint32((*uint32)(unsafe.Add(nil, p)), 0)
	case n%8 == 0 && p%8 == 0:
		for i := uintptr(0); i < n; i += 8 {
			atomic.AddUint64((*uint64)(unsafe.Add(nil, p+i)), 0)
		}
	default:
		runtime.RaceReleaseMerge(unsafe.Add(nil, p))
	}
}

// moveBytes copies the bytes that fit in both slices, hidden from the race
// detector. The operation reports the access elsewhere.
func moveBytes(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n > 0 {
		moveHidden(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), uintptr(n))
	}
	return n
}

//go:norace
func moveHidden(dst, src unsafe.Pointer, n uintptr) {
	const block = 256
	i := uintptr(0)
	for ; i+block <= n; i += block {
		*(*[block]byte)(unsafe.Add(dst, i)) = *(*[block]byte)(unsafe.Add(src, i))
	}
	for ; i < n; i++ {
		*(*byte)(unsafe.Add(dst, i)) = *(*byte)(unsafe.Add(src, i))
	}
}

// loadWord reads a word of 4 or 8 bytes, in one load. The word is aligned. The load orders nothing
// for the race detector: raceWaited reports the one that ends a wait.
func loadWord(word []byte) (value uint64) {
	p := unsafe.Pointer(unsafe.SliceData(word))
	hideFromDetector(func() {
		if len(word) == 4 {
			value = uint64(atomic.LoadUint32((*uint32)(p)))
			return
		}
		value = atomic.LoadUint64((*uint64)(p))
	})
	return value
}

// storeWord writes the value to a word of 4 or 8 bytes, hidden from the race detector:
// raceSignal has reported it. The word is aligned, so this is one store.
//
//go:norace
func storeWord(word []byte, value uint64) {
	p := unsafe.Pointer(unsafe.SliceData(word))
	if len(word) == 4 {
		*(*uint32)(p) = uint32(value)
		return
	}
	*(*uint64)(p) = value
}
