package workers

import "sync"

// condNotifier notifies goroutines on any system. It wakes them one after the other.
type condNotifier struct {
	mu      sync.Mutex
	changed *sync.Cond
	n       uint32 // notifications so far
}

// count returns the number of notifications so far.
func (c *condNotifier) count() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// add counts a notification. It wakes no goroutine that waits.
func (c *condNotifier) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// wake wakes all goroutines that wait.
func (c *condNotifier) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed != nil {
		c.changed.Broadcast()
	}
}

// wait returns when the count differs from seen. It may return earlier.
func (c *condNotifier) wait(seen uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = sync.NewCond(&c.mu)
	}
	for c.n == seen {
		c.changed.Wait()
	}
}
