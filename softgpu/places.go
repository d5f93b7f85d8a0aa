package softgpu

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
)

// MemPrefetchAsyncV2 moves pages to a place in stream order. The emulated host has one memory,
// whatever node of it is named.
func (d *Driver) MemPrefetchAsyncV2(h cu.Context, dptr cu.DevicePtr, bytes uintptr, location cu.MemLocation, flags uint32, stream cu.Stream) error {
	if err := d.since("cuMemPrefetchAsync", 12020); err != nil {
		return err
	}
	return d.prefetchCall(h, dptr, bytes, stream, func(what string) (cu.Device, error) {
		if flags != 0 {
			return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		}
		return d.destination(location, what)
	})
}

// MemAdviseV2 gives advice on pages and a place.
func (d *Driver) MemAdviseV2(h cu.Context, dptr cu.DevicePtr, bytes uintptr, how cu.MemAdvice, location cu.MemLocation) error {
	if err := d.since("cuMemAdvise", 12020); err != nil {
		return err
	}
	return d.adviseCall(h, dptr, bytes, how, func(what string) (cu.Device, error) {
		if location.Type < cu.MemLocationTypeDevice || location.Type > cu.MemLocationTypeHostNUMACurrent {
			return 0, refuse(cu.ErrorInvalidValue, what, "location type %d is not known, also where the advice uses none", location.Type)
		}
		switch how {
		case cu.MemAdviseSetAccessedBy, cu.MemAdviseUnsetAccessedBy:
			if location.Type != cu.MemLocationTypeDevice && location.Type != cu.MemLocationTypeHost {
				return 0, refuse(cu.ErrorInvalidValue, what, "location type %d cannot access memory: devices and the host can", location.Type)
			}
		case cu.MemAdviseSetPreferredLocation:
		default:
			return cu.CPUDevice, nil // not used
		}
		return d.destination(location, what)
	})
}

// destination returns the device of a location, or CPUDevice for the host and its nodes.
func (d *Driver) destination(at cu.MemLocation, what string) (cu.Device, error) {
	switch at.Type {
	case cu.MemLocationTypeDevice:
		if at.ID < 0 {
			return 0, refuse(cu.ErrorInvalidDevice, what, "no device %d, there are %d", at.ID, len(d.devices))
		}
		return cu.Device(at.ID), d.checkLocation(cu.Device(at.ID), what)
	case cu.MemLocationTypeHost, cu.MemLocationTypeHostNUMACurrent:
		return cu.CPUDevice, nil
	case cu.MemLocationTypeHostNUMA:
		if nearest := d.devices[0].attr(cu.DeviceAttributeHostNUMAID); at.ID < 0 || int(at.ID) > max(0, nearest) {
			return 0, refuse(cu.ErrorInvalidValue, what, "the emulated host has no NUMA node %d", at.ID)
		}
		return cu.CPUDevice, nil
	}
	return 0, refuse(cu.ErrorInvalidValue, what, "location type %d is not known", at.Type)
}

// managedSpan is a range of a list of ranges, and where it goes.
type managedSpan struct {
	r      *region
	off, n uint64
	to     cu.Device
}

// MemPrefetchBatchAsync makes several prefetches in stream order.
func (d *Driver) MemPrefetchBatchAsync(h cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) error {
	if err := d.since("cuMemPrefetchBatchAsync", 13000); err != nil {
		return err
	}
	return d.rangesCall(h, "prefetch a list of ranges", dptrs, sizes, &places{locations, firsts}, flags, stream, false)
}

// MemDiscardBatchAsync makes the contents of several ranges undefined, in stream order.
func (d *Driver) MemDiscardBatchAsync(h cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, flags uint64, stream cu.Stream) error {
	if err := d.since("cuMemDiscardBatchAsync", 13000); err != nil {
		return err
	}
	return d.rangesCall(h, "discard a list of ranges", dptrs, sizes, nil, flags, stream, true)
}

// MemDiscardAndPrefetchBatchAsync does both.
func (d *Driver) MemDiscardAndPrefetchBatchAsync(h cu.Context, dptrs []cu.DevicePtr, sizes []uintptr, locations []cu.MemLocation, firsts []uintptr, flags uint64, stream cu.Stream) error {
	if err := d.since("cuMemDiscardAndPrefetchBatchAsync", 13000); err != nil {
		return err
	}
	return d.rangesCall(h, "discard and prefetch a list of ranges", dptrs, sizes, &places{locations, firsts}, flags, stream, true)
}

