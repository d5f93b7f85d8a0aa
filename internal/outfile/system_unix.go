//go:build unix

package outfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// duplicate returns a file that writes to a descriptor. Closing it leaves the descriptor open.
func duplicate(n int, name string) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(again), name), nil
}

// openForWriting returns an error for a descriptor that is closed, or open for reading alone.
func openForWriting(n int) error {
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return errors.New("this descriptor is not open")
	case flags&unix.O_ACCMODE == unix.O_RDONLY:
		return errors.New("this descriptor is open for reading alone")
	}
	return nil
}

// keepOwner gives a new file the owner and the group of an old one. It reports whether the
// group is the same.
func keepOwner(f *os.File, old fs.FileInfo) bool {
	was, ok := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if !ok || err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false
	case is.Uid == was.Uid && is.Gid == was.Gid:
		return true
	case f.Chown(int(was.Uid), int(was.Gid)) == nil:
		return true
	}
	return is.Gid == was.Gid || f.Chown(-1, int(was.Gid)) == nil
}

// noSync reports whether an error says that this file system cannot synchronize.
func noSync(err error) bool { return errors.Is(err, syscall.EINVAL) }
