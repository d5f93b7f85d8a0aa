package cutest

import (
	"math"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const eventDoc = "Programming Guide: Events; Driver API: Event Management"

// delayCycles lets a kernel run for a little less than a millisecond.
const delayCycles = 1_000_000

func (c *trial) elapsed(start, end cu.Event) float32 {
	ms, err := c.d.EventElapsedTime(c.ctx, start, end)
	c.ok(err, "elapsed time")
	return ms
}

var eventChecks = []check{
	{"event/never-recorded", "an event that was never recorded counts as done",
		"Driver API: cuEventQuery, cuEventSynchronize", 0, func(c *trial) {
			e := c.event(0)
			c.ok(c.d.EventQuery(c.ctx, e), "query")
			c.step("an event that was never recorded")
			c.ok(c.d.EventSynchronize(c.ctx, e), "synchronize")
		}},
	{"event/query", "an event is not ready until the work before its record is done",
		"Driver API: cuEventQuery", needMapHost, func(c *trial) {
			s, e := c.stream(cu.StreamNonBlocking), c.event(0)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.want(c.d.EventQuery(c.ctx, e), "query", cu.ErrorNotReady)
			g.open()
			c.until("the event to be ready", func() bool { return c.d.EventQuery(c.ctx, e) == nil })
		}},
	{"event/synchronize", "synchronizing an event waits for the work before its record",
		"Driver API: cuEventSynchronize", needMapHost, func(c *trial) {
			for _, flags := range []cu.EventFlags{cu.EventDefault, cu.EventBlockingSync, cu.EventDisableTiming} {
				m, s, e := c.mapped(4), c.stream(cu.StreamNonBlocking), c.event(flags)
				g := c.gate()
				g.hold(s)
				c.launch(s, "store", 1, m.dev, uint32(21), uint32(1))
				c.ok(c.d.EventRecord(c.ctx, e, s), "record")
				c.mustWait(g, "EventSynchronize", func() error { return c.d.EventSynchronize(c.ctx, e) })
				c.check(loadWord(m.b, 0) == 21, "got %d after the wait, want 21", loadWord(m.b, 0))
			}
		}},
	{"event/not-later-work", "an event does not wait for work queued after its record",
		"Driver API: cuEventRecord", needMapHost, func(c *trial) {
			m, s, e := c.mapped(4), c.stream(cu.StreamNonBlocking), c.event(0)
			c.launch(s, "store", 1, m.dev, uint32(22), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			g := c.gate()
			g.hold(s)
			c.mustReturn(g, "EventSynchronize", func() error { return c.d.EventSynchronize(c.ctx, e) })
			c.check(loadWord(m.b, 0) == 22, "got %d, want 22", loadWord(m.b, 0))
			c.busy(s)
		}},
	{"event/record-again", "a second record of an event replaces the first",
		"Driver API: cuEventRecord", needMapHost, func(c *trial) {
			s, e := c.stream(cu.StreamNonBlocking), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.step("an event on an idle stream")
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait")
			g := c.gate()
			g.hold(s)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record again")
			c.want(c.d.EventQuery(c.ctx, e), "query", cu.ErrorNotReady)
		}},
	{"event/record-elsewhere", "an event recorded again on another stream no longer depends on the first",
		"Driver API: cuEventRecord", needMapHost | needConcurrentKernels, func(c *trial) {
			busy, idle, e := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking), c.event(0)
			g := c.gate()
			g.hold(busy)
			c.ok(c.d.EventRecord(c.ctx, e, busy), "record")
			c.ok(c.d.EventRecord(c.ctx, e, idle), "record on an idle stream")
			c.mustReturn(g, "EventSynchronize", func() error { return c.d.EventSynchronize(c.ctx, e) })
			c.busy(busy)
		}},
	{"event/elapsed-covers-kernel", "the time between two events covers the kernel between them",
		"Programming Guide: Elapsed Time; Driver API: cuEventElapsedTime", 0, func(c *trial) {
			s, a, b := c.stream(cu.StreamNonBlocking), c.event(0), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, a, s), "record")
			c.launch(s, "delay", 1, uint64(delayCycles), cu.DevicePtr(0))
			c.ok(c.d.EventRecord(c.ctx, b, s), "record")
			c.sync(s)
			ms := c.elapsed(a, b)
			least := float32(delayCycles) / float32(c.attr(cu.DeviceAttributeClockRate)) * 0.9
			c.observe("event.elapsed-of-a-million-cycles-ms", ms)
			c.check(ms >= least && ms < 1000, "%d cycles took %g ms, want at least %g", delayCycles, ms, least)
		}},
	{"event/elapsed-adds-up", "times between events of one stream add up, and backwards they are negative",
		"Driver API: cuEventElapsedTime", 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			var e [3]cu.Event
			for i := range e {
				e[i] = c.event(0)
				c.ok(c.d.EventRecord(c.ctx, e[i], s), "record")
				c.launch(s, "delay", 1, uint64(delayCycles/2), cu.DevicePtr(0))
			}
			c.sync(s)
			whole, parts := c.elapsed(e[0], e[2]), c.elapsed(e[0], e[1])+c.elapsed(e[1], e[2])
			c.check(math.Abs(float64(whole-parts)) < 0.01, "%g ms in all, %g as a sum", whole, parts)
			c.check(c.elapsed(e[0], e[0]) == 0, "from an event to itself: %g ms", c.elapsed(e[0], e[0]))
			back := c.elapsed(e[2], e[0])
			c.observe("event.elapsed-backwards-ms", back)
			c.check(back < 0, "backwards %g ms, forwards %g", back, whole)
		}},
	{"event/elapsed-agrees-with-host", "the device's clock agrees with the host's: no kernel takes longer than the wait for it",
		"Driver API: cuEventElapsedTime", 0, func(c *trial) {
			if cu.AsEmulated(c.d) != nil {
				c.skip("an emulated device has a clock of its own")
			}
			s, a, b := c.stream(cu.StreamNonBlocking), c.event(0), c.event(0)
			began := time.Now()
			c.ok(c.d.EventRecord(c.ctx, a, s), "record")
			c.launch(s, "delay", 1, uint64(20*delayCycles), cu.DevicePtr(0))
			c.ok(c.d.EventRecord(c.ctx, b, s), "record")
			c.sync(s)
			host := float32(time.Since(began).Seconds() * 1000)
			c.check(c.elapsed(a, b) < host*1.01+0.1, "the device says %g ms, the host %g", c.elapsed(a, b), host)
		}},
	{"event/on-legacy-stream", "an event on the legacy stream covers earlier work of blocking streams too",
		defaultDoc, needMapHost, func(c *trial) {
			s, e := c.stream(cu.StreamDefault), c.event(0)
			g := c.gate()
			g.hold(s)
			c.ok(c.d.EventRecord(c.ctx, e, 0), "record on the legacy stream")
			c.mustWait(g, "EventSynchronize", func() error { return c.d.EventSynchronize(c.ctx, e) })
		}},
	{"event/destroy-busy", "destroying an event that is not done returns at once and does not affect the work",
		"Driver API: cuEventDestroy", needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			e, err := c.d.EventCreate(c.ctx, 0)
			c.ok(err, "create")
			g := c.gate()
			g.hold(s)
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.launch(s, "store", 1, m.dev, uint32(23), uint32(1))
			c.mustReturn(g, "EventDestroy", func() error { return c.d.EventDestroy(c.ctx, e) })
			g.open()
			c.sync(s)
			c.check(loadWord(m.b, 0) == 23, "got %d, want 23", loadWord(m.b, 0))
		}},
	{"event/many", "thousands of events can be recorded and waited for",
		eventDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			var last cu.Event
			for range 2000 {
				last = c.event(cu.EventDisableTiming)
				c.ok(c.d.EventRecord(c.ctx, last, s), "record")
			}
			c.step("the last of 2000 events")
			c.ok(c.d.EventSynchronize(c.ctx, last), "wait")
			c.ok(c.d.StreamQuery(c.ctx, s), "the stream of the last event")
		}},
}

