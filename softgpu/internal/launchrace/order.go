package launchrace

import (
	"iter"

	"github.com/ferrygpu/ferry/internal/vclock"
)

// Track is the place of an operation in the order of operations. The lock of its Check guards it.
type Track struct {
	past     vclock.Clock // what comes before it; with itself once it is done
	at       vclock.Point // of compared operations, once they have begun
	began    uint64       // how many compared operations had ended then
	seen     bool         // it has let the host continue while it ran
	compared bool         // it is a launch, copy or fill, or the write of a value
}

// Submit begins to track an operation that follows others. done has the tracks of those that are
// done; Done adds the others when they end. An operation is compared with others if it is a launch,
// a copy or a fill, or the write of a value. The host has done what its past says, on whatever
// goroutine: the check knows only one. On a nil Check it returns nil.
func (c *Check) Submit(compared bool, done iter.Seq[*Track]) *Track {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &Track{past: c.host, compared: compared}
	for before := range done {
		t.past = t.past.Join(before.past)
	}
	if compared {
		c.open[t] = struct{}{}
	}
	return t
}

// Begin adds a compared operation, whose dependencies are done, to a chain. It takes a chain whose
// last operation comes before this one, or else a new chain.
func (c *Check) Begin(t *Track) {
	if c == nil || !t.compared {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.began = c.ends
	i := 0
	for i < len(c.heads) && !t.past.Has(vclock.Point{Chain: i, N: c.heads[i]}) {
		i++
	}
	if i == len(c.heads) {
		c.heads = append(c.heads, 0)
	}
	c.heads[i]++
	t.at = vclock.Point{Chain: i, N: c.heads[i]}
	c.running[t] = struct{}{}
}

// Done ends the tracking of an operation that is done, and orders those that follow it.
func (c *Check) Done(t *Track, next iter.Seq[*Track]) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, t)
	if t.at.N > 0 {
		t.past = t.past.With(t.at)
	}
	for after := range next {
		after.past = after.past.Join(t.past)
	}
}

// HostFollows notes that all that the host does from now on comes after an operation that is done.
func (c *Check) HostFollows(t *Track) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = c.host.Join(t.past)
}

// HostSees notes that all that the host does from now on comes after a running operation, which
// has shown the host that it reached some point. All of the operation counts as before that point.
func (c *Check) HostSees(t *Track) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = c.host.Join(t.past)
	if t.at.N > 0 {
		c.host = c.host.With(t.at)
		t.seen = true
	}
}

// FollowsHost notes that a running operation, which waits for the host, comes after all that the
// host has waited for until now.
func (c *Check) FollowsHost(t *Track) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.past = t.past.Join(c.host)
}
