//go:build race

package softgpu

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// raceOp tells the race detector of one operation, on a goroutine of its own that
// the submitting call starts, so that "created at" in a report is that call.
//
// The goroutine's clock is the operation's place in the model, and nothing else:
// it begins with the clock of the call, acquires the ends of the operations that
// this one follows, tells of the accesses and releases its own end, which waits
// and later operations acquire. It takes no lock of the driver. All that it hears
// from the goroutines that really execute comes through channels while the
// detector looks away, and what those do with the caller's bytes is hidden from it.
type raceOp struct {
	end    uint64 // its address is the place of the end
	what   string
	kind   cu.GraphNodeType
	log    []raceAccess    // known when the operation is queued
	in     chan raceOrder  // of kernels and host functions; room for the last order
	answer chan raceAnswer // to each order but the last
	done   chan struct{}   // closed when the end is released
	leave  chan struct{}   // closed when a later report need not name it any more
}

// opRace is an op's part of it, viewRace that of a kernel that runs, and
// driverRace that of all.
type (
	opRace   struct{ race *raceOp }
	viewRace struct {
		race  *raceKernel
		count atomic.Uint64 // of reads and writes but those that wait
	}
	driverRace struct{ unfinished int } // ops that are not done
)

// raceAccess is one thing to tell. It is a number, as kernels may use ordinary
// memory at addresses that no Go pointer may have.
type raceAccess struct {
	p, n uintptr
	how  raceHow
	keep unsafe.Pointer // to the same, where the memory must stay until it was told of
}

// raceOrder is what an executing goroutine asks of the telling one.
type raceOrder struct {
	log  []raceAccess
	fn   func() // a host function, after its goroutine's number was answered
	last bool
}

type raceAnswer struct {
	goroutine uint64
	err       error
}

// raceRing keeps the goroutines of the last operations alive: of those that have
// ended, the detector soon forgets what it would need for a report.
var raceRing struct {
	sync.Mutex
	ops  [512]*raceOp
	next int
}

// raceRoomFor is how many operations may be queued: a process with the race
// detector has 8128 goroutines at most.
const raceRoomFor = 6000

// raceRoom waits until there is room for more operations. mu is held, let go of
// and taken again.
func (d *Driver) raceRoom() {
	for d.unfinished > raceRoomFor {
		d.pushAll(func(*op) bool { return true })
		d.anyDone()
	}
}

// raceSubmit starts to tell of o, which follows deps. The caller is on the
// goroutine of the submitting call.
func (o *op) raceSubmit(deps []*op) {
	o.ctx.drv.unfinished++
	w := o.work
	r := &raceOp{what: w.what, kind: w.kind, done: make(chan struct{}), leave: make(chan struct{})}
	o.race = r
	if w.launch != nil || w.kind == cu.GraphNodeTypeHost && w.run != nil {
		r.in, r.answer = make(chan raceOrder, 1), make(chan raceAnswer)
	}
	if w.touches != nil {
		w.touches(r.note)
	}
	var before []*raceOp
	for _, dep := range deps {
		if dep != nil && dep.race != nil {
			before = append(before, dep.race)
		}
	}
	if r.in == nil && len(r.log) == 0 {
		go r.pass(before)
		return
	}
	go r.tell(before)
	raceRing.Lock()
	defer raceRing.Unlock()
	if old := raceRing.ops[raceRing.next]; old != nil {
		quietly(func() { close(old.leave) })
	}
	raceRing.ops[raceRing.next] = r
	raceRing.next = (raceRing.next + 1) % len(raceRing.ops)
}

// note adds an access to the log. Writes hide reads of the same bytes.
func (r *raceOp) note(b []byte, write bool) {
	if len(b) == 0 {
		return
	}
	r.log = append(r.log, raceAccess{uintptr(pointerTo(b)), uintptr(len(b)), howOf(r.kind, write), pointerTo(b)})
}

// pass is tell for what touches nothing, like an event.
func (r *raceOp) pass(before []*raceOp) {
	r.follow(before)
	r.finish()
}

// tell is the goroutine of an operation.
func (r *raceOp) tell(before []*raceOp) {
	ended := false
	defer func() { // also when a host function ends the goroutine
		r.finish()
		if ended {
			quietly(func() { <-r.leave })
		}
	}()
	r.follow(before)
	r.replay(r.log)
	r.log = nil // the memory may go now
	for r.in != nil {
		var order raceOrder
		quietly(func() { order = <-r.in })
		if order.last {
			break
		}
		r.obey(order)
	}
	ended = true
}

// follow waits for the ends of other operations and takes over their clocks.
func (r *raceOp) follow(before []*raceOp) {
	for _, b := range before {
		quietly(func() { <-b.done })
		runtime.RaceAcquire(unsafe.Pointer(&b.end))
	}
}

func (r *raceOp) finish() {
	runtime.RaceRelease(unsafe.Pointer(&r.end))
	quietly(func() { close(r.done) })
}

// obey does what the executing goroutine asks for, and answers.
func (r *raceOp) obey(order raceOrder) {
	if order.fn == nil {
		r.replay(order.log)
		quietly(func() { r.answer <- raceAnswer{} })
		return
	}
	quietly(func() {
		r.answer <- raceAnswer{goroutine: goid()}
		<-r.in
	})
	err := errGoexit(r.what)
	defer func() { quietly(func() { r.answer <- raceAnswer{err: err} }) }()
	err = protect(order.fn)
}

// ask is obey's other side, on the executing goroutine.
func (r *raceOp) ask(order raceOrder) (a raceAnswer) {
	quietly(func() {
		r.in <- order
		a = <-r.answer
	})
	return a
}

// raceDone is the real end of o. mu is held.
func (o *op) raceDone() {
	o.ctx.drv.unfinished--
	if r := o.race; r.in != nil {
		quietly(func() { r.in <- raceOrder{last: true} })
	}
}

// raceAcquire lets what the caller does from now on come after o, which is done.
func (o *op) raceAcquire() {
	if o == nil || !o.done {
		return
	}
	quietly(func() { <-o.race.done })
	runtime.RaceAcquire(unsafe.Pointer(&o.race.end))
}

// raceHostFunc runs a host function where its accesses have the clock of o.
func (o *op) raceHostFunc(h *hostFuncs, fn func()) error {
	r := o.race
	a := r.ask(raceOrder{fn: fn})
	h.enter(a.goroutine)
	defer h.leave(a.goroutine)
	return r.ask(raceOrder{}).err
}

// raceFree tells that the host frees r, as a write of it all.
func (r *region) raceFree() {
	hostFrees(uintptr(pointerTo(r.data)), uintptr(len(r.data)))
}

// quietly does something that orders goroutines without the race detector
// learning of it.
func quietly(f func()) {
	runtime.RaceDisable()
	f()
	runtime.RaceEnable()
}

// named says on standard error which operation the detector has just reported.
func (r *raceOp) named() {
	quietly(func() {
		os.Stderr.WriteString("softgpu: the operation of the data race above that was just told of is: " + r.what + "\n")
	})
}
