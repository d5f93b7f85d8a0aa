package softgpu

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

var _ cu.Observable = (*Driver)(nil)

// moved is what a work copies or fills, for observers.
type moved struct {
	bytes    uint64
	from, to string
}

// memoryName returns the kind of memory of the span, for observers.
func (p span) memoryName() string {
	if p.region == nil {
		return "pageable"
	}
	return p.region.shownKind().memoryName()
}

func (k kind) memoryName() string {
	switch k {
	case kindManaged:
		return "managed"
	case kindRegistered:
		return "registered"
	case kindHost:
		return "page-locked"
	}
	return "device"
}

// opCause is why an op starts when it does: the reason, and the op that it waited for.
type opCause struct {
	blocked cu.Blocked
	by      uint64
}

// Observe lets o observe all operations that are queued from now on; see
// [cu.Observable].
func (d *Driver) Observe(o cu.Observer) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observer = o
}

// At calls f with the host's virtual time; see [cu.Observable]. Unlike Now it executes no
// operation, so that it does not change what a schedule shows.
func (d *Driver) At(f func(now time.Duration)) {
	if d == nil {
		f(0)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inOrder(func() { f(nanoseconds(d.host)) })
}

// noteQueued reports a new op to the observer. The caller holds mu.
func (o *op) noteQueued() {
	if obs := o.ctx.drv.observer; obs != nil && o.on != engineNone {
		obs.Queued(o.id)
	}
}

// noteOrder keeps dep as the cause of o's start, if o can start later because of it. It
// is called before o.ready is raised. A mark passes on the op that it waited for itself.
func (o *op) noteOrder(dep *op) {
	if o.earliestStart(dep) <= o.ready {
		return
	}
	o.cause = opCause{cu.BlockedByOrder, dep.id}
	if dep.on == engineNone {
		o.cause = dep.cause
	}
}

// noteCheck keeps kernel x as the cause of o's start, if o can start later because of a
// dependency check. It is called before o.ready is raised.
func (o *op) noteCheck(x *op) {
	if o.earliestStart(x) > o.ready {
		o.cause = opCause{cu.BlockedByCheck, x.id}
	}
}

// noteStart settles the cause of o's start, which is now. The first that applies wins: its
// queue, a kernel whose blocks it waited for, a busy engine, a dependency.
func (o *op) noteStart() {
	e := o.engine()
	if e == nil {
		return
	}
	switch {
	case o.start > o.ready && e.fifo && e.startedAt == o.start && e.started != 0:
		o.cause = opCause{cu.BlockedByQueue, e.started}
	case o.start > o.ready && o.heldBy != 0 && e.endedAt != o.start:
		o.cause = opCause{cu.BlockedByCheck, o.heldBy}
	case o.start > o.ready:
		o.cause = opCause{cu.BlockedByEngine, e.ended}
	case o.cause.by != 0 && o.ready > o.arrive+o.startLatency(): // noteOrder or noteCheck has found the dependency
	default: // nothing delayed it
		o.cause = opCause{}
	}
	e.started, e.startedAt = o.id, o.start
}

// startLatency is the time from the arrival of o until it can start at the earliest.
func (o *op) startLatency() float64 {
	if o.noLatency {
		return 0
	}
	return o.ctx.drv.prof.Queue.Start.Value
}

// noteEnd reports that o, which ends now, has its times. Ops that follow it learn that
// they waited for it. The caller holds mu, and has not raised their ready yet.
func (o *op) noteEnd() {
	e := o.engine()
	if e != nil {
		e.ended, e.endedAt = o.id, o.end
	}
	for _, next := range o.succs {
		next.noteOrder(o)
	}
	for _, next := range o.later {
		next.noteCheck(o)
	}
	obs := o.ctx.drv.observer
	if obs == nil || o.on == engineNone {
		return
	}
	x := &cu.Operation{
		ID: o.id, Kind: o.work.kind, Context: o.ctx.handle, Device: cu.Device(o.ctx.dev.ordinal),
		Graph: o.stream == nil, Engine: o.engineName(),
		Bytes: o.work.moved.bytes, From: o.work.moved.from, To: o.work.moved.to,
		Queued: nanoseconds(o.arrive), Start: nanoseconds(o.start), End: nanoseconds(o.end),
		Blocked: o.cause.blocked, BlockedBy: o.cause.by,
	}
	if o.work.dev != nil {
		x.Device = cu.Device(o.work.dev.ordinal)
	}
	if o.stream != nil {
		x.Stream = o.stream.handle
	}
	if o.work.exchange != nil {
		x.Kernel = o.work.what
	}
	if o.work.launch != nil {
		x.Kernel = o.work.launch.fn.name
		if o.parts != nil {
			x.Parts = o.parts.List()
		}
	}
	obs.Ended(x)
}

// engineName returns the name of the engine that o occupies.
func (o *op) engineName() string {
	e := o.engine()
	switch {
	case e == nil && o.on == engineHost:
		return "host"
	case e == nil:
		return ""
	case e.compute:
		return "compute"
	}
	by := &e.dev.engines.by
	switch {
	case by[engineIn] == by[engineOut]:
		return "copy"
	case e == by[engineIn]:
		return "copy in"
	case e == by[engineOut]:
		return "copy out"
	}
	return "copy peer"
}
