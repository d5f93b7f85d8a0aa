package softgpu

import (
	"math"
	"os"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// checkEvery is how many bytes of host memory are allocated between two looks at what this
// computer has free. A look takes some 50 us.
const checkEvery = 16 << 20

// HostMemory returns how many bytes of host memory the emulated machine can still page-lock,
// and how many it has. Both are math.MaxUint64 if the profile does not say. It is safe for
// concurrent use.
func (d *Driver) HostMemory() (left, total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hostMemoryLeft()
}

// hostMemoryLeft is HostMemory for callers that hold Driver.mu.
func (d *Driver) hostMemoryLeft() (left, total uint64) {
	total = uint64(d.prof.Host.Memory.Value)
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

// mayLock refuses page-locked memory that the emulated machine does not have or, if it is
// fresh, that this computer cannot provide now. It looks again after checkEvery bytes.
func (d *Driver) mayLock(n uint64, fresh bool, what string) error {
	if d.unchecked += n; d.unchecked < checkEvery {
		return nil
	}
	d.unchecked = 0
	if left, total := d.hostMemoryLeft(); n > left {
		return refuse(cu.ErrorOutOfMemory, what, "the emulated machine %s has %s of host memory, of which %s are not page-locked",
			d.prof.Name, size(total), size(left))
	}
	if free := d.freeMemory(); fresh && n > free {
		return refuse(cu.ErrorOutOfMemory, what, "this computer, which emulates the machine, has %s free: free some, or take less", size(free))
	}
	return nil
}

// freeMemory returns how much memory this computer and the control group of this process
// can provide now.
func freeMemory() uint64 {
	if runtime.GOOS != "linux" {
		return hostMemory()
	}
	m := pin.ReadMachine(os.DirFS("/"))
	return min(m.Available, m.Group.Left)
}
