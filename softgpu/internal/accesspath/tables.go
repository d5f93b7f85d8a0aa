package accesspath

import (
	"maps"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/mmu"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// Page tables are built for each walk: from the address table, the contexts'
// rights and the current places of managed pages. So they always agree with
// what kernels and copies do. Only the physical frames stay the same from one
// walk to the next.

// Frames maps memory to physical frames, and records the free frames.
type Frames struct {
	host     mmu.Frames // the host's memory
	bus      mmu.Frames // addresses that the IOMMU translates
	video    []mmu.Frames
	placed   map[any]*placement // by Owner.Key, by Pages.Key for device memory, or by stagingKey
	ordinary map[uint64]uint64  // frames of pages that the driver does not know
}

// Used returns up to where frames were ever used: of the host's memory, of addresses behind the IOMMU,
// and of the memory of a device, in bytes from their beginning.
func (f *Frames) Used(device int) (host, bus, video uint64) {
	return f.host.Next - hostFrames, f.bus.Next - busFrames, f.video[device].Next
}

// placement is the physical place of memory.
type placement struct {
	bytes uint64

	page, host, bus uint64              // of host memory: the CPU's page size, the frame, and the address behind the IOMMU
	blocks          map[blockKey]uint64 // of managed memory: the frames on devices

	onDevice bool
	dev      int
	low      uint64 // of device memory: the address of its first page
	video    uint64 // of device memory: the frame of its first page
}

const (
	hostFrames = 4 << 30 // devices and firmware lie below
	busFrames  = 1 << 39
	kernelPage = 4096
	blockSize  = 2 << 20 // of managed memory, and page size of device memory
)

// tables are the page tables at one time, as one context sees them.
type tables struct {
	*Frames
	*Machine
	*Access
	cpu *mmu.Table
	gpu *mmu.Table
	bus *mmu.Table // nil without an IOMMU
}

// newTables builds the tables of a machine for an access.
func (f *Frames) newTables(m *Machine, a *Access) *tables {
	t := &tables{Frames: f, Machine: m, Access: a, cpu: &mmu.Table{Format: cpuFormat(m.Profile)}, gpu: &mmu.Table{Format: m.gpuFormat()}}
	if m.Profile.Host.IOMMU.Value != 0 {
		t.bus = &mmu.Table{Format: mmu.IOMMU}
	}
	f.reclaim(m)
	for x := range m.Ranges {
		if x.Owner.OnHost && !x.Alias {
			t.mapHostPages(x.Owner)
		}
		if x.ForDevice {
			t.mapDevicePages(x)
		}
	}
	return t
}

// oneMemory reports whether host and device share one memory.
func (t *tables) oneMemory() bool { return t.Profile.Has(cu.DeviceAttributeIntegrated) }

// cpuFormat returns the page table format of the profile's CPU.
func cpuFormat(p *profile.Profile) *mmu.Format {
	switch {
	case p.Host.Page.Value == 64<<10:
		return mmu.ARM64Large
	case p.Has(cu.DeviceAttributeIntegrated):
		return mmu.ARM64
	}
	return mmu.X86
}

// gpuFormat returns the page table format of the device's generation. A device
// older than Pascal with unified addressing gets Pascal's format, because its
// own has too few address bits.
func (m *Machine) gpuFormat() *mmu.Format {
	major, _ := m.Profile.Attribute(cu.DeviceAttributeComputeCapabilityMajor)
	minor, _ := m.Profile.Attribute(cu.DeviceAttributeComputeCapabilityMinor)
	switch {
	case major >= 9:
		return mmu.Hopper
	case major == 8:
		return mmu.Ampere
	case major >= 6 || m.Unified:
		return mmu.Pascal
	case major*10+minor >= 20:
		return mmu.Fermi
	}
	return mmu.Tesla
}

// videoPage returns the page size of device memory.
func (t *tables) videoPage() uint64 {
	for _, n := range t.gpu.Format.Sizes() {
		if n <= blockSize {
			return n
		}
	}
	panic("BUG: no page for device memory")
}

// deviceAddress returns the device's address of addr. Tables of 40 bits have
// device memory from 0, and mapped host memory in the upper half.
func (t *tables) deviceAddress(addr uint64) uint64 {
	if t.gpu.Format.Bits >= 49 || addr < t.Window {
		return addr
	}
	off := addr - t.Window
	if off >= t.HostOffset {
		return off - t.HostOffset + 1<<39
	}
	return off
}

// mapHostPages maps r for the CPU.
func (t *tables) mapHostPages(r *Owner) {
	p := t.placement(r)
	low := r.Base &^ (p.page - 1)
	if r.Managed != nil {
		t.mapManagedHost(r, p)
		return
	}
	t.cpu.Fill(mmu.Run{Base: low, Bytes: p.bytes, Frame: p.host, Page: p.page})
}

// mapDevicePages maps x for the device.
func (t *tables) mapDevicePages(x Range) {
	r := x.Owner
	at := t.deviceAddress(x.Base)
	switch {
	case r.Managed != nil:
		t.mapManagedPages(r)
	case r.OnHost:
		p := t.placement(r)
		low := r.Base &^ (p.page - 1)
		t.mapSystem(at-(r.Base-low), low, p.bytes, p)
	default:
		t.mapVideo(r, at)
	}
}

// mapVideo maps device memory. Small allocations share pages.
func (t *tables) mapVideo(r *Owner, at uint64) {
	p := t.videoPlacement(r)
	low, page := at-(r.Base-p.low), t.videoPage()
	run := mmu.Run{Base: low, Bytes: p.bytes, Frame: p.video, Page: page, Aperture: mmu.Video}
	if r.Device != t.Device {
		run.Aperture, run.Peer = mmu.Peer, r.Device
	}
	t.gpu.Fill(run)
}

// mapSystem maps host memory at low, which the CPU has mapped, at the device's
// address at.
func (t *tables) mapSystem(at, low, bytes uint64, p *placement) {
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

// fit returns the largest page of a format that is at most as large as the
// CPU's page, and to which aligned is aligned.
func fit(f *mmu.Format, most, aligned uint64) uint64 {
	for _, n := range f.Sizes() {
		if n <= most && aligned%n == 0 {
			return n
		}
	}
	return kernelPage
}

// mapStaging maps one page of the driver's staging buffer, which is enough for
// a walk.
func (t *tables) mapStaging(at uint64) {
	key := stagingKey(t.Device)
	p := t.placed[key]
	if p == nil {
		page := uint64(t.Profile.Host.Page.Value)
		p = &placement{page: page, bytes: page, host: t.host.Take(page, page), bus: t.Frames.bus.Take(page, page)}
		t.placed[key] = p
	}
	to := p.host
	if t.bus != nil {
		t.bus.Fill(mmu.Run{Base: p.bus, Bytes: p.bytes, Frame: p.host, Page: fit(t.bus.Format, p.page, p.bus|p.host)})
		to = p.bus
	}
	base := t.deviceAddress(at)
	t.gpu.Fill(mmu.Run{Base: base, Bytes: p.bytes, Frame: to, Page: fit(t.gpu.Format, p.page, base|to)})
}

// stagingKey identifies the staging buffer of a device.
type stagingKey int

// managedRun is a run of whole pages of managed memory in the same state, by
// host address.
type managedRun struct {
	low, high uint64
	uvm.Run
}

// mappedBy reports whether a processor accesses the pages without a fault.
func (r *managedRun) mappedBy(p uvm.Processor) bool { return r.Mapped>>(uint32(p)&31)&1 != 0 }

// maxWalked bounds the part of a large allocation that the tables contain. It
// lies around the address of the walk.
const maxWalked = 256 << 20

// managedRuns returns the page runs of managed region r. Small allocations
// share pages in the driver's policy, but have their own pages here. If a page
// is in two runs, the run with the address of the walk counts.
func (t *tables) managedRuns(r *Owner) (runs []managedRun) {
	off, n := uint64(0), r.Size
	if n > maxWalked {
		if t.Addr < r.Base || t.Addr >= r.end() {
			return nil
		}
		middle := (t.Addr - r.Base) &^ (blockSize - 1)
		off = middle - min(middle, maxWalked/2)
		n = min(n-off, maxWalked)
	}
	for _, run := range r.Managed.Residency(off, n) {
		low, high := r.Base+run.Off, r.Base+run.Off+run.Bytes
		if t.Addr >= low && t.Addr < high {
			runs = append(runs, managedRun{low &^ (kernelPage - 1), roundUp(high, kernelPage), run})
			continue
		}
		low = roundUp(low, kernelPage)
		if high != r.end() {
			high &^= kernelPage - 1
		}
		if high = roundUp(high, kernelPage); low < high {
			runs = append(runs, managedRun{low, high, run})
		}
	}
	return runs
}

// targetRun returns the run that contains the address of the walk.
func (t *tables) targetRun(r *Owner) managedRun {
	for _, run := range t.managedRuns(r) {
		if t.Addr >= run.low && t.Addr < run.high {
			return run
		}
	}
	panic("BUG: no run holds an address of its region")
}

// mapManagedHost maps managed memory for the CPU.
func (t *tables) mapManagedHost(r *Owner, p *placement) {
	for _, run := range t.managedRuns(r) {
		if run.mappedBy(uvm.CPU) && run.OnCPU || t.oneMemory() {
			t.mapHostRange(r, p, run.low, run.high)
		}
	}
}

// mapHostRange maps pages of r for the CPU.
func (t *tables) mapHostRange(r *Owner, p *placement, low, high uint64) {
	first := r.Base &^ (p.page - 1)
	low &^= p.page - 1
	t.cpu.Fill(mmu.Run{Base: low, Bytes: roundUp(high-low, p.page), Frame: p.host + (low - first), Page: p.page})
}

// mapManagedPages maps managed memory for the device, at its current places. If
// host and device have one memory, both map it.
func (t *tables) mapManagedPages(r *Owner) {
	p, own := t.placement(r), uvm.Processor(t.Device)
	for _, run := range t.managedRuns(r) {
		switch {
		case t.oneMemory():
			t.mapManagedSystem(r, p, run.low, run.high)
		case !run.mappedBy(own):
		case run.At == own:
			t.mapManagedVideo(p, t.Device, run.low, run.high)
		case run.At >= 0:
			t.mapManagedVideo(p, int(run.At), run.low, run.high)
		case run.OnCPU:
			t.mapManagedSystem(r, p, run.low, run.high)
		}
	}
}

// mapManagedSystem maps managed pages that are in host memory for the device.
// It first maps them for the CPU, because the device's mapping follows the
// CPU's.
func (t *tables) mapManagedSystem(r *Owner, p *placement, low, high uint64) {
	t.mapHostRange(r, p, low, high)
	first := r.Base &^ (p.page - 1)
	t.mapSystem(low, low, high-low, &placement{bus: p.bus + (low - first)})
}

// mapManagedVideo maps managed memory that is on a device, one block of 2 MiB
// at a time. A block that is all there gets one page, else smaller ones.
func (t *tables) mapManagedVideo(p *placement, dev int, base, end uint64) {
	for base < end {
		block := base &^ (blockSize - 1)
		past := min(end, block+blockSize)
		frame := p.block(t.Frames, dev, block) + (base - block)
		run := mmu.Run{Base: base, Bytes: past - base, Frame: frame, Aperture: mmu.Video,
			Page: fit(t.gpu.Format, blockSize, base|frame|(past-base))}
		if dev != t.Device {
			run.Aperture, run.Peer = mmu.Peer, dev
		}
		t.gpu.Fill(run)
		base = past
	}
}

// reclaim frees the frames of memory that was freed.
func (f *Frames) reclaim(m *Machine) {
	if f.placed == nil {
		f.placed, f.ordinary = map[any]*placement{}, map[uint64]uint64{}
		f.host.Next, f.bus.Next, f.video = hostFrames, busFrames, make([]mmu.Frames, m.Devices)
	}
	alive := map[any]bool{}
	for x := range m.Ranges {
		alive[x.Owner.Key], alive[x.Owner.Pages.Key] = true, true
	}
	for key, p := range f.placed {
		if _, driver := key.(stagingKey); !driver && !alive[key] {
			f.release(p)
			delete(f.placed, key)
		}
	}
}

func (f *Frames) release(p *placement) {
	if p.onDevice {
		f.video[p.dev].Give(p.video, p.bytes)
		return
	}
	f.host.Give(p.host, p.bytes)
	f.bus.Give(p.bus, p.bytes)
	for key, frame := range p.blocks {
		f.video[key.dev].Give(frame, blockSize)
	}
}

// placement returns the physical place of host memory r. It has the CPU's page
// size, or huge pages if this computer uses huge pages for it.
func (t *tables) placement(r *Owner) *placement {
	if p := t.placed[r.Key]; p != nil {
		return p
	}
	p := &placement{page: uint64(t.Profile.Host.Page.Value)}
	if huge := uint64(t.Profile.Host.Huge.Value); p.page == kernelPage && huge == blockSize && r.Base%huge == 0 && r.Size%huge == 0 && t.HugePages(r.Base, r.end()) {
		p.page = huge
	}
	low := r.Base &^ (p.page - 1)
	p.bytes = roundUp(r.end(), p.page) - low
	p.host = t.host.Take(p.bytes, p.page)
	p.bus = t.Frames.bus.Take(p.bytes, p.page)
	t.placed[r.Key] = p
	return p
}

// videoPlacement returns the physical place of device memory r.
func (t *tables) videoPlacement(r *Owner) *placement {
	p := t.placed[r.Pages.Key]
	if p == nil {
		p = &placement{bytes: r.Pages.Bytes, low: r.Pages.Base, onDevice: true, dev: r.Device}
		p.video = t.video[p.dev].Take(p.bytes, blockSize)
		t.placed[r.Pages.Key] = p
	}
	return p
}

// blockKey identifies a block of managed memory on a device.
type blockKey struct {
	dev  int
	base uint64
}

// block returns the frame of a block of managed memory on a device. The frame
// stays reserved until the memory is freed.
func (p *placement) block(f *Frames, dev int, base uint64) uint64 {
	key := blockKey{dev, base}
	frame, ok := p.blocks[key]
	if !ok {
		frame = f.video[dev].Take(blockSize, blockSize)
		if p.blocks == nil {
			p.blocks = map[blockKey]uint64{}
		}
		p.blocks[key] = frame
	}
	return frame
}

// mapOrdinaryPage maps the page at addr of memory that the driver does not
// know.
func (t *tables) mapOrdinaryPage(addr uint64) {
	page := uint64(t.Profile.Host.Page.Value)
	base := addr &^ (page - 1)
	frame, ok := t.ordinary[base]
	if !ok {
		if len(t.ordinary) == maxOrdinary { // the first ones are the least likely to be walked again
			for _, old := range slices.Sorted(maps.Keys(t.ordinary))[:maxOrdinary/2] {
				t.host.Give(t.ordinary[old], page)
				delete(t.ordinary, old)
			}
		}
		frame = t.host.Take(page, page)
		t.ordinary[base] = frame
	}
	t.cpu.Fill(mmu.Run{Base: base, Bytes: page, Frame: frame, Page: page})
}

// maxOrdinary bounds the number of ordinary pages whose frames are kept.
const maxOrdinary = 4096
