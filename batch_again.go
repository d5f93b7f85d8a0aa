package ferry

import "slices"

// submitted is the last submission, kept with its calls if the next one on the
// stream needs the same: then only what may have changed is looked at, whether all
// is open and what events stand for.
type submitted struct {
	q       *queue // nil if it cannot be made again
	known   bool   // what follows is so: only a batch that comes again is worth the work
	uses    []held // each thing once, as far as that is cheap to find; all, before
	records []mention
	waits   []mention
	kernel  *Kernel
}

// remember prepares for the last submission to be made again.
func (b *Batch) remember() {
	s := &b.last
	s.known, s.kernel = true, b.lastKernel(b.calls.Len())
	all := s.uses
	s.uses = s.uses[:0]
	for _, h := range all {
		i := slices.IndexFunc(s.uses[:min(len(s.uses), 32)], func(x held) bool { return x.f == h.f && x.generation == h.generation })
		if i < 0 {
			s.uses = append(s.uses, h)
		} else {
			s.uses[i].a = max(s.uses[i].a, h.a)
		}
	}
	for i := range b.ops {
		switch op := &b.ops[i]; {
		case op.records:
			s.records = append(s.records, mention{e: op.event, records: true})
		case op.event != nil:
			s.waits = append(s.waits, mention{e: op.event})
		}
	}
}

// submitAgain makes the last submission again, by queue.call. It is errMore, and
// nothing is done, if there is more to look at than whether all is still there.
func (b *Batch) submitAgain(q *queue) error {
	last := &b.last
	if !last.known {
		b.remember()
	}
	if !q.call() {
		return errMore
	}
	if !last.beginUses(q) || !last.beginEvents(q) {
		q.called(notQueued)
		return errMore
	}
	done, err := q.g.driver.Submit(q.g.ctx, &b.calls)
	last.endEvents(q, err)
	if err != nil {
		return b.failedAgain(q, done, err)
	}
	last.note(q.next())
	if q.last.Load() != last.kernel {
		q.ran(last.kernel)
	}
	q.called(queued)
	return nil
}

// beginUses says whether all is open, and finds its lanes.
func (s *submitted) beginUses(q *queue) bool {
	uses := s.uses
	for i := range uses {
		u := &uses[i]
		if u.l.q.Load() != q {
			u.lendAgain(q)
		}
		if !u.f.openIn(u.generation) {
			return false
		}
	}
	return true
}

// beginEvents begins the uses of events; none, if it is false.
func (s *submitted) beginEvents(q *queue) bool {
	records := s.records
	for i := range records {
		m := &records[i]
		m.r = recording{m.e.beginAlone(q), q.issued(), true}
		if m.r.number == 0 && !m.again(q) {
			endEvents(records[:i], q, errMore)
			return false
		}
	}
	return len(s.waits) == 0 || s.beginWaits(q)
}

// again begins to record an event that somebody else uses.
func (m *mention) again(q *queue) bool {
	r, err := m.e.begin(q)
	m.r = r
	return err == nil
}

// beginWaits begins to wait for events, if all can be waited for. Else nothing is
// begun any more.
func (s *submitted) beginWaits(q *queue) bool {
	for i := range s.waits {
		e := s.waits[i].e
		err := e.enter("wait for")
		if err == nil && e.captured() == nil {
			continue
		}
		if err == nil {
			e.leave()
		}
		endEvents(s.waits[:i], q, errMore)
		endEvents(s.records, q, errMore)
		return false
	}
	return true
}

// endEvents ends what beginEvents began.
func (s *submitted) endEvents(q *queue, err error) {
	records := s.records
	for i := range records {
		m := &records[i]
		m.e.end(q, m.r, err)
	}
	if len(s.waits) > 0 {
		endEvents(s.waits, q, err)
	}
}

// note notes the number of an operation that uses it all, or of an earlier one.
func (s *submitted) note(seq uint64) {
	uses := s.uses
	for i := range uses {
		u := &uses[i]
		u.l.note(u.a, seq)
	}
}

// lendAgain is for a thing whose lane has become another stream's.
func (h *held) lendAgain(q *queue) { h.l = h.f.lend(q) }

// failedAgain ends a submission that the driver did not take, but for so many calls.
func (b *Batch) failedAgain(q *queue, done int, err error) error {
	what := uint64(notQueued)
	if done > 0 {
		what = queued
		b.last.note(q.next())
	}
	q.ran(b.lastKernel(done))
	err = b.explain(q, b.owner[done], err)
	q.called(what)
	return err
}
