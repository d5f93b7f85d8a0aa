package ferry

// Synchronous says whether [Copy] of src to dst on the stream would wait: it does
// where plain memory takes part, which is read or written before Copy returns,
// and from host memory to host memory, page-locked or not, which drivers do at
// once. Otherwise Copy only queues, as all other operations do. Synchronous itself
// queues nothing and waits for nothing. Of what cannot be copied it is false.
//
// docs/ASYNC.md has the table of all calls.
func Synchronous[T any](s *Stream, dst, src Memory[T]) bool {
	to, from := regionOf(dst), regionOf(src)
	if s == nil || s.q == nil || to.check() != nil || from.check() != nil || to.n != from.n {
		return false
	}
	for off := uintptr(0); off < to.bytes; {
		t, err := s.q.g.stretch(to, off)
		if err != nil {
			return false
		}
		f, err := s.q.g.stretch(from, off)
		if err != nil {
			return false
		}
		if t.kind() == plainMemory || f.kind() == plainMemory || t.kind().onHost() && f.kind().onHost() {
			return true
		}
		off += min(t.bytes, f.bytes)
	}
	return false
}
