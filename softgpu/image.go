package softgpu

import (
	"regexp"
	"strconv"

	"github.com/ferrygpu/ferry/ptx"
)

var versionDirective = regexp.MustCompile(`\.version\s+(\d{1,4})\.(\d{1,4})\b`)

// versionOf is the PTX version that a text says it is of.
func versionOf(text string) (ptx.Version, bool) {
	m := versionDirective.FindStringSubmatch(text)
	if m == nil {
		return ptx.Version{}, false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return ptx.Version{Major: major, Minor: minor}, true
}

// newestPTX is the newest version that a driver compiles. A driver older than
// 12.0 is played as one that knows all there was when this was written: an old
// machine takes the same code as a new one, whatever its target.
func newestPTX(driver int) ptx.Version {
	major, minor := driver/1000, driver%1000/10
	switch {
	case major < 12:
		return ptx.Version{Major: 9, Minor: 0}
	case major > 12:
		return ptx.Version{Major: major - 4, Minor: minor}
	case minor > 5: // 12.6 came without a new version
		minor--
	}
	return ptx.Version{Major: 8, Minor: minor}
}
