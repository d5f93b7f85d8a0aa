package room

import (
	"io"
	"io/fs"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Unknown stands for a number of bytes that the machine does not report, or for no limit.
const Unknown = math.MaxUint64

// Memory is the host memory of a machine as one process sees it.
type Memory struct {
	Total     uint64 // bytes that the machine has
	Available uint64 // bytes that it can give without swapping
	Limit     uint64 // the least limit of the control group and of those above it
	Group     Group  // the control group that leaves the least
}

// Free returns how many bytes the process can take now, or Unknown.
func (m Memory) Free() uint64 { return min(m.Available, m.Group.Left) }

// Most returns how many bytes the process can have at most, or Unknown.
func (m Memory) Most() uint64 { return min(m.Total, m.Limit) }

// Group is a control group that limits memory.
type Group struct {
	Path        string
	Limit, Left uint64 // bytes; page cache that can be reclaimed at once counts as left
}

// Nothing returns a memory of which nothing is known, and that has no limits.
func Nothing() Memory {
	return Memory{Unknown, Unknown, Unknown, Group{Limit: Unknown, Left: Unknown}}
}

// Read reads /proc and /sys of Linux, in a file system that starts at its root. Values that
// it does not find stay unknown.
func Read(root fs.FS) Memory {
	m := Nothing()
	info := text(root, "proc/meminfo")
	m.Total, m.Available = kib(info, "MemTotal:"), kib(info, "MemAvailable:")
	for _, dir := range Directories(root, "memory") {
		g, known := readGroup(root, dir)
		if !known {
			continue
		}
		m.Limit = min(m.Limit, g.Limit)
		if g.Left < m.Group.Left {
			m.Group = g
		}
	}
	return m
}

// names are the files and fields in which a version of control groups keeps its numbers.
type names struct {
	limit, used string
	prefix      string // of the fields of memory.stat that count the groups below, too
	dirty       string
	writeback   string
}

var (
	namesV2 = names{"memory.max", "memory.current", "", "file_dirty", "file_writeback"}
	namesV1 = names{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_", "dirty", "writeback"}
)

// noLimitV1 is the least number that means no limit in version 1, which has no word for it.
const noLimitV1 = 1 << 60

// readGroup reads the numbers of one group. It returns false if the group has no limit.
func readGroup(root fs.FS, dir Directory) (Group, bool) {
	n := namesV2
	if dir.Old {
		n = namesV1
		if dir.Above && number(root, dir.Name+"/memory.use_hierarchy") == 0 {
			return Group{}, false // it does not count the groups below
		}
	}
	g := Group{Path: dir.Group, Limit: number(root, dir.Name+"/"+n.limit), Left: Unknown}
	stat := text(root, dir.Name+"/memory.stat")
	if dir.Old {
		// The least limit of the groups above counts them where a container hides them.
		g.Limit = min(g.Limit, field(stat, "hierarchical_memory_limit"))
	}
	if g.Limit >= noLimitV1 {
		return g, false
	}
	used := number(root, dir.Name+"/"+n.used)
	if used == Unknown {
		used = 0 // the limit still holds
	}
	used -= min(used, n.reclaimable(stat))
	g.Left = g.Limit - min(g.Limit, used)
	return g, true
}

// reclaimable returns the bytes that the system can take back from a group at once: files
// in the page cache, used once (inactive) or more often (active). Both lists leave out
// shared memory and what is unevictable. Dirty pages must be written first, so they do not
// count.
func (n names) reclaimable(stat string) uint64 {
	have := func(name string) uint64 {
		if v := field(stat, n.prefix+name); v != Unknown {
			return v
		}
		return 0
	}
	cache := add(have("active_file"), have("inactive_file"))
	return cache - min(cache, add(have(n.dirty), have(n.writeback)))
}

// add returns a sum that stays at the largest number.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return Unknown
	}
	return sum
}

// maxText is how much of a file is read at most. Files of sysfs and procfs are small.
const maxText = 1 << 20

// text returns a file, or "" if it cannot be read.
func text(root fs.FS, name string) string {
	file, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxText))
	if err != nil {
		return ""
	}
	return string(b)
}

// number reads the number in a file. It is Unknown for "max" and without the file.
func number(root fs.FS, name string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text(root, name)), 10, 64)
	if err != nil {
		return Unknown
	}
	return n
}

// kib returns the number after a name, as in "MemAvailable:   123 kB", in bytes.
func kib(text, name string) uint64 {
	n := field(text, name)
	if n > math.MaxUint64>>10 {
		return Unknown
	}
	return n << 10
}

// field returns the number after a name at the start of a line, and Unknown without one.
func field(text, name string) uint64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return Unknown
}
