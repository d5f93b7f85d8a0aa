package load

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// resources are counters of this process.
type resources struct {
	disk  int64 // bytes that came from disks
	known bool  // disk is known
	cpu   time.Duration
}

// resourcesNow reads the counters.
func resourcesNow() (r resources) {
	if text, err := os.ReadFile("/proc/self/io"); err == nil {
		for line := range strings.Lines(string(text)) {
			if digits, ok := strings.CutPrefix(line, "read_bytes:"); ok {
				r.disk, err = strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
				r.known = err == nil
			}
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.cpu = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return r
}
