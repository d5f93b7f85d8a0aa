package callsite

import "sync/atomic"

// caller tells where calls come from that a program in another language makes.
type caller struct {
	pc    func() uintptr
	place func(pc uintptr) Place
}

var callerOf atomic.Pointer[caller]

// SetCaller tells where calls come from that a program in another language makes, for a library
// that such programs load. pc returns the return address of the call that this goroutine serves, 0
// if it serves none. place returns the line of an address, and is called only when a text needs
// it. Both must be safe for concurrent use. SetCaller(nil, nil) ends that.
func SetCaller(pc func() uintptr, place func(pc uintptr) Place) {
	if pc == nil || place == nil {
		callerOf.Store(nil)
		return
	}
	callerOf.Store(&caller{pc, place})
}

// findOutside returns the number of the line that has called at pc. Without added it does not look
// for the line yet, because debug information is large: Place does. So two addresses of one line
// have two numbers then.
func (s *Finder) findOutside(c *caller, pc uintptr, added func(id int, p Place)) int {
	s.mu.RLock()
	id, ok := s.outside[pc]
	s.mu.RUnlock()
	if ok {
		return id
	}
	var p Place
	if added != nil {
		p = c.place(pc)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outside == nil {
		s.outside = map[uintptr]int{}
	}
	if id, ok = s.outside[pc]; ok {
		return id
	}
	if added != nil {
		id = s.number(p, added)
	} else {
		s.places = append(s.places, found{pc: pc})
		id = len(s.places)
	}
	s.outside[pc] = id
	return id
}

// found is a line with a number, or the address of a call whose line nobody has asked for.
type found struct {
	Place
	pc uintptr
}

// resolve returns the line with a number, and looks for it if nobody did before. The caller does not
// hold mu.
func (s *Finder) resolve(id int, f found) Place {
	c := callerOf.Load()
	if f.pc == 0 || c == nil {
		return f.Place
	}
	p := c.place(f.pc)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[id-1] = found{Place: p}
	return p
}
