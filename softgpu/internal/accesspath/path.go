package accesspath

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/mmu"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// add appends a step that costs number, times over.
func (w *Walk) add(t *tables, unit, text string, number profile.Number, times float64) {
	w.addNs(t, Step{Unit: unit, Text: text, Ns: number.Value * times}, number.Source)
}

func (w *Walk) addNs(t *tables, s Step, source string) {
	w.Steps = append(w.Steps, s)
	w.Ns += s.Ns
	if s.Ns > 0 {
		w.Sure = leastSure(w.Sure, t.Profile.Confidence(source))
	}
}

// leastSure returns the less certain of two confidences, of which "" is the most certain.
func leastSure(a, b profile.Confidence) profile.Confidence {
	all := profile.Confidences()
	if slices.Index(all, b) > slices.Index(all, a) {
		return b
	}
	return a
}

// table appends the steps of a walk through a table, each at the cost of a
// level. It returns the walk, and whether the address is mapped.
func (w *Walk) table(t *tables, unit string, table *mmu.Table, addr uint64, level profile.Number) (mmu.Walk, bool) {
	walk := table.Walk(addr)
	for _, e := range walk.Entries {
		w.addNs(t, Step{Unit: unit, Text: e.String(), Level: e.Level, Index: e.Index, Page: e.Page, Frame: e.Frame, Ns: level.Value}, level.Source)
	}
	return walk, !walk.Faults()
}

// path is a walk in progress.
type path struct {
	*Walk
	*tables
}

// Walk describes how an access would go now on a machine. It builds the page tables, which keep
// their frames from one walk to the next.
func (f *Frames) Walk(m *Machine, a *Access) *Walk {
	p := &path{Walk: new(Walk), tables: f.newTables(m, a)}
	p.What = "ordinary memory"
	if p.Target != nil {
		p.What = p.Name
	} else if !p.ordinary() {
		p.What = "no memory of this program"
	}
	switch {
	case p.Agent == CPU:
		p.viaCPU()
	case p.Target == nil && p.ordinary() && p.Profile.Has(cu.DeviceAttributePageableMemoryAccess):
		p.viaATS()
	case p.Target == nil && p.ordinary() && p.Agent == CopyEngine:
		p.viaStaging()
	default:
		p.viaDevice()
	}
	return p.Walk
}

// ordinary reports whether the address is memory of the process that the driver
// does not know. If the system does not list its mappings, any host address
// counts.
func (p *path) ordinary() bool {
	addr := p.Addr
	if p.Target != nil || addr >= 1<<47 || addr < kernelPage {
		return false
	}
	_, mapped := p.Mapping(addr)
	return mapped || !p.KnowsMappings
}

func (p *path) cost() *profile.Translation { return &p.Profile.Translation }

// viaDevice walks an access of a kernel or copy engine through the device's own
// table.
func (p *path) viaDevice() {
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, p.deviceAddress(p.Addr), p.cost().GPULevel)
	switch why := p.Denied; {
	case why != "" || p.Target == nil:
		p.fail(ok, walk.Last(), why)
	case ok:
		p.arrive(walk)
	case p.Target != nil && p.Target.Managed != nil:
		p.deviceFault()
	default:
		p.viaDriver()
	}
}

// viaDriver walks a copy of page-locked memory that has no address for kernels.
func (p *path) viaDriver() {
	r := p.Target
	p.setPath(p.systemPath())
	at := p.placement(r)
	bus := at.host + p.Addr - r.Base&^(at.page-1)
	if p.bus != nil {
		off := bus - at.host
		bus = at.bus + off
		p.bus.Fill(mmu.Run{Base: at.bus, Bytes: at.bytes, Frame: at.host, Page: fit(p.bus.Format, at.page, at.bus|at.host|at.bytes)})
	}
	p.add(p.tables, "driver", "uses its own address, because the memory is not mapped for kernels", p.cost().GPULevel, 0)
	p.overLink(bus)
}

// fail ends the walk at an address that the agent must not access. The table
// may still map the address, because pages are larger than allocations.
func (p *path) fail(mapped bool, e mmu.Entry, why string) {
	p.Path = "fault"
	near := p.Near(p.Addr)
	if why != "" {
		near += ", " + why
	}
	if mapped {
		p.Fault = fmt.Sprintf("the page is mapped because of neighbouring allocations, so hardware would not detect the error; the software GPU does: %s", near)
		return
	}
	p.Fault = fmt.Sprintf("nothing at %s[%d]: %s: %s", e.Level, e.Index, near, cu.ErrorIllegalAddress.Name())
}

