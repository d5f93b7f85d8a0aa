package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/mmu"
	"github.com/ferrygpu/ferry/profile"
)

// Walk says how an access of agent to addr would go now, as context h sees memory.
// It changes nothing and takes no virtual time. An address that the agent must not
// touch is no error: the walk ends with a Fault. Safe for concurrent use.
func (d *Driver) Walk(h cu.Context, addr cu.DevicePtr, agent Agent, write bool) (*Walk, error) {
	const what = "walk an address"
	if agent > CPU {
		return nil, refuse(cu.ErrorInvalidValue, what, "no %v", agent)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return nil, err
	}
	d.sim.run(d, d.host, nil) // managed pages are where they are by now
	p := &path{tables: c.tables(agent, uint64(addr)), Walk: &Walk{Agent: agent, Device: c.dev.ordinal, Addr: addr, Write: write}}
	p.span, p.known = d.space.find(uint64(addr))
	p.What = "ordinary memory"
	if p.known {
		p.What = p.span.words()
	} else if !p.ordinary() {
		p.What = "no memory of this program's"
	}
	switch {
	case agent == CPU:
		p.byCPU()
	case !p.known && p.ordinary() && c.dev.pageable():
		p.byATS()
	case !p.known && p.ordinary() && agent == CopyEngine:
		p.byStaging()
	default:
		p.byDevice()
	}
	return p.Walk, nil
}

// path is a walk under way.
type path struct {
	*Walk
	*tables
	span  span // the memory, if it is known
	known bool
}

// ordinary says whether the address is of memory of the process that the driver
// does not know. Where the system does not tell what is mapped, any host address is.
func (p *path) ordinary() bool {
	addr := uint64(p.Addr)
	if p.known || addr >= 1<<47 || addr < pageSize {
		return false
	}
	_, mapped := mappingAt(addr)
	return mapped || !tellsMappings
}

func (p *path) cost() *profile.Translation { return &p.prof.Translation }

// byDevice is a kernel's or a copy engine's access by the device's own table.
func (p *path) byDevice() {
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, p.deviceAddress(uint64(p.Addr)), p.cost().GPULevel)
	why := ""
	if p.known {
		why = p.c.refuses(p.Agent, p.span)
	}
	switch {
	case why != "" || !p.known:
		p.fail(ok, walk.Last(), why)
	case ok:
		p.arrive(walk)
	case p.known && p.span.region.managed != nil:
		p.migrate()
	default:
		p.byDriver()
	}
}

// byDriver is a copy of page-locked memory that has no address for kernels.
func (p *path) byDriver() {
	r := p.span.region
	p.way(p.systemWay())
	at := p.d.place(r)
	bus := at.host + uint64(p.Addr) - r.base&^(at.page-1)
	if p.bus != nil {
		off := bus - at.host
		bus = at.bus + off
		p.bus.Fill(mmu.Run{Base: at.bus, Bytes: at.bytes, Frame: at.host, Page: fit(p.bus.Format, at.page, at.bus|at.host|at.bytes)})
	}
	p.add(p.tables, "driver", "has it at an address of its own: it is not mapped for kernels", p.cost().GPULevel, 0)
	p.overLink(bus)
}

// fail ends the walk at an address that is not the agent's to touch. Pages are
// larger than allocations, so the table may lead somewhere none the less.
func (p *path) fail(mapped bool, e mmu.Entry, why string) {
	p.Path = "fault"
	near := p.d.space.near(uint64(p.Addr))
	if why != "" {
		near += ", " + why
	}
	if mapped {
		p.Fault = fmt.Sprintf("the page is mapped for its neighbours, and hardware would not notice; the software GPU does: %s", near)
		return
	}
	p.Fault = fmt.Sprintf("nothing at %s[%d]: %s: %s", e.Level, e.Index, near, cu.ErrorIllegalAddress.Name())
}

