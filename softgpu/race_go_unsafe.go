//go:build race && !hosttsan

package softgpu

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Unsafe: The race detector gets addresses within live regions, and the sizes of accesses
// that were checked.

// This file has what is special to Go's race detector.

// reserveHost reserves memory of the Go heap, because the race detector sees no
// other.
func reserveHost(n int) (*backing, error) { return goHeap(n) }

// reserveDevice reserves memory of a device.
func reserveDevice(n int) (*backing, error) {
	if n <= raceVisible {
		return goHeap(n)
	}
	return reserve(n)
}

// A raceClock is the place of an operation in the model of the detector: here that of its goroutine.
type raceClock struct {
	end uint64 // its address identifies the end of the operation
}

func newRaceClock(string) *raceClock { return new(raceClock) }

// on runs f with the clock.
func (c *raceClock) on(f func()) { f() }

// finish ends the operation. What follows it comes after it.
func (c *raceClock) finish() { runtime.RaceRelease(unsafe.Pointer(&c.end)) }
func (c *raceClock) follow() { runtime.RaceAcquire(unsafe.Pointer(&c.end)) }

// close says that no report need name the operation any more.
func (c *raceClock) close() {}

func raceErrors() int { return runtime.RaceErrors() }

// hideFromDetector runs f, which orders goroutines, without the race detector
// seeing it.
func hideFromDetector(f func()) {
	runtime.RaceDisable()
	f()
	runtime.RaceEnable()
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
