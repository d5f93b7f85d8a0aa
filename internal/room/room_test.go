package room

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

// files returns a file system of texts.
func files(texts map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range texts {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

const (
	v2 = "sys/fs/cgroup/"
	v1 = "sys/fs/cgroup/memory/"
)

// stat returns a memory.stat of version 2, as Linux writes one. Each value differs from all
// others, so that a field that is taken for another changes the result.
func stat(prefix string) string {
	var b strings.Builder
	for i, name := range []string{"anon", "file", "shmem", "file_mapped", "file_dirty", "file_writeback", "dirty", "writeback",
		"inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable", "slab_reclaimable", "slab_unreclaimable"} {
		fmt.Fprintf(&b, "%s%s %d\n", prefix, name, 1<<i)
	}
	return b.String()
}

// TestGroup: the group that leaves the least is found, in both versions. Page cache counts
// as left, however often it was read; dirty pages and pages being written do not.
func TestGroup(t *testing.T) {
	const cleanV2 = 1<<10 + 1<<11 - 1<<4 - 1<<5
	const cleanV1 = 1<<10 + 1<<11 - 1<<6 - 1<<7
	for name, c := range map[string]struct {
		files map[string]string
		want  Group
	}{
		"version 2, the group above leaves less": {map[string]string{
			"proc/self/cgroup":        "0::/a/b\n",
			v2 + "a/b/memory.max":     "1000\n",
			v2 + "a/b/memory.current": "100\n",
			v2 + "a/memory.max":       "800\n",
			v2 + "a/memory.current":   "300\n",
			v2 + "a/memory.stat":      "anon 5\ninactive_file 50\n",
		}, Group{"/a", 800, 550}},
		"version 2, a file that was read twice": {map[string]string{
			"proc/self/cgroup":      "0::/a\n",
			v2 + "a/memory.max":     "10000\n",
			v2 + "a/memory.current": "9999\n",
			v2 + "a/memory.stat":    stat(""),
		}, Group{"/a", 10000, 1 + cleanV2}},
		"version 2, three groups deep": {map[string]string{
			"proc/self/cgroup":                                      "0::/system.slice/slurmd.service/job_7\n",
			v2 + "memory.max":                                       "9000\n",
			v2 + "memory.current":                                   "10\n",
			v2 + "system.slice/memory.max":                          "max\n",
			v2 + "system.slice/slurmd.service/memory.max":           "700\n",
			v2 + "system.slice/slurmd.service/memory.current":       "690\n",
			v2 + "system.slice/slurmd.service/job_7/memory.max":     "100\n",
			v2 + "system.slice/slurmd.service/job_7/memory.current": "50\n",
		}, Group{"/system.slice/slurmd.service", 700, 10}},
		"version 2, no limit": {map[string]string{
			"proc/self/cgroup": "0::/a\n", v2 + "a/memory.max": "max\n", v2 + "a/memory.current": "100\n",
		}, Group{"", Unknown, Unknown}},
		"version 2, a limit whose use is unknown": {map[string]string{
			"proc/self/cgroup": "0::/a\n", v2 + "a/memory.max": "77\n",
		}, Group{"/a", 77, 77}},
		"in a container, where only the top is visible": {map[string]string{
			"proc/self/cgroup": "0::/docker/1234\n", v2 + "memory.max": "500\n", v2 + "memory.current": "600\n",
		}, Group{"/", 500, 0}},
		"a group inside a container": {map[string]string{
			"proc/self/cgroup":           "4:memory:/docker/1234/job\n",
			"proc/self/mountinfo":        "26 1 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n35 26 0:32 /docker/1234 /sys/fs/cgroup/memory ro,relatime shared:1 - cgroup cgroup rw,memory\n",
			v1 + "memory.limit_in_bytes": "5000\n", v1 + "memory.usage_in_bytes": "1000\n",
			v1 + "job/memory.limit_in_bytes": "400\n", v1 + "job/memory.usage_in_bytes": "100\n",
		}, Group{"/job", 400, 300}},
		"mounted elsewhere": {map[string]string{
			"proc/self/cgroup":            "0::/a\n",
			"proc/self/mountinfo":         "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n",
			"cg/unified/a/memory.max":     "40\n",
			"cg/unified/a/memory.current": "10\n",
		}, Group{"/a", 40, 30}},
		"version 1": {map[string]string{
			"proc/self/cgroup":             "5:cpu,memory:/x\n4:devices:/x\n",
			v1 + "x/memory.limit_in_bytes": "4096\n",
			v1 + "x/memory.usage_in_bytes": "1024\n",
			v1 + "x/memory.stat":           "inactive_file 1000\ntotal_inactive_file 24\n",
			v1 + "memory.limit_in_bytes":   "9223372036854771712\n",
			v1 + "memory.usage_in_bytes":   "9999999\n",
		}, Group{"/x", 4096, 3096}},
		"version 1, Slurm: the job's limit binds the step": {map[string]string{
			"proc/self/cgroup": "7:memory:/slurm/uid_5/job_9/step_0/task_0\n0::/init.scope\n",
			v1 + "slurm/uid_5/job_9/step_0/task_0/memory.limit_in_bytes": "9223372036854771712\n",
			v1 + "slurm/uid_5/job_9/step_0/task_0/memory.usage_in_bytes": "3000\n",
			v1 + "slurm/uid_5/job_9/memory.limit_in_bytes":               "20000\n",
			v1 + "slurm/uid_5/job_9/memory.usage_in_bytes":               "19000\n",
			v1 + "slurm/uid_5/job_9/memory.stat":                         stat("total_"),
			v1 + "slurm/uid_5/memory.limit_in_bytes":                     "90000\n",
			v1 + "slurm/uid_5/memory.usage_in_bytes":                     "19000\n",
		}, Group{"/slurm/uid_5/job_9", 20000, 1000 + cleanV1}},
		"version 1, a group above that a container hides": {map[string]string{
			"proc/self/cgroup":           "7:memory:/docker/1234\n",
			v1 + "memory.limit_in_bytes": "9223372036854771712\n",
			v1 + "memory.usage_in_bytes": "100\n",
			v1 + "memory.stat":           "hierarchical_memory_limit 2000\ntotal_active_file 60\n",
		}, Group{"/", 2000, 1960}},
		"version 1, a group above that does not count those below": {map[string]string{
			"proc/self/cgroup":               "7:memory:/a/b\n",
			v1 + "a/memory.limit_in_bytes":   "10\n",
			v1 + "a/memory.use_hierarchy":    "0\n",
			v1 + "a/b/memory.limit_in_bytes": "500\n",
			v1 + "a/b/memory.usage_in_bytes": "100\n",
			v1 + "a/b/memory.use_hierarchy":  "0\n",
		}, Group{"/a/b", 500, 400}},
	} {
		if got := Read(files(c.files)).Group; got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestMemory: what is free is the less of the machine's memory and the group's, and so is
// what there is at most, for which the group with the least limit counts.
func TestMemory(t *testing.T) {
	m := Read(files(map[string]string{
		"proc/meminfo":            "MemTotal:       100 kB\nMemFree:   1 kB\nMemAvailable:   64 kB\n",
		"proc/self/cgroup":        "0::/a/b\n",
		v2 + "a/memory.max":       "90000\n",
		v2 + "a/memory.current":   "80000\n",
		v2 + "a/b/memory.max":     "50000\n",
		v2 + "a/b/memory.current": "10\n",
	}))
	if m.Free() != 10000 || m.Most() != 50000 || m.Total != 100<<10 || m.Available != 64<<10 {
		t.Errorf("got %+v, of which %d free, at most %d", m, m.Free(), m.Most())
	}
	m = Read(files(map[string]string{"proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 64 kB\n"}))
	if m.Free() != 64<<10 || m.Most() != 100<<10 {
		t.Errorf("without groups: got %+v", m)
	}
	if m = Read(files(nil)); m != Nothing() || m.Free() != Unknown || m.Most() != Unknown {
		t.Errorf("without files: got %+v", m)
	}
}

// TestHostileFiles puts nonsense into each file. Nothing panics, no more is left than the
// limit, and no limit appears from nothing.
func TestHostileFiles(t *testing.T) {
	tree := func() map[string]string {
		return map[string]string{
			"proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 64 kB\n", "proc/self/cgroup": "4:memory:/x\n0::/y\n",
			"proc/self/mountinfo":          "35 26 0:32 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			v1 + "x/memory.limit_in_bytes": "4096\n", v1 + "x/memory.usage_in_bytes": "1024\n", v1 + "x/memory.stat": stat("total_"),
			v2 + "y/memory.max": "5000\n", v2 + "y/memory.current": "100\n", v2 + "y/memory.stat": stat(""),
		}
	}
	huge := fmt.Sprint(uint64(math.MaxUint64))
	for name := range tree() {
		for _, spoil := range []string{"", "\x00\xff", "-1", huge, huge + "0", "0x10", ":::", "0::/../../../../etc", "4:memory:../..\n", " - cgroup2", "1 2 3 / relative rw - cgroup2 c rw",
			"1 2 3 /y /../.. rw - cgroup2 c rw", "inactive_file " + huge + "\nactive_file " + huge + "\n", "total_active_file " + huge + "\ntotal_dirty " + huge,
			"MemAvailable: " + huge + " kB", "hierarchical_memory_limit x", strings.Repeat("9 ", 1<<20)} {
			texts := tree()
			texts[name] = spoil
			m := Read(files(texts))
			if m.Group.Left > m.Group.Limit || m.Limit < 3 || m.Free() > m.Available {
				t.Errorf("%s = %.40q: got %+v", name, spoil, m)
			}
		}
	}
}
