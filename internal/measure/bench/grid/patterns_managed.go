package grid

import "github.com/ferrygpu/ferry/cu"

// adviceKinds are uses of managed memory in part, or with advice. The CPU has written all of
// it before each sample. The size is that of the memory.
var adviceKinds = []kind{
	{"managed: kernel reads what the CPU wrote", "bytes", []int{1 * mib, 4 * mib, 16 * mib}, managedReads(0, nil)},
	{"managed: kernel reads the first 64th", "bytes", []int{4 * mib, 16 * mib, 64 * mib}, managedReads(64, nil)},
	{"managed: kernel reads a word of each 64 KiB", "bytes", []int{4 * mib, 64 * mib}, managedSparse},
	{"managed: CPU reads a byte of each 64 KiB after the kernel", "bytes", []int{1 * mib, 4 * mib, 16 * mib}, managedBack},
	{"managed, preferred on the host: kernel reads", "bytes", []int{1 * mib, 4 * mib, 16 * mib}, managedReads(0, preferHost)},
	{"managed, preferred on the host: kernel changes", "bytes", []int{1 * mib, 4 * mib}, managedChanges(preferHost)},
	{"managed, preferred on the device: kernel reads", "bytes", []int{1 * mib, 4 * mib}, managedReads(0, preferDevice)},
	{"managed, accessed by the device: kernel reads", "bytes", []int{1 * mib, 4 * mib, 16 * mib}, managedReads(0, accessedByDevice)},
	{"managed, accessed by the device: kernel changes", "bytes", []int{1 * mib, 4 * mib}, managedChanges(accessedByDevice)},
	{"managed, read-mostly: kernel reads", "bytes", []int{1 * mib, 4 * mib, 16 * mib}, managedReads(0, readMostly)},
	{"managed, read-mostly: CPU reads after the kernel", "bytes", []int{1 * mib, 4 * mib}, readMostlyBack},
	{"managed, read-mostly: kernel changes", "bytes", []int{1 * mib, 4 * mib}, managedChanges(readMostly)},
}

// advice advises the driver about memory.
type advice func(r *rig, p cu.DevicePtr, n int) error

func preferHost(r *rig, p cu.DevicePtr, n int) error {
	return r.d.MemAdvise(r.ctx, p, uintptr(n), cu.MemAdviseSetPreferredLocation, cu.CPUDevice)
}

func preferDevice(r *rig, p cu.DevicePtr, n int) error {
	return r.d.MemAdvise(r.ctx, p, uintptr(n), cu.MemAdviseSetPreferredLocation, cu.Device(r.g.CUDevice()))
}

func accessedByDevice(r *rig, p cu.DevicePtr, n int) error {
	return r.d.MemAdvise(r.ctx, p, uintptr(n), cu.MemAdviseSetAccessedBy, cu.Device(r.g.CUDevice()))
}

func readMostly(r *rig, p cu.DevicePtr, n int) error {
	return r.d.MemAdvise(r.ctx, p, uintptr(n), cu.MemAdviseSetReadMostly, 0)
}

// advised allocates managed memory and gives advice, which may be nil.
func (r *rig) advised(n int, a advice) (cu.DevicePtr, error) {
	p, err := r.managed(n)
	if err != nil || a == nil {
		return p, err
	}
	return p, a(r, p, n)
}

// reader returns a kernel that reads n bytes of managed memory.
func (r *rig) reader(p cu.DevicePtr, n int) (job, error) {
	blocks := min(blocksFor(n/4), 528)
	out, err := r.device(4 * threads * blocks)
	return job{"add_up", blocks, threads, pack(p, out, uint64(n/4))}, err
}

// managedReads measures a kernel that reads all, or the first part if that is not 0.
func managedReads(part int, a advice) func(r *rig, n int) (trial, error) {
	return func(r *rig, n int) (trial, error) {
		p, err := r.advised(n, a)
		if err != nil {
			return trial{}, err
		}
		j, err := r.reader(p, n/max(1, part))
		t := r.then(r.kernelOf(j))
		t.prepare = func() error { return r.write(hostView(p, n)) }
		return t, err
	}
}

// managedSparse measures a kernel with a thread for each 64 KiB.
func managedSparse(r *rig, n int) (trial, error) {
	const stride = 64 * kib
	p, err := r.managed(n)
	if err != nil {
		return trial{}, err
	}
	out, err := r.device(4 * n / stride)
	t := r.then(r.kernelOf(job{"touch", blocksFor(n / stride), threads, pack(p, out, uint64(n/4), uint64(stride/4))}))
	t.prepare = func() error { return r.write(hostView(p, n)) }
	return t, err
}

func managedChanges(a advice) func(r *rig, n int) (trial, error) {
	return func(r *rig, n int) (trial, error) {
		p, err := r.advised(n, a)
		t := r.then(r.kernelOf(r.changer(p, n)))
		t.prepare = func() error { return r.write(hostView(p, n)) }
		return t, err
	}
}

// changer returns a kernel that changes n bytes.
func (r *rig) changer(p cu.DevicePtr, n int) job {
	return job{"change", min(blocksFor(n/4), 528), threads, pack(p, uint64(n/4))}
}

// managedBack measures the CPU's reads of what a kernel has changed.
func managedBack(r *rig, n int) (trial, error) {
	p, err := r.managed(n)
	change := r.kernelOf(r.changer(p, n))
	return trial{
		prepare: func() error { return repeat(1, change, r.sync) },
		step:    func() error { return r.readEvery(hostView(p, n), 64*kib) },
	}, err
}

// readEvery reads the first byte of each stride of b.
func (r *rig) readEvery(b []byte, stride int) error {
	for i := 0; i < len(b); i += stride {
		if err := r.read(b[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// readMostlyBack measures the CPU's reads after a kernel has read. Both have a copy then.
func readMostlyBack(r *rig, n int) (trial, error) {
	p, err := r.advised(n, readMostly)
	if err != nil {
		return trial{}, err
	}
	j, err := r.reader(p, n)
	return trial{
		prepare: func() error {
			if err := r.write(hostView(p, n)); err != nil {
				return err
			}
			return repeat(1, r.kernelOf(j), r.sync)
		},
		step: func() error { return r.read(hostView(p, n)) },
	}, err
}
