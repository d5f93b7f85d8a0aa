package room

import (
	"io/fs"
	"path"
	"strings"
)

// Directory is the directory of a control group.
type Directory struct {
	Name  string // such as "sys/fs/cgroup/user.slice", without a slash at the beginning
	Group string // such as "/user.slice"; in a container the visible part of it
	Old   bool   // of version 1
	Above bool   // of a group above the process's own
}

// hierarchy is where the groups of one version and controller are.
type hierarchy struct {
	top  string // the directory of the root, or of the group at which a container begins
	root string // the path of the group that top shows
	old  bool
}

// Directories returns the directories of the process's control group for a controller, such
// as "memory", and of all groups above it. Not all of them need exist: a container often
// sees its own group at the top, under the path that the group has outside.
func Directories(root fs.FS, controller string) (all []Directory) {
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		// "0::/path" in version 2, "4:memory:/path" or "4:cpu,cpuacct:/path" in version 1.
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			all = append(all, mounted(root, "").above(f[2])...)
		case has(f[1], controller):
			all = append(all, mounted(root, controller).above(f[2])...)
		}
	}
	return all
}

// has reports whether a list such as "rw,cpu,cpuacct" has a word.
func has(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// mounted returns where a controller of version 1 is mounted, or version 2 for "". Where the
// system does not say, it is the usual place.
func mounted(root fs.FS, controller string) hierarchy {
	h := hierarchy{"sys/fs/cgroup", "/", false}
	if controller != "" {
		h = hierarchy{path.Join(h.top, controller), "/", true}
	}
	for line := range strings.Lines(text(root, "proc/self/mountinfo")) {
		// 35 31 0:32 ROOT PLACE rw,relatime shared:1 - cgroup cgroup rw,memory
		before, after, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(kind) < 3 || !strings.HasPrefix(f[4], "/") {
			continue
		}
		if kind[0] == "cgroup2" && controller == "" || kind[0] == "cgroup" && controller != "" && has(kind[2], controller) {
			h.top, h.root = strings.TrimPrefix(path.Clean(f[4]), "/"), path.Clean("/"+f[3])
			break
		}
	}
	return h
}

// above returns the directories of a group and of all groups above it that are visible.
func (h hierarchy) above(group string) (all []Directory) {
	group = path.Clean("/" + group)
	if rest, below := strings.CutPrefix(group, h.root); below && h.root != "/" && (rest == "" || rest[0] == '/') {
		group = path.Clean("/" + rest)
	}
	for at := group; ; at = path.Dir(at) {
		if name := path.Join(h.top, at); fs.ValidPath(name) {
			all = append(all, Directory{name, at, h.old, at != group})
		}
		if at == "/" {
			return all
		}
	}
}
