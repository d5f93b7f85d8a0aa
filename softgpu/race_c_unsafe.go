//go:build hosttsan

package softgpu

import (
	"runtime"

	"github.com/ferrygpu/ferry/internal/hosttsan"
)

// Unsafe: Nothing is converted: the file belongs to those that tell a race detector addresses. They are
// within live regions, and the sizes of accesses were checked.

// This file has what is special to the race detector of a C program. It does not see what Go does.

// reserveHost reserves memory of which the detector knows no access.
func reserveHost(n int) (*backing, error) {
	b, err := reserve(n)
	if err == nil && n > 0 {
		hosttsan.Get().Fresh(uintptr(pointerTo(b.data)), uintptr(n))
	}
	return b, err
}

func reserveDevice(n int) (*backing, error) { return reserveHost(n) }

// A raceClock is the place of an operation in the model of the detector.
type raceClock struct{ c hosttsan.Clock }

func newRaceClock(name string) *raceClock {
	c := &raceClock{hosttsan.Get().NewClock(name)}
	runtime.AddCleanup(c, hosttsan.Get().Forget, c.c)
	return c
}

// on runs f with the clock.
func (c *raceClock) on(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := hosttsan.Get().Enter(c.c)
	defer hosttsan.Get().Leave(before)
	f()
}

// finish ends the operation. What follows it comes after it.
func (c *raceClock) finish() { hosttsan.Get().Finish(c.c) }
func (c *raceClock) follow() { hosttsan.Get().Follow(c.c) }

// close says that no report need name the operation any more.
func (c *raceClock) close() { hosttsan.Get().Retire(c.c) }

func raceErrors() int { return 0 } // the clock has the name of the operation

func hideFromDetector(f func()) { f() }

func kernelReads(p, n uintptr)  { hosttsan.Get().Access(hosttsan.KernelReads, p, n) }
func kernelWrites(p, n uintptr) { hosttsan.Get().Access(hosttsan.KernelWrites, p, n) }
func copyReads(p, n uintptr)    { hosttsan.Get().Access(hosttsan.CopyReads, p, n) }
func copyWrites(p, n uintptr)   { hosttsan.Get().Access(hosttsan.CopyWrites, p, n) }
func fillWrites(p, n uintptr)   { hosttsan.Get().Access(hosttsan.FillWrites, p, n) }
func allocates(p, n uintptr)    { hosttsan.Get().Access(hosttsan.Allocates, p, n) }
func frees(p, n uintptr)        { hosttsan.Get().Access(hosttsan.Frees, p, n) }
func hostFrees(p, n uintptr)    { hosttsan.Get().Access(hosttsan.HostFrees, p, n) }
func read(p, n uintptr)         { kernelReads(p, n) }

func kernelWaitsFor(p, n uintptr) { wait(p, n) }
func kernelSignals(p, n uintptr)  { signal(p, n) }

// wait reports an atomic read.
func wait(p, n uintptr) {
	words(p, n, hosttsan.Get().Load, hosttsan.Get().Wait)
}

// signal reports an atomic write, by one that changes nothing.
func signal(p, n uintptr) {
	words(p, n, hosttsan.Get().Add, hosttsan.Get().Signal)
}

// words calls f for each word of an access that consists of words, else other.
func words(p, n uintptr, f func(p, n uintptr), other func(p uintptr)) {
	switch {
	case n == 4 && p%4 == 0:
		f(p, 4)
	case n%8 == 0 && p%8 == 0:
		for i := uintptr(0); i < n; i += 8 {
			f(p+i, 8)
		}
	default:
		other(p)
	}
}