// places are the locations of a list of ranges: each is for the ranges from a first one on.
type places struct {
	locations []cu.MemLocation
	firsts    []uintptr
}

// rangesCall makes a call for a list of ranges. It queues nothing unless all are right.
func (d *Driver) rangesCall(h cu.Context, what string, dptrs []cu.DevicePtr, sizes []uintptr, to *places, flags uint64, stream cu.Stream, discard bool) error {
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	for _, dev := range d.devices {
		if !dev.concurrentManaged() {
			return dev.lacks(what, cu.DeviceAttributeConcurrentManagedAccess)
		}
	}
	switch {
	case s == s.ctx.legacy:
		return refuse(cu.ErrorInvalidValue, what, "the default stream cannot be used")
	case flags != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	case len(dptrs) == 0 || len(dptrs) != len(sizes):
		return refuse(cu.ErrorInvalidValue, what, "there are %d addresses and %d sizes: one size for each of one or more addresses", len(dptrs), len(sizes))
	}
	spans, err := d.managedSpans(dptrs, sizes, to, what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil { // as a prefetch
		return err
	}
	for _, x := range spans {
		if discard {
			if err := d.queueDiscard(c, s, x, what); err != nil {
				return err
			}
		}
		if to != nil {
			if err := d.queuePrefetch(c, s, x.r, x.off, x.n, x.to, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// managedSpans finds the ranges of a list and their places.
func (d *Driver) managedSpans(dptrs []cu.DevicePtr, sizes []uintptr, to *places, what string) ([]managedSpan, error) {
	if err := to.check(len(dptrs), what); err != nil {
		return nil, err
	}
	spans := make([]managedSpan, len(dptrs))
	next, dst := 0, cu.CPUDevice
	for i, p := range dptrs {
		if to != nil && next < len(to.firsts) && int(to.firsts[next]) == i {
			var err error
			if dst, err = d.destination(to.locations[next], what); err != nil {
				return nil, asInvalidValue(err, what)
			}
			next++
		}
		r, off, err := d.managedRange(p, uint64(sizes[i]), what)
		if err != nil {
			return nil, err
		}
		spans[i] = managedSpan{r, off, uint64(sizes[i]), dst}
	}
	return spans, nil
}

// asInvalidValue returns an error about a location with the code of calls that take lists of locations.
func asInvalidValue(err error, what string) error {
	return refuse(cu.ErrorInvalidValue, what, "%v", err)
}

// check fails unless each of n ranges has a place. Discards have none: to is nil.
func (to *places) check(n int, what string) error {
	switch {
	case to == nil:
		return nil
	case len(to.locations) == 0 || len(to.locations) != len(to.firsts) || len(to.locations) > n:
		return refuse(cu.ErrorInvalidValue, what, "there are %d locations and %d first ranges for %d ranges: one first range for each location, at most one location for each range",
			len(to.locations), len(to.firsts), n)
	case to.firsts[0] != 0:
		return refuse(cu.ErrorInvalidValue, what, "the first location begins at range %d, must begin at range 0", to.firsts[0])
	}
	for k, first := range to.firsts {
		if first >= uintptr(n) || k > 0 && first <= to.firsts[k-1] {
			return refuse(cu.ErrorInvalidValue, what, "location %d begins at range %d: the numbers must ascend and be below %d", k, first, n)
		}
	}
	return nil
}

// queueDiscard queues the discard of a range. What the range holds then is not defined: zeros under
// Eager, else what new memory holds. The pages stay where they are.
func (d *Driver) queueDiscard(c *contextState, s *streamState, x managedSpan, what string) error {
	f := &fill{what: what, dst: span{region: x.r, off: x.off, n: x.n}, pattern: d.undefined()}
	w := f.work(c.dev, &d.prof.Copy.Memset, resMemory)
	w.engine, w.moved = engineNone, moved{}
	w.price = func(*op) cost { return cost{ns: d.prof.Queue.Gap.Value} }
	_, err := s.enqueue(w, what)
	return err
}

// undefined returns 8 bytes that stand for contents which are not defined.
func (d *Driver) undefined() []byte {
	switch d.schedule {
	case Lazy:
		return binary.LittleEndian.AppendUint64(nil, lazyPattern)
	case Random:
		return binary.LittleEndian.AppendUint64(nil, d.rng.Uint64())
	}
	return make([]byte, 8)
}
