package softgpu

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Exchange is what one rank of a communicator does in a stream: it reads memory, talks with other
// ranks, and writes memory. Package nccl makes them. As NCCL's kernels do, it occupies the compute
// engine, beside other kernels of its context.
type Exchange struct {
	Name    string // for messages and observers, such as "all-reduce"
	Context cu.Context
	Stream  cu.Stream
	Reads   []Range
	Writes  []Range

	// Run does it, without a lock. It returns the virtual time that it takes from the start of the
	// last of its ranks. An error is the caller's affair: the stream goes on, and the context
	// stays usable. Run must return soon after Context of its argument is done.
	Run func(*Running) (time.Duration, error)
	// Dropped is called, on a goroutine of its own, if Run never will be, because the device is lost. It may be nil.
	Dropped func()
	// Meetings are where it meets exchanges of the same driver in virtual time.
	Meetings []*Meeting
}

// Range is a part of memory by its device address.
type Range struct {
	Address cu.DevicePtr
	Bytes   uintptr
}

// Meeting makes exchanges that belong together end at the same virtual time: their duration counts
// from the start of the last one.
type Meeting struct {
	members int
	started int     // guarded by Driver.mu
	latest  float64 // virtual time of the last start
}

// NewMeeting returns a meeting of a number of exchanges. All must be queued in one driver, or Run of those
// that are must return an error.
func NewMeeting(members int) *Meeting { return &Meeting{members: members} }

// QueuedExchange is an exchange that waits in its stream, runs, or has run.
type QueuedExchange struct {
	o    *op
	name string
}

// Running is an exchange that runs. Its methods are safe for concurrent use.
type Running struct {
	e   *exchanging
	o   *op
	ctx context.Context
}

// exchanging is an exchange with what its operation has beside it. Driver.mu guards what follows x,
// reads and writes.
type exchanging struct {
	x             *Exchange
	reads, writes []span

	waiting int                     // parts of Run that wait for ranks of which the driver has no operation
	wants   []*op                   // operations that it waits for and that nobody has started
	watched int                     // calls of awaitExchange, which start the operations in wants
	woken   chan struct{}           // closed when waiting or wants change; nil while nobody waits
	moves   uint64                  // how often it has used memory, or begun or ended a wait
	stop    context.CancelCauseFunc // while it runs
	ran     bool                    // Run has begun
	ns      float64                 // what Run returned
	failed  bool                    // Run returned an error, so that nobody may come to the meetings
	fault   error                   // of the memory that it used
}

// errDeviceLost stops exchanges when another operation loses the devices: the ranks that they wait
// for may never run.
var errDeviceLost = errors.New("the device is lost")

// CheckExchange returns the error with which Exchange would refuse exchanges, for callers that queue in several
// drivers.
func (d *Driver) CheckExchange(list []*Exchange) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := d.beginIn(list[0].Context, list[0].Name); err != nil {
		return err
	}
	defer d.mu.Unlock()
	for _, x := range list {
		if _, _, err := d.resolveExchange(x); err != nil {
			return err
		}
	}
	return nil
}

// Exchange queues exchanges, all or none, each in its stream. Streams that capture refuse them.
func (d *Driver) Exchange(list []*Exchange) ([]*QueuedExchange, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if _, err := d.beginIn(list[0].Context, list[0].Name); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	streams, works := make([]*streamState, len(list)), make([]*work, len(list))
	for i, x := range list {
		s, e, err := d.resolveExchange(x)
		if err != nil {
			return nil, err
		}
		streams[i], works[i] = s, e.work(s.ctx.dev)
	}
	queued := make([]*QueuedExchange, len(list))
	for i, w := range works {
		d.spend(d.prof.Calls.Launch.Value)
		o, err := streams[i].enqueue(w, w.what)
		if err != nil { // resolveExchange has found all reasons
			panic("BUG: " + err.Error())
		}
		queued[i] = &QueuedExchange{o, w.what}
	}
	return queued, nil
}

