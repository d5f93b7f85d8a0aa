package cutest

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

const poolShareDoc = "Driver API: Stream Ordered Memory Allocator, cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle, cuMemPoolExportPointer, cuMemPoolImportPointer"

// sharedPool makes a pool that processes share, with its descriptor.
func (c *trial) sharedPool() (cu.MemPool, *os.File) {
	p, err := c.d.MemPoolCreate(&cu.MemPoolProps{
		AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev), HandleTypes: uint32(posix),
	})
	c.ok(err, "create a pool with descriptors")
	c.cleanup(func() { c.cleanupError("destroy a pool", c.d.MemPoolDestroy(p)) })
	fd, err := c.d.MemPoolExportToShareableHandle(p, posix, 0)
	c.ok(err, "export a pool")
	f := os.NewFile(uintptr(fd), "pool")
	c.cleanup(func() { f.Close() })
	return p, f
}

// importedPool imports a pool.
func (c *trial) importedPool(f *os.File) cu.MemPool {
	p, err := c.d.MemPoolImportFromShareableHandle(int32(f.Fd()), posix, 0)
	c.ok(err, "import a pool")
	c.cleanup(func() { c.cleanupError("destroy an imported pool", c.d.MemPoolDestroy(p)) })
	return p
}

// inherited returns the first file that this process got from the first one.
func inherited() *os.File { return os.NewFile(3, "inherited") }

var poolShareChecks = []check{
	{"pool-share/memory", "memory of an imported pool is the memory that another process has allocated",
		poolShareDoc, needPools | needSharablePools, func(c *trial) {
			const n = 1 << 20
			if other := c.isSecond(); other != nil {
				f := inherited()
				pool := c.importedPool(f)
				f.Close()
				data := cu.MemPoolPtrExportData(other.handles[0])
				p, err := c.d.MemPoolImportPointer(pool, &data)
				c.ok(err, "import memory")
				c.same("imported memory", c.down(p, n), other.data())
				c.launch(0, "inc", n/4, p, uint32(6), uint32(n/4))
				c.freeAsync(p, 0)
				c.syncAll()
				return
			}
			pool, f := c.sharedPool()
			p := c.fromPool(pool, n, 0)
			data := c.random(n)
			c.up(p, data)
			c.syncAll()
			h, err := c.d.MemPoolExportPointer(p)
			c.ok(err, "export memory")
			c.first(data, []*os.File{f}, h).wait()
			c.same("written by the other process", c.down(p, n), plus(data, 6))
			c.freeAsync(p, 0)
		}},
	{"pool-share/imported", "nothing is allocated from an imported pool, and it is not the current one",
		poolShareDoc, needPools | needSharablePools, func(c *trial) {
			if other := c.isSecond(); other != nil {
				pool := c.importedPool(inherited())
				_, err := c.d.MemAllocFromPoolAsync(c.ctx, 4096, pool, 0)
				c.want(err, "allocate from an imported pool", cu.ErrorInvalidValue, cu.ErrorNotSupported, cu.ErrorNotPermitted)
				c.want(c.d.DeviceSetMemPool(c.dev, pool), "make it the current one", cu.ErrorInvalidValue, cu.ErrorNotSupported, cu.ErrorNotPermitted)
				data := cu.MemPoolPtrExportData(garbage())
				_, err = c.d.MemPoolImportPointer(pool, &data)
				c.want(err, "import data that nobody made", handleRefused...)
				return
			}
			_, f := c.sharedPool()
			c.first(nil, []*os.File{f}).wait()
		}},
	{"pool-share/misuse", "a pool is exported as it was created for, and a descriptor of anything else is refused",
		poolShareDoc, needPools | needSharablePools, func(c *trial) {
			export := func(what string, p cu.MemPool, flags uint64) {
				fd, err := c.d.MemPoolExportToShareableHandle(p, posix, flags)
				if err == nil {
					os.NewFile(uintptr(fd), "pool").Close()
				}
				c.want(err, what, cu.ErrorInvalidValue, cu.ErrorNotSupported, cu.ErrorNotPermitted, cu.ErrorInvalidHandle)
			}
			pool, _ := c.sharedPool()
			export("a pool that was made for no handle", c.pool(), 0)
			export("flags 1", pool, 1)
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			c.ok(err, "open the null device")
			c.cleanup(func() { null.Close() })
			_, err = c.d.MemPoolImportFromShareableHandle(int32(null.Fd()), posix, 0)
			c.want(err, "the null device", append(handleRefused, cu.ErrorOperatingSystem, cu.ErrorUnknown)...)
			plain := c.device(4096)
			_, err = c.d.MemPoolExportPointer(plain)
			c.want(err, "memory of cuMemAlloc", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			_, err = c.d.MemPoolImportPointer(pool, nil)
			c.want(err, "no data", cu.ErrorInvalidValue)
		}},
}
