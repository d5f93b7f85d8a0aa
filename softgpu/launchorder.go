package softgpu

import "slices"

// past says which operations come before something. Operations that follow each other form
// chains: of chain i, the first past[i] operations come before. It does not change once made.
type past []uint64

// chainLink is the place of an operation in a chain, counted from 1.
type chainLink struct {
	chain int
	n     uint64
}

func (p past) has(t chainLink) bool { return t.chain < len(p) && p[t.chain] >= t.n }

// join returns what p or q have.
func (p past) join(q past) past {
	switch {
	case p.contains(q):
		return p
	case q.contains(p):
		return q
	}
	sum := make(past, max(len(p), len(q)))
	copy(sum, p)
	for i, n := range q {
		sum[i] = max(sum[i], n)
	}
	return sum
}

// meet returns what both p and q have.
func (p past) meet(q past) past {
	both := slices.Clone(p[:min(len(p), len(q))])
	for i, n := range q[:len(both)] {
		both[i] = min(both[i], n)
	}
	return both
}

func (p past) contains(q past) bool {
	if len(q) > len(p) {
		return false
	}
	for i, n := range q {
		if n > p[i] {
			return false
		}
	}
	return true
}

// with returns p and the operation at t, with all before it in its chain.
func (p past) with(t chainLink) past {
	if p.has(t) {
		return p
	}
	sum := make(past, max(len(p), t.chain+1))
	copy(sum, p)
	sum[t.chain] = t.n
	return sum
}

// track is the place of an op in the order of operations, for the check of launches. It is
// nil without the check. launchCheck.mu guards it.
type track struct {
	past  past      // what comes before it; with itself once it is done
	at    chainLink // of launches, copies and fills, once they have begun
	began uint64    // how many launches, copies and fills had ended then
	seen  bool      // it has let the host continue while it ran
}

// submit begins to track o, which follows deps. What has not ended of these is added by
// ended. The host has done what its past says, on whatever goroutine: the check knows only one.
func (c *launchCheck) submit(o *op, deps []*op) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.track = &track{past: c.host}
	for _, dep := range deps {
		if dep != nil && dep.done && dep.track != nil {
			o.track.past = o.track.past.join(dep.track.past)
		}
	}
	if o.work.launch != nil || o.work.spans != nil {
		c.open[o.track] = struct{}{}
	}
}

// begin gives o, whose dependencies are done, a place in a chain: behind the last of a chain
// that comes before it, or in a new chain.
func (c *launchCheck) begin(o *op) {
	if c == nil || o.work.launch == nil && o.work.spans == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := o.track
	t.began = c.ends
	i := 0
	for i < len(c.heads) && !t.past.has(chainLink{i, c.heads[i]}) {
		i++
	}
	if i == len(c.heads) {
		c.heads = append(c.heads, 0)
	}
	c.heads[i]++
	t.at = chainLink{i, c.heads[i]}
	c.running[t] = struct{}{}
}

// ended ends the tracking of o, which is done, and orders what follows it.
func (c *launchCheck) ended(o *op) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := o.track
	delete(c.open, t)
	if t.at.n > 0 {
		t.past = t.past.with(t.at)
	}
	for _, next := range o.succs {
		next.track.past = next.track.past.join(t.past)
	}
}

// hostFollows orders what the host does from now on after o, which is done.
func (c *launchCheck) hostFollows(o *op) {
	if c == nil || o == nil || !o.done {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = c.host.join(o.track.past)
}

// hostSees orders what the host does from now on after o, which is running and shows the
// host that it has reached some point. What o does later counts as before that, too.
func (c *launchCheck) hostSees(o *op) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := o.track
	c.host = c.host.join(t.past)
	if t.at.n > 0 {
		c.host = c.host.with(t.at)
		t.seen = true
	}
}

// followsHost orders o, which is running and waits for the host, after all that the host
// has waited for so far.
func (c *launchCheck) followsHost(o *op) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.track.past = o.track.past.join(c.host)
}

// acquired orders what the host does from now on after o, which is done: for the race
// detector and for the check of launches.
func (o *op) acquired() {
	if o == nil {
		return
	}
	o.ctx.drv.launches.hostFollows(o)
	o.raceAcquire()
}
