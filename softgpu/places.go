package softgpu

import (
	"github.com/ferrygpu/ferry/internal/mmu"
	"github.com/ferrygpu/ferry/internal/uvm"
)

// managedRun is a run of whole pages of managed memory that are alike, by host
// address.
type managedRun struct {
	low, high uint64
	uvm.Run
}

// mappedBy says whether a processor reaches the pages without a fault.
func (r *managedRun) mappedBy(p uvm.Processor) bool { return r.Mapped>>(uint32(p)&31)&1 != 0 }

// mostWalked is how much of a large allocation the tables show: what is around the
// address that is asked about.
const mostWalked = 256 << 20

// managedRuns are the pages of managed region r. Small allocations share pages in
// the driver's policy, here each has its own: of a page that is in two runs, the
// one that holds the address asked about counts.
func (t *tables) managedRuns(r *region) (runs []managedRun) {
	off, n := uint64(0), r.size
	if n > mostWalked {
		if t.asked < r.base || t.asked >= r.end() {
			return nil
		}
		middle := (t.asked - r.base) &^ (blockSize - 1)
		off = middle - min(middle, mostWalked/2)
		n = min(n-off, mostWalked)
	}
	for _, run := range r.managed.pages.Residency(off, n) {
		low, high := r.base+run.Off, r.base+run.Off+run.Bytes
		if t.asked >= low && t.asked < high {
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

// askedRun is the run of the address asked about.
func (t *tables) askedRun(r *region) managedRun {
	for _, run := range t.managedRuns(r) {
		if t.asked >= run.low && t.asked < run.high {
			return run
		}
	}
	panic("BUG: no run holds an address of its region")
}

// managedHost enters what the CPU sees of managed memory.
func (t *tables) managedHost(r *region, p *placement) {
	for _, run := range t.managedRuns(r) {
		if run.mappedBy(uvm.CPU) && run.OnCPU || t.oneMemory() {
			t.hostRange(r, p, run.low, run.high)
		}
	}
}

// hostRange enters pages of r in the CPU's table.
func (t *tables) hostRange(r *region, p *placement, low, high uint64) {
	first := r.base &^ (p.page - 1)
	low &^= p.page - 1
	t.cpu.Fill(mmu.Run{Base: low, Bytes: roundUp(high-low, p.page), Frame: p.host + (low - first), Page: p.page})
}

// managedPages enters the pages of managed memory where they are for the device.
// Where host and device have one memory they are there for both.
func (t *tables) managedPages(r *region) {
	p, own := t.d.place(r), uvm.Processor(t.c.dev.ordinal)
	for _, run := range t.managedRuns(r) {
		switch {
		case t.oneMemory():
			t.managedSystem(r, p, run.low, run.high)
		case !run.mappedBy(own):
		case run.At == own:
			t.managedVideo(p, t.c.dev, run.low, run.high)
		case run.At >= 0:
			t.managedVideo(p, t.d.devices[run.At], run.low, run.high)
		case run.OnCPU:
			t.managedSystem(r, p, run.low, run.high)
		}
	}
}

// managedSystem enters managed pages that the device reaches in host memory, which
// the CPU has mapped, or the driver has without it.
func (t *tables) managedSystem(r *region, p *placement, low, high uint64) {
	t.hostRange(r, p, low, high)
	first := r.base &^ (p.page - 1)
	t.system(low, low, high-low, &placement{bus: p.bus + (low - first)})
}

// managedVideo enters managed memory on a device, a block of 2 MiB at a time: in
// one page if all of it is there, else in smaller ones.
func (t *tables) managedVideo(p *placement, dev *device, base, end uint64) {
	for base < end {
		block := base &^ (blockSize - 1)
		past := min(end, block+blockSize)
		frame := p.block(t.d, dev, block) + (base - block)
		run := mmu.Run{Base: base, Bytes: past - base, Frame: frame, Aperture: mmu.Video,
			Page: fit(t.gpu.Format, blockSize, base|frame|(past-base))}
		if dev != t.c.dev {
			run.Aperture, run.Peer = mmu.Peer, dev.ordinal
		}
		t.gpu.Fill(run)
		base = past
	}
}
