package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/mmu"
	"github.com/ferrygpu/ferry/profile"
)

// Page tables are made when somebody looks: from the address table, the contexts'
// rights and the places of managed pages as they are then, so that they cannot
// disagree with what kernels and copies do. Only the frames behind memory stay
// the same from one look to the next.

// frames is which physical memory stands behind what, and what is free.
type frames struct {
	host     mmu.Frames // the host's memory
	bus      mmu.Frames // addresses that the IOMMU translates
	video    []mmu.Frames
	placed   map[any]*placement // by *region or, for small device memory, *chunk
	ordinary map[uint64]uint64  // frames of pages that the driver does not know
}

// placement is where memory lies physically.
type placement struct {
	bytes uint64

	page, host, bus uint64              // of host memory: the CPU's pages, their frames, where the IOMMU has them
	blocks          map[blockKey]uint64 // and those of managed memory on devices

	onDevice bool
	dev      int
	low      uint64 // of device memory: the address of its first page
	video    uint64 // and its frame
}

const (
	hostFrames = 4 << 30 // below are devices and firmware
	busFrames  = 1 << 39
	kernelPage = 4096
	blockSize  = 2 << 20 // of managed memory, and of the pages of device memory
)

// tables are the page tables of a moment, as one context has them.
type tables struct {
	prof  *profile.Profile
	d     *Driver
	c     *contextState
	cpu   *mmu.Table
	gpu   *mmu.Table
	bus   *mmu.Table // nil without an IOMMU
	asked uint64     // the address that is asked about
	home  uint64     // where the device's window begins, for tables of fewer bits
}

// tables builds the tables of a context. The driver maps more for its copy
// engines than for kernels. mu is held.
func (c *contextState) tables(agent Agent, asked uint64) *tables {
	d := c.drv
	t := &tables{prof: d.prof, d: d, c: c, asked: asked, cpu: &mmu.Table{Format: cpuFormat(d.prof)}, gpu: &mmu.Table{Format: gpuFormat(c.dev)}}
	t.home = deviceBase + uint64(c.dev.ordinal)*deviceWindow
	if d.prof.Host.IOMMU.Value != 0 {
		t.bus = &mmu.Table{Format: mmu.IOMMU}
	}
	d.reclaim()
	for _, x := range d.space.load() {
		r := x.region
		if r.kind.onHost() && !x.alias {
			t.hostPages(r)
		}
		if c.refuses(agent, x) == "" && x.base == r.device {
			t.devicePages(x)
		}
	}
	return t
}

// oneMemory says whether host and device share theirs.
func (t *tables) oneMemory() bool { return t.c.dev.attr(cu.DeviceAttributeIntegrated) != 0 }

// refuses says why agent must not touch x; "" if it may.
func (c *contextState) refuses(agent Agent, x span) string {
	if agent != CopyEngine {
		v := view{drv: c.drv, ctx: c, stream: c.legacy, peers: c.peers, concurrent: c.dev.concurrentManaged()}
		return v.refuses(x)
	}
	if !x.region.live() || !x.known(c, sideDevice) && !x.known(c, sideHost) {
		return "not known to this context"
	}
	return ""
}

// cpuFormat is the table of the profile's CPU, by its pages.
func cpuFormat(p *profile.Profile) *mmu.Format {
	switch {
	case p.Host.Page.Value == 64<<10:
		return mmu.ARM64Large
	case p.Has(cu.DeviceAttributeIntegrated):
		return mmu.ARM64
	}
	return mmu.X86
}

// gpuFormat is the table of the device's generation. A machine older than Pascal
// that has unified addressing is shown with Pascal's, whose addresses suffice.
func gpuFormat(dev *device) *mmu.Format {
	major, minor := dev.attr(cu.DeviceAttributeComputeCapabilityMajor), dev.attr(cu.DeviceAttributeComputeCapabilityMinor)
	switch {
	case major >= 9:
		return mmu.Hopper
	case major == 8:
		return mmu.Ampere
	case major >= 6 || dev.drv.uva:
		return mmu.Pascal
	case major*10+minor >= 20:
		return mmu.Fermi
	}
	return mmu.Tesla
}

