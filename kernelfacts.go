package ferry

import (
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// KernelFacts are properties of a compiled kernel. Sizes are in bytes.
type KernelFacts struct {
	Registers     int // per thread, of 32 bits each
	StaticShared  int // shared memory of a block that the kernel declares
	DynamicShared int // most shared memory of a block that a launch can ask for besides
	Local         int // of a thread: arrays, and registers that did not fit
	Constant      int // constant variables of the kernel's module
	MaxThreads    int // most threads of a block

	PTXVersion    int  // architecture of the PTX: 75 for sm_75
	BinaryVersion int  // architecture of the code: 90 for sm_90
	CacheGlobal   bool // compiled to cache global memory in L1 (-dlcm=ca)
	Carveout      int  // preferred shared memory in percent, -1 without preference: see SetCarveout

	// Estimated says that Registers is an estimate, and with it what is computed from
	// it. The software GPU counts the values of the PTX that are needed at once.
	Estimated bool
}

// Facts returns the properties of the kernel (cuFuncGetAttribute). A property that the
// driver does not know is 0. DynamicShared is above the usual 48 KiB where the device has
// more: a launch that needs it gets it.
func (k *Kernel) Facts() (f KernelFacts, err error) {
	if err := k.enter("read the facts of kernel"); err != nil {
		return f, err
	}
	defer k.m.tracker.Leave()
	cache := 0
	for _, x := range []struct {
		a  cu.FunctionAttribute
		to *int
	}{
		{cu.FuncAttributeNumRegs, &f.Registers}, {cu.FuncAttributeSharedSizeBytes, &f.StaticShared},
		{cu.FuncAttributeMaxDynamicSharedBytes, &f.DynamicShared}, {cu.FuncAttributeLocalSizeBytes, &f.Local},
		{cu.FuncAttributeConstSizeBytes, &f.Constant}, {cu.FuncAttributeMaxThreadsPerBlock, &f.MaxThreads},
		{cu.FuncAttributePTXVersion, &f.PTXVersion}, {cu.FuncAttributeBinaryVersion, &f.BinaryVersion},
		{cu.FuncAttributeCacheModeCA, &cache}, {cu.FuncAttributePreferredSharedMemoryCarveout, &f.Carveout},
	} {
		if *x.to, err = k.attribute(x.a); err != nil {
			return KernelFacts{}, fmt.Errorf("read the facts of kernel %q: %v: %w", k.name, x.a, err)
		}
	}
	f.DynamicShared = max(f.DynamicShared, k.m.g.caps.SharedMax-f.StaticShared)
	f.CacheGlobal, f.Estimated = cache != 0, k.m.g.emulated != nil
	return f, nil
}

// enter counts a use of the kernel's module. k.m.tracker.Leave ends it.
func (k *Kernel) enter(what string) error {
	if k == nil {
		return refusal.Invalid("%s: no kernel given (nil)", what)
	}
	return k.m.enter(what, k.name)
}

// KernelOccupancy says how many blocks of a kernel one multiprocessor runs at once.
type KernelOccupancy struct {
	Blocks    int     // active blocks; 0 if not even one fits
	Fraction  float64 // of the threads that a multiprocessor can hold
	Estimated bool    // the number of registers is an estimate: see KernelFacts
}

// Occupancy returns how many blocks of block threads, with sharedBytes of dynamic shared
// memory each, one multiprocessor runs at once
// (cuOccupancyMaxActiveBlocksPerMultiprocessor). The software GPU computes it by the
// formula of CUDA.
func (k *Kernel) Occupancy(block, sharedBytes int) (KernelOccupancy, error) {
	if err := k.enter("compute the occupancy of kernel"); err != nil {
		return KernelOccupancy{}, err
	}
	defer k.m.tracker.Leave()
	o, err := k.occupancy(block, sharedBytes)
	if err != nil {
		return KernelOccupancy{}, fmt.Errorf("compute the occupancy of kernel %q, %d threads and %d bytes of shared memory: %w", k.name, block, sharedBytes, err)
	}
	return o, nil
}

func (k *Kernel) occupancy(block, sharedBytes int) (o KernelOccupancy, err error) {
	if block <= 0 || int64(block) > math.MaxInt32 {
		return o, refusal.Invalid("a block must have at least one thread")
	}
	if err := k.allowShared(sharedBytes); err != nil {
		return o, err
	}
	g := k.m.g
	n, err := g.driver.OccupancyMaxActiveBlocksPerMultiprocessor(g.ctx, k.f, int32(block), uintptr(sharedBytes), cu.OccupancyDefault)
	if err != nil {
		return o, err
	}
	threads, err := g.driver.DeviceGetAttribute(cu.DeviceAttributeMaxThreadsPerMultiprocessor, g.device)
	if err != nil {
		return o, err
	}
	return KernelOccupancy{Blocks: int(n), Fraction: float64(n) * float64(block) / float64(max(1, threads)), Estimated: g.emulated != nil}, nil
}

// allowShared checks a size of dynamic shared memory, and allows it.
func (k *Kernel) allowShared(bytes int) error {
	caps := &k.m.g.caps
	switch {
	case bytes < 0:
		return refusal.Invalid("%d bytes of shared memory: the number cannot be negative", bytes)
	case caps.SharedMax > 0 && bytes > caps.SharedMax-k.shared:
		return refusal.Invalid("%d bytes of dynamic shared memory and %d static bytes: the device has %d per block", bytes, k.shared, caps.SharedMax)
	}
	return k.askShared(bytes)
}

// SuggestBlock returns the number of threads of a block with which the most threads run at
// once, and the number of blocks that fill the GPU then
// (cuOccupancyMaxPotentialBlockSize). Every block has sharedBytes of dynamic shared memory.
// Both results are 0 if no block fits.
func (k *Kernel) SuggestBlock(sharedBytes int) (block, grid int, err error) {
	const what = "suggest a block size for kernel"
	if err := k.enter(what); err != nil {
		return 0, 0, err
	}
	defer k.m.tracker.Leave()
	g, blocks, threads := k.m.g, int32(0), int32(0)
	if err = k.allowShared(sharedBytes); err == nil {
		blocks, threads, err = g.driver.OccupancyMaxPotentialBlockSize(g.ctx, k.f, uintptr(sharedBytes), 0, cu.OccupancyDefault)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s %q with %d bytes of shared memory: %w", what, k.name, sharedBytes, err)
	}
	return int(threads), int(blocks), nil
}

// AvailableShared returns how many bytes of dynamic shared memory each block can have, if
// the given number of blocks, of block threads each, is to run on one multiprocessor at
// once. So many blocks must fit. It is the number of
// cuOccupancyAvailableDynamicSMemPerBlock, which forgets the shared memory that the driver
// reserves for each block, less that memory where it counts.
func (k *Kernel) AvailableShared(blocks, block int) (int, error) {
	const what = "compute the shared memory of kernel"
	if err := k.enter(what); err != nil {
		return 0, err
	}
	defer k.m.tracker.Leave()
	if blocks <= 0 || block <= 0 || int64(max(blocks, block)) > math.MaxInt32 {
		return 0, refusal.Invalid("%s %q: %d blocks of %d threads: both must be positive", what, k.name, blocks, block)
	}
	g, bytes := k.m.g, uintptr(0)
	err := k.askShared(g.caps.SharedMax - k.shared)
	if err == nil {
		bytes, err = g.driver.OccupancyAvailableDynamicSMemPerBlock(g.ctx, k.f, int32(blocks), int32(block))
	}
	if err == nil {
		bytes, err = k.withoutReserved(bytes, blocks, block)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %q for %d blocks of %d threads: %w", what, k.name, blocks, block, err)
	}
	return int(bytes), nil
}

// withoutReserved lowers a size of dynamic shared memory by what the driver reserves, if
// fewer than the given number of blocks run at once with it.
func (k *Kernel) withoutReserved(bytes uintptr, blocks, block int) (uintptr, error) {
	g := k.m.g
	n, err := g.driver.OccupancyMaxActiveBlocksPerMultiprocessor(g.ctx, k.f, int32(block), bytes, cu.OccupancyDefault)
	if err != nil || int(n) >= blocks {
		return bytes, err
	}
	reserved, err := g.driver.DeviceGetAttribute(cu.DeviceAttributeReservedSharedMemoryPerBlock, g.device)
	return bytes - min(bytes, uintptr(reserved)), err
}

// SetCache sets whether the kernel prefers L1 cache or shared memory, where they share
// one memory (cuFuncSetCacheConfig). The driver may choose otherwise. On the software GPU
// it changes the occupancy only.
func (k *Kernel) SetCache(c cu.FuncCache) error {
	const what = "set the cache preference of kernel"
	return k.set(what, func(d cu.Driver, ctx cu.Context) error { return d.FuncSetCacheConfig(ctx, k.f, c) })
}

// SetCarveout sets how much of a multiprocessor's memory the kernel prefers as shared
// memory, in percent of the largest amount. -1 stands for no preference. It is a finer
// form of SetCache, and takes precedence.
func (k *Kernel) SetCarveout(percent int) error {
	const what = "set the carveout of kernel"
	if percent < -1 || percent > 100 {
		return refusal.Invalid("%s: %d percent, want 0 to 100, or -1 for no preference", what, percent)
	}
	return k.set(what, func(d cu.Driver, ctx cu.Context) error {
		return d.FuncSetAttribute(ctx, k.f, cu.FuncAttributePreferredSharedMemoryCarveout, int32(percent))
	})
}

// set runs a call that changes the kernel.
func (k *Kernel) set(what string, call func(cu.Driver, cu.Context) error) error {
	if err := k.enter(what); err != nil {
		return err
	}
	defer k.m.tracker.Leave()
	if err := call(k.m.g.driver, k.m.g.ctx); err != nil {
		return fmt.Errorf("%s %q: %w", what, k.name, err)
	}
	return nil
}
