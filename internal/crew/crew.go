// Package crew has work done by many goroutines that begin at once.
//
// The Go scheduler wakes processors one after the other, which takes some 40
// microseconds each: the last of twelve goroutines begins half a millisecond after
// the first. Members of a [Crew] wait in threads of their own, and on Linux one
// call of the system wakes them all, within some 70 microseconds.
package crew

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Crew is goroutines that wait for work. Each has a thread. They are started when
// work first needs them, and kept. The zero value has none and is ready; a Crew is
// safe for concurrent use.
type Crew struct {
	members atomic.Int64
	working atomic.Int64
	owed    atomic.Int64 // calls of work that members have yet to begin
	keep    atomic.Int64 // members that may wait: the most that were called at once
	closed  atomic.Bool
	bell    bell

	mu   sync.Mutex             // of those who change
	jobs atomic.Pointer[[]*job] // which is never changed, only replaced
}

// job is work that some members are to do.
type job struct {
	work func()
	want atomic.Int64 // members; less than 0 when more have come
}

// Call has n members call work, each once, and does not wait for them. A member
// that is busy elsewhere does not count: another is started in its place.
func (c *Crew) Call(n int, work func()) {
	j := &job{work: work}
	j.want.Store(int64(n))
	c.mu.Lock()
	defer c.mu.Unlock()
	var jobs []*job
	if old := c.jobs.Load(); old != nil {
		jobs = slices.DeleteFunc(slices.Clone(*old), func(j *job) bool { return j.want.Load() <= 0 })
	}
	jobs = append(jobs, j)
	c.jobs.Store(&jobs)
	c.keep.Store(max(c.keep.Load(), int64(n)))
	for missing := c.owed.Add(int64(n)) - c.members.Load() + c.working.Load(); missing > 0; missing-- {
		c.members.Add(1)
		go c.serve()
	}
	c.bell.ring()
}

// Close sends the members away when they have done what they are at. Those that a
// later Call needs leave after it.
func (c *Crew) Close() {
	c.closed.Store(true)
	c.bell.ring()
}

// serve is the life of a member.
func (c *Crew) serve() {
	for {
		rung := c.bell.rung()
		if j := c.take(); j != nil {
			j.work()
			c.working.Add(-1)
			continue
		}
		if c.mayGo() {
			return
		}
		c.bell.wait(rung)
	}
}

// take is a job that wants one more, or nil. Whoever has it works.
func (c *Crew) take() *job {
	jobs := c.jobs.Load()
	if jobs == nil {
		return nil
	}
	for _, j := range *jobs {
		if j.want.Load() > 0 && j.want.Add(-1) >= 0 {
			c.working.Add(1) // before it is no longer owed, so that nobody is counted twice
			c.owed.Add(-1)
			return j
		}
	}
	c.jobs.CompareAndSwap(jobs, nil) // which lets go of what their work refers to
	return nil
}

// mayGo takes a member that has nothing to do off the list, where there are too many.
func (c *Crew) mayGo() bool {
	for {
		n := c.members.Load()
		if !c.closed.Load() && n-c.working.Load() <= c.keep.Load() {
			return false
		}
		if c.members.CompareAndSwap(n, n-1) {
			return true
		}
	}
}
