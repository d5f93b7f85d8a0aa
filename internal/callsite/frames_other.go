//go:build !amd64 && !arm64

package callsite

import (
	"bytes"
	"runtime"
	"strconv"
)

// framePointers returns 0: functions have no frame pointers here.
func framePointers(*[maxDepth]uintptr) int { return 0 }

// goroutine returns the number of the calling goroutine, from the first line of its stack.
func goroutine() uintptr {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return uintptr(id)
}
