package pin

import "errors"

// heap is the system of a device that software plays where memory shall be the Go
// heap's: under the race detector, which sees no other, and where there is no
// better.
type heap struct{}

func (heap) machine() *Machine { return Blank() }

func (heap) take(bytes, align uintptr) (*reserve, error) {
	if bytes > 1<<46 {
		return nil, errors.New("more than memory can be")
	}
	b := make([]byte, bytes+align)
	return &reserve{startOf(b, align), func() error { b = nil; return nil }}, nil
}

func (heap) advise(address, uintptr, bool)       {}
func (heap) prefer(address, uintptr, Node) error { return nil }
func (heap) there(address) bool                  { return true }
func (heap) moveTo([]int) (undo func())          { return func() {} }
