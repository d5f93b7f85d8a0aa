package softgpu

import (
	"maps"
	"slices"

	"github.com/ferrygpu/ferry/internal/mmu"
)

// reclaim takes the frames back of memory that is gone. mu is held.
func (d *Driver) reclaim() {
	f := d.phys
	if f == nil {
		f = &frames{placed: map[any]*placement{}, ordinary: map[uint64]uint64{}}
		f.host.Next, f.bus.Next, f.video = hostFrames, busFrames, make([]mmu.Frames, len(d.devices))
		d.phys = f
	}
	alive := map[any]bool{}
	for _, x := range d.space.load() {
		alive[x.region] = true
		if x.region.chunk != nil {
			alive[x.region.chunk] = true
		}
	}
	for key, p := range f.placed {
		if _, driver := key.(stagingKey); !driver && !alive[key] {
			f.release(p)
			delete(f.placed, key)
		}
	}
}

func (f *frames) release(p *placement) {
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

// place is where host memory r lies. It keeps to the CPU's pages; huge ones where
// this computer has them behind it.
func (d *Driver) place(r *region) *placement {
	if p := d.phys.placed[r]; p != nil {
		return p
	}
	p := &placement{page: uint64(d.prof.Host.Page.Value)}
	if huge := uint64(d.prof.Host.Huge.Value); p.page == kernelPage && huge == blockSize && r.base%huge == 0 && r.size%huge == 0 && hugePages(r.base, r.end()) {
		p.page = huge
	}
	low := r.base &^ (p.page - 1)
	p.bytes = roundUp(r.end(), p.page) - low
	p.host = d.phys.host.Take(p.bytes, p.page)
	p.bus = d.phys.bus.Take(p.bytes, p.page)
	d.phys.placed[r] = p
	return p
}

// placeVideo is where device memory r lies: whole pages, which small allocations
// share.
func (d *Driver) placeVideo(r *region) *placement {
	var key any = r
	low, bytes := r.base, roundUp(r.charge, chunkSize)
	if r.chunk != nil {
		key, low, bytes = r.chunk, r.chunk.base, chunkSize
	}
	p := d.phys.placed[key]
	if p == nil {
		p = &placement{bytes: bytes, low: low, onDevice: true, dev: r.dev.ordinal}
		p.video = d.phys.video[p.dev].Take(bytes, chunkSize)
		d.phys.placed[key] = p
	}
	return p
}

// blockKey is a block of managed memory on a device.
type blockKey struct {
	dev  int
	base uint64
}

// block is the frame of a block of managed memory on a device. It stays its own
// until the memory is freed, as a block keeps its chunk until it is evicted.
func (p *placement) block(d *Driver, dev *device, base uint64) uint64 {
	key := blockKey{dev.ordinal, base}
	frame, ok := p.blocks[key]
	if !ok {
		frame = d.phys.video[dev.ordinal].Take(blockSize, blockSize)
		if p.blocks == nil {
			p.blocks = map[blockKey]uint64{}
		}
		p.blocks[key] = frame
	}
	return frame
}

// ordinaryPage enters the page at addr of memory that the driver does not know.
func (t *tables) ordinaryPage(addr uint64) {
	page := uint64(t.prof.Host.Page.Value)
	base := addr &^ (page - 1)
	frame, ok := t.d.phys.ordinary[base]
	if !ok {
		if len(t.d.phys.ordinary) == mostOrdinary { // the first ones are the least likely to be asked for again
			for _, old := range slices.Sorted(maps.Keys(t.d.phys.ordinary))[:mostOrdinary/2] {
				t.d.phys.host.Give(t.d.phys.ordinary[old], page)
				delete(t.d.phys.ordinary, old)
			}
		}
		frame = t.d.phys.host.Take(page, page)
		t.d.phys.ordinary[base] = frame
	}
	t.cpu.Fill(mmu.Run{Base: base, Bytes: page, Frame: frame, Page: page})
}

// mostOrdinary bounds how many ordinary pages are remembered.
const mostOrdinary = 4096
