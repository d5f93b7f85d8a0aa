package softgpu

import (
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// turns lets the kernels of one context of a device run together, if it can run
// several, and those of another only when they are over. On a device that can preempt kernels, those
// that go on and on lose their turn, like one that spins until another context
// has done something.
type turns struct {
	running []*op
	waiting []*op
	timer   *time.Timer
}

// line lets one op run at a time.
type line struct {
	busy    bool
	waiting []*op
}

// takesTurn lets o execute now, or remembers it for later. mu is held.
func (o *op) takesTurn() bool {
	switch {
	case o.work.launch != nil:
		return o.work.dev.gate(o)
	case o.work.kind == cu.GraphNodeTypeHost:
		hosts := &o.ctx.hosts
		if hosts.busy {
			hosts.waiting = append(hosts.waiting, o)
			return false
		}
		hosts.busy = true
	}
	return true
}

// endsTurn is the end of o: what it kept waiting may run. mu is held.
func (o *op) endsTurn() {
	switch {
	case o.work.launch != nil:
		o.work.dev.leave(o)
	case o.work.kind == cu.GraphNodeTypeHost:
		hosts := &o.ctx.hosts
		hosts.busy = false
		for len(hosts.waiting) > 0 && !hosts.busy {
			next := hosts.waiting[0]
			hosts.waiting = hosts.waiting[1:]
			o.ctx.drv.dispatch(next)
		}
	}
}

// gate is takesTurn of a kernel.
func (dev *device) gate(o *op) bool {
	t := &dev.turns
	alone := dev.attr(cu.DeviceAttributeConcurrentKernels) == 0
	if slices.ContainsFunc(t.running, func(r *op) bool { return (alone || r.ctx != o.ctx) && !r.overstays }) {
		t.waiting = append(t.waiting, o)
		if t.timer == nil && dev.attr(cu.DeviceAttributeComputePreemptionSupported) != 0 {
			t.timer = time.AfterFunc(patience, dev.nextTurn)
		}
		return false
	}
	t.running = append(t.running, o)
	return true
}

// leave is endsTurn of a kernel.
func (dev *device) leave(o *op) {
	t := &dev.turns
	t.running = slices.DeleteFunc(t.running, func(r *op) bool { return r == o })
	if !slices.ContainsFunc(t.running, func(r *op) bool { return !r.overstays }) {
		dev.wakeWaiting()
	}
}

// nextTurn ends the turn of what has run for long enough.
func (dev *device) nextTurn() {
	dev.drv.mu.Lock()
	defer dev.drv.mu.Unlock()
	dev.turns.timer = nil
	for _, o := range dev.turns.running {
		o.overstays = true
	}
	dev.wakeWaiting()
}

func (dev *device) wakeWaiting() {
	t := &dev.turns
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	turn := t.waiting
	t.waiting = nil
	for _, o := range turn {
		dev.drv.dispatch(o)
	}
}
