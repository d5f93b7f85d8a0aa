package softgpu

import (
	"container/heap"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// forever is the time limit of a wait without a limit.
var forever = math.Inf(1)

// timeline places operations in virtual time. It is a discrete-event simulation
// that runs only when a call needs the time, up to that time. Work that arrives
// later cannot change its results, because work arrives at the time of the
// host's clock, which is never behind.
//
// Running operations share bandwidth. Each has a time that it takes alone, and
// a fraction of each resource that it uses during that time. Together they slow
// down so that no resource gives more than it has.
type timeline struct {
	now     float64
	updated float64 // when remaining of the running ops was last set; nothing started or retired since
	held    []*op   // ready and without an engine, but kept by a dependency check
	pending opHeap  // arrived, and all dependencies retired; by the time at which they can start
	running []*op   // by the time at which they started

	steps   uint64 // taken in all
	look    int    // steps between two looks at the limit: clockLook, but in tests
	most    uint64 // in tests: the most steps; else 0
	stopped bool   // by the limit or an interrupt: the clock stands, and the devices are lost
}

// admit lets o arrive now, at the host's time.
func (t *timeline) admit(d *Driver, o *op) {
	o.arrived = true
	o.arrive = max(d.host, t.now)
	if o.work.arrive != nil {
		o.work.arrive(o)
	}
	o.ready = max(o.ready, o.arrive)
	if !o.noLatency {
		o.ready = max(o.ready, o.arrive+d.prof.Queue.Start.Value)
	}
	if e := o.engine(); e != nil && e.fifo {
		e.queue = append(e.queue, o)
	}
	if o.unretiredDeps == 0 {
		heap.Push(&t.pending, o)
	}
}

// run advances to the time limit, or until target is retired, or until no
// further event is known, or until the limit stops the clock. If it needs the cost of an op that the schedule has
// not released, it ends there and returns that op. The caller holds mu, which is
// released during the wait.
func (t *timeline) run(d *Driver, limit float64, target *op) (lacks *op) {
	for steps := (clockSteps{d: d}); steps.next(); {
		t.startDue(d)
		if target != nil && target.retired {
			return nil
		}
		if o := t.nextUnpriced(); o != nil {
			if !o.released {
				return o
			}
			d.boundedWait(o)
			steps = clockSteps{d: d}
			continue
		}
		next := t.next()
		if math.IsInf(next, 1) && t.startBeside(d) {
			continue
		}
		if next > limit {
			if limit > t.now {
				t.advance(limit)
			}
			return nil
		}
		if math.IsInf(next, 1) {
			return nil
		}
		t.advance(next)
	}
	return nil
}

// nextUnpriced returns a running op whose cost is not known yet, but is worth
// waiting for.
func (t *timeline) nextUnpriced() *op {
	for _, o := range t.running {
		if !o.done && !o.timedOut && !o.waitsForRank() {
			return o
		}
	}
	return nil
}

// waitsForHost reports whether an op runs that has timed out, or that waits for a rank which has not called.
func (t *timeline) waitsForHost() bool {
	return slices.ContainsFunc(t.running, func(o *op) bool { return o.timedOut && !o.priced || o.waitsForRank() })
}

// startDue starts all ops that can start now. It ends when no op has started or
// retired, because each of these can let others start.
func (t *timeline) startDue(d *Driver) {
	for again := true; again; {
		again = false
		for len(t.pending) > 0 && t.pending[0].ready <= t.now {
			o := heap.Pop(&t.pending).(*op)
			switch e := o.engine(); {
			case e == nil && o.held():
				t.held = append(t.held, o)
			case e == nil:
				t.start(o)
			case !e.fifo:
				e.queue = append(e.queue, o)
			}
			again = true
		}
		again = t.markBegun() || again
		again = t.startHeld() || again
		for _, dev := range d.devices {
			again = dev.engines.start(t, false) || again
		}
		again = t.price() || again
	}
}

// startBeside starts the ops that only an exchange keeps from starting which has run and waits for the start
// of another one, and reports whether there were any. It is for a standstill: two exchanges of two
// contexts can be in another order on each device.
func (t *timeline) startBeside(d *Driver) bool {
	any := false
	for _, dev := range d.devices {
		any = dev.engines.start(t, true) || any
	}
	return any
}

// startHeld starts the ops without an engine whose dependency checks have ended,
// and reports whether there were any.
func (t *timeline) startHeld() bool {
	before := t.held
	t.held = nil
	for _, o := range before {
		if o.held() {
			t.held = append(t.held, o)
		} else {
			t.start(o)
		}
	}
	return len(t.held) < len(before)
}

// start starts o now.
func (t *timeline) start(o *op) {
	t.update()
	o.started = true
	o.start = t.now
	o.work.exchange.arrives(o)
	o.noteStart()
	t.running = append(t.running, o)
	t.price()
}

// price finds the cost of running ops that are done, and retires those without
// remaining cost. It reports whether there were any.
func (t *timeline) price() bool {
	any := false
	for i := 0; i < len(t.running); i++ {
		o := t.running[i]
		if !o.done || o.priced || o.apart() {
			continue
		}
		t.update()
		o.priced = true
		if o.work.price != nil && o.err == nil && o.ctx.poison == nil {
			o.cost = o.work.price(o)
		} else if o.work.price != nil && o.kernel != nil {
			o.cost = o.work.price(o) // the cost up to its failure
		}
		o.cost = o.cost.bounded()
		o.remaining = max(0, o.cost.ns-(t.now-o.start))
		if o.timedOut {
			o.remaining = 0 // it has waited for the host in the meantime
		}
		if o.remaining == 0 {
			t.running = slices.Delete(t.running, i, i+1)
			t.retire(o)
			i = -1
			any = true
		}
	}
	return any
}

// next returns the time of the next event.
func (t *timeline) next() float64 {
	next := forever
	if len(t.pending) > 0 {
		next = t.pending[0].ready
	}
	for _, o := range t.running {
		if o.priced {
			next = min(next, t.endOf(o), t.begins(o))
		}
	}
	return next
}

// endOf returns when o, which is priced, ends if nothing else starts or ends.
func (t *timeline) endOf(o *op) float64 { return t.updated + o.remaining*t.slowdown(o) }

// update sets what remains of the running ops now. It is called only when their
// speeds change. Otherwise rounding would depend on how often calls ask for the
// time.
func (t *timeline) update() {
	if t.now == t.updated {
		return
	}
	slow := make([]float64, len(t.running))
	for i, o := range t.running {
		slow[i] = t.slowdown(o)
	}
	for i, o := range t.running {
		if o.priced {
			o.remaining = max(0, o.remaining-(t.now-t.updated)/slow[i])
		}
	}
	t.updated = t.now
}

// advance moves to a time at or before the next event.
func (t *timeline) advance(to float64) {
	var ended []*op
	for _, o := range t.running {
		if o.priced && t.endOf(o) <= to {
			ended = append(ended, o)
		}
	}
	t.now = to
	if len(ended) == 0 {
		return
	}
	t.update()
	t.running = slices.DeleteFunc(t.running, func(o *op) bool { return slices.Contains(ended, o) })
	for _, o := range ended {
		t.retire(o)
	}
}

// retire ends o now. The ops that follow it may become ready.
func (t *timeline) retire(o *op) {
	o.end = t.now
	o.retired = true
	o.noteEnd()
	o.ctx.drv.unretired--
	if o.work.retire != nil && o.err == nil {
		o.work.retire(o)
	}
	if e := o.engine(); e != nil {
		e.remove(o)
	}
	o.ctx.recordRetired(o)
	for _, next := range slices.Concat(o.succs, o.later) {
		next.unretiredDeps--
		next.ready = max(next.ready, next.earliestStart(o))
		next.noteVisible(o)
		if next.unretiredDeps == 0 && next.arrived {
			heap.Push(&t.pending, next)
		}
	}
	o.dropLinks()
}

// slowdown returns how many times longer o takes because of the ops that run at
// the same time.
func (t *timeline) slowdown(o *op) float64 {
	dev := o.work.dev
	if len(t.running) == 1 || dev == nil {
		return 1
	}
	var sum [numResources]float64
	var link linkUse
	for _, other := range t.running {
		if other.work.dev != dev {
			continue
		}
		factor := t.oversubscription(other)
		for r, use := range other.cost.use {
			sum[r] += use / factor
		}
		link.add(other, factor)
	}
	slow := t.oversubscription(o)
	if o.cost.use[resMemory] > 0 {
		slow *= max(1, sum[resMemory])
	}
	if o.cost.use[resIn] > 0 || o.cost.use[resOut] > 0 {
		in, out := sum[resIn], sum[resOut]
		slow *= max(1, max(in, out)+link.duplex(&dev.drv.prof.Link)*min(in, out))
	}
	return slow
}

// linkUse is the use of the link by the operations that run at once: towards the device and
// away from it, by kernels and by copies.
type linkUse struct {
	kernelsIn, kernelsOut, copiesIn, copiesOut float64
}

func (u *linkUse) add(o *op, factor float64) {
	in, out := o.cost.use[resIn]/factor, o.cost.use[resOut]/factor
	if o.work.launch != nil {
		u.kernelsIn += in
		u.kernelsOut += out
	} else {
		u.copiesIn += in
		u.copiesOut += out
	}
}

// duplex returns the cost of traffic in both directions, the mean over all pairs of traffic
// in and out. PCI Express lets no request for a read pass a write. A kernel's writes fill the
// queue before such requests, so a copy to the device waits for them.
func (u *linkUse) duplex(link *profile.Link) float64 {
	all := (u.kernelsIn + u.copiesIn) * (u.kernelsOut + u.copiesOut)
	if all == 0 {
		return link.Duplex.Value
	}
	writes, reads := u.copiesIn*u.kernelsOut, u.kernelsIn*u.copiesOut
	return (orElse(link.KernelWrites, link.Duplex)*writes + orElse(link.KernelReads, link.Duplex)*reads + link.Duplex.Value*(all-writes-reads)) / all
}

// oversubscription returns how many times longer a kernel takes because kernels
// of higher priority occupy the multiprocessors.
func (t *timeline) oversubscription(o *op) float64 {
	l := o.work.launch
	if l == nil {
		return 1
	}
	left := 1.0
	for _, other := range t.running {
		if other.work.dev == o.work.dev && other.priority < o.priority {
			left -= other.units()
		}
	}
	const least = 0.01 // so that it never stops altogether
	return max(1, l.units/max(left, least))
}

// opHeap orders ops by the time at which they can start, then as they were
// queued.
type opHeap []*op

func (h opHeap) Len() int { return len(h) }

func (h opHeap) Less(i, j int) bool {
	if h[i].ready != h[j].ready {
		return h[i].ready < h[j].ready
	}
	return h[i].id < h[j].id
}

func (h opHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *opHeap) Push(x any) { *h = append(*h, x.(*op)) }

func (h *opHeap) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}

