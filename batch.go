package ferry

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Batch is a list of operations that a stream gets together: [Copy], [CopyAll],
// [CopyRect], [Fill], [Batch.Launch], [Batch.Record] and [Batch.WaitEvent] add them, and
// [Stream.Submit] hands them to the driver in one crossing into C, where each alone
// would take one.
//
// Nothing is in flight before Submit: it checks what can only be known then, such as
// whether a buffer is closed. A batch can be submitted many times, like a graph without
// its making, and Reset empties it for other operations; in a loop neither allocates,
// except that adding a CopyRect does. The zero Batch is empty and ready. It is not safe
// for concurrent use.
type Batch struct {
	ops    []batchOp
	params []byte                    // of all launches, and the values of fills
	memory []kernelargs.Memory[span] // the memory arguments of all launches
	spans  []span                    // of CopyAll: destinations and sources in turns

	calls        cu.Batch // what a submission calls,
	owners       []int    // and for which operation
	op           inflight.Op
	events       []batchEvent // that a submission records or waits for,
	begun        int          // of which so many are in use now
	kernelParams []byte       // of the launches that a CopyAll makes
	replay       replay
}

// batchOp is an operation of a batch. Which fields it uses depends on prepare.
type batchOp struct {
	what     string
	dst, src span
	kernel   *Kernel
	config   LaunchConfig
	params   bounds // in Batch.params
	memory   bounds // in Batch.memory
	spans    bounds // in Batch.spans
	event    *Event
	// prepare checks the operation, acquires what it uses, and appends its calls.
	prepare func(*Batch, *streamState, *batchOp) error
}

// bounds is a range of a slice that moves as it grows.
type bounds struct{ from, to int }

// batchEvent is an event that a submission records or waits for.
type batchEvent struct {
	e       *Event
	records bool
	record  inflight.Record // in progress
}

// replay is the last submission, if its calls can be made again as they are on the same
// stream. Then only what may have changed is looked at: whether all is open, and what
// events stand for. On an H200 that takes 0.3 us off a step of 5.8 us.
type replay struct {
	st     *streamState // nil if there is none
	uses   []batchUse
	kernel *Kernel // launched last
}

// batchUse is a resource that a submission acquires.
type batchUse struct {
	tracker    *inflight.Tracker
	access     inflight.Access
	generation uint32
}

func (b *Batch) queue() {}

// Len is the number of operations.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return len(b.ops)
}

// Reset removes all operations.
func (b *Batch) Reset() {
	if b == nil {
		return
	}
	b.forget()
	clear(b.ops)
	clear(b.memory)
	clear(b.spans)
	b.ops, b.params, b.memory, b.spans = b.ops[:0], b.params[:0], b.memory[:0], b.spans[:0]
}

// add adds an operation, for the caller to fill in. It refuses a nil batch.
func (b *Batch) add(what string, prepare func(*Batch, *streamState, *batchOp) error) (*batchOp, error) {
	if b == nil {
		return nil, refusal.Invalid("%s: no batch given (nil)", what)
	}
	b.forget()
	b.ops = append(b.ops, batchOp{what: what, prepare: prepare})
	return &b.ops[len(b.ops)-1], nil
}

// forget drops the calls of the last submission.
func (b *Batch) forget() {
	if b.calls.Len() == 0 && b.replay.st == nil {
		return
	}
	b.calls.Reset()
	clear(b.replay.uses)
	clear(b.events)
	b.owners, b.kernelParams, b.events = b.owners[:0], b.kernelParams[:0], b.events[:0]
	b.replay = replay{uses: b.replay.uses[:0]}
}

// Launch adds a launch: see [Stream.Launch]. The arguments are read now; buffers among
// them are used when the batch is submitted.
func (b *Batch) Launch(k *Kernel, c LaunchConfig, args ...any) error {
	if k == nil || k.m == nil {
		return refusal.Invalid("launch in a batch: no kernel given (nil)")
	}
	l := launches.Get().(*launch)
	defer l.done()
	if err := l.args.Pack(k.args, args); err != nil {
		return fmt.Errorf("launch %s in a batch: %w", k.name, err)
	}
	op, err := b.add("launch", prepareLaunch)
	if err != nil {
		return err
	}
	op.kernel, op.config = k, c
	op.params = bounds{len(b.params), len(b.params) + len(l.args.Bytes)}
	op.memory = bounds{len(b.memory), len(b.memory) + len(l.args.Memory)}
	b.params, b.memory = append(b.params, l.args.Bytes...), append(b.memory, l.args.Memory...)
	return nil
}

