//go:build !linux

package cutest

import "github.com/ferrygpu/ferry/cu"

func (c *trial) readOnlyFile(int) (mapped, want []byte) {
	c.skip("the suite maps files on Linux only")
	return nil, nil
}

func (c *trial) writableFile(int) (mapped []byte, path string) {
	c.skip("the suite maps files on Linux only")
	return nil, ""
}

func (c *trial) sharedFile(int, string) (mapped []byte, path string) { return c.writableFile(0) }

func inMemory(string) bool { return false }

func (c *trial) hole(int) cu.HostPtr {
	c.skip("the suite unmaps memory on Linux only")
	return nil
}
