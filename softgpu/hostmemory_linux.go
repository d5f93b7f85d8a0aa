package softgpu

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// hostMemory is how much memory this process may use at most: the machine's, or
// less in a control group.
var hostMemory = sync.OnceValue(func() uint64 {
	limit := uint64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		_, rest, _ := bytes.Cut(text, []byte("MemTotal:"))
		if fields := bytes.Fields(rest); len(fields) > 0 {
			if kib, err := strconv.ParseUint(string(fields[0]), 10, 64); err == nil {
				limit = kib << 10
			}
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return limit
})
