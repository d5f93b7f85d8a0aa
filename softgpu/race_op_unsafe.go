//go:build race || hosttsan

package softgpu

import (
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The race detector gets the bounds of live slices and reads none of their bytes.

const raceBuild = true

// raceVisible is the largest allocation of device memory that the race detector
// sees. The detector needs four bytes for each of its bytes.
const raceVisible = 64 << 20

// raceOp reports one operation to the race detector. It does so on a goroutine
// that the submitting call starts, so that a report shows that call as "created
// at".
//
// The clock of this goroutine is the operation's place in the model. It starts
// with the clock of the call and acquires the ends of the operations that this
// one follows. Then it reports the accesses and releases its own end, which
// waits and later operations acquire. It takes no lock of the driver. It
// communicates with the goroutine that executes the operation through channels,
// with the detector disabled. What that goroutine does with the caller's bytes
// is hidden from the detector.
type raceOp struct {
	clock     *raceClock
	what      string
	kind      cu.GraphNodeType
	log       []raceAccess     // known when the operation is queued
	requests  chan raceRequest // of kernels, host functions, writes of values and waits for them; capacity 1, for the last request
	replies   chan raceReply   // one for each request but the last
	done      chan struct{}    // closed when the end is released
	forgotten chan struct{}    // closed when later reports need not name it
}

// opRace is the race detector's state of an op, viewRace of a running kernel,
// and driverRace of a driver.
type (
	opRace   struct{ race *raceOp }
	viewRace struct {
		race  *raceKernel
		count atomic.Uint64 // reads and writes, without acquires
	}
	driverRace struct{ unfinished int } // ops that are not done
)

// raceAccess is one access to report. Its address is a number, because kernels
// may use ordinary memory at addresses that no Go pointer may have.
type raceAccess struct {
	p, n uintptr
	how  raceHow
	keep unsafe.Pointer // the same address, if the memory must be kept until the report
}

// raceRequest is a request of the executing goroutine.
type raceRequest struct {
	log  []raceAccess
	fn   func() // a host function, to run when its goroutine's number was sent
	last bool
}

type raceReply struct {
	goroutine uint64
	err       error
}

// recentRaceOps keeps the goroutines of the last operations alive. The detector
// soon forgets the stacks of goroutines that have ended, and needs them for
// reports.
var recentRaceOps struct {
	sync.Mutex
	ops  [2000]*raceOp
	next int
}

// maxRaceOps bounds the number of queued operations. A process with the race
// detector can have 8128 goroutines.
const maxRaceOps = 5000

// idleExecutors are the goroutines that execute operations and have none. They
// are used again, because the detector has clocks for some 250 goroutines, and
// gives those of past ones to new ones. With a new goroutine for each operation
// it lost a race when 150 operations that were waited for came between.
var idleExecutors = make(chan chan func(), 64)

// start executes o on a goroutine that may have executed others.
func (d *Driver) start(o *op) {
	var e chan func()
	hideFromDetector(func() {
		select {
		case e = <-idleExecutors:
		default:
		}
	})
	if e == nil {
		e = make(chan func(), 1)
		go executor(e)
	}
	e <- func() { d.execute(o) }
}

// executor executes what e receives, until enough other executors are idle.
func executor(e chan func()) {
	for again := true; again; {
		(<-e)()
		hideFromDetector(func() {
			select {
			case idleExecutors <- e:
			default:
				again = false
			}
		})
	}
}

// raceLimitQueue waits until fewer than maxRaceOps operations are queued. The
// caller holds mu, which is released during the wait.
func (d *Driver) raceLimitQueue() {
	for d.unfinished > maxRaceOps {
		d.releaseMatching(func(*op) bool { return true })
		if d.unfinished > maxRaceOps { // the release itself completes ops that do not execute
			d.waitAnyDone()
		}
	}
}

// raceSubmit starts the goroutine that reports o, which follows deps. It is
// called on the goroutine of the submitting call.
func (o *op) raceSubmit(deps []*op) {
	o.ctx.drv.unfinished++
	w := o.work
	r := &raceOp{clock: newRaceClock(w.what), what: w.what, kind: w.kind, done: make(chan struct{}), forgotten: make(chan struct{})}
	o.race = r
	if w.launch != nil || w.kind == cu.GraphNodeTypeBatchMemOp || w.kind == cu.GraphNodeTypeHost && w.run != nil {
		r.requests, r.replies = make(chan raceRequest, 1), make(chan raceReply)
	}
	if w.touches != nil {
		w.touches(r.record)
	}
	var before []*raceOp
	for _, dep := range deps {
		if dep != nil && dep.race != nil {
			before = append(before, dep.race)
		}
	}
	if r.requests == nil && len(r.log) == 0 {
		go r.reportNothing(before)
		return
	}
	go r.report(before)
	recentRaceOps.Lock()
	defer recentRaceOps.Unlock()
	if old := recentRaceOps.ops[recentRaceOps.next]; old != nil {
		hideFromDetector(func() { close(old.forgotten) })
	}
	recentRaceOps.ops[recentRaceOps.next] = r
	recentRaceOps.next = (recentRaceOps.next + 1) % len(recentRaceOps.ops)
}

// record adds an access to the log.
func (r *raceOp) record(b []byte, write bool) {
	if len(b) == 0 {
		return
	}
	r.log = append(r.log, raceAccess{uintptr(pointerTo(b)), uintptr(len(b)), howOf(r.kind, write), pointerTo(b)})
}

// reportNothing runs as the goroutine of an operation without accesses, such as
// an event.
func (r *raceOp) reportNothing(before []*raceOp) {
	r.follow(before)
	r.finish()
	r.clock.close()
}

// report runs as the goroutine of an operation and reports its accesses.
func (r *raceOp) report(before []*raceOp) {
	ended := false
	defer func() { // also when a host function ends the goroutine
		r.finish()
		if ended {
			hideFromDetector(func() { <-r.forgotten })
		}
		r.clock.close()
	}()
	r.follow(before)
	r.replay(r.log)
	r.log = nil // the memory may be collected now
	for r.requests != nil {
		var req raceRequest
		hideFromDetector(func() { req = <-r.requests })
		if req.last {
			break
		}
		r.serve(req)
	}
	ended = true
}

// follow waits for the ends of other operations and acquires their clocks.
func (r *raceOp) follow(before []*raceOp) {
	for _, b := range before {
		hideFromDetector(func() { <-b.done })
		r.clock.on(b.clock.follow)
	}
}

func (r *raceOp) finish() {
	r.clock.on(r.clock.finish)
	hideFromDetector(func() { close(r.done) })
}

// serve handles a request and replies.
func (r *raceOp) serve(req raceRequest) {
	if req.fn == nil {
		r.replay(req.log)
		hideFromDetector(func() { r.replies <- raceReply{} })
		return
	}
	hideFromDetector(func() {
		r.replies <- raceReply{goroutine: goid()}
		<-r.requests
	})
	err := errGoexit(r.what)
	defer func() { hideFromDetector(func() { r.replies <- raceReply{err: err} }) }()
	r.clock.on(func() { err = protect(req.fn) })
}

// request sends a request from the executing goroutine and waits for the reply.
func (r *raceOp) request(req raceRequest) (a raceReply) {
	hideFromDetector(func() {
		r.requests <- req
		a = <-r.replies
	})
	return a
}

// raceDone marks the end of o in real time. The caller holds mu.
func (o *op) raceDone() {
	o.ctx.drv.unfinished--
	if r := o.race; r.requests != nil {
		hideFromDetector(func() { r.requests <- raceRequest{last: true} })
	}
}

// raceAcquire orders what the caller does from now on after o, which is done.
func (o *op) raceAcquire() {
	if o == nil || !o.done {
		return
	}
	hideFromDetector(func() { <-o.race.done })
	o.race.clock.follow()
}

// raceHostFunc runs a host function on the goroutine with the clock of o.
func (o *op) raceHostFunc(h *hostFuncs, fn func()) error {
	r := o.race
	a := r.request(raceRequest{fn: fn})
	h.add(a.goroutine)
	defer h.remove(a.goroutine)
	return r.request(raceRequest{}).err
}

// raceSignal reports that o is about to write a word for others to poll. What the
// stream did before comes before the word.
func (o *op) raceSignal(word []byte) {
	at := raceAccess{uintptr(pointerTo(word)), uintptr(len(word)), valueWrite, pointerTo(word)}
	o.race.request(raceRequest{log: []raceAccess{at}})
}

// raceWaited reports that o has waited for the value of a word. What its writer did before comes
// before what follows o.
func (o *op) raceWaited(word []byte) {
	at := raceAccess{uintptr(pointerTo(word)), uintptr(len(word)), kernelAcquire, pointerTo(word)}
	o.race.request(raceRequest{log: []raceAccess{at}})
}

// raceFree reports the host's free of r as a write of all its bytes.
func (r *region) raceFree() {
	hostFrees(uintptr(pointerTo(r.data)), uintptr(len(r.data)))
}

// printName writes the operation of the last report to standard error.
func (r *raceOp) printName() {
	hideFromDetector(func() {
		os.Stderr.WriteString("softgpu: the operation in the data race reported above is: " + r.what + "\n")
	})
}
