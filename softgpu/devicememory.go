package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// deviceMemory hands out addresses and bytes of a device.
//
// Addresses rise and are not used again until the window is used up, so that
// what reaches freed memory is found. Small allocations share chunks of 2 MiB.
type deviceMemory struct {
	dev   *device
	next  uint64 // of large allocations and chunks
	alias uint64 // of mapped host memory without unified addressing
	chunk *chunk // that small allocations are cut from
	small uint64 // bytes charged for small allocations
	large uint64 // and for large ones
}

const (
	allocAlign = 512
	chunkSize  = 2 << 20
	smallMax   = chunkSize / 2
)

// chunk is memory that small allocations share.
type chunk struct {
	base uint64
	used uint64
	live int
	back *backing
}

func (m *deviceMemory) init(dev *device) {
	m.dev = dev
	m.next = deviceBase + uint64(dev.ordinal)*deviceWindow
	m.alias = m.next + aliasOffset
}

func (m *deviceMemory) total() uint64 { return uint64(m.dev.drv.prof.Memory.Value) }

// used counts as the hardware's allocator does, in steps of 2 MiB.
func (m *deviceMemory) used() uint64 {
	return uint64(m.dev.drv.prof.Reserved.Value) + m.large + roundUp(m.small, chunkSize) + m.dev.poolReserved()
}

func (m *deviceMemory) free() uint64 {
	used := m.used()
	return m.total() - min(used, m.total())
}

// alloc finds n bytes for r. Memory of pools is charged by the pool.
func (m *deviceMemory) alloc(r *region, n uint64, what string) error {
	d := m.dev.drv
	if n > m.total() {
		return refuse(cu.ErrorOutOfMemory, what, "device %d has %s in all", m.dev.ordinal, size(m.total()))
	}
	full := roundUp(n, allocAlign)
	held := m.used()
	if r.kind != kindPool {
		before := *m
		if full <= smallMax {
			m.small += full
		} else {
			m.large += roundUp(full, chunkSize)
		}
		if m.used() > m.total() {
			*m = before
			return refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", m.dev.ordinal, size(m.free()), size(m.total()))
		}
	}
	err := m.place(r, n, full, what)
	if err != nil && r.kind != kindPool {
		m.uncharge(full)
	}
	if err != nil {
		return err
	}
	if r.kind != kindPool && m.used() > held {
		d.host += d.prof.Own.DeviceGrow.Ns(float64(n))
	}
	r.size, r.charge, r.dev, r.device = n, full, m.dev, r.base
	r.segments(false)
	d.space.insert(span{base: r.base, end: r.base + n, region: r})
	return nil
}

// place gives r an address and bytes.
func (m *deviceMemory) place(r *region, n, full uint64, what string) error {
	d := m.dev.drv
	if full > smallMax {
		b, err := d.back(roundUp(full, pageSize), reserveDevice, what)
		if err != nil {
			return err
		}
		r.back, r.base, r.data = b, m.take(roundUp(full, chunkSize)), b.data[:n:n]
		return nil
	}
	if m.chunk == nil || m.chunk.used+full > chunkSize {
		b, err := d.back(chunkSize, reserveDevice, what)
		if err != nil {
			return err
		}
		old := m.chunk
		m.chunk = &chunk{base: m.take(chunkSize), back: b}
		m.drop(old)
	}
	c := m.chunk
	r.chunk, r.base, r.data = c, c.base+c.used, c.back.data[c.used:c.used+n:c.used+n]
	c.used += full + allocAlign // a gap here too
	c.live++
	return nil
}

// take is the next n addresses that nothing has. A gap before them stays free so
// that running past the end of one allocation never reaches the next.
func (m *deviceMemory) take(n uint64) uint64 {
	low := deviceBase + uint64(m.dev.ordinal)*deviceWindow
	for {
		if m.next+n+chunkSize > low+aliasOffset {
			m.next = low
		}
		base := m.next
		m.next += n + chunkSize
		x, taken := m.dev.drv.space.overlaps(base, base+n)
		if !taken {
			return base
		}
		m.next = roundUp(x.end, chunkSize)
	}
}

// takeAlias is the same for the device's addresses of host memory.
func (m *deviceMemory) takeAlias(n uint64) uint64 {
	base := m.alias
	m.alias += roundUp(n, chunkSize) + chunkSize
	return base
}

// freeRegion takes r out of the table and gives its bytes back.
func (m *deviceMemory) freeRegion(r *region) {
	r.state.Store(stateFreed)
	m.dev.drv.space.remove(r)
	if r.kind != kindPool {
		held := m.used()
		m.uncharge(r.charge)
		if m.used() < held {
			m.dev.drv.host += m.dev.drv.prof.Own.DeviceShrink.Ns(float64(r.size))
		}
	}
	if r.back != nil {
		m.dev.drv.bury(r.back)
	}
	if r.chunk != nil {
		r.chunk.live--
		m.drop(r.chunk)
	}
}

// drop gives a chunk back that nothing needs any more.
func (m *deviceMemory) drop(c *chunk) {
	if c != nil && c != m.chunk && c.live == 0 {
		m.dev.drv.bury(c.back)
	}
}

func (m *deviceMemory) uncharge(full uint64) {
	if full <= smallMax {
		m.small -= full
	} else {
		m.large -= roundUp(full, chunkSize)
	}
}

func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }
