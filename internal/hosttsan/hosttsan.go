// Package hosttsan is the way from the software GPU to the race detector of a C program: clang's and
// gcc's ThreadSanitizer. The library that is libcuda.so.1 sets it in builds with the tag hosttsan. In
// them the software GPU reports each operation to that detector, as it does to Go's in race builds.
package hosttsan

// A Clock is the place of an operation in the model of the detector: what the operation does comes
// after what happened on the thread that made the clock, and after the clocks that it follows. The
// detector calls it a fiber. Zero does nothing.
type Clock uintptr

// How is the kind of an access. A report has a function with its name.
type How uint8

const (
	KernelReads How = iota
	KernelWrites
	CopyReads
	CopyWrites
	FillWrites
	Allocates
	Frees
	HostFrees
)

// A Detector has the functions of the detector. They act for the calling thread, or for the clock that
// it has entered. Addresses that the detector cannot watch are ignored.
type Detector interface {
	NewClock(name string) Clock
	Enter(c Clock) (before Clock) // on a goroutine that stays on its thread until Leave
	Leave(before Clock)
	Finish(c Clock) // what follows c comes after what was done until now
	Follow(c Clock) // what is done from now on comes after c, which is finished
	Retire(c Clock) // no report names c any more; Follow still works
	Forget(c Clock) // nothing uses c any more
	Access(how How, p, n uintptr)
	Load(p, n uintptr) // as an atomic load of a word of 4 or 8 bytes
	Add(p, n uintptr)  // as an atomic operation that changes such a word
	Wait(p uintptr)    // what is done from now on comes after what was done before Signal of the same address
	Signal(p uintptr)
	Fresh(p, n uintptr) // the memory is new
}

var detector Detector

// Use sets the detector, before the first operation.
func Use(d Detector) { detector = d }

// Get returns the detector. There is always one in builds with the tag hosttsan.
func Get() Detector { return detector }
