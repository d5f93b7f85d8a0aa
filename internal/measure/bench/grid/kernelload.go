package grid

import "github.com/ferrygpu/ferry/cu"

const manyBlocks = "kernel of many blocks"

// kernelKinds are kernels. A step is a launch and the wait for its end.
var kernelKinds = []kind{
	{"kernel copies on device", "bytes", powers(4*kib, 64*mib), kernelCopies},
	{"kernel copies what was just copied in", "bytes", powers(4*kib, 32*mib), kernelAfterCopy},
	{"kernel fills", "bytes", powers(4*kib, 64*mib), kernelFills},
	{"kernel adds vectors", "bytes each", powers(4*kib, 32*mib), kernelAdds},
	{"kernel reads words", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 1, false) }},
	{"kernel reads words, stride 32", "bytes read", powers(4*kib, 4*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 32, false) }},
	{"kernel reads pinned", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return kernelOverLink(r, n, true, false) }},
	{"kernel writes pinned", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return kernelOverLink(r, n, false, true) }},
	{"kernel reads and writes pinned", "bytes each", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return kernelOverLink(r, n, true, true) }},
	{"kernel reads pinned words", "bytes", powers(4*kib, 64*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 1, true) }},
	{"kernel reads pinned words, stride 2", "bytes read", powers(4*kib, 32*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 2, true) }},
	{"kernel reads pinned words, stride 8", "bytes read", powers(4*kib, 8*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 8, true) }},
	{"kernel reads pinned words, stride 32", "bytes read", powers(4*kib, 2*mib), func(r *rig, n int) (trial, error) { return kernelWords(r, n, 32, true) }},
	{"kernel computes", "rounds of 4 FMA", powers(16, 1024), kernelComputes},
	{"kernel computes in one block", "rounds of 4 FMA", powers(16, 65536), kernelComputesAlone},
	{manyBlocks, "blocks", powers(1, 1<<18), kernelOfBlocks},
	{"kernel adds atomically to one word", "threads", powers(1<<10, 1<<20), func(r *rig, n int) (trial, error) { return kernelAtomics(r, n, 1) }},
	{"kernel adds atomically to many", "threads", powers(1<<10, 1<<20), func(r *rig, n int) (trial, error) { return kernelAtomics(r, n, 1<<16) }},
}

func kernelCopies(r *rig, n int) (trial, error) {
	a, b, err := r.devices(n)
	return trial{step: func() error { return r.launchAndWait("copy", n/16, pack(a, b, uint64(n))) }}, err
}

// kernelAfterCopy measures the kernel of kernelCopies on data that was just copied from
// the host.
func kernelAfterCopy(r *rig, n int) (trial, error) {
	from, to, err := r.devices(n)
	if err != nil {
		return trial{}, err
	}
	p, err := r.pinned(n, 0)
	return trial{prepare: func() error {
		if err := r.write(bytesOf(p, n)); err != nil {
			return err
		}
		if err := r.d.MemcpyHtoDAsync(r.ctx, from, p, uintptr(n), r.stream); err != nil {
			return err
		}
		return r.sync()
	}, step: func() error { return r.launchAndWait("copy", n/16, pack(to, from, uint64(n))) }}, err
}

func kernelFills(r *rig, n int) (trial, error) {
	a, err := r.device(n)
	return trial{step: func() error { return r.launchAndWait("fill", n/16, pack(a, uint32(3), uint64(n/4))) }}, err
}

func kernelAdds(r *rig, n int) (trial, error) {
	var v [3]cu.DevicePtr
	for i := range v {
		var err error
		if v[i], err = r.device(n); err != nil {
			return trial{}, err
		}
	}
	return trial{step: func() error { return r.launchAndWait("vector_add", n/16, pack(v[0], v[1], v[2], uint64(n/4))) }}, nil
}

// kernelWords reads n bytes, in words that are stride words apart.
func kernelWords(r *rig, n, stride int, pinned bool) (trial, error) {
	from, err := r.memory(n*stride, pinned)
	if err != nil {
		return trial{}, err
	}
	out, err := r.device(16)
	return trial{step: func() error {
		return r.launchAndWait("read_words", n/4, pack(out, from, uint64(n/4), uint64(stride)))
	}}, err
}

// memory returns mapped page-locked memory, or device memory.
func (r *rig) memory(n int, pinned bool) (cu.DevicePtr, error) {
	if !pinned {
		return r.device(n)
	}
	p, err := r.pinned(n, cu.MemHostAllocDeviceMap)
	if err != nil {
		return 0, err
	}
	return r.d.MemHostGetDevicePointer(r.ctx, p, 0)
}

// kernelOverLink copies n bytes with a kernel. The source, the destination or both are in
// host memory.
func kernelOverLink(r *rig, n int, source, destination bool) (trial, error) {
	from, err := r.memory(n, source)
	if err != nil {
		return trial{}, err
	}
	to, err := r.memory(n, destination)
	return trial{step: func() error { return r.launchAndWait("copy", n/16, pack(to, from, uint64(n))) }}, err
}

func kernelComputes(r *rig, rounds int) (trial, error) {
	out, err := r.device(16)
	return trial{step: func() error {
		return r.launchAndWait("arithmetic", 1<<30, pack(out, float32(0.5), uint32(rounds)))
	}}, err
}

func kernelComputesAlone(r *rig, rounds int) (trial, error) {
	out, err := r.device(16)
	return trial{step: func() error {
		return r.launchAndWait("arithmetic", 1, pack(out, float32(0.5), uint32(rounds)))
	}}, err
}

// kernelOfBlocks launches blocks of one warp with almost no work.
func kernelOfBlocks(r *rig, blocks int) (trial, error) {
	out, err := r.device(16)
	return trial{step: func() error {
		if err := r.d.LaunchKernel(r.ctx, r.functions["arithmetic"], cu.Dim3{X: uint32(blocks), Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, r.stream,
			pack(out, float32(0.5), uint32(1))); err != nil {
			return err
		}
		return r.sync()
	}}, err
}

// kernelAtomics adds to the given number of words in turn, with one addition per thread.
func kernelAtomics(r *rig, threadCount, words int) (trial, error) {
	out, err := r.device(4 * words)
	return trial{step: func() error {
		if err := r.d.LaunchKernel(r.ctx, r.functions["add_words"], cu.Dim3{X: uint32(threadCount / threads), Y: 1, Z: 1}, cu.Dim3{X: threads, Y: 1, Z: 1}, 0, r.stream,
			pack(out, uint32(words))); err != nil {
			return err
		}
		return r.sync()
	}}, err
}
