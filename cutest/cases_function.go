package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const (
	occupancyDoc   = "Driver API: Occupancy, "
	launchExDoc    = "Driver API: cuLaunchKernelEx"
	cooperativeDoc = "Programming Guide: Grid Synchronization; " + launchExDoc + ", CU_LAUNCH_ATTRIBUTE_COOPERATIVE"
)

// active returns how many blocks of a kernel run on a multiprocessor at once.
func (c *trial) active(f cu.Function, block int32, shared uintptr) int32 {
	n, err := c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, f, block, shared, cu.OccupancyDefault)
	c.ok(err, fmt.Sprintf("occupancy of blocks of %d threads and %d bytes", block, shared))
	return n
}

// launchEx launches blocks of 256 threads with attributes. It ends the case if the driver
// is older than the call.
func (c *trial) launchEx(f cu.Function, grid uint32, s cu.Stream, params []byte, attrs ...cu.LaunchAttribute) error {
	err := c.d.LaunchKernelEx(c.ctx, &cu.LaunchConfig{Grid: dim(grid), Block: dim(256), Stream: s, Attrs: attrs}, f, params)
	if c.attr(cu.DeviceAttributeCooperativeLaunch) != 0 && isCode(err, cu.ErrorNotSupported) && cu.AsEmulated(c.d) == nil {
		c.skip("the driver is older than the call: %v", err)
	}
	return err
}

// cooperative returns a kernel with a barrier of the grid, and how many of its blocks of
// 256 threads run at once. It skips the case if the device has no cooperative launches.
func (c *trial) cooperative(name string) (f cu.Function, most uint32) {
	if c.attr(cu.DeviceAttributeCooperativeLaunch) == 0 {
		c.skip("the device has no cooperative launches")
	}
	f = c.function(c.module(gridPTX), name)
	return f, uint32(c.active(f, 256, 0) * c.attr(cu.DeviceAttributeMultiprocessorCount))
}

// neighbours returns what the kernels around and workspace write: each block has the
// number of the next block.
func neighbours(blocks uint32) []byte {
	var out []byte
	for b := range blocks {
		out = append(out, words((b+1)%blocks+1)...)
	}
	return out
}

