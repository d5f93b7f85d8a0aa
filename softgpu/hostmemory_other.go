//go:build !linux && !darwin

package softgpu

import (
	"math"
	"runtime"
)

// hostMemory is how much memory there is: not known, so that the system itself
// refuses; a web page has less than the 4 GiB that it can address.
func hostMemory() uint64 {
	if runtime.GOARCH == "wasm" {
		return 1 << 30
	}
	return math.MaxInt64
}
