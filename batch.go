package ferry

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// Batch is a list of operations that a stream gets together: [Copy], [Fill],
// [Batch.Launch], [Batch.Record] and [Batch.WaitEvent] note them, and
// [Stream.Submit] hands them to the driver in one crossing into C, where each
// alone would take one.
//
// Nothing is in flight before Submit: it checks what can only be known then, such
// as whether a buffer is closed. A batch can be submitted many times, like a
// graph without its making, and Reset empties it for other operations; in a loop
// neither allocates. The zero Batch is empty and ready. It is not safe for
// concurrent use.
type Batch struct {
	ops    []batched
	params []byte  // of all launches
	places []place // of all launches, in params

	calls  cu.Batch // what a submission calls,
	owner  []int    // and for which operation
	held   frame
	marks  []mention
	steady bool // the submission in progress can be made again as it is
	last   submitted
}

// mention is an event that a submission uses.
type mention struct {
	e       *Event
	r       recording
	records bool // else the stream waits for it
}

// batched is an operation of a batch.
type batched struct {
	what     string
	dst, src region
	kernel   *Kernel
	shape    Shape
	params   span // in Batch.params; the value of a fill is there, too
	places   span
	event    *Event
	records  bool // the event, else the stream waits for it
	begin    func(*Batch, *queue, *batched) error
}

// span is a range of a slice that may be moved as it grows.
type span struct{ from, to int }

func (b *Batch) queue() {}

// Len is the number of operations.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return len(b.ops)
}

// Reset takes all operations out.
func (b *Batch) Reset() {
	if b == nil {
		return
	}
	b.forget()
	clear(b.ops)
	clear(b.places)
	b.ops, b.places, b.params = b.ops[:0], b.places[:0], b.params[:0]
}

// add notes an operation, for the caller to fill in.
func (b *Batch) add(what string, begin func(*Batch, *queue, *batched) error) *batched {
	b.forget()
	b.ops = append(b.ops, batched{})
	op := &b.ops[len(b.ops)-1]
	op.what, op.begin = what, begin
	return op
}

// forget lets go of the last submission.
func (b *Batch) forget() {
	if b.calls.Len() == 0 && b.last.q == nil {
		return
	}
	b.calls.Reset()
	b.owner = b.owner[:0]
	clear(b.last.uses)
	clear(b.last.records)
	clear(b.last.waits)
	b.last = submitted{uses: b.last.uses[:0], records: b.last.records[:0], waits: b.last.waits[:0]}
}

// Launch notes a launch: see [Stream.Launch]. The arguments are read now; buffers
// among them are used when the batch is submitted.
func (b *Batch) Launch(k *Kernel, shape Shape, args ...any) error {
	switch {
	case b == nil:
		return b.missing("launch")
	case k == nil:
		return refuse("launch in a batch: no kernel given (nil)")
	}
	f := frames.Get().(*frame)
	err := f.pack(nil, k, args)
	if err == nil {
		op := b.add("launch", (*Batch).beginLaunch)
		op.kernel, op.shape = k, shape
		op.params, op.places = span{from: len(b.params)}, span{from: len(b.places)}
		b.params, b.places = append(b.params, f.params...), append(b.places, f.places...)
		op.params.to, op.places.to = len(b.params), len(b.places)
	}
	f.done()
	if err != nil {
		return fmt.Errorf("launch %s in a batch: %w", k.name, err)
	}
	return nil
}

// missing is the refusal of an operation without a batch.
func (b *Batch) missing(what string) error { return refuse("%s: no batch given (nil)", what) }

// Record notes that an event is recorded: see [Stream.Record].
func (b *Batch) Record(e *Event) error {
	switch {
	case b == nil:
		return b.missing("record an event")
	case e == nil:
		return refuse("record in a batch: no event given (nil)")
	}
	op := b.add("record an event", (*Batch).beginRecord)
	op.event, op.records = e, true
	return nil
}

