package grid

import "github.com/ferrygpu/ferry/cu"

// ownKinds are allocations, registrations and their opposites.
var ownKinds = []kind{
	{"host memory: allocate", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return hostMemory(r, n, true) }},
	{"host memory: free", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return hostMemory(r, n, false) }},
	{"host memory: register", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return registration(r, n, true) }},
	{"host memory: unregister", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return registration(r, n, false) }},
	{"device memory: allocate", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return deviceMemory(r, n, true) }},
	{"device memory: free", "bytes", powers(4*kib, 256*mib), func(r *rig, n int) (trial, error) { return deviceMemory(r, n, false) }},
	{"pool memory: allocate and free", "bytes", powers(4*kib, 16*mib), poolMemory},
}

// timeOne returns a trial that allocates and frees. It times alloc if timeAlloc is set, else
// free.
func timeOne(timeAlloc bool, alloc, free func() error) trial {
	if timeAlloc {
		return trial{step: alloc, after: free}
	}
	return trial{prepare: alloc, step: free}
}

func hostMemory(r *rig, n int, timeAlloc bool) (trial, error) {
	var p cu.HostPtr
	alloc := func() (err error) { p, err = r.d.MemHostAlloc(r.ctx, uintptr(n), 0); return err }
	return timeOne(timeAlloc, alloc, func() error { return r.d.MemFreeHost(r.ctx, p) }), nil
}

func registration(r *rig, n int, timeRegister bool) (trial, error) {
	p := pointer(r.pageable(n))
	register := func() error { return r.d.MemHostRegister(r.ctx, p, uintptr(n), 0) }
	return timeOne(timeRegister, register, func() error { return r.d.MemHostUnregister(r.ctx, p) }), nil
}

func deviceMemory(r *rig, n int, timeAlloc bool) (trial, error) {
	var p cu.DevicePtr
	alloc := func() (err error) { p, err = r.d.MemAlloc(r.ctx, uintptr(n)); return err }
	return timeOne(timeAlloc, alloc, func() error { return r.d.MemFree(r.ctx, p) }), nil
}

func poolMemory(r *rig, n int) (trial, error) {
	return trial{
		step: func() error {
			p, err := r.d.MemAllocAsync(r.ctx, uintptr(n), r.stream)
			if err != nil {
				return err
			}
			return r.d.MemFreeAsync(r.ctx, p, r.stream)
		},
		after: r.sync,
	}, nil
}
