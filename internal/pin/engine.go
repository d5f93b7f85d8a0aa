package pin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Driver is the part of [cu.Driver] that page-locks.
type Driver interface {
	MemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error
	MemHostUnregister(ctx cu.Context, p cu.HostPtr) error
}

// Engine page-locks memory for one context. It is safe for concurrent use.
type Engine struct {
	driver  Driver
	ctx     cu.Context
	sys     system
	machine func() *Machine
	now     func() time.Duration
	touches bool // memory is touched; false for a device that is emulated
	set     Settings

	// Keep, if not nil, keeps the context open until end is called. It is for memory that is
	// given back after Lock has returned.
	Keep func() (end func())

	// Left, if not nil, keeps a task for memory that Lock could not give back after it had failed.
	// The task must run until it returns no error.
	Left func(task func() error)

	// Settle, if not nil, waits for the work of the device before memory is unregistered. The
	// driver would wait for it, too, and let nobody else use the context meanwhile. In a host
	// function it returns cu.ErrorNotPermitted.
	Settle func() error

	// Small, if not nil, is called for memory that is touched and large enough for a huge page, and gets
	// small ones: the system has no huge ones, or they were slower in a trial.
	Small func(bytes uintptr)

	// Trial, if not nil, is the Request.Count of trials.
	Trial func(bytes int)

	// Fresh, if not nil, gives new memory the contents that it has on an emulated device.
	Fresh func(start cu.HostPtr, bytes uintptr)

	trials chan struct{} // capacity 1; full during a trial
	mu     sync.Mutex    // guards what follows
	pages  pages
	cost   cost
}

// pages says which page size was faster in a trial.
type pages uint8

const (
	pagesUntried pages = iota
	hugePages          // these were faster
	smallPages
)

// NewEngine makes an engine. It is nil where memory cannot be taken from the system. For
// a device that is emulated, now is its clock: its memory is not touched; emulated returns the
// memory of its host. For hardware, emulated is nil.
func NewEngine(d Driver, ctx cu.Context, now func() time.Duration, emulated func() *Emulated, set Settings) *Engine {
	sys := hostSystem()
	real := sys
	if emulated != nil && (sys == nil || underRace) {
		sys = heap{}
	}
	if sys == nil {
		return nil
	}
	e := &Engine{driver: d, ctx: ctx, sys: sys, machine: sys.machine, now: now, touches: emulated == nil, set: set, trials: make(chan struct{}, 1)}
	if emulated != nil {
		e.machine = func() *Machine { return emulatedMachine(real, emulated()) }
	}
	return e
}

// emulatedMachine returns the limits of an emulated machine: its own memory and NUMA node,
// and what the machine that runs it has free. real is nil where that is not known.
func emulatedMachine(real system, emulated *Emulated) *Machine {
	m := UnknownMachine()
	if real != nil {
		host := real.machine()
		m.Available, m.Group = host.Available, host.Group
	}
	if m.Emulated = emulated; emulated != nil {
		m.Nodes = []Node{{ID: emulated.Node}}
	}
	return m
}

// RefuseEmulated returns why a request cannot succeed on an emulated machine, or nil if no
// reason is known. It is for devices without an engine.
func RefuseEmulated(r Request, emulated *Emulated) *Error {
	return r.refuse(emulatedMachine(hostSystem(), emulated))
}

// Refuse returns why a request cannot succeed, or nil if no reason is known.
func (e *Engine) Refuse(r Request) *Error {
	return r.refuse(e.machine())
}

// Prediction is what page-locking will take.
type Prediction struct {
	Time  time.Duration
	Huge  bool   // on huge pages
	Error *Error // why it cannot succeed; nil if no reason is known
}

// cost is how long a request takes: a fixed time, and a time for each byte. The zero cost
// is not known.
type cost struct {
	fixed, perByte float64 // seconds
}

