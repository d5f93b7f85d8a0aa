//go:build !linux && !darwin

package softgpu

import (
	"math"
	"runtime"
)

// hostMemory returns no limit, because the amount is not known: the system
// refuses what it cannot give. A web page has less than the 4 GiB that it can
// address.
func hostMemory() uint64 {
	if runtime.GOARCH == "wasm" {
		return 1 << 30
	}
	return math.MaxInt64
}
