//go:build !race

package softgpu

import (
	"sync/atomic"
	"unsafe"
)

// Unsafe: The word has 4 or 8 bytes and is aligned: the caller has checked both.

// loadWord reads a word of 4 or 8 bytes, in one load. The word is aligned.
func loadWord(word []byte) uint64 {
	p := unsafe.Pointer(unsafe.SliceData(word))
	if len(word) == 4 {
		return uint64(atomic.LoadUint32((*uint32)(p)))
	}
	return atomic.LoadUint64((*uint64)(p))
}

// storeWord writes the value to a word of 4 or 8 bytes, in one store. The word is
// aligned.
func storeWord(word []byte, value uint64) {
	p := unsafe.Pointer(unsafe.SliceData(word))
	if len(word) == 4 {
		atomic.StoreUint32((*uint32)(p), uint32(value))
		return
	}
	atomic.StoreUint64((*uint64)(p), value)
}
