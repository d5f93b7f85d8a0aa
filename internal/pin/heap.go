package pin

import "errors"

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
