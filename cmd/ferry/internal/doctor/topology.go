package doctor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (p *patient) checkNUMA() Check {
	nodes := p.nodes()
	if len(nodes) == 0 {
		return skipped("the kernel shows no NUMA nodes")
	}
	if len(nodes) == 1 {
		return ok("one node")
	}
	home, err := strconv.Atoi(p.text(p.inDevice(p.address, "numa_node")))
	if err != nil || !slices.Contains(nodes, home) {
		return problem{
			found:  fmt.Sprintf("%d nodes, and the firmware does not say which has the GPU", len(nodes)),
			cost:   "memory of the wrong node made copies 30 % slower (pytorch/pytorch#160420)",
			source: Reported,
			mend:   "compare numactl --cpunodebind=0 --membind=0 ferry bench with the other nodes, and update the firmware",
		}.warning(false)
	}
	far := p.away(home)
	found := fmt.Sprintf("node %d of %d, %s", home, len(nodes), p.distances(home))
	if far == "" {
		return ok(found)
	}
	return problem{
		found:  found + "; " + far,
		cost:   "copies were 30 % slower with memory of another node (pytorch/pytorch#160420)",
		source: Reported,
		mend:   fmt.Sprintf("numactl --cpunodebind=%d --membind=%d PROGRAM", home, home),
	}.warning(true)
}

// nodes returns the NUMA nodes of the machine.
func (p *patient) nodes() (all []int) {
	for _, name := range p.names("sys/devices/system/node") {
		number, isNode := strings.CutPrefix(name, "node")
		if n, err := strconv.Atoi(number); isNode && err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}

// away says why the process cannot use a node, or returns "".
func (p *patient) away(home int) string {
	dir := fmt.Sprintf("sys/devices/system/node/node%d/", home)
	near := numbers(p.text(dir + "cpulist"))
	mine := numbers(p.field("proc/self/status", "Cpus_allowed_list:"))
	memory := numbers(p.field("proc/self/status", "Mems_allowed_list:"))
	switch {
	case len(near) > 0 && len(mine) > 0 && !share(near, mine):
		return "this process runs on others"
	case len(memory) > 0 && !slices.Contains(memory, home):
		return "this process has memory of others"
	}
	return ""
}

// distances says how far the nodes are from one: 10 is its own memory.
func (p *patient) distances(home int) string {
	all := strings.Fields(p.text(fmt.Sprintf("sys/devices/system/node/node%d/distance", home)))
	if len(all) == 0 {
		return "distances unknown"
	}
	slices.Sort(all)
	return "distances " + strings.Join(slices.Compact(all), ", ")
}

func (p *patient) checkIOMMU() Check {
	group, mode := p.iommuGroup()
	if group == "" {
		if p.host.Virtual {
			return ok("none in this virtual machine; its host may have one")
		}
		return ok("none")
	}
	switch mode {
	case "":
		return skipped("group " + group + " has no type")
	case "identity":
		return ok("pass-through, group " + group)
	}
	t := problem{
		found:  fmt.Sprintf("translates (%s), group %s", mode, group),
		cost:   "page-locking maps each page again; bare-metal copies between GPUs over PCI Express are not supported with it (CUDA programming guide)",
		source: Manual,
		mend:   "add iommu=pt to the kernel command line, or turn the IOMMU off if no virtual machine needs it",
	}
	if words := p.iommuWords(); words != "" {
		t.found += " (" + words + ")"
	}
	// DMA is the strict mode: each unmapping waits for the IOMMU. DMA-FQ collects them.
	return t.warning(mode == "DMA" || p.several() && !p.host.Virtual)
}

// iommuWords returns what the kernel command line says of the IOMMU.
func (p *patient) iommuWords() string {
	var words []string
	for word := range strings.FieldsSeq(p.text("proc/cmdline")) {
		if name, _, _ := strings.Cut(word, "="); strings.Contains(name, "iommu") {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// The bits of ACS control that send traffic between peers up to the root complex.
const (
	acsCapability = 0x000d
	acsRequests   = 1 << 2
	acsReplies    = 1 << 3
)

func (p *patient) checkACS() Check {
	if !p.several() {
		return ok("one GPU: nothing goes from GPU to GPU")
	}
	bridges := p.bridges(p.address)
	if len(bridges) == 0 {
		return ok("no bridge above the GPU is visible")
	}
	var on []string
	readable := false
	for _, bridge := range bridges {
		config, err := p.bytes(p.inDevice(bridge, "config"))
		if err != nil || len(config) <= 256 {
			continue // users other than root see 64 bytes
		}
		readable = true
		if acsControl(config)&(acsRequests|acsReplies) != 0 {
			on = append(on, bridge)
		}
	}
	switch {
	case !readable:
		return skipped("only root may read it: sudo ferry doctor")
	case len(on) == 0:
		return ok("does not redirect")
	}
	return problem{
		found:  "redirects at " + strings.Join(on, ", "),
		cost:   "copies from GPU to GPU go up to the root complex and back, not by the switch: they share its link (NCCL guide, Troubleshooting)",
		source: Manual,
		mend:   "setpci -s BRIDGE ECAP_ACS+0x6.w=0000 as root, or turn ACS off in the firmware; virtual machines need it on",
	}.warning(true)
}

// acsControl returns the ACS control register in the configuration space of a bridge, or
// 0 if it has none.
func acsControl(config []byte) uint16 {
	// Extended capabilities begin at 0x100: an id of 16 bits, a version of 4, and the
	// offset of the next. A bound on the steps ends a circle.
	at := 0x100
	for range 64 {
		if at < 0x100 || at+8 > len(config) {
			return 0
		}
		head := binary.LittleEndian.Uint32(config[at:])
		if head&0xffff == acsCapability {
			return binary.LittleEndian.Uint16(config[at+6:])
		}
		at = int(head >> 20)
	}
	return 0
}
