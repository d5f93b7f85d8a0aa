package pin

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/room"
)

// AnyNode stands for no particular NUMA node.
const AnyNode = -1

// Unknown stands for a number of bytes that the machine does not report, or for no limit.
const Unknown = room.Unknown

// Machine is what the operating system says about page-locking. It is read anew for each
// request, because the free memory changes.
type Machine struct {
	Available uint64     // bytes that can be taken without swapping
	Group     room.Group // the control group that leaves the least
	Huge      bool       // a program may ask for huge pages
	HugeBytes uint64     // size of one
	Nodes     []Node
	Emulated  *Emulated // the machine that a software GPU emulates, nil for hardware
}

// Emulated is the host memory of an emulated machine.
type Emulated struct {
	Name        string
	Left, Total uint64 // bytes that can be page-locked, and bytes that there are
	Node        int    // its NUMA node
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
	return &Machine{Available: Unknown, Group: room.Nothing().Group, HugeBytes: defaultHuge}
}

// ReadMachine reads /proc and /sys of Linux, in a file system that starts at its root.
// Values that it does not find stay unknown.
func ReadMachine(root fs.FS) *Machine {
	m := UnknownMachine()
	memory := room.Read(root)
	m.Available, m.Group = memory.Available, memory.Group
	mode := readText(root, "sys/kernel/mm/transparent_hugepage/enabled")
	m.Huge = strings.Contains(mode, "[madvise]") || strings.Contains(mode, "[always]")
	if n := readNumber(root, "sys/kernel/mm/transparent_hugepage/hpage_pmd_size"); n != Unknown && n > 0 {
		m.HugeBytes = n
	}
	m.Nodes = readNodes(root)
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

// has reports whether there is a node with a number. Where the system names no nodes, node
// 0 is all memory.
func (m *Machine) has(id int) bool {
	_, named := m.Node(id)
	return named || id == 0 && len(m.Nodes) == 0
}

// HasOnly reports whether all memory of the machine is on one node.
func (m *Machine) HasOnly(id int) bool { return m.has(id) && len(m.Nodes) <= 1 }

// nodeList names the nodes of the machine.
func (m *Machine) nodeList() string {
	if len(m.Nodes) == 0 {
		return "the system names none, so node 0 is all memory"
	}
	var ids []string
	for _, n := range m.Nodes {
		ids = append(ids, fmt.Sprint(n.ID))
	}
	return "there are: " + strings.Join(ids, ", ")
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
