package pin

import "unsafe"

// bytesOf is the memory as a slice.
func bytesOf(m *Memory) []byte { return unsafe.Slice((*byte)(m.start), m.bytes) }