var occupancyChecks = []check{
	{"occupancy/active-blocks", "the number of active blocks keeps to the device's threads, blocks and shared memory per multiprocessor",
		occupancyDoc + "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags; Programming Guide: Technical Specifications", 0, func(c *trial) {
			threads, blocks := c.attr(cu.DeviceAttributeMaxThreadsPerMultiprocessor), c.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor)
			shared, reserved := c.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor), c.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock)
			f := c.kernel("noparams")
			for block := int32(32); block <= 512; block += 32 {
				n := c.active(f, block, 0)
				c.check(n > 0 && (blocks == 0 || n <= blocks) && n*block <= threads, "%d blocks of %d threads, of %d blocks and %d threads", n, block, blocks, threads)
			}
			last := blocks
			for bytes := int32(0); bytes <= 16<<10; bytes += 2 << 10 {
				n := c.active(f, 32, uintptr(bytes))
				c.check(n > 0 && n*(bytes+reserved) <= shared && (blocks == 0 || n <= last), "%d blocks with %d bytes each, of %d", n, bytes, shared)
				last = n
			}
			c.observe("occupancy.blocks-of-256", c.active(f, 256, 0))
			c.observe("occupancy.blocks-with-16-KiB", c.active(f, 32, 16<<10))
		}},
	{"occupancy/nothing-fits", "no block fits if it has too much shared memory",
		occupancyDoc + "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 0, func(c *trial) {
			f := c.kernel("noparams")
			n, err := c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, f, 32, 1<<30, 0)
			c.want(err, "1 GiB", cu.Success, cu.ErrorInvalidValue)
			c.check(n == 0, "%d blocks have 1 GiB of shared memory each", n)
			n, err = c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, f, c.attr(cu.DeviceAttributeMaxThreadsPerBlock)+1, 0, 0)
			c.want(err, "too many threads", cu.Success, cu.ErrorInvalidValue)
			c.check(n == 0, "%d blocks have more threads than the device allows", n)
			n, err = c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, c.kernel("small"), 256, 0, 0)
			c.want(err, "more threads than .maxntid", cu.Success, cu.ErrorInvalidValue)
			c.observe("occupancy.above-maxntid", n)
		}},
	{"occupancy/suggested-block", "the suggested block size can be launched, and the suggested grid fills the device",
		occupancyDoc + "cuOccupancyMaxPotentialBlockSizeWithFlags", 0, func(c *trial) {
			for name, most := range map[string]int32{"noparams": c.attr(cu.DeviceAttributeMaxThreadsPerBlock), "small": 64} {
				f := c.kernel(name)
				for _, limit := range []int32{0, 32, 100} {
					grid, block, err := c.d.OccupancyMaxPotentialBlockSize(c.ctx, f, 0, limit, cu.OccupancyDefault)
					c.ok(err, "suggest")
					c.check(block > 0 && block <= most && (limit == 0 || block <= limit), "kernel %s, limit %d: a block of %d threads", name, limit, block)
					c.check(grid == c.active(f, block, 0)*c.attr(cu.DeviceAttributeMultiprocessorCount), "kernel %s, limit %d: a grid of %d", name, limit, grid)
					c.observe(fmt.Sprintf("occupancy.suggested-for-%s-limit-%d", name, limit), block)
				}
			}
		}},
	{"occupancy/available-shared", "with the available shared memory, less what the driver reserves for each block, so many blocks run at once",
		occupancyDoc + "cuOccupancyAvailableDynamicSMemPerBlock", 0, func(c *trial) {
			f, reserved := c.kernel("dynamic"), uintptr(c.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock))
			for _, n := range []int32{2, 4, 5} {
				bytes, err := c.d.OccupancyAvailableDynamicSMemPerBlock(c.ctx, f, n, 128)
				if isCode(err, cu.ErrorNotSupported) {
					c.skip("the driver is older than the call: %v", err)
				}
				c.ok(err, "available shared memory")
				c.observe(fmt.Sprintf("occupancy.shared-of-%d-blocks", n), bytes)
				got := c.active(f, 128, bytes-reserved)
				c.check(got >= n, "with %d bytes %d blocks run, want %d", bytes-reserved, got, n)
				c.observe(fmt.Sprintf("occupancy.blocks-with-shared-of-%d", n), c.active(f, 128, bytes))
			}
		}},
	{"occupancy/misuse", "no threads, and no kernel, are refused",
		occupancyDoc + "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags", 0, func(c *trial) {
			f := c.kernel("noparams")
			_, err := c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, f, 0, 0, 0)
			c.want(err, "blocks of 0 threads", cu.ErrorInvalidValue)
			_, err = c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, f, 32, 0, 99)
			c.want(err, "unknown flags", cu.ErrorInvalidValue)
			_, _, err = c.d.OccupancyMaxPotentialBlockSize(c.ctx, 0, 0, 0, 0)
			c.want(err, "kernel 0", cu.ErrorInvalidHandle, cu.ErrorInvalidValue)
		}},
	{"function/cache-config", "a preference between L1 cache and shared memory does not change what a kernel does",
		"Driver API: cuFuncSetCacheConfig", 0, func(c *trial) {
			f, p := c.function(c.module(suitePTX), "store"), c.device(4)
			for i, config := range []cu.FuncCache{cu.FuncCachePreferShared, cu.FuncCachePreferL1, cu.FuncCachePreferEqual, cu.FuncCachePreferNone} {
				c.ok(c.d.FuncSetCacheConfig(c.ctx, f, config), "set")
				c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(p, uint32(i+5), uint32(1))), "launch")
				c.same("what it stored", c.down(p, 4), words(uint32(i+5)))
			}
			c.want(c.d.FuncSetCacheConfig(c.ctx, f, 99), "an unknown preference", cu.ErrorInvalidValue)
		}},
	{"function/carveout", "the preferred share of shared memory reads back; it is a percentage, or -1",
		"Driver API: cuFuncSetAttribute, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT", 0, func(c *trial) {
			f := c.function(c.module(suitePTX), "store")
			get := func() int32 {
				v, err := c.d.FuncGetAttribute(c.ctx, cu.FuncAttributePreferredSharedMemoryCarveout, f)
				c.ok(err, "get")
				return v
			}
			c.observe("function.carveout-at-first", get())
			for _, v := range []int32{50, 0, 100, -1} {
				c.ok(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, v), "set")
				c.check(get() == v, "got %d, want %d", get(), v)
			}
			for _, v := range []int32{-2, 101} {
				c.want(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributePreferredSharedMemoryCarveout, v), fmt.Sprintf("carveout %d", v), cu.ErrorInvalidValue)
			}
		}},
}

