package occupancy

import "testing"

// h200 has the limits of an H200, gp100 those of a device whose multiprocessors have two
// partitions.
var h200 = Device{
	Major: 9, Processors: 132, WarpSize: 32, ThreadsPerBlock: 1024, ThreadsPerProcessor: 2048, BlocksPerProcessor: 32,
	RegistersPerBlock: 65536, RegistersPerProcessor: 65536,
	SharedPerBlock: 48 << 10, SharedPerBlockOptin: 227 << 10, SharedPerProcessor: 228 << 10, SharedReserved: 1 << 10,
}

var gp100 = Device{
	Major: 6, Processors: 56, WarpSize: 32, ThreadsPerBlock: 1024, ThreadsPerProcessor: 2048, BlocksPerProcessor: 32,
	RegistersPerBlock: 65536, RegistersPerProcessor: 65536, SharedPerBlock: 48 << 10, SharedPerBlockOptin: 48 << 10, SharedPerProcessor: 64 << 10,
}

// TestTables compares with rows of the tables in CUDA's programming guide and of the
// spreadsheet that CUDA once had.
func TestTables(t *testing.T) {
	k := func(registers, shared int) Kernel {
		return Kernel{Threads: 1024, Registers: registers, StaticShared: shared, DynamicShared: 48<<10 - shared, Carveout: -1}
	}
	large := Kernel{Threads: 1024, Registers: 32, DynamicShared: 227 << 10, Carveout: -1}
	for _, c := range []struct {
		name             string
		device           *Device
		kernel           Kernel
		threads, dynamic int
		want             int
	}{
		{"blocks", &h200, k(16, 0), 32, 0, 32},
		{"threads", &h200, k(16, 0), 256, 0, 8},
		{"a part of a warp", &h200, k(16, 0), 33, 0, 32},
		{"threads of 65", &h200, k(16, 0), 65, 0, 21},
		{"32 registers", &h200, k(32, 0), 1024, 0, 2},
		{"33 registers are 40", &h200, k(33, 0), 1024, 0, 1},
		{"64 registers", &h200, k(64, 0), 1024, 0, 1},
		{"65 registers", &h200, k(65, 0), 1024, 0, 0},
		{"255 registers", &h200, k(255, 0), 256, 0, 1},
		{"255 registers, too many warps", &h200, k(255, 0), 288, 0, 0},
		{"200 registers in four partitions", &h200, k(200, 0), 32, 0, 8},
		{"200 registers in two partitions", &gp100, k(200, 0), 32, 0, 10},
		{"no registers", &h200, k(0, 0), 1024, 0, 2},
		{"static shared memory", &h200, k(16, 16<<10), 32, 0, 13},
		{"dynamic shared memory", &h200, k(16, 0), 32, 47 << 10, 4},
		{"one byte more is 128", &h200, k(16, 0), 32, 56<<10 + 1, 0},
		{"opt-in", &h200, large, 32, 56 << 10, 4},
		{"opt-in and one byte", &h200, large, 32, 56<<10 + 1, 3},
		{"all of it", &h200, large, 32, 227 << 10, 1},
		{"more than all", &h200, large, 32, 227<<10 + 1, 0},
		{"without reserved memory", &gp100, k(16, 0), 32, 16 << 10, 4},
		{"no threads", &h200, k(16, 0), 0, 0, 0},
		{"too many threads", &h200, k(16, 0), 1025, 0, 0},
		{"negative shared memory", &h200, k(16, 0), 32, -1, 0},
		{"barriers", &h200, Kernel{Threads: 1024, Registers: 16, Barriers: 16, Carveout: -1}, 32, 0, 4},
		{"half for the cache", &h200, Kernel{Threads: 1024, Registers: 16, StaticShared: 16 << 10, Carveout: 50}, 32, 0, 7},
		{"all for the cache", &h200, Kernel{Threads: 1024, Registers: 16, StaticShared: 16 << 10}, 32, 0, 1},
	} {
		if got := c.device.ActiveBlocks(&c.kernel, c.threads, c.dynamic); got != c.want {
			t.Errorf("%s: %d blocks, want %d", c.name, got, c.want)
		}
	}
}

func TestSuggest(t *testing.T) {
	for _, c := range []struct {
		kernel         Kernel
		dynamic, limit int
		grid, block    int
	}{
		{Kernel{Threads: 1024, Registers: 16, Carveout: -1}, 0, 0, 264, 1024},
		{Kernel{Threads: 1024, Registers: 40, Carveout: -1}, 0, 0, 2 * 132, 768},
		{Kernel{Threads: 100, Registers: 16, Carveout: -1}, 0, 0, 32 * 132, 64},
		{Kernel{Threads: 1024, Registers: 16, Carveout: -1}, 0, 50, 32 * 132, 50},
		{Kernel{Threads: 1024, Registers: 16, DynamicShared: 48 << 10, Carveout: -1}, 100 << 10, 0, 0, 0},
		{Kernel{Threads: 1024, Registers: 22, StaticShared: 4096, Carveout: 50}, 0, 32, 26 * 132, 32},
		{Kernel{Threads: 1024, Registers: 22, StaticShared: 4096, Carveout: 50, CarveoutSet: true}, 0, 32, 32 * 132, 32},
		{Kernel{Threads: 1024, Registers: 22, StaticShared: 4096, CarveoutSet: true}, 0, 32, 132, 32},
	} {
		if grid, block := h200.Suggest(&c.kernel, c.dynamic, c.limit); grid != c.grid || block != c.block {
			t.Errorf("%+v: %d blocks of %d threads, want %d of %d", c.kernel, grid, block, c.grid, c.block)
		}
	}
}

// TestAvailableShared checks that the given number of blocks fit with the result, less what
// the driver reserves, and that with more they do not.
func TestAvailableShared(t *testing.T) {
	for _, k := range []Kernel{
		{Threads: 1024, Registers: 16, DynamicShared: 227 << 10, Carveout: -1},
		{Threads: 1024, Registers: 16, StaticShared: 1000, DynamicShared: 227<<10 - 1000, Carveout: -1},
	} {
		for blocks := 1; blocks <= 32; blocks++ {
			bytes, ok := h200.AvailableShared(&k, blocks, 64)
			if blocks > 1 {
				bytes -= h200.SharedReserved
			}
			if !ok || h200.ActiveBlocks(&k, 64, bytes) < blocks {
				t.Errorf("%d bytes for %d blocks, %t: %d fit", bytes, blocks, ok, h200.ActiveBlocks(&k, 64, bytes))
			}
			if more := bytes + 128; h200.ActiveBlocks(&k, 64, more) >= blocks {
				t.Errorf("%d bytes for %d blocks: %d would fit too", bytes, blocks, more)
			}
		}
		if _, ok := h200.AvailableShared(&k, 33, 64); ok {
			t.Error("33 blocks fit")
		}
	}
}
