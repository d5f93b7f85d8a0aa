package check

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/vclock"
)

// waitsFor says that the call waits for what a clock has, once it succeeds.
func (c *call) waitsFor(k func(*orders) vclock.Clock) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.reach = k(&c.d.orders)
}

func (c *call) waitsForAll(ctx cu.Context) {
	c.waitsFor(func(o *orders) vclock.Clock { return o.all(ctx) })
}

func (c *call) waitsForStream(ctx cu.Context, s cu.Stream) {
	c.waitsFor(func(o *orders) vclock.Clock { return o.reach(o.lane(ctx, s)) })
}

func (c *call) waitsForEvent(h cu.Event) {
	c.waitsFor(func(o *orders) vclock.Clock {
		e := o.event(h)
		o.hosts = keep(o.hosts, wait{e, c.site, e.last, e.ever})
		switch {
		case e.capture != nil || !e.ever:
			return nil
		case e.unknown:
			return o.all(0)
		}
		return e.last.at
	})
}

func (c *call) beforeCtxSynchronize(ctx cu.Context)                 { c.waitsForAll(ctx) }
func (c *call) beforeStreamSynchronize(ctx cu.Context, s cu.Stream) { c.waitsForStream(ctx, s) }
func (c *call) beforeStreamQuery(ctx cu.Context, s cu.Stream)       { c.waitsForStream(ctx, s) }
func (c *call) beforeEventSynchronize(ctx cu.Context, e cu.Event)   { c.waitsForEvent(e) }
func (c *call) beforeEventQuery(ctx cu.Context, e cu.Event)         { c.waitsForEvent(e) }

func (c *call) beforeModuleLoadData(ctx cu.Context, image []byte) { c.waitsForAll(ctx) }
func (c *call) beforeModuleLoadDataEx(ctx cu.Context, image []byte, options *cu.JITOptions) {
	c.waitsForAll(ctx)
}
func (c *call) beforeModuleUnload(ctx cu.Context, m cu.Module) { c.waitsForAll(ctx) }

func (c *call) beforeCtxSetLimit(ctx cu.Context, limit cu.Limit, value uintptr) {
	c.waitsForAll(ctx)
}

func (c *call) doneEventElapsedTime(ctx cu.Context, start, end cu.Event, ms float32, err error) {
	if err == nil { // both are done
		c.waitsForEvent(end)
		first := c.reach
		c.waitsForEvent(start)
		c.reach = c.reach.Join(first)
	}
}

func (c *call) afterStreamCreate(ctx cu.Context, flags cu.StreamFlags, s cu.Stream) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	o := &c.d.orders
	delete(o.lanes, laneKey{stream: s}) // destroyed unseen
	o.newLane(laneKey{stream: s}, ctx, flags&cu.StreamNonBlocking == 0)
}

func (c *call) afterStreamCreateWithPriority(ctx cu.Context, flags cu.StreamFlags, priority int32, s cu.Stream) {
	c.afterStreamCreate(ctx, flags, s)
}

func (c *call) beforeStreamDestroy(ctx cu.Context, s cu.Stream) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane = c.d.orders.take(s)
}

func (c *call) doneStreamDestroy(ctx cu.Context, s cu.Stream, err error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	switch l := c.lane; {
	case l == nil:
	case err == nil:
		c.d.orders.destroyed(l)
	default:
		c.d.orders.lanes[laneKey{stream: s}] = l
	}
	c.lane = nil
}

func (c *call) afterEventCreate(ctx cu.Context, flags cu.EventFlags, h cu.Event) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	o := &c.d.orders
	o.eventN++
	o.events[h] = &event{number: o.eventN, ctx: ctx}
}

func (c *call) beforeEventDestroy(ctx cu.Context, h cu.Event) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.event = c.d.orders.events[h]
	delete(c.d.orders.events, h)
}

func (c *call) doneEventDestroy(ctx cu.Context, h cu.Event, err error) {
	if err != nil && c.event != nil {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		c.d.orders.events[h] = c.event
	}
}

func (c *call) afterEventRecord(ctx cu.Context, h cu.Event, s cu.Stream) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	o := &c.d.orders
	o.recorded(o.event(h), o.lane(ctx, s), c.site)
}

func (c *call) afterEventRecordWithFlags(ctx cu.Context, h cu.Event, s cu.Stream, flags cu.EventRecordFlags) {
	if flags&cu.EventRecordExternal == 0 {
		c.afterEventRecord(ctx, h, s)
		return
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	e := c.d.orders.event(h)
	e.ever, e.unknown, e.capture = true, true, nil // launches of the graph record it
}

func (c *call) doneEventRecord(ctx cu.Context, h cu.Event, s cu.Stream, err error) {
	if errors.Is(err, cu.ErrorInvalidHandle) {
		c.badEvent("an event is recorded in a stream of another context, or does not exist", "make the event in the context of the stream")
	}
}

func (c *call) badEvent(what, mend string) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.report(Finding{Kind: Event, Second: &Side{Call: c.name, Place: c.d.place(c.site), site: c.site}, What: what, Mend: mend})
}

func (c *call) afterStreamWaitEvent(ctx cu.Context, s cu.Stream, h cu.Event, flags cu.EventWaitFlags) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	o := &c.d.orders
	l, e := o.lane(ctx, s), o.event(h)
	switch {
	case l.capture == nil && e.capture == nil:
		o.waited(l, e, c.site)
	case flags&cu.EventWaitExternal != 0 || e.capture == nil:
	case l.capture == nil:
		e.capture.add(l)
		l.within = l.within.Join(e.last.at)
	default:
		l.within = l.within.Join(e.last.at)
	}
}
