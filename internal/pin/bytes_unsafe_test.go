package pin

import "unsafe"

// bytesOf is the memory as a slice.
func bytesOf(m *Memory) []byte { return unsafe.Slice((*byte)(m.start), m.bytes) }

// far is an address for a source that has no memory: nobody touches it.
func far() address { n := uintptr(1 << 45); return *(*address)(unsafe.Pointer(&n)) }