// arrive continues from the device's table to memory.
func (p *path) arrive(walk mmu.Walk) {
	e := walk.Last()
	if p.Write && (e.ReadOnly || p.Target != nil && p.Target.ReadOnly) {
		p.Path, p.Fault = "fault", "the memory is read-only: "+cu.ErrorIllegalAddress.Name()
		return
	}
	switch e.Aperture {
	case mmu.Video:
		p.setPath("device memory")
		p.add(p.tables, "memory", fmt.Sprintf("%#x of device %d's memory", walk.Frame, p.Device), p.cost().DeviceMemory, 1)
	case mmu.Peer:
		p.setPath(p.peerPath())
		p.add(p.tables, "link", fmt.Sprintf("to device %d and back", e.Peer), p.cost().Peer, 1)
		p.add(p.tables, "memory", fmt.Sprintf("%#x of device %d's memory, within that time", walk.Frame, e.Peer), p.cost().Peer, 0)
	case mmu.System:
		p.setPath(p.systemPath())
		p.overLink(walk.Frame)
	}
}

// setPath sets the name of the path unless it is set already.
func (p *path) setPath(name string) {
	if p.Path == "" {
		p.Path = name
	}
}

func (p *path) peerPath() string {
	if p.Agent == CopyEngine {
		return "copy between devices"
	}
	return "peer access"
}

func (p *path) systemPath() string {
	switch {
	case p.oneMemory():
		return "integrated memory"
	case p.Target != nil && p.Target.Managed != nil:
		return "managed, on the host, mapped over the link"
	case p.Agent == CopyEngine:
		return "copy from page-locked memory"
	}
	return "zero-copy"
}

// overLink reaches host memory at a bus address, through the IOMMU if there is
// one.
func (p *path) overLink(bus uint64) {
	trip := p.Profile.Link.RoundTrip
	if !p.oneMemory() {
		if p.Write {
			p.add(p.tables, "link", fmt.Sprintf("a posted write to bus address %#x", bus), trip, 0.5)
		} else {
			p.add(p.tables, "link", fmt.Sprintf("a read of bus address %#x, and its data", bus), trip, 1)
		}
	}
	to := bus
	if p.bus != nil {
		walk, _ := p.table(p.tables, "IOMMU", p.bus, bus, p.cost().IOMMULevel)
		to = walk.Frame
	}
	if p.oneMemory() {
		p.add(p.tables, "memory", fmt.Sprintf("%#x of the integrated memory", to), p.cost().DeviceMemory, 1)
		return
	}
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory, within the link's time", to), trip, 0)
}

// viaStaging walks a copy of memory that is not page-locked. A thread of the
// driver copies it to or from page-locked memory of the driver.
func (p *path) viaStaging() {
	p.Path = "copy through the driver's page-locked staging buffer"
	p.mapOrdinaryPage(p.Addr)
	p.table(p.tables, "CPU MMU", p.cpu, p.Addr, p.cost().CPULevel)
	copying := p.Profile.Copy.HtoH
	p.addNs(p.tables, Step{Unit: "driver", Text: "a thread copies the 4 KiB page through the staging buffer", Ns: copying.Ns(kernelPage)}, copying.Source)
	at := p.Window + p.HostOffset - blockSize
	if p.gpu.Format.Bits < 49 { // which have device memory in the lower half
		at = p.Window + 1<<(p.gpu.Format.Bits-1) - blockSize
	}
	p.mapStaging(at)
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, p.deviceAddress(at), p.cost().GPULevel)
	if !ok {
		panic("BUG: the staging buffer is not mapped")
	}
	p.arrive(walk)
}

// viaCPU walks an access of the host.
func (p *path) viaCPU() {
	addr := p.Addr
	if p.ordinary() {
		p.mapOrdinaryPage(addr)
	}
	walk, ok := p.table(p.tables, "CPU MMU", p.cpu, addr, p.cost().CPULevel)
	r := p.Target
	managed := p.Target != nil && r.Managed != nil
	switch {
	case ok && managed:
		p.setPath("managed, on the host")
	case ok:
		p.setPath("host memory")
	case managed:
		p.cpuFault()
		walk, ok = p.table(p.tables, "CPU MMU", p.cpu, addr, p.cost().CPULevel)
	}
	if !ok {
		p.Path = "fault"
		e := walk.Last()
		p.Fault = fmt.Sprintf("nothing at %s[%d]: %s: the process gets a signal", e.Level, e.Index, p.Near(addr))
		return
	}
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory", walk.Frame), p.cost().HostMemory, 1)
}

// bigPage is what one fault migrates if the pages around it give no reason for
// more.
const bigPage = 64 << 10

