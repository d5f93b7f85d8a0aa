package softgpu

import (
	"bytes"
	"runtime"
	"strconv"
)

// goid is the number of the calling goroutine, read from the first line of its
// stack, "goroutine 7 [running]:", the only place where Go tells it.
func goid() uint64 {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		panic("BUG: no goroutine number in " + string(buf[:]))
	}
	return id
}
