//go:build unix

package serve

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of the process, of users and of the system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
