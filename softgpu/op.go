package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
	"github.com/ferrygpu/ferry/profile"
)

// work says what an operation does. It does not change once made, so a graph
// can run it any number of times.
type work struct {
	kind   cu.GraphNodeType
	what   string     // in words, for messages
	engine engineKind // that it occupies
	dev    *device
	bare   bool // its cost is the whole call's: no latency before or after

	// run does it, with no lock held. nil for a mark in a stream.
	run func(*op) error
	// done runs when it is done, the driver locked.
	done func(*op)
	// price says what it cost, the driver locked, in the order of virtual time.
	price func(*op) cost

	// touches says what memory it uses, in builds with the race detector; nil of
	// kernels.
	touches func(note func(b []byte, write bool))

	launch *launch     // of a kernel
	event  *eventState // of an external event node
	hold   any         // keeps the caller's memory from the garbage collector
}

// op is one execution of a work in a context.
//
// It has two lives. Really it waits for its dependencies, executes and is done.
// In virtual time it arrives, starts on an engine and retires; that happens when
// somebody asks for the time, and after it is really done, for only then is its
// cost known.
type op struct {
	id     uint64
	work   *work
	ctx    *contextState
	stream *streamState // nil in a graph

	deps  []*op // until done and retired
	succs []*op

	realWait int // deps that are not done
	released bool
	done     bool
	doneCh   chan struct{} // closed when done; nil until somebody waits
	err      error
	answers  bool // a call waits for it and returns its error

	kernel *execution // of a kernel: what it did
	opRace            // what the race detector is told of it

	simWait  int // deps that are not retired
	arrived  bool
	started  bool
	retired  bool
	long     bool // it has outlasted our patience: do not wait for it to know its cost
	arrive   float64
	ready    float64
	start    float64
	end      float64
	cost     cost
	priced   bool
	left     float64 // of cost.ns at the timeline's now
	priority int32
	bare     bool
	polls    int // queries in vain

	overstays bool // a kernel that others need not wait for any more
}

// submit queues w after deps and, by the schedule, starts it. mu is held.
func (d *Driver) submit(c *contextState, s *streamState, w *work, deps []*op) *op {
	d.opID++
	o := &op{id: d.opID, work: w, ctx: c, stream: s, bare: w.bare}
	if s != nil {
		o.priority = s.priority
	}
	for _, dep := range deps {
		o.follow(dep)
	}
	c.open++
	if w.launch != nil {
		c.kernels++
		if s != nil {
			s.kernels++
		}
	}
	d.unretired++
	o.raceSubmit(deps)
	d.hold(o)
	return o
}

// follow makes o wait for dep.
func (o *op) follow(dep *op) {
	if dep == nil {
		return
	}
	if dep.retired {
		o.ready = max(o.ready, o.after(dep))
	} else {
		o.simWait++
	}
	if !dep.done {
		o.realWait++
	}
	if !dep.done || !dep.retired {
		o.deps = append(o.deps, dep)
		dep.succs = append(dep.succs, o)
	}
}

// after is when o can start, by virtual time, for what dep has to do with it.
func (o *op) after(dep *op) float64 {
	if o.bare || o.work.engine == engineNone || dep.work.engine == engineNone {
		return dep.end
	}
	queue := &o.ctx.drv.prof.Queue
	if o.work.engine != dep.work.engine {
		return dep.end + queue.Switch.Value
	}
	if o.stream == nil && dep.stream == nil { // nodes of a graph
		return dep.end + orElse(queue.Node, queue.Gap)
	}
	return dep.end + queue.Gap.Value
}

// orElse is the value of a number that a profile may lack, or of another.
func orElse(n, other profile.Number) float64 {
	if n.Source == "" {
		return other.Value
	}
	return n.Value
}

// release lets o start as soon as what it follows is done. mu is held.
func (d *Driver) release(o *op) {
	if o.released {
		return
	}
	o.released = true
	d.sim.admit(d, o)
	if o.realWait == 0 {
		d.dispatch(o)
	}
}

// dispatch executes o, whose dependencies are done. mu is held.
func (d *Driver) dispatch(o *op) {
	if o.work.run == nil || o.ctx.poison != nil {
		d.complete(o, nil)
		return
	}
	if !o.takesTurn() {
		return
	}
	d.running++
	go d.execute(o)
}

// execute runs o and then whatever it held back.
func (d *Driver) execute(o *op) {
	err := errGoexit(o.work.what)
	defer func() { // also when user code ends the goroutine
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running--
		o.endsTurn()
		d.complete(o, o.failure(err))
		d.dig()
	}()
	err = o.work.run(o)
}

// failure is err as somebody gets to hear of it. What is no fault, nor a host
// function's panic, is an error of ours or of a copy whose call did not wait: it is
// sticky like a fault, for nobody knows how far the operation got. mu is held.
func (o *op) failure(err error) error {
	switch err.(type) {
	case nil, *cu.Fault, *cu.HostPanic:
		return err
	case *refusal:
		if o.answers {
			return err
		}
	case *simt.Stopped: // with its context, of which nobody hears any more
		return err
	}
	f := &cu.Fault{Result: cu.ErrorLaunchFailed, Kernel: "(" + o.work.what + ")", Cause: err}
	if o.work.launch != nil {
		f.Kernel = o.work.launch.fn.name
	}
	f.Why = "the software GPU could not go on with it: " + err.Error()
	return f
}

// complete marks o done and dispatches what waited for it. mu is held.
func (d *Driver) complete(o *op, err error) {
	todo := []*op{o}
	o.err = err
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		o.done = true
		o.raceDone()
		o.ctx.open--
		o.ctx.failed(o)
		if o.work.done != nil {
			o.work.done(o)
		}
		if o.doneCh != nil {
			close(o.doneCh)
		}
		for _, next := range o.succs {
			next.realWait--
			if next.realWait > 0 || !next.released {
				continue
			}
			if next.work.run == nil || next.ctx.poison != nil {
				todo = append(todo, next)
			} else {
				d.dispatch(next)
			}
		}
		o.forget()
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// forget drops the links of an op that is through with both its lives.
func (o *op) forget() {
	if o.done && o.retired {
		o.deps, o.succs = nil, nil
		o.kernel = nil
		if o.work.engine == engineNone {
			o.work = &pastMark
		} else {
			o.work = &pastWork
		}
	}
}

// What is left of the work of past ops, which streams and events may hold on to.
var (
	pastMark = work{what: "past mark", engine: engineNone}
	pastWork = work{what: "past work", engine: engineCompute}
)
