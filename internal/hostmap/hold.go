package hostmap

import "slices"

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

// begin begins a hold.
func (m *Map) begin(h hold, mayWait func() error) (HoldID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.releasing(&h); e != nil; e = m.releasing(&h) {
		if err := m.waitUnlocked(e.change, mayWait); err != nil {
			return 0, err
		}
	}
	m.lastHold++
	h.id = m.lastHold
	m.holds = append(m.holds, h)
	return h.id, nil
}

// EndHold ends a hold.
func (m *Map) EndHold(id HoldID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.holds, func(h hold) bool { return h.id == id })
	ended := m.holds[i].ended
	m.holds = slices.Delete(m.holds, i, i+1)
	if ended != nil {
		close(ended)
	}
}

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

// holdOf returns a channel that is closed at the end of a hold of an entry's addresses, or
// nil if there is no such hold. mu is held.
func (m *Map) holdOf(e *Entry) chan struct{} {
	for i := range m.holds {
		if h := &m.holds[i]; h.overlaps(e) {
			if h.ended == nil {
				h.ended = make(chan struct{})
			}
			return h.ended
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