var launchExChecks = []check{
	{"launchex/as-a-launch", "a launch without attributes, or with an ignored one, is an ordinary launch",
		launchExDoc + ", CU_LAUNCH_ATTRIBUTE_IGNORE", 0, func(c *trial) {
			p, s := c.device(4*256), c.stream(cu.StreamNonBlocking)
			for i, attrs := range [][]cu.LaunchAttribute{nil, {{}}, {{}, cu.LaunchPriority(0), {}}} {
				c.ok(c.launchEx(c.kernel("store"), 1, s, pack(p, uint32(i+3), uint32(256)), attrs...), "launch")
				c.sync(s)
				c.check(word(c.down(p, 4*256), 255) == uint32(i+3), "the kernel did not run, or with other parameters")
			}
			c.want(c.launchEx(c.kernel("store"), 0, s, pack(p, uint32(0), uint32(256))), "no blocks", cu.ErrorInvalidValue)
			c.want(c.launchEx(0, 1, s, nil), "kernel 0", cu.ErrorInvalidHandle, cu.ErrorInvalidValue)
		}},
	{"launchex/cooperative", "all blocks of a cooperative launch run at once, up to as many as fit, and can wait for each other",
		cooperativeDoc, 0, func(c *trial) {
			f, most := c.cooperative("around")
			for _, n := range []uint32{1, most/2 + 1, most} {
				data, out := c.device(4*int(n)+4), c.device(4*int(n))
				c.ok(c.d.MemsetD32(c.ctx, data, 0, uintptr(n)+1), "fill")
				c.ok(c.launchEx(f, n, 0, pack(data, out), cu.CooperativeLaunch()), fmt.Sprintf("%d blocks", n))
				c.same(fmt.Sprintf("what %d blocks saw", n), c.down(out, 4*int(n)), neighbours(n))
			}
		}},
	{"launchex/grid-sync", "the barrier of a grid works as cooperative groups make it, launch after launch",
		cooperativeDoc, 0, func(c *trial) {
			f, most := c.cooperative("workspace")
			n := min(most, 300)
			data, out := c.device(4*int(n)), c.device(4*int(n))
			for range 3 {
				c.ok(c.d.MemsetD32(c.ctx, data, 0, uintptr(n)), "fill")
				c.ok(c.launchEx(f, n, 0, pack(data, out), cu.CooperativeLaunch()), "launch")
				c.same("what the blocks saw", c.down(out, 4*int(n)), neighbours(n))
			}
		}},
	{"launchex/cooperative-too-large", "a cooperative launch of more blocks than run at once is refused",
		cooperativeDoc + "; CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", 0, func(c *trial) {
			f, most := c.cooperative("around")
			data := c.device(4 * int(most+2))
			c.want(c.launchEx(f, most+1, 0, pack(data, data), cu.CooperativeLaunch()), "one block too many", cu.ErrorCooperativeLaunchTooLarge)
			off := cu.CooperativeLaunch()
			off.Value[0] = 0
			c.ok(c.launchEx(c.kernel("store"), most+1, 0, pack(data, uint32(0), uint32(0)), off), "not cooperative")
			c.syncAll()
		}},
	{"launchex/cooperative-graph", "a captured cooperative launch is cooperative in the graph, also with other parameters",
		cooperativeDoc + "; cuGraphExecKernelNodeSetParams", 0, func(c *trial) {
			f, most := c.cooperative("workspace")
			n := min(most, 200)
			data, out, other, s := c.device(4*int(n)), c.device(4*int(n)), c.device(4*int(n)), c.stream(cu.StreamNonBlocking)
			g := c.captured(s, func() { c.ok(c.launchEx(f, n, s, pack(data, out), cu.CooperativeLaunch()), "launch") })
			nodes, err := c.d.GraphGetNodes(g)
			c.ok(err, "nodes")
			x := c.instantiated(g)
			for range 2 {
				c.runGraph(x, s)
				c.sync(s)
				c.same("what the blocks saw", c.down(out, 4*int(n)), neighbours(n))
			}
			err = c.d.GraphExecKernelNodeSetParams(c.ctx, x, nodes[0], f, dim(n), dim(256), 0, pack(data, other))
			if isCode(err, cu.ErrorNotSupported) {
				c.skip("the driver is older than the call: %v", err)
			}
			c.ok(err, "set parameters")
			c.runGraph(x, s)
			c.sync(s)
			c.same("with other parameters", c.down(other, 4*int(n)), neighbours(n))
		}},
	{"launchex/programmatic", "a kernel that may begin early sees the writes of the kernel before it, after it has waited",
		"Programming Guide: Programmatic Dependent Launch and Synchronization; " + launchExDoc, 0, func(c *trial) {
			if c.attr(cu.DeviceAttributeComputeCapabilityMajor) < 9 {
				c.skip("programmatic dependent launch needs compute capability 9.0")
			}
			m, p, s := c.module(dependentPTX), c.device(4), c.stream(cu.StreamNonBlocking)
			first, second := c.function(m, "first"), c.function(m, "second")
			c.up(p, words(1))
			for range 20 {
				c.ok(c.launchEx(first, 1, s, pack(p)), "first")
				c.ok(c.launchEx(second, 1, s, pack(p), cu.ProgrammaticLaunch()), "second")
			}
			want := uint32(1)
			for range 20 {
				want = (want + 7) * 3
			}
			c.sync(s)
			c.same("after 20 pairs", c.down(p, 4), words(want))
		}},
	{"launchex/clusters", "clusters run on devices that have them; a grid must be a multiple of the cluster",
		"Programming Guide: Thread Block Clusters; " + launchExDoc + ", CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", 0, func(c *trial) {
			p := c.device(4 * 256)
			launch := func(grid uint32, cluster cu.Dim3) error {
				return c.launchEx(c.kernel("store"), grid, 0, pack(p, uint32(9), uint32(256)), cu.ClusterLaunch(cluster))
			}
			if c.attr(cu.DeviceAttributeClusterLaunch) == 0 {
				c.skip("the device has no clusters")
			}
			c.want(launch(5, dim(2)), "a grid that is no multiple", cu.ErrorInvalidClusterSize)
			c.ok(launch(4, dim(2)), "clusters of two blocks")
			c.check(word(c.down(p, 4), 0) == 9, "the kernel did not run")
		}},
}
