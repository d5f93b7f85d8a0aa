package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/mmu"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
)

// bigPage is what one fault brings over when the pages around it give no reason for
// more.
const bigPage = 64 << 10

// around is the big page of the address asked about, as far as the region goes.
func (p *path) around() (low, high uint64) {
	r := p.span.region
	low = uint64(p.Addr) &^ (bigPage - 1)
	return max(low, r.base), min(low+bigPage, roundUp(r.end(), kernelPage))
}

// migrate is a managed page that the device has not mapped: a fault, which the
// driver serves, and the access once more. The policy of package uvm may bring more
// pages over at once, when many fault together.
func (p *path) migrate() {
	r, own := p.span.region, uvm.Processor(p.Device)
	run := p.askedRun(r)
	low, high := p.around()
	place := p.d.place(r)
	preferred, _ := r.managed.pages.Common(uint64(p.Addr)-r.base, 1, func(a uvm.Advice) int32 { return int32(a.Preferred) })
	work := uvm.Work{Batches: 1, Blocks: 1, Faults: 1}
	text := ""
	switch {
	case run.At == own:
		p.way("managed: fault, mapping, retry")
		text = "serves the fault: maps what the device has already"
		p.managedVideo(place, p.c.dev, low, high)
	case run.At == uvm.CPU && preferred == int32(uvm.CPU):
		p.way("managed: fault, mapping over the link, retry")
		text, work.Remote = "serves the fault: maps the page where it shall stay, on the host", 1
		p.managedSystem(r, place, run.low, run.high)
	case run.At == uvm.Nowhere:
		p.way("managed: fault, first touch, retry")
		text, work.Zeroed = "serves the fault: zeroed pages on the device", high-low
		p.managedVideo(place, p.c.dev, low, high)
	default:
		p.way("managed: fault, migration, retry")
		text = fmt.Sprintf("serves the fault: moves %s to the device and maps them", mmu.Size(high-low))
		if work.In, work.InRuns = high-low, 1; run.At >= 0 {
			work.In, work.InRuns, work.Peer, work.Peers = 0, 0, high-low, 1
		}
		p.managedVideo(place, p.c.dev, low, high)
	}
	p.served(text, deviceFaults(&p.prof.Managed)(work), p.prof.Managed.DeviceService, p.prof.Managed.DeviceFault)
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, uint64(p.Addr), p.cost().GPULevel)
	if !ok {
		panic("BUG: a managed page is not mapped after its fault")
	}
	p.arrive(walk)
}

// served appends the driver's service of a fault, whose price is of the service's
// figures or, where the profile has none, of the curve.
func (p *path) served(text string, ns float64, service profile.Service, curve profile.Curve) {
	source := curve.Source
	if service.Known() {
		source = service.Batch.Source
	}
	p.addNs(p.tables, Step{Unit: "driver", Text: text, Ns: ns}, source)
}

// comeBack is a page fault of the CPU on managed memory.
func (p *path) comeBack() {
	r := p.span.region
	run := p.askedRun(r)
	low, high := p.around()
	work := uvm.Work{Blocks: 1, Faults: 1}
	text := ""
	switch {
	case run.At == uvm.Nowhere:
		p.Path = "managed: first touch"
		text, work.Zeroed = "serves the page fault: zeroed pages on the host", high-low
	case run.OnCPU:
		p.Path = "managed: page fault, mapping, retry"
		text = "serves the page fault: maps what the host has already"
	default:
		p.Path = "managed: page fault, migration, retry"
		text = fmt.Sprintf("serves the page fault: moves %s back to the host", mmu.Size(high-low))
		work.Out, work.OutRuns = high-low, 1
	}
	p.served(text, hostFaults(&p.prof.Managed)(work), p.prof.Managed.HostService, p.prof.Managed.HostFault)
	p.hostRange(r, p.d.place(r), low, high)
}

// byATS is a device that has the host translate what its own table does not know.
func (p *path) byATS() {
	p.Path = "ordinary memory through the host's page table (ATS)"
	p.table(p.tables, "GPU MMU", p.gpu, uint64(p.Addr), p.cost().GPULevel)
	p.add(p.tables, "ATS", "the device asks the host to translate", p.cost().ATS, 1)
	p.ordinaryPage(uint64(p.Addr))
	walk, _ := p.table(p.tables, "CPU MMU", p.cpu, uint64(p.Addr), p.cost().CPULevel)
	if m, ok := mappingAt(uint64(p.Addr)); ok && p.Write && !m.writable {
		p.Path, p.Fault = "fault", "the memory is read-only: "+cu.ErrorIllegalAddress.Name()
		return
	}
	p.add(p.tables, "link", "the access goes to the host's memory, coherently", p.prof.Link.RoundTrip, 1)
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory, within the link's time", walk.Frame), p.prof.Link.RoundTrip, 0)
}
