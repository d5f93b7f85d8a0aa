package racetest

import (
	"bytes"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// kindPairs are programs about each kind of memory that the host and the GPU share, in both
// directions, and about variables of modules. x.raw is a slice that the program kept from
// before the operation.
var kindPairs = []pair{
	{"memory/pinned-written-during-copy-out", "The host must not write page-locked memory while a copy writes it.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev) // queued
			x.raw[5] = 1
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			x.host.Slice()[5] = 1
		}},
	{"memory/last-byte-of-a-copy-out", "A copy of n bytes to page-locked memory writes byte n-1, and not byte n.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host.Range(0, 101), x.dev.Range(0, 101)) // queued
			sink = x.raw[100]
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host.Range(0, 101), x.dev.Range(0, 101))
			sink = x.raw[101]
		}},
	{"memory/first-byte-of-a-copy-in", "A copy from byte n on reads byte n, and not byte n-1.", "copyReads",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.dev.Range(0, 64), x.host.Range(99, 163)) // queued
			x.raw[99] = 1
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.dev.Range(0, 64), x.host.Range(99, 163))
			x.raw[98] = 1
		}},
	{"memory/write-combined", "Write-combined memory is in flight like other page-locked memory.", "copyReads",
		func(r *rig) {
			x := r.typed()
			h := got(ferry.AllocHost[byte](x.g, size, &ferry.HostOptions{WriteCombined: true}))
			raw := h.Slice()
			x.copy(x.s, x.dev, h) // queued
			raw[0] = 1
		}, func(r *rig) {
			x := r.typed()
			h := got(ferry.AllocHost[byte](x.g, size, &ferry.HostOptions{WriteCombined: true}))
			raw := h.Slice()
			x.copy(x.s, x.dev, h)
			x.wait(x.s)
			raw[0] = 1
		}},
	{"memory/mapped-read-by-a-kernel", "The host must not write mapped memory that a kernel reads.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			h := got(ferry.AllocHost[byte](x.g, size, &ferry.HostOptions{Mapped: true}))
			raw := h.Slice()
			x.reads(x.s, x.dev, h) // queued
			raw[1] = 1
		}, func(r *rig) {
			x := r.typed()
			h := got(ferry.AllocHost[byte](x.g, size, &ferry.HostOptions{Mapped: true}))
			raw := h.Slice()
			x.reads(x.s, x.dev, h)
			sink = raw[1] // both read
			h.Slice()[1] = 1
		}},
	{"memory/mapped-written-by-both", "The host must not write mapped memory that a kernel writes.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.host) // queued
			x.raw[size-1] = 1
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.host)
			x.wait(x.s)
			x.raw[size-1] = 1
		}},
	{"memory/mapped-half", "A kernel uses the words that its threads access, not the whole of its argument.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, ferry.Cover(size/8, 128), x.host, int32(1))) // queued
			sink = x.raw[size/2-1]
		}, func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.put, ferry.Cover(size/8, 128), x.host, int32(1)))
			sink = x.raw[size/2]
		}},
	{"memory/registered-source", "After Register, a copy from the caller's memory reads it later.", "copyReads",
		func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.copy(x.s, x.dev, h) // queued
			mine[0] = 1
		}, func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.copy(x.s, x.dev, h)
			ok(h.Wait(background))
			mine[0] = 1
		}},
	{"memory/registered-as-pageable", "Pageable of memory that is registered makes no copy that waits.", "copyReads",
		func(r *rig) {
			x := r.typed()
			_, mine := x.register()
			x.copy(x.s, x.dev, ferry.Pageable(mine)) // queued
			mine[0] = 1
		}, func(r *rig) {
			x, mine := r.typed(), make([]byte, size)
			x.copy(x.s, x.dev, ferry.Pageable(mine))
			mine[0] = 1
		}},
	{"memory/registered-and-a-kernel", "A kernel that writes registered memory is in flight when Launch returns.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.writes(x.s, h) // queued
			sink = mine[0]
		}, func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.writes(x.s, h)
			sink = h.ReadSlice()[0]
			sink = mine[0]
		}},
	{"memory/registered-fill", "A fill of registered memory is in flight when Fill returns.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.fill(x.s, h) // queued
			mine[9] = 1
		}, func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.fill(x.s, h)
			x.wait(x.s)
			mine[9] = 1
		}},
	{"memory/managed-source", "A copy from managed memory reads it after the call.", "copyReads",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.copy(x.s, x.dev, m) // queued
			raw[0] = 1
		}, func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.copy(x.s, x.dev, m)
			m.Slice()[0] = 1
		}},
	{"memory/managed-destination", "A copy to managed memory writes it after the call.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.copy(x.s, m, x.dev) // queued
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.copy(x.s, m, x.dev)
			sink = m.ReadSlice()[0]
		}},
	{"memory/managed-fill", "A fill of managed memory is in flight when Fill returns.", "fillWrites",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.fill(x.s, m) // queued
			raw[size-1]++
		}, func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.fill(x.s, m)
			m.Slice()[size-1]++
		}},
	{"memory/managed-two-streams", "Managed memory does not order streams.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.writes(x.s, m)       // queued
			x.reads(x.t, x.dev, m) // queued
		}, func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.writes(x.s, m)
			x.follow(x.t, x.s)
			x.reads(x.t, x.dev, m)
		}},
	{"memory/managed-attached", "Attach is queued in its stream, and orders nothing for the host.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.writes(x.s, m) // queued
			ok(m.Attach(x.s, cu.MemAttachGlobal))
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.writes(x.s, m)
			ok(m.Attach(x.s, cu.MemAttachGlobal))
			ok(m.Wait(background))
			sink = raw[0]
		}},
	{"memory/managed-advised", "Advice does not wait for kernels that use the memory.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.reads(x.s, x.dev, m) // queued
			ok(m.Advise(cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
			raw[0] = 1
		}, func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			ok(m.Advise(cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
			x.reads(x.s, x.dev, m)
			ok(m.Wait(background))
			raw[0] = 1
		}},
	{"memory/pageable-to-managed", "A copy of pageable to managed memory of the device returns when the source is read.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			x.writes(x.s, m) // its pages move to the device
			x.wait(x.s)
			x.copy(x.s, m, ferry.Pageable(make([]byte, size))) // queued
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			m, _ := x.managed()
			x.copy(x.s, m, ferry.Pageable(make([]byte, size)))
			sink = m.Slice()[0]
		}},
	{"memory/pageable-then-kernel", "A kernel of another stream can run before pageable data has arrived; after Upload it cannot.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.dev, ferry.Pageable(make([]byte, size))) // queued
			x.reads(x.t, x.there, x.dev)                           // queued
		}, func(r *rig) {
			x := r.typed()
			up := got(ferry.Upload(x.g, make([]byte, size)))
			x.reads(x.t, x.there, up)
		}},
	{"memory/pageable-in-a-list", "A pageable source must not change before CopyAll has returned, also in another goroutine.", "staging",
		func(r *rig) {
			x, src := r.typed(), make([]byte, 2*megabyte)
			to := got(ferry.Alloc[byte](x.g, len(src)))
			join := beside(func() { src[megabyte] = 1 })
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: to, Src: ferry.Pageable(src)}})) // queued
			join()
		}, func(r *rig) {
			x, src := r.typed(), make([]byte, 2*megabyte)
			to := got(ferry.Alloc[byte](x.g, len(src)))
			ok(ferry.CopyAll(x.s, []ferry.Pair[byte]{{Dst: to, Src: ferry.Pageable(src)}}))
			src[megabyte] = 1
		}},
	{"memory/small-pageable-source", "The same holds for a source of a few bytes.", "stage",
		func(r *rig) {
			x, src := r.typed(), make([]byte, 64)
			join := beside(func() { src[0] = 1 })
			x.copy(x.s, x.dev.Range(0, 64), ferry.Pageable(src)) // queued
			join()
		}, func(r *rig) {
			x, src := r.typed(), make([]byte, 64)
			x.copy(x.s, x.dev.Range(0, 64), ferry.Pageable(src))
			src[0] = 1
		}},
	{"memory/pageable-rectangle", "A pageable rectangle must not be read before CopyRect has returned.", "copyWrites",
		func(r *rig) {
			x, dst := r.typed(), make([]byte, size)
			join := beside(func() { sink = dst[64] })
			rect := ferry.Rect[byte]{Memory: ferry.Pageable(dst), Width: 32, Height: 8, Pitch: 64}
			ok(ferry.CopyRect(x.s, rect, ferry.Rect[byte]{Memory: x.dev, Width: 32, Height: 8})) // queued
			join()
		}, func(r *rig) {
			x, dst := r.typed(), make([]byte, size)
			join := beside(func() { sink = dst[32] }) // between two rows
			rect := ferry.Rect[byte]{Memory: ferry.Pageable(dst), Width: 32, Height: 8, Pitch: 64}
			ok(ferry.CopyRect(x.s, rect, ferry.Rect[byte]{Memory: x.dev, Width: 32, Height: 8}))
			join()
			sink = dst[64]
		}},
	{"memory/host-to-host", "A copy between host buffers waits, but another goroutine does not.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			to := x.pinned()
			raw := to.Slice()
			join := beside(func() { sink = raw[0] })
			x.copy(x.s, to, x.host) // queued
			join()
		}, func(r *rig) {
			x := r.typed()
			to := x.pinned()
			raw := to.Slice()
			x.copy(x.s, to, x.host)
			beside(func() { sink = raw[0] })()
		}},
	{"memory/reader", "CopyFrom returns when the copies are queued.", "kernelReads",
		func(r *rig) {
			x := r.typed()
			got(ferry.CopyFrom(background, x.s, x.dev, bytes.NewReader(make([]byte, size)))) // queued
			x.reads(x.t, x.there, x.dev)                                                     // queued
		}, func(r *rig) {
			x := r.typed()
			got(ferry.CopyFrom(background, x.s, x.dev, bytes.NewReader(make([]byte, size))))
			x.reads(x.s, x.there, x.dev)
		}},
	{"memory/writer-keeps-its-argument", "A Writer must not keep the slice of CopyTo: it is memory of the ring.", "copyWrites",
		func(r *rig) {
			x, w := r.typed(), &keeper{}
			got(ferry.CopyTo(background, x.s, w, x.dev))
			join := beside(func() { sink = w.kept[0] })
			got(ferry.CopyTo(background, x.s, w, x.dev)) // queued
			join()
		}, func(r *rig) {
			x, w := r.typed(), &keeper{}
			got(ferry.CopyTo(background, x.s, w, x.dev))
			kept := bytes.Clone(w.kept)
			join := beside(func() { sink = kept[0] })
			got(ferry.CopyTo(background, x.s, w, x.dev))
			join()
		}},
	{"memory/global-filled-and-read", "A variable of a module is memory like any other: streams are not ordered by it.", "copyReads",
		func(r *rig) {
			x := r.typed()
			v := got(ferry.Global[byte](x.m, "table"))
			x.fill(x.s, v)         // queued
			x.copy(x.t, x.host, v) // queued
		}, func(r *rig) {
			x := r.typed()
			v := got(ferry.Global[byte](x.m, "table"))
			x.fill(x.s, v)
			x.follow(x.t, x.s)
			x.copy(x.t, x.host, v)
		}},
	{"memory/global-of-a-kernel", "Ferry does not see which variables a kernel uses.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			v := got(ferry.Global[byte](x.m, "table"))
			ok(x.s.Launch(x.store, shape)) // queued
			x.copy(x.t, x.host, v)         // queued
		}, func(r *rig) {
			x := r.typed()
			v := got(ferry.Global[byte](x.m, "table"))
			ok(x.s.Launch(x.store, shape))
			x.copy(x.s, x.host, v)
		}},
	{"memory/global-of-two-kernels", "Two launches write the same variable; each load of a module has its own.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Launch(x.store, shape)) // queued
			ok(x.t.Launch(x.store, shape)) // queued
		}, func(r *rig) {
			x := r.typed()
			other := got(ferry.Load(x.g, []byte(code), nil))
			ok(x.s.Launch(x.store, shape))
			ok(x.t.Launch(got(other.Kernel("store")), shape))
		}},
	{"memory/managed-global", "The host must wait for a kernel that writes a managed variable.", "kernelWrites",
		func(r *rig) {
			x := r.typed()
			v := got(ferry.ManagedGlobal[byte](x.m, "shared_table"))
			raw := v.Slice()
			x.writes(x.s, v) // queued
			sink = raw[0]
		}, func(r *rig) {
			x := r.typed()
			v := got(ferry.ManagedGlobal[byte](x.m, "shared_table"))
			x.writes(x.s, v)
			sink = v.Slice()[0]
		}},
	{"memory/global-with-cu", "cuMemcpyDtoH of a variable does not follow a kernel in a non-blocking stream.", "copyReads",
		func(r *rig) {
			p, _, err := r.ModuleGetGlobal(r.ctx, r.functions, "table")
			ok(err)
			r.run("store", r.a)                          // queued
			ok(r.MemcpyDtoH(r.ctx, at(r.host), p, size)) // queued
		}, func(r *rig) {
			p, _, err := r.ModuleGetGlobal(r.ctx, r.functions, "table")
			ok(err)
			r.run("store", r.c)
			ok(r.MemcpyDtoH(r.ctx, at(r.host), p, size))
		}},
}

// keeper is a Writer that keeps its last argument.
type keeper struct{ kept []byte }

func (k *keeper) Write(p []byte) (int, error) {
	k.kept = p
	return len(p), nil
}