func prepareLaunch(b *Batch, st *streamState, op *batchOp) error {
	k := op.kernel
	if !b.acquire(&k.m.tracker, inflight.Read, 0) {
		return fmt.Errorf("%v: %w", k.m, ErrClosed)
	}
	if err := k.check(st, &op.config); err != nil {
		return err
	}
	params, memory := b.params[op.params.from:op.params.to], b.memory[op.memory.from:op.memory.to]
	if err := acquireMemory(&b.op, st, k, params, memory); err != nil {
		return err
	}
	for i := range memory {
		b.acquired(st, &memory[i].M, inflight.Write)
	}
	b.calls.LaunchKernel(k.f, full(op.config.Grid), full(op.config.Block), uint32(op.config.SharedBytes), st.handle, params)
	return nil
}

// Record adds the recording of an event: see [Stream.Record].
func (b *Batch) Record(e *Event) error {
	if e == nil || e.g == nil {
		return refusal.Invalid("record in a batch: no event given (nil)")
	}
	op, err := b.add("record an event", prepareRecord)
	if err == nil {
		op.event = e
	}
	return err
}

func prepareRecord(b *Batch, st *streamState, op *batchOp) error {
	if err := b.useEvent(st, batchEvent{e: op.event, records: true}); err != nil {
		return err
	}
	b.calls.EventRecord(op.event.handle, st.handle)
	return nil
}

// WaitEvent adds a wait for what the event stands for when the batch is submitted: see
// [Stream.WaitEvent].
func (b *Batch) WaitEvent(e *Event) error {
	if e == nil || e.g == nil {
		return refusal.Invalid("wait for an event in a batch: no event given (nil)")
	}
	op, err := b.add("wait for an event", prepareWait)
	if err == nil {
		op.event = e
	}
	return err
}

func prepareWait(b *Batch, st *streamState, op *batchOp) error {
	if err := b.useEvent(st, batchEvent{e: op.event}); err != nil {
		return err
	}
	b.calls.StreamWaitEvent(st.handle, op.event.handle)
	return nil
}

// useEvent adds an event to those of the submission, and begins its use.
func (b *Batch) useEvent(st *streamState, x batchEvent) error {
	b.events = append(b.events, x)
	return b.beginEvent(st)
}

// beginEvent begins the use of the next event.
func (b *Batch) beginEvent(st *streamState) (err error) {
	x := &b.events[b.begun]
	if x.records {
		x.record, err = x.e.beginRecord(st)
	} else {
		err = x.e.beginWait(st)
	}
	if err == nil {
		b.begun++
	}
	return err
}

// endEvents ends the uses of events. recorded is the stream that they were recorded in,
// nil if they were not.
func (b *Batch) endEvents(recorded *inflight.Stream) {
	for i := range b.begun {
		if x := &b.events[i]; x.records {
			x.e.endRecord(x.record, recorded)
		} else {
			x.e.leave()
		}
	}
	b.begun = 0
}

// beginWait counts a submission as a user of an event that its stream will wait for.
func (e *Event) beginWait(st *streamState) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	err := error(nil)
	if e.g != st.g && !sameDriver(e.g.driver, st.g.driver) {
		err = refusal.Invalid("let %v wait for %v: they must belong to one driver", st, e)
	} else if c := e.captured(); c != st.capture {
		if err = c.mayJoin(st); err == nil {
			err = refusal.Invalid("the event was recorded in a capture: a stream joins it by Stream.WaitEvent")
		}
	}
	if err != nil {
		e.leave()
	}
	return err
}

// submit is Stream.Submit.
func (b *Batch) submit(s *Stream) (err error) {
	st, err := s.begin(&b.op, "submit a batch", false)
	if err != nil {
		return err
	}
	done, recorded := 0, (*inflight.Stream)(nil)
	defer func() { b.end(done > 0, recorded) }()
	if !b.acquireAgain(st) {
		if err := b.prepare(st); err != nil {
			return err
		}
	}
	done, err = st.g.driver.Submit(st.g.ctx, &b.calls)
	if err != nil {
		if k := b.lastKernel(done); k != nil {
			st.launched(&k.name)
		}
		return b.explain(st, b.owners[done], err)
	}
	recorded = &st.Stream
	if k := b.replay.kernel; k != nil {
		st.launched(&k.name)
	}
	return nil
}

