package softgpu

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// tellsMappings: what mappingAt does not find is not there.
const tellsMappings = true

// mappingAt is the mapping of this process that holds addr, if it can be read.
// What the system keeps for itself, [vvar] and its like, is left out.
func mappingAt(addr uint64) (mapping, bool) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return mapping{}, false
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		base, err1 := strconv.ParseUint(low, 16, 64)
		end, err2 := strconv.ParseUint(high, 16, 64)
		if err1 != nil || err2 != nil || addr < base || addr >= end {
			continue
		}
		if len(fields) > 5 && strings.HasPrefix(fields[5], "[v") || fields[1][0] != 'r' {
			return mapping{}, false
		}
		return mapping{base, end, strings.Contains(fields[1], "w")}, true
	}
	return mapping{}, false
}
