package pin

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Request is what to page-lock.
type Request struct {
	Bytes  uintptr
	Flags  cu.MemHostRegisterFlags
	Node   int  // NUMA node, or AnyNode
	Strict bool // a node that does not exist is an error
	// Progress, if not nil, is called after each registration, by the goroutine that
	// called Lock.
	Progress func(done, total uintptr)
	// Count, if not nil, is called with the bytes that are registered and, negative, unregistered,
	// also long after Lock.
	Count func(bytes int)
}

// refuse returns an error if the request cannot succeed on a machine, or nil if no reason
// is known.
func (r *Request) refuse(m *Machine) *Error {
	bytes := uint64(r.Bytes)
	no := func(result cu.Result, do, why string, args ...any) *Error {
		return &Error{r.Bytes, r.Node, fmt.Sprintf(why, args...), do, result}
	}
	if e := m.Emulated; e != nil && bytes > e.Left {
		return no(cu.ErrorOutOfMemory, "take less, or emulate a machine with more", "the emulated machine %s can page-lock %s of host memory, of which %s are not page-locked",
			e.Name, refusal.Size(uintptr(e.Total)), refusal.Size(uintptr(e.Left)))
	}
	switch {
	case r.Strict && !m.has(r.Node):
		return no(cu.ErrorInvalidValue, "ask for one that is there, or none", "there is no NUMA node %d (%s)", r.Node, m.nodeList())
	case bytes > m.Group.Left:
		return no(cu.ErrorOutOfMemory, "raise that limit, or take less: the system would end the process",
			"the control group %s allows %s, of which %s are left", m.Group.Path, refusal.Size(uintptr(m.Group.Limit)), refusal.Size(uintptr(m.Group.Left)))
	case bytes > m.Available:
		return no(cu.ErrorOutOfMemory, "free some, or take less: page-locked memory cannot be swapped out", "%s of host memory are available", refusal.Size(uintptr(m.Available)))
	}
	return nil
}
