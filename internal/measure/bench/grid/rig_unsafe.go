package grid

import (
	"fmt"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Pointers come from the driver with the length of the allocation, or from slices
// that the rig keeps.

// bytesOf returns n bytes of host memory as a slice.
func bytesOf(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// pointer returns the pointer to a slice's memory.
func pointer(b []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(b)) }

// addressOf returns the address of a slice's memory.
func addressOf(b []byte) uint64 { return uint64(uintptr(pointer(b))) }

// hostView returns managed memory as a slice. It has the same address on host and device.
func hostView(p cu.DevicePtr, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)
}

// pack packs the parameters of a launch.
func pack(words ...any) []byte {
	var out []byte
	for _, w := range words {
		switch w := w.(type) {
		case cu.DevicePtr:
			out = appendWord(out, uint64(w), 8)
		case uint64:
			out = appendWord(out, w, 8)
		case uint32:
			out = appendWord(out, uint64(w), 4)
		case float32:
			out = appendWord(out, uint64(*(*uint32)(unsafe.Pointer(&w))), 4)
		default:
			panic(fmt.Sprintf("BUG: a parameter of type %T", w))
		}
	}
	return out
}

// appendWord aligns b to size and appends a word of size bytes.
func appendWord(b []byte, v uint64, size int) []byte {
	for len(b)%size != 0 {
		b = append(b, 0)
	}
	for range size {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}
