package softgpu

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// hugePages says whether all of [base, end) has huge pages behind it on this
// computer now.
func hugePages(base, end uint64) bool {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return false
	}
	within := false
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		if low, high, ok := strings.Cut(fields[0], "-"); ok {
			from, err1 := strconv.ParseUint(low, 16, 64)
			to, err2 := strconv.ParseUint(high, 16, 64)
			within = err1 == nil && err2 == nil && from <= base && end <= to
		}
		if within && fields[0] == "AnonHugePages:" && len(fields) > 1 {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			return err == nil && kib<<10 >= end-base
		}
	}
	return false
}
