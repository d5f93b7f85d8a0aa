package grid

import (
	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/profile"
)

// Machine has figures of a device and its link, from which ceilings are calculated. A figure
// that is not known is 0.
type Machine struct {
	Multiprocessors int `json:"multiprocessors"`
	// Memory is the rate of device memory by its clock rate and its width.
	Memory float64 `json:"memory_bytes_per_s"`
	// Generation and Lanes are those of PCI Express as it runs now.
	Generation int `json:"pcie_generation"`
	Lanes      int `json:"pcie_lanes"`
	// Link is the rate of the link in one direction, with the encoding but without the
	// headers of packets.
	Link float64 `json:"link_bytes_per_s"`
}

// machineOf returns the figures of a device.
func machineOf(g *ferry.GPU) *Machine {
	m := &Machine{}
	attribute := func(a cu.DeviceAttribute) float64 {
		v, err := g.Attribute(a)
		if err != nil {
			return 0
		}
		return float64(v)
	}
	m.Multiprocessors = int(attribute(cu.DeviceAttributeMultiprocessorCount))
	m.Memory = memoryRate(attribute(cu.DeviceAttributeMemoryClockRate), attribute(cu.DeviceAttributeGlobalMemoryBusWidth))
	if r, err := info.About(g); err == nil && r.Link.Generation != nil && r.Link.Lanes != nil {
		m.Generation, m.Lanes = *r.Link.Generation, *r.Link.Lanes
		m.Link = linkRate(m.Generation, m.Lanes)
	}
	return m
}

// MachineOf returns the figures of a machine from its profile.
func MachineOf(p *profile.Profile) *Machine {
	value := func(a cu.DeviceAttribute) float64 { v, _ := p.Attribute(a); return float64(v) }
	m := &Machine{
		Multiprocessors: int(value(cu.DeviceAttributeMultiprocessorCount)),
		Memory:          memoryRate(value(cu.DeviceAttributeMemoryClockRate), value(cu.DeviceAttributeGlobalMemoryBusWidth)),
		Generation:      p.Link.Generation.Int(),
		Lanes:           p.Link.Lanes.Int(),
	}
	m.Link = linkRate(m.Generation, m.Lanes)
	return m
}

// memoryRate returns bytes in a second for a clock in kHz and a width in bits. Device memory
// moves twice in each cycle of this clock.
func memoryRate(kHz, bits float64) float64 { return 2 * kHz * 1e3 * bits / 8 }

// linkRate returns the bytes that PCI Express moves in a second in one direction. Generations
// 1 and 2 send 8 bits as 10, later ones 128 as 130, and generation 6 sends 242 bytes of 256.
func linkRate(generation, lanes int) float64 {
	rates := []float64{0, 2.5e9 * 8 / 10, 5e9 * 8 / 10, 8e9 * 128 / 130, 16e9 * 128 / 130, 32e9 * 128 / 130, 64e9 * 242 / 256}
	if generation < 1 || generation >= len(rates) {
		return 0
	}
	return rates[generation] * float64(lanes) / 8
}
