package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// pageable says whether kernels of the device use ordinary memory of the host,
// through the host's own page tables.
func (dev *device) pageable() bool { return dev.attr(cu.DeviceAttributePageableMemoryAccess) != 0 }

// pageable is a segment of ordinary memory around addr, nil where there is none
// that kernels may use.
//
// What is mapped is asked of the system when a kernel first comes there, and
// found out on Linux only. The segment ends where memory that the driver knows
// begins, for that is looked up and priced on its own. Memory that is unmapped
// while a kernel uses it faults as it would on hardware. No slice or pointer is
// made of it: it may be all of the Go heap, with what the collector does not
// expect pointers to.
func (v *view) pageable(addr uint64) *simt.Segment {
	if !v.ordinary || addr >= deviceBase || addr < pageSize {
		return nil
	}
	m, ok := mappingAt(addr)
	if !ok {
		return nil
	}
	for _, x := range v.drv.space.load() {
		if x.end <= addr {
			m.base = max(m.base, x.end)
		} else if x.base > addr {
			m.end = min(m.end, x.base)
			break
		}
	}
	v.host.Store(true)
	s := &simt.Segment{Base: m.base, Size: m.end - m.base, ReadOnly: !m.writable, Counter: countHost}
	v.watchOrdinary(s)
	return s
}

// mapping is a run of the process's own memory.
type mapping struct {
	base, end uint64
	writable  bool
}
