package ferry

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Queue takes operations: a [Stream] queues them at once, a [Batch] collects them for a
// stream. No other types implement it.
type Queue interface {
	// Launch runs a kernel: see [Stream.Launch].
	Launch(k *Kernel, c LaunchConfig, args ...any) error
	// Record makes an event stand for the work queued so far: see [Stream.Record].
	Record(e *Event) error
	// WaitEvent makes later work wait for an event: see [Stream.WaitEvent].
	WaitEvent(e *Event) error

	queue()
}

// Batch is a list of operations for a stream. [Copy], [CopyAll], [CopyRect], [Fill],
// [Batch.Launch], [Batch.Record] and [Batch.WaitEvent] add operations. [Stream.Submit]
// passes all of them to the driver with one call into C, instead of one call for each
// operation.
//
// Nothing is in flight before Submit. Submit makes the checks that depend on the moment,
// such as whether a buffer is closed. A batch can be submitted many times, like a graph,
// but it needs no instantiation. Reset empties it for other operations. In a loop, adding
// and submitting allocate nothing, except that adding a CopyRect allocates. The zero Batch
// is empty and ready to use. A Batch is not safe for concurrent use.
type Batch struct {
	ops    []batchOp
	params []byte                    // parameters of all launches, and values of fills
	memory []kernelargs.Memory[span] // memory arguments of all launches
	spans  []span                    // of CopyAll: destinations and sources alternate

	calls        cu.Batch // of a submission
	owners       []int    // for each call, the index of its operation in ops
	op           inflight.Op
	events       []batchEvent // that a submission records or waits for
	begun        int          // how many of events the submission uses now
	kernelParams []byte       // parameters of the copy kernel, for CopyAll
	replay       replay
}

// batchOp is an operation of a batch. prepare determines which fields it uses.
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

// bounds are the indices of a part of a slice, which may be reallocated as it grows.
type bounds struct{ from, to int }

// batchEvent is an event that a submission records or waits for.
type batchEvent struct {
	e       *Event
	records bool
	record  inflight.Record // in progress
}

// replay is the last submission, if its calls can be replayed unchanged on the same
// stream. A replay checks only what may have changed: whether all resources are open, and
// what the events stand for. On an H200 that saves 0.3 us of a step of 5.8 us.
type replay struct {
	st     *streamState // nil if there is no replay
	uses   []batchUse
	kernel *Kernel // of the last launch
}

// batchUse is a resource that a submission acquires.
type batchUse struct {
	tracker    *inflight.Tracker
	access     inflight.Access
	generation uint32
}

func (b *Batch) queue() {}

// Len returns the number of operations.
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

// add adds an operation and returns it for the caller to fill in. It fails for a nil
// batch.
func (b *Batch) add(what string, prepare func(*Batch, *streamState, *batchOp) error) (*batchOp, error) {
	if b == nil {
		return nil, refusal.Invalid("%s: no batch given (nil)", what)
	}
	b.forget()
	b.ops = append(b.ops, batchOp{what: what, prepare: prepare})
	return &b.ops[len(b.ops)-1], nil
}

// forget discards the calls of the last submission.
func (b *Batch) forget() {
	if b.calls.Len() == 0 && b.replay.st == nil && len(b.events) == 0 {
		return
	}
	b.calls.Reset()
	clear(b.replay.uses)
	clear(b.events)
	b.owners, b.kernelParams, b.events = b.owners[:0], b.kernelParams[:0], b.events[:0]
	b.replay = replay{uses: b.replay.uses[:0]}
}

// Launch adds an ordinary kernel launch: see [Stream.Launch]. It copies the values of the arguments.
// Buffers among them are used from Submit on.
func (b *Batch) Launch(k *Kernel, c LaunchConfig, args ...any) error {
	if k == nil || k.m == nil {
		return refusal.Invalid("launch in a batch: no kernel given (nil)")
	}
	if c.special() {
		return refusal.New(cu.ErrorNotSupported, "launch %s (%v) in a batch: a batch takes ordinary launches only: use Stream.Launch, also in a captured graph", k.name, c)
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
		b.acquired(st, &memory[i].M, k.access(memory[i].At))
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
	handle, err := st.capture.eventFor(op.event)
	if err == nil {
		b.calls.EventRecord(handle, st.handle)
	}
	return err
}

// WaitEvent adds a wait for an event: see [Stream.WaitEvent]. The stream waits for what
// the event stands for when the batch is submitted.
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
	handle, err := st.capture.eventFor(op.event)
	if err == nil {
		b.calls.StreamWaitEvent(st.handle, handle)
	}
	return err
}

