package pin

import (
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// AnyNode is no particular NUMA node.
const AnyNode = -1

// Unknown is a number of bytes that a machine does not tell, or no limit.
const Unknown = math.MaxUint64

// Machine is what the operating system says that matters for page-locking. It is
// read anew for each request, as what is free changes.
type Machine struct {
	Available uint64 // bytes that can be had without swapping
	Group     Group  // the control group of the process
	Huge      bool   // a program may ask for huge pages
	HugeBytes uint64 // size of one
	Nodes     []Node
}

// Node is a NUMA node.
type Node struct {
	ID   int
	CPUs []int
}

// Group is the control group that leaves the least memory to a process.
type Group struct {
	Path        string
	Limit, Left uint64 // bytes; reclaimable caches count as left
}

// defaultHuge is the size of a huge page where the system does not say.
const defaultHuge = 2 << 20

// Blank is a machine of which nothing is known, and that sets no limits.
func Blank() *Machine {
	return &Machine{Available: Unknown, Group: Group{Limit: Unknown, Left: Unknown}, HugeBytes: defaultHuge}
}

// ReadMachine reads what Linux tells under /proc and /sys of a file system that
// starts at its root. What it does not find stays unknown.
func ReadMachine(root fs.FS) *Machine {
	m := Blank()
	m.Available = fieldKiB(readText(root, "proc/meminfo"), "MemAvailable:")
	mode := readText(root, "sys/kernel/mm/transparent_hugepage/enabled")
	m.Huge = strings.Contains(mode, "[madvise]") || strings.Contains(mode, "[always]")
	if n := readNumber(root, "sys/kernel/mm/transparent_hugepage/hpage_pmd_size"); n != Unknown && n > 0 {
		m.HugeBytes = n
	}
	m.Nodes = readNodes(root)
	m.Group = readGroup(root)
	return m
}

// Node is the node of a number.
func (m *Machine) Node(id int) (Node, bool) {
	for _, n := range m.Nodes {
		if n.ID == id {
			return n, true
		}
	}
	return Node{}, false
}

// NodeOfDevice is the NUMA node that a device of the PCI bus is attached to, by an
// id such as "0000:3b:00.0"; AnyNode where the system does not say.
func NodeOfDevice(root fs.FS, id string) int {
	text := readText(root, "sys/bus/pci/devices/"+strings.ToLower(id)+"/numa_node")
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 0 {
		return n
	}
	return AnyNode
}

// readNodes lists the nodes that have processors.
func readNodes(root fs.FS) []Node {
	var all []Node
	for _, id := range parseList(readText(root, "sys/devices/system/node/online")) {
		cpus := parseList(readText(root, "sys/devices/system/node/node"+strconv.Itoa(id)+"/cpulist"))
		all = append(all, Node{id, cpus})
	}
	return all
}

// parseList reads "0-3,8".
func parseList(text string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return all
		}
		last := first
		if span {
			if last, err = strconv.Atoi(to); err != nil || last-first > 1<<16 {
				return all
			}
		}
		for i := first; i <= last; i++ {
			all = append(all, i)
		}
	}
	return all
}

func readText(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// readNumber is the number that a file holds; Unknown for "max" and without one.
func readNumber(root fs.FS, name string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(readText(root, name)), 10, 64)
	if err != nil {
		return Unknown
	}
	return n
}

// fieldKiB is the number after a name, "MemAvailable:   123 kB", in bytes.
func fieldKiB(text, name string) uint64 {
	n := field(text, name)
	if n > math.MaxUint64>>10 {
		return Unknown
	}
	return n << 10
}

// field is the number after a name at the start of a line; Unknown without.
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
