package simt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// execution is a running launch.
type execution struct {
	l           *Launch
	fn          *function
	blocks      uint64
	threads     int // per block
	warps       int // per block
	sharedBytes int
	workers     int
	resident    int  // most blocks that a worker keeps at once
	stack       int  // most bytes of the call frames of all threads
	lanewise    bool // without uniform and affine registers, for tests
	hz          float64
	latency     float64  // of an instruction, in ns
	stackLimit  int      // most predicted bytes of stack of a thread, 0 for no limit
	checker     *checker // nil without Launch.Check
	mapped      *Mapped

	next atomic.Uint64
	stop atomic.Bool

	mu        sync.Mutex
	fault     error
	stoppedAt *cu.Fault // where one of the threads was when the launch was stopped
	stats     Stats
	units     [atomicUnits]uint64
	locks     lockCounter
	stores    lineCounter
	traces    []*trace

	staleAt      *hostAccess // the first weak load that was repeated after its memory had changed
	hostFindings []Finding
	written      map[uintptr]struct{} // words of mapped memory that the launch itself has written
}

const (
	// maxResident is the most blocks that one worker keeps at once while they wait
	// for others. minResident is how many it keeps even if they take much memory.
	maxResident = 4096
	minResident = 64
	// residentBytes bounds the memory of the blocks of all workers, roughly.
	residentBytes = 1 << 29
	// stackBytes bounds the memory of minResident blocks, and of the call frames of
	// all threads.
	stackBytes = 1 << 30
	// cooperativeBytes bounds the memory of the blocks of a cooperative launch, which are
	// all there at once.
	cooperativeBytes = 8 << 30
	// turnsUntilNext is how many turns a block has before its worker begins another
	// block, even if it does not seem to wait for one.
	turnsUntilNext = 256
)

var (
	lanewiseForTests atomic.Bool
	mappedForTests   atomic.Pointer[Mapped] // of launches that have none
)

func run(ctx context.Context, l *Launch) (Stats, error) {
	x, err := newExecution(l)
	if err != nil {
		return Stats{}, err
	}
	if ctx.Err() != nil {
		return Stats{}, &Stopped{Cause: context.Cause(ctx)}
	}
	defer context.AfterFunc(ctx, func() { x.stop.Store(true) })()
	if x.workers == 1 {
		x.work(0)
	} else {
		var wg sync.WaitGroup
		for id := range x.workers {
			wg.Go(func() { x.work(id) })
		}
		wg.Wait()
	}
	if x.checker != nil {
		x.stats.Findings = x.checker.findings()
		x.stats.GaveUp = GaveUp{x.checker.Intervals, x.checker.Words}
		if l.Between != nil {
			x.stats.Touched = x.checker.touched()
		}
	}
	x.stats.Findings = append(x.stats.Findings, x.hostFindings...)
	if x.staleAt != nil {
		side := x.staleAt.side()
		x.stats.Stale = &side
	}
	if x.fault != nil {
		return x.stats, x.fault
	}
	if x.stats.Blocks < x.blocks {
		if ctx.Err() != nil {
			return x.stats, &Stopped{context.Cause(ctx), x.stoppedAt}
		}
		return x.stats, errors.New("BUG: launch ended before its last block")
	}
	slices.SortFunc(x.traces, func(a, b *trace) int { return cmp.Compare(a.number, b.number) })
	x.addSample(x.traces)
	return x.stats, nil
}

