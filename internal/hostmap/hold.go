package hostmap

import "slices"

// HoldID identifies a hold of addresses. The zero HoldID is none.
type HoldID uint64

// hold is a range of addresses that must not be unregistered.
type hold struct {
	id         HoldID
	start, end uint64
	ended      chan struct{} // closed by EndHold if a Release waits for it
}

// Hold keeps a range from being unregistered until EndHold. It waits while an entry in the
// range is being unregistered, unless mayWait returns an error. A registration does not
// wait for a hold: so the caller must ask Known before it ends the hold. Holds may overlap.
func (m *Map) Hold(start, end uint64, mayWait func() error) (HoldID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.releasing(start, end); e != nil; e = m.releasing(start, end) {
		if err := m.waitUnlocked(e.change, mayWait); err != nil {
			return 0, err
		}
	}
	m.lastHold++
	m.holds = append(m.holds, hold{id: m.lastHold, start: start, end: end})
	return m.lastHold, nil
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

// releasing returns an entry in a range that is being unregistered, or nil. mu is held.
func (m *Map) releasing(start, end uint64) *Entry {
	for _, e := range m.within(start, end) {
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
		if h := &m.holds[i]; h.start < e.End && e.Start < h.end {
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
