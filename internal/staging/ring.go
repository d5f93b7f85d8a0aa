package staging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/workers"
)

// ErrBusy means that a transfer got no slot in time: other transfers hold them, in
// streams that do not advance, or there is no memory for a slot.
var ErrBusy = errors.New("no slot of the staging ring is available")

// Ring is page-locked memory through which transfers go. It is safe for concurrent use.
type Ring struct {
	driver cu.Driver
	ctx    cu.Context
	clock  HostClock // of an emulated device, else nil
	set    Settings
	lock   LockFunc
	beyond func(error) bool // see Hooks.Limited
	await  func(cu.Event) error

	workers   workers.Pool
	gate      gate            // not used on an emulated device
	submitted atomic.Uint64   // slots submitted to the device so far
	fair      [2]atomic.Int64 // workers that each transfer may have now, by direction: see setFair

	mu        sync.Mutex
	slots     []*slot    // those in flight are in the order in which they were submitted
	events    []cu.Event // of slots that were trimmed: others may still ask for one, so it is used again, and destroyed by Close
	classes   [2]class
	unused    []*transfer // without users
	transfers int         // that run, wait for a place, or wait for the device
	target    [2]int      // workers that a transfer by itself should have, by direction: adapted
	busyShare float64     // of the time in which workers copied, in the last transfer of adapt
	closed    bool
	locked    int   // bytes that are page-locked
	peak      int   // the most that locked has been
	limit     int   // of locked: see SetLimit
	left      error // of slots that were freed when a transfer ended

	limited bool // a limit of Hooks.Lock has lowered that of a class; mu guards it

	over atomic.Bool // there may be more slots than the limit allows
}

// class is what the ring has of one size of slots. Ring.mu guards it.
type class struct {
	bytes      int // of a slot
	limit      int // the most slots: fewer than wanted once memory has run out
	wanted     int // what SetLimit allows
	have       int // slots
	allocating int // slots that are being allocated
	transfers  int // that use this size
}

// slotClass is a size of slots. A transfer uses one size.
type slotClass uint8

const (
	largeSlots slotClass = iota // for transfers with workers
	smallSlots                  // for transfers that their coordinator copies
)

// Hooks are what a ring can do in another way than by the driver. All may be nil.
type Hooks struct {
	Lock  LockFunc             // instead of cuMemHostAlloc
	Await func(cu.Event) error // waits for an event, instead of cuEventSynchronize, which holds a thread
	// Limited reports whether an error of Lock is that of a limit under which there may be room later.
	// Then the next transfer tries again.
	Limited func(error) bool
	// SaveCPU reports whether workers sleep as soon as they have nothing to do.
	SaveCPU func() bool
}

// LockFunc page-locks memory for a slot. With must no limit applies: the transfer cannot go on
// without the slot.
type LockFunc func(bytes int, must bool) (p cu.HostPtr, unlock func() error, err error)

// HostClock is the virtual clock of an emulated device. It must know how long the copies
// of goroutines would take on the machine that is emulated.
type HostClock interface {
	// HostCopy records that a number of threads have copied bytes from ordinary to
	// page-locked memory, or back.
	HostCopy(bytes uintptr, threads int, back bool)
}

// New makes a ring without slots. The driver is that of the context.
//
// If the driver is emulated and a [HostClock], one goroutine copies for each transfer, so
// that times do not depend on how goroutines are scheduled. The clock is given the number
// of goroutines that there would be.
func New(driver cu.Driver, ctx cu.Context, set Settings, hooks Hooks) *Ring {
	if runtime.GOMAXPROCS(0) <= fewProcessors {
		set.SpinTime = min(set.SpinTime, fewSpin)
	}
	r := &Ring{driver: driver, ctx: ctx, set: set, lock: hooks.Lock, beyond: hooks.Limited, await: hooks.Await, target: [2]int{set.Workers, set.Workers}}
	r.classes = [2]class{{bytes: set.Chunk, limit: set.Slots, wanted: set.Slots}, {bytes: set.smallChunk(), limit: set.SmallSlots, wanted: set.SmallSlots}}
	r.limit = r.mostLocked()
	r.gate = gate{places: max(1, set.MaxTransfers), patience: set.SlotWait}
	if r.lock == nil {
		r.lock = r.hostAlloc
	}
	if r.beyond == nil {
		r.beyond = func(error) bool { return false }
	}
	if r.await == nil {
		r.await = func(e cu.Event) error { return driver.EventSynchronize(ctx, e) }
	}
	if e := cu.AsEmulated(driver); e != nil {
		r.clock, _ = e.(HostClock)
	}
	if r.clock == nil {
		r.workers.Linger, r.workers.Lingerers, r.workers.SaveCPU = set.LingerTime, (runtime.GOMAXPROCS(0)-1)/2, hooks.SaveCPU
	}
	return r
}

