package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// engineKind is what an operation occupies while it runs.
type engineKind uint8

const (
	engineNone    engineKind = iota // nothing: a mark in a stream
	engineHost                      // a thread of the driver
	engineCompute                   // the multiprocessors
	engineIn                        // a copy engine, towards the device
	engineOut                       // away from it
	enginePeer                      // between devices
)

// engines are those of a device.
//
// With no copy engine, copies take the place of kernels; with one, it serves
// both directions; with more, each direction has its own, and a third serves
// copies between devices.
type engines struct {
	list []*engine
	by   [enginePeer + 1]*engine
}

// engine serves a queue of operations: copy engines one at a time, the compute
// engine as many kernels as fit.
type engine struct {
	dev     *device
	compute bool
	many    int // kernels at once
	// fifo: one hardware queue, so operations start in the order in which they
	// were issued and one that has to wait holds back all behind it. Without it
	// every stream has a queue of its own, and what is ready goes.
	fifo    bool
	queue   []*op
	running []*op
}

// newEngines reads the attributes.
func newEngines(dev *device) *engines {
	// Compute capability 3.5 brought a hardware queue for each stream.
	fifo := dev.attr(cu.DeviceAttributeComputeCapabilityMajor)*10+dev.attr(cu.DeviceAttributeComputeCapabilityMinor) < 35
	many := 1
	if dev.attr(cu.DeviceAttributeConcurrentKernels) != 0 {
		many = 128
		if fifo {
			many = 16
		}
	}
	s := &engines{}
	add := func(compute bool) *engine {
		e := &engine{dev: dev, compute: compute, many: many, fifo: fifo}
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

// engine is what o occupies, nil for nothing.
func (o *op) engine() *engine {
	if o.work.dev == nil {
		return nil
	}
	return o.work.dev.engines.by[o.work.engine]
}

// start starts what can start now and says whether anything did.
func (s *engines) start(t *timeline) bool {
	any := false
	for _, e := range s.list {
		for {
			o := e.choose(t.now)
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

// choose is the op to start next, nil if none can.
func (e *engine) choose(now float64) *op {
	if e.fifo {
		if len(e.queue) == 0 {
			return nil
		}
		head := e.queue[0]
		if head.simWait > 0 || head.ready > now || !e.fits(head) {
			return nil
		}
		return head
	}
	var best *op
	for _, o := range e.queue {
		if e.fits(o) && (best == nil || o.before(best)) {
			best = o
		}
	}
	return best
}

// before is the order of service: priority, then readiness, then issue.
func (o *op) before(p *op) bool {
	if o.priority != p.priority {
		return o.priority < p.priority
	}
	if o.ready != p.ready {
		return o.ready < p.ready
	}
	return o.id < p.id
}

// fits says whether o can run beside what runs. A kernel of higher priority than
// all that run needs no room: it takes theirs.
func (e *engine) fits(o *op) bool {
	if len(e.running) == 0 {
		return true
	}
	if !e.compute || len(e.running) >= e.many || o.work.engine != engineCompute {
		return false
	}
	units, first := o.units(), true
	for _, r := range e.running {
		if r.long { // it waits for the host, and gives way
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

// units is the part of the multiprocessors that a kernel fills.
func (o *op) units() float64 {
	if o.work.launch == nil {
		return 0
	}
	return o.work.launch.units
}

// leave takes a retired op off the engine.
func (e *engine) leave(o *op) {
	e.running = slices.DeleteFunc(e.running, func(x *op) bool { return x == o })
}
