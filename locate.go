package ferry

import "github.com/ferrygpu/ferry/cu"

// A plain slice of memory that the driver knows, as Host.Slice gives it, is no
// plain memory: the hardware would read it after Copy has returned. It is treated
// as what it is, part by part.

// isPlain says that a region is a plain slice, which may yet lie in a buffer.
func (r *region) isPlain() bool { return r != nil && r.a == nil && r.bad == nil && r.bytes > 0 }

// cut is n bytes of a region from byte off on.
func (r *region) cut(off, n uintptr) region {
	out := *r
	out.part = out.part || n != r.bytes
	if r.bytes != n {
		out.n = int(n)
	}
	out.bytes = n
	out.host = addressAt(r.host, off)
	if r.dev != 0 {
		out.dev += cu.DevicePtr(off)
	}
	return out
}

// stretch is the longest run of a region from byte off on that is of one kind: for
// a plain slice in the memory of a buffer, that of the buffer.
func (g *GPU) stretch(r *region, off uintptr) (region, error) {
	rest := r.cut(off, r.bytes-off)
	if !r.isPlain() {
		return rest, nil
	}
	start := uint64(deviceAddress(rest.host))
	end := start + uint64(rest.bytes)
	t := g.shared
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := t.within(start, end)
	if len(found) == 0 {
		return rest, nil
	}
	p := found[0]
	if p.start > start { // ordinary memory first
		return rest.cut(0, uintptr(p.start-start)), nil
	}
	a, until, lost := p.owner(start)
	switch {
	case a != nil:
		return a.at(rest.cut(0, uintptr(min(end, until)-start))), nil
	case lost:
		return region{}, refuse("%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", r)
	}
	// A buffer is being closed, or other users keep more page-locked than is theirs.
	rest = rest.cut(0, uintptr(min(end, until)-start))
	rest.settle = true
	return rest, nil
}

// owner is an open allocation with the byte at an address of the piece, the one
// that goes on longest, and its end. Without one, until is where there may be one;
// lost says that one was lost without Close. registry.mu is held.
func (p *piece) owner(at uint64) (best *allocation, until uint64, lost bool) {
	until = p.end
	for _, u := range p.users {
		a := u.a.Value()
		switch {
		case u.end <= at:
		case u.start > at:
			if best == nil {
				until = min(until, u.start)
			}
		case a == nil:
			lost = true
		case a.life.closed():
		case best == nil || u.end > until:
			best, until = a, u.end
		}
	}
	return best, until, lost
}

// at is the part of an allocation where a plain region is.
func (a *allocation) at(r region) region {
	r.a, r.age, r.part = a, a.life.generation(), true
	if a.dev != 0 {
		r.dev = a.dev + (deviceAddress(r.host) - deviceAddress(a.host))
	}
	return r
}