// In copies job.Bytes of src to the device, in the order of the stream. It returns when it
// has read src and queued the copies. n is the number of bytes that are queued: all of them,
// or those before an error.
//
// When ctx ends, In still queues the bytes that it has read, and the error wraps ctx.Err().
// If a Read hangs then, In abandons it: In returns, and drops the data when the Read returns.
//
// If src panics, In panics with the same value when the transfer has ended. The panic
// outranks errors. If src calls runtime.Goexit on a worker, the error wraps [ErrGoexit]. On
// the goroutine that called In, Goexit ends that goroutine when the transfer has ended. That
// goroutine reads src if ctx cannot end and the transfer has one worker, as an Ordered one
// has. What an abandoned Read does is ignored.
func (r *Ring) In(ctx context.Context, job Job, src io.ReaderAt) (n int64, err error) {
	t, err := r.enter(ctx, job)
	if err != nil {
		return 0, err
	}
	t.src = src
	return t.run()
}

// Out copies job.Bytes from the device to dst, in the order of the stream. It returns
// when dst has them. The rest is as for In.
func (r *Ring) Out(ctx context.Context, job Job, dst io.WriterAt) (n int64, err error) {
	t, err := r.enter(ctx, job)
	if err != nil {
		return 0, err
	}
	t.dst = dst
	return t.run()
}

// InMemory is In for ordinary memory: see [Memory]. If there are slots and workers, it allocates
// nothing.
func (r *Ring) InMemory(ctx context.Context, job Job, src []byte) (n int64, err error) {
	t, err := r.enter(ctx, job)
	if err != nil {
		return 0, err
	}
	t.memory, t.src = src, &t.memory
	return t.run()
}

// OutMemory is Out for ordinary memory, as InMemory is In.
func (r *Ring) OutMemory(ctx context.Context, job Job, dst []byte) (n int64, err error) {
	t, err := r.enter(ctx, job)
	if err != nil {
		return 0, err
	}
	t.memory, t.dst = dst, &t.memory
	return t.run()
}

// run runs a transfer with the calling goroutine as the coordinator.
func (t *transfer) run() (n int64, err error) {
	defer t.done()
	r := t.r
	t.mayYield = asMemory(t.src) != nil || asMemory(t.dst) != nil
	if !t.admit() {
		t.leave()
		return 0, t.err
	}
	workers := t.prepare()
	begin := time.Now()
	r.freeCompleted(t)
	c := coordinator{transfer: t}
	if t.shared {
		c.openFree()
		c.fetchFirst()
		t.working.Store(int64(workers))
		t.start(workers)
	}
	ended := false
	defer func() {
		if !ended { // the reader or writer called runtime.Goexit
			_, _ = c.complete()
		}
	}()
	n, err = c.complete()
	ended = true
	r.trimLater()
	if p := t.panicked.Load(); p != nil {
		panic(p.Value)
	}
	if err != nil {
		return n, err
	}
	if len(t.chunks) >= r.set.AdaptChunks && !t.job.Ordered && !t.allocated {
		r.adapt(t.direction(), workers, time.Duration(t.copyTime.Load()), time.Since(begin))
	}
	return n, nil
}

// enter counts a new transfer. It fails when the ring is closed.
func (r *Ring) enter(ctx context.Context, job Job) (t *transfer, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		job.callDone()
		return nil, ErrClosed
	}
	r.transfers++
	if n := len(r.unused); n > 0 {
		t, r.unused = r.unused[n-1], r.unused[:n-1]
	}
	r.mu.Unlock()
	if t == nil {
		t = newTransfer()
	}
	t.begin(ctx, r, job)
	return t, nil
}

// ErrClosed is the error of a ring after Close.
var ErrClosed = errors.New("the staging ring is closed")

// join counts a transfer whose size of slots is known.
func (r *Ring) join(t *transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limited { // perhaps there is room now
		for i := range r.classes {
			r.classes[i].limit = r.classes[i].wanted
		}
		r.limited = false
	}
	if r.classes[t.class].limit == 0 {
		t.class = largeSlots
	}
	r.classes[t.class].transfers++
	t.joined = true
	r.setFair()
}