// resolveExchange finds the stream and the memory of x, and refuses what its operation could not use.
func (d *Driver) resolveExchange(x *Exchange) (*streamState, *exchanging, error) {
	c, err := d.context(x.Context, x.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := c.alive(x.Name); err != nil {
		return nil, nil, err
	}
	s, err := c.ownStream(x.Stream, x.Name)
	if err != nil {
		return nil, nil, err
	}
	if s.capture != nil {
		s.capture.invalidate()
		return nil, nil, refuse(cu.ErrorStreamCaptureUnsupported, x.Name, "the stream captures, and graphs of the software GPU have no nodes of communicators")
	}
	if err := s.mayRun(x.Name); err != nil {
		return nil, nil, err
	}
	e := &exchanging{x: x}
	if e.reads, err = s.exchangeSpans(x.Reads, false, x.Name+": what it reads"); err != nil {
		return nil, nil, err
	}
	e.writes, err = s.exchangeSpans(x.Writes, true, x.Name+": what it writes")
	return s, e, err
}

func (s *streamState) exchangeSpans(list []Range, write bool, what string) ([]span, error) {
	spans := make([]span, len(list))
	for i, r := range list {
		if r.Bytes == 0 {
			continue
		}
		p, err := s.exchangeSpan(r, write, what)
		if err != nil {
			return nil, err
		}
		spans[i] = p
	}
	return spans, nil
}

// exchangeSpan returns a span that kernels of the context of s may use.
func (s *streamState) exchangeSpan(at Range, write bool, what string) (span, error) {
	p, err := s.ctx.resolve(uint64(at.Address), nil, uint64(at.Bytes), sideDevice, what)
	if err != nil {
		return span{}, err
	}
	p.by = s.ctx.dev
	if err := p.closed(what, write); err != nil {
		return span{}, err
	}
	switch r := p.region; {
	case r.kind.onHost() && r.device == 0:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is page-locked memory that is not mapped for kernels", uint64(at.Address))
	case write && r.kind == kindRegistered && r.reg&cu.MemHostRegisterReadOnly != 0:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is registered as read-only", uint64(at.Address))
	case !r.kind.onHost() && r.kind != kindPool && r.kind != kindMapped && r.dev != s.ctx.dev && !s.ctx.peers[r.ctx]:
		return span{}, refuse(cu.ErrorInvalidValue, what, "%#x is memory of device %d, and the stream's context, of device %d, has no peer access to it",
			uint64(at.Address), r.dev.ordinal, s.ctx.dev.ordinal)
	}
	return p, nil
}

// work returns the operation.
func (e *exchanging) work(dev *device) *work {
	w := &work{
		kind:     cu.GraphNodeTypeKernel,
		what:     e.x.Name,
		engine:   engineCompute,
		dev:      dev,
		run:      e.run,
		done:     func(*op) { e.done() },
		price:    e.price,
		exchange: e,
	}
	if raceBuild {
		w.touches = func(record func([]byte, bool)) {
			e.each(func(p span, write bool) { record(p.all(), write) })
		}
	}
	if dev.drv.races {
		w.spans = func(record func(span, uint64, uint64, kernelrace.Kind)) {
			e.each(func(p span, write bool) {
				kind := kernelrace.Kind(0)
				if write {
					kind = kernelrace.Write
				}
				record(p, 0, p.n, kind)
			})
		}
	}
	return w
}

func (e *exchanging) each(f func(p span, write bool)) {
	for _, p := range e.reads {
		if p.n > 0 {
			f(p, false)
		}
	}
	for _, p := range e.writes {
		if p.n > 0 {
			f(p, true)
		}
	}
}

// run executes the exchange o. Like a wait for a value it ends early when its context is destroyed,
// at an Interrupt and at the limit of kernels. The latter two lose the devices, as with a kernel.
func (e *exchanging) run(o *op) error {
	d, began := o.ctx.drv, time.Now()
	limited, cancel := d.withKernelLimit(o.ctx.kernelCtx)
	defer cancel()
	ctx, stop := context.WithCancelCause(limited)
	defer stop(nil)
	d.mu.Lock()
	e.stop, e.ran = stop, true
	d.exchanges[e] = struct{}{}
	if d.loss.poison != nil {
		stop(errDeviceLost)
	}
	d.mu.Unlock()
	took, err := e.x.Run(&Running{e, o, ctx})
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.exchanges, e)
	e.ns, e.failed = float64(max(0, took)), err != nil
	if cause := context.Cause(limited); err != nil && cause != nil {
		return d.stoppedExchange(e.x.Name, cause, time.Since(began))
	}
	return e.fault
}