func (c cost) of(bytes uintptr) time.Duration {
	return time.Duration((c.fixed + c.perByte*float64(bytes)) * float64(time.Second))
}

// Lock takes memory and page-locks it. When ctx ends first, it stops before the next
// registration, and the error wraps ctx.Err(). After an error, and after a panic of
// Request.Progress, nothing is left. But if ctx has ended while the device is busy, memory may
// be given back later, because the driver waits for the device then.
func (e *Engine) Lock(ctx context.Context, r Request) (*Memory, error) {
	machine := e.machine()
	if err := r.refuse(machine); err != nil {
		return nil, err
	}
	huge := e.choosePages(ctx, machine, r)
	begin := e.now()
	m, err := e.lock(ctx, machine, r, huge)
	if !huge && e.touches && e.Small != nil && uint64(r.Bytes) >= machine.HugeBytes {
		e.Small(r.Bytes)
	}
	if err == nil {
		e.learn(r.Bytes, e.now()-begin)
		if e.Fresh != nil {
			e.Fresh(m.start, m.bytes)
		}
	}
	return m, err
}

// lock takes and page-locks memory. huge selects its pages.
func (e *Engine) lock(ctx context.Context, machine *Machine, r Request, huge bool) (*Memory, error) {
	m, err := e.reserve(machine, r, huge)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // Progress panicked, or ended the goroutine
			_ = e.drop(m)
		}
	}()
	err = m.lock(ctx, machine, r, huge)
	returned = true
	if err != nil {
		return nil, errors.Join(err, e.giveBack(ctx, m))
	}
	return m, nil
}

// giveBack closes memory. The driver may wait for the device then, so the end of ctx ends the
// wait, and another goroutine continues.
func (e *Engine) giveBack(ctx context.Context, m *Memory) error {
	if ctx.Done() == nil || m.registered == 0 {
		return e.drop(m)
	}
	end := func() {}
	if e.Keep != nil {
		end = e.Keep()
	}
	return await.Within(ctx, func() error {
		defer end()
		return e.drop(m)
	})
}

// drop closes memory that nobody gets. What the driver does not unregister is left, unless the
// context is lost, which ends registrations.
func (e *Engine) drop(m *Memory) error {
	err := m.Close()
	if err != nil && !refusal.Sticky(err) && m.release != nil && e.Left != nil {
		e.Left(m.Close)
	}
	return err
}

// reserve takes addresses, and advises the system on the pages for them.
func (e *Engine) reserve(machine *Machine, r Request, huge bool) (*Memory, error) {
	align := uintptr(machine.HugeBytes)
	if r.Bytes < align {
		align = pageBytes
	}
	all, err := e.sys.reserve(r.Bytes, align)
	if err != nil {
		return nil, &Error{r.Bytes, r.Node, "the system has no addresses for it (" + err.Error() + ")", "lift the limit of address space (ulimit -v), or take less", cu.ErrorOutOfMemory}
	}
	m := &Memory{e: e, start: all.start, bytes: r.Bytes, part: e.set.MaxRegistration, release: all.release, count: r.Count}
	if m.count == nil {
		m.count = func(int) {}
	}
	if machine.Huge {
		e.sys.advise(m.start, m.bytes, huge)
	}
	if node, ok := machine.Node(r.Node); ok && len(machine.Nodes) > 1 {
		if err := e.sys.prefer(m.start, m.bytes, node); err != nil && r.Strict {
			return nil, errors.Join(&Error{r.Bytes, r.Node, "the system does not place it (" + err.Error() + ")", "ask for another NUMA node, or none", cu.ErrorInvalidValue}, m.Close())
		}
	}
	return m, nil
}

