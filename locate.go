package ferry

import (
	"slices"
	"sync"
	"weak"

	"github.com/ferrygpu/ferry/cu"
)

// ranges knows where all page-locked, registered and managed memory is, by rising
// address. A slice of such memory that comes back as a plain slice is no plain
// memory: the hardware would read it after Copy has returned.
var ranges struct {
	mu   sync.RWMutex
	list []hostRange
}

// hostRange is the host's addresses of an allocation, which may be lost.
type hostRange struct {
	start, end uint64
	a          weak.Pointer[allocation]
}

// list adds an allocation that has a host address.
func (a *allocation) list() {
	if a.host == nil || a.bytes == 0 {
		return
	}
	start := uint64(deviceAddress(a.host))
	ranges.mu.Lock()
	defer ranges.mu.Unlock()
	i := firstAfter(start)
	ranges.list = slices.Insert(ranges.list, i, hostRange{start, start + uint64(a.bytes), weak.Make(a)})
}

// unlist takes it out, before its addresses can be somebody else's.
func (a *allocation) unlist() {
	if a.host == nil || a.bytes == 0 {
		return
	}
	start := uint64(deviceAddress(a.host))
	ranges.mu.Lock()
	defer ranges.mu.Unlock()
	if i := firstAfter(start); i < len(ranges.list) && ranges.list[i].start == start {
		ranges.list = slices.Delete(ranges.list, i, i+1)
	}
}

// firstAfter is the index of the first range that ends after an address. ranges.mu
// is held.
func firstAfter(p uint64) int {
	i, _ := slices.BinarySearchFunc(ranges.list, p, func(r hostRange, p uint64) int {
		if r.end > p {
			return 1
		}
		return -1
	})
	return i
}

// located is the region itself, or, for a plain slice of memory that the driver
// knows, the region of the allocation it lies in. A slice that lies in one only
// in part is refused, as drivers do.
func (r *region) located() (*region, error) {
	if r == nil || r.a != nil || r.bad != nil || r.bytes == 0 {
		return r, nil
	}
	start := uint64(deviceAddress(r.host))
	end := start + uint64(r.bytes)
	ranges.mu.RLock()
	var found hostRange
	if i := firstAfter(start); i < len(ranges.list) && ranges.list[i].start < end {
		found = ranges.list[i]
	}
	ranges.mu.RUnlock()
	if found.end == 0 {
		return r, nil
	}
	a := found.a.Value()
	switch {
	case a == nil:
		return nil, refuse("%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", r)
	case start < found.start || end > found.end:
		return nil, refuse("%v reaches across the edge of %v: copy what is inside and what is outside separately", r, a)
	}
	out := &region{a: a, host: r.host, n: r.n, bytes: r.bytes, part: true}
	if a.dev != 0 {
		out.dev = a.dev + cu.DevicePtr(start-found.start)
	}
	return out, nil
}
