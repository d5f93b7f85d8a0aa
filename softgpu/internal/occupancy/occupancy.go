package occupancy

import "math"

// Device has the limits of a device. Sizes are in bytes, unless they count something
// else.
type Device struct {
	Major, Minor int // compute capability

	Processors          int // multiprocessors
	WarpSize            int
	ThreadsPerBlock     int
	ThreadsPerProcessor int
	BlocksPerProcessor  int

	RegistersPerBlock     int
	RegistersPerProcessor int

	SharedPerBlock      int // without opt-in
	SharedPerBlockOptin int
	SharedPerProcessor  int
	SharedReserved      int // taken by the driver for each block
}

// Kernel has what a kernel takes of a multiprocessor.
type Kernel struct {
	Threads       int // most threads of a block
	Registers     int // per thread
	StaticShared  int
	DynamicShared int // most bytes of dynamic shared memory that a launch may ask for
	Barriers      int // barriers that a block uses; 0 and 1 limit nothing

	// Carveout is the preferred share of shared memory in percent of what the
	// multiprocessor has. A negative number is no preference. CarveoutSet says that the
	// number is the kernel's attribute, and not what a cache preference stands for.
	Carveout    int
	CarveoutSet bool `json:",omitempty"`
}

// ActiveBlocks returns how many blocks of the given number of threads one multiprocessor
// runs at once. dynamic is the dynamic shared memory of a block in bytes. The result is 0
// if not even one block fits.
func (d *Device) ActiveBlocks(k *Kernel, threads, dynamic int) int {
	if threads <= 0 || dynamic < 0 || threads > d.ThreadsPerBlock || d.WarpSize <= 0 {
		return 0
	}
	warps := divideUp(threads, d.WarpSize)
	n := min(d.byWarps(warps), d.byRegisters(k, warps), d.byShared(k, dynamic), d.byBarriers(k))
	if d.BlocksPerProcessor > 0 {
		n = min(n, d.BlocksPerProcessor)
	}
	return n
}

// byWarps returns how many blocks have warp slots.
func (d *Device) byWarps(warps int) int { return d.ThreadsPerProcessor / d.WarpSize / warps }

// registerUnit is the number of registers in which a warp gets its registers.
const registerUnit = 256

// byRegisters returns how many blocks have registers. Each partition of a multiprocessor
// has its own registers. The check of one block assumes that all partitions get equally
// many warps.
func (d *Device) byRegisters(k *Kernel, warps int) int {
	perWarp := roundUp(k.Registers*d.WarpSize, registerUnit)
	if perWarp <= 0 {
		return math.MaxInt
	}
	parts := d.partitions()
	if perWarp*roundUp(warps, parts) > d.RegistersPerBlock {
		return 0
	}
	return d.RegistersPerProcessor / parts / perWarp * parts / warps
}

// partitions returns how many parts of a multiprocessor have registers of their own.
func (d *Device) partitions() int {
	switch {
	case d.Major == 6 && d.Minor == 0, d.Major == 2:
		return 2
	case d.Major < 2:
		return 1
	}
	return 4
}

// byShared returns how many blocks have shared memory.
func (d *Device) byShared(k *Kernel, dynamic int) int {
	block := d.sharedOf(k, dynamic)
	switch {
	case dynamic > k.DynamicShared || block > d.sharedLimit(k):
		return 0
	case block == 0:
		return math.MaxInt
	}
	have := d.preferred(k)
	if block > have {
		have = d.configuration(block)
	}
	return have / block
}

// sharedOf returns the bytes that a block takes.
func (d *Device) sharedOf(k *Kernel, dynamic int) int {
	return roundUp(k.StaticShared+dynamic+d.SharedReserved, d.sharedUnit())
}

// sharedLimit returns the most bytes that a block can take. Without opt-in it is less.
func (d *Device) sharedLimit(k *Kernel) int {
	limit := d.SharedPerBlock
	if k.StaticShared+k.DynamicShared > d.SharedPerBlock {
		limit = max(limit, d.SharedPerBlockOptin)
	}
	return limit + d.SharedReserved
}

