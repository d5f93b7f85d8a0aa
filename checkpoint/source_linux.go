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
// cache has less than half of what is read.
func worthDirect(f *os.File, runs fileRanges) bool {
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
		cached, err := cachedPart(fd, some(runs))
		worth = cached < 0.5
		return err
	})
	return err == nil && worth
}

// some returns at most 1000 of many ranges, from all places: each costs a call of the system.
func some(runs fileRanges) (few []fileRange) {
	const most = 1000
	if len(runs) <= most {
		return runs
	}
	for i := range most {
		few = append(few, runs[i*len(runs)/most])
	}
	return few
}

// cachedPart returns which part of some ranges is in the page cache.
func cachedPart(fd int, runs fileRanges) (float64, error) {
	page := int64(os.Getpagesize())
	cached, pages := int64(0), int64(0)
	for _, r := range runs {
		var stat unix.Cachestat_t
		err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(r.from), Len: uint64(r.to - r.from)}, &stat, 0)
		if err != nil {
			return sampledPart(fd, runs) // before Linux 6.5
		}
		cached += int64(stat.Cache)
		pages += (r.to-1)/page - r.from/page + 1
	}
	return float64(cached) / float64(max(pages, 1)), nil
}

// sampledPart reads a byte at 64 places, without waiting for the disk.
func sampledPart(fd int, runs fileRanges) (float64, error) {
	const samples = 64
	have, one := 0, make([]byte, 1)
	step := max(1, runs.bytes()/samples)
	next, tried := int64(0), 0 // of the bytes of the run that is looked at
	for _, r := range runs {
		for ; next < r.to-r.from && tried < samples; next += step {
			tried++
			_, err := unix.Preadv2(fd, [][]byte{one}, r.from+next, unix.RWF_NOWAIT)
			switch {
			case err == nil:
				have++
			case !errors.Is(err, unix.EAGAIN):
				return 0, err
			}
		}
		next -= r.to - r.from
	}
	return float64(have) / float64(max(tried, 1)), nil
}

// dropCache lets the page cache forget ranges.
func dropCache(f *os.File, runs fileRanges) error {
	return control(f, func(fd int) error {
		for _, r := range runs {
			if err := unix.Fadvise(fd, r.from, r.to-r.from, unix.FADV_DONTNEED); err != nil {
				return err
			}
		}
		return nil
	})
}
