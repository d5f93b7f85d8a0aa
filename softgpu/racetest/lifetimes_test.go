package racetest

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// lifetimePairs are programs that use memory, streams, events and code after they were
// closed, freed, unregistered or given back, or that close them while another goroutine or
// stream still uses them.
var lifetimePairs = []pair{
	{"life/closed-while-read", "Close of a buffer must not meet another goroutine's use of a slice.", "hostFrees",
		func(r *rig) {
			x := r.typed()
			join := beside(func() { sink = x.raw[0] })
			ok(x.host.Close()) // queued
			join()
		}, func(r *rig) {
			x := r.typed()
			beside(func() { sink = x.raw[0] })()
			ok(x.host.Close())
		}},
	{"life/managed-closed-while-written", "The same holds for managed memory.", "hostFrees",
		func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			join := beside(func() { raw[0] = 1 })
			ok(m.Close()) // queued
			join()
		}, func(r *rig) {
			x := r.typed()
			m, raw := x.managed()
			beside(func() { raw[0] = 1 })()
			ok(m.Close())
		}},
	{"life/closed-by-another-goroutine", "A Close on another goroutine orders only that goroutine after the copy.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.copy(x.s, h, x.dev) // queued
			join := beside(func() { ok(h.Close()) })
			sink = mine[0]
			join()
		}, func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			x.copy(x.s, h, x.dev)
			beside(func() { ok(h.Close()) })()
			sink = mine[0]
		}},
	{"life/one-of-two-registrations", "Close of one registration does not wait for work that was queued with another of the same memory.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			other := got(ferry.Register(x.g, mine, nil))
			x.copy(x.s, h, x.dev) // queued
			ok(other.Close())
			sink = mine[0]
		}, func(r *rig) {
			x := r.typed()
			h, mine := x.register()
			other := got(ferry.Register(x.g, mine, nil))
			x.copy(x.s, h, x.dev)
			ok(other.Close())
			ok(h.Close())
			sink = mine[0]
		}},
	{"life/unregistered-during-a-kernel", "cuMemHostUnregister waits; a goroutine that does not wait for it does not.", "kernelWrites",
		func(r *rig) {
			plain := make([]byte, size)
			ok(r.MemHostRegister(r.ctx, at(plain), size, cu.MemHostRegisterDeviceMap))
			r.put(r.a, address(plain)) // queued
			join := beside(func() { sink = plain[0] })
			ok(r.MemHostUnregister(r.ctx, at(plain)))
			join()
		}, func(r *rig) {
			plain := make([]byte, size)
			ok(r.MemHostRegister(r.ctx, at(plain), size, cu.MemHostRegisterDeviceMap))
			r.put(r.a, address(plain))
			ok(r.MemHostUnregister(r.ctx, at(plain)))
			beside(func() { sink = plain[0] })()
		}},
	{"life/used-behind-a-free", "Memory that was freed in stream order must not be used behind the free.", "error: CUDA_ERROR_ILLEGAL_ADDRESS",
		func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			ok(r.MemFreeAsync(r.ctx, p, r.a))
			r.fill(r.a, p, size)
			r.fails(r.StreamSynchronize(r.ctx, r.a))
		}, func(r *rig) {
			p := got(r.MemAllocAsync(r.ctx, size, r.a))
			r.fill(r.a, p, size)
			ok(r.MemFreeAsync(r.ctx, p, r.a))
		}},
	{"life/address-after-close", "An address does not keep the buffer: Close does not know of it.", "error: CUDA_ERROR_ILLEGAL_ADDRESS",
		func(r *rig) {
			x := r.typed()
			p := x.dev.Pointer()
			ok(x.dev.Close())
			x.writes(x.s, p)
			r.fails(x.s.Wait(background))
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev.Pointer())
			ok(x.s.Wait(background))
			ok(x.dev.Close())
		}},
	{"life/address-of-a-closed-pinned-buffer", "A kernel must not use page-locked memory after Close.", "error: CUDA_ERROR_ILLEGAL_ADDRESS",
		func(r *rig) {
			x := r.typed()
			p := x.host.Pointer()
			ok(x.host.Close())
			x.writes(x.s, p)
			r.fails(x.s.Wait(background))
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.host.Pointer())
			ok(x.s.Wait(background))
			ok(x.host.Close())
		}},
	{"life/graph-of-freed-memory", "A graph of the driver does not keep the memory that its nodes use.", "error: CUDA_ERROR_ILLEGAL_ADDRESS",
		func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			x := r.graph(func() { r.put(r.a, p) })
			ok(r.MemFree(r.ctx, p))
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.fails(r.StreamSynchronize(r.ctx, r.a))
		}, func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			x := r.graph(func() { r.put(r.a, p) })
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{"life/peer-access-ended", "A kernel uses memory of another device only while peer access is enabled.", "error: CUDA_ERROR_ILLEGAL_ADDRESS",
		func(r *rig) {
			ok(r.CtxEnablePeerAccess(r.ctx, r.ctx1, 0))
			ok(r.CtxDisablePeerAccess(r.ctx, r.ctx1))
			r.put(r.a, r.elsewhere)
			r.fails(r.StreamSynchronize(r.ctx, r.a))
		}, func(r *rig) {
			ok(r.CtxEnablePeerAccess(r.ctx, r.ctx1, 0))
			r.put(r.a, r.elsewhere)
			r.sync(r.a)
			ok(r.CtxDisablePeerAccess(r.ctx, r.ctx1))
		}},
	{"life/freed-twice", "Memory is freed once.", "error: CUDA_ERROR_INVALID_VALUE",
		func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			ok(r.MemFree(r.ctx, p))
			r.fails(r.MemFree(r.ctx, p))
		}, func(r *rig) {
			ok(r.MemFree(r.ctx, got(r.MemAlloc(r.ctx, size))))
		}},
	{"life/copy-after-close", "A closed buffer is refused.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			ok(x.dev.Close())
			r.fails(ferry.Copy(x.s, x.host, x.dev))
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			ok(x.dev.Close())
		}},
	{"life/range-after-close", "A Range is closed with its buffer.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			part := x.dev.Range(0, 64)
			ok(x.dev.Close())
			r.fails(ferry.Fill(x.s, part, 1))
		}, func(r *rig) {
			x := r.typed()
			x.fill(x.s, x.dev.Range(0, 64))
			ok(x.dev.Close())
		}},
	{"life/slice-after-close", "A slice of a closed buffer is refused.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			ok(x.host.Close())
			_, err := x.host.SliceContext(background)
			r.fails(err)
		}, func(r *rig) {
			x := r.typed()
			sink = got(x.host.SliceContext(background))[0]
			ok(x.host.Close())
		}},
	{"life/kernel-after-module-close", "A kernel of a closed module is refused.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			ok(x.m.Close())
			r.fails(x.s.Launch(x.put, shape, x.dev, int32(1)))
		}, func(r *rig) {
			x := r.typed()
			x.writes(x.s, x.dev)
			ok(x.m.Close())
		}},
	{"life/variable-after-module-close", "A variable belongs to its module.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			v := got(ferry.Global[byte](x.m, "table"))
			ok(x.m.Close())
			r.fails(ferry.Fill(x.s, v, 1))
		}, func(r *rig) {
			x := r.typed()
			x.fill(x.s, got(ferry.Global[byte](x.m, "table")))
			ok(x.m.Close())
		}},
	{"life/closed-stream", "A closed stream is refused.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Close())
			r.fails(ferry.Fill(x.s, x.dev, 1))
		}, func(r *rig) {
			x := r.typed()
			x.fill(x.s, x.dev)
			ok(x.s.Close())
		}},
	{"life/closed-event", "A closed event is refused.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			ok(x.s.Record(x.e))
			ok(x.e.Close())
			r.fails(x.t.WaitEvent(x.e))
		}, func(r *rig) {
			x := r.typed()
			x.follow(x.t, x.s)
			ok(x.e.Close())
		}},
	{"life/batch-of-closed-buffers", "A batch does not keep its buffers: Submit refuses closed ones.", "error: already closed",
		func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			ok(x.host.Close())
			r.fails(x.s.Submit(b))
		}, func(r *rig) {
			x, b := r.typed(), new(ferry.Batch)
			ok(ferry.Copy(b, x.host, x.dev))
			ok(x.s.Submit(b))
			ok(x.host.Close())
		}},
	{"life/closed-graph", "A closed graph is refused; its launches in flight go on.", "error: already closed",
		func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Close())
			r.fails(g.Launch(x.s))
		}, func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s))
			ok(g.Close())
			sink = x.host.Slice()[0]
		}},
	{"life/slice-while-a-graph-owns", "Close of a buffer that a graph owns does not wait for launches of the graph.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s)) // queued
			ok(x.host.Close())
			sink = x.raw[0]
			ok(g.Close())
		}, func(r *rig) {
			x := r.typed()
			g := x.graph()
			ok(g.Launch(x.s))
			sink = x.host.ReadSlice()[0]
			ok(x.host.Close())
			ok(g.Close())
		}},
	{"life/wait-was-cancelled", "A wait whose context has ended orders nothing.", "copyWrites",
		func(r *rig) {
			x := r.typed()
			r.holdTyped(x, x.s)
			ctx, cancel := context.WithCancel(background)
			cancel()
			x.copy(x.s, x.host, x.dev) // queued
			r.failedWith = x.s.Wait(ctx)
			r.open()
			sink = x.raw[0]
		}, func(r *rig) {
			x := r.typed()
			x.copy(x.s, x.host, x.dev)
			ctx, cancel := context.WithCancel(background)
			if x.s.Wait(ctx) == nil {
				sink = x.raw[0]
			}
			cancel()
		}},
}
