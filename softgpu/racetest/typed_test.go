package racetest

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// typed is a GPU of the typed API on the rig's driver.
type typed struct {
	g           *ferry.GPU
	s, t        *ferry.Stream
	host        *ferry.Host[byte]
	dev, there  *ferry.Device[byte]
	put, copies *ferry.Kernel
	raw         []byte // of host, kept from before
}

var background = context.Background()

func (r *rig) typed() *typed {
	g := got(ferry.OpenDriver(r.Driver, 0))
	m := got(g.Load([]byte(code)))
	x := &typed{
		g: g, s: got(g.NewStream(&ferry.StreamOptions{NonBlocking: true})), t: got(g.NewStream(&ferry.StreamOptions{NonBlocking: true})),
		host: got(ferry.AllocHost[byte](g, size, nil)),
		dev:  got(ferry.Alloc[byte](g, size)), there: got(ferry.Alloc[byte](g, size)),
		put: got(m.Kernel("put")), copies: got(m.Kernel("copy")),
	}
	x.raw = x.host.Slice()
	return x
}

var shape = ferry.Grid(size/4, 128)

// typedPairs are programs of the typed API. Its buffers know what is in flight on
// them, so these go wrong by what the buffers do not know: slices kept from
// before, addresses, and the order of streams.
var typedPairs = []pair{
	{"typed/slice-kept", "A slice is good until the next operation on its buffer is queued: ask for it again.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.Copy(x.s, x.host, x.dev))
			sink = x.host.Slice()[0]
		}},
	{"typed/source-kept", "The same of what a copy reads.", "copyReads",
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
	{"typed/launch", "And of what a kernel was given.", "kernelWrites",
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
	{"typed/fill", "And of a fill.", "fillWrites",
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
	{"typed/two-streams", "Buffers order the host, not streams with each other: use an event.", "copyReads",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, shape, x.dev, int32(1))) // queued
			ok(ferry.Copy(x.t, x.host, x.dev))            // queued
		}, func(r *rig) {
			x := r.typed()
			e := got(x.g.NewEvent(nil))
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
			s := got(x.g.NewStream(nil))
			ok(ferry.Fill(x.g.DefaultStream(), x.dev, 7))
			ok(ferry.Fill(s, x.dev, 8))
		}},
	{"typed/event-too-early", "An event stands for what was queued before it.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			e := got(x.g.NewEvent(nil))
			ok(x.s.Record(e))
			ok(ferry.Copy(x.s, x.host, x.dev)) // queued
			ok(e.Wait(background))
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			e := got(x.g.NewEvent(nil))
			ok(ferry.Copy(x.s, x.host, x.dev))
			ok(x.s.Record(e))
			ok(e.Wait(background))
			sink = x.raw[0]
		}},
	{"typed/done-is-false", "Done says something only when it says true.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			r.holdTyped(x)
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
	{"typed/address", "What a kernel reaches through an address is not known to be in flight.", "kernelWrites",
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
	{"typed/registered", "The caller of Register still has the slice.", "copyWrites",
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
	{"typed/managed", "A slice of managed memory is kept no longer than another.", "kernelWrites",
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
	{"typed/host-function", "A host function uses slices that were taken before; so does the host beside it.", "racetest",
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
	{"typed/notify", "A notification comes when the stream has got there.", "copyWrites",
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
	{"typed/graph", "A graph's launch is in flight on what the graph uses.", "copyWrites",
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
	{"typed/close-of-a-stream", "Close of a stream does not wait, Close of a buffer does.", "copyWrites",
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
	{"typed/ranges", "Ranges that share no element may be used at once.", "copyWrites",
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

func (x *typed) graph() *ferry.Graph {
	return got(x.s.Capture(func(s *ferry.Stream) error { return ferry.Copy(s, x.host, x.dev) }))
}

// holdTyped is hold for stream s of x.
func (r *rig) holdTyped(x *typed) {
	hold := got(got(x.g.Load([]byte(code))).Kernel("hold"))
	ok(x.s.Launch(hold, ferry.Grid(1, 1), cu.DevicePtr(flagAt(r.heldBy)), int32(0)))
}