// useEvent adds an event to the submission, and starts to use it. A submission uses an
// event at most twice: first to wait for it, then to record it. Operations after a Record
// need no other use: they record the event again, or wait for their own stream.
func (b *Batch) useEvent(st *streamState, x batchEvent) error {
	for i := range b.events {
		if y := &b.events[i]; y.e == x.e && (y.records || !x.records) {
			return nil
		}
	}
	b.events = append(b.events, x)
	return b.beginEvent(st)
}

// beginEvent starts to use the next event.
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

// endEvents ends the uses of events. recorded is the stream in which they were recorded,
// or nil if they were not recorded.
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

// beginWait counts a submission as a user of an event for which its stream will wait.
func (e *Event) beginWait(st *streamState) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	err := error(nil)
	if e.g != st.g && !sameDriver(e.g.driver, st.g.driver) {
		err = refusal.Invalid("let %v wait for %v: they must belong to one driver", st, e)
	} else if c := e.captured(); c != st.capture {
		if err = c.mayJoin(st); err == nil {
			err = refusal.Invalid("the event was recorded in a capture: use Stream.WaitEvent to join the capture")
		}
	}
	if err != nil {
		e.leave()
	}
	return err
}

// submit implements Stream.Submit.
func (b *Batch) submit(s *Stream) (err error) {
	st, err := s.begin(&b.op, "submit a batch", false)
	if err != nil {
		return err
	}
	submitted, recorded := false, (*inflight.Stream)(nil)
	defer func() { b.end(submitted, recorded) }()
	if !b.acquireReplay(st) {
		if err := b.prepare(st); err != nil {
			return err
		}
	}
	submitted = true // also if a call fails: it can have queued its work
	done, err := st.g.driver.Submit(st.g.ctx, &b.calls)
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

// end ends a submission. recorded is the stream in which events were recorded, or nil if
// the driver did not make all calls.
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

// prepare checks the operations, acquires what they use, and appends their calls.
func (b *Batch) prepare(st *streamState) error {
	b.endEvents(nil) // of a replay that failed
	b.forget()
	if st.capture == nil {
		b.replay.st = st // acquired clears it if something cannot be replayed
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

// acquire counts the submission as a user of a resource. It fails when the resource is
// closed.
func (b *Batch) acquire(t *inflight.Tracker, a inflight.Access, generation uint32) bool {
	if !b.op.Acquire(t, a, generation) {
		return false
	}
	b.addUse(t, a, generation)
	return true
}

// acquireSpan counts the submission as a user of memory.
func (b *Batch) acquireSpan(st *streamState, r *span, a inflight.Access) error {
	if err := r.acquire(&b.op, st, a); err != nil {
		return err
	}
	b.acquired(st, r, a)
	return nil
}

// acquired records memory for a replay. Memory that needs a check each time prevents a
// replay: memory allocated in stream order, memory of another GPU, and managed memory
// without concurrent access.
func (b *Batch) acquired(st *streamState, r *span, a inflight.Access) {
	if r.a == nil || r.a.g != st.g || r.a.BornOn() != nil || r.a.kind == managedMemory && !st.g.caps.ConcurrentManaged {
		b.replay.st = nil
		return
	}
	b.addUse(&r.a.Tracker, a, r.generation)
}

// addUse records a resource for a replay. It searches only the latest 32 uses for the same
// resource, so a resource can appear twice.
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

// acquireReplay acquires what the last submission used, to replay its calls. It returns
// false if the calls must be prepared again. Resources that it has acquired by then stay
// acquired until the submission ends.
func (b *Batch) acquireReplay(st *streamState) bool {
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

// explain returns an error that names the operation.
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

// lastKernel returns the kernel of the last launch among the first done calls, or nil.
func (b *Batch) lastKernel(done int) *Kernel {
	for _, i := range slices.Backward(b.owners[:done]) {
		if k := b.ops[i].kernel; k != nil {
			return k
		}
	}
	return nil
}
