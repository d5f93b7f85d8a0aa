//go:build !linux

package workload

import "time"

// CPUTime returns 0: it is known on Linux only.
func CPUTime() time.Duration { return 0 }
