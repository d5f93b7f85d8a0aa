package cutest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// times is how long a suite waits for what ought to come.
type times struct {
	limit    time.Duration // for one case
	grace    time.Duration // after its gates were opened by force
	patience time.Duration // for a call that must not wait; a driver that is right never comes near it
}

var usual = times{limit: 20 * time.Second, grace: 4 * time.Second, patience: 4 * time.Second}

// guarded runs a case's body under a watchdog; c knows afterwards how it went.
//
// The body has a goroutine of its own, so that one that waits for ever can be
// left behind: past the limit its gates are opened, and what it was waiting for
// is the failure.
func (c *T) guarded(k check) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.finish()
		defer c.report()
		c.suite.prepare(c, k.needs)
		k.run(c)
	}()
	select {
	case <-done:
	case <-time.After(c.suite.times.limit):
		c.fail("timed out after %v while waiting: %s", c.suite.times.limit, c.waitingFor())
		c.openGates()
		select {
		case <-done:
		case <-time.After(c.suite.times.grace):
			c.abandon()
			return
		}
	}
	c.suite.mend(c)
}

// abandon leaves a hung case behind and opens the driver anew.
func (c *T) abandon() {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	c.fail("it hangs even with its gates open; goroutines:\n%s", stacks)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.suite.hangs++
	c.suite.start(c.suite.parent)
}

// report turns a panic of the body into a failure.
func (c *T) report() {
	if v := recover(); v != nil {
		c.fail("panic: %v\n%s", v, debug.Stack())
	}
}

// finish opens the case's gates, waits for its work and undoes what it made.
func (c *T) finish() {
	defer c.report()
	c.openGates()
	c.step("the end of all work")
	if c.ctx != 0 {
		_ = c.d.CtxSynchronize(c.ctx) // an error shows in mend
	}
	for i := len(c.cleanups) - 1; i >= 0; i-- {
		c.step(fmt.Sprintf("clean-up %d", i))
		c.cleanups[i]()
	}
}