// videoPage is the page of device memory.
func (t *tables) videoPage() uint64 {
	for _, n := range t.gpu.Format.Sizes() {
		if n <= blockSize {
			return n
		}
	}
	panic("BUG: no page for device memory")
}

// deviceAddress is what the device calls addr. Tables of 40 bits know a device's
// memory from 0, and mapped host memory in the upper half.
func (t *tables) deviceAddress(addr uint64) uint64 {
	if t.gpu.Format.Bits >= 49 || addr < t.home {
		return addr
	}
	off := addr - t.home
	if off >= aliasOffset {
		return off - aliasOffset + 1<<39
	}
	return off
}

// hostPages enters what the CPU sees of r.
func (t *tables) hostPages(r *region) {
	p := t.d.place(r)
	low := r.base &^ (p.page - 1)
	if r.managed != nil {
		t.managedHost(r, p)
		return
	}
	t.cpu.Fill(mmu.Run{Base: low, Bytes: p.bytes, Frame: p.host, Page: p.page})
}

// devicePages enters what the device sees of x.
func (t *tables) devicePages(x span) {
	r := x.region
	at := t.deviceAddress(x.base)
	switch {
	case r.managed != nil:
		t.managedPages(r)
	case r.kind.onHost():
		p := t.d.place(r)
		low := r.base &^ (p.page - 1)
		t.system(at-(r.base-low), low, p.bytes, p)
	default:
		t.video(r, at)
	}
}

// video enters device memory: small allocations share pages.
func (t *tables) video(r *region, at uint64) {
	p := t.d.placeVideo(r)
	low, page := at-(r.base-p.low), t.videoPage()
	run := mmu.Run{Base: low, Bytes: p.bytes, Frame: p.video, Page: page, Aperture: mmu.Video}
	if r.dev != t.c.dev {
		run.Aperture, run.Peer = mmu.Peer, r.dev.ordinal
	}
	t.gpu.Fill(run)
}

// system enters host memory at low, that the CPU has mapped, as the device's at.
func (t *tables) system(at, low, bytes uint64, p *placement) {
	for _, run := range t.cpu.Runs() {
		a, b := max(run.Base, low), min(run.Base+run.Bytes, low+bytes)
		if a >= b {
			continue
		}
		to := run.Frame + (a - run.Base)
		if t.bus != nil {
			bus := p.bus + (a - low)
			t.bus.Fill(mmu.Run{Base: bus, Bytes: b - a, Frame: to, Page: fit(t.bus.Format, run.Page, bus|to|(b-a))})
			to = bus
		}
		base := at + (a - low)
		t.gpu.Fill(mmu.Run{Base: base, Bytes: b - a, Frame: to, Page: fit(t.gpu.Format, run.Page, base|to|(b-a))})
	}
}

// fit is the largest page of a format that is no larger than the CPU's and to
// which all bits of aligned allow.
func fit(f *mmu.Format, most, aligned uint64) uint64 {
	for _, n := range f.Sizes() {
		if n <= most && aligned%n == 0 {
			return n
		}
	}
	return kernelPage
}

// staging enters the driver's own staging buffer, of which one page is enough to
// show.
func (t *tables) staging(at uint64) {
	key := stagingKey(t.c.dev.ordinal)
	p := t.d.phys.placed[key]
	if p == nil {
		page := uint64(t.prof.Host.Page.Value)
		p = &placement{page: page, bytes: page, host: t.d.phys.host.Take(page, page), bus: t.d.phys.bus.Take(page, page)}
		t.d.phys.placed[key] = p
	}
	to := p.host
	if t.bus != nil {
		t.bus.Fill(mmu.Run{Base: p.bus, Bytes: p.bytes, Frame: p.host, Page: fit(t.bus.Format, p.page, p.bus|p.host)})
		to = p.bus
	}
	base := t.deviceAddress(at)
	t.gpu.Fill(mmu.Run{Base: base, Bytes: p.bytes, Frame: to, Page: fit(t.gpu.Format, p.page, base|to)})
}

// stagingKey is the staging buffer of a device.
type stagingKey int
