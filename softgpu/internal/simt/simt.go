package simt

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// Memory is the address space of a launch. Many workers call Find at once, so it must
// be safe for concurrent use.
type Memory interface {
	// Find returns the segment that holds addr, nil if there is none.
	Find(addr uint64) *Segment
}

// Segment is a range of addresses with one backing. The owner of the address space
// keeps Data from the garbage collector until the launch has ended.
type Segment struct {
	Base     uint64
	Data     []byte // the bytes; the length is the size of the segment
	Size     uint64 // the size if Data is nil: ordinary memory of the process, at Base itself
	ReadOnly bool   // a write is a fault

	// Counter is the index of the Traffic that counts the accesses, below
	// Launch.Counters. Several segments may share a counter.
	Counter int
	// Pages, if not nil, gets a bit set for each page of 1<<Pages.Shift bytes that
	// the kernel touches: Read by any access, Written by stores and atomics. The bits
	// are set atomically.
	Pages *Pages

	// Watch, if not nil, receives each access. Only builds with the race detector
	// have it. They run a launch with one worker.
	Watch Watch
}

// Pages records the pages that a kernel touched, one bit per page.
type Pages struct {
	Shift         uint
	Read, Written []uint64
	// Order, if not nil, records for each page when it was first touched: smaller is
	// earlier, 0 is never. It does not depend on the number of cores that run the
	// launch.
	Order []uint64
}

// Launch is one kernel launch. The caller has checked its arguments against the
// limits of the driver API for grids and blocks.
type Launch struct {
	Kernel      *Kernel
	Grid, Block cu.Dim3
	SharedBytes int    // dynamic shared memory
	Params      []byte // packed
	Memory      Memory
	Counters    int // number of Traffic counters
	Workers     int // 0 means GOMAXPROCS
	// Guarded is for segments of memory that may be unmapped while the kernel runs.
	// An access that the system then refuses is a fault, and does not end the
	// process.
	Guarded bool

	// ClockHz is the rate of %clock64; zero means 1 GHz. The clock of a warp starts
	// at Began, in nanoseconds of %globaltimer. It advances with the instructions
	// that the warp runs and with its sleep.
	ClockHz float64
	Began   uint64
	// Latency is the time of one instruction on the clocks, in nanoseconds; zero
	// means 2.
	Latency float64
	// Model, if not nil, describes the device for [Stats.Sample].
	Model *Model
	// Resident is how many blocks the device runs at once; zero means all. It affects
	// the order in which pages are touched. Multiprocessors is the number of
	// multiprocessors that %smid counts; zero means one.
	Resident, Multiprocessors int
	// Cooperative keeps all blocks of the grid resident, so that each may wait for every
	// other one. Workspace is the address that the kernel gets in %envreg1 (the upper
	// half) and %envreg2, for barriers of the grid; 0 if there is none.
	Cooperative bool
	// Cluster is the size of the clusters of blocks; zero means none. The grid is a multiple of it. A
	// worker runs all blocks of a cluster. Check does not know clusters.
	Cluster   cu.Dim3
	Workspace uint64
	// Printf receives what kernels print with vprintf. If it is nil, the text is
	// dropped.
	Printf func(string)
	// Heap serves malloc and free. If it is nil, malloc returns 0.
	Heap Heap
	// Pulse, if not nil, shows the progress of the launch while it runs.
	Pulse *Pulse
	// Mapped, if not nil, lets the launch and the host share mapped memory as loosely as
	// hardware does.
	Mapped *Mapped
	// StackBytes is the stack of a thread, for kernels whose depth of calls is not known at
	// compile time. Zero means no limit but that of the host's memory.
	StackBytes int
	// Shuffle, if not nil, makes the order of blocks and warps follow a seed. One worker
	// then runs the launch.
	Shuffle *Shuffle
	// Check looks for races between threads of the launch. One worker then runs it.
	Check bool
	// Written says, for a Check, which bytes of a page of kernelrace.WrittenShift bits have
	// been written. It returns nil for memory of which that is not known. It may be nil.
	Written func(page uint64) *kernelrace.Written
	// Between, if not nil, lets a Check find what the launch touches, for conflicts with
	// other launches.
	Between *Between
}

// Pulse tells a kernel that makes progress from a kernel that waits, however slow the
// computer is. The first begins blocks, the second polls memory.
type Pulse struct {
	Begun atomic.Uint64 // blocks begun
	Polls atomic.Uint64 // rounds of a worker in which some block did nothing but poll
}