var eventMisuseChecks = []check{
	{"event/unknown-flags", "flags that do not exist, or interprocess with timing, are refused",
		"Driver API: cuEventCreate", 0, func(c *trial) {
			for _, flags := range []cu.EventFlags{0x8, 0x1000, cu.EventInterprocess} {
				e, err := c.d.EventCreate(c.ctx, flags)
				c.want(err, "create", cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.EventDestroy(c.ctx, e)
				}
			}
		}},
	{"event/elapsed-without-timing", "there is no elapsed time between events without timing",
		"Driver API: cuEventElapsedTime", 0, func(c *trial) {
			a, b := c.event(cu.EventDisableTiming), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, a, 0), "record")
			c.ok(c.d.EventRecord(c.ctx, b, 0), "record")
			c.syncAll()
			_, err := c.d.EventElapsedTime(c.ctx, a, b)
			c.want(err, "elapsed", cu.ErrorInvalidHandle)
			_, err = c.d.EventElapsedTime(c.ctx, b, a)
			c.want(err, "elapsed backwards", cu.ErrorInvalidHandle)
		}},
	{"event/elapsed-never-recorded", "there is no elapsed time to or from an event that was never recorded",
		"Driver API: cuEventElapsedTime", 0, func(c *trial) {
			a, b := c.event(0), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, a, 0), "record")
			c.syncAll()
			_, err := c.d.EventElapsedTime(c.ctx, a, b)
			c.want(err, "to one never recorded", cu.ErrorInvalidHandle)
			_, err = c.d.EventElapsedTime(c.ctx, b, a)
			c.want(err, "from one never recorded", cu.ErrorInvalidHandle)
		}},
	{"event/elapsed-not-ready", "there is no elapsed time yet to an event that is not done",
		"Driver API: cuEventElapsedTime", needMapHost, func(c *trial) {
			s, a, b := c.stream(cu.StreamNonBlocking), c.event(0), c.event(0)
			c.ok(c.d.EventRecord(c.ctx, a, s), "record")
			g := c.gate()
			g.hold(s)
			c.ok(c.d.EventRecord(c.ctx, b, s), "record")
			_, err := c.d.EventElapsedTime(c.ctx, a, b)
			c.want(err, "elapsed", cu.ErrorNotReady)
			g.open()
			c.sync(s)
			c.check(c.elapsed(a, b) >= 0, "%g ms after the gate", c.elapsed(a, b))
		}},
	{"event/no-event", "event 0 is an invalid handle",
		"Driver API: Event Management", 0, func(c *trial) {
			const bad = cu.ErrorInvalidHandle
			c.want(c.d.EventRecord(c.ctx, 0, 0), "record", bad)
			c.want(c.d.EventQuery(c.ctx, 0), "query", bad)
			c.want(c.d.EventSynchronize(c.ctx, 0), "synchronize", bad)
			c.want(c.d.EventDestroy(c.ctx, 0), "destroy", bad)
			_, err := c.d.EventElapsedTime(c.ctx, 0, c.event(0))
			c.want(err, "elapsed", bad)
		}},
	{"event/record-flags", "an external record is refused outside a capture, as are unknown flags",
		"Driver API: cuEventRecordWithFlags", 0, func(c *trial) {
			s, e := c.stream(0), c.event(0)
			c.ok(c.d.EventRecordWithFlags(c.ctx, e, s, cu.EventRecordDefault), "default flags")
			err := c.d.EventRecordWithFlags(c.ctx, e, s, cu.EventRecordExternal)
			c.want(err, "external outside a capture", cu.ErrorIllegalState)
			c.want(c.d.EventRecordWithFlags(c.ctx, e, s, 0x100), "unknown flags", cu.ErrorInvalidValue)
			c.sync(s)
		}},
	{"event/use-after-destroy", "a destroyed event is an invalid handle",
		"Driver API: cuEventDestroy (undefined on hardware)", needEmulated, func(c *trial) {
			e, err := c.d.EventCreate(c.ctx, 0)
			c.ok(err, "create")
			c.ok(c.d.EventDestroy(c.ctx, e), "destroy")
			const bad = cu.ErrorInvalidHandle
			c.want(c.d.EventQuery(c.ctx, e), "query", bad)
			c.want(c.d.EventRecord(c.ctx, e, 0), "record", bad)
			c.want(c.d.EventDestroy(c.ctx, e), "destroy again", bad)
		}},
}
