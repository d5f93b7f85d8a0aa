package pin

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// AnyNode stands for no particular NUMA node.
const AnyNode = -1

// Unknown is a number of bytes that a machine does not say, or no limit.
const Unknown = math.MaxUint64

// Machine is what the operating system says about page-locking. It is read anew for each
// request, because the free memory changes.
type Machine struct {
	Available uint64 // bytes that can be taken without swapping
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

// defaultHuge is the size of a huge page where the system does not say it.
const defaultHuge = 2 << 20

// UnknownMachine returns a machine of which nothing is known, and that sets no limits.
func UnknownMachine() *Machine {
	return &Machine{Available: Unknown, Group: Group{Limit: Unknown, Left: Unknown}, HugeBytes: defaultHuge}
}

// ReadMachine reads /proc and /sys of Linux, in a file system that starts at its root.
// What it does not find stays unknown.
func ReadMachine(root fs.FS) *Machine {
	m := UnknownMachine()
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

// Node returns the node with a number.
func (m *Machine) Node(id int) (Node, bool) {
	for _, n := range m.Nodes {
		if n.ID == id {
			return n, true
		}
	}
	return Node{}, false
}

// refuse returns why a request cannot succeed on the machine, and nil if no reason is
// known.
func (m *Machine) refuse(r Request) *Error {
	_, exists := m.Node(r.Node)
	bytes := uint64(r.Bytes)
	no := func(result cu.Result, do, why string, args ...any) *Error {
		return &Error{r.Bytes, r.Node, fmt.Sprintf(why, args...), do, result}
	}
	switch {
	case r.Strict && !exists:
		return no(cu.ErrorInvalidValue, "ask for one that is there, or none", "there is no NUMA node %d (%s)", r.Node, m.nodeList())
	case bytes > m.Group.Left:
		return no(cu.ErrorOutOfMemory, "raise that limit, or take less: the system would end the process",
			"the control group %s allows %s, of which %s are left", m.Group.Path, sizeText(m.Group.Limit), sizeText(m.Group.Left))
	case bytes > m.Available:
		return no(cu.ErrorOutOfMemory, "free some, or take less: page-locked memory cannot be swapped out", "%s of host memory are available", sizeText(m.Available))
	}
	return nil
}

// nodeList names the nodes of the machine.
func (m *Machine) nodeList() string {
	if len(m.Nodes) == 0 {
		return "the system names none"
	}
	var ids []string
	for _, n := range m.Nodes {
		ids = append(ids, fmt.Sprint(n.ID))
	}
	return "the machine has " + strings.Join(ids, ", ")
}

// NodeOfDevice returns the NUMA node that a device of the PCI bus is attached to, by an id
// such as "0000:3b:00.0". It is AnyNode where the system does not say.
func NodeOfDevice(root fs.FS, id string) int {
	text := readText(root, "sys/bus/pci/devices/"+strings.ToLower(id)+"/numa_node")
	if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n >= 0 {
		return n
	}
	return AnyNode
}

// readNodes lists the nodes that are online.
func readNodes(root fs.FS) []Node {
	var all []Node
	for _, id := range parseList(readText(root, "sys/devices/system/node/online")) {
		cpus := parseList(readText(root, "sys/devices/system/node/node"+strconv.Itoa(id)+"/cpulist"))
		all = append(all, Node{id, cpus})
	}
	return all
}

// parseList reads a list such as "0-3,8".
func parseList(text string) []int {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, several := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return all
		}
		last := first
		if several {
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

// readNumber reads the number in a file. It is Unknown for "max" and without the file.
func readNumber(root fs.FS, name string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(readText(root, name)), 10, 64)
	if err != nil {
		return Unknown
	}
	return n
}

// fieldKiB returns the number after a name, as in "MemAvailable:   123 kB", in bytes.
func fieldKiB(text, name string) uint64 {
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
