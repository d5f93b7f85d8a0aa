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

// notifyAll counts a notification and wakes all goroutines that wait.
func (c *condNotifier) notifyAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
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
