package entry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: A function of the program is handed back to C as it came.

//c:call cuOccupancyMaxPotentialBlockSizeWithFlags (*i32 grid, *i32 block, ptr fn, ptr sharedOf, size shared, i32 limit, u32 flags)
func occupancy(d cu.Driver, f *Frame) error {
	ctx := cu.Context(f.Ctx)
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	var grid, block int32
	if sharedOf := f.pointer(1); sharedOf != nil {
		grid, block, err = bestBlock(d, ctx, fn, sharedOf, int32(f.In[3]), cu.OccupancyFlags(f.In[4]))
	} else {
		grid, block, err = d.OccupancyMaxPotentialBlockSize(ctx, fn, uintptr(f.In[2]), int32(f.In[3]), cu.OccupancyFlags(f.In[4]))
	}
	f.Out[0], f.Out[1] = uint64(grid), uint64(block)
	return err
}

// bestBlock returns the block size with which the most threads run at once, where a function of the
// program says how much shared memory a block needs. Of two it takes the larger.
func bestBlock(d cu.Driver, ctx cu.Context, fn cu.Function, sharedOf unsafe.Pointer, limit int32, flags cu.OccupancyFlags) (grid, block int32, err error) {
	most, err := d.FuncGetAttribute(ctx, cu.FuncAttributeMaxThreadsPerBlock, fn)
	if err != nil {
		return 0, 0, err
	}
	dev, err := d.CtxGetDevice(ctx)
	if err != nil {
		return 0, 0, err
	}
	warp, err := d.DeviceGetAttribute(cu.DeviceAttributeWarpSize, dev)
	if err != nil {
		return 0, 0, err
	}
	units, err := d.DeviceGetAttribute(cu.DeviceAttributeMultiprocessorCount, dev)
	if err != nil {
		return 0, 0, err
	}
	if limit > 0 {
		most = min(most, limit)
	}
	threads := int32(0)
	for size := (most + warp - 1) / warp * warp; size > 0; size -= warp {
		tried := min(size, most)
		blocks, err := d.OccupancyMaxActiveBlocksPerMultiprocessor(ctx, fn, tried, host.BlockSize(sharedOf, tried), flags)
		if err != nil {
			return 0, 0, err
		}
		if blocks*tried > threads {
			threads, grid, block = blocks*tried, blocks*units, tried
		}
	}
	return grid, block, nil
}

//c:call cuOccupancyMaxPotentialBlockSize (*i32 grid, *i32 block, ptr fn, ptr sharedOf, size shared, i32 limit)
func occupancyPlain(d cu.Driver, f *Frame) error {
	f.In[4] = 0 // flags
	return occupancy(d, f)
}

//c:call cuOccupancyMaxActiveBlocksPerMultiprocessor (*i32 blocks, ptr fn, i32 block, size shared)
func activeBlocks(d cu.Driver, f *Frame) error {
	f.In[3] = 0 // flags
	return activeBlocksFlags(d, f)
}

//c:call cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags (*i32 blocks, ptr fn, i32 block, size shared, u32 flags)
func activeBlocksFlags(d cu.Driver, f *Frame) error {
	ctx := cu.Context(f.Ctx)
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	n, err := d.OccupancyMaxActiveBlocksPerMultiprocessor(ctx, fn, int32(f.In[1]), uintptr(f.In[2]), cu.OccupancyFlags(f.In[3]))
	f.Out[0] = uint64(n)
	return err
}

//c:call cuOccupancyAvailableDynamicSMemPerBlock (*size bytes, ptr fn, i32 blocks, i32 block)
func availableShared(d cu.Driver, f *Frame) error {
	ctx := cu.Context(f.Ctx)
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	bytes, err := d.OccupancyAvailableDynamicSMemPerBlock(ctx, fn, int32(f.In[1]), int32(f.In[2]))
	f.Out[0] = uint64(bytes)
	return err
}
