package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache removes a file from the page cache. Its bytes must be on the disk.
func dropCache(f *os.File) error {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
