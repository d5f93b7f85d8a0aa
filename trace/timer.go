package trace

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// timer measures the operations of hardware with events: one after each, and one before
// those that may find their stream idle. During a driver call it keeps no lock but that of
// one operation, and it makes none in a stream that captures. While any stream
// captures it asks no event, because such calls end a capture. A capture can begin while it
// asks, so it asks in the relaxed capture mode.
type timer struct {
	d        *Driver
	captures captures
	lastOp   atomic.Uint64
	reader   reader

	last     atomic.Pointer[clock] // of the last call, which is the usual one; nil for none
	mu       sync.Mutex
	contexts map[cu.Context]*clock
}

func newTimer(d *Driver) *timer { return &timer{d: d, contexts: map[cu.Context]*clock{}} }

// Limits of the timer.
const (
	anchorAge  = int64(4 * time.Second) // an event's time has a 24-bit fraction of the time since its anchor
	anchorRuns = 5
	anchorWait = 2 * time.Millisecond // for an event in a stream without work
	retryAfter = int64(time.Second)   // after a failure to make an anchor
	mostEvents = 1024                 // events of a context above which a call reads times itself
	readSome   = 16                   // operations that such a call reads
	readAtOnce = 64                   // operations that the reader reads before it frees their events
)

// beginOp notes or records when an operation starts.
func (t *timer) beginOp(c *call, stream cu.Stream, o *opRow) {
	k := t.clock(c.ctx)
	x := &timing{op: *o, stream: stream, clock: k, next: c.timed}
	x.op.id, x.op.call, x.op.stream = t.lastOp.Add(1), c.id, t.d.names.stream(stream)
	x.op.queued, x.op.device, x.op.origin = c.start, k.device, c.origin
	c.timed = x
	if t.captures.contain(t.d.inner, c.ctx, stream) {
		x.op.untimed = "recorded in a graph"
		return
	}
	due := k.prepare(x, c.start)
	if due && t.captures.none() {
		t.renew(x)
	}
	if x.anchor == nil {
		x.op.untimed = "no events"
		return
	}
	if x.end == 0 {
		x.end = t.event(x)
	}
	if x.end != 0 && x.after != nil && t.pending(x) {
		return
	}
	x.after = nil
	if x.start == 0 {
		x.start = t.event(x)
	}
	if x.end == 0 || x.start == 0 {
		x.op.untimed = "no events"
		return
	}
	if err := t.d.inner.EventRecord(c.ctx, x.start, stream); err != nil {
		x.op.untimed = "no event before it: " + err.Error()
	}
}

// event returns a free event for an operation. If the clock has many and none is free, it first
// reads times of the operation's stream, so that a program that queues faster than the reader reads
// does not need ever more.
func (t *timer) event(x *timing) cu.Event {
	k := x.clock
	if k.many() && t.captures.none() && !t.read(k, x.queue, readSome, false) {
		k.allow()
	}
	return k.event(t.d.inner)
}

// beginBatch records an event in each stream of a batch. What the batch does in one
// stream is one operation.
func (t *timer) beginBatch(c *call, b *cu.Batch) {
	type part struct {
		ops   int
		bytes uint64
	}
	parts := map[cu.Stream]*part{}
	var order []cu.Stream
	prepared, current := b.Prepared()
	calls := b.Calls()
	if current {
		b.Prepare(prepared) // the calls stay as they are
	}
	for i := range calls {
		op := &calls[i]
		t.unknown(c.ctx, op.Stream) // what waits for what in a batch is not followed
		if op.Op == cu.OpEventRecord {
			t.forgets(c.ctx, op.Event)
		}
		if !isOperation(op) {
			continue
		}
		p := parts[op.Stream]
		if p == nil {
			p = &part{}
			parts[op.Stream] = p
			order = append(order, op.Stream)
		}
		p.ops++
		p.bytes += bytesOf(op)
	}
	for _, s := range order {
		t.beginOp(c, s, &opRow{name: "[batch]", bytes: parts[s].bytes, count: parts[s].ops})
		c.timed.batch = true
	}
}

// endBatch notes which calls of a batch were made before one failed. Those in a stream
// stay an operation.
func (t *timer) endBatch(c *call, made []cu.Call) {
	for x := c.timed; x != nil; x = x.next {
		x.op.count, x.op.bytes = 0, 0
		for i := range made {
			if op := &made[i]; op.Stream == x.stream && isOperation(op) {
				x.op.count++
				x.op.bytes += bytesOf(op)
			}
		}
		x.partly = x.op.count > 0
	}
}

// isOperation reports whether a call of a batch is work of the device.
func isOperation(op *cu.Call) bool {
	return op.Op != cu.OpEventRecord && op.Op != cu.OpStreamWaitEvent
}

// bytesOf returns the bytes that a call of a batch copies or fills.
func bytesOf(op *cu.Call) uint64 {
	if op.Op == cu.OpLaunchKernel {
		return 0
	}
	return uint64(op.Bytes)
}

// endOps records the events after the operations of a call.
func (t *timer) endOps(c *call, err error) {
	for x := c.timed; x != nil; x = x.next {
		switch {
		case err != nil && !x.partly:
			t.unknown(c.ctx, x.stream)
			x.discard()
			continue
		case x.op.untimed != "":
		default:
			if err := t.d.inner.EventRecord(c.ctx, x.end, x.stream); err != nil {
				x.op.untimed = "no event after it: " + err.Error()
			}
		}
		if x.op.untimed != "" {
			t.unknown(c.ctx, x.stream)
			x.discard()
			t.d.rec.addOp(t.d.id, &x.op)
			continue
		}
		t.push(x)
	}
}

