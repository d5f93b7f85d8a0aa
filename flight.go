package ferry

import (
	"context"
	"slices"
	"sync"
)

// access is what an operation does with memory.
type access uint8

const (
	reads access = iota
	writes
)

// flight knows the operations in flight on one thing, per stream: the number of
// the last that read it and of the last that wrote it. No event is recorded for
// an operation; a stream is synchronised when somebody asks and the stream has
// not been seen to pass that number.
type flight struct {
	mu     sync.Mutex
	marks  []mark
	inline [2]mark // first room of marks
}

// mark is the last operations of one stream.
type mark struct {
	q    *queue
	last [2]uint64 // by access; 0 for none
}

// latest is the last operation that conflicts with an access: reads conflict
// with writes, writes with all.
func (m *mark) latest(a access) uint64 {
	if a == reads {
		return m.last[writes]
	}
	return max(m.last[reads], m.last[writes])
}

// note records that operation number seq of q uses the thing.
func (f *flight) note(q *queue, seq uint64, a access) {
	f.mu.Lock()
	m := f.find(q)
	m.last[a] = max(m.last[a], seq)
	f.mu.Unlock()
}

// find is q's mark, a new one if there is none yet. f.mu is held.
func (f *flight) find(q *queue) *mark {
	free := -1
	for i := range f.marks {
		m := &f.marks[i]
		if m.q == q {
			return m
		}
		if m.q.passed.Load() >= m.latest(writes) {
			free = i
		}
	}
	if free < 0 {
		if f.marks == nil {
			f.marks = f.inline[:0]
		}
		f.marks = append(f.marks, mark{})
		free = len(f.marks) - 1
	}
	f.marks[free] = mark{q: q}
	return &f.marks[free]
}

// busy says whether a stream has not been seen to pass what conflicts with a.
func (f *flight) busy(a access) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.marks {
		if m := &f.marks[i]; m.q.passed.Load() < m.latest(a) {
			return true
		}
	}
	return false
}

// wait returns when the hardware is done with all that conflicts with a and was
// queued before the call. What was queued later on the same streams may be
// waited for, too.
func (f *flight) wait(ctx context.Context, a access) error {
	if !f.busy(a) {
		return nil
	}
	f.mu.Lock()
	marks := slices.Clone(f.marks)
	f.mu.Unlock()
	for _, m := range marks {
		if m.q.passed.Load() >= m.latest(a) {
			continue
		}
		if err := m.q.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}
