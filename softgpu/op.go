package softgpu

import (
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
	"github.com/ferrygpu/ferry/softgpu/internal/launchrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// work describes an operation. It does not change once made, so a graph can run
// it any number of times.
type work struct {
	kind      cu.GraphNodeType
	what      string     // description, for messages
	engine    engineKind // the engine that it occupies
	dev       *device
	noLatency bool // its cost is the whole call's: no latency before or after it

	// run executes it without a lock. It is nil for a mark in a stream.
	run func(*op) error
	// arrive is called when the op arrives in virtual time, with the driver
	// locked. It may be nil.
	arrive func(*op)
	// done is called when the op is done, with the driver locked.
	done func(*op)
	// price returns the cost. It is called with the driver locked, in the order
	// of virtual time.
	price func(*op) cost
	// retire is called when the op ends in virtual time, with the driver locked. It may be nil.
	retire func(*op)

	// touches reports the memory that it uses, in builds with the race
	// detector. It is nil for kernels, which report their accesses themselves.
	touches func(record func(b []byte, write bool))

	// spans reports the memory that it uses, for the check of launches. It is nil without the
	// check, and for kernels.
	spans func(record func(p span, off, n uint64, kind kernelrace.Kind))

	uses      [2]*region     // memory that it uses, nil for none; a kernel may use any memory
	launch    *launch        // of a kernel
	event     *eventState    // of an external event node
	moved     moved          // for observers
	site      callsite.Place // the line that queued it, with checks
	waits     *wordWait      // of a wait for a value
	remote    bool           // another process ends it
	exchange  *exchanging    // of a communicator
	keepAlive any            // keeps the caller's memory from the garbage collector
}

// op is one execution of a work in a context.
//
// It goes through two sequences of states. In real time it waits for its
// dependencies, executes and is done. In virtual time it arrives, starts on an
// engine and retires. The second sequence advances only when a call needs the
// time. An op retires after it is done, because only then is its cost known.
type op struct {
	id     uint64
	work   *work
	on     engineKind // work.engine; work changes when the op is past
	kind   cu.GraphNodeType
	ctx    *contextState
	stream *streamState // nil in a graph

	deps  []*op // kept until done and retired
	succs []*op

	later        []*op // ops that wait for its end in virtual time only
	checks       []*op // kernels whose end it must see, by the rules of old devices
	checksBefore int   // number of the last dependency check that a kernel waits for
	behind       []*op // kernels that must have started all blocks before it starts, if checks is not empty
	begun        bool  // all its blocks have started, on an old device

	pendingDeps int // deps that are not done
	released    bool
	done        bool
	doneCh      chan struct{} // closed when done; nil until a call waits
	err         error
	awaited     bool // a call waits for it and returns its error

	kernel *execution        // of a kernel: its run and statistics
	parts  *kernelcost.Parts // of a kernel: its time by parts, once it is priced
	opRace                   // its state in the race detector
	track  *launchrace.Track // its place in the order, nil without the check of launches

	unretiredDeps int // deps that are not retired
	arrived       bool
	started       bool
	retired       bool
	timedOut      bool // a bounded wait for it has ended: its cost is not waited for
	arrive        float64
	ready         float64
	start         float64
	end           float64
	visible       float64 // of a mark: the time at which the device knows the end of the kernel before it
	cost          cost
	extra         float64 // ns that a copy takes in addition
	priced        bool
	remaining     float64 // of cost.ns, at the timeline's now
	priority      int32
	noLatency     bool
	polls         int // queries that found it not done

	cause  opCause // of its start, for observers
	heldBy uint64  // the last kernel whose blocks it waited for, for observers

	sliceExpired bool // of a kernel: other contexts' kernels do not wait for it any more
}

// follow makes o wait for dep.
func (o *op) follow(dep *op) {
	if dep == nil {
		return
	}
	if dep.retired {
		o.noteOrder(dep)
		o.ready = max(o.ready, o.earliestStart(dep))
		o.noteVisible(dep)
	} else {
		o.unretiredDeps++
	}
	if !dep.done {
		o.pendingDeps++
	}
	if !dep.done || !dep.retired {
		o.deps = append(o.deps, dep)
		dep.succs = append(dep.succs, o)
	}
}

// earliestStart returns the virtual time at which o can start after dep.
func (o *op) earliestStart(dep *op) float64 {
	queue := &o.ctx.drv.prof.Queue
	switch {
	case o.kind == cu.GraphNodeTypeWaitEvent && o.stream != nil && o.stream != dep.stream:
		return dep.end + queue.Event.Value
	case o.noLatency || o.on == engineNone:
		return dep.end
	case dep.kind == cu.GraphNodeTypeBatchMemOp:
		return dep.end + queue.Gap.Value
	case dep.on == engineNone:
		return dep.end
	}
	if o.on != dep.on {
		return dep.end + queue.Switch.Value
	}
	if o.stream == nil && dep.stream == nil && o.on == engineCompute { // a node of a graph, whose launch is prepared
		return dep.end + orElse(queue.Node, queue.Gap)
	}
	return dep.end + queue.Gap.Value
}

// noteVisible keeps the time at which an event o after a kernel can record its end.
func (o *op) noteVisible(dep *op) {
	if o.kind == cu.GraphNodeTypeEventRecord && dep.on == engineCompute {
		o.visible = max(o.visible, dep.end+o.ctx.drv.prof.Queue.Record.Value)
	}
}

// orElse returns n, or other if the profile lacks n.
func orElse(n, other profile.Number) float64 {
	if n.Source == "" {
		return other.Value
	}
	return n.Value
}

// engine returns the engine that o occupies, nil for none.
func (o *op) engine() *engine {
	if o.work.dev == nil {
		return nil
	}
	return o.work.dev.engines.by[o.work.engine]
}

// before reports whether o is served before p: by priority, then readiness,
// then issue.
func (o *op) before(p *op) bool {
	if o.priority != p.priority {
		return o.priority < p.priority
	}
	if o.ready != p.ready {
		return o.ready < p.ready
	}
	return o.id < p.id
}

// units returns the fraction of the multiprocessors that a kernel fills.
func (o *op) units() float64 {
	if o.work.launch == nil {
		return 0
	}
	return o.work.launch.units
}

// failure returns the error that calls report for err. Faults and panics of host functions are
// reported as they are, and so is a refusal by the call that waits for the operation. Otherwise
// an operation that failed is named, and the context stays usable. A kernel that could not run
// becomes a sticky fault, because it is not known how far it got. The caller holds mu.
func (o *op) failure(err error) error {
	switch err.(type) {
	case nil, *cu.Fault, *cu.HostPanic:
		return err
	case *simt.Stopped: // its context was destroyed, so no call reports it
		return err
	}
	r, refused := err.(*refusal)
	switch {
	case refused && o.awaited:
		return err
	case o.work.launch != nil:
		return &cu.Fault{Result: cu.ErrorLaunchFailed, Kernel: o.work.launch.fn.name, Cause: err, Why: "the software GPU could not run it: " + err.Error()}
	case refused:
		return &cu.OperationError{Operation: r.what, Result: r.result, Why: r.why, Cause: err}
	}
	return &cu.OperationError{Operation: o.work.what, Result: cu.ErrorUnknown, Why: err.Error(), Cause: err}
}

// dropLinks frees what an op does not need once it is done and retired.
func (o *op) dropLinks() {
	if o.done && o.retired {
		o.deps, o.succs, o.later, o.checks, o.behind = nil, nil, nil, nil, nil
		o.kernel, o.parts = nil, nil
		if o.work.engine == engineNone {
			o.work = &pastMark
		} else {
			o.work = &pastWork
		}
	}
}

// The work of past ops, which streams and events may still refer to.
var (
	pastMark = work{what: "past mark", engine: engineNone}
	pastWork = work{what: "past work", engine: engineCompute}
)

// Bounds of a wait for an op. An op that does not get done within its bound may
// be waiting for the host.
const (
	hostWaitLimit   = 100 * time.Millisecond // for host functions, waits for values, and for kernels that poll host memory without progress
	kernelWaitLimit = 10 * time.Second       // for other ops
	waitStep        = 10 * time.Millisecond
)

// waitLimit returns the bound of a wait for o. It is short for ops that may be
// waiting for the host. These are host functions, waits for values, kernels that another op
// blocks, and kernels that read host memory and have polled since their last
// progress. A kernel that is only slow on this computer, or slow to begin, gets
// the long bound, because its cost would be lost otherwise. In a context that
// is being destroyed the bound is the time until its kernels are stopped.
func (o *op) waitLimit(polls uint64) time.Duration {
	switch k := o.kernel; {
	case o.ctx.dead:
		return destroyTimeout
	case o.work.kind == cu.GraphNodeTypeHost, o.work.waits != nil, o.work.remote,
		k == nil && o.blocked(),
		k != nil && k.view.seesHost() && o.pollCount() != polls:
		return hostWaitLimit
	}
	return kernelWaitLimit
}

// blocked reports whether o is a kernel that other ops keep from running. The
// caller holds mu.
func (o *op) blocked() bool {
	return o.work.launch != nil && (!o.released || o.pendingDeps > 0 || slices.Contains(o.work.dev.timeSlices.waiting, o))
}

// progress returns a number that changes while a kernel makes progress. It
// changes with each page of host memory that the kernel touches first, and with
// each block that begins.
func (o *op) progress() uint64 {
	if o.kernel == nil {
		return 0
	}
	return o.kernel.view.touched() + o.kernel.pulse.Begun.Load()
}

// pollCount returns a number that changes while a kernel reads the same memory
// repeatedly.
func (o *op) pollCount() uint64 {
	if o.kernel == nil {
		return 0
	}
	return o.kernel.pulse.Polls.Load()
}

// doneChan returns a channel that is closed when o is done.
func (o *op) doneChan() <-chan struct{} {
	if o.doneCh == nil {
		o.doneCh = make(chan struct{})
		if o.done {
			close(o.doneCh)
		}
	}
	return o.doneCh
}

// timeSlices keeps the kernels of different contexts of a device from running
// at the same time. Kernels of one context run together if the device can run
// several. Kernels of another context start when they are over. On a device
// with compute preemption a running kernel loses this right after
// hostWaitLimit. Otherwise a kernel that spins until another context acts would
// block that context.
type timeSlices struct {
	dev     *device
	running []*op
	waiting []*op
	timer   *time.Timer
}

// serialQueue lets one op run at a time.
type serialQueue struct {
	busy    bool
	waiting []*op
}

// mayExecute reports whether o may execute now. Otherwise it queues o. The
// caller holds mu.
func (o *op) mayExecute() bool {
	switch {
	case o.work.launch != nil:
		return o.work.dev.timeSlices.admit(o)
	case o.work.kind == cu.GraphNodeTypeHost:
		hosts := &o.ctx.hostQueue
		if hosts.busy {
			hosts.waiting = append(hosts.waiting, o)
			return false
		}
		hosts.busy = true
	}
	return true
}

// executed ends the execution of o and dispatches the ops that waited for it.
// The caller holds mu.
func (o *op) executed() {
	switch {
	case o.work.launch != nil:
		o.work.dev.timeSlices.end(o)
	case o.work.kind == cu.GraphNodeTypeHost:
		hosts := &o.ctx.hostQueue
		hosts.busy = false
		for len(hosts.waiting) > 0 && !hosts.busy {
			next := hosts.waiting[0]
			hosts.waiting = hosts.waiting[1:]
			o.ctx.drv.dispatch(next)
		}
	}
}

// admit reports whether kernel o may execute now. Otherwise it queues o.
func (t *timeSlices) admit(o *op) bool {
	alone := t.dev.attr(cu.DeviceAttributeConcurrentKernels) == 0
	if slices.ContainsFunc(t.running, func(r *op) bool { return (alone || r.ctx != o.ctx) && !r.sliceExpired }) {
		t.waiting = append(t.waiting, o)
		if t.timer == nil && t.dev.attr(cu.DeviceAttributeComputePreemptionSupported) != 0 {
			t.timer = time.AfterFunc(hostWaitLimit, t.expire)
		}
		return false
	}
	t.running = append(t.running, o)
	return true
}

// end removes kernel o. If every other running kernel has used up its time
// slice, it wakes those that wait.
func (t *timeSlices) end(o *op) {
	t.running = slices.DeleteFunc(t.running, func(r *op) bool { return r == o })
	if !slices.ContainsFunc(t.running, func(r *op) bool { return !r.sliceExpired }) {
		t.wakeWaiting()
	}
}

// expire ends the time slice of the running kernels.
func (t *timeSlices) expire() {
	mu := &t.dev.drv.mu
	mu.Lock()
	defer mu.Unlock()
	t.timer = nil
	for _, o := range t.running {
		o.sliceExpired = true
	}
	t.wakeWaiting()
}

func (t *timeSlices) wakeWaiting() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	turn := t.waiting
	t.waiting = nil
	for _, o := range turn {
		t.dev.drv.dispatch(o)
	}
}
