package grid

import "github.com/ferrygpu/ferry/cu"

// managedKinds are operations on managed memory that move it. Before each sample the whole
// range is on the other side.
var managedKinds = []kind{
	{"managed: kernel first touches", "bytes", powers(4*kib, 64*mib), managedFirstKernel},
	{"managed: CPU first touches", "bytes", powers(4*kib, 64*mib), managedFirstCPU},
	{"managed: kernel touches what the CPU wrote", "bytes", powers(4*kib, 64*mib), managedKernel},
	{"managed: kernel touches what is there", "bytes", powers(4*kib, 64*mib), managedResident},
	{"managed: CPU touches what a kernel wrote", "bytes", powers(4*kib, 64*mib), managedCPU},
	{"managed: prefetch to the device", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return managedPrefetch(r, n, true) }},
	{"managed: prefetch to the host", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return managedPrefetch(r, n, false) }},
}

// increment launches a kernel that reads and writes n bytes, and waits for it.
func (r *rig) increment(p cu.DevicePtr, n int) error {
	return r.launchAndWait("increment", n/16, pack(p, uint64(n/4)))
}

// untouched returns a trial with managed memory that is allocated before each sample and
// freed after it.
func (r *rig) untouched(n int, step func(p cu.DevicePtr) error) trial {
	var p cu.DevicePtr
	return trial{
		prepare: func() (err error) {
			p, err = r.d.MemAllocManaged(r.ctx, uintptr(n), cu.MemAttachGlobal)
			return err
		},
		step:  func() error { return step(p) },
		after: func() error { return r.d.MemFree(r.ctx, p) },
	}
}

func managedFirstKernel(r *rig, n int) (trial, error) {
	return r.untouched(n, func(p cu.DevicePtr) error { return r.increment(p, n) }), nil
}

func managedFirstCPU(r *rig, n int) (trial, error) {
	return r.untouched(n, func(p cu.DevicePtr) error { return r.writePages(hostView(p, n)) }), nil
}

// writePages writes a byte of every page.
func (r *rig) writePages(b []byte) error {
	if err := r.reportAccess(b, true); err != nil {
		return err
	}
	for i := 0; i < len(b); i += page {
		b[i]++
	}
	return nil
}

func managedKernel(r *rig, n int) (trial, error) {
	p, err := r.managed(n)
	return trial{
		prepare: func() error { return r.write(hostView(p, n)) },
		step:    func() error { return r.increment(p, n) },
	}, err
}

func managedResident(r *rig, n int) (trial, error) {
	p, err := r.managed(n)
	return trial{step: func() error { return r.increment(p, n) }}, err
}

func managedCPU(r *rig, n int) (trial, error) {
	p, err := r.managed(n)
	return trial{
		prepare: func() error { return r.increment(p, n) },
		step:    func() error { return r.read(hostView(p, n)) },
	}, err
}

func managedPrefetch(r *rig, n int, in bool) (trial, error) {
	p, err := r.managed(n)
	to, before := cu.CPUDevice, func() error { return r.increment(p, n) }
	if in {
		to, before = cu.Device(int(r.g.CUDevice())), func() error { return r.write(hostView(p, n)) }
	}
	return trial{prepare: before, step: func() error {
		if err := r.d.MemPrefetchAsync(r.ctx, p, uintptr(n), to, r.stream); err != nil {
			return err
		}
		return r.sync()
	}}, err
}