// faultRange returns the big page around the address of the walk, within the
// region.
func (p *path) faultRange() (low, high uint64) {
	r := p.Target
	low = p.Addr &^ (bigPage - 1)
	return max(low, r.Base), min(low+bigPage, roundUp(r.end(), kernelPage))
}

// deviceFault walks an access to a managed page that the device has not mapped.
// The access faults, the driver serves the fault, and the access is repeated.
// If many pages fault together, the policy of package uvm may migrate more of
// them at once.
func (p *path) deviceFault() {
	r, own := p.Target, uvm.Processor(p.Device)
	run := p.targetRun(r)
	low, high := p.faultRange()
	place := p.placement(r)
	preferred, _ := r.Managed.Common(p.Addr-r.Base, 1, func(a uvm.Advice) int32 { return int32(a.Preferred) })
	work := uvm.Work{Batches: 1, Blocks: 1, Faults: 1}
	text := ""
	switch {
	case run.At == own:
		p.setPath("managed: fault, mapping, retry")
		text = "serves the fault: maps pages that the device has already"
		p.mapManagedVideo(place, p.Device, low, high)
	case run.At == uvm.CPU && preferred == int32(uvm.CPU):
		p.setPath("managed: fault, mapping over the link, retry")
		text, work.Remote = "serves the fault: maps the page at its preferred location, the host", 1
		p.mapManagedSystem(r, place, run.low, run.high)
	case run.At == uvm.Nowhere:
		p.setPath("managed: fault, first touch, retry")
		text, work.Zeroed = "serves the fault: zeroed pages on the device", high-low
		p.mapManagedVideo(place, p.Device, low, high)
	default:
		p.setPath("managed: fault, migration, retry")
		text = fmt.Sprintf("serves the fault: moves %s to the device and maps them", mmu.Size(high-low))
		if work.In, work.InRuns = high-low, 1; run.At >= 0 {
			work.In, work.InRuns, work.Peer, work.Peers = 0, 0, high-low, 1
		}
		p.mapManagedVideo(place, p.Device, low, high)
	}
	p.addService(text, p.DeviceFaults(work), p.Profile.Managed.DeviceService, p.Profile.Managed.DeviceFault)
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, p.Addr, p.cost().GPULevel)
	if !ok {
		panic("BUG: a managed page is not mapped after its fault")
	}
	p.arrive(walk)
}

// addService appends the driver's service of a fault. Its source is the
// profile's service, or the curve if the profile has no service.
func (p *path) addService(text string, ns float64, service profile.Service, curve profile.Curve) {
	source := curve.Source
	if service.Known() {
		source = service.Batch.Source
	}
	p.addNs(p.tables, Step{Unit: "driver", Text: text, Ns: ns}, source)
}

// cpuFault serves a page fault of the CPU on managed memory.
func (p *path) cpuFault() {
	r := p.Target
	run := p.targetRun(r)
	low, high := p.faultRange()
	work := uvm.Work{Blocks: 1, Faults: 1}
	text := ""
	switch {
	case run.At == uvm.Nowhere:
		p.Path = "managed: first touch"
		text, work.Zeroed = "serves the page fault: zeroed pages on the host", high-low
	case run.OnCPU:
		p.Path = "managed: page fault, mapping, retry"
		text = "serves the page fault: maps pages that the host has already"
	default:
		p.Path = "managed: page fault, migration, retry"
		text = fmt.Sprintf("serves the page fault: moves %s back to the host", mmu.Size(high-low))
		work.Out, work.OutRuns = high-low, 1
	}
	p.addService(text, p.HostFaults(work), p.Profile.Managed.HostService, p.Profile.Managed.HostFault)
	p.mapHostRange(r, p.placement(r), low, high)
}

// viaATS walks an access to memory that is not in the device's table. The host
// translates it for the device.
func (p *path) viaATS() {
	p.Path = "ordinary memory through the host's page table (ATS)"
	p.table(p.tables, "GPU MMU", p.gpu, p.Addr, p.cost().GPULevel)
	p.add(p.tables, "ATS", "the device asks the host to translate", p.cost().ATS, 1)
	p.mapOrdinaryPage(p.Addr)
	walk, _ := p.table(p.tables, "CPU MMU", p.cpu, p.Addr, p.cost().CPULevel)
	if writable, mapped := p.Mapping(p.Addr); mapped && p.Write && !writable {
		p.Path, p.Fault = "fault", "the memory is read-only: "+cu.ErrorIllegalAddress.Name()
		return
	}
	p.add(p.tables, "link", "the access goes to the host's memory, coherently", p.Profile.Link.RoundTrip, 1)
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory, within the link's time", walk.Frame), p.Profile.Link.RoundTrip, 0)
}
