package cutest

import (
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

const defaultDoc = "Programming Guide: Default Stream, Implicit Synchronization; Driver API: Stream synchronization behavior"

// onThread runs f on an operating-system thread of its own, which the per-thread stream
// needs.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}

var defaultStreamChecks = []check{
	{"default/legacy-waits-for-blocking", "legacy stream work waits for earlier work of blocking streams",
		defaultDoc, needMapHost, func(c *trial) {
			m, s := c.mapped(8), c.stream(cu.StreamDefault)
			storeWord(m.b, 4, 0)
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", 1, m.dev, uint32(31), uint32(1))
			c.launch(0, "copy", 1, m.dev+4, m.dev, uint32(1))
			c.mustWait(g, "the legacy stream", func() error { return c.d.StreamSynchronize(c.ctx, 0) })
			c.check(loadWord(m.b, 4) == 31, "the legacy stream saw %d, want 31", loadWord(m.b, 4))
		}},
	{"default/blocking-waits-for-legacy", "work of blocking streams waits for earlier legacy stream work",
		defaultDoc, needMapHost, func(c *trial) {
			m, s := c.mapped(8), c.stream(cu.StreamDefault)
			storeWord(m.b, 4, 0)
			g := c.gate()
			g.hold(0)
			c.launch(0, "store", 1, m.dev, uint32(32), uint32(1))
			c.launch(s, "copy", 1, m.dev+4, m.dev, uint32(1))
			c.mustWait(g, "the blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(loadWord(m.b, 4) == 32, "the blocking stream saw %d, want 32", loadWord(m.b, 4))
		}},
	{"default/non-blocking-free-of-legacy", "non-blocking streams do not wait for the legacy stream",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(0)
			c.launch(s, "store", 1, m.dev, uint32(33), uint32(1))
			c.mustReturn(g, "the non-blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(loadWord(m.b, 0) == 33, "got %d, want 33", loadWord(m.b, 0))
			c.busy(0)
		}},
	{"default/legacy-free-of-non-blocking", "the legacy stream does not wait for non-blocking streams",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.launch(0, "store", 1, m.dev, uint32(34), uint32(1))
			c.mustReturn(g, "the legacy stream", func() error { return c.d.StreamSynchronize(c.ctx, 0) })
			c.check(loadWord(m.b, 0) == 34, "got %d, want 34", loadWord(m.b, 0))
			c.busy(s)
		}},
	{"default/legacy-between-two", "a legacy stream operation orders the work of two blocking streams",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(12)
			a, b := c.stream(cu.StreamDefault), c.stream(cu.StreamDefault)
			storeWord(m.b, 4, 0)
			storeWord(m.b, 8, 0)
			g := c.gate()
			g.hold(a)
			c.launch(a, "store", 1, m.dev, uint32(7), uint32(1))
			c.launch(0, "copy", 1, m.dev+4, m.dev, uint32(1))
			c.launch(b, "copy", 1, m.dev+8, m.dev+4, uint32(1))
			c.mustWait(g, "the second blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.check(loadWord(m.b, 8) == 7, "the second blocking stream saw %d, want 7", loadWord(m.b, 8))
		}},
	{"default/legacy-memset-orders", "a fill without a stream is legacy stream work and orders blocking streams",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			p := c.device(4)
			a, b := c.stream(cu.StreamDefault), c.stream(cu.StreamDefault)
			g := c.gate()
			g.hold(a)
			c.launch(a, "store", 1, p, uint32(7), uint32(1))
			c.ok(c.d.MemsetD32(c.ctx, p, 100, 1), "memset")
			c.launch(b, "inc", 1, p, uint32(1), uint32(1))
			c.mustWait(g, "the second blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			c.same("after store, fill and increment", c.down(p, 4), words(101))
		}},
	{"default/legacy-by-name", "the legacy stream has a handle of its own and is also stream 0",
		"Driver API: CU_STREAM_LEGACY", needMapHost, func(c *trial) {
			m := c.mapped(4)
			g := c.gate()
			g.hold(cu.StreamLegacy)
			c.launch(0, "store", 1, m.dev, uint32(35), uint32(1))
			c.busy(0)
			c.busy(cu.StreamLegacy)
			c.mustWait(g, "the legacy stream", func() error { return c.d.StreamSynchronize(c.ctx, cu.StreamLegacy) })
			c.check(loadWord(m.b, 0) == 35, "got %d, want 35", loadWord(m.b, 0))
		}},
	{"default/legacy-query-is-ready", "the legacy stream of an idle context is ready",
		"Driver API: cuStreamQuery", 0, func(c *trial) {
			c.ok(c.d.StreamQuery(c.ctx, 0), "query")
			flags, err := c.d.StreamGetFlags(c.ctx, 0)
			c.ok(err, "flags")
			c.check(flags == 0, "flags %d, want 0", flags)
			priority, err := c.d.StreamGetPriority(c.ctx, 0)
			c.ok(err, "priority")
			c.check(priority == 0, "priority %d, want 0", priority)
		}},
	{"default/per-thread-is-blocking", "the per-thread stream waits for the legacy stream",
		"Programming Guide: Default Stream, Per-thread default stream; Driver API: CU_STREAM_PER_THREAD", needMapHost, func(c *trial) {
			m := c.mapped(4)
			g := c.gate()
			g.hold(0)
			c.kernel("store")
			c.mustWait(g, "the per-thread stream", func() error {
				return onThread(func() error {
					if err := c.tryLaunch(c.ctx, cu.StreamPerThread, "store", 1, m.dev, uint32(36), uint32(1)); err != nil {
						return err
					}
					return c.d.StreamSynchronize(c.ctx, cu.StreamPerThread)
				})
			})
			c.check(loadWord(m.b, 0) == 36, "got %d, want 36", loadWord(m.b, 0))
		}},
	{"default/per-thread-is-its-thread's", "the per-thread streams of two threads are two streams",
		"Programming Guide: Default Stream, Per-thread default stream", needMapHost | needConcurrentKernels, func(c *trial) {
			m := c.mapped(4)
			g := c.gate()
			release, held := make(chan struct{}), make(chan error, 1)
			defer close(release)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				held <- c.tryLaunch(c.ctx, cu.StreamPerThread, "gate", 1, g.mem.dev, g.mem.dev+4)
				<-release
			}()
			c.ok(<-held, "launch on the first thread")
			c.mustReturn(g, "the stream of the second thread", func() error {
				return onThread(func() error {
					if err := c.tryLaunch(c.ctx, cu.StreamPerThread, "store", 1, m.dev, uint32(37), uint32(1)); err != nil {
						return err
					}
					return c.d.StreamSynchronize(c.ctx, cu.StreamPerThread)
				})
			})
			c.check(loadWord(m.b, 0) == 37, "got %d, want 37", loadWord(m.b, 0))
		}},
	{"default/per-thread-in-order", "the per-thread stream runs work in the order of its thread's calls",
		"Programming Guide: Default Stream, Per-thread default stream", 0, func(c *trial) {
			const n = 64
			p := c.device(4 * n)
			c.kernel("inc")
			c.ok(onThread(func() error {
				if err := c.d.MemsetD32Async(c.ctx, p, 0, n, cu.StreamPerThread); err != nil {
					return err
				}
				for range 20 {
					if err := c.tryLaunch(c.ctx, cu.StreamPerThread, "inc", n, p, uint32(3), uint32(n)); err != nil {
						return err
					}
				}
				return c.d.StreamSynchronize(c.ctx, cu.StreamPerThread)
			}), "work of the per-thread stream")
			c.same("after the stream", c.down(p, 4*n), repeated(60, n))
		}},
}

