package explain

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/softgpu"
)

// Kinds of memory of an access.
const (
	pageLocked = "page-locked"
	registered = "registered"
	pageable   = "pageable"
	managed    = "managed"
	device     = "device"
)

// observe adds the steps that hardware and system show of an access. None has a cost.
func (l *lab) observe(x access) {
	step := func(place, address string, source Source, format string, args ...any) {
		l.add(Step{Path: x.path, Place: place, Address: address, Source: source, Text: fmt.Sprintf(format, args...)})
	}
	step("virtual address", hex(x.addr), Observed, "%s", l.attributes(x.addr))
	if x.agent == softgpu.CPU || x.kind != device {
		frame, text := pageAt(l.files, x.addr)
		step("CPU MMU", frame, Observed, "%s", text)
	}
	if x.agent == softgpu.CPU {
		if node := nodeText(l.files, x.addr); x.kind != device && node != "" {
			step("physical place", "", Observed, "%s", node)
		}
		return
	}
	if x.kind == pageable && !l.has(cu.DeviceAttributePageableMemoryAccess) {
		step("driver", "", Manual, "a thread of the driver copies the pages through a page-locked staging buffer, which the copy engine reads")
	}
	step("GPU MMU", "", Manual, "the GPU's page table, which programs cannot read, translates the address")
	if x.kind == device {
		step("physical place", "", Manual, "memory of the GPU; its physical address is not shown to programs")
		return
	}
	if x.kind == managed {
		step("driver", "", Manual, "a page that is not where it is accessed faults; the driver moves or maps it, and the access is repeated")
	}
	step("link packets", "", Observed, "%s", linkText(&l.hw))
	step("IOMMU", "", Observed, "%s", iommuText(&l.hw))
	if node := nodeText(l.files, x.addr); node != "" {
		step("physical place", "", Observed, "%s", node)
	}
}

// attributes says what the driver knows of an address.
func (l *lab) attributes(addr uint64) string {
	if !l.has(cu.DeviceAttributeUnifiedAddressing) {
		return "the device has no unified addressing, so the driver describes no address"
	}
	a, err := l.g.Driver().PointerGetAttributes(l.g.CUContext(), cu.DevicePtr(addr))
	switch {
	case err != nil:
		return "the driver describes no such address: " + err.Error()
	case a.MemoryType == 0:
		return "memory that the driver does not know"
	}
	text := map[cu.MemoryType]string{cu.MemoryTypeHost: "host memory", cu.MemoryTypeDevice: "device memory"}[a.MemoryType]
	if a.IsManaged {
		text = "managed memory"
	}
	text += fmt.Sprintf(", %s from %#x", refusal.Size(a.RangeSize), uint64(a.RangeStart))
	switch {
	case a.DevicePointer == 0:
		return text + ", no address for kernels"
	case uint64(a.DevicePointer) == addr:
		return text + ", the same address in kernels"
	}
	return text + fmt.Sprintf(", %#x in kernels", uint64(a.DevicePointer))
}

// Bits of an entry of /proc/self/pagemap.
const (
	pagePresent = 1 << 63
	frameBits   = 1<<55 - 1
)

// pageAt returns the physical address of a byte of this process, "" if the system does not
// tell, and what the page table of the CPU says.
func pageAt(root fs.FS, addr uint64) (physical, text string) {
	f, err := root.Open("proc/self/pagemap")
	if err != nil {
		return "", "the system does not show the page table"
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok || addr >= 1<<63 {
		return "", "the system does not show the page table"
	}
	size := uint64(os.Getpagesize())
	var raw [8]byte
	if _, err := at.ReadAt(raw[:], int64(addr/size*8)); err != nil {
		return "", "no page of this process: the CPU cannot use this address"
	}
	entry := binary.LittleEndian.Uint64(raw[:])
	switch {
	case entry&pagePresent == 0:
		return "", "no page is mapped here: an access of the CPU faults"
	case entry&frameBits == 0:
		return "", fmt.Sprintf("a page of %s is mapped; its frame is shown to root alone (CAP_SYS_ADMIN)", refusal.Size(uintptr(size)))
	}
	return hex(entry&frameBits*size + addr%size), fmt.Sprintf("a page of %s is mapped", refusal.Size(uintptr(size)))
}

// nodeText says on which NUMA nodes the mapping of an address has its pages, or returns "".
func nodeText(root fs.FS, addr uint64) string {
	f, err := root.Open("proc/self/numa_maps")
	if err != nil {
		return ""
	}
	defer f.Close()
	best, nodes := uint64(0), ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		base, err := strconv.ParseUint(words[0], 16, 64)
		if err == nil && base <= addr && base >= best {
			best, nodes = base, nodesOf(words[1:])
		}
	}
	if nodes == "" {
		return ""
	}
	return "host memory of NUMA node " + nodes
}

// nodesOf returns the nodes among the words of a line of numa_maps, such as "N0=512".
func nodesOf(words []string) string {
	var all []string
	for _, w := range words {
		node, _, found := strings.Cut(w, "=")
		if number, isNode := strings.CutPrefix(node, "N"); found && isNode {
			if _, err := strconv.Atoi(number); err == nil {
				all = append(all, number)
			}
		}
	}
	return strings.Join(all, ", ")
}

// linkText says what the link between host and GPU is.
func linkText(h *doctor.Hardware) string {
	if h.Generation == 0 || h.Width == 0 {
		return "the system does not show the link"
	}
	text := fmt.Sprintf("PCI Express: Gen%d x%d now, Gen%d x%d at most", h.Generation, h.Width, h.MaxGeneration, h.MaxWidth)
	if h.Node >= 0 {
		text += fmt.Sprintf("; the GPU is at NUMA node %d", h.Node)
	}
	return text
}

// iommuText says what the IOMMU does with addresses of the GPU.
func iommuText(h *doctor.Hardware) string {
	switch {
	case h.Address == "":
		return "the system does not show the GPU"
	case h.Group == "" && h.Virtual:
		return "none in this virtual machine; its host may have one"
	case h.Group == "":
		return "none: the bus address is the physical address"
	case h.Mode == "identity":
		return fmt.Sprintf("group %s, pass-through: the bus address is the physical address", h.Group)
	case h.Mode == "":
		return fmt.Sprintf("group %s; its mode is not shown", h.Group)
	}
	return fmt.Sprintf("group %s translates (%s)", h.Group, h.Mode)
}
