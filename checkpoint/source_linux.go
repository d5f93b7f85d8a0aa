package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errUnaligned is the error of a read that is not aligned as the file system needs it.
const errUnaligned = unix.EINVAL

// control calls f with the descriptor of a file.
func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// reopenDirect opens a file once more, with O_DIRECT. The way by /proc leads to the same file, also
// if another one has taken its place.
func reopenDirect(f *os.File) (direct *os.File, err error) {
	err = control(f, func(fd int) (err error) {
		direct, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_DIRECT, 0)
		return err
	})
	return direct, err
}

// worthDirect reports whether a file is better read past the page cache: it is on a disk, and the
// cache has less than half of the range.
func worthDirect(f *os.File, r fileRange) bool {
	worth := false
	err := control(f, func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil {
			return err
		}
		switch uint32(fs.Type) {
		case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
			return nil // all of it is memory
		}
		cached, err := cachedPart(fd, r)
		worth = cached < 0.5
		return err
	})
	return err == nil && worth
}

// cachedPart returns which part of a range is in the page cache.
func cachedPart(fd int, r fileRange) (float64, error) {
	pages := max(1, (r.to-r.from)/int64(os.Getpagesize()))
	var stat unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(r.from), Len: uint64(r.to - r.from)}, &stat, 0)
	if err == nil {
		return float64(stat.Cache) / float64(pages), nil
	}
	return sampledPart(fd, r) // before Linux 6.5
}

// sampledPart reads a byte at 64 places, without waiting for the disk.
func sampledPart(fd int, r fileRange) (float64, error) {
	const samples = 64
	have, step, one := 0, max(1, (r.to-r.from)/samples), make([]byte, 1)
	for i := range int64(samples) {
		_, err := unix.Preadv2(fd, [][]byte{one}, r.from+i*step, unix.RWF_NOWAIT)
		switch {
		case err == nil:
			have++
		case !errors.Is(err, unix.EAGAIN):
			return 0, err
		}
	}
	return float64(have) / samples, nil
}

// dropCache lets the page cache forget a range.
func dropCache(f *os.File, r fileRange) error {
	return control(f, func(fd int) error { return unix.Fadvise(fd, r.from, r.to-r.from, unix.FADV_DONTNEED) })
}
