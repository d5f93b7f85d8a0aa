package compile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// arch is an architecture: 90 and "a" for sm_90a.
type arch struct {
	number int
	suffix string
}

func (a arch) String() string { return "sm_" + strconv.Itoa(a.number) + a.suffix }

// archForm matches the names of architectures that are accepted.
var archForm = regexp.MustCompile(`^(?:sm_|compute_)?([1-9]\d{1,3})([af]?)$`)

// capabilityForm matches a compute capability such as 8.0.
var capabilityForm = regexp.MustCompile(`^([1-9]\d?)\.(\d)([af]?)$`)

// parseArch parses the name of an architecture. The empty name is [DefaultArch].
func parseArch(name string) (arch, error) {
	text := strings.ToLower(strings.TrimSpace(name))
	if text == "" {
		text = DefaultArch
	}
	m := archForm.FindStringSubmatch(text)
	if c := capabilityForm.FindStringSubmatch(text); c != nil {
		m = []string{"", c[1] + c[2], c[3]}
	}
	if m == nil {
		return arch{}, &ArchError{Arch: name, Nearest: DefaultArch}
	}
	n, _ := strconv.Atoi(m[1])
	return arch{n, m[2]}, nil
}

// ArchError says that a compiler does not know an architecture.
type ArchError struct {
	Arch     string
	Compiler string // "clang 19.1.7"; empty if Arch is no name of an architecture
	Nearest  string // the nearest architecture that works
}

func (e *ArchError) Error() string {
	if e == nil {
		return "no error"
	}
	if e.Compiler == "" {
		return fmt.Sprintf("architecture %q: want a name such as sm_80, 80, 8.0 or compute_80; use %s", e.Arch, e.Nearest)
	}
	return fmt.Sprintf("architecture %s: %s cannot compile for it; the nearest that works is %s", e.Arch, e.Compiler, e.Nearest)
}

// checkArch returns an [*ArchError] if the compiler does not know the architecture.
func checkArch(a arch, c compiler) error {
	known := c.archs()
	for _, k := range known {
		if k == a {
			return nil
		}
	}
	return &ArchError{Arch: a.String(), Compiler: c.name(), Nearest: nearest(a, known).String()}
}

// nearest returns the newest architecture that is not newer than a, because GPUs run the
// PTX of older ones. If there is none, it returns the oldest. Architectures with a suffix
// do not count: only one generation of GPUs runs their PTX.
func nearest(a arch, known []arch) arch {
	var below, lowest arch
	for _, k := range known {
		if k.suffix != "" {
			continue
		}
		if k.number <= a.number && k.number > below.number {
			below = k
		}
		if lowest.number == 0 || k.number < lowest.number {
			lowest = k
		}
	}
	if below.number > 0 {
		return below
	}
	return lowest
}

// basePTX is the lowest PTX version that is asked for, times ten. Drivers since CUDA 11.3
// accept it, the oldest that Ferry works with. Inline assembly can use its instructions.
const basePTX = 73

// archPTX has the lowest PTX version for each architecture that needs a newer one than
// basePTX, times ten (PTX ISA, release notes).
var archPTX = map[int]int{
	87: 74, 88: 90, 89: 78, 90: 78,
	100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88,
}

// lowestPTX returns the lowest PTX version for an architecture, times ten. The second
// result is false if it is not known.
func lowestPTX(a arch) (version int, known bool) {
	version, listed := archPTX[a.number]
	switch {
	case !listed && a.number <= 86:
		return basePTX, true
	case !listed:
		return 0, false
	case a.suffix == "a" && a.number == 90:
		return 80, true
	case a.suffix == "f":
		return max(version, 88), true
	}
	return version, true
}