// done is called when the operation is done. The caller holds mu.
func (e *exchanging) done() {
	if !e.ran && e.x.Dropped != nil {
		go e.x.Dropped()
	}
}

// stoppedExchange returns the error of an exchange that was stopped.
func (d *Driver) stoppedExchange(what string, cause error, ran time.Duration) error {
	if cause == errDestroyed {
		return &simt.Stopped{Cause: cause}
	}
	f := &cu.Fault{Result: cu.ErrorLaunchTimeout, Op: what}
	if cause == errLimit {
		f.Why = "it waited " + ran.Round(time.Millisecond).String() + " for other ranks, longer than the limit of " + d.limit.String() +
			": let all ranks call, or raise Options.KernelLimit or " + LimitVariable
	} else {
		f.Cause = cause
		f.Why = "it was interrupted after " + ran.Round(time.Millisecond).String() + ": " + cause.Error()
	}
	return f
}

// price returns the time of the exchange o, with its wait for the start of the last rank.
func (e *exchanging) price(o *op) cost {
	latest := o.start
	if !e.failed {
		for _, m := range e.x.Meetings {
			latest = max(latest, m.latest)
		}
	}
	return cost{ns: latest - o.start + e.ns}
}

// arrives notes the start of o in virtual time.
func (e *exchanging) arrives(o *op) {
	if e == nil {
		return
	}
	for _, m := range e.x.Meetings {
		m.started++
		m.latest = max(m.latest, o.start)
	}
}

// apart reports whether o is an exchange whose end is not known, although it is done: another one
// that it meets has not started in virtual time. The caller holds mu.
func (o *op) apart() bool {
	e := o.work.exchange
	if e == nil || e.failed || o.ctx.poison != nil {
		return false
	}
	return slices.ContainsFunc(e.x.Meetings, func(m *Meeting) bool { return m.started < m.members })
}

// waitsForRank reports whether o is an exchange that waits for a rank of which the driver has no
// operation: one that has not called yet, or one of another process. It cannot end before the host
// goes on, so that the clock passes it. The caller holds mu.
func (o *op) waitsForRank() bool {
	e := o.work.exchange
	return e != nil && e.waiting > 0 && !o.done
}

// Context is done when Run must end: its cause says why.
func (r *Running) Context() context.Context { return r.ctx }

// Read returns a copy of the memory of Reads[i].
func (r *Running) Read(i int) ([]byte, error) {
	p := r.e.reads[i]
	if p.n == 0 {
		return nil, nil
	}
	data := make([]byte, p.n)
	err := r.uses(p, func() error {
		src, err := p.bytes(r.e.x.Name)
		if err != nil {
			return err
		}
		moveBytes(data, src)
		return nil
	})
	return data, err
}

// Write writes data to the memory of Writes[i] from an offset on.
func (r *Running) Write(i int, off uint64, data []byte) error {
	p := r.e.writes[i]
	if off > p.n || uint64(len(data)) > p.n-off {
		panic("BUG: an exchange writes past its memory")
	}
	if len(data) == 0 {
		return nil
	}
	return r.uses(p, func() error {
		dst, done, err := p.toWrite(r.e.x.Name, off)
		if err != nil {
			return err
		}
		defer done()
		p.wrote(off, uint64(len(data)))
		moveBytes(dst[off:], data)
		return nil
	})
}

