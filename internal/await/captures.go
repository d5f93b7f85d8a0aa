package await

import (
	"sync"
	"time"
)

// Captures keeps waits for all work of a context apart from the captures in it. While a stream
// captures, the driver refuses such a wait, and invalidates the capture. So a wait must not begin
// while a stream captures, and a capture must not begin while the driver may still look.
//
// The driver looks at the start of a wait. A wait can take long, and can need what comes after a
// capture, so Begin does not wait for its end. It waits until lookTime after the start.
//
// The zero Captures is ready to use. Its lock is a leaf, and is not held across a driver call.
type Captures struct {
	mu       sync.Mutex
	captures int
	waits    map[*contextWait]struct{} // in the driver now
}

// contextWait is a wait for all work of a context.
type contextWait struct {
	began time.Time
	ended chan struct{}
}

// lookTime is the time after which a wait has seen in the driver that no stream captures.
const lookTime = 100 * time.Millisecond

// Begin counts a stream that is about to capture, or to join a capture. It returns when no wait
// that has begun can find the capture. End ends the count.
func (c *Captures) Begin() {
	for _, w := range c.begin() {
		left := time.NewTimer(time.Until(w.began.Add(lookTime)))
		select {
		case <-w.ended:
		case <-left.C:
		}
		left.Stop()
	}
}

// begin counts a stream, and returns the waits that have begun.
func (c *Captures) begin() (all []*contextWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.captures++
	for w := range c.waits {
		all = append(all, w)
	}
	return all
}

// End ends the count of a stream: it captures no more, or did not begin.
func (c *Captures) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.captures--
}

// Wait calls sync, which waits in the driver for all work of the context. While a stream captures
// it does not, and ok is false.
func (c *Captures) Wait(sync func() error) (ok bool, err error) {
	w := c.enter()
	if w == nil {
		return false, nil
	}
	defer c.leave(w)
	return true, sync()
}

// enter begins a wait. It returns nil while a stream captures.
func (c *Captures) enter() *contextWait {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.captures > 0 {
		return nil
	}
	if c.waits == nil {
		c.waits = map[*contextWait]struct{}{}
	}
	w := &contextWait{time.Now(), make(chan struct{})}
	c.waits[w] = struct{}{}
	return w
}

// leave ends a wait.
func (c *Captures) leave(w *contextWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waits, w)
	close(w.ended)
}
