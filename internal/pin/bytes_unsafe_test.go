package pin

import "unsafe"

// bytesOf returns the memory as a slice.
func bytesOf(m *Memory) []byte { return unsafe.Slice((*byte)(m.start), m.bytes) }

// far returns an address for a source without memory. Nobody touches it.
func far() address { n := uintptr(1 << 45); return *(*address)(unsafe.Pointer(&n)) }
