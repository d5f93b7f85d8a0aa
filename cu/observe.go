package cu

import "time"

// Observable has the method of an emulated driver that reports the operations of its
// devices. Hardware has no such report. Find it as [AsEmulated] finds Emulated, or with
// [AsObservable].
type Observable interface {
	// Observe lets o observe all later operations. nil ends that. One observer at a time
	// can observe a driver.
	Observe(o Observer)
	// At calls f with the host's virtual time of this moment: at once if it is known, else
	// when it is, which can be during a later call of any goroutine. Calls of f are in the
	// order of At. f must return soon and must not call the driver.
	At(f func(now time.Duration))
}

// Observer gets reports of the operations of an emulated driver. The driver calls it
// with its own lock held. So the methods must return soon and must not call the driver.
type Observer interface {
	// Queued reports that a call has queued the operation with a number. It runs on the
	// goroutine of that call, before the call returns.
	Queued(id uint64)
	// Ended reports an operation whose end in virtual time is known. The observer must
	// not keep op.
	Ended(op *Operation)
}

// Operation is one operation of an emulated device, with its place in virtual time.
type Operation struct {
	ID      uint64 // rises in the order in which operations were queued; starts at 1
	Kind    GraphNodeType
	Kernel  string  // the kernel's name; "" for other operations
	Context Context // whose stream or graph it belongs to
	Device  Device
	Stream  Stream // 0 for a node of a graph
	Graph   bool   // a node of a graph
	Engine  string // "compute", "copy", "copy in", "copy out", "copy peer" or "host"; "" if it occupies none

	Bytes    uint64 // that it copies or fills
	From, To string // the memory of a copy, and of a fill To alone: "device", "managed", "page-locked", "registered" or "pageable"

	Queued     time.Duration // virtual time at which the host had queued it
	Start, End time.Duration // virtual time of its start and end on the device

	// Blocked says what let it start at Start and not before, and BlockedBy by which
	// operation. BlockedBy is 0 for BlockedByHost.
	Blocked   Blocked
	BlockedBy uint64

	// Parts are the parts of a kernel's time as its price has them, nil for other
	// operations. Most of them overlap, so their sum is more than the time; the longest
	// one is what the kernel waits for ([Operation.Dominant]).
	Parts []KernelPart
}

// KernelPart is a part of the time of a kernel on an emulated device: "launch",
// "device memory", "link", "link latency", "instructions", "cache lookups", "atomics",
// "scattered stores", "chain of waits", "clock" or "page faults".
type KernelPart struct {
	Name string
	Time time.Duration // if nothing else delayed it
}

// Dominant returns the longest part of a kernel's time, the first of several. For other
// operations it returns an empty one.
func (o *Operation) Dominant() (longest KernelPart) {
	for _, p := range o.Parts {
		if p.Time > longest.Time {
			longest = p
		}
	}
	return longest
}

// Blocked is the reason why an operation did not start before.
type Blocked uint8

// Reasons for the start of an operation.
const (
	BlockedByHost   Blocked = iota // it started as soon as the host had queued it
	BlockedByOrder                 // it had to follow another one, by the order of its stream or an event
	BlockedByEngine                // its engine was busy with another one
	BlockedByQueue                 // an operation before it in the queue of its engine had to start first
	BlockedByCheck                 // a dependency check of a device of compute capability 3.0 or lower
)

// String returns "host", "order", "engine", "queue" or "check".
func (b Blocked) String() string {
	if int(b) < len(blockedNames) {
		return blockedNames[b]
	}
	return "unknown"
}

var blockedNames = [...]string{"host", "order", "engine", "queue", "check"}

// AsObservable finds an [Observable] driver in d or in the drivers that d wraps. It
// returns nil for hardware.
func AsObservable(d Driver) Observable {
	o, _ := As[Observable](d)
	return o
}