// uses runs f, which uses the memory of p. Only meanwhile the exchange counts as one that can write memory
// of a device: see pauseWriters. An error is also that of the operation.
func (r *Running) uses(p span, f func() error) error {
	d := r.o.ctx.drv
	d.mu.Lock()
	d.parked--
	d.mu.Unlock()
	err := guard(r.e.x.Name, []span{p}, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked++
	r.e.moves++
	if r.e.fault == nil {
		r.e.fault = err
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
	return err
}

// Wait says that Run waits, from now until resume is called, for a rank of which the driver has no
// operation. So other operations go on meanwhile.
func (r *Running) Wait() (resume func()) {
	mu := &r.o.ctx.drv.mu
	mu.Lock()
	defer mu.Unlock()
	r.e.waiting++
	r.e.moves++
	r.e.wake()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		r.e.waiting--
		r.e.moves++
	}
}

// Start starts operations for which Run is going to wait.
func (r *Running) Start(list ...*QueuedExchange) {
	d := r.o.ctx.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range list {
		switch {
		case q.o.ctx.drv != d:
			go q.Start()
		case q.o.released:
		case d.schedule != Random:
			d.releaseUpTo(q.o)
		case r.e.watched > 0: // one at a time, by the call that runs this one
			r.e.wants = append(r.e.wants, q.o)
		default:
			go q.Start()
		}
	}
	r.e.wake()
}

// Start starts the operation, and those that it follows, under every schedule.
func (q *QueuedExchange) Start() {
	d := q.o.ctx.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseUpTo(q.o)
}

// wake wakes those in awaitExchange. The caller holds mu.
func (e *exchanging) wake() {
	if e.woken != nil {
		close(e.woken)
		e.woken = nil
	}
}

// stopExchanges ends the exchanges that run, because the devices are lost. The caller holds mu.
func (d *Driver) stopExchanges() {
	for e := range d.exchanges {
		e.stop(errDeviceLost)
	}
}

// awaitExchange is boundedWait for an exchange. It ends also when o waits for the host, and starts
// the operations that o waits for; others start those that it leaves. The caller holds mu, which is
// released during the wait.
func (d *Driver) awaitExchange(o *op) {
	e := o.work.exchange
	e.watched++
	defer e.unwatch()
	began, seen := time.Now(), e.moves
	for !o.done && !o.timedOut && (e.waiting == 0 || len(e.wants) > 0) {
		if len(e.wants) > 0 {
			next := e.wants[0]
			e.wants = e.wants[1:]
			d.releaseUpTo(next)
			began = time.Now()
			continue
		}
		if e.woken == nil {
			e.woken = make(chan struct{})
		}
		done, woken, timer := o.doneChan(), e.woken, time.NewTimer(o.waitLimit(0))
		d.mu.Unlock()
		select {
		case <-done:
		case <-woken:
		case <-timer.C:
		}
		timer.Stop()
		d.mu.Lock()
		if e.moves != seen {
			began, seen = time.Now(), e.moves
		}
		if !o.done && time.Since(began) > o.waitLimit(0) {
			o.timedOut = true
			if o.ctx.dead {
				o.ctx.cancelKernels(errDestroyed)
			}
		}
	}
}

// unwatch ends a call of awaitExchange. The caller holds mu.
func (e *exchanging) unwatch() {
	if e.watched--; e.watched > 0 {
		return
	}
	for _, o := range e.wants {
		go (&QueuedExchange{o: o}).Start()
	}
	e.wants = nil
}

// Done is closed when the operation is done: when it has run, or never will because the device is lost.
func (q *QueuedExchange) Done() <-chan struct{} {
	mu := &q.o.ctx.drv.mu
	mu.Lock()
	defer mu.Unlock()
	return q.o.doneChan()
}

// String returns the name of the exchange.
func (q *QueuedExchange) String() string { return q.name }
