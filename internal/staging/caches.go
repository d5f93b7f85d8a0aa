package staging

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

// caches are the sizes of a processor's data caches in bytes.
type caches struct {
	core int // level 2, which a core has for itself
	last int // the last level, which the cores share
}

// hostCaches returns the caches of this machine, and common sizes where the system does
// not report them.
var hostCaches = sync.OnceValue(func() caches {
	return readCaches(os.DirFS("/sys/devices/system/cpu/cpu0/cache"))
})

// readCaches reads what Linux reports about the caches of one processor.
func readCaches(dir fs.FS) caches {
	c := caches{core: 1 << 20, last: 32 << 20}
	indexes, _ := fs.Glob(dir, "index*")
	lastLevel := 0
	for _, index := range indexes {
		level, err := strconv.Atoi(readLine(dir, path.Join(index, "level")))
		kibibytes, bad := strconv.Atoi(strings.TrimSuffix(readLine(dir, path.Join(index, "size")), "K"))
		kind := readLine(dir, path.Join(index, "type"))
		if err != nil || bad != nil || kibibytes <= 0 || kind == "Instruction" {
			continue
		}
		if level == 2 {
			c.core = kibibytes << 10
		}
		if level >= 2 && level > lastLevel {
			c.last, lastLevel = kibibytes<<10, level
		}
	}
	return c
}

func readLine(dir fs.FS, name string) string {
	text, _ := fs.ReadFile(dir, name)
	return strings.TrimSpace(string(text))
}
