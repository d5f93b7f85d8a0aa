package crew

import "sync"

// slowBell wakes all who wait, one after the other, on any system.
type slowBell struct {
	mu    sync.Mutex
	heard *sync.Cond
	times uint32
}

// rung is how often it has been rung.
func (b *slowBell) rung() uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times
}

// ring wakes all who wait.
func (b *slowBell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times++
	if b.heard != nil {
		b.heard.Broadcast()
	}
}

// wait returns when the bell has been rung more often; it may return before.
func (b *slowBell) wait(rung uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.heard == nil {
		b.heard = sync.NewCond(&b.mu)
	}
	for b.times == rung {
		b.heard.Wait()
	}
}
