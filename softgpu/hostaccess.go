package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/uvm"
)

// HostAccess tells that the host is about to touch n bytes at p: managed pages
// that are on a device come over, and the host waits for them. Page-locked memory
// that is written lies in the CPU's caches afterwards, where the device reads it
// more slowly, once; where the CPU does not cache it, reads cost the host's time.
// Where devices and host must not use managed memory at once, no kernel that may
// use these bytes can be queued or running.
func (d *Driver) HostAccess(p cu.HostPtr, n uintptr, write bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, end := addressOf(p), addressOf(p)+uint64(n)
	for addr < end {
		x, ok := d.space.overlaps(addr, end)
		if !ok {
			return nil
		}
		if m := x.region.managed; m != nil {
			d.sim.run(d, d.host, nil)
			if err := d.hostMayTouch(x); err != nil {
				return err
			}
			from, to := max(addr, x.base), min(end, x.end)
			price := hostFaults(&d.prof.Managed)
			ns := 0.0
			w := m.pages.CPU(from-x.base, to-from, write, d.host, func(w uvm.Work) float64 {
				piece := price(w)
				ns += piece
				return piece
			})
			d.host += ns + w.Slept
		} else {
			d.hostUse(x.region, min(end, x.end)-max(addr, x.base), write)
		}
		addr = x.end
	}
	return nil
}

// hostMayTouch refuses the host managed memory that a kernel may be using, where
// CONCURRENT_MANAGED_ACCESS is 0.
func (d *Driver) hostMayTouch(x span) error {
	what := "host access to " + x.words()
	refused := func(n int, whose string) error {
		return refuse(cu.ErrorIllegalState, what, "%d kernels of %s are queued or running, and this machine has %v = 0: synchronize first, or attach the memory to the host or to a stream of its own with StreamAttachMemAsync",
			n, whose, cu.DeviceAttributeConcurrentManagedAccess)
	}
	switch a := x.region.managed.attach.Load(); a.flags {
	case cu.MemAttachHost:
	case cu.MemAttachSingle:
		if n := a.stream.kernels; n > 0 && !a.stream.ctx.dev.concurrentManaged() {
			return refused(n, "the stream that it is attached to")
		}
	default:
		for _, c := range d.contexts() {
			if c.kernels > 0 && !c.dev.concurrentManaged() {
				return refused(c.kernels, "a context")
			}
		}
	}
	return nil
}

func (dev *device) concurrentManaged() bool {
	return dev.attr(cu.DeviceAttributeConcurrentManagedAccess) != 0
}

// hostUse is the host's use of n bytes of page-locked memory. Reads may cost it
// more than those of ordinary memory do.
func (d *Driver) hostUse(r *region, n uint64, write bool) {
	switch {
	case write:
		d.written += n
		r.dirty = dirty{bytes: n, upTo: d.written}
	case r.alloc&cu.MemHostAllocWriteCombined != 0:
		d.host += d.prof.Host.WriteCombinedRead.Ns(float64(n))
	default:
		d.host += d.prof.Host.UncachedRead.Ns(float64(n))
	}
}

// dirty is what the host wrote of a region last and no device has read since.
type dirty struct {
	bytes uint64
	upTo  uint64 // Driver.written after it
}

// clean is what the device's read of n bytes of r takes longer by because the
// host's caches have them modified, once. What has been written since has pushed
// them out to slower, larger caches, or to memory: the curve says what all bytes
// down to a depth cost.
func (d *Driver) clean(r *region, n uint64) float64 {
	w := r.dirty
	r.dirty = dirty{}
	if w.bytes == 0 {
		return 0
	}
	depth := float64(d.written - w.upTo)
	fresh := &d.prof.Link.Fresh
	return max(0, fresh.Ns(depth+float64(min(n, w.bytes)))-fresh.Ns(depth))
}