// WaitEvent notes a wait for what the event stands for when the batch is
// submitted: see [Stream.WaitEvent].
func (b *Batch) WaitEvent(e *Event) error {
	switch {
	case b == nil:
		return b.missing("wait for an event")
	case e == nil:
		return refuse("wait for an event in a batch: no event given (nil)")
	}
	b.add("wait for an event", (*Batch).beginWait).event = e
	return nil
}

// copy is Copy.
func (b *Batch) copy(dst, src *region) error {
	err := dst.check()
	if err == nil {
		err = src.check()
	}
	switch {
	case err != nil:
		return fmt.Errorf("copy in a batch: %w", err)
	case dst.isPlain() || src.isPlain():
		return refuse("copy in a batch from %v to %v: plain memory may change before the batch is submitted, and is copied by the CPU: use a buffer of AllocHost or Register", src, dst)
	case b == nil:
		return b.missing("copy")
	}
	op := b.add("copy", (*Batch).beginCopy)
	op.dst, op.src = *dst, *src
	return nil
}

// fill is Fill.
func (b *Batch) fill(dst *region, value []byte) error {
	if err := dst.check(); err != nil {
		return fmt.Errorf("fill in a batch: %w", err)
	}
	if b == nil {
		return b.missing("fill")
	}
	op := b.add("fill", (*Batch).beginFill)
	op.dst, op.params.from = *dst, len(b.params)
	b.params = append(b.params, value...)
	op.params.to = len(b.params)
	return nil
}

// Submit queues all operations of the batch, in their order, as if one by one. If
// one cannot be queued nothing is, and the error says which; if the driver
// refuses one, those before it are queued. Submit allocates nothing, and is
// cheapest for a batch that it has had before.
func (s *Stream) Submit(b *Batch) error {
	if b != nil && b.last.q != nil && b.last.q == s.runs() {
		if err := b.submitAgain(b.last.q); err != errMore {
			return err
		}
	}
	q, err := s.enter("submit a batch")
	if err != nil {
		return err
	}
	if b == nil {
		q.leave()
		return refuse("submit on %v: no batch given (nil)", q)
	}
	done := 0
	if err = b.collect(q); err == nil {
		if done, err = q.g.driver.Submit(q.g.ctx, &b.calls); err != nil {
			err = b.explain(q, b.owner[done], err)
		}
	}
	endEvents(b.marks, q, err)
	clear(b.marks)
	b.marks = b.marks[:0]
	q.ran(b.lastKernel(done))
	b.held.release(q.finish(done > 0))
	if b.last.q == nil {
		b.forget()
	}
	return err
}

// ran notes the kernel that was launched last, if there is one.
func (q *queue) ran(k *Kernel) {
	if k != nil && q.last.Load() != k && q.c == nil {
		q.last.Store(k)
	}
}

// collect begins the operations: it checks them, marks what they use, and lists
// their calls.
func (b *Batch) collect(q *queue) error {
	b.forget()
	b.steady = q.c == nil
	for i := range b.ops {
		op := &b.ops[i]
		if err := op.begin(b, q, op); err != nil {
			return b.explain(q, i, err)
		}
		for len(b.owner) < b.calls.Len() {
			b.owner = append(b.owner, i)
		}
	}
	if b.steady {
		b.last.q = q
		b.last.uses = append(b.last.uses, b.held.held...)
	}
	return nil
}

func (b *Batch) explain(q *queue, i int, err error) error {
	op := &b.ops[i]
	what := op.what
	switch {
	case op.kernel != nil:
		what = fmt.Sprintf("launch %s (%v)", op.kernel.name, op.shape)
	case op.src.a != nil:
		what = fmt.Sprintf("copy %s to %v from %v", sizeText(op.dst.bytes), &op.dst, &op.src)
	case op.dst.a != nil:
		what = fmt.Sprintf("fill %v", &op.dst)
	}
	return fmt.Errorf("batch on %v: operation %d of %d, %s: %w", q, i+1, len(b.ops), what, err)
}

// endEvents ends the uses of events.
func endEvents(marks []mention, q *queue, err error) {
	for i := range marks {
		m := &marks[i]
		if m.records {
			m.e.end(q, m.r, err)
		} else {
			m.e.leave()
		}
	}
}

