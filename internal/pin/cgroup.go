package pin

import (
	"io/fs"
	"path"
	"strings"
)

// Group is the control group that leaves the least memory to a process.
type Group struct {
	Path        string
	Limit, Left uint64 // bytes; caches that the system can reclaim count as left
}

// hierarchy names the files in which a version of control groups keeps its numbers.
type hierarchy struct {
	top, limit, used, cache string
}

var (
	groupsV2 = hierarchy{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
	groupsV1 = hierarchy{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
)

// unlimitedV1 is the limit of version 1 from which on there is none: that version has no
// word for no limit.
const unlimitedV1 = 1 << 62

// readGroup finds the group of the process, or the one above it, that leaves the least.
func readGroup(root fs.FS) Group {
	least := Group{Limit: Unknown, Left: Unknown}
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			least = groupsV2.least(root, f[2], least)
		case strings.Contains(","+f[1]+",", ",memory,"):
			least = groupsV1.least(root, f[2], least)
		}
	}
	return least
}

// least reads a group and all groups above it. In a container the path may be the one on
// the host, of which only the top is visible.
func (h hierarchy) least(root fs.FS, group string, least Group) Group {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if g := h.read(root, at); g.Left < least.Left {
			least = g
		}
		if at == "/" {
			return least
		}
	}
}

// read reads the numbers of one group.
func (h hierarchy) read(root fs.FS, group string) Group {
	dir := path.Join(h.top, group)
	g := Group{Path: group, Limit: readNumber(root, path.Join(dir, h.limit)), Left: Unknown}
	if g.Limit >= unlimitedV1 {
		return g
	}
	used := readNumber(root, path.Join(dir, h.used))
	if used == Unknown {
		return g
	}
	if cache := field(readText(root, path.Join(dir, "memory.stat")), h.cache); cache != Unknown {
		used -= min(used, cache)
	}
	g.Left = g.Limit - min(g.Limit, used)
	return g
}
