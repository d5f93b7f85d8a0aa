package racetest

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// typed is a GPU of the typed API that uses the rig's driver.
type typed struct {
	g           *ferry.GPU
	m           *ferry.Module
	s, t        *ferry.Stream // non-blocking
	e           *ferry.Event
	host        *ferry.Host[byte]
	dev, there  *ferry.Device[byte]
	put, copies *ferry.Kernel
	store       *ferry.Kernel // writes the variable table
	raw         []byte        // a slice of host, made before any operation
}

var background = context.Background()

func (r *rig) typed() *typed { return r.typedOn(0) }

func (r *rig) typedOn(device int) *typed {
	g := got(ferry.OpenDriver(r.Driver, device))
	m := got(ferry.Load(g, []byte(code), nil))
	x := &typed{
		g: g, m: m, e: got(ferry.NewEvent(g, nil)), s: got(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})), t: got(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})),
		host: got(ferry.AllocHost[byte](g, size, nil)),
		dev:  got(ferry.Alloc[byte](g, size)), there: got(ferry.Alloc[byte](g, size)),
		put: got(m.Kernel("put")), copies: got(m.Kernel("copy")), store: got(m.Kernel("store")),
	}
	x.raw = x.host.Slice()
	return x
}

var shape = ferry.Cover(size/4, 128)