// arrive goes on from the device's table to memory.
func (p *path) arrive(walk mmu.Walk) {
	e := walk.Last()
	if p.Write && (e.ReadOnly || p.known && p.span.region.local.ReadOnly) {
		p.Path, p.Fault = "fault", "the memory is read-only: "+cu.ErrorIllegalAddress.Name()
		return
	}
	switch e.Aperture {
	case mmu.Video:
		p.way("device memory")
		p.add(p.tables, "memory", fmt.Sprintf("%#x of device %d's memory", walk.Frame, p.Device), p.cost().DeviceMemory, 1)
	case mmu.Peer:
		p.way(p.peerWay())
		p.add(p.tables, "link", fmt.Sprintf("to device %d and back", e.Peer), p.cost().Peer, 1)
		p.add(p.tables, "memory", fmt.Sprintf("%#x of device %d's memory, within that time", walk.Frame, e.Peer), p.cost().Peer, 0)
	case mmu.System:
		p.way(p.systemWay())
		p.overLink(walk.Frame)
	}
}

// way notes what way the access takes, unless that is said already.
func (p *path) way(name string) {
	if p.Path == "" {
		p.Path = name
	}
}

func (p *path) peerWay() string {
	if p.Agent == CopyEngine {
		return "copy between devices"
	}
	return "peer access"
}

func (p *path) systemWay() string {
	switch {
	case p.oneMemory():
		return "the one memory of host and device"
	case p.known && p.span.region.managed != nil:
		return "managed, on the host, mapped over the link"
	case p.Agent == CopyEngine:
		return "copy from page-locked memory"
	}
	return "zero-copy"
}

// overLink reaches host memory at a bus address, through the IOMMU if there is one.
func (p *path) overLink(bus uint64) {
	trip := p.prof.Link.RoundTrip
	if !p.oneMemory() {
		if p.Write {
			p.add(p.tables, "link", fmt.Sprintf("the write goes out to bus address %#x; nothing comes back", bus), trip, 0.5)
		} else {
			p.add(p.tables, "link", fmt.Sprintf("a read of bus address %#x goes out, data come back", bus), trip, 1)
		}
	}
	to := bus
	if p.bus != nil {
		walk, _ := p.table(p.tables, "IOMMU", p.bus, bus, p.cost().IOMMULevel)
		to = walk.Frame
	}
	if p.oneMemory() {
		p.add(p.tables, "memory", fmt.Sprintf("%#x of the one memory", to), p.cost().DeviceMemory, 1)
		return
	}
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory, within the link's time", to), trip, 0)
}

// byStaging is a copy of memory that is not page-locked: the driver's thread
// brings it to or from page-locked memory of its own.
func (p *path) byStaging() {
	p.Path = "copy through the driver's page-locked staging buffer"
	p.ordinaryPage(uint64(p.Addr))
	p.table(p.tables, "CPU MMU", p.cpu, uint64(p.Addr), p.cost().CPULevel)
	copying := p.prof.Copy.HtoH
	p.addNs(p.tables, Step{Unit: "driver", Text: "a thread copies the 4 KiB page by way of the staging buffer", Ns: copying.Ns(kernelPage)}, copying.Source)
	at := p.home + aliasOffset - blockSize
	p.staging(at)
	walk, ok := p.table(p.tables, "GPU MMU", p.gpu, p.deviceAddress(at), p.cost().GPULevel)
	if !ok {
		panic("BUG: the staging buffer is not mapped")
	}
	p.arrive(walk)
}

// byCPU is an access of the host's.
func (p *path) byCPU() {
	addr := uint64(p.Addr)
	if p.ordinary() {
		p.ordinaryPage(addr)
	}
	walk, ok := p.table(p.tables, "CPU MMU", p.cpu, addr, p.cost().CPULevel)
	r := p.span.region
	managed := p.known && r.managed != nil
	switch {
	case ok && managed:
		p.way("managed, on the host")
	case ok:
		p.way("host memory")
	case managed:
		p.comeBack()
		walk, ok = p.table(p.tables, "CPU MMU", p.cpu, addr, p.cost().CPULevel)
	}
	if !ok {
		p.Path = "fault"
		e := walk.Last()
		p.Fault = fmt.Sprintf("nothing at %s[%d]: %s: the process gets a signal", e.Level, e.Index, p.d.space.near(addr))
		return
	}
	p.add(p.tables, "memory", fmt.Sprintf("%#x of host memory", walk.Frame), p.cost().HostMemory, 1)
}
