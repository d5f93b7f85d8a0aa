package cutest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// times has the limits of a suite's waits.
type times struct {
	limit       time.Duration // for one case
	grace       time.Duration // after its gates were opened by force
	returnLimit time.Duration // for a call that must not wait; a correct driver returns long before
}

var defaultTimes = times{limit: 20 * time.Second, grace: 4 * time.Second, returnLimit: 4 * time.Second}

// guarded runs a case's body with a watchdog and records the result in c.
//
// The body has a goroutine of its own, so that a body that waits for ever can be
// abandoned. After the limit the gates are opened, and the failure names what the body
// was waiting for.
func (c *trial) guarded(k check) {
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
	c.suite.checkPrimaries(c)
}

// abandon gives up on a case that hangs and opens a new driver.
func (c *trial) abandon() {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	c.fail("it hangs even with its gates open; goroutines:\n%s", stacks)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.suite.hangs++
	c.suite.start(c.suite.parent)
}

// report records a panic of the body as a failure.
func (c *trial) report() {
	if v := recover(); v != nil {
		c.fail("panic: %v\n%s", v, debug.Stack())
	}
}

// finish opens the case's gates, waits for its work and runs the clean-ups.
func (c *trial) finish() {
	defer c.report()
	c.openGates()
	c.step("the end of all work")
	if c.ctx != 0 {
		_ = c.d.CtxSynchronize(c.ctx) // checkPrimaries reports an error
	}
	for i := len(c.cleanups) - 1; i >= 0; i-- {
		c.step(fmt.Sprintf("clean-up %d", i))
		c.cleanups[i]()
	}
}