// leave stops counting a transfer, and removes it from its slots in flight.
func (r *Ring) leave(t *transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transfers--
	for _, s := range r.slots {
		if s.owner == t {
			s.owner = nil
		}
	}
	if t.joined {
		r.classes[t.class].transfers--
		r.setFair()
	}
}

// direction is the direction of a transfer. Filling the ring needs more workers than
// emptying it, because workers that empty it can store past the caches, which is faster.
type direction uint8

const (
	toDevice direction = iota
	fromDevice
)

// share returns how many workers a new transfer may have now, besides the coordinator.
// oversubscribed is true if all transfers together have more goroutines than there are
// processors.
func (r *Ring) share(dir direction) (n int, oversubscribed bool) {
	if r.clock != nil {
		return 1, false
	}
	processors := runtime.GOMAXPROCS(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	large, small := r.classes[largeSlots].transfers+1, r.classes[smallSlots].transfers
	n = max(1, (r.maxWorkers(dir, processors)-small)/large)
	return n, (n+1)*large+small > processors
}

// setFair computes how many workers each transfer with workers may have now. r.mu is held.
func (r *Ring) setFair() {
	large, small := r.classes[largeSlots].transfers, r.classes[smallSlots].transfers
	if large == 0 {
		return
	}
	processors := runtime.GOMAXPROCS(0) // it takes the lock of the Go scheduler
	for dir := range r.fair {
		r.fair[dir].Store(int64(max(1, (r.maxWorkers(direction(dir), processors)-small)/large)))
	}
}

// maxWorkers returns how many workers a transfer by itself has. The coordinator gets a
// processor of its own unless there are very few. r.mu is held.
func (r *Ring) maxWorkers(dir direction, processors int) int {
	if processors > 3 {
		processors--
	}
	return min(r.target[dir], processors)
}

// adapt changes the number of workers for the next transfers, after one that ran by
// itself. Its workers together have copied for busy, and the transfer took elapsed.
func (r *Ring) adapt(dir direction, workers int, busy, elapsed time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.transfers > 1 || workers != r.maxWorkers(dir, runtime.GOMAXPROCS(0)) {
		return
	}
	r.busyShare = float64(busy) / float64(elapsed) / float64(workers)
	switch {
	case r.busyShare < r.set.IdleShare:
		r.target[dir] = max(1, r.target[dir]-1)
	case r.busyShare > r.set.BusyShare:
		r.target[dir] = min(r.set.Workers, r.target[dir]+1)
	}
}

// Close frees the slots. Nothing may be in flight on the device, and the context must
// still exist. A slot that a reader or writer still uses, because its transfer was
// abandoned, is freed when that returns.
func (r *Ring) Close() error {
	r.mu.Lock()
	r.closed = true
	var idle []*slot
	for _, s := range r.slots {
		if s.state != slotTaken {
			idle = append(idle, s)
		}
	}
	events := r.events
	r.slots, r.events = nil, nil
	all := []error{r.left}
	r.mu.Unlock()
	r.workers.Close()
	for _, s := range idle {
		all = append(all, r.destroy(s))
	}
	for _, e := range events {
		all = append(all, r.driver.EventDestroy(r.ctx, e))
	}
	return refusal.Join(all...)
}

// Busy reports whether transfers or calls of others hold places now.
func (r *Ring) Busy() bool { return r.gate.holding.Load() > 0 }

// Submitted returns how many slots were submitted to the device so far: see
// [Job.Completed].
func (r *Ring) Submitted() uint64 { return r.submitted.Load() }

// takeSlot takes a slot for t: a free one, one that the device is done with, or a new
// one. Without a slot t must wait, and starved says that other transfers have all slots.
func (r *Ring) takeSlot(t *transfer) (s *slot, starved bool, err error) {
	for {
		s, _, _, err := r.pick(t, false)
		if s != nil || err != nil {
			return s, false, err
		}
		freed, err := r.pollSlots()
		if err != nil {
			return nil, false, err
		}
		if freed {
			continue
		}
		s, allocate, starved, err := r.pick(t, true)
		if !allocate {
			return s, starved, err
		}
		if s, err := r.addSlot(t); s != nil || err != nil {
			return s, false, err
		}
	}
}

// pick takes a free slot for t. If there is none, allocate reports whether t may make a new
// slot. If t must wait, starved reports whether only other transfers can free a slot: t has
// none, and no slot in flight belongs to its stream.
func (r *Ring) pick(t *transfer, mayAllocate bool) (s *slot, allocate, starved bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, false, ErrClosed
	}
	starved = t.held == 0 && !slices.ContainsFunc(r.slots, t.canAwait)
	if t.held >= r.slotShare(t) {
		return nil, false, starved, nil
	}
	for _, s := range slices.Backward(r.slots) { // the last one used may be in the caches
		if s.state == slotFree && s.class == t.class {
			s.state, s.owner = slotTaken, t
			t.held++
			return s, false, false, nil
		}
	}
	if k := &r.classes[t.class]; mayAllocate && k.mayGrowFor() {
		if !k.mayGrow() {
			r.over.Store(true)
		}
		t.must = !t.mayYield && k.have+k.allocating == 0
		k.allocating++
		t.held++
		t.allocated = true
		return nil, true, false, nil
	}
	return nil, false, starved, nil
}