// typedPairs are programs of the typed API. Its buffers track what is in
// flight. These programs use what the buffers do not track: old slices,
// addresses, and the order of streams.
var typedPairs = []pair{
	{"typed/slice-kept", "A slice is valid until the next operation on its buffer is queued: call Slice again.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev))
			sink = x.host.Slice()[0]
		}},
	{"typed/source-kept", "The same holds for a buffer that a copy reads.", "copyReads",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.dev, x.host)) // queued
			x.raw[0] = 1
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.dev, x.host))
			sink = x.host.ReadSlice()[0]
			x.host.Slice()[0] = 1
		}},
	{"typed/launch", "The same holds for a buffer that is a kernel's argument.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.host, int32(1))) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.host, int32(1)))
			ok(x.host.Wait(background))
			sink = x.raw[0]
		}},
	{"typed/fill", "The same holds for a buffer that is filled.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Fill(x.s, x.host, 7)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Fill(x.s, x.host, 7))
			ok(x.s.Wait(background))
			sink = x.raw[0]
		}},
	{"typed/two-streams", "Buffers do not order streams with each other: use an event.", "copyReads",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.dev, int32(1))) // queued
			ok(ferry.Copy(x.t, x.host, x.dev))            // queued
		}, func(r *rig) {
			x := r.typed()
			e := got(ferry.NewEvent(x.g, nil))
			ok(x.s.Launch(x.put, shape, x.dev, int32(1)))
			ok(x.s.Record(e))
			ok(x.t.WaitEvent(e))
			ok(ferry.Copy(x.t, x.host, x.dev))
		}},
	{"typed/default-stream", "A non-blocking stream does not follow the default stream.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Fill(x.g.DefaultStream(), x.dev, 7)) // queued
			ok(ferry.Fill(x.s, x.dev, 8))                 // queued
		}, func(r *rig) {
			x := r.typed()
			s := got(ferry.NewStream(x.g, nil))
			ok(ferry.Fill(x.g.DefaultStream(), x.dev, 7))
			ok(ferry.Fill(s, x.dev, 8))
		}},
	{"typed/event-too-early", "An event stands for what was queued before it.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			e := got(ferry.NewEvent(x.g, nil))
			ok(x.s.Record(e))
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			ok(e.Wait(background))
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			e := got(ferry.NewEvent(x.g, nil))
			ok(ferry.Copy(x.s, x.host, x.dev))
			ok(x.s.Record(e))
			ok(e.Wait(background))
			sink = x.raw[0]
		}},
	{"typed/done-is-false", "Done orders the host only if it returns true.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			r.holdTyped(x, x.s)
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			got(x.s.Done())
			r.open()
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev))
			for !got(x.s.Done()) {
			}
			sink = x.raw[0]
		}},
	{"typed/address", "Memory that a kernel uses through an address is not tracked.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.host.Pointer(), int32(1))) // queued
			sink = x.host.Slice()[0]
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.host.Pointer(), int32(1)))
			ok(x.s.Wait(background))
			sink = x.host.Slice()[0]
		}},
	{"typed/registered", "The caller's slice does not wait after Register.", "copyWrites",
		func(r *rig) {
			x, mine := r.typed(), make([]byte, size)
			h := got(ferry.Register(x.g, mine, nil))
			ok(ferry.Copy(x.s, h, x.dev)) // queued
			sink = mine[0]
			ok(h.Close())
		}, func(r *rig) {
			x, mine := r.typed(), make([]byte, size)
			h := got(ferry.Register(x.g, mine, nil))
			ok(ferry.Copy(x.s, h, x.dev))
			ok(h.Close()) // waits
			sink = mine[0]
		}},
	{"typed/managed", "A slice of managed memory is valid until the next operation is queued.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			m := got(ferry.AllocManaged[byte](x.g, size, nil))
			raw := m.Slice()
			ok(x.s.Launch(x.put, shape, m, int32(1))) // queued
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			m := got(ferry.AllocManaged[byte](x.g, size, nil))
			ok(x.s.Launch(x.put, shape, m, int32(1)))
			sink = m.Slice()[0]
		}},
	{"typed/host-function", "A host function uses an old slice, and so races with the host.", "racetest",
		func(r *rig) {
			x := r.typed()
			ok(x.s.HostFunc(func() { x.raw[0] = 1 })) // queued
			sink = x.host.Slice()[0]
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.HostFunc(func() { x.raw[0] = 1 }))
			ok(x.s.Wait(background))
			sink = x.host.Slice()[0]
		}},
	{"typed/notify", "A notification arrives when its stream reaches it.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			<-got(x.s.Notify())
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev))
			<-got(x.s.Notify())
			sink = x.raw[0]
		}},
	{"typed/graph", "A graph launch is in flight on the buffers that the graph uses.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s))
			sink = x.host.Slice()[0]
		}},
	{"typed/close-of-a-stream", "Close of a stream does not wait, but Close of a buffer does.", "copyWrites",
		func(r *rig) {
			x, mine := r.typed(), make([]byte, size)
			h := got(ferry.Register(x.g, mine, nil))
			ok(ferry.Copy(x.s, h, x.dev)) // queued
			ok(x.s.Close())
			sink = mine[0]
			ok(h.Close())
		}, func(r *rig) {
			x, mine := r.typed(), make([]byte, size)
			h := got(ferry.Register(x.g, mine, nil))
			ok(ferry.Copy(x.s, h, x.dev))
			ok(x.s.Close())
			ok(h.Close())
			sink = mine[0]
		}},
	{"typed/pageable-source-changed", "A pageable source must not change before Copy has returned, also in another goroutine.", "staging",
		func(r *rig) {
			x, src := r.typed(), make([]byte, 2*megabyte)
			to := got(ferry.Alloc[byte](x.g, len(src)))
			join := beside(func() { src[megabyte] = 1 })
			ok(ferry.Copy(x.s, to, ferry.Pageable(src))) // queued
			join()
		}, func(r *rig) {
			x, src := r.typed(), make([]byte, 2*megabyte)
			to := got(ferry.Alloc[byte](x.g, len(src)))
			ok(ferry.Copy(x.s, to, ferry.Pageable(src)))
			src[megabyte] = 1
		}},
	{"typed/pageable-destination-read", "A pageable destination must not be read before Copy has returned, also in another goroutine.", "staging",
		func(r *rig) {
			x, dst := r.typed(), make([]byte, 2*megabyte)
			from := got(ferry.Alloc[byte](x.g, len(dst)))
			join := beside(func() { sink = dst[megabyte] })
			ok(ferry.Copy(x.s, ferry.Pageable(dst), from)) // queued
			join()
		}, func(r *rig) {
			x, dst := r.typed(), make([]byte, 2*megabyte)
			from := got(ferry.Alloc[byte](x.g, len(dst)))
			ok(ferry.Copy(x.s, ferry.Pageable(dst), from))
			sink = dst[megabyte]
		}},
	{"typed/pageable-then-other-stream", "Copy of pageable memory returns before the bytes have arrived.", "copyReads",
		func(r *rig) {
			x := r.typed()
			to := got(ferry.Alloc[byte](x.g, megabyte))
			ok(ferry.Copy(x.s, to, ferry.Pageable(make([]byte, megabyte)))) // queued
			ok(ferry.Copy(x.t, x.host, to.Range(megabyte-size, megabyte)))  // queued
		}, func(r *rig) {
			x := r.typed()
			to := got(ferry.Alloc[byte](x.g, megabyte))
			ok(ferry.Copy(x.s, to, ferry.Pageable(make([]byte, megabyte))))
			ok(x.s.Wait(background))
			ok(ferry.Copy(x.t, x.host, to.Range(megabyte-size, megabyte)))
		}},
	{"typed/ranges", "Ranges that share no element may be used at the same time.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.dev.Range(0, size/2+1), x.host.Range(0, size/2+1)))   // queued
			ok(ferry.Copy(x.t, x.dev.Range(size/2, size), x.host.Range(size/2, size))) // queued
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.dev.Range(0, size/2), x.host.Range(0, size/2)))
			ok(ferry.Copy(x.t, x.dev.Range(size/2, size), x.host.Range(size/2, size)))
		}},
}

