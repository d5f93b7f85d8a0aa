package simt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// execution is a launch that runs.
type execution struct {
	l           *Launch
	fn          *function
	blocks      uint64
	threads     int // a block
	warps       int // a block
	sharedBytes int
	workers     int
	resident    int  // blocks that a worker keeps at most
	stack       int  // bytes of the calls that all threads are in, at most
	plain       bool // no uniform and affine registers: for tests
	hz          float64
	latency     float64 // ns of an instruction

	next atomic.Uint64
	stop atomic.Bool

	mu    sync.Mutex
	fault error
	where *cu.Fault // where a thread was that was stopped
	stats Stats
	units [atomicUnits]uint64
}

const (
	// maxResident bounds the blocks that one worker keeps at once while they wait
	// for others, minResident is how many it keeps though they take much memory.
	maxResident = 4096
	minResident = 64
	// residentBytes is what the blocks of all workers may take, roughly.
	residentBytes = 1 << 29
	// stackBytes is what the least number of blocks, and the calls that all
	// threads are in, may take.
	stackBytes = 1 << 30
	// patience is how many turns a block has before the worker begins another,
	// though it does not look as if it waited for one.
	patience = 256
)

var plainForTests atomic.Bool

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
	if x.fault != nil {
		return x.stats, x.fault
	}
	if x.stats.Blocks < x.blocks {
		if ctx.Err() != nil {
			return x.stats, &Stopped{context.Cause(ctx), x.where}
		}
		return x.stats, errors.New("BUG: launch ended before its last block")
	}
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
		return nil, fmt.Errorf("launch %s: %d bytes of local memory a thread, at most %d are there: %w", k.Name, k.LocalBytes, maxLocal, cu.ErrorLaunchOutOfResources)
	}
	x := &execution{
		l: l, fn: k.fn,
		blocks:      uint64(g.X) * uint64(g.Y) * uint64(g.Z),
		threads:     int(threads),
		warps:       int(threads+warpSize-1) / warpSize,
		sharedBytes: k.dynamicAt + l.SharedBytes,
		stack:       stackBytes,
		plain:       plainForTests.Load(),
		hz:          cmp.Or(l.ClockHz, 1e9),
		latency:     cmp.Or(l.Latency, 2),
	}
	x.workers = l.Workers
	if x.workers <= 0 {
		x.workers = runtime.GOMAXPROCS(0)
	}
	perBlock := x.warps*k.fn.frameBytes() + x.sharedBytes + x.threads*k.LocalBytes
	x.workers = int(min(uint64(x.workers), x.blocks, uint64(max(stackBytes/perBlock, 1))))
	least := min(minResident, max(4*stackBytes/x.workers/perBlock, 1))
	x.resident = min(max(residentBytes/x.workers/perBlock, least), maxResident)
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

// stopped keeps a place where blocks that are not done were.
func (x *execution) stopped(resident []*block) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault != nil {
		return
	}
	for _, b := range resident {
		for _, w := range b.warps[:b.started] {
			if x.where == nil && w.state != warpDone {
				x.where = w.position()
			}
		}
	}
}

// worker runs blocks on one goroutine.
type worker struct {
	x      *execution
	id     int
	frames [][]*frame         // free ones, by function
	refs   [cachedRefs]segRef // by memory instruction
	blocks []*block           // free ones
	tmp    lanes
	mma    *mmaValues // made when first needed
	lineScratch
	memScratch

	next, end uint64 // blocks taken and not begun

	stack        int // bytes of frames and local memory
	instructions uint64
	polls        uint64 // loops that looked at memory which others may change, and naps
	stats        Stats
	tallies      []tally             // by counter
	units        [atomicUnits]uint64 // atomic operations of lanes, by unit
	fence        atomic.Uint32
}

func (x *execution) work(id int) {
	defer x.guard()()
	k := &worker{
		x: x, id: id,
		frames: make([][]*frame, len(x.l.Kernel.program.list)),
	}
	k.tallies = make([]tally, x.l.Counters)
	k.loop()
	k.stats.WarpInstructions = k.instructions
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stats.add(&k.stats, k.tallies)
	for i, n := range k.units {
		x.units[i] += n
		x.stats.Contended = max(x.stats.Contended, x.units[i])
	}
}

// loop runs blocks until none is left. While the blocks it has only wait for
// others it begins new ones, so that blocks may wait for any
// other of the grid, up to the number that a worker keeps.
func (k *worker) loop() {
	var resident []*block
	defer func() { k.x.stopped(resident) }()
	for !k.x.stop.Load() {
		if len(resident) == 0 {
			b := k.begin()
			if b == nil {
				return
			}
			resident = append(resident, b)
		}
		polls, tired := k.polls, false
		for i := 0; i < len(resident) && !k.x.stop.Load(); {
			b := resident[i]
			if err := b.run(); err != nil {
				k.x.fail(err)
				return
			}
			if b.done == len(b.warps) {
				k.retire(b)
				resident = append(resident[:i], resident[i+1:]...)
				continue
			}
			b.turns++
			tired = tired || b.turns%patience == 0
			i++
		}
		if len(resident) == 0 {
			continue
		}
		if p := k.x.l.Pulse; p != nil && k.polls != polls {
			p.Polls.Add(1)
		}
		if k.polls != polls || tired {
			for range min(len(resident), k.x.resident-len(resident)) { // twice as many each round
				b := k.begin()
				if b == nil {
					break
				}
				resident = append(resident, b)
			}
			runtime.Gosched()
		}
	}
}

// begin takes the next block.
func (k *worker) begin() *block {
	if k.next == k.end {
		x := k.x
		chunk := max(1, min(64, x.blocks/uint64(8*x.workers)))
		at := x.next.Add(chunk) - chunk
		if at >= x.blocks {
			x.next.Store(x.blocks) // no overflow, however often this is asked
			return nil
		}
		k.next, k.end = at, min(at+chunk, x.blocks)
		if p := x.l.Pulse; p != nil {
			p.Begun.Add(k.end - k.next)
		}
	}
	n := k.next
	k.next++
	return k.newBlock(n)
}

func (k *worker) retire(b *block) {
	k.stats.Blocks++
	k.stats.Threads += uint64(b.threads)
	k.blocks = append(k.blocks, b)
}

func (s *Stats) add(o *Stats, tallies []tally) {
	s.Blocks += o.Blocks
	s.Threads += o.Threads
	s.WarpInstructions += o.WarpInstructions
	s.LongestWarp = max(s.LongestWarp, o.LongestWarp)
	s.Nap = max(s.Nap, o.Nap)
	for i := range s.Traffic {
		t := tallies[i].traffic()
		s.Traffic[i].add(&t)
	}
}
