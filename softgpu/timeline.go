package softgpu

import (
	"container/heap"
	"math"
	"slices"
)

// forever is the time limit of a wait.
var forever = math.Inf(1)

// timeline places operations in virtual time: a discrete-event simulation that
// goes on only when somebody asks, up to the time asked about. Nothing that
// arrives later can change what it has found out, because the host's clock,
// at which work arrives, is never behind.
//
// Running operations share bandwidth: each has a time that it takes alone and
// the part of each resource that it uses then, and together they slow down so
// that no resource gives more than it has.
type timeline struct {
	now     float64
	pending opHeap // arrived, all they follow retired; by the time they can start
	running []*op  // by the time they started
}

// cost is what an operation takes alone.
type cost struct {
	ns  float64
	use [numResources]float64 // part of what the device's resource can give
}

type resource int

const (
	resMemory resource = iota // the device's own memory
	resIn                     // the link towards the device
	resOut                    // and away from it
	numResources
)

// admit lets o arrive now, at the host's time.
func (t *timeline) admit(d *Driver, o *op) {
	o.arrived = true
	o.arrive = max(d.host, t.now)
	o.ready = max(o.ready, o.arrive)
	if !o.bare {
		o.ready = max(o.ready, o.arrive+d.prof.Queue.Start.Value)
	}
	if e := o.engine(); e != nil && e.fifo {
		e.queue = append(e.queue, o)
	}
	if o.simWait == 0 {
		heap.Push(&t.pending, o)
	}
}

// run goes on to the time limit, or until target is retired, or until nothing
// more can be known. mu is held, let go of and taken again.
func (t *timeline) run(d *Driver, limit float64, target *op) {
	for {
		t.startDue(d)
		if target != nil && target.retired {
			return
		}
		if o := t.unknown(); o != nil {
			d.bearWith(o)
			continue
		}
		next := t.next()
		if next > limit {
			if limit > t.now {
				t.advance(limit)
			}
			return
		}
		if math.IsInf(next, 1) {
			return
		}
		t.advance(next)
	}
}

// unknown is a running op whose cost is not known yet but soon will be.
func (t *timeline) unknown() *op {
	for _, o := range t.running {
		if !o.done && !o.long {
			return o
		}
	}
	return nil
}

// waitsForHost says whether something runs that has outlasted our patience.
func (t *timeline) waitsForHost() bool {
	return slices.ContainsFunc(t.running, func(o *op) bool { return o.long && !o.priced })
}

// startDue starts all that can start now.
func (t *timeline) startDue(d *Driver) {
	for again := true; again; {
		again = false
		for len(t.pending) > 0 && t.pending[0].ready <= t.now {
			o := heap.Pop(&t.pending).(*op)
			switch e := o.engine(); {
			case e == nil:
				t.start(o)
			case !e.fifo:
				e.queue = append(e.queue, o)
			}
			again = true
		}
		for _, dev := range d.devices {
			again = dev.engines.start(t) || again
		}
		t.price()
	}
}

// start begins o now.
func (t *timeline) start(o *op) {
	o.started = true
	o.start = t.now
	t.running = append(t.running, o)
	t.price()
}

// price finds the cost of running ops that are really done, and retires those
// that cost nothing.
func (t *timeline) price() {
	for i := 0; i < len(t.running); i++ {
		o := t.running[i]
		if !o.done || o.priced {
			continue
		}
		o.priced = true
		if o.work.price != nil && o.err == nil && o.ctx.poison == nil {
			o.cost = o.work.price(o)
		} else if o.work.price != nil && o.kernel != nil {
			o.cost = o.work.price(o) // what it did before it failed
		}
		o.left = max(0, o.cost.ns-(t.now-o.start))
		if o.long {
			o.left = 0 // what it did meanwhile was to wait for the host
		}
		if o.left == 0 {
			t.running = slices.Delete(t.running, i, i+1)
			t.retire(o)
			i = -1
		}
	}
}

// next is the time of the next thing to happen.
func (t *timeline) next() float64 {
	next := forever
	if len(t.pending) > 0 {
		next = t.pending[0].ready
	}
	for _, o := range t.running {
		if o.priced {
			next = min(next, t.now+o.left*t.slowdown(o))
		}
	}
	return next
}

// advance moves to a time at or before the next thing to happen.
func (t *timeline) advance(to float64) {
	var ended []*op
	slow := make([]float64, len(t.running))
	for i, o := range t.running {
		slow[i] = t.slowdown(o)
	}
	for i, o := range t.running {
		if !o.priced {
			continue
		}
		if t.now+o.left*slow[i] <= to {
			ended = append(ended, o)
		} else {
			o.left -= (to - t.now) / slow[i]
		}
	}
	t.now = to
	t.running = slices.DeleteFunc(t.running, func(o *op) bool { return slices.Contains(ended, o) })
	for _, o := range ended {
		t.retire(o)
	}
}

// retire ends o now: what follows it may become ready.
func (t *timeline) retire(o *op) {
	o.end = t.now
	o.retired = true
	o.ctx.drv.unretired--
	if e := o.engine(); e != nil {
		e.leave(o)
	}
	o.ctx.deliver(o)
	for _, next := range o.succs {
		next.simWait--
		next.ready = max(next.ready, next.after(o))
		if next.simWait == 0 && next.arrived {
			heap.Push(&t.pending, next)
		}
	}
	o.forget()
}

// slowdown is how many times longer o takes beside what runs with it.
func (t *timeline) slowdown(o *op) float64 {
	dev := o.work.dev
	if len(t.running) == 1 || dev == nil {
		return 1
	}
	var sum [numResources]float64
	for _, other := range t.running {
		if other.work.dev != dev {
			continue
		}
		crowd := t.crowding(other)
		for r, use := range other.cost.use {
			sum[r] += use / crowd
		}
	}
	slow := t.crowding(o)
	if o.cost.use[resMemory] > 0 {
		slow *= max(1, sum[resMemory])
	}
	if o.cost.use[resIn] > 0 || o.cost.use[resOut] > 0 {
		in, out := sum[resIn], sum[resOut]
		slow *= max(1, max(in, out)+dev.drv.prof.Link.Duplex.Value*min(in, out))
	}
	return slow
}

// crowding is how many times longer a kernel takes because kernels of higher
// priority have its multiprocessors.
func (t *timeline) crowding(o *op) float64 {
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
	const least = 0.01 // it never stops altogether
	return max(1, l.units/max(left, least))
}

// opHeap orders ops by the time they can start, then as they were queued.
type opHeap []*op

func (h opHeap) Len() int { return len(h) }
func (h opHeap) Less(i, j int) bool {
	if h[i].ready != h[j].ready {
		return h[i].ready < h[j].ready
	}
	return h[i].id < h[j].id
}
func (h opHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *opHeap) Push(x any)   { *h = append(*h, x.(*op)) }
func (h *opHeap) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}