// Traffic counts the memory transfers of warps as the hardware would see them. An
// access of a warp splits into 32-byte sectors. Contiguous sectors of a 128-byte line
// are one request.
type Traffic struct {
	ReadSectors, WriteSectors uint64
	Reads, Writes             [4]uint64 // requests of 32, 64, 96 and 128 bytes
	Atomics                   uint64    // counted by lane
	AtomicSectors             uint64    // sectors that atomic operations of warps touched
	CachedSectors             uint64    // the part of ReadSectors that a first-level cache may serve
	ReadBytes, WriteBytes     uint64    // what lanes asked for
}

// Stats describes what a launch did.
type Stats struct {
	Blocks, Threads  uint64
	WarpInstructions uint64
	LongestWarp      uint64       // the most instructions that one warp ran
	Nap              uint64       // latest time in ns that a warp read from a clock, or slept until
	Contended        uint64       // turns of atomic operations on the most used slice of the second-level cache
	Locked           uint64       // atomic operations of threads in the longest queue for locks, of counters in Model.Locked
	Scattered        uint64       // stores of one sector to the most used line, by warps that store to several lines
	Traffic          []Traffic    // index: Segment.Counter
	Sample           Sample       // of the launch, if it has a Model
	Findings         []Finding    // with Launch.Check
	GaveUp           GaveUp       // with Launch.Check
	Touched          *Touched     // with Launch.Between
	Stale            *FindingSide // a weak load that was repeated after its mapped memory had changed, nil if none was
}

// Stopped is the error of a launch that ended because its context was done. It wraps
// the cause of the context.
type Stopped struct {
	Cause error
	Where *cu.Fault // where one of the threads was, a fault without a result; nil if none ran
}

func (e *Stopped) Error() string { return "kernel stopped: " + e.Cause.Error() }

func (e *Stopped) Unwrap() error { return e.Cause }

// Run executes the launch on all cores. It returns when the launch is done, has
// faulted, or ctx is done. In the last case the launch ends within milliseconds and
// the error is a *Stopped. A fault is a *cu.Fault without Near, which only the owner
// of the address space knows.
func Run(ctx context.Context, l *Launch) (Stats, error) { return run(ctx, l) }

// Touch is the effect of an access, as the race detector should see it.
type Touch uint8

const (
	Read           Touch = iota
	Write                // of the bytes only
	Acquire              // a read that orders what follows: volatile, relaxed, acquire
	Release              // a write that orders what was before: volatile, relaxed, release
	Atomic               // Acquire and Release in one
	CompareAndSwap       // the same, of a word that stays as it is unless it has an expected value
)

// Watch receives the accesses of a launch to one segment. Each call comes before the
// access, but for Acquire after it. off is an offset from the start of the segment.
type Watch interface {
	// Touch receives an access to n bytes.
	Touch(how Touch, off, n uint64)
	// TouchLanes receives reads or writes of the lanes in mask, each to n bytes at its offset.
	TouchLanes(how Touch, offs [32]uint64, mask uint32, n uint64)
}

// NewPages returns Pages for size bytes in pages of 1<<shift bytes, with Order if
// order is set.
func NewPages(size uint64, shift uint, order bool) *Pages {
	n := (size + 1<<shift - 1) >> shift
	p := &Pages{Shift: shift, Read: make([]uint64, n/64+1), Written: make([]uint64, n/64+1)}
	if order {
		p.Order = make([]uint64, n)
	}
	return p
}

// Each calls f for the touched pages in ascending order. first is from Order, 0
// without it. The launch must have ended.
func (p *Pages) Each(f func(page uint64, written bool, first uint64)) {
	for word := range p.Read {
		for m := p.Read[word] | p.Written[word]; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			page := uint64(word*64 + i)
			first := uint64(0)
			if page < uint64(len(p.Order)) {
				first = p.Order[page]
			}
			f(page, p.Written[word]>>i&1 != 0, first)
		}
	}
}

// record keeps the earliest time for pages first to last.
func (p *Pages) record(first, last, at uint64) {
	for page := first; page <= last && page < uint64(len(p.Order)); page++ {
		for x := &p.Order[page]; ; {
			old := atomic.LoadUint64(x)
			if old != 0 && old <= at || atomic.CompareAndSwapUint64(x, old, at) {
				break
			}
		}
	}
}
