package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// place is one side of a copy: bytes of a region, or of the caller's ordinary memory.
type place struct {
	region *region    // nil for pageable memory
	off    uint64     // into the region
	host   cu.HostPtr // of pageable memory
	n      uint64
}

// class is how a copy treats a place.
type class uint8

const (
	classPageable class = iota
	classPinned
	classDevice
)

// class of managed memory is where most of its bytes are; what nobody has
// touched counts as the device's.
func (p place) class() class {
	switch {
	case p.region == nil:
		return classPageable
	case p.region.kind == kindManaged:
		if p.region.managed.pages.MostlyCPU(p.off, p.n) {
			return classPinned
		}
		return classDevice
	case p.region.kind.onHost():
		return classPinned
	}
	return classDevice
}

// side says what an address of a copy must be.
type side uint8

const (
	sideDevice side = iota // an address that the driver knows
	sideHost               // a host pointer, known or not
	sideAny                // either: unified addressing tells
)

// resolve finds what n bytes at addr are. p is the pointer of a host address
// that came as one.
func (c *contextState) resolve(addr uint64, p cu.HostPtr, n uint64, want side, what string) (place, error) {
	d := c.drv
	if addr+n < addr {
		return place{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x run past the end of all addresses", size(n), addr)
	}
	x, ok := d.space.find(addr)
	if ok && x.known(c, want) {
		if addr+n > x.end {
			return place{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x end %s past the end of %s",
				size(n), addr, size(addr+n-x.end), x.words())
		}
		return place{region: x.region, off: addr - x.base, n: n}, nil
	}
	switch {
	case want == sideDevice || want == sideAny && !d.uva || addr >= deviceBase:
		return place{}, refuse(cu.ErrorInvalidValue, what, "%#x is no address of this context: %s", addr, d.space.near(addr))
	case addr < pageSize:
		return place{}, refuse(cu.ErrorInvalidValue, what, "the address is %#x", addr)
	}
	if y, into := d.space.overlaps(addr, addr+n); into && !ok {
		return place{}, refuse(cu.ErrorInvalidValue, what, "%s at %#x begin in ordinary memory and run into %s", size(n), addr, y.words())
	}
	if p == nil {
		p = hostPointer(addr)
	}
	return place{host: p, n: n}, nil
}

// known says whether copies of c know x by this address.
func (x span) known(c *contextState, want side) bool {
	r := x.region
	if r.state.Load() == stateFreed {
		return false
	}
	if c.drv.uva {
		return true
	}
	switch {
	case !r.kind.onHost():
		return r.ctx == c && want != sideHost
	case x.alias:
		return r.seenBy(c) && want != sideHost
	}
	return r.seenBy(c) && want != sideDevice
}

// bytes are those of the place now. It fails if a stream-ordered allocation is
// not there yet, or no longer.
func (p place) bytes(what string) ([]byte, error) {
	if p.region == nil {
		return bytesAt(p.host, p.n), nil
	}
	if !p.region.live() {
		state := "was freed"
		if p.region.state.Load() == statePending && !p.region.gone() {
			state = "is not allocated yet at this point of the stream"
		}
		return nil, &cu.Fault{Result: cu.ErrorIllegalAddress, Kernel: "(" + what + ")",
			Addr: cu.DevicePtr(p.region.base + p.off), Bytes: int(p.n), Near: "the memory " + state}
	}
	return p.all(), nil
}

// all is the bytes of the place, whether they are there now or not.
func (p place) all() []byte {
	if p.region == nil {
		return bytesAt(p.host, p.n)
	}
	return p.region.data[p.off : p.off+p.n]
}
