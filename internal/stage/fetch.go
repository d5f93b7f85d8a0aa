package stage

// fetch waits until the bytes of a chunk are in its slot, and has the device go on
// with the chunks after it.
func (t *transfer) fetch(c *chunk, number int) error {
	if c.claimed.CompareAndSwap(false, true) {
		s, err := t.r.take(t, c.off)
		t.start(c, s, err)
	} else {
		<-c.ready
	}
	t.prefetch(number + 1)
	if c.err != nil {
		return c.err
	}
	return t.r.await(t.ctx, c.slot.event)
}

// prefetch queues copies of the chunks from next on while there are slots. A chunk
// is not fetched before the one in front of it is: else those that nobody has come
// to yet could hold all slots, and everybody wait for the one in front.
func (t *transfer) prefetch(next int) {
	for ; next < len(t.chunks) && t.chunks[next-1].queued.Load() && t.failed.Load() > t.job.Bytes; next++ {
		c := &t.chunks[next]
		if c.queued.Load() {
			continue
		}
		s, _, err := t.r.tryTake(t)
		if s == nil && err == nil {
			return
		}
		// The slot comes first: who claims a chunk must be able to fetch it, as others
		// wait for that.
		if !c.claimed.CompareAndSwap(false, true) {
			if s != nil {
				t.r.give(s)
			}
			return // somebody is at it
		}
		t.start(c, s, err)
	}
}

// start queues the copy of a chunk that is claimed to its slot, or notes why not.
func (t *transfer) start(c *chunk, s *slot, err error) {
	defer close(c.ready)
	if c.err = err; err != nil {
		return
	}
	c.slot = s
	queued, err := t.queue(c, c.n)
	if !queued {
		c.err = err
		t.put(c)
		return
	}
	c.queued.Store(true)
}
