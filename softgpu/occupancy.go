package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/occupancy"
)

// limits returns the limits of the device for the occupancy of kernels.
func (dev *device) limits() *occupancy.Device {
	return &occupancy.Device{
		Major:                 dev.attr(cu.DeviceAttributeComputeCapabilityMajor),
		Minor:                 dev.attr(cu.DeviceAttributeComputeCapabilityMinor),
		Processors:            max(1, dev.attr(cu.DeviceAttributeMultiprocessorCount)),
		WarpSize:              dev.attr(cu.DeviceAttributeWarpSize),
		ThreadsPerBlock:       dev.attr(cu.DeviceAttributeMaxThreadsPerBlock),
		ThreadsPerProcessor:   dev.attr(cu.DeviceAttributeMaxThreadsPerMultiprocessor),
		BlocksPerProcessor:    dev.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor),
		RegistersPerBlock:     dev.attr(cu.DeviceAttributeMaxRegistersPerBlock),
		RegistersPerProcessor: dev.attr(cu.DeviceAttributeMaxRegistersPerMultiprocessor),
		SharedPerBlock:        dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock),
		SharedPerBlockOptin:   dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin),
		SharedPerProcessor:    dev.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor),
		SharedReserved:        dev.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock),
	}
}

// carveouts has the carveout in percent that each preference stands for.
var carveouts = [...]int{
	cu.FuncCachePreferNone: -1, cu.FuncCachePreferShared: 100, cu.FuncCachePreferL1: 0, cu.FuncCachePreferEqual: 50,
}

// needs returns what the kernel takes of a multiprocessor. The registers are an estimate.
func (f *function) needs() *occupancy.Kernel {
	carveout := f.carveout
	if carveout < 0 {
		carveout = carveouts[f.cache]
	}
	return &occupancy.Kernel{
		Threads: f.maxThreads(), Registers: f.registers(),
		StaticShared: f.kernel.SharedBytes, DynamicShared: f.maxDynamic,
		Barriers: f.kernel.Barriers, Carveout: carveout, CarveoutSet: f.carveout >= 0,
	}
}

// registerStep is the number of registers by which compilers bound a thread.
const registerStep = 8

// registers estimates how many registers a thread has. A compiler keeps to the bounds of
// .maxnreg, and to those with which blocks of .maxntid threads, and .minnctapersm of
// them, fit on a multiprocessor.
func (f *function) registers() int {
	n, src, dev := f.kernel.Registers, f.source(), f.mod.ctx.dev
	if src.MaxRegs > 0 {
		return min(n, src.MaxRegs)
	}
	if f.kernel.MaxThreads >= dev.attr(cu.DeviceAttributeMaxThreadsPerBlock) && src.MaxNTID[0] == 0 && src.ReqNTID[0] == 0 {
		return n
	}
	warp := max(1, dev.attr(cu.DeviceAttributeWarpSize))
	warps := (f.maxThreads() + warp - 1) / warp
	perBlock := (warps + 3) / 4 * 4 * warp
	have := dev.attr(cu.DeviceAttributeMaxRegistersPerBlock)
	if src.MinBlocks > 1 {
		have = min(have, dev.attr(cu.DeviceAttributeMaxRegistersPerMultiprocessor)/src.MinBlocks)
	}
	if bound := have / perBlock / registerStep * registerStep; bound > 0 {
		n = min(n, bound)
	}
	return n
}

// occupancyCall runs a call about the occupancy of a kernel.
func (d *Driver) occupancyCall(h cu.Context, fh cu.Function, what string, flags cu.OccupancyFlags, fn func(*occupancy.Device, *occupancy.Kernel) error) error {
	return d.functionCall(h, fh, what, func(f *function) error {
		if flags > cu.OccupancyDisableCachingOverride {
			return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags))
		}
		return fn(f.mod.ctx.dev.limits(), f.needs())
	})
}

// OccupancyMaxActiveBlocksPerMultiprocessor returns how many blocks of a kernel a
// multiprocessor runs at once, by CUDA's formula.
func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(h cu.Context, fh cu.Function, blockSize int32, dynamicSharedBytes uintptr, flags cu.OccupancyFlags) (blocks int32, err error) {
	const what = "compute the occupancy of a kernel"
	err = d.occupancyCall(h, fh, what, flags, func(dev *occupancy.Device, k *occupancy.Kernel) error {
		if blockSize <= 0 {
			return refuse(cu.ErrorInvalidValue, what, "a block of %d threads", blockSize)
		}
		blocks = int32(dev.ActiveBlocks(k, int(blockSize), clampShared(dynamicSharedBytes)))
		return nil
	})
	return blocks, err
}

// clampShared returns a size as an int. No device has as much as the largest result.
func clampShared(bytes uintptr) int { return int(min(bytes, 1<<30)) }

// OccupancyMaxPotentialBlockSize returns the block size with which the most threads of a
// kernel run at once, and how many such blocks fill the device.
func (d *Driver) OccupancyMaxPotentialBlockSize(h cu.Context, fh cu.Function, dynamicSharedBytes uintptr, blockSizeLimit int32, flags cu.OccupancyFlags) (minGridSize, blockSize int32, err error) {
	const what = "suggest a block size for a kernel"
	err = d.occupancyCall(h, fh, what, flags, func(dev *occupancy.Device, k *occupancy.Kernel) error {
		if blockSizeLimit < 0 {
			return refuse(cu.ErrorInvalidValue, what, "a limit of %d threads", blockSizeLimit)
		}
		grid, block := dev.Suggest(k, clampShared(dynamicSharedBytes), int(blockSizeLimit))
		minGridSize, blockSize = int32(grid), int32(block)
		return nil
	})
	return minGridSize, blockSize, err
}

// OccupancyAvailableDynamicSMemPerBlock returns how much dynamic shared memory each block
// can have when numBlocks run on a multiprocessor at once.
func (d *Driver) OccupancyAvailableDynamicSMemPerBlock(h cu.Context, fh cu.Function, numBlocks, blockSize int32) (bytes uintptr, err error) {
	const what = "compute the shared memory of a kernel"
	err = d.occupancyCall(h, fh, what, 0, func(dev *occupancy.Device, k *occupancy.Kernel) error {
		n, ok := dev.AvailableShared(k, int(numBlocks), int(blockSize))
		if !ok {
			return refuse(cu.ErrorInvalidValue, what, "%d blocks of %d threads do not fit on a multiprocessor, at most %d do",
				numBlocks, blockSize, dev.ActiveBlocks(k, int(blockSize), 0))
		}
		bytes = uintptr(n)
		return nil
	})
	return bytes, err
}
