package check

import "fmt"

// mostWritten bounds the written ranges that are kept of one memory.
const mostWritten = 256

// trackWritten records what a copy or fill has written, and reports a copy that reads bytes
// never written. After a kernel launch it stops, because the writes of kernels are not known.
// The caller holds d.mu.
func (m *memory) trackWritten(a *access, d *Driver, launches uint64) {
	if !m.known {
		return
	}
	if launches != m.launches || a.mode == uses || len(m.written) > mostWritten {
		if launches == m.launches && a.mode != uses {
			d.gaveUp(gaveUpWritten, 1)
		}
		m.known, m.written = false, nil
		return
	}
	switch a.mode {
	case writes:
		m.addWritten(a.x)
	case reads:
		for i := range m.written {
			if m.written[i].hits(&a.x) {
				return // at least a part of it was written
			}
		}
		d.uninitialized(a)
	}
}

// addWritten adds a range that was written. It joins ranges that follow each other, as of a
// program that fills memory in parts.
func (m *memory) addWritten(x box) {
	if n := len(m.written); n > 0 {
		if last := &m.written[n-1]; last.isFlat() && x.isFlat() && last.end() == x.at {
			*last = flat(last.at, x.end()-last.at)
			return
		}
	}
	m.written = append(m.written, x)
}

// uninitialized reports a copy of device memory that nothing has written.
func (d *Driver) uninitialized(a *access) {
	f := Finding{Kind: Uninitialized, Second: d.side(a), What: "a copy reads device memory that nothing has written: its bytes can be anything"}
	d.about(&f, a.m)
	f.Mend = fmt.Sprintf("write or fill the memory before %s", f.Second.Place)
	d.report(f)
}

// listed reports copies of one list that conflict: they have no order. The caller holds mu.
func (c *call) listed() {
	if len(c.accesses) > 512 {
		c.d.gaveUp(gaveUpLists, 1) // too many to compare; CopyAll and race builds compare all
		return
	}
	for i := range c.accesses {
		a := &c.accesses[i]
		for j := range i {
			if b := &c.accesses[j]; a.m == b.m && a.mode.conflicts(b.mode) && a.x.hits(&b.x) {
				op := &operation{call: c.name, site: c.site, lane: c.lane}
				x, y := *b, *a
				x.op, y.op = op, op
				f := Finding{Kind: List, What: "copies of one list use the same bytes, and have no order", First: c.d.side(&x), Second: c.d.side(&y), Mend: "make one of the copies in a call of its own"}
				c.d.about(&f, a.m)
				c.pending = append(c.pending, f)
				return
			}
		}
	}
}