func newExecution(l *Launch) (*execution, error) {
	if l == nil || l.Kernel == nil {
		return nil, fmt.Errorf("launch: no kernel: %w", cu.ErrorInvalidHandle)
	}
	k := l.Kernel
	if k.Unsupported != nil {
		return nil, k.Unsupported
	}
	g, b := l.Grid, l.Block
	threads := uint64(b.X) * uint64(b.Y) * uint64(b.Z)
	if g.X == 0 || g.Y == 0 || g.Z == 0 || threads == 0 || threads > 1<<16 || b.X > 1<<16 || b.Y > 1<<16 || b.Z > 1<<16 {
		return nil, fmt.Errorf("launch %s: grid %v, block %v: %w", k.Name, g, b, cu.ErrorInvalidValue)
	}
	if len(l.Params) < k.ParamBytes {
		return nil, fmt.Errorf("launch %s: %d bytes of arguments, the kernel takes %d: %w", k.Name, len(l.Params), k.ParamBytes, cu.ErrorInvalidValue)
	}
	if l.SharedBytes < 0 || l.SharedBytes > 1<<28 {
		return nil, fmt.Errorf("launch %s: %d bytes of dynamic shared memory: %w", k.Name, l.SharedBytes, cu.ErrorInvalidValue)
	}
	if k.LocalBytes > maxLocal {
		return nil, fmt.Errorf("launch %s: %d bytes of local memory per thread, at most %d are available: %w", k.Name, k.LocalBytes, maxLocal, cu.ErrorLaunchOutOfResources)
	}
	x := &execution{
		l: l, fn: k.fn,
		blocks:      uint64(g.X) * uint64(g.Y) * uint64(g.Z),
		threads:     int(threads),
		warps:       int(threads+warpSize-1) / warpSize,
		sharedBytes: k.dynamicAt + l.SharedBytes,
		stack:       stackBytes,
		lanewise:    lanewiseForTests.Load(),
		mapped:      cmp.Or(l.Mapped, mappedForTests.Load()),
		hz:          cmp.Or(l.ClockHz, 1e9),
		latency:     cmp.Or(l.Latency, 2),
	}
	if !k.boundedStack {
		x.stackLimit = l.StackBytes
	}
	x.workers = l.Workers
	if l.Check {
		x.workers, x.checker = 1, newChecker(x)
	}
	if l.Shuffle != nil {
		x.workers = 1
	}
	if x.workers <= 0 {
		x.workers = runtime.GOMAXPROCS(0)
	}
	perBlock := x.warps*k.fn.frameBytes() + x.sharedBytes + x.threads*k.LocalBytes
	x.workers = int(min(uint64(x.workers), x.blocks/uint64(x.clusterSize()), uint64(max(stackBytes/perBlock, 1))))
	least := min(minResident, max(4*stackBytes/x.workers/perBlock, 1))
	x.resident = max(min(max(residentBytes/x.workers/perBlock, least), maxResident), x.clusterSize())
	if l.Cooperative {
		if x.blocks > uint64(cooperativeBytes/perBlock) {
			return nil, fmt.Errorf("launch %s: %d blocks at once take %d bytes of host memory each, over %d MiB in all: %w",
				k.Name, x.blocks, perBlock, cooperativeBytes>>20, cu.ErrorLaunchOutOfResources)
		}
		x.resident = math.MaxInt
		x.stack += x.workers * int(x.blocks) * perBlock // one worker may have all blocks
	}
	x.stats.Traffic = make([]Traffic, l.Counters)
	return x, nil
}

// fail keeps the first fault and stops the launch.
func (x *execution) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault == nil {
		x.fault = err
	}
	x.stop.Store(true)
}

// stopped records where one of the threads of unfinished blocks was.
func (x *execution) stopped(resident []*block) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault != nil {
		return
	}
	for _, b := range resident {
		for _, w := range b.warps[:b.started] {
			if x.stoppedAt == nil && w.state != warpDone {
				x.stoppedAt = w.position()
			}
		}
	}
}

func (x *execution) work(id int) {
	defer x.caught()
	defer x.guard()()
	k := &worker{
		x: x, id: id,
		frames: make([][]*frame, len(x.l.Kernel.program.list)),
	}
	k.tallies = make([]tally, x.l.Counters)
	k.mapped = newMappedView(k)
	k.shuffle = newShuffler(x)
	k.loop()
	k.stats.WarpInstructions = k.instructions
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stats.add(&k.stats, k.tallies)
	for i, n := range k.units {
		x.units[i] += n
		x.stats.Contended = max(x.stats.Contended, x.units[i])
	}
	x.locks.addAll(&k.locks)
	x.stats.Locked = x.locks.most()
	x.stats.Scattered = x.stores.addAll(k.stores)
	x.traces = append(x.traces, k.traces...)
}

// caught makes a panic, which is a bug of this package, the error of the launch: a program cannot recover
// from a panic of a goroutine that it has not started. work defers it.
func (x *execution) caught() {
	if v := recover(); v != nil {
		fmt.Fprintf(os.Stderr, "ferry: BUG: kernel %s: %v\n%s", x.l.Kernel.Name, v, debug.Stack())
		x.fail(fmt.Errorf("BUG: %v", v))
	}
}

// guard prepares the worker's goroutine for memory that may be unmapped at any time
// (see [Launch.Guarded]). The caller defers the function that it returns, which turns
// an access that the system refused into a fault of the kernel.
func (x *execution) guard() func() {
	if !x.l.Guarded {
		return func() {}
	}
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		v := recover()
		if v == nil {
			return
		}
		fault, ok := v.(interface{ Addr() uintptr })
		if !ok {
			panic(v)
		}
		x.fail(&cu.Fault{Result: cu.ErrorIllegalAddress, Kernel: x.l.Kernel.Name, Addr: cu.DevicePtr(fault.Addr()), Bytes: 1})
	}
}
