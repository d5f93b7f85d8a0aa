package simt

import (
	"context"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Memory is the address space of a launch. Find is called by many workers at
// once and must be safe for that.
type Memory interface {
	// Find is the segment that holds addr, nil if none does.
	Find(addr uint64) *Segment
}

// Segment is a run of addresses with one backing. The owner of the address space
// keeps Data from the garbage collector until the launch is over.
type Segment struct {
	Base     uint64
	Data     []byte // the bytes themselves; len is the extent
	Size     uint64 // the extent where Data is nil: ordinary memory of the process, at Base itself
	ReadOnly bool   // a write is a fault

	// Counter is the index of the Traffic that accesses count towards, below
	// Launch.Counters. One counter may serve many segments.
	Counter int
	// Pages, when not nil, gets a bit set for each page of 1<<PageShift bytes that
	// the kernel touches: Read by any access, Written by stores and atomics. The
	// bits are set atomically.
	Pages *Pages
}

// Pages records what a kernel touched, a bit a page.
type Pages struct {
	Shift         uint
	Read, Written []uint64
	// Order, when not nil, gets for each page when it was touched first: smaller
	// is earlier, 0 is never. It does not depend on how many cores run the launch.
	Order []uint64

	// Watch, when not nil, is told of each access. Only builds with the race
	// detector have it, and run a launch by one worker.
	Watch Watch
}

// Launch is one kernel launch. Its arguments are those that the driver API has
// checked already: limits of a grid and a block are the caller's business.
type Launch struct {
	Kernel      *Kernel
	Grid, Block cu.Dim3
	SharedBytes int    // dynamic shared memory
	Params      []byte // packed
	Memory      Memory
	Counters    int // number of Traffic counters
	Workers     int // 0: GOMAXPROCS
	// Guarded is for segments of memory that may be unmapped while the kernel runs:
	// what the system then refuses is a fault and not the end of the process.
	Guarded bool

	// ClockHz is the rate of %clock64; zero means 1 GHz. A warp's clock goes on
	// with the instructions that it runs and with its sleep, from Began, which is
	// nanoseconds on %globaltimer.
	ClockHz float64
	Began   uint64
	// Latency is the nanoseconds that the clocks take an instruction for; zero is 2.
	Latency float64
	// Resident is how many blocks the device runs at once, for the order in which
	// pages are touched; zero means all. Multiprocessors is how many %smid counts;
	// zero means one.
	Resident, Multiprocessors int
	// Printf gets what kernels print with vprintf; nil drops it.
	Printf func(string)
	// Pulse, when not nil, tells while the launch runs how it gets on.
	Pulse *Pulse
}

// Pulse tells a kernel that gets on from one that waits, however slow the computer
// is: the first begins blocks, the second looks at memory again and again.
type Pulse struct {
	Begun atomic.Uint64 // blocks
	Polls atomic.Uint64 // rounds of a worker in which nothing but polling was seen of some block
}

// Traffic counts what warps asked of memory, as the hardware would see it:
// a warp's access splits into 32-byte sectors, and contiguous sectors of one
// 128-byte line are one request.
type Traffic struct {
	ReadSectors, WriteSectors uint64
	Reads, Writes             [4]uint64 // requests of 32, 64, 96 and 128 bytes
	Atomics                   uint64    // lanes
	ReadBytes, WriteBytes     uint64    // that lanes asked for
}

// Stats is what a launch did.
type Stats struct {
	Blocks, Threads  uint64
	WarpInstructions uint64
	LongestWarp      uint64    // the most instructions that one warp ran
	Nap              uint64    // ns of the latest time that a warp saw on a clock, or slept to
	Contended        uint64    // atomic operations of threads on the unit that had most of them
	Traffic          []Traffic // by Segment.Counter
}

// Stopped is a launch that was ended because its context was done. It wraps the
// context's cause.
type Stopped struct {
	Cause error
	Where *cu.Fault // where a thread was, a fault without result; nil when none ran
}

func (e *Stopped) Error() string { return "kernel stopped: " + e.Cause.Error() }
func (e *Stopped) Unwrap() error { return e.Cause }

// Run executes the launch on all cores and returns when it is done, has faulted,
// or ctx is done, which ends it within milliseconds (then the error is a
// *Stopped). A fault is a *cu.Fault without Near, which only the owner of the
// address space can tell.
func Run(ctx context.Context, l *Launch) (Stats, error) { return run(ctx, l) }
