package racetest

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// orderPairs are programs about events, staging loops, goroutines, host functions and
// devices, mostly as programs get them wrong.
var orderPairs = []pair{
	{"order/event-never-recorded", "A wait for an event that was never recorded waits for nothing.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev) // queued
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev)
			ok(x.s.Record(x.e))
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev)
		}},
	{"order/event-recorded-before-the-work", "An event that was recorded before a launch does not stand for it.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.follow(x.t, x.s)
			x.writes(x.s, x.dev)       // queued
			x.copy(x.t, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev)
			x.follow(x.t, x.s)
			x.copy(x.t, x.host, x.dev)
		}},
	{"order/event-of-the-wrong-stream", "An event stands for the stream in which it was recorded.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev) // queued
			ok(x.t.Record(x.e))
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev)
			ok(x.s.Record(x.e))
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev)
		}},
	{"order/event-shared-by-two-loops", "Two users of one event overwrite each other's record.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev) // queued
			ok(x.s.Record(x.e))
			ok(x.t.Record(x.e)) // the other user
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			mine := got(ferry.NewEvent(x.g, nil))
			x.writes(x.s, x.dev)
			ok(x.s.Record(mine))
			ok(x.t.Record(x.e))
			ok(x.t.WaitEvent(mine))
			x.copy(x.t, x.host, x.dev)
		}},
	{"order/broken-chain", "A chain of events orders only if each record is behind the wait before it.", "copyReads",
		func(r *rig) {
			x := r.typed()
			u, e := got(ferry.NewStream(x.g, &ferry.StreamOptions{NonBlocking: true})), got(ferry.NewEvent(x.g, nil))
			x.writes(x.s, x.dev) // queued
			ok(x.t.Record(e))
			x.follow(x.t, x.s)
			ok(u.WaitEvent(e))
			x.copy(u, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			u, e := got(ferry.NewStream(x.g, &ferry.StreamOptions{NonBlocking: true})), got(ferry.NewEvent(x.g, nil))
			x.writes(x.s, x.dev)
			x.follow(x.t, x.s)
			ok(x.t.Record(e))
			ok(u.WaitEvent(e))
			x.copy(u, x.host, x.dev)
		}},
	{"order/next-input-too-early", "The next input must not overwrite what the kernel of the last one reads.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			for range 2 {
				x.copy(x.s, x.dev, x.host) // queued
				x.follow(x.t, x.s)
				x.reads(x.t, x.there, x.dev) // queued
			}
		}, func(r *rig) {
			x := r.typed()
			for range 2 {
				x.follow(x.s, x.t)
				x.copy(x.s, x.dev, x.host)
				x.follow(x.t, x.s)
				x.reads(x.t, x.there, x.dev)
			}
		}},
	{"order/wrong-staging-buffer", "Before a staging buffer is filled, wait for the event of its own last copy.", "copyReads",
		func(r *rig) { r.twoStagingBuffers(3) }, // queued
		func(r *rig) { r.twoStagingBuffers(2) }},
	{"order/result-of-this-iteration", "An event that was recorded before the copy of an iteration does not say that its result is there.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			for range 3 {
				ok(x.s.Record(x.e))
				x.copy(x.s, x.host, x.dev) // queued
				ok(x.e.Wait(background))
				sink = x.raw[0]
			}
		}, func(r *rig) {
			x := r.typed()
			for range 3 {
				x.copy(x.s, x.host, x.dev)
				ok(x.s.Record(x.e))
				ok(x.e.Wait(background))
				sink = x.raw[0]
			}
		}},
	{"order/read-slice-is-for-reading", "ReadSlice waits for writes only, so its slice must not be written.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.dev, x.host) // queued
			x.host.ReadSlice()[0] = 1
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.dev, x.host)
			sink = x.host.ReadSlice()[0]
			x.host.Slice()[0] = 1
		}},
	{"order/wait-of-another-buffer", "Wait of a buffer waits for operations on that buffer.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.fill(x.t, x.there)
			x.copy(x.s, x.host, x.dev) // queued
			ok(x.there.Wait(background))
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			x.fill(x.t, x.there)
			x.copy(x.s, x.host, x.dev)
			ok(x.host.Wait(background))
			sink = x.raw[0]
		}},
	{"order/done-of-another-stream", "Done of a stream says nothing about another.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev) // queued
			for !got(x.t.Done()) {
			}
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			for !got(x.s.Done()) {
			}
			sink = x.raw[0]
		}},
	{"order/notification-of-another-stream", "A notification stands for its own stream.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev) // queued
			<-got(x.t.Notify())
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			x.follow(x.t, x.s)
			<-got(x.t.Notify())
			sink = x.raw[0]
		}},
	{"order/priority", "The priority of a stream orders nothing.", "copyReads",
		func(r *rig) {
			x := r.typed()
			first := got(ferry.NewStream(x.g, &ferry.StreamOptions{NonBlocking: true, Priority: -5}))
			x.writes(first, x.dev)     // queued
			x.copy(x.s, x.host, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			first := got(ferry.NewStream(x.g, &ferry.StreamOptions{NonBlocking: true, Priority: -5}))
			x.writes(first, x.dev)
			x.copy(first, x.host, x.dev)
		}},
	{"order/one-byte-of-two-fills", "Two fills that share one byte need an order.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			x.fill(x.s, x.dev.Range(0, 1001))    // queued
			x.fill(x.t, x.dev.Range(1000, size)) // queued
		}, func(r *rig) {
			x := r.typed()
			x.fill(x.s, x.dev.Range(0, 1001))
			x.fill(x.t, x.dev.Range(1001, size))
		}},
	{"order/queued-is-not-done", "A signal that a copy is queued does not let another goroutine change its source.", "copyReads",
		func(r *rig) {
			x, queued := r.typed(), make(chan bool)
			join := beside(func() {
				<-queued
				x.raw[0] = 1
			})
			x.copy(x.s, x.dev, x.host) // queued
			close(queued)
			join()
		}, func(r *rig) {
			x, queued := r.typed(), make(chan bool)
			join := beside(func() {
				<-queued
				x.raw[0] = 1
			})
			x.copy(x.s, x.dev, x.host)
			x.wait(x.s)
			close(queued)
			join()
		}},
	{"order/two-goroutines", "Goroutines with a stream each must share no buffer, even if they queue one after the other.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			beside(func() { x.writes(x.s, x.dev) })() // queued
			beside(func() { x.writes(x.t, x.dev) })() // queued
		}, func(r *rig) {
			x := r.typed()
			beside(func() { x.writes(x.s, x.dev) })()
			beside(func() { x.writes(x.t, x.there) })()
		}},
	{"order/queued-by-another-goroutine", "A slice must not be in use while another goroutine queues a copy to its buffer.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			join := beside(func() { x.copy(x.s, x.host, x.dev) }) // queued
			sink = x.raw[0]
			join()
		}, func(r *rig) {
			x := r.typed()
			sink = x.raw[0]
			join := beside(func() { x.copy(x.s, x.host, x.dev) })
			join()
			sink = x.host.Slice()[0]
		}},
	{"order/wait-in-one-of-two-goroutines", "Each goroutine that reads a result must wait, or learn it from one that did.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev) // queued
			join := beside(func() { sink = x.raw[0] })
			x.wait(x.s)
			join()
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			join := beside(func() {
				x.wait(x.s)
				sink = x.raw[0]
			})
			x.wait(x.s)
			join()
		}},
	{"order/host-function-too-early", "A host function that signals must be behind the copy that it signals.", "copyWrites",
		func(r *rig) {
			x, arrived := r.typed(), make(chan bool)
			ok(x.s.HostFunc(func() { close(arrived) }))
			x.copy(x.s, x.host, x.dev) // queued
			<-arrived
			sink = x.raw[0]
		}, func(r *rig) {
			x, arrived := r.typed(), make(chan bool)
			x.copy(x.s, x.host, x.dev)
			ok(x.s.HostFunc(func() { close(arrived) }))
			<-arrived
			sink = x.raw[0]
		}},
	{"order/host-function-fills-for-another-stream", "A host function orders only its own stream.", "copyReads",
		func(r *rig) {
			x := r.typed()
			ok(x.s.HostFunc(func() { x.raw[7] = 1 })) // queued
			x.copy(x.t, x.dev, x.host)                // queued
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.HostFunc(func() { x.raw[7] = 1 }))
			x.follow(x.t, x.s)
			x.copy(x.t, x.dev, x.host)
		}},
	{"order/host-function-reads-another-stream", "A host function does not follow a kernel of another stream.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.host)                        // queued
			ok(x.t.HostFunc(func() { sink = x.raw[0] })) // queued
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.host)
			x.follow(x.t, x.s)
			ok(x.t.HostFunc(func() { sink = x.raw[0] }))
		}},
	{"order/host-function-starts-a-goroutine", "Work behind a host function does not wait for goroutines that it started.", "copyReads",
		func(r *rig) {
			x, written := r.typed(), make(chan bool)
			ok(x.s.HostFunc(func() {
				go func() {
					x.raw[0] = 1
					close(written)
				}()
			}))
			x.copy(x.s, x.dev, x.host) // queued
			x.wait(x.s)
			<-written
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.HostFunc(func() { beside(func() { x.raw[0] = 1 })() }))
			x.copy(x.s, x.dev, x.host)
			x.wait(x.s)
		}},
	{"order/host-function-counts", "A variable that host functions of two streams change needs a lock or sync/atomic.", "racetest",
		func(r *rig) {
			x, n := r.typed(), 0
			ok(x.s.HostFunc(func() { n++ })) // queued
			ok(x.t.HostFunc(func() { n++ })) // queued
			x.wait(x.s)
			x.wait(x.t)
		}, func(r *rig) {
			x, n := r.typed(), new(atomic.Int64)
			ok(x.s.HostFunc(func() { n.Add(1) }))
			ok(x.t.HostFunc(func() { n.Add(1) }))
			x.wait(x.s)
			x.wait(x.t)
		}},
	{"order/host-function-panics", "What a host function wrote before it panicked may be read when a call has returned the panic.", "racetest",
		func(r *rig) {
			n := 0
			r.call(r.a, func() { // queued
				n++
				panic(&n)
			})
			n++
			_ = r.StreamSynchronize(r.ctx, r.a)
		}, func(r *rig) {
			n := 0
			r.call(r.a, func() {
				n++
				panic(&n)
			})
			var p *cu.HostPanic
			for !errors.As(r.StreamQuery(r.ctx, r.a), &p) {
				runtime.Gosched()
			}
			*p.Value.(*int)++
		}},
	{"order/peer-copy", "A copy to another GPU is ordered in its own stream, not in streams of that GPU.", "copyReads",
		func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, y.dev, x.dev)  // queued
			y.copy(y.s, y.host, y.dev) // queued
		}, func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, y.dev, x.dev)
			x.follow(y.s, x.s)
			y.copy(y.s, y.host, y.dev)
		}},
	{"order/peer-kernel", "A kernel that writes memory of another GPU is ordered in its own stream.", "kernelWrites",
		func(r *rig) {
			x, y := r.peers()
			x.writes(x.s, y.dev) // queued
			y.writes(y.s, y.dev) // queued
		}, func(r *rig) {
			x, y := r.peers()
			x.writes(x.s, y.dev)
			x.wait(x.s)
			y.writes(y.s, y.dev)
		}},
	{"order/peer-wait", "Wait of a GPU waits for that GPU, not for copies that another GPU made to it.", "copyWrites",
		func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, y.host, x.dev) // queued
			ok(y.g.Wait(background))
			sink = y.raw[0]
		}, func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, y.host, x.dev)
			ok(x.g.Wait(background))
			sink = y.raw[0]
		}},
	{"order/peer-pinned", "Page-locked memory of one GPU that another uses needs an order between both.", "copyReads",
		func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, x.host, x.dev) // queued
			y.copy(y.s, y.dev, x.host) // queued
		}, func(r *rig) {
			x, y := r.peers()
			x.copy(x.s, x.host, x.dev)
			x.follow(y.s, x.s)
			y.copy(y.s, y.dev, x.host)
		}},
	{"order/attached-managed", "A stream that managed memory is attached to is not ordered with the host.", "kernelWrites",
		func(r *rig) {
			p, host := r.managed()
			ok(r.StreamAttachMemAsync(r.ctx, r.a, p, 0, cu.MemAttachSingle))
			r.put(r.a, p) // queued
			r.sync(r.b)
			sink = host[0]
		}, func(r *rig) {
			p, host := r.managed()
			ok(r.StreamAttachMemAsync(r.ctx, r.a, p, 0, cu.MemAttachSingle))
			r.put(r.a, p)
			r.sync(r.a)
			sink = host[0]
		}},
}

// twoStagingBuffers copies four times through two staging buffers, each with a stream.
// Iteration i waits for the event of iteration i-events.
func (r *rig) twoStagingBuffers(events int) {
	x := r.typed()
	streams := [2]*ferry.Stream{x.s, x.t}
	buffers := [2]*ferry.Host[byte]{x.host, x.pinned()}
	raw := [2][]byte{x.raw, buffers[1].Slice()}
	to := [2]*ferry.Device[byte]{x.dev, x.there}
	done := make([]*ferry.Event, events)
	for i := range done {
		done[i] = got(ferry.NewEvent(x.g, nil))
	}
	for i := range 4 {
		ok(done[i%events].Wait(background))
		raw[i%2][0] = byte(i)
		x.copy(streams[i%2], to[i%2], buffers[i%2])
		ok(streams[i%2].Record(done[i%events]))
	}
}

// peers returns both GPUs, of which the first can use the memory of the second.
func (r *rig) peers() (x, y *typed) {
	x, y = r.typed(), r.typedOn(1)
	ok(x.g.EnablePeer(y.g))
	return x, y
}