// engineKind is the engine that an operation occupies while it runs.
type engineKind uint8

const (
	engineNone    engineKind = iota // none: a mark in a stream
	engineHost                      // a thread of the driver
	engineCompute                   // the multiprocessors
	engineIn                        // a copy engine, towards the device
	engineOut                       // a copy engine, away from the device
	enginePeer                      // a copy engine, between devices
)

// engines are the engines of a device.
//
// Without copy engines, copies use the compute engine. A single copy engine
// serves both directions. With two, each direction has its own. A third serves
// copies between devices.
type engines struct {
	list []*engine
	by   [enginePeer + 1]*engine
}

// engine serves a queue of operations. A copy engine runs one at a time, the
// compute engine as many kernels as fit.
type engine struct {
	dev        *device
	compute    bool
	maxKernels int // at once
	// fifo is a single hardware queue. Operations start in the order in which
	// they were issued. An operation that has to wait blocks all behind it.
	// Without it every stream has its own queue, and any op that is ready can
	// start.
	fifo    bool
	queue   []*op
	running []*op

	started, ended uint64 // the last ops that started and ended, by id, for observers
	startedAt      float64
	endedAt        float64
}

// newEngines makes the engines that the attributes describe.
func newEngines(dev *device) *engines {
	fifo := dev.oneQueue()
	many := 1
	if dev.attr(cu.DeviceAttributeConcurrentKernels) != 0 {
		many = 128
		if fifo {
			many = 16
		}
	}
	s := &engines{}
	add := func(compute bool) *engine {
		e := &engine{dev: dev, compute: compute, maxKernels: many, fifo: fifo}
		s.list = append(s.list, e)
		return e
	}
	s.by[engineCompute] = add(true)
	switch n := dev.attr(cu.DeviceAttributeAsyncEngineCount); {
	case n <= 0:
		s.by[engineIn], s.by[engineOut], s.by[enginePeer] = s.list[0], s.list[0], s.list[0]
	case n == 1:
		e := add(false)
		s.by[engineIn], s.by[engineOut], s.by[enginePeer] = e, e, e
	default:
		s.by[engineIn], s.by[engineOut] = add(false), add(false)
		s.by[enginePeer] = s.by[engineOut]
		if n > 2 {
			s.by[enginePeer] = add(false)
		}
	}
	return s
}

