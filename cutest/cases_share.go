package cutest

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

const posix = cu.MemHandleTypePosixFileDescriptor

// exported exports memory. The descriptor is closed at the end, or by the case.
func (c *trial) exported(h cu.MemHandle) *os.File {
	fd, err := c.d.MemExportToShareableHandle(c.ctx, h, posix, 0)
	c.ok(err, "export")
	c.check(fd >= 0, "descriptor %d", fd)
	f := os.NewFile(uintptr(fd), "exported memory")
	c.cleanup(func() { f.Close() })
	return f
}

// imported imports memory. The case releases it.
func (c *trial) imported(f *os.File) cu.MemHandle {
	h, err := c.d.MemImportFromShareableHandle(c.ctx, int32(f.Fd()), posix)
	c.ok(err, "import")
	return h
}

var shareChecks = []check{
	{"share/bytes", "imported memory is the memory that was exported",
		virtualDoc + "cuMemExportToShareableHandle, cuMemImportFromShareableHandle", needShare, func(c *trial) {
			n := c.granule()
			p, q, h := c.reserve(n), c.reserve(n), c.createdOn(c.dev, n, posix)
			c.mapAt(q, n, c.imported(c.exported(h)))
			c.mapAt(p, n, h)
			c.open(p, n)
			c.open(q, n)
			was := c.random(int(n))
			c.up(p, was)
			c.same("read where it was imported", c.down(q, int(n)), was)
			c.launch(0, "inc", int(n)/4, q, uint32(2), uint32(n/4))
			c.same("read where it was exported", c.down(p, int(n)), plus(was, 2))
		}},
	{"share/life", "memory lives while a descriptor, an imported handle or a mapping is left",
		virtualDoc + "cuMemRelease, cuMemExportToShareableHandle", needShare, func(c *trial) {
			n := c.granule()
			p, h := c.reserve(n), c.createdOn(c.dev, n, posix)
			f := c.exported(h)
			c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
			c.open(p, n)
			want := c.random(int(n))
			c.up(p, want)
			c.ok(c.d.MemUnmap(c.ctx, p, n), "unmap")
			c.ok(c.d.MemRelease(c.ctx, h), "release")
			again := c.imported(f) // the descriptor alone has kept it
			f.Close()              // now the imported handle alone
			c.mapAt(p, n, again)   // now the mapping alone
			c.open(p, n)
			c.same("imported", c.down(p, int(n)), want)
		}},
	{"share/twice", "a descriptor is imported any number of times, and memory exported any number of times",
		virtualDoc + "cuMemExportToShareableHandle", needShare, func(c *trial) {
			n := c.granule()
			h := c.createdOn(c.dev, n, posix)
			want := c.random(int(n))
			for i, f := range []*os.File{c.exported(h), c.exported(h)} {
				for range 2 {
					p, got := c.reserve(n), c.imported(f)
					c.mapAt(p, n, got)
					c.open(p, n)
					if i > 0 {
						c.same("imported again", c.down(p, int(n)), want)
					}
					c.up(p, want)
				}
			}
			c.ok(c.d.MemRelease(c.ctx, h), "release")
		}},
	{"share/properties", "imported memory has the device that it was created on",
		virtualDoc + "cuMemImportFromShareableHandle", needShare, func(c *trial) {
			h := c.createdOn(c.dev, c.granule(), posix)
			again := c.imported(c.exported(h))
			got, err := c.d.MemGetAllocationPropertiesFromHandle(c.ctx, again)
			c.ok(err, "properties")
			c.check(got.Type == cu.MemAllocationTypePinned && got.Location == location(c.dev), "properties %+v, want memory of device %d", got, c.dev)
			c.check(got.RequestedHandleTypes == 0, "types of handle %#x, want none", got.RequestedHandleTypes)
			_, err = c.d.MemExportToShareableHandle(c.ctx, again, posix, 0)
			c.want(err, "export imported memory", cu.ErrorInvalidValue)
			c.ok(c.d.MemRelease(c.ctx, again), "release")
			c.ok(c.d.MemRelease(c.ctx, h), "release")
		}},
	{"share/too-small", "imported memory is mapped whole, whatever came with its descriptor",
		virtualDoc + "cuMemMap", needShare, func(c *trial) {
			n := c.granule()
			p, h := c.reserve(2*n), c.createdOn(c.dev, n, posix)
			again := c.imported(c.exported(h))
			c.want(c.d.MemMap(c.ctx, p, 2*n, 0, again, 0), "map more than there is", cu.ErrorNotSupported)
			c.ok(c.d.MemRelease(c.ctx, again), "release")
			c.ok(c.d.MemRelease(c.ctx, h), "release")
		}},
	{"share/export-misuse", "memory is exported as it was created for",
		virtualDoc + "cuMemExportToShareableHandle", needShare, func(c *trial) {
			plain, shared := c.created(c.granule()), c.createdOn(c.dev, c.granule(), posix)
			export := func(h cu.MemHandle, typ cu.MemAllocationHandleType, flags uint64) error {
				fd, err := c.d.MemExportToShareableHandle(c.ctx, h, typ, flags)
				if err == nil {
					os.NewFile(uintptr(fd), "exported memory").Close()
				}
				return err
			}
			c.want(export(plain, posix, 0), "memory that was created for no handle", cu.ErrorInvalidValue, cu.ErrorNotSupported, cu.ErrorNotPermitted)
			c.want(export(shared, cu.MemHandleTypeNone, 0), "no type of handle", cu.ErrorInvalidValue, cu.ErrorNotSupported)
			c.want(export(shared, posix, 1), "flags 1", cu.ErrorInvalidValue)
			c.ok(c.d.MemRelease(c.ctx, plain), "release")
			c.ok(c.d.MemRelease(c.ctx, shared), "release")
		}},
	{"share/import-misuse", "a descriptor of anything but memory is refused",
		virtualDoc + "cuMemImportFromShareableHandle", needShare, func(c *trial) {
			refused := func(what string, fd int32) {
				h, err := c.d.MemImportFromShareableHandle(c.ctx, fd, posix)
				c.want(err, what, cu.ErrorInvalidValue, cu.ErrorInvalidDevice, cu.ErrorInvalidHandle, cu.ErrorNotSupported, cu.ErrorNotPermitted, cu.ErrorOperatingSystem, cu.ErrorUnknown)
				if err == nil {
					_ = c.d.MemRelease(c.ctx, h)
				}
			}
			refused("descriptor -1", -1)
			file, err := os.Open("/proc/self/exe")
			c.ok(err, "open the program's file")
			c.cleanup(func() { file.Close() })
			refused("a file", int32(file.Fd()))
			folder, err := os.Open("/proc/self")
			c.ok(err, "open a folder")
			c.cleanup(func() { folder.Close() })
			refused("a folder", int32(folder.Fd()))
			r, w, err := os.Pipe()
			c.ok(err, "pipe")
			c.cleanup(func() { r.Close(); w.Close() })
			refused("a pipe", int32(r.Fd()))
			null, err := os.Open(os.DevNull)
			c.ok(err, "open the null device")
			c.cleanup(func() { null.Close() })
			refused("the null device", int32(null.Fd()))
		}},
}
