package simt

// Touch is what an access does with memory, as the race detector should see it.
type Touch uint8

const (
	Read    Touch = iota
	Write         // of nothing but the bytes
	Acquire       // a read that orders what follows: volatile, relaxed, acquire
	Release       // a write that orders what was before: volatile, relaxed, release
	Atomic        // both at once
)

// Watch is told of the accesses of a launch to one segment, each before it
// happens but for Acquire. off counts from the segment's first byte.
type Watch interface {
	Touch(how Touch, off, n uint64)
}

// touch is what m does.
func (m *access) touch() Touch {
	switch {
	case m.atomic:
		return Atomic
	case m.strong && m.write:
		return Release
	case m.strong:
		return Acquire
	case m.write:
		return Write
	}
	return Read
}

// watch tells of one lane's access to n bytes at addr.
func (r *segRef) watch(addr, n uint64, m *access) {
	if r.pages.Watch != nil {
		r.pages.Watch.Touch(m.touch(), addr-r.base, n)
	}
}

// watchRun tells of an access of n lanes from lo up that are stride apart.
func (r *segRef) watchRun(m *access, lo, stride, extent uint64, n int) {
	if r.pages.Watch == nil {
		return
	}
	if how := m.touch(); stride <= m.bytes && how <= Write {
		r.pages.Watch.Touch(how, lo-r.base, extent)
		return
	}
	if stride == 0 {
		n = 1
	}
	for i := range uint64(n) {
		r.watch(lo+i*stride, m.bytes, m)
	}
}
