package cutest

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/ferrygpu/ferry/cu"
)

// readOnlyFile maps a fresh file read-only. want is the content of the file.
func (c *trial) readOnlyFile(n int) (mapped, want []byte) {
	want = c.random(n)
	path := c.tempFile("", want)
	f, err := os.Open(path)
	c.ok(err, "open")
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_PRIVATE)
	c.ok(err, "map a file")
	c.cleanup(func() { c.cleanupError("unmap", syscall.Munmap(b)) })
	return b, want
}

// writableFile maps a fresh file so that writes reach the file. The file is in memory
// if possible, because Linux refuses to page-lock shared mappings of files on most
// disks.
func (c *trial) writableFile(n int) (mapped []byte, path string) {
	dir := "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	return c.sharedFile(n, dir)
}

// sharedFile maps a fresh file in a folder. "" is the folder for temporary files.
func (c *trial) sharedFile(n int, dir string) (mapped []byte, path string) {
	path = c.tempFile(dir, c.random(n))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	c.ok(err, "open")
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	c.ok(err, "map a file")
	c.cleanup(func() { c.cleanupError("unmap", syscall.Munmap(b)) })
	return b, path
}

// inMemory reports whether a file is in a file system without a disk.
func inMemory(path string) bool {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && (uint32(s.Type) == tmpfs || uint32(s.Type) == ramfs)
}

func (c *trial) tempFile(dir string, data []byte) string {
	dir, err := os.MkdirTemp(dir, "cutest")
	c.ok(err, "temporary folder")
	c.cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "data")
	c.ok(os.WriteFile(path, data, 0o600), "write a file")
	return path
}

// hole returns the address of n bytes that are no longer mapped.
func (c *trial) hole(n int) cu.HostPtr {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	c.ok(err, "map memory")
	p := pointerTo(b)
	c.ok(syscall.Munmap(b), "unmap memory")
	return p
}
