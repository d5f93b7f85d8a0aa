package trace

import (
	"os"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// NoNode is the NUMA node of memory and devices whose node is not known.
const NoNode = -1

// nodeOf returns the NUMA node of a device of hardware, or NoNode.
func (d *Driver) nodeOf(dev cu.Device) int {
	if d.soft != nil {
		return NoNode
	}
	address, err := d.inner.DeviceGetPCIBusId(dev)
	if err != nil {
		return NoNode
	}
	return pciNode("/sys/bus/pci/devices/", address)
}

// pciNode reads the NUMA node of a PCI device in a directory of devices.
func pciNode(dir, address string) int {
	text, err := os.ReadFile(dir + strings.ToLower(address) + "/numa_node")
	if err != nil {
		return NoNode
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return NoNode
	}
	return node
}
