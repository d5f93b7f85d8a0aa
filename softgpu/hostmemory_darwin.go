package softgpu

import (
	"math"
	"sync"
	"syscall"
)

// hostMemory returns the machine's memory.
var hostMemory = sync.OnceValue(func() uint64 {
	text, err := syscall.Sysctl("hw.memsize") // 8 bytes, little-endian, without a last zero
	if err != nil {
		return math.MaxInt64
	}
	var n uint64
	for i := range min(len(text), 8) {
		n |= uint64(text[i]) << (8 * i)
	}
	return n
})
