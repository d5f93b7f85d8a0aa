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

	calls cu.Batch // what a submission calls,
	owner []int    // and for which operation
	held  frame
	marks []recording
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
	clear(b.ops)
	clear(b.places)
	b.ops, b.places, b.params = b.ops[:0], b.places[:0], b.params[:0]
}

// add notes an operation.
func (b *Batch) add(op batched) error {
	if b == nil {
		return refuse("%s: no batch given (nil)", op.what)
	}
	b.ops = append(b.ops, op)
	return nil
}

// Launch notes a launch: see [Stream.Launch]. The arguments are read now; buffers
// among them are used when the batch is submitted.
func (b *Batch) Launch(k *Kernel, shape Shape, args ...any) error {
	if k == nil {
		return refuse("launch in a batch: no kernel given (nil)")
	}
	f := frames.Get().(*frame)
	defer f.done(0)
	if err := f.pack(nil, k, args); err != nil {
		return fmt.Errorf("launch %s in a batch: %w", k.name, err)
	}
	op := batched{what: "launch", kernel: k, shape: shape, begin: (*Batch).beginLaunch}
	if b == nil {
		return b.add(op)
	}
	op.params, op.places = span{from: len(b.params)}, span{from: len(b.places)}
	b.params, b.places = append(b.params, f.params...), append(b.places, f.places...)
	op.params.to, op.places.to = len(b.params), len(b.places)
	return b.add(op)
}

// Record notes that an event is recorded: see [Stream.Record].
func (b *Batch) Record(e *Event) error {
	if e == nil {
		return refuse("record in a batch: no event given (nil)")
	}
	return b.add(batched{what: "record an event", event: e, begin: (*Batch).beginRecord})
}

// WaitEvent notes a wait for what the event stands for when the batch is
// submitted: see [Stream.WaitEvent].
func (b *Batch) WaitEvent(e *Event) error {
	if e == nil {
		return refuse("wait for an event in a batch: no event given (nil)")
	}
	return b.add(batched{what: "wait for an event", event: e, begin: (*Batch).beginWait})
}

// copy is Copy.
func (b *Batch) copy(dst, src *region) error {
	for _, r := range []*region{dst, src} {
		if err := r.check(); err != nil {
			return fmt.Errorf("copy in a batch: %w", err)
		}
	}
	if dst.isPlain() || src.isPlain() {
		return refuse("copy in a batch from %v to %v: plain memory may change before the batch is submitted, and is copied by the CPU: use a buffer of AllocHost or Register", src, dst)
	}
	return b.add(batched{what: "copy", dst: *dst, src: *src, begin: (*Batch).beginCopy})
}

// fill is Fill.
func (b *Batch) fill(dst *region, value []byte) error {
	if err := dst.check(); err != nil {
		return fmt.Errorf("fill in a batch: %w", err)
	}
	op := batched{what: "fill", dst: *dst, begin: (*Batch).beginFill}
	if b != nil {
		op.params.from = len(b.params)
		b.params = append(b.params, value...)
		op.params.to = len(b.params)
	}
	return b.add(op)
}

// Submit queues all operations of the batch, in their order, as if one by one. If
// one cannot be queued nothing is, and the error says which; if the driver
// refuses one, those before it are queued. Submit allocates nothing.
func (s *Stream) Submit(b *Batch) error {
	q, err := s.enter("submit a batch")
	if err != nil {
		return err
	}
	if b == nil {
		q.leave()
		return refuse("submit on %v: no batch given (nil)", q)
	}
	err = b.collect(q)
	done := 0
	if err == nil {
		done, err = q.g.driver.Submit(q.g.ctx, &b.calls)
		if err != nil {
			err = b.explain(q, b.owner[done], err)
		}
	}
	b.settle(q, done, err)
	return err
}

// collect begins the operations: it checks them, marks what they use, and lists
// their calls.
func (b *Batch) collect(q *queue) error {
	for i := range b.ops {
		op := &b.ops[i]
		if err := op.begin(b, q, op); err != nil {
			return b.explain(q, i, err)
		}
		for len(b.owner) < b.calls.Len() {
			b.owner = append(b.owner, i)
		}
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

// settle ends the operations, of which the first done calls were made.
func (b *Batch) settle(q *queue, done int, err error) {
	marks := b.marks
	for i := range b.ops {
		op := &b.ops[i]
		if op.event == nil || len(marks) == 0 {
			continue
		}
		if marks[0].number != 0 {
			op.event.end(q, marks[0], err)
		}
		op.event.leave()
		marks = marks[1:]
	}
	b.marks = b.marks[:0]
	if k := b.lastKernel(done); k != nil && q.c == nil {
		q.last.Store(k)
	}
	b.held.release(q.finish(done > 0))
	b.calls.Reset()
	b.owner = b.owner[:0]
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
	if !b.held.hold(q, &r.a.flight, a) {
		return r.a.errClosed()
	}
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
	if !b.held.hold(q, &k.m.flight, reads) {
		return fmt.Errorf("%v: %w", k.m, ErrClosed)
	}
	if err := q.check(k, op.shape); err != nil {
		return err
	}
	params := b.params[op.params.from:op.params.to]
	places := b.places[op.places.from:op.places.to]
	for i := range places {
		if err := b.held.address(q, params[places[i].at:], &places[i].r); err != nil {
			return err
		}
	}
	b.calls.LaunchKernel(k.f, full(op.shape.Grid), full(op.shape.Block), uint32(op.shape.SharedBytes), q.handle, params)
	return nil
}

func (b *Batch) beginRecord(q *queue, op *batched) error {
	if err := op.event.enter("record"); err != nil {
		return err
	}
	b.marks = append(b.marks, recording{})
	if err := op.event.fits(q); err != nil {
		return err
	}
	b.marks[len(b.marks)-1] = op.event.begin(q)
	b.calls.EventRecord(op.event.handle, q.handle)
	return nil
}

func (b *Batch) beginWait(q *queue, op *batched) error {
	e := op.event
	if err := e.enter("wait for"); err != nil {
		return err
	}
	b.marks = append(b.marks, recording{})
	if !sameDriver(e.g.driver, q.g.driver) {
		return refuse("let %v wait for %v: they must be of one driver", q, e)
	}
	if c := e.captured(); c != q.c {
		if err := q.mayFollow(c); err != nil {
			return err
		}
		return refuse("the event was recorded in a capture: a stream joins it by Stream.WaitEvent")
	}
	b.calls.StreamWaitEvent(q.handle, e.handle)
	return nil
}
