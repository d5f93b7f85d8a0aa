package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
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
			d.host += x.region.hostUse(min(end, x.end)-max(addr, x.base), write, &d.prof.Host)
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

// hostUse is what the host's use of n bytes of page-locked memory costs it more
// than that of ordinary memory, in nanoseconds.
func (r *region) hostUse(n uint64, write bool, host *profile.Host) float64 {
	switch {
	case write:
		r.fresh.Store(true)
		return 0
	case r.alloc&cu.MemHostAllocWriteCombined != 0:
		return host.WriteCombinedRead.Ns(float64(n))
	}
	return host.UncachedRead.Ns(float64(n))
}
