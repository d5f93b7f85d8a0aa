//go:build unix

package hostile

import (
	"syscall"
	"time"
)

var start = time.Now()

// processorTime returns how long processors have worked for the process. Other programs
// do not lengthen it.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return time.Since(start) // as other systems
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
