package pin

import "errors"

// system is what an engine needs of the operating system. Tests have another one.
type system interface {
	// machine returns what the machine has now.
	machine() *Machine
	// reserve takes addresses for a number of bytes, at a multiple of align. They have no
	// memory until they are touched.
	reserve(bytes, align uintptr) (*reservation, error)
	// advise asks for huge pages or for small ones.
	advise(p address, bytes uintptr, huge bool)
	// prefer asks that pages that are not touched yet be on a node, if that has memory.
	prefer(p address, bytes uintptr, node Node) error
	// resident reports whether the page at p has memory.
	resident(p address) bool
	// runOn binds the calling goroutine to processors until undo.
	runOn(cpus []int) (undo func())
}

// reservation is a range of addresses from the system.
type reservation struct {
	start   address
	release func() error
}

// heap is a system that takes memory from the Go heap, for a device that is emulated. It
// serves under the race detector, which sees no other memory, and where hostSystem has
// nothing.
type heap struct{}

func (heap) machine() *Machine { return UnknownMachine() }

func (heap) reserve(bytes, align uintptr) (*reservation, error) {
	if bytes > maxBlock {
		return nil, errors.New("more than memory can be")
	}
	b := make([]byte, bytes+align)
	return &reservation{startOf(b, align), func() error { b = nil; return nil }}, nil
}

func (heap) advise(address, uintptr, bool)       {}
func (heap) prefer(address, uintptr, Node) error { return nil }
func (heap) resident(address) bool               { return true }
func (heap) runOn([]int) (undo func())           { return func() {} }