// mayGrow reports whether there may be more slots.
func (k *class) mayGrow() bool { return k.have+k.allocating < k.limit }

// mayGrowFor is mayGrow for a transfer that uses this size: it may have one slot, though the limit
// has become 0 since the transfer began.
func (k *class) mayGrowFor() bool { return k.mayGrow() || k.have+k.allocating == 0 }

// slotShare returns how many slots t may have now. r.mu is held.
func (r *Ring) slotShare(t *transfer) int {
	k := &r.classes[t.class]
	most := k.limit / max(1, k.transfers)
	if t.src != nil {
		most = min(most, r.set.SlotsToDevice)
	}
	return max(1, most)
}

// slotAvailable reports whether t would get a slot now. It takes none. starved is as for
// takeSlot.
func (r *Ring) slotAvailable(t *transfer) (available, starved bool, err error) {
	if _, err := r.pollSlots(); err != nil {
		return false, false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false, false, ErrClosed
	}
	starved = t.held == 0 && !slices.ContainsFunc(r.slots, t.canAwait)
	free := slices.ContainsFunc(r.slots, func(s *slot) bool { return s.state == slotFree && s.class == t.class })
	return t.held < r.slotShare(t) && (free || r.classes[t.class].mayGrowFor()), starved, nil
}

// addSlot makes a slot for t. It returns neither a slot nor an error when memory has run
// out and there are other slots to wait for.
func (r *Ring) addSlot(t *transfer) (*slot, error) {
	s, err := r.newSlot(t.class, t.must)
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.classes[t.class]
	k.allocating--
	if err == nil {
		k.have++
		s.state, s.owner = slotTaken, t
		r.slots = append(r.slots, s)
		return s, nil
	}
	t.held--
	others := k.have + k.allocating
	r.limited = r.limited || r.beyond(err)
	switch {
	case !errors.Is(err, cu.ErrorOutOfMemory):
		return nil, err
	case others > 0:
		k.limit = others // do not try again
		return nil, nil
	case t.mayYield:
		if t.class == smallSlots {
			k.limit = 0 // later transfers share the large slots
		}
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case !t.must && r.beyond(err):
		return nil, nil // the next pick asks beyond the limit
	default:
		return nil, err
	}
}

// newSlot allocates a slot.
func (r *Ring) newSlot(size slotClass, must bool) (*slot, error) {
	bytes := r.classes[size].bytes
	host, unlock, err := r.lock(bytes, must)
	if err != nil {
		return nil, fmt.Errorf("page-lock %d bytes for the staging ring: %w", bytes, err)
	}
	event, err := r.newEvent()
	if err != nil {
		return nil, refusal.Join(err, unlock())
	}
	r.mu.Lock()
	r.noteLocked(bytes)
	r.mu.Unlock()
	return &slot{host: host, mem: bytesAt(host, bytes), class: size, unlock: unlock, event: event}, nil
}

// newEvent returns the event of a slot that was trimmed, or else a new one.
func (r *Ring) newEvent() (e cu.Event, err error) {
	r.mu.Lock()
	if n := len(r.events); n > 0 {
		e, r.events = r.events[n-1], r.events[:n-1]
		r.mu.Unlock()
		return e, nil
	}
	r.mu.Unlock()
	return r.driver.EventCreate(r.ctx, cu.EventDisableTiming)
}

// hostAlloc page-locks memory by the driver. It is the LockFunc of a ring without another one.
func (r *Ring) hostAlloc(bytes int, _ bool) (p cu.HostPtr, unlock func() error, err error) {
	p, err = r.driver.MemHostAlloc(r.ctx, uintptr(bytes), cu.MemHostAllocPortable)
	return p, func() error { return r.driver.MemFreeHost(r.ctx, p) }, err
}