// graph returns a graph that copies dev to host.
func (x *typed) graph() *ferry.Graph {
	return x.capture(func(s *ferry.Stream) { ok(ferry.Copy(s, x.host, x.dev)) })
}

func (x *typed) capture(f func(s *ferry.Stream)) *ferry.Graph {
	return got(x.s.Capture(func(s *ferry.Stream) error {
		f(s)
		return nil
	}))
}

// The operations of most programs.

func (x *typed) copy(s *ferry.Stream, dst, src ferry.Memory[byte]) { ok(ferry.Copy(s, dst, src)) }
func (x *typed) fill(s *ferry.Stream, m ferry.Memory[byte])        { ok(ferry.Fill(s, m, 7)) }
func (x *typed) writes(s *ferry.Stream, m any)                     { ok(s.Launch(x.put, shape, m, int32(1))) }
func (x *typed) reads(s *ferry.Stream, to, from any)               { ok(s.Launch(x.copies, shape, to, from)) }
func (x *typed) wait(s *ferry.Stream)                              { ok(s.Wait(background)) }

// follow lets what is queued in stream b from now on follow what is queued in a.
func (x *typed) follow(b, a *ferry.Stream) {
	ok(a.Record(x.e))
	ok(b.WaitEvent(x.e))
}

// device allocates another buffer like dev.
func (x *typed) device() *ferry.Device[byte] { return got(ferry.Alloc[byte](x.g, size)) }

// pinned allocates another buffer like host.
func (x *typed) pinned() *ferry.Host[byte] { return got(ferry.AllocHost[byte](x.g, size, nil)) }

// register registers ordinary memory, which it returns too.
func (x *typed) register() (*ferry.Host[byte], []byte) {
	mine := make([]byte, size)
	return got(ferry.Register(x.g, mine, &ferry.RegisterOptions{Mapped: true})), mine
}

// managed allocates managed memory, and returns a slice of it, made before any operation.
func (x *typed) managed() (*ferry.Managed[byte], []byte) {
	m := got(ferry.AllocManaged[byte](x.g, size, nil))
	return m, m.Slice()
}

// beside runs f on another goroutine until join. The goroutine lives until then, because the
// detector soon forgets the stacks of goroutines that have ended.
func beside(f func()) (join func()) {
	end, done := make(chan bool), make(chan bool)
	go func() { // queued
		f()
		<-end
		close(done)
	}()
	return func() {
		close(end)
		<-done
	}
}

// holdTyped keeps a stream of x busy, as hold does for other streams.
func (r *rig) holdTyped(x *typed, s *ferry.Stream) {
	hold := got(got(ferry.Load(x.g, []byte(code), nil)).Kernel("hold"))
	ok(s.Launch(hold, ferry.Cover(1, 1), cu.DevicePtr(flagAt(r.heldBy)), int32(0)))
}
