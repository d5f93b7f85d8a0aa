package doctor

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// rates maps the speed of a lane, as sysfs writes it, to the generation of PCI Express.
var rates = map[string]int{"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6}

// perLane is how many GB/s a lane carries in one direction, by generation, before the
// headers of packets.
var perLane = []float64{0, 0.25, 0.5, 0.9846, 1.969, 3.938, 7.563}

// copied is the part of these that copies of page-locked memory reached on an H200 on
// PCI Express 5.0 x16: 55.4 of 63.0 GB/s.
const copied = 55.4 / 63.0

// linkSpeed predicts how many GB/s copies of page-locked memory reach on a link.
func linkSpeed(generation, width int) float64 {
	if generation < 1 || generation >= len(perLane) {
		return 0
	}
	return perLane[generation] * float64(width) * copied
}

// side is what one end of a link says of it. 0 is unknown.
type side struct{ generation, width, maxGeneration, maxWidth int }

// readSide reads a PCI device's end of its link to the host.
func (p *patient) readSide(address string) side {
	speed := func(name string) int {
		rate, _, _ := strings.Cut(p.text(p.inDevice(address, name)), " ")
		return rates[rate]
	}
	lanes := func(name string) int {
		n, err := strconv.Atoi(p.text(p.inDevice(address, name)))
		if err != nil || n < 1 || n > 32 {
			return 0
		}
		return n
	}
	return side{speed("current_link_speed"), lanes("current_link_width"), speed("max_link_speed"), lanes("max_link_width")}
}

// link is the GPU's link to the host. 0 is unknown.
type link struct {
	generation, width       int // now
	maxGeneration, maxWidth int // what GPU and slot can together
	gpuGeneration, gpuWidth int // what the GPU alone can
}

// readLink reads the link from NVML, and what NVML does not say from sysfs.
func (p *patient) readLink() link {
	own := p.readSide(p.address)
	f := p.about
	l := link{
		generation: first(f.Generation, own.generation), width: first(f.Width, own.width),
		maxGeneration: first(f.MaxGeneration, own.maxGeneration), maxWidth: first(f.MaxWidth, own.maxWidth),
		gpuGeneration: max(first(f.GPUGeneration, 0), own.maxGeneration), gpuWidth: max(own.maxWidth, first(f.MaxWidth, 0)),
	}
	if above := p.bridges(p.address); len(above) > 0 {
		slot := p.readSide(above[len(above)-1])
		l.maxGeneration, l.maxWidth = lower(l.maxGeneration, slot.maxGeneration), lower(l.maxWidth, slot.maxWidth)
	}
	// The bridge of a virtual machine often says Gen1 x1. What the link does now, it can do.
	l.maxGeneration, l.maxWidth = max(l.maxGeneration, l.generation), max(l.maxWidth, l.width)
	return l
}

// first returns what NVML says, or else a number of sysfs.
func first(said *int, other int) int {
	if said != nil && *said > 0 {
		return *said
	}
	return other
}

// lower returns the lower of two numbers that are known.
func lower(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// bridges returns the addresses of the PCI bridges above a device, the nearest last.
func (p *patient) bridges(address string) (all []string) {
	target := p.link(pciDevices + "/" + address)
	for _, part := range strings.Split(path.Dir(target), "/") {
		if strings.Count(part, ":") == 2 && strings.Contains(part, ".") {
			all = append(all, part)
		}
	}
	return all
}

// bestLink predicts the bandwidth of the link at its best, or returns 0.
func (p *patient) bestLink() float64 {
	if !p.hasGPU() {
		return 0
	}
	l := p.readLink()
	return linkSpeed(l.maxGeneration, l.maxWidth)
}

// cost says what a link reaches, and what another would.
func (l link) cost(generation, width, bestGeneration, bestWidth int) string {
	now, best := linkSpeed(generation, width), linkSpeed(bestGeneration, bestWidth)
	if now == 0 || best == 0 {
		return "copies are slower in the ratio of the links"
	}
	return fmt.Sprintf("copies reach %.1f GB/s instead of %.1f (from 55.4 measured on Gen5 x16)", now, best)
}

// costNow says what the link reaches as it is. Under load that is the truth; an idle link
// may have another generation.
func (l link) costNow() string {
	return l.cost(l.generation, l.width, l.maxGeneration, max(l.maxWidth, l.gpuWidth))
}

// underLoad says how to see whether a link only saves power.
const underLoad = "measure under load: run ferry bench, and ferry doctor beside it"

func (p *patient) checkGeneration() Check {
	l := p.readLink()
	if l.generation == 0 || l.maxGeneration == 0 {
		return skipped("neither NVML nor sysfs says")
	}
	if l.generation < l.maxGeneration {
		return p.slowLink(l)
	}
	if l.gpuGeneration > l.maxGeneration {
		return problem{
			found:  fmt.Sprintf("Gen%d: the slot ends there, the GPU can Gen%d", l.generation, l.gpuGeneration),
			cost:   l.cost(l.generation, l.maxWidth, l.gpuGeneration, l.maxWidth),
			source: Predicted,
			mend:   "put the GPU into a slot of that generation; raise the slot's speed in the firmware's settings",
		}.warning(true)
	}
	return ok(fmt.Sprintf("Gen%d of Gen%d", l.generation, l.maxGeneration))
}

// slowLink judges a link below its generation. An idle GPU lowers it to save power.
func (p *patient) slowLink(l link) Check {
	found := fmt.Sprintf("Gen%d of Gen%d", l.generation, l.maxGeneration)
	t := problem{found: found, cost: l.cost(l.generation, l.maxWidth, l.maxGeneration, l.maxWidth), source: Predicted}
	if busy, known := p.busy(); busy {
		t.found += fmt.Sprintf(" while %d %% busy", *p.about.Busy)
		t.cost = l.costNow()
		t.mend = "reseat the card or its cable; raise the slot's speed in the firmware's settings; dmesg | grep -i aer shows errors"
		return t.failure()
	} else if known {
		t.found += " while idle: may be power saving"
	} else {
		t.found += ": may be power saving"
	}
	t.mend = underLoad
	return t.warning(false)
}

func (p *patient) checkWidth() Check {
	l := p.readLink()
	if l.width == 0 || l.maxWidth == 0 {
		return skipped("neither NVML nor sysfs says")
	}
	best := max(l.maxWidth, l.gpuWidth)
	if l.width >= best {
		return ok(fmt.Sprintf("x%d of x%d", l.width, best))
	}
	t := problem{
		found:  fmt.Sprintf("x%d of x%d", l.width, best),
		cost:   l.cost(l.maxGeneration, l.width, l.maxGeneration, best),
		source: Predicted,
		mend:   "reseat the card or its cable, use a slot with all lanes, and look for bifurcation in the firmware's settings",
	}
	if l.width == l.maxWidth {
		t.found += ": the slot has no more lanes"
		return t.warning(true)
	}
	if busy, _ := p.busy(); busy {
		t.found += fmt.Sprintf(" while %d %% busy", *p.about.Busy)
		t.cost = l.costNow()
		return t.failure()
	}
	t.found += ": may be power saving"
	t.mend = underLoad + "; " + t.mend
	return t.warning(true)
}

func (p *patient) checkReplays() Check {
	count, source := 0, "NVML"
	switch {
	case p.about.Replays != nil:
		count = *p.about.Replays
	default:
		text := p.field(p.inDevice(p.address, "aer_dev_correctable"), "TOTAL_ERR_COR ")
		n, err := strconv.Atoi(text)
		if err != nil {
			return skipped("neither NVML nor sysfs says")
		}
		count, source = n, "AER"
	}
	if count == 0 {
		return ok("0")
	}
	t := problem{
		found:  fmt.Sprintf("%d since the driver was loaded (%s)", count, source),
		cost:   "each packet that is sent again takes its time on the link twice; few are normal (PCI Express base specification)",
		source: Manual,
		mend:   "read the number again after copies; if it grows, reseat the card or its cable",
	}
	if p.about.Replaying {
		t.found += ", and it grows"
		t.mend = "reseat the card or its cable; limit the slot to a lower generation to see whether it stops"
	}
	return t.warning(p.about.Replaying)
}

// smallBAR is the size of the window without resizable BAR.
const smallBAR = 256 << 20

func (p *patient) checkBAR() Check {
	size, assigned := p.largestBAR()
	if p.about.BAR1 != nil {
		size, assigned = *p.about.BAR1, true
	}
	switch {
	case !assigned && p.exists(p.inDevice(p.address, "resource")):
		return problem{
			found:  "the firmware gave the GPU no addresses",
			cost:   "the driver cannot start the GPU",
			source: Manual,
			mend:   "turn on Above 4G Decoding in the firmware's settings, or add pci=realloc to the kernel command line",
		}.failure()
	case !assigned:
		return skipped("neither NVML nor sysfs says")
	}
	memory := p.about.Memory
	found := sizeText(size)
	if memory != nil {
		found += " for " + sizeText(*memory) + " of memory"
	}
	if size > smallBAR || memory != nil && *memory <= size {
		return ok(found)
	}
	return problem{
		found:  found + ": not resized",
		cost:   "CPU and peers see 256 MiB at a time; copies by copy engines are as fast (NVIDIA's guide GPUDirect RDMA)",
		source: Manual,
		mend:   "turn on Above 4G Decoding and Resizable BAR in the firmware's settings",
	}.warning(false)
}

// largestBAR returns the size of the largest window. assigned says whether there is any.
func (p *patient) largestBAR() (size uint64, assigned bool) {
	for _, w := range p.windows() {
		size, assigned = max(size, w.Bytes), true
	}
	return size, assigned
}
