package pin

import "github.com/ferrygpu/ferry/cu"

// Segment is memory that a pool has from its source.
type Segment interface {
	Start() cu.HostPtr
	Bytes() uintptr
	// Boundaries returns where one registration ends and the next begins, in bytes from
	// the start.
	Boundaries() []uintptr
	// Close gives the memory back to the source. After an error that wraps
	// cu.ErrorNotPermitted it may be called again, outside of a host function.
	Close() error
}

// segment is a Segment in a pool.
type segment struct {
	Segment
	site  string  // Source.Site when it was taken
	first *extent // the one with the lowest addresses
}