// destroy frees the memory and the event of a slot.
func (r *Ring) destroy(s *slot) error {
	return refusal.Join(r.driver.EventDestroy(r.ctx, s.event), r.unlock(s))
}

// unlock frees the memory of a slot.
func (r *Ring) unlock(s *slot) error {
	err := s.unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(-len(s.mem))
	return err
}

// polled is a slot in flight whose event a goroutine asks for.
type polled struct {
	s        *slot
	sequence uint64
	stream   cu.Stream
}

// pollSlots frees the slots that the device is done with, and reports whether there was
// one. In each stream it stops at the first slot that is not done: later ones cannot be.
func (r *Ring) pollSlots() (freed bool, err error) {
	var space [64]polled
	all := space[:0]
	r.mu.Lock()
	for _, s := range r.slots {
		if s.state == slotInFlight {
			all = append(all, polled{s, s.sequence, s.stream})
		}
	}
	r.mu.Unlock()
	if len(all) == 0 {
		return false, nil
	}
	var streams [8]cu.Stream
	busy := streams[:0]
	for i := range all {
		x := &all[i]
		if slices.Contains(busy, x.stream) {
			continue
		}
		switch err := r.driver.EventQuery(r.ctx, x.s.event); {
		case err == nil:
			r.mu.Lock()
			if x.s.sequence == x.sequence && x.s.state == slotInFlight {
				r.free(x.s)
			}
			r.mu.Unlock()
			freed = true
		case !errors.Is(err, cu.ErrorNotReady):
			return false, err
		default:
			busy = append(busy, x.stream)
		}
	}
	return freed, nil
}

// keepError keeps an error in freeing a slot. Close returns it.
func (r *Ring) keepError(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = refusal.Join(r.left, err)
}

// freeCompleted frees the slots that the device is done with according to job.Completed
// of a transfer.
func (r *Ring) freeCompleted(t *transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		if s.state == slotInFlight && s.streamID == t.job.StreamID && s.sequence <= t.job.Completed {
			r.free(s)
		}
	}
}

// free makes a slot free, or gives it up if it is lost: there may be another one for it then.
// r.mu is held.
func (r *Ring) free(s *slot) {
	if s.owner != nil {
		s.owner.held--
	}
	s.state, s.owner = slotFree, nil
	if s.lost {
		s.state = slotLost
		r.classes[s.class].have--
	}
}

// put frees a taken slot of which the device has no copy in flight.
func (r *Ring) put(s *slot) {
	r.mu.Lock()
	closed := r.closed
	r.free(s)
	r.mu.Unlock()
	if closed {
		_ = r.destroy(s) // an abandoned reader has returned: nobody takes the error
	}
}

// submit leaves a taken slot to the device, until the event of the slot completes.
func (r *Ring) submit(s *slot) {
	r.mu.Lock()
	closed := r.closed
	s.state, s.stream, s.streamID = slotInFlight, s.owner.job.Stream, s.owner.job.StreamID
	s.sequence = r.submitted.Add(1)
	if i := slices.Index(r.slots, s); i >= 0 {
		r.slots = append(slices.Delete(r.slots, i, i+1), s)
	}
	r.mu.Unlock()
	if closed {
		_ = r.destroy(s) // as in put; the device is done with it
	}
}

// awaitOldest waits on an emulated device until a slot for t becomes free. It waits for the
// oldest copy of t or of its stream. If there is none, other transfers have all slots.
func (r *Ring) awaitOldest(t *transfer) error {
	r.mu.Lock()
	i := slices.IndexFunc(r.slots, t.canAwait)
	if i < 0 && !t.mayYield {
		i = slices.IndexFunc(r.slots, func(s *slot) bool { return s.state == slotInFlight })
	}
	if i < 0 {
		r.mu.Unlock()
		if t.mayYield {
			return ErrBusy
		}
		time.Sleep(time.Millisecond) // readers and writers have all slots
		return nil
	}
	e := r.slots[i].event
	r.mu.Unlock()
	return r.awaitEvent(t.ctx, e)
}

// awaitEvent waits until the event of a slot has completed or ctx ends.
func (r *Ring) awaitEvent(ctx context.Context, e cu.Event) error {
	if ctx.Done() == nil {
		return r.driver.EventSynchronize(r.ctx, e)
	}
	done := make(chan error, 1)
	go func() { done <- r.driver.EventSynchronize(r.ctx, e) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
