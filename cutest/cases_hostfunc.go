package cutest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const hostFuncDoc = "Programming Guide: Host Functions (Callbacks); Driver API: cuLaunchHostFunc"

func (c *trial) hostFunc(s cu.Stream, f func()) {
	c.ok(c.d.LaunchHostFunc(c.ctx, s, f), "queue a host function")
}

// oneAtATime checks that the host functions of two streams do not run at once.
func (c *trial) oneAtATime(a, b cu.Stream) {
	second := make(chan struct{})
	together := false
	c.hostFunc(a, func() {
		select {
		case <-second: // the function of b was first
			return
		default:
		}
		select {
		case <-second:
			together = true
		case <-time.After(4 * blockedTime):
		}
	})
	c.hostFunc(b, func() { close(second) })
	c.step("host functions of two streams")
	go func() { _ = c.d.StreamSynchronize(c.ctx, b) }()
	c.sync(a)
	c.check(!together, "two host functions ran at the same time")
	c.sync(b)
	<-second
}

var hostFuncChecks = []check{
	{"hostfunc/order", "a host function runs after the earlier work of its stream and before the later work",
		hostFuncDoc, needMapHost, func(c *trial) {
			for _, s := range []cu.Stream{c.stream(cu.StreamNonBlocking), c.stream(0), 0} {
				m := c.mapped(8)
				storeWord(m.b, 0, 0)
				var saw uint32
				c.launch(s, "store", 1, m.dev, uint32(5), uint32(1))
				c.hostFunc(s, func() {
					saw = loadWord(m.b, 0)
					storeWord(m.b, 0, 6)
				})
				c.launch(s, "inc", 1, m.dev, uint32(100), uint32(1))
				c.launch(s, "copy", 1, m.dev+4, m.dev, uint32(1))
				c.sync(s)
				c.check(saw == 5, "the function saw %d, want 5", saw)
				c.check(loadWord(m.b, 4) == 106, "the kernel after it left %d, want 106", loadWord(m.b, 4))
			}
		}},
	{"hostfunc/blocks-what-follows", "work after a host function waits for its end",
		hostFuncDoc, needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			storeWord(m.b, 0, 0)
			release, entered := make(chan struct{}), make(chan struct{})
			unblock := sync.OnceFunc(func() { close(release) })
			defer unblock()
			c.hostFunc(s, func() { close(entered); <-release })
			c.launch(s, "store", 1, m.dev, uint32(1), uint32(1))
			c.until("the host function", func() bool {
				_ = c.d.StreamQuery(c.ctx, s)
				select {
				case <-entered:
					return true
				default:
					return false
				}
			})
			time.Sleep(blockedTime)
			c.busy(s)
			c.check(loadWord(m.b, 0) == 0, "the kernel after the function ran before its end")
			unblock()
			c.sync(s)
			c.check(loadWord(m.b, 0) == 1, "got %d, want 1", loadWord(m.b, 0))
		}},
	{"hostfunc/synchronize-waits", "a wait for a stream or a context ends after its host functions have returned",
		hostFuncDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			var done atomic.Bool
			c.hostFunc(s, func() { time.Sleep(blockedTime); done.Store(true) })
			c.sync(s)
			c.check(done.Load(), "the wait ended before the host function")
			done.Store(false)
			c.hostFunc(s, func() { time.Sleep(blockedTime); done.Store(true) })
			c.syncAll()
			c.check(done.Load(), "the context's wait ended before the host function")
		}},
	{"hostfunc/event-after", "an event recorded after a host function is done when the function has returned",
		hostFuncDoc, 0, func(c *trial) {
			s, e := c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			var done atomic.Bool
			c.hostFunc(s, func() { time.Sleep(blockedTime); done.Store(true) })
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.step("an event after a host function")
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait")
			c.check(done.Load(), "the event was done before the host function")
		}},
	{"hostfunc/many-in-order", "every host function of a stream runs once, in order",
		hostFuncDoc, 0, func(c *trial) {
			const n = 500
			s := c.stream(cu.StreamNonBlocking)
			var order []int
			for i := range n {
				c.hostFunc(s, func() { order = append(order, i) })
			}
			c.sync(s)
			want := make([]int, n)
			for i := range want {
				want[i] = i
			}
			c.check(slices.Equal(order, want), "%d functions ran, in the order %v ...", len(order), order[:min(20, len(order))])
		}},
	{"hostfunc/legacy-rules", "a host function in the legacy stream waits for blocking streams, and they wait for it",
		hostFuncDoc + "; Default Stream", needMapHost, func(c *trial) {
			m := c.mapped(4)
			g, s := c.behind(cu.StreamDefault)
			var ran atomic.Bool
			c.hostFunc(0, func() { ran.Store(true) })
			c.launch(s, "store", 1, m.dev, uint32(3), uint32(1))
			time.Sleep(blockedTime)
			c.check(!ran.Load(), "the function ran while a blocking stream was busy")
			c.mustWait(g, "the blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(ran.Load(), "the blocking stream did not wait for the function")
		}},
	{"hostfunc/beside-the-default-stream", "a host function of a non-blocking stream runs while a kernel and the work behind it hold the default stream",
		hostFuncDoc + "; Default Stream", needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(0)
			c.launch(0, "store", 1, m.dev, uint32(1), uint32(1))
			c.hostFunc(0, func() {})
			var ran atomic.Bool
			c.hostFunc(s, func() { ran.Store(true) })
			c.mustReturn(g, "the wait for the non-blocking stream", func() error { return c.d.StreamSynchronize(c.ctx, s) })
			c.check(ran.Load(), "the function had not run when the wait ended")
			g.open()
			c.sync(0)
		}},
	{"hostfunc/no-driver-calls", "a driver call inside a host function is not permitted, and does not deadlock",
		hostFuncDoc, 0, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			calls := map[string]func() error{
				"MemAlloc": func() error {
					p, err := c.d.MemAlloc(c.ctx, 64)
					if err == nil {
						_ = c.d.MemFree(c.ctx, p)
					}
					return err
				},
				"StreamSynchronize": func() error { return c.d.StreamSynchronize(c.ctx, s) },
				"CtxSynchronize":    func() error { return c.d.CtxSynchronize(c.ctx) },
				"LaunchKernel":      func() error { return c.tryLaunch(c.ctx, s, "noparams", 1) },
				"StreamCreate":      func() error { _, err := c.d.StreamCreate(c.ctx, 0); return err },
				"EventQuery":        func() error { return c.d.EventQuery(c.ctx, 0) },
			}
			c.kernel("noparams")
			errs := map[string]error{}
			c.hostFunc(s, func() {
				for name, call := range calls {
					errs[name] = call()
				}
			})
			c.sync(s)
			for name := range calls {
				c.want(errs[name], name+" in a host function", cu.ErrorNotPermitted)
			}
		}},
	{"hostfunc/panic-reported", "a panic in a host function does not end the process: a wait reports it, and the stream goes on",
		"Ferry: cu.HostPanic", needMapHost, func(c *trial) {
			m, s := c.mapped(4), c.stream(cu.StreamNonBlocking)
			word := fmt.Sprintf("number %d", time.Now().UnixNano())
			c.hostFunc(s, func() { panic(word) })
			c.launch(s, "store", 1, m.dev, uint32(8), uint32(1))
			c.step("a stream whose host function panicked")
			err := c.d.StreamSynchronize(c.ctx, s)
			var p *cu.HostPanic
			c.check(errors.As(err, &p), "the wait returned %v, want a *cu.HostPanic", err)
			c.check(err != nil && strings.Contains(err.Error(), word), "the error %v does not contain %q", err, word)
			c.check(loadWord(m.b, 0) == 8, "the work after the panic was lost: got %d", loadWord(m.b, 0))
			c.ok(c.d.StreamSynchronize(c.ctx, s), "the wait after the report")
			c.ok(c.d.CtxSynchronize(c.ctx), "the context after the report")
		}},
	{"hostfunc/nil", "a nil function is an invalid value",
		"Driver API: cuLaunchHostFunc", 0, func(c *trial) {
			c.want(c.d.LaunchHostFunc(c.ctx, 0, nil), "nil", cu.ErrorInvalidValue)
		}},
	{"hostfunc/two-streams", "host functions run one at a time, even on two streams",
		hostFuncDoc, 0, func(c *trial) {
			c.oneAtATime(c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking))
		}},
	{"hostfunc/default-stream-holds-others", "a host function of the default stream that waits holds back those of non-blocking streams",
		hostFuncDoc, 0, func(c *trial) {
			c.oneAtATime(0, c.stream(cu.StreamNonBlocking))
		}},
	{"hostfunc/goroutine-may-call", "a host function may pass work to another goroutine, which uses the driver after the function has returned",
		hostFuncDoc, 0, func(c *trial) {
			const n = 100
			p, s := c.device(4*n), c.stream(cu.StreamNonBlocking)
			c.kernel("store")
			work, done := make(chan struct{}, 1), make(chan error, 1)
			go func() {
				<-work
				_ = c.d.StreamSynchronize(c.ctx, s)
				done <- c.tryLaunch(c.ctx, s, "store", n, p, uint32(55), uint32(n))
			}()
			c.hostFunc(s, func() { work <- struct{}{} })
			c.sync(s)
			c.step("a goroutine that a host function woke")
			c.ok(<-done, "launch from the goroutine")
			c.same("stored", c.down(p, 4*n), repeated(55, n))
		}},
}