// lastKernel is what the last launch among the first done calls launched.
func (b *Batch) lastKernel(done int) *Kernel {
	for _, i := range slices.Backward(b.owner[:done]) {
		if k := b.ops[i].kernel; k != nil {
			return k
		}
	}
	return nil
}

// use marks a region as in use.
func (b *Batch) use(q *queue, r *region, a access) error {
	if !b.held.hold(q, &r.a.flight, a, r.age) {
		return r.a.errClosed()
	}
	b.steady = b.steady && r.isOf(q.g)
	return r.a.ordered(q)
}

func (b *Batch) beginCopy(q *queue, op *batched) error {
	dst, src := &op.dst, &op.src
	if err := b.use(q, dst, writes); err != nil {
		return err
	}
	if err := b.use(q, src, reads); err != nil {
		return err
	}
	if err := q.checkCopy(dst, src); err != nil {
		return err
	}
	switch {
	case overlap(dst, src):
		return refuse("the source and the destination overlap within %v: copy through another buffer", dst.a)
	case q.byCPU(dst, src):
		return refuse("on this device the CPU copies between them, which is not for a batch: copy by way of a Device buffer")
	case dst.bytes == 0 || same(dst, src):
		return nil
	}
	for to, from := range parts(dst, src) {
		b.calls.Append(q.copyCall(to, from))
	}
	return nil
}

func (b *Batch) beginFill(q *queue, op *batched) error {
	dst, value := &op.dst, b.params[op.params.from:op.params.to]
	if dst.a == nil {
		return refuse("%v is Go's own: fill it with a loop or clear", dst)
	}
	if err := b.use(q, dst, writes); err != nil {
		return err
	}
	unit, err := q.checkFill(dst, value)
	if err != nil || dst.bytes == 0 {
		return err
	}
	p, err := dst.fillAddress(q.g, unit)
	if err != nil {
		return err
	}
	for c := range fills(dst, p, value, unit) {
		c.Stream = q.handle
		b.calls.Append(c)
	}
	return nil
}

func (b *Batch) beginLaunch(q *queue, op *batched) error {
	k := op.kernel
	if !b.held.hold(q, &k.m.flight, reads, 0) {
		return fmt.Errorf("%v: %w", k.m, ErrClosed)
	}
	b.steady = b.steady && k.m.g == q.g
	if err := q.check(k, op.shape); err != nil {
		return err
	}
	params := b.params[op.params.from:op.params.to]
	places := b.places[op.places.from:op.places.to]
	for i := range places {
		if err := b.held.address(q, params[places[i].at:], &places[i].r); err != nil {
			return err
		}
		b.steady = b.steady && places[i].r.isOf(q.g)
	}
	b.calls.LaunchKernel(k.f, full(op.shape.Grid), full(op.shape.Block), uint32(op.shape.SharedBytes), q.handle, params)
	return nil
}

func (b *Batch) beginRecord(q *queue, op *batched) error {
	err := b.mention(q, op)
	if err == nil {
		b.calls.EventRecord(op.event.handle, q.handle)
	}
	return err
}

func (b *Batch) beginWait(q *queue, op *batched) error {
	err := b.mention(q, op)
	if err == nil {
		b.calls.StreamWaitEvent(q.handle, op.event.handle)
	}
	return err
}

// mention begins the use of an event, to record it or to wait for it.
func (b *Batch) mention(q *queue, op *batched) error {
	e := op.event
	if op.records {
		r, err := e.begin(q)
		if err == nil {
			b.marks = append(b.marks, mention{e, r, true})
		}
		return err
	}
	if err := e.enter("wait for"); err != nil {
		return err
	}
	b.marks = append(b.marks, mention{e: e})
	if e.g != q.g && !sameDriver(e.g.driver, q.g.driver) {
		return refuse("let %v wait for %v: they must be of one driver", q, e)
	}
	if c := e.captured(); c != q.c {
		if err := q.mayFollow(c); err != nil {
			return err
		}
		return refuse("the event was recorded in a capture: a stream joins it by Stream.WaitEvent")
	}
	return nil
}