// start starts the ops that can start now, and reports whether there were any. With beside, exchanges that
// have run and wait for the start of another one occupy nothing.
func (s *engines) start(t *timeline, beside bool) bool {
	any := false
	for _, e := range s.list {
		for {
			o := e.choose(t.now, beside)
			if o == nil {
				break
			}
			e.queue = slices.DeleteFunc(e.queue, func(x *op) bool { return x == o })
			e.running = append(e.running, o)
			t.start(o)
			any = true
		}
	}
	return any
}

// choose returns the op to start next, nil if none can.
func (e *engine) choose(now float64, beside bool) *op {
	if e.fifo {
		if len(e.queue) == 0 {
			return nil
		}
		head := e.queue[0]
		if head.unretiredDeps > 0 || head.ready > now || head.held() || !e.fits(head, beside) {
			return nil
		}
		return head
	}
	var best *op
	for _, o := range e.queue {
		if e.fits(o, beside) && (best == nil || o.before(best)) {
			best = o
		}
	}
	return best
}

// fits reports whether o can run beside the running ops. A kernel with a higher
// priority than all of them always fits, because it takes their
// multiprocessors.
func (e *engine) fits(o *op, beside bool) bool {
	running := e.running
	if beside {
		running = slices.DeleteFunc(slices.Clone(running), func(r *op) bool { return r.done && r.apart() })
	}
	if len(running) == 0 {
		return true
	}
	if !e.compute || len(running) >= e.maxKernels || o.work.engine != engineCompute {
		return false
	}
	units, first := o.units(), true
	for _, r := range running {
		if r.timedOut { // it waits for the host, and counts as idle
			continue
		}
		if r.ctx != o.ctx || r.work.engine != engineCompute {
			return false
		}
		units += r.units()
		first = first && o.priority < r.priority
	}
	return units <= 1 || first
}

// remove removes a retired op from the engine.
func (e *engine) remove(o *op) {
	e.running = slices.DeleteFunc(e.running, func(x *op) bool { return x == o })
}