// sharedUnit is the number of bytes in which a block gets shared memory.
func (d *Device) sharedUnit() int {
	switch {
	case d.Major >= 8, d.Major == 2:
		return 128
	case d.Major < 2:
		return 512
	}
	return 256
}

// preferred returns the shared memory of a multiprocessor with the kernel's preference.
func (d *Device) preferred(k *Kernel) int {
	if d.Major < 7 || k.Carveout < 0 {
		return d.SharedPerProcessor
	}
	return d.configuration(min(k.Carveout, 100) * d.SharedPerProcessor / 100)
}

// configurations has the sizes of shared memory in KiB between which a multiprocessor
// can be switched, up to what it has.
var configurations = []int{0, 8, 16, 32, 64, 100, 132, 164, 196, 228}

// configuration returns the smallest configuration with at least the given bytes.
func (d *Device) configuration(bytes int) int {
	if d.Major < 7 || d.Major == 7 && d.Minor == 5 && bytes > 32<<10 {
		return d.SharedPerProcessor
	}
	if d.Major == 7 && d.Minor == 5 {
		return 32 << 10
	}
	for _, kib := range configurations {
		if kib<<10 >= bytes {
			return min(kib<<10, d.SharedPerProcessor)
		}
	}
	return d.SharedPerProcessor
}

// byBarriers returns how many blocks have barriers. Since compute capability 9.0 a
// multiprocessor has two for each block that it can run.
func (d *Device) byBarriers(k *Kernel) int {
	if d.Major < 9 || k.Barriers <= 0 {
		return math.MaxInt
	}
	return 2 * d.BlocksPerProcessor / k.Barriers
}

// Suggest returns the block size with which the most threads run at once, the largest
// of several. grid is the number of such blocks that fill the device. Blocks have at most
// limit threads, if limit is positive. Both results are 0 if no block fits. As in the
// driver, a carveout that is the kernel's attribute counts only if it is 0.
func (d *Device) Suggest(k *Kernel, dynamic, limit int) (grid, block int) {
	if k.CarveoutSet && k.Carveout > 0 {
		plain := *k
		plain.Carveout = -1
		k = &plain
	}
	most := min(d.ThreadsPerBlock, k.Threads)
	if limit > 0 {
		most = min(most, limit)
	}
	best := 0
	for aligned := roundUp(most, d.WarpSize); aligned > 0 && best < d.ThreadsPerProcessor; aligned -= d.WarpSize {
		threads := min(most, aligned)
		if n := d.ActiveBlocks(k, threads, dynamic); n*threads > best {
			grid, block, best = n*d.Processors, threads, n*threads
		}
	}
	return grid, block
}

// AvailableShared returns what the driver says about how much dynamic shared memory each
// block can have, if the given number of blocks is to run on one multiprocessor at once.
// The driver forgets SharedReserved: of several blocks with the returned bytes, fewer may fit.
// ok is false if they do not fit even without dynamic shared memory.
func (d *Device) AvailableShared(k *Kernel, blocks, threads int) (bytes int, ok bool) {
	if blocks <= 0 || d.ActiveBlocks(k, threads, 0) < blocks {
		return 0, false
	}
	limit := d.SharedPerBlock
	if d.Major >= 7 {
		limit = max(limit, d.SharedPerBlockOptin)
	}
	have := limit
	if blocks > 1 {
		have = d.preferred(k)
	}
	bytes = have / blocks / d.sharedUnit() * d.sharedUnit()
	bytes = min(bytes, limit) - k.StaticShared
	return max(0, min(bytes, k.DynamicShared)), true
}

func divideUp(a, b int) int { return (a + b - 1) / b }

// roundUp rounds a up to a multiple of b.
func roundUp(a, b int) int { return divideUp(a, b) * b }
