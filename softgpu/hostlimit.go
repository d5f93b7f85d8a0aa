package softgpu

import (
	"cmp"
	"math"
	"os"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/room"
)

// checkEvery is how many bytes of host memory are allocated between two looks at what this
// computer has free. A look takes some 50 us.
const checkEvery = 16 << 20

// HostMemory returns how many bytes of host memory the emulated machine can still page-lock,
// and how many in all. Both are math.MaxUint64 if the profile does not say. It is safe for
// concurrent use.
func (d *Driver) HostMemory() (left, total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hostMemoryLeft()
}

// hostMemoryLeft is HostMemory for callers that hold Driver.mu.
func (d *Driver) hostMemoryLeft() (left, total uint64) {
	host := &d.prof.Host
	total = uint64(cmp.Or(host.Pinned.Value, host.Memory.Value))
	if total == 0 {
		return math.MaxUint64, math.MaxUint64
	}
	used := uint64(0)
	for _, c := range d.contexts() {
		for r := range c.regions {
			if r.kind == kindHost || r.kind == kindRegistered {
				used += r.size
			}
		}
	}
	return total - min(used, total), total
}

// mayLock refuses page-locked memory that the emulated machine does not have. It looks again
// after checkEvery bytes.
func (d *Driver) mayLock(n uint64, fresh bool, what string) error {
	if d.unchecked += n; d.unchecked < checkEvery {
		return nil
	}
	d.unchecked = 0
	if left, total := d.hostMemoryLeft(); n > left {
		return refuse(cu.ErrorOutOfMemory, what, "the emulated machine %s can page-lock %s of host memory, of which %s are not page-locked",
			d.prof.Name, size(total), size(left))
	}
	if fresh {
		return d.mayProvide(n, what)
	}
	return nil
}

// mayManage refuses managed memory that this computer cannot provide. The program writes it
// without a call, so nothing could refuse it later: the system would end the process. It
// looks again after checkEvery bytes.
func (d *Driver) mayManage(n uint64, what string) error {
	if d.unchecked += n; d.unchecked < checkEvery {
		return nil
	}
	d.unchecked = 0
	return d.mayProvide(n, what)
}

// mayProvide refuses n bytes of host memory that this computer, or a control group that this
// process is in, cannot provide beside the host memory that is allocated already and was
// never touched.
func (d *Driver) mayProvide(n uint64, what string) error {
	free := d.freeMemory()
	if n > free {
		return refuse(cu.ErrorOutOfMemory, what, "this computer, which emulates the machine, has %s free: free some, or take less", size(free))
	}
	if promised := d.backedBytes - d.deviceBytes; promised <= free-n {
		return nil
	}
	if promised := d.untouched(); promised > free-n {
		return refuse(cu.ErrorOutOfMemory, what, "this computer, which emulates the machine, has %s free, of which %s are allocated and not yet written: free some, or take less",
			size(free), size(promised))
	}
	return nil
}

// untouched returns how many bytes of allocated host memory this computer has not provided.
func (d *Driver) untouched() uint64 {
	n := uint64(0)
	for _, c := range d.contexts() {
		for r := range c.regions {
			if r.kind.onHost() && r.backing != nil {
				n += r.size - r.resident(r.data)
			}
		}
	}
	return n
}

// freeMemory returns how much memory this computer and the control groups of this process
// can provide now.
func freeMemory() uint64 {
	if runtime.GOOS != "linux" {
		return hostMemory()
	}
	return room.Read(os.DirFS("/")).Free()
}