// clock returns the clock of a context.
func (t *timer) clock(ctx cu.Context) *clock {
	if k := t.last.Load(); k != nil && k.ctx == ctx {
		return k
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.contexts[ctx]
	if k == nil {
		k = &clock{ctx: ctx, device: t.d.device(ctx), queues: map[cu.Stream]*queue{}, most: mostEvents}
		k.order = order{events: map[cu.Event][]*timing{}}
		t.contexts[ctx] = k
	}
	t.last.Store(k)
	return k
}

// renew gives an operation a young anchor instead of the one that it has, if one can be made.
func (t *timer) renew(x *timing) {
	if x.anchor != nil {
		x.clock.dropAnchor(x.anchor)
	}
	x.anchor = x.clock.renew(t.makeAnchor(x.clock), t.d.rec.now()+retryAfter)
}

// makeAnchor records events in a stream of its own and takes the one that the host has
// waited for least.
func (t *timer) makeAnchor(k *clock) *anchor {
	d := t.d.inner
	defer t.restore(t.relax())
	k.mu.Lock()
	s := k.stream
	k.mu.Unlock()
	if s == 0 {
		var err error
		if s, err = d.StreamCreate(k.ctx, cu.StreamNonBlocking); err != nil {
			return nil
		}
		k.mu.Lock()
		k.stream = s
		k.mu.Unlock()
	}
	var best *anchor
	least := int64(0)
	for range anchorRuns {
		e := k.event(d)
		before := t.d.rec.now()
		if e == 0 {
			return best
		}
		if d.EventRecord(k.ctx, e, s) != nil || !t.soon(k, e) {
			_ = d.EventDestroy(k.ctx, e) // it may be recorded still, so no operation can use it
			return best
		}
		after := t.d.rec.now()
		if best == nil || after-before < least {
			if best != nil {
				k.release(best.event)
			}
			best, least = &anchor{event: e, at: before + (after-before)/2}, after-before
		} else {
			k.release(e)
		}
	}
	return best
}

// soon waits for an event, but not longer than anchorWait. Its stream has no work, but
// with one hardware queue it can be behind a kernel that waits for the host.
func (t *timer) soon(k *clock, e cu.Event) bool {
	for began := time.Now(); ; {
		last := time.Since(began) > anchorWait // a busy machine can take this long between two questions
		err := t.d.inner.EventQuery(k.ctx, e)
		if !errors.Is(err, cu.ErrorNotReady) {
			return err == nil
		}
		if last {
			return false
		}
	}
}

// relax sets the capture mode of the thread to relaxed, until restore. In another mode a
// question ends a capture that another thread began.
func (t *timer) relax() (before cu.StreamCaptureMode) {
	runtime.LockOSThread()
	before, err := t.d.inner.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
	if err != nil {
		return cu.StreamCaptureModeRelaxed
	}
	return before
}

// restore undoes relax.
func (t *timer) restore(mode cu.StreamCaptureMode) {
	if mode != cu.StreamCaptureModeRelaxed {
		_, _ = t.d.inner.ThreadExchangeStreamCaptureMode(mode)
	}
	runtime.UnlockOSThread()
}

// read reads the times of the first n operations of a queue, if the last of them is done.
// Operations of a stream end in their order. It reports whether it has read any. Without wait it
// reads none while another goroutine asks about the queue.
func (t *timer) read(k *clock, q *queue, n int, wait bool) bool {
	part := k.claim(q, n, wait)
	if part == nil {
		return false
	}
	defer t.restore(t.relax())
	done, err := t.ask(k, q, part)
	if !done {
		return false
	}
	defer k.ended(q, part)
	for _, x := range part {
		t.finishOp(x, err)
	}
	return true
}

// ask asks whether operations of a queue are done. err says that their times are not known.
func (t *timer) ask(k *clock, q *queue, part []*timing) (done bool, err error) {
	defer func() { k.asked(q, len(part), done) }() // also if a driver panics
	err = t.d.inner.EventQuery(k.ctx, part[len(part)-1].end)
	return !errors.Is(err, cu.ErrorNotReady), err
}

// finishOp adds the row of an operation that is done, or of which err says that its times
// are not known. Its events are free after the clock's release.
func (t *timer) finishOp(x *timing, err error) {
	d := t.d.inner
	if err == nil {
		x.op.end, err = x.ended(d)
	} else {
		x.retire()
	}
	if err == nil {
		x.op.start, err = x.began(d, x.op.end)
	}
	if err != nil {
		x.op.untimed = err.Error()
	} else {
		x.op.why = "unknown"
	}
	t.d.rec.addOp(t.d.id, &x.op)
}

// finish waits for the operations of a context that is about to be destroyed, reads their
// times and destroys the events.
func (t *timer) finish(ctx cu.Context) {
	t.mu.Lock()
	k := t.contexts[ctx]
	delete(t.contexts, ctx)
	if len(t.contexts) == 0 {
		defer t.expect() // which forgets the timer, unless a new context has operations by then
	}
	t.last.CompareAndSwap(k, nil)
	t.mu.Unlock()
	if k == nil {
		return
	}
	d := t.d.inner
	defer t.restore(t.relax())
	for _, q := range k.all() {
		for _, x := range k.take(q) {
			t.finishOp(x, d.EventSynchronize(ctx, x.end))
			x.discard() // the queue is gone
		}
	}
	k.renew(nil, 0)
	k.mu.Lock()
	events, s := k.free, k.stream
	k.free = nil
	k.mu.Unlock()
	for _, e := range events {
		_ = d.EventDestroy(ctx, e) // the context ends, and its events with it
	}
	if s != 0 {
		_ = d.StreamDestroy(ctx, s)
	}
}
