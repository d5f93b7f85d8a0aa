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
		m.known, m.written = false, nil
		return
	}
	switch a.mode {
	case writes:
		m.written = append(m.written, a.x)
	case reads:
		for i := range m.written {
			if m.written[i].hits(&a.x) {
				return // at least a part of it was written
			}
		}
		d.uninitialized(a)
	}
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
		return // too many to compare; CopyAll and race builds compare all
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
