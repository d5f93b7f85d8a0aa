package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const launchDoc = "Programming Guide: Thread Hierarchy; Driver API: cuLaunchKernel"

var launchChecks = []check{
	{"launch/every-thread-once", "every thread of every block runs once and has the right indices",
		launchDoc, 0, func(c *trial) {
			for _, shape := range [][2]cu.Dim3{
				{dim(3, 4, 5), dim(7, 3, 2)}, {dim(1), dim(33)}, {dim(15), dim(1)}, {dim(2, 3), dim(32, 4)}, {dim(1, 1, 9), dim(1, 1, 5)},
			} {
				grid, block := shape[0], shape[1]
				grid.Z = min(grid.Z, uint32(c.attr(cu.DeviceAttributeMaxGridDimZ)))
				n := int(grid.Count() * block.Count())
				p := c.device(4 * n)
				c.ok(c.d.LaunchKernel(c.ctx, c.kernel("ids"), grid, block, 0, 0, pack(p)), "launch")
				c.same(fmt.Sprintf("grid %v, block %v", grid, block), c.down(p, 4*n), idsOf(grid, block))
			}
		}},
	{"launch/largest-blocks", "blocks may have as many threads as the device allows, in any shape",
		launchDoc + "; Technical Specifications", 0, func(c *trial) {
			most := uint32(c.attr(cu.DeviceAttributeMaxThreadsPerBlock))
			p := c.device(4)
			for _, block := range []cu.Dim3{dim(most), dim(1, most), dim(most/64, 1, 64), dim(4, most/16, 4)} {
				c.up(p, words(0))
				c.ok(c.d.LaunchKernel(c.ctx, c.kernel("count"), dim(3), block, 0, 0, pack(p)), fmt.Sprintf("block %v", block))
				c.same(fmt.Sprintf("threads of block %v", block), c.down(p, 4), words(3*most))
			}
		}},
	{"launch/large-grids", "grids may be large in every dimension",
		launchDoc + "; Technical Specifications", 0, func(c *trial) {
			p := c.device(4)
			deep := min(65535, uint32(c.attr(cu.DeviceAttributeMaxGridDimZ)))
			for _, grid := range []cu.Dim3{dim(60_000), dim(1, 65535), dim(1, 1, deep)} {
				c.up(p, words(0))
				c.ok(c.d.LaunchKernel(c.ctx, c.kernel("count"), grid, dim(1), 0, 0, pack(p)), fmt.Sprintf("grid %v", grid))
				c.same(fmt.Sprintf("blocks of grid %v", grid), c.down(p, 4), words(uint32(grid.Count())))
			}
		}},
	{"launch/static-shared-memory", "threads of a block exchange words through shared memory and a barrier",
		"Programming Guide: Shared Memory; Synchronization Functions", 0, func(c *trial) {
			p := c.device(1024)
			in := c.random(1024)
			c.up(p, in)
			c.ok(c.d.LaunchKernel(c.ctx, c.kernel("reverse"), dim(1), dim(256), 0, 0, pack(p)), "launch")
			want := make([]byte, 1024)
			for i := range 256 {
				copy(want[4*i:], in[4*(255-i):][:4])
			}
			c.same("reversed", c.down(p, 1024), want)
		}},
	{"launch/dynamic-shared-memory", "a launch gives its blocks the requested shared memory",
		"Programming Guide: Shared Memory; Driver API: cuLaunchKernel", 0, func(c *trial) {
			out := c.device(4)
			for _, bytes := range []uint32{4, 100, 4096, uint32(c.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock))} {
				c.ok(c.d.LaunchKernel(c.ctx, c.kernel("dynamic"), dim(1), dim(1), bytes, 0, pack(out, bytes)), "launch")
				c.same("the size that the kernel sees", c.down(out, 4), words(bytes))
			}
		}},
	{"launch/local-memory", "every thread has local memory of its own",
		"Programming Guide: Device Memory Accesses, Local Memory", 0, func(c *trial) {
			out := c.device(4)
			for _, i := range []uint32{0, 1, 31, 63} {
				c.launch(0, "locals", 1, out, i)
				c.same("a word of local memory", c.down(out, 4), words(i))
			}
		}},
	{"launch/atomics", "atomic additions of all threads add up, and each ticket is given once",
		"Programming Guide: Atomic Functions", 0, func(c *trial) {
			const n = 64
			p, slots := c.device(4), c.device(4*n)
			c.up(p, words(7))
			c.ok(c.d.LaunchKernel(c.ctx, c.kernel("count"), dim(100), dim(100), 0, 0, pack(p)), "launch")
			c.same("the sum", c.down(p, 4), words(10_007))
			c.up(p, words(0))
			for i := range n {
				c.launch(c.stream(cu.StreamNonBlocking), "ticket", 1, p, slots+cu.DevicePtr(4*i))
			}
			seen, got := [n]bool{}, c.down(slots, 4*n)
			for i := range n {
				t := word(got, i)
				if t >= n || seen[t] {
					c.fatal("ticket %d is out of range or was given twice", t)
				}
				seen[t] = true
			}
		}},
	{"launch/no-parameters", "a kernel without parameters takes none",
		"Driver API: cuLaunchKernel", 0, func(c *trial) {
			f := c.kernel("noparams")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, nil), "nil")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, []byte{}), "empty")
			c.syncAll()
		}},
}

