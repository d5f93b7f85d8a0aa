//go:build amd64 || arm64

package softgpu

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The name is a constant with a last zero. The addresses are those of a range that
// reserveRange has reserved, whose pages are replaced whole.

// virtualMemory says that memory can be mapped at several addresses, and in several processes.
const virtualMemory = true

// Of fcntl(2), which package syscall lacks.
const (
	addSeals       = 1033
	getSeals       = 1034
	sealSeal       = 1
	sealShrink     = 2
	sealGrow       = 4
	sealWrite      = 8
	sealFuture     = 16
	allowSealing   = 2
	closeOnExec    = 1
	dupCloseOnExec = 1030
)

// newMemoryFile makes a file in memory that has n zero bytes and the owner's label behind them.
// Its size is sealed: no process that has a descriptor of it can change the size, so memory that
// is mapped from it never ends early.
func newMemoryFile(n uint64, l memoryLabel) (*os.File, error) {
	name := []byte("ferry-device-memory\x00")
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), allowSealing|closeOnExec, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("memfd_create", errno)
	}
	file := os.NewFile(fd, "device memory")
	if err := file.Truncate(int64(n) + int64(len(l))); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.WriteAt(l[:], int64(n)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, sealSeal|sealShrink|sealGrow); errno != 0 {
		return nil, errors.Join(os.NewSyscallError("F_ADD_SEALS", errno), file.Close())
	}
	return file, nil
}

// duplicate returns a second descriptor of a file, which is closed when the process starts
// another program.
func duplicate(fd uintptr) (int32, error) {
	other, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, dupCloseOnExec, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("F_DUPFD_CLOEXEC", errno)
	}
	return int32(other), nil
}

// openMemoryFile returns the file behind a descriptor, with its bytes of memory and its label.
// The descriptor may be anything: only the system says what it is and how long, and it is read
// only when it is a file in memory whose size cannot change.
func openMemoryFile(fd int32) (*os.File, uint64, memoryLabel, error) {
	var l memoryLabel
	var st syscall.Stat_t
	if err := syscall.Fstat(int(fd), &st); err != nil {
		return nil, 0, l, fmt.Errorf("descriptor %d: %w", fd, os.NewSyscallError("fstat", err))
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, 0, l, fmt.Errorf("descriptor %d is no memory, but a %v", fd, fileKind(st.Mode))
	}
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), getSeals, 0)
	if errno != 0 || seals&sealShrink == 0 || seals&(sealWrite|sealFuture) != 0 {
		return nil, 0, l, fmt.Errorf("descriptor %d is an ordinary file, or its memory is not sealed as that of a software GPU", fd)
	}
	if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0); errno != 0 || flags&syscall.O_ACCMODE != syscall.O_RDWR {
		return nil, 0, l, fmt.Errorf("descriptor %d is not open for reading and writing", fd)
	}
	if st.Size < int64(len(l)) {
		return nil, 0, l, fmt.Errorf("descriptor %d has %d bytes, which is no memory of a software GPU", fd, st.Size)
	}
	own, err := duplicate(uintptr(fd))
	if err != nil {
		return nil, 0, l, err
	}
	file := os.NewFile(uintptr(own), "imported device memory")
	n := st.Size - int64(len(l))
	if _, err := file.ReadAt(l[:], n); err != nil {
		return nil, 0, l, errors.Join(err, file.Close())
	}
	return file, uint64(n), l, nil
}

// fileKind names what is not a regular file.
func fileKind(mode uint32) string {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return "directory"
	case syscall.S_IFIFO:
		return "pipe"
	case syscall.S_IFSOCK:
		return "socket"
	case syscall.S_IFCHR:
		return "character device"
	}
	return fmt.Sprintf("file of mode %#o", mode)
}

// reserveRange reserves n bytes of host addresses that no access can use.
func reserveRange(n uint64) (*backing, error) {
	data, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &backing{data: data, unmap: func() { syscall.Munmap(data) }}, nil
}

// mapFile maps the first bytes of a file over a part of a reserved range.
func mapFile(part []byte, file *os.File) error {
	return mapOver(part, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_NORESERVE, file.Fd())
}

// unmapFile makes a part of a reserved range unusable again.
func unmapFile(part []byte) error {
	return mapOver(part, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE, ^uintptr(0))
}

func mapOver(part []byte, protection, flags int, fd uintptr) error {
	base := addressOf(cu.HostPtr(unsafe.SliceData(part)))
	at, _, errno := syscall.Syscall6(syscall.SYS_MMAP, uintptr(base), uintptr(len(part)), uintptr(protection), uintptr(flags|syscall.MAP_FIXED), fd, 0)
	if errno != 0 || uint64(at) != base {
		return os.NewSyscallError("mmap", errno)
	}
	return nil
}