var streamMisuseChecks = []check{
	{"stream/unknown-flags", "flags that do not exist are refused",
		"Driver API: cuStreamCreate", 0, func(c *trial) {
			for _, flags := range []cu.StreamFlags{2, 0x8000} {
				s, err := c.d.StreamCreate(c.ctx, flags)
				c.want(err, "create", cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.StreamDestroy(c.ctx, s)
				}
				_, err = c.d.StreamCreateWithPriority(c.ctx, flags, 0)
				c.want(err, "create with priority", cu.ErrorInvalidValue)
			}
		}},
	{"stream/destroy-default", "the default streams cannot be destroyed",
		"Driver API: cuStreamDestroy", 0, func(c *trial) {
			c.want(c.d.StreamDestroy(c.ctx, 0), "destroy stream 0", cu.ErrorInvalidHandle)
			c.want(c.d.StreamDestroy(c.ctx, cu.StreamLegacy), "destroy the legacy stream", cu.ErrorInvalidHandle)
			c.want(c.d.StreamDestroy(c.ctx, cu.StreamPerThread), "destroy the per-thread stream", cu.ErrorInvalidHandle)
			c.ok(c.d.StreamQuery(c.ctx, 0), "the stream afterwards")
		}},
	{"stream/wait-event-misuse", "a wait for an event needs a valid event and known flags",
		"Driver API: cuStreamWaitEvent", 0, func(c *trial) {
			s, e := c.stream(0), c.event(0)
			c.want(c.d.StreamWaitEvent(c.ctx, s, 0, 0), "wait for no event", cu.ErrorInvalidHandle)
			c.want(c.d.StreamWaitEvent(c.ctx, s, e, 0x40), "unknown flags", cu.ErrorInvalidValue)
		}},
	{"stream/use-after-destroy", "a destroyed stream is an invalid handle",
		"Driver API: cuStreamDestroy (undefined on hardware)", needEmulated, func(c *trial) {
			s, err := c.d.StreamCreate(c.ctx, 0)
			c.ok(err, "create")
			c.ok(c.d.StreamDestroy(c.ctx, s), "destroy")
			const bad = cu.ErrorInvalidHandle
			c.want(c.d.StreamQuery(c.ctx, s), "query", bad)
			c.want(c.d.StreamSynchronize(c.ctx, s), "synchronize", bad)
			c.want(c.d.StreamDestroy(c.ctx, s), "destroy again", bad)
			c.want(c.tryLaunch(c.ctx, s, "noparams", 1), "launch", bad)
			c.want(c.d.StreamQuery(c.ctx, 0xdeadbeef), "query of a handle that never existed", bad)
		}},
}
