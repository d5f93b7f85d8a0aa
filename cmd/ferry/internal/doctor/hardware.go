package doctor

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Hardware is what the system shows of a GPU and its link. Fields of unknown values are
// zero, and Node is -1.
type Hardware struct {
	Address       string // on the PCI bus, as sysfs writes it; "" if there is no such device
	Generation    int    // of PCI Express now
	Width         int    // lanes now
	MaxGeneration int    // what GPU and slot can together
	MaxWidth      int
	Windows       []Window // the BARs that have an address
	Node          int      // NUMA node
	Group         string   // of the IOMMU; "" without one
	Mode          string   // of that group: "identity", "DMA", "DMA-FQ"
	Virtual       bool     // in a virtual machine, whose host may have an IOMMU
}

// Window is a range of physical addresses through which the CPU reaches a device.
type Window struct {
	BAR         int // number of the base address register
	Base, Bytes uint64
}

// Untranslated reports whether it is known that no IOMMU translates the addresses of the
// GPU. The host of a virtual machine may have one that is not shown.
func (h *Hardware) Untranslated() bool {
	return h.Address != "" && !h.Virtual && (h.Group == "" || h.Mode == "identity")
}

// ReadHardware reads what a tree of files and NVML show of the GPU at a PCI address. m may
// be nil.
func ReadHardware(root fs.FS, m Manager, address string) Hardware {
	p := &patient{files: files{root}, address: shortAddress(address), about: &Facts{}}
	h := Hardware{Node: -1}
	if !p.exists(p.inDevice(p.address, "vendor")) {
		return h
	}
	h.Address = p.address
	if m != nil {
		if about, err := m.Facts(p.address); err == nil {
			p.about = about
		}
	}
	l := p.readLink()
	h.Generation, h.Width, h.MaxGeneration, h.MaxWidth = l.generation, l.width, l.maxGeneration, l.maxWidth
	h.Windows = p.windows()
	if n, err := strconv.Atoi(p.text(p.inDevice(p.address, "numa_node"))); err == nil {
		h.Node = n
	}
	h.Group, h.Mode = p.iommuGroup()
	h.Virtual = p.isVirtual()
	return h
}

// iommuGroup returns the IOMMU group of the GPU and its mode; "" for none.
func (p *patient) iommuGroup() (group, mode string) {
	group = path.Base(p.link(p.inDevice(p.address, "iommu_group")))
	if group == "." || group == "/" {
		return "", ""
	}
	return group, p.text("sys/kernel/iommu_groups/" + group + "/type")
}

// windows returns the standard BARs of the GPU that have an address.
func (p *patient) windows() (all []Window) {
	lines := strings.Split(p.text(p.inDevice(p.address, "resource")), "\n")
	for i, line := range lines[:min(6, len(lines))] {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		from, err := strconv.ParseUint(words[0], 0, 64)
		to, err2 := strconv.ParseUint(words[1], 0, 64)
		if err != nil || err2 != nil || to <= from {
			continue
		}
		all = append(all, Window{i, from, to - from + 1})
	}
	return all
}