// Predict says how long a request will take, and whether it can succeed. The first time
// it page-locks memory for trial.
func (e *Engine) Predict(r Request) (Prediction, error) {
	machine := e.machine()
	if err := r.refuse(machine); err != nil {
		return Prediction{Error: err}, nil
	}
	_, c := e.known()
	if c.perByte == 0 {
		if err := e.measure(context.Background(), machine, r); err != nil {
			return Prediction{}, fmt.Errorf("trial: %w", err)
		}
	}
	best, c := e.known()
	return Prediction{Time: c.of(r.Bytes), Huge: machine.Huge && best != smallPages && uint64(r.Bytes) >= machine.HugeBytes}, nil
}

// known returns what the engine has measured so far.
func (e *Engine) known() (pages, cost) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pages, e.cost
}

// learn records how long a request took, if it was large enough to be typical.
func (e *Engine) learn(bytes uintptr, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if perByte := (took.Seconds() - e.cost.fixed) / float64(bytes); bytes >= e.set.LargeTrialBytes && perByte > 0 {
		e.cost.perByte = perByte
	}
}

// choosePages reports whether to take huge pages: if the machine has them, unless a trial
// found them slower.
func (e *Engine) choosePages(ctx context.Context, machine *Machine, r Request) bool {
	best, _ := e.known()
	if best == pagesUntried && r.Bytes >= e.set.TrialFrom {
		best = e.tryOnce(ctx, machine, r)
	}
	return machine.Huge && best != smallPages
}

// tryOnce makes a trial, unless another request has made it meanwhile. It ignores errors,
// because the request returns one of its own.
func (e *Engine) tryOnce(ctx context.Context, machine *Machine, r Request) pages {
	if e.lockTrials(ctx) != nil {
		return pagesUntried
	}
	defer e.unlockTrials()
	best, _ := e.known()
	if best == pagesUntried {
		best, _, _ = e.try(ctx, machine, r)
	}
	return best
}

// lockTrials waits until no other goroutine makes a trial, or ctx ends. After nil the caller
// must unlockTrials.
func (e *Engine) lockTrials(ctx context.Context) error {
	select {
	case e.trials <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) unlockTrials() { <-e.trials }

// measure finds how long requests take.
func (e *Engine) measure(ctx context.Context, machine *Machine, r Request) error {
	if err := e.lockTrials(ctx); err != nil {
		return err
	}
	defer e.unlockTrials()
	if _, c := e.known(); c.perByte != 0 {
		return nil
	}
	best, small, err := e.try(ctx, machine, r)
	if err != nil {
		return err
	}
	trial := float64(e.set.TrialBytes)
	c := cost{perByte: small.Seconds() / trial}
	if r.Bytes = e.set.LargeTrialBytes; !e.touches {
		r.Bytes = 2 * e.set.TrialBytes // emulated times are exact
	}
	if r.refuse(machine) == nil {
		large, err := e.timed(ctx, machine, r, best == hugePages)
		if err != nil {
			return err
		}
		if slope := (large - small).Seconds() / (float64(r.Bytes) - trial); slope > 0 {
			c = cost{max(0, small.Seconds()-slope*trial), slope}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cost = c
	return nil
}

// try finds which pages are faster, and how long Settings.TrialBytes take on them.
// e.trials is held.
func (e *Engine) try(ctx context.Context, machine *Machine, r Request) (best pages, took time.Duration, err error) {
	r.Bytes = e.set.TrialBytes
	kinds := []pages{hugePages, smallPages}
	if !machine.Huge {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		t, err := e.timed(ctx, machine, r, kind == hugePages)
		if err != nil {
			return pagesUntried, 0, err
		}
		if best == pagesUntried || t < took {
			best, took = kind, t
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages = best
	return best, took, nil
}

// timed page-locks memory for trial and returns how long that took.
func (e *Engine) timed(ctx context.Context, machine *Machine, r Request, huge bool) (time.Duration, error) {
	r.Progress, r.Count = nil, e.Trial
	begin := e.now()
	m, err := e.lock(ctx, machine, r, huge)
	took := e.now() - begin
	if err != nil {
		return 0, err
	}
	return took, e.giveBack(ctx, m)
}