// idsOf returns what the kernel ids must write.
func idsOf(grid, block cu.Dim3) []byte {
	var out []byte
	eachIndex(grid, func(b cu.Dim3) {
		eachIndex(block, func(t cu.Dim3) {
			out = append(out, words(b.X|b.Y<<4|b.Z<<8|t.X<<12|t.Y<<18|t.Z<<24)...)
		})
	})
	return out
}

// eachIndex calls f with each index below d. X varies fastest.
func eachIndex(d cu.Dim3, f func(cu.Dim3)) {
	for z := range d.Z {
		for y := range d.Y {
			for x := range d.X {
				f(cu.Dim3{X: x, Y: y, Z: z})
			}
		}
	}
}

var launchMisuseChecks = []check{
	{"launch/zero-extent", "a grid or block with a zero dimension is an invalid value",
		launchDoc, 0, func(c *trial) {
			f := c.kernel("noparams")
			for axis := range 3 {
				d := dim(1, 1, 1)
				*[]*uint32{&d.X, &d.Y, &d.Z}[axis] = 0
				c.want(c.d.LaunchKernel(c.ctx, f, d, dim(1), 0, 0, nil), fmt.Sprintf("grid %v", d), cu.ErrorInvalidValue)
				c.want(c.d.LaunchKernel(c.ctx, f, dim(1), d, 0, 0, nil), fmt.Sprintf("block %v", d), cu.ErrorInvalidValue)
			}
		}},
	{"launch/block-too-large", "a block beyond the device's limits is an invalid value",
		launchDoc + "; Technical Specifications", 0, func(c *trial) {
			f := c.kernel("noparams")
			most := uint32(c.attr(cu.DeviceAttributeMaxThreadsPerBlock))
			z := uint32(c.attr(cu.DeviceAttributeMaxBlockDimZ))
			for _, block := range []cu.Dim3{dim(most + 1), dim(1, most+1), dim(1, 1, z+1), dim(most, 2), dim(1<<31, 2)} {
				c.want(c.d.LaunchKernel(c.ctx, f, dim(1), block, 0, 0, nil), fmt.Sprintf("block %v", block), cu.ErrorInvalidValue)
			}
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(most), 0, 0, nil), "the largest block")
		}},
	{"launch/grid-too-large", "a grid beyond the device's limits is an invalid value",
		launchDoc + "; Technical Specifications", 0, func(c *trial) {
			f := c.kernel("noparams")
			for _, grid := range []cu.Dim3{
				dim(uint32(c.attr(cu.DeviceAttributeMaxGridDimX)) + 1), dim(1, uint32(c.attr(cu.DeviceAttributeMaxGridDimY))+1),
				dim(1, 1, uint32(c.attr(cu.DeviceAttributeMaxGridDimZ))+1),
			} {
				c.want(c.d.LaunchKernel(c.ctx, f, grid, dim(1), 0, 0, nil), fmt.Sprintf("grid %v", grid), cu.ErrorInvalidValue)
			}
		}},
	{"launch/compiled-bounds", "a block that a kernel was not compiled for is refused",
		"PTX ISA: .maxntid, .reqntid; Driver API: cuLaunchKernel", 0, func(c *trial) {
			out := c.device(4)
			try := func(kernel string, block cu.Dim3) error {
				return c.d.LaunchKernel(c.ctx, c.kernel(kernel), dim(1), block, 0, 0, pack(out))
			}
			c.want(try("small", dim(65)), "65 threads of at most 64", cu.ErrorInvalidValue)
			c.ok(try("small", dim(64)), "64 threads of at most 64")
			c.ok(try("small", dim(8, 8)), "64 threads in another shape")
			c.want(try("exact", dim(31)), "31 threads of exactly 32", cu.ErrorInvalidValue)
			c.want(try("exact", dim(64)), "64 threads of exactly 32", cu.ErrorInvalidValue)
			c.ok(try("exact", dim(32)), "32 threads of exactly 32")
			c.syncAll()
		}},
	{"launch/shared-too-large", "more shared memory than a block may have is an invalid value",
		"Driver API: cuLaunchKernel", 0, func(c *trial) {
			c.want(c.d.LaunchKernel(c.ctx, c.kernel("noparams"), dim(1), dim(1), 1<<20, 0, nil), "1 MiB", cu.ErrorInvalidValue)
			c.want(c.d.LaunchKernel(c.ctx, c.kernel("reverse"), dim(1), dim(256), 48<<10, 0, pack(cu.DevicePtr(0))), "48 KiB beside 1 KiB of static", cu.ErrorInvalidValue)
		}},
	{"launch/no-kernel", "kernel 0 is an invalid handle",
		"Driver API: cuLaunchKernel", 0, func(c *trial) {
			c.want(c.d.LaunchKernel(c.ctx, 0, dim(1), dim(1), 0, 0, nil), "launch", cu.ErrorInvalidHandle)
		}},
	{"launch/parameters-of-wrong-size", "too many parameter bytes, or none, are refused; hardware does not notice too few",
		"Driver API: cuLaunchKernel, CU_LAUNCH_PARAM_BUFFER_SIZE", needOwnContext, func(c *trial) {
			f := c.kernel("dynamic") // the kernel returns at once for a null pointer
			short := c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, make([]byte, 8))
			c.wantOrEmulated(short, "too few", cu.Success, cu.ErrorInvalidValue)
			long := c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, make([]byte, 64))
			c.want(long, "too many", cu.ErrorLaunchOutOfResources)
			none := c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, nil)
			c.want(none, "none", cu.ErrorInvalidValue)
			c.syncAll()
		}},
	{"launch/refused-leaves-no-trace", "a refused launch does nothing and does not affect later launches",
		"Programming Guide: Error Checking", 0, func(c *trial) {
			p := c.device(4)
			c.up(p, words(3))
			s := c.stream(0)
			f := c.kernel("inc")
			c.want(c.d.LaunchKernel(c.ctx, f, dim(1), dim(4096), 0, s, pack(p, uint32(1), uint32(1))), "a launch that is refused", cu.ErrorInvalidValue)
			c.sync(s)
			c.same("after the refusal", c.down(p, 4), words(3))
			c.launch(s, "inc", 1, p, uint32(1), uint32(1))
			c.same("after a launch", c.down(p, 4), words(4))
		}},
}