// end ends a submission. recorded is the stream where events were recorded, nil if the
// driver did not make all calls.
func (b *Batch) end(queued bool, recorded *inflight.Stream) {
	b.endEvents(recorded)
	if queued {
		b.op.Queued()
	}
	b.op.End()
	if recorded == nil || b.replay.st == nil {
		b.forget()
	}
}

// prepare checks the operations, acquires what they use, and lists their calls.
func (b *Batch) prepare(st *streamState) error {
	b.endEvents(nil) // of a replay that was given up
	b.forget()
	if st.capture == nil {
		b.replay.st = st // until something cannot be replayed
	}
	for i := range b.ops {
		op := &b.ops[i]
		if err := op.prepare(b, st, op); err != nil {
			return b.explain(st, i, err)
		}
		for len(b.owners) < b.calls.Len() {
			b.owners = append(b.owners, i)
		}
	}
	b.replay.kernel = b.lastKernel(b.calls.Len())
	return nil
}

// acquire counts the submission as a user of a resource. It fails when that is closed.
func (b *Batch) acquire(t *inflight.Tracker, a inflight.Access, generation uint32) bool {
	if !b.op.Acquire(t, a, generation) {
		return false
	}
	b.addUse(t, a, generation)
	return true
}

// acquireSpan is acquire of memory.
func (b *Batch) acquireSpan(st *streamState, r *span, a inflight.Access) error {
	if err := r.acquire(&b.op, st, a); err != nil {
		return err
	}
	b.acquired(st, r, a)
	return nil
}

// acquired notes memory for a replay. Memory allocated in stream order, memory of
// another GPU and managed memory on which host and device take turns must be looked at
// again each time.
func (b *Batch) acquired(st *streamState, r *span, a inflight.Access) {
	if r.a == nil || r.a.g != st.g || r.a.BornOn() != nil || r.a.kind == managedMemory && !st.g.caps.concurrentManaged {
		b.replay.st = nil
		return
	}
	b.addUse(&r.a.Tracker, a, r.generation)
}

// addUse notes a resource for a replay, once as far as that is cheap to find.
func (b *Batch) addUse(t *inflight.Tracker, a inflight.Access, generation uint32) {
	uses := b.replay.uses
	for i := max(0, len(uses)-32); i < len(uses); i++ {
		if u := &uses[i]; u.tracker == t && u.generation == generation {
			u.access = max(u.access, a)
			return
		}
	}
	b.replay.uses = append(uses, batchUse{t, a, generation})
}

// acquireAgain acquires what the last submission used, to replay its calls. It is false
// if the calls must be made anew; what it has acquired by then does no harm.
func (b *Batch) acquireAgain(st *streamState) bool {
	if b.replay.st != st {
		return false
	}
	for i := range b.replay.uses {
		if u := &b.replay.uses[i]; !b.op.Acquire(u.tracker, u.access, u.generation) {
			return false
		}
	}
	for range b.events {
		if b.beginEvent(st) != nil {
			return false
		}
	}
	return true
}

// explain says which operation an error is about.
func (b *Batch) explain(st *streamState, i int, err error) error {
	op := &b.ops[i]
	what := op.what
	switch {
	case op.kernel != nil:
		what = fmt.Sprintf("launch %s (%v)", op.kernel.name, op.config)
	case op.src.a != nil:
		what = fmt.Sprintf("copy %s to %v from %v", refusal.Size(op.dst.bytes), &op.dst, &op.src)
	case op.dst.a != nil:
		what = fmt.Sprintf("fill %v", &op.dst)
	}
	return fmt.Errorf("batch on %v: operation %d of %d, %s: %w", st, i+1, len(b.ops), what, err)
}

// lastKernel is what the last launch among the first done calls launched.
func (b *Batch) lastKernel(done int) *Kernel {
	for _, i := range slices.Backward(b.owners[:done]) {
		if k := b.ops[i].kernel; k != nil {
			return k
		}
	}
	return nil
}
