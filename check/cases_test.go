package check_test

import (
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// cases are programs that the table of docs/generated/check.md does not have. Most have no wrong form:
// they were reported falsely.
var cases = []pair{
	{name: "source-that-a-host-function-changes", right: func(r *rig) {
		r.call(r.a, func() { r.host[7]++ })
		r.up(r.a, r.dev, r.host)
		r.sync(r.a)
	}},
	{name: "source-that-an-earlier-copy-changes", right: func(r *rig) {
		r.fill(r.a, r.dev, size)
		r.down(r.a, r.host, r.dev)
		r.up(r.a, r.there, r.host)
		r.sync(r.a)
	}},
	{name: "source-changed-behind-a-host-function", kind: check.HostInFlight, text: "has changed page-locked memory",
		wrong: func(r *rig) { r.call(r.a, func() {}); r.sync(r.a); r.up(r.a, r.dev, r.host); r.host[7]++; r.sync(r.a) },
		right: func(r *rig) { r.call(r.a, func() {}); r.sync(r.a); r.up(r.a, r.dev, r.host); r.sync(r.a); r.host[7]++ }},
	{name: "source-changed-beside-a-copy-to-the-other-half", kind: check.HostInFlight, text: "has changed page-locked memory",
		wrong: func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.down(r.a, r.host[:size/2], r.dev)
			r.up(r.a, r.there, r.host[size/2:])
			r.host[size-1]++
			r.sync(r.a)
		},
		right: func(r *rig) {
			r.fill(r.a, r.dev, size)
			r.down(r.a, r.host[:size/2], r.dev)
			r.up(r.a, r.there, r.host[size/2:])
			r.sync(r.a)
			r.host[size-1]++
		}},
	{name: "copy-of-a-written-value", right: func(r *rig) {
		p := r.alloc()
		ok(r.StreamWriteValue32(r.ctx, r.a, p, 7, 0))
		r.down(r.a, r.host[:4], p)
		r.sync(r.a)
		ok(r.MemFree(r.ctx, p))
	}},
	{name: "value-written-and-freed", kind: check.FreeInFlight, text: "cuStreamWriteValue32",
		wrong: func(r *rig) {
			p := r.alloc()
			ok(r.StreamWriteValue32(r.ctx, r.a, p, 7, 0))
			ok(r.MemFree(r.ctx, p))
		},
		right: func(r *rig) {
			p := r.alloc()
			ok(r.StreamWriteValue32(r.ctx, r.a, p, 7, 0))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{name: "value-behind-a-free", kind: check.UseAfterFree, text: "cuStreamWriteValue64",
		wrong: func(r *rig) {
			p := r.alloc()
			ok(r.MemFree(r.ctx, p))
			_ = r.StreamWriteValue64(r.ctx, r.a, p, 7, 0)
		},
		right: func(r *rig) { ok(r.StreamWriteValue64(r.ctx, r.a, r.dev, 7, 0)) }},
	{name: "order-by-a-value", right: func(r *rig) { // the work that waits is queued first
		word := r.alloc()
		r.fill(r.a, word, size)
		r.sync(r.a)
		ok(r.StreamWaitValue32(r.ctx, r.b, word, 7, cu.StreamWaitValueEQ))
		r.down(r.b, r.host, r.dev)
		r.fill(r.a, r.dev, size)
		ok(r.StreamWriteValue32(r.ctx, r.a, word, 7, 0))
		r.sync(r.a)
		r.sync(r.b)
		ok(r.MemFree(r.ctx, word))
	}},
	{name: "order-by-a-value-of-a-graph", right: func(r *rig) {
		word := r.alloc()
		r.fill(r.a, word, size)
		r.sync(r.a)
		x := r.graph(r.b, func() {
			ok(r.StreamWaitValue64(r.ctx, r.b, word, 7, cu.StreamWaitValueEQ))
			r.down(r.b, r.host, r.dev)
		})
		ok(r.GraphLaunch(r.ctx, x, r.b))
		r.fill(r.a, r.dev, size)
		ok(r.StreamWriteValue64(r.ctx, r.a, word, 7, 0))
		r.sync(r.a)
		r.sync(r.b)
		ok(r.MemFree(r.ctx, word))
	}},
	{name: "waited-for-and-freed", kind: check.FreeInFlight, text: "cuStreamWaitValue32",
		wrong: func(r *rig) {
			p := r.alloc()
			r.fill(r.a, p, size)
			r.sync(r.a)
			ok(r.StreamWaitValue32(r.ctx, r.a, p, 5, cu.StreamWaitValueAND))
			ok(r.MemFree(r.ctx, p))
		},
		right: func(r *rig) {
			p := r.alloc()
			r.fill(r.a, p, size)
			r.sync(r.a)
			ok(r.StreamWaitValue32(r.ctx, r.a, p, 5, cu.StreamWaitValueAND))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{name: "order-behind-a-value", kind: check.Unordered, text: "cuMemsetD8Async",
		wrong: func(r *rig) { // the wait is over
			p := r.alloc()
			r.fill(r.a, p, size)
			ok(r.StreamWaitValue32(r.ctx, r.a, p, 5, cu.StreamWaitValueAND))
			r.sync(r.a)
			r.fill(r.a, r.dev, size)
			r.fill(r.b, r.dev, size)
		},
		right: func(r *rig) {
			p := r.alloc()
			r.fill(r.a, p, size)
			ok(r.StreamWaitValue32(r.ctx, r.a, p, 5, cu.StreamWaitValueAND))
			r.fill(r.a, r.dev, size)
			r.follow(r.b, r.a)
			r.fill(r.b, r.dev, size)
		}},
	{name: "graph-with-a-kernel-that-writes-mapped-memory", right: func(r *rig) {
		p := r.alloc()
		x := r.graph(r.a, func() { r.fill(r.a, p, size); r.put(r.a, address(r.host)) })
		ok(r.GraphLaunch(r.ctx, x, r.a))
		ok(r.MemFree(r.ctx, p))
	}},
	{name: "prefetched-and-freed", kind: check.FreeInFlight, text: "cuMemPrefetchAsync",
		wrong: func(r *rig) {
			p := r.managed()
			ok(r.MemPrefetchAsync(r.ctx, p, size, 0, r.a))
			ok(r.MemFree(r.ctx, p))
		},
		right: func(r *rig) {
			p := r.managed()
			ok(r.MemPrefetchAsync(r.ctx, p, size, 0, r.a))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{name: "attached-behind-a-free", kind: check.UseAfterFree, text: "cuStreamAttachMemAsync",
		wrong: func(r *rig) {
			p := r.managed()
			ok(r.MemFree(r.ctx, p))
			_ = r.StreamAttachMemAsync(r.ctx, r.a, p, 0, cu.MemAttachGlobal)
		},
		right: func(r *rig) {
			p := r.managed()
			ok(r.StreamAttachMemAsync(r.ctx, r.a, p, 0, cu.MemAttachGlobal))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{name: "event-of-another-device-in-a-batch", kind: check.Event, text: "another context",
		wrong: func(r *rig) {
			ctx := r.second()
			var b cu.Batch
			b.MemsetD8Async(r.dev, 1, size, r.a)
			b.EventRecord(got(r.EventCreate(ctx, 0)), r.a)
			_, _ = r.Submit(r.ctx, &b)
		},
		right: func(r *rig) {
			var b cu.Batch
			b.MemsetD8Async(r.dev, 1, size, r.a)
			b.EventRecord(r.e, r.a)
			got(r.Submit(r.ctx, &b))
		}},
}

// pollingCases are correct programs whose host waits without the driver. The schedules lazy and
// random do nothing then.
var pollingCases = []pair{
	{name: "flag-of-the-host", right: func(r *rig) { // the host sees the value, and knows that the stream has written it
		p := r.pinned(size)
		ok(r.StreamWriteValue32(r.ctx, r.a, address(p), 7, 0))
		for atomic.LoadUint32(word(p)) != 7 {
			ok(r.StreamQuery(r.ctx, r.b))
		}
		ok(r.MemFreeHost(r.ctx, at(p)))
	}},
	{name: "graph-with-a-host-function", right: func(r *rig) {
		p, told := r.alloc(), make(chan bool, 1)
		x := r.graph(r.a, func() { r.fill(r.a, p, size); r.call(r.a, func() { told <- true }) })
		ok(r.GraphLaunch(r.ctx, x, r.a))
		for len(told) == 0 {
			ok(r.StreamQuery(r.ctx, r.b))
		}
		ok(r.MemFree(r.ctx, p))
	}},
}

func (r *rig) managed() cu.DevicePtr {
	return got(r.MemAllocManaged(r.ctx, size, cu.MemAttachGlobal))
}

// TestCases: each wrong program is reported, and no correct one.
func TestCases(t *testing.T) {
	for _, schedule := range schedules {
		for _, p := range cases {
			t.Run(schedule+"/"+p.name, func(t *testing.T) {
				if p.wrong != nil {
					p.checkWrong(t, p.driver(schedule))
				}
				p.checkRight(t, p.driver(schedule))
			})
		}
	}
	for _, p := range pollingCases {
		t.Run(p.name, func(t *testing.T) { p.checkRight(t, p.driver("eager")) })
	}
}
