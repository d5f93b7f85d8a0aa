package hostmap

import (
	"slices"
	"sync"
)

// HoldID identifies a hold of addresses. The zero HoldID is none.
type HoldID uint64

// Range is a range of addresses.
type Range struct{ Start, End uint64 }

// hold is addresses that must not be unregistered: one range, or many.
type hold struct {
	id    HoldID
	one   Range
	many  []Range       // of HoldAll
	ended chan struct{} // closed by EndHold if a Release waits for it
}

// overlaps reports whether a hold and an entry share addresses.
func (h *hold) overlaps(e *Entry) bool {
	return e.overlaps(h.one) || slices.ContainsFunc(h.many, e.overlaps)
}

func (e *Entry) overlaps(r Range) bool { return r.Start < e.End && e.Start < r.End }

// Hold keeps a range from being unregistered until EndHold. It waits while an entry in the
// range is being unregistered, unless mayWait returns an error. A registration does not
// wait for a hold: so the caller must ask Known before it ends the hold. Holds may overlap.
func (m *Map) Hold(start, end uint64, mayWait func() error) (HoldID, error) {
	return m.begin(hold{one: Range{start, end}}, mayWait)
}

// HoldAll is Hold for many ranges, which must not change until EndHold. While it waits it
// holds none of them. A caller of Hold for one range after the other could deadlock: each of
// two callers would wait for a Release that waits for a hold of the other.
func (m *Map) HoldAll(ranges []Range, mayWait func() error) (HoldID, error) {
	return m.begin(hold{many: ranges}, mayWait)
}

// holds are the holds of a Map. They are in several shards, each with a lock of its own:
// many goroutines copy at once, and each copy of pageable memory is a hold. Map.mu comes
// before these locks.
type holds struct{ shards [16]holdShard }

type holdShard struct {
	mu  sync.Mutex
	all []hold
	_   [64]byte // shards share no cache line
}

func (s *holds) shard(id HoldID) *holdShard { return &s.shards[id%HoldID(len(s.shards))] }

func (s *holds) add(h hold) {
	x := s.shard(h.id)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, h)
}

func (s *holds) remove(id HoldID) {
	x := s.shard(id)
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.all, func(h hold) bool { return h.id == id })
	ended := x.all[i].ended
	x.all = slices.Delete(x.all, i, i+1)
	if ended != nil {
		close(ended)
	}
}

// of returns a channel that is closed at the end of a hold of an entry's addresses, or nil
// if there is no such hold.
func (s *holds) of(e *Entry) chan struct{} {
	for i := range s.shards {
		if ended := s.shards[i].of(e); ended != nil {
			return ended
		}
	}
	return nil
}

func (s *holdShard) of(e *Entry) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if h := &s.all[i]; h.overlaps(e) {
			if h.ended == nil {
				h.ended = make(chan struct{})
			}
			return h.ended
		}
	}
	return nil
}

// begin begins a hold. It needs Map.mu only while an entry is being unregistered: a Release
// that does not find the hold has changed Map.releases before.
func (m *Map) begin(h hold, mayWait func() error) (HoldID, error) {
	h.id = HoldID(m.lastHold.Add(1))
	if m.holds.add(h); m.releases.Load() == 0 {
		return h.id, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.releasing(&h); e != nil; e = m.releasing(&h) {
		m.holds.remove(h.id)
		if err := m.waitUnlocked(e.change, mayWait); err != nil {
			return 0, err
		}
		m.holds.add(h)
	}
	return h.id, nil
}

// EndHold ends a hold.
func (m *Map) EndHold(id HoldID) { m.holds.remove(id) }

// Known reports whether the driver knows some of the addresses in a range.
func (m *Map) Known(start, end uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.within(start, end)) > 0
}

// releasing returns an entry that is being unregistered and has addresses of a hold, or
// nil. mu is held.
func (m *Map) releasing(h *hold) *Entry {
	if e := m.releasingIn(h.one); e != nil {
		return e
	}
	for _, r := range h.many {
		if e := m.releasingIn(r); e != nil {
			return e
		}
	}
	return nil
}

func (m *Map) releasingIn(r Range) *Entry {
	for _, e := range m.within(r.Start, r.End) {
		if e.releasing {
			return e
		}
	}
	return nil
}

// waitUnlocked waits for a channel without the lock, unless mayWait returns an error. mu is
// held before and after the call.
func (m *Map) waitUnlocked(c chan struct{}, mayWait func() error) error {
	m.mu.Unlock()
	defer m.mu.Lock()
	if err := mayWait(); err != nil {
		return err
	}
	<-c
	return nil
}
