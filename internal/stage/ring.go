package stage

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/crew"
)

// ErrBusy says that a transfer got no slot in time: other transfers hold them, in
// streams that stand still, or there is no memory for one.
var ErrBusy = errors.New("no slot of the staging ring to be had")

// Settings say how a ring works. All sizes are in bytes; all must be positive.
type Settings struct {
	Chunk   int // most that one copy of the device moves: the size of a slot
	Slots   int // most slots
	Block   int // what a goroutine copies at a time; Chunk is a multiple of it
	Threads int // most goroutines that copy at once
	// Lock page-locks memory for a slot; nil for the driver's own (cuMemHostAlloc).
	Lock func(bytes int) (p cu.HostPtr, unlock func() error, err error)
}

// Ring is page-locked memory through which transfers go. It is safe for
// concurrent use.
type Ring struct {
	driver cu.Driver
	ctx    cu.Context
	clock  HostClock // of an emulated device, else nil
	set    Settings

	crew    crew.Crew     // who copies
	flights atomic.Uint64 // slots left to the device so far

	mu      sync.Mutex
	slots   []*slot // those that a copy of the device may be using in the order they were queued
	growing int     // slots being allocated
	jobs    int     // transfers running
	threads [2]int  // that a transfer by itself should have, by direction: adapted
	part    float64 // of the time goroutines copied, when that was last asked
	closed  bool
}

// HostClock is the virtual clock of an emulated device, which must be told how
// long the copies of goroutines would take on the machine that it plays.
type HostClock interface {
	// HostCopy tells that threads copied bytes from ordinary to page-locked memory,
	// or back.
	HostCopy(bytes uintptr, threads int, back bool)
}

// New makes a ring without slots. The driver is that of the context; if it is
// emulated and a [HostClock], transfers are single goroutines, so that times do
// not depend on how they are scheduled, and the clock is told of Threads.
func New(driver cu.Driver, ctx cu.Context, set Settings) *Ring {
	r := &Ring{driver: driver, ctx: ctx, set: set, threads: [2]int{set.Threads, set.Threads}}
	if e := cu.AsEmulated(driver); e != nil {
		r.clock, _ = e.(HostClock)
	}
	return r
}

// enter counts a transfer.
func (r *Ring) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("the staging ring is closed")
	}
	r.jobs++
	return nil
}

func (r *Ring) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs--
}

// direction is where a transfer goes. To fill the ring takes more goroutines than to empty
// it, as those that store past the caches are quicker.
type direction uint8

const (
	inward direction = iota
	outward
)

// workers is how many goroutines a transfer may have now, beside the one that leads.
// crowded says that with those of others there are more than processors.
func (r *Ring) workers(way direction) (n int, crowded bool) {
	if r.clock != nil {
		return 1, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := max(1, r.jobs)
	n = max(1, r.hands(way)/jobs)
	return n, (n+1)*jobs > runtime.GOMAXPROCS(0)
}

// hands is how many goroutines a transfer by itself has. Where there are a few
// processors one is the leader's. r.mu is held.
func (r *Ring) hands(way direction) int {
	n := runtime.GOMAXPROCS(0)
	if n > 3 {
		n--
	}
	return min(r.threads[way], n)
}

// How busy goroutines should be: where they wait longer, fewer do; where they
// hardly wait, it is the device that waits for them.
const (
	tooIdle = 0.5
	tooBusy = 0.9
	enough  = 32 // chunks that tell, beside the time it takes goroutines to begin
)

// adapt learns from a transfer that was alone: its goroutines worked for busy of
// the elapsed time, added up.
func (r *Ring) adapt(way direction, workers int, busy, elapsed time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs > 1 || workers != r.hands(way) {
		return
	}
	r.part = float64(busy) / float64(elapsed) / float64(workers)
	switch {
	case r.part < tooIdle:
		r.threads[way] = max(1, r.threads[way]-1)
	case r.part > tooBusy:
		r.threads[way] = min(r.set.Threads, r.threads[way]+1)
	}
}

// Close gives the slots back. Nothing may be in flight on the device, and the
// context must still be there. Slots that a reader or writer has, although its
// transfer was given up, are freed by it.
func (r *Ring) Close() error {
	r.mu.Lock()
	r.closed = true
	var idle []*slot
	for _, s := range r.slots {
		if s.state != taken {
			idle = append(idle, s)
		}
	}
	r.slots = nil
	r.mu.Unlock()
	r.crew.Close()
	var all []error
	for _, s := range idle {
		all = append(all, r.free(s))
	}
	return errors.Join(all...)
}

// grow allocates one slot.
func (r *Ring) grow() (*slot, error) {
	lock := r.set.Lock
	if lock == nil {
		lock = r.allocate
	}
	host, unlock, err := lock(r.set.Chunk)
	if err != nil {
		return nil, fmt.Errorf("page-lock %d bytes for the staging ring: %w", r.set.Chunk, err)
	}
	event, err := r.driver.EventCreate(r.ctx, cu.EventDisableTiming)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return &slot{host: host, mem: bytesAt(host, r.set.Chunk), unlock: unlock, event: event}, nil
}

// allocate is Settings.Lock by the driver.
func (r *Ring) allocate(bytes int) (p cu.HostPtr, unlock func() error, err error) {
	p, err = r.driver.MemHostAlloc(r.ctx, uintptr(bytes), cu.MemHostAllocPortable)
	return p, func() error { return r.driver.MemFreeHost(r.ctx, p) }, err
}

// free is the end of a slot.
func (r *Ring) free(s *slot) error {
	return errors.Join(r.driver.EventDestroy(r.ctx, s.event), s.unlock())
}
