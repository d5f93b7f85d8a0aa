package racetest

import (
	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// listPairs are programs with lists of copies, batches and graphs. The copies of a list have
// no order among each other, whatever method makes them.
var listPairs = []pair{
	{"list/one-destination", "Two copies of a list must not write one place.", "copyOfListWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.split(0))) // queued
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.split(size/2)))
		}},
	{"list/one-byte", "The same holds for one byte.", "copyOfListWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.split(size/2-1))) // queued
		}, func(r *rig) {
			x := r.typed()
			pairs := x.split(size / 2)
			ok(ferry.CopyAll(x.s, pairs[:1]))
			ok(ferry.CopyAll(x.s, x.split(size/2 - 1)[1:])) // another list is ordered
		}},
	{"list/written-and-read", "A copy of a list must not read what another writes.", "copyOfListReads",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: x.dev, Src: x.host}, {Dst: x.there, Src: x.dev}})) // queued
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: x.dev, Src: x.host}, {Dst: x.there, Src: x.host}}))
			x.copy(x.s, x.there, x.dev)
		}},
	{"list/many", "The same holds for many small copies, which one kernel makes.", "copyOfListWrites",
		func(r *rig) {
			x := r.typed()
			pairs := x.many()
			pairs[99].Dst = x.dev.Range(0, 16)
			ok(ferry.CopyAll(x.s, pairs)) // queued
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.many()))
		}},
	{"list/default-stream", "The same holds on the default stream, where the driver makes one copy after the other.", "copyOfListWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.g.DefaultStream(), x.split(1))) // queued
		}, func(r *rig) {
			x := r.typed()
			for _, p := range x.split(1) {
				x.copy(x.g.DefaultStream(), p.Dst, p.Src)
			}
		}},
	{"list/in-a-batch", "The same holds for a list in a Batch.", "copyOfListWrites",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.CopyAll(b, x.split(0))) // queued
			ok(x.s.Submit(b))
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.CopyAll(b, x.split(size/2)))
			ok(ferry.CopyAll(b, x.split(0)[1:])) // operations of a batch are ordered
			ok(x.s.Submit(b))
		}},
	{"list/in-a-graph", "The same holds for a list in a graph.", "copyOfListWrites",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { ok(ferry.CopyAll(s, x.split(0))) }) // queued
			ok(g.Launch(x.s))
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { ok(ferry.CopyAll(s, x.split(size/2))) })
			ok(g.Launch(x.s))
		}},
	{"list/pageable-destination", "The same holds for pageable memory.", "copyOfListWrites",
		func(r *rig) {
			x, dst := r.typed(), ferry.Pageable(make([]byte, size))
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: dst, Src: x.dev}, {Dst: dst, Src: x.there}})) // queued
		}, func(r *rig) {
			x, dst := r.typed(), make([]byte, 2*size)
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: ferry.Pageable(dst[:size]), Src: x.dev}, {Dst: ferry.Pageable(dst[size:]), Src: x.there}}))
		}},
	{"list/of-the-driver", "The copies of cuMemcpyBatchAsync have no order.", "copyOfListWrites",
		func(r *rig) {
			to := []cu.DevicePtr{r.dev, r.dev + 8}
			ok(r.MemcpyBatchAsync(r.ctx, to, []cu.DevicePtr{r.there, r.there}, []uintptr{9, 8}, r.a)) // queued
		}, func(r *rig) {
			to := []cu.DevicePtr{r.dev, r.dev + 8}
			ok(r.MemcpyBatchAsync(r.ctx, to, []cu.DevicePtr{r.there, r.there}, []uintptr{8, 8}, r.a))
		}},
	{"list/result-read", "CopyAll of page-locked memory returns before the copies are done.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: x.dev, Src: x.there}, {Dst: x.host, Src: x.there}})) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: x.dev, Src: x.there}, {Dst: x.host, Src: x.there}}))
			sink = x.host.Slice()[0]
		}},
	{"list/source-of-the-kernel-changed", "The kernel of many small copies reads their sources later.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.many())) // queued
			x.raw[99*16] = 1
		}, func(r *rig) {
			x := r.typed()
			ok(ferry.CopyAll(x.s, x.many()))
			x.wait(x.s)
			x.raw[99*16] = 1
		}},
	{"batch/result-read", "Submit returns before the operations of the batch are done.", "copyWrites",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			ok(x.s.Submit(b)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			sink = x.raw[0] // nothing is in flight yet
			ok(x.s.Submit(b))
			sink = x.host.Slice()[0]
		}},
	{"batch/event-waited-for-before-submit", "Record in a batch takes effect with Submit.", "copyWrites",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			ok(b.Record(x.e))
			ok(x.e.Wait(background))
			ok(x.s.Submit(b)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			ok(b.Record(x.e))
			ok(x.s.Submit(b))
			ok(x.e.Wait(background))
			sink = x.raw[0]
		}},
	{"batch/stream-waits-before-submit", "A stream that waits for an event before Submit does not wait for the batch.", "copyReads",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(b.Launch(x.put, shape, x.dev, int32(1)))
			ok(b.Record(x.e))
			ok(x.t.WaitEvent(x.e))
			ok(x.s.Submit(b))          // queued
			x.copy(x.t, x.host, x.dev) // queued
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(b.Launch(x.put, shape, x.dev, int32(1)))
			ok(b.Record(x.e))
			ok(x.s.Submit(b))
			ok(x.t.WaitEvent(x.e))
			x.copy(x.t, x.host, x.dev)
		}},
	{"batch/wait-behind-the-copy", "A WaitEvent in a batch is for the operations behind it.", "copyReads",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			x.writes(x.s, x.dev) // queued
			ok(x.s.Record(x.e))
			ok(ferry.Copy(b, x.host, x.dev))
			ok(b.WaitEvent(x.e))
			ok(x.t.Submit(b)) // queued
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			x.writes(x.s, x.dev)
			ok(x.s.Record(x.e))
			ok(b.WaitEvent(x.e))
			ok(ferry.Copy(b, x.host, x.dev))
			ok(x.t.Submit(b))
		}},
	{"batch/submitted-again", "Before the staging buffer of a batch is filled again, the last submission must have read it.", "copyReads",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.dev, x.host))
			for i := range 2 {
				x.raw[0] = byte(i)
				ok(x.s.Submit(b)) // queued
			}
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.dev, x.host))
			for i := range 2 {
				x.host.Slice()[0] = byte(i)
				ok(x.s.Submit(b))
			}
		}},
	{"batch/on-two-streams", "Two submissions of a batch are ordered only in one stream.", "fillWrites",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Fill(b, x.dev, 1))
			ok(x.s.Submit(b)) // queued
			ok(x.t.Submit(b)) // queued
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Fill(b, x.dev, 1))
			ok(x.s.Submit(b))
			ok(x.s.Submit(b))
		}},
	{"batch/rectangle", "A rectangle of a batch is read after Submit, row by row.", "copyReads",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.CopyRect(b, ferry.Rect[byte]{Memory: x.dev, Width: 32, Height: 8}, ferry.Rect[byte]{Memory: x.host, Width: 32, Height: 8, Pitch: 64}))
			ok(x.s.Submit(b)) // queued
			x.raw[64] = 1
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.CopyRect(b, ferry.Rect[byte]{Memory: x.dev, Width: 32, Height: 8}, ferry.Rect[byte]{Memory: x.host, Width: 32, Height: 8, Pitch: 64}))
			ok(x.s.Submit(b))
			x.raw[32] = 1
		}},
	{"graph/staging-buffer", "A graph reads its staging buffer at every launch, after the launch has returned.", "copyReads",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.copy(s, x.dev, x.host) })
			for i := range 2 {
				x.raw[0] = byte(i)
				ok(g.Launch(x.s)) // queued
			}
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.copy(s, x.dev, x.host) })
			for i := range 2 {
				x.host.Slice()[0] = byte(i)
				ok(g.Launch(x.s))
			}
		}},
	{"graph/fill", "A fill of a graph is in flight after the launch.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.fill(s, x.host) })
			ok(g.Launch(x.s)) // queued
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.fill(s, x.host) })
			ok(g.Launch(x.s))
			x.wait(x.s)
			sink = x.raw[0]
		}},
	{"graph/host-function", "A host function of a graph runs at every launch, when the launch has returned.", "racetest",
		func(r *rig) {
			x, n := r.typed(), 0
			g := x.capture(func(s *ferry.Stream) { ok(s.HostFunc(func() { n++ })) })
			ok(g.Launch(x.s)) // queued
			n++
		}, func(r *rig) {
			x, n := r.typed(), 0
			g := x.capture(func(s *ferry.Stream) { ok(s.HostFunc(func() { n++ })) })
			ok(g.Launch(x.s))
			x.wait(x.s)
			n++
		}},
	{"graph/beside-a-stream", "A graph is ordered in the stream of its launch, not in the stream of its capture.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.writes(s, x.dev) })
			ok(g.Launch(x.t))    // queued
			x.writes(x.s, x.dev) // queued
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) { x.writes(s, x.dev) })
			ok(g.Launch(x.t))
			x.writes(x.t, x.dev)
		}},
	{"graph/branches-read-and-write", "Branches of a graph that meet only at its end are not ordered.", "copyReads",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) {
				x.follow(x.t, s)
				x.copy(x.t, x.host, x.dev)
				x.fill(s, x.dev)
				x.follow(s, x.t)
			})
			ok(g.Launch(x.s)) // queued
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) {
				x.follow(x.t, s)
				x.copy(x.t, x.host, x.dev)
				x.follow(s, x.t)
				x.fill(s, x.dev)
			})
			ok(g.Launch(x.s))
		}},
	{"graph/branch-with-a-host-function", "A host function in one branch of a graph does not follow another branch.", "racetest",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) {
				x.follow(x.t, s)
				x.copy(x.t, x.host, x.dev)
				ok(s.HostFunc(func() { sink = x.raw[0] }))
				x.follow(s, x.t)
			})
			ok(g.Launch(x.s)) // queued
		}, func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) {
				x.follow(x.t, s)
				x.copy(x.t, x.host, x.dev)
				x.follow(s, x.t)
				ok(s.HostFunc(func() { sink = x.raw[0] }))
			})
			ok(g.Launch(x.s))
		}},
	{"graph/event-of-the-capture", "An event that was recorded in a capture stands for nothing outside.", "error: the event was recorded last in a capture",
		func(r *rig) {
			x := r.typed()
			g := x.capture(func(s *ferry.Stream) {
				x.copy(s, x.host, x.dev)
				ok(s.Record(x.e))
			})
			ok(g.Launch(x.s))
			r.fails(x.e.Wait(background))
		}, func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s))
			ok(x.s.Record(x.e))
			ok(x.e.Wait(background))
			sink = x.raw[0]
		}},
	{"graph/updated", "An update changes later launches, and does not wait for the last one.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			g, other := x.graph(), x.pinned()
			ok(g.Launch(x.s)) // queued
			ok(g.Update(x.s, func(s *ferry.Stream) error { return ferry.Copy(s, other, x.dev) }))
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			g, other := x.graph(), x.pinned()
			ok(g.Launch(x.s))
			ok(g.Update(x.s, func(s *ferry.Stream) error { return ferry.Copy(s, other, x.dev) }))
			x.wait(x.s)
			ok(g.Launch(x.s))
			sink = x.raw[0] // the second launch does not use it
		}},
}

// split returns copies of the halves of host to dev. The second writes from byte second on.
func (x *typed) split(second int) []ferry.Pair[byte] {
	return []ferry.Pair[byte]{
		{Dst: x.dev.Range(0, size/2), Src: x.host.Range(0, size/2)},
		{Dst: x.dev.Range(second, second+size/2), Src: x.host.Range(size/2, size)},
	}
}

// many returns 128 copies of 16 bytes from host to dev.
func (x *typed) many() (pairs []ferry.Pair[byte]) {
	for i := range 128 {
		pairs = append(pairs, ferry.Pair[byte]{Dst: x.dev.Range(i*16, i*16+16), Src: x.host.Range(i*16, i*16+16)})
	}
	return pairs
}
