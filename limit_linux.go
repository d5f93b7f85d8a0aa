package ferry

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// rlimitMemlock is RLIMIT_MEMLOCK on the architectures that CUDA knows.
const rlimitMemlock = 8

// lockedMemoryLimit is how many bytes the process may lock; false for no limit.
func lockedMemoryLimit() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &limit); err != nil || limit.Cur == ^uint64(0) {
		return 0, false
	}
	return limit.Cur, true
}

// availableMemory is the bytes that the system could hand out without swapping.
func availableMemory() (uint64, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
