package ferry

import (
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// Shape is how many threads a launch has: Grid blocks of Block threads each. Y and
// Z may be left 0 for 1.
type Shape struct {
	Grid, Block cu.Dim3
	SharedBytes int // dynamic shared memory, bytes a block
}

// Grid is the shape of one dimension that covers n elements with blocks of block
// threads: n/block blocks, rounded up, and at least one.
func Grid(n, block int) Shape {
	if n < 0 || block <= 0 || int64(block) > math.MaxUint32 {
		return Shape{} // which Launch refuses
	}
	blocks := max(1, n/block)
	if n > block && n%block != 0 {
		blocks++
	}
	return Shape{
		Grid:  cu.Dim3{X: uint32(min(int64(blocks), math.MaxUint32)), Y: 1, Z: 1},
		Block: cu.Dim3{X: uint32(block), Y: 1, Z: 1},
	}
}

// Of launches that fill a device: threads a block, and blocks a multiprocessor.
// Measured on an H200: docs/PERFORMANCE.md.
const (
	fillingThreads = 128
	fillingBlocks  = 16
)

// Grid is the shape for a kernel that is right for any number of blocks, each of
// whose threads steps over what the others do, as those of package kernels: as
// many blocks as n threads need, or as many as keep g busy, whichever is less. A
// kernel that reads or writes host memory has the rate of the link so. For
// kernels that move 16 bytes a thread n is the bytes by 16.
func (g *GPU) Grid(n int) Shape {
	s := Grid(n, fillingThreads)
	s.Grid.X = min(s.Grid.X, uint32(max(1, g.caps.processors*fillingBlocks)))
	return s
}

// String is the shape as "grid 4x1x1, block 256x1x1".
func (s Shape) String() string {
	g, b := full(s.Grid), full(s.Block)
	text := fmt.Sprintf("grid %dx%dx%d, block %dx%dx%d", g.X, g.Y, g.Z, b.X, b.Y, b.Z)
	if s.SharedBytes != 0 {
		text += fmt.Sprintf(", %d bytes of shared memory", s.SharedBytes)
	}
	return text
}

// full has 1 for what was left 0 in Y and Z.
func full(d cu.Dim3) cu.Dim3 { return cu.Dim3{X: d.X, Y: max(d.Y, 1), Z: max(d.Z, 1)} }

// limits are the most that a launch of a kernel can have and needs nothing for.
type limits struct {
	grid, block [3]uint32
	threads     uint64 // of a block
	shared      int
}

// limits are the kernel's; what is not known is no limit.
func (k *Kernel) limits() limits {
	c := &k.m.g.caps
	most := func(n [3]int) (m [3]uint32) {
		for i := range n {
			m[i] = uint32(min(uint64(n[i])-1, math.MaxUint32-1)) + 1
		}
		return m
	}
	l := limits{grid: most(c.grid), block: most(c.block), threads: min(uint64(c.threads)-1, uint64(k.threads)-1, math.MaxUint64-1) + 1}
	l.shared = c.shared - k.shared
	if c.sharedMax > 0 {
		l.shared = min(l.shared, c.sharedMax-k.shared)
	}
	return l
}

// takes says that a shape is within the limits. What is not, checkShape and
// allowShared look at.
func (k *Kernel) takes(s *Shape) bool {
	l := &k.most
	gy, gz, by, bz := max(s.Grid.Y, 1), max(s.Grid.Z, 1), max(s.Block.Y, 1), max(s.Block.Z, 1)
	return s.Grid.X != 0 && s.Block.X != 0 && s.Grid.X <= l.grid[0] && gy <= l.grid[1] && gz <= l.grid[2] &&
		s.Block.X <= l.block[0] && by <= l.block[1] && bz <= l.block[2] &&
		uint64(s.Block.X)*uint64(by)*uint64(bz) <= l.threads && s.SharedBytes >= 0 && s.SharedBytes <= l.shared
}

// checkShape refuses a shape that the device or the kernel cannot have.
func (k *Kernel) checkShape(s Shape) error {
	c := &k.m.g.caps
	grid, block := full(s.Grid), full(s.Block)
	if grid.X == 0 || block.X == 0 {
		return refuse("%v: there must be at least one block and one thread", s)
	}
	if err := checkExtent("grid", grid, c.grid, "blocks"); err != nil {
		return err
	}
	if err := checkExtent("block", block, c.block, "threads"); err != nil {
		return err
	}
	threads := block.Count()
	switch {
	case c.threads > 0 && threads > uint64(c.threads):
		return refuse("a block of %d threads: the device takes %d at most", threads, c.threads)
	case k.threads > 0 && threads > uint64(k.threads):
		return refuse("a block of %d threads: this kernel takes %d at most, for the registers it uses", threads, k.threads)
	case s.SharedBytes < 0:
		return refuse("%d bytes of shared memory: the number cannot be negative", s.SharedBytes)
	case c.sharedMax > 0 && s.SharedBytes > c.sharedMax-k.shared:
		return refuse("%d bytes of shared memory and %d of the kernel's own: the device has %d a block", s.SharedBytes, k.shared, c.sharedMax)
	}
	return nil
}

// checkExtent checks each dimension against its limit; 0 is one not known.
func checkExtent(what string, d cu.Dim3, limit [3]int, of string) error {
	for i, n := range [3]uint32{d.X, d.Y, d.Z} {
		if limit[i] > 0 && uint64(n) > uint64(limit[i]) {
			return refuse("a %s of %d %s along %c: the device takes %d at most", what, n, of, "xyz"[i], limit[i])
		}
	}
	return nil
}

// allowShared asks the driver for all the shared memory that the kernel can have,
// the first time that a launch needs more than is given without asking.
func (k *Kernel) allowShared(bytes int) error {
	if bytes <= k.m.g.caps.shared-k.shared || k.allowed.Load() {
		return nil
	}
	most := k.m.g.caps.sharedMax - k.shared
	if err := k.m.g.driver.FuncSetAttribute(k.m.g.ctx, k.f, cu.FuncAttributeMaxDynamicSharedBytes, int32(most)); err != nil {
		return fmt.Errorf("allow %d bytes of shared memory: %w", most, err)
	}
	k.allowed.Store(true)
	return nil
}
