//go:build amd64 || arm64

package softgpu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Unsafe: The addresses are those of a backing's own mapping, which is replaced whole, and of a page
// that nothing else uses.

// processToken returns a number that tells this process from all others, whatever its number.
var processToken = sync.OnceValue(func() uint64 { return rand.Uint64() | 1 })

// inodeOf returns the number of a file among those of its file system.
func inodeOf(file *os.File) (uint64, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return st.Ino, nil
}

// openSharedFile opens the file of another process that a handle names. It looks at the file before
// it opens it, because opening some files has effects.
func openSharedFile(s *sharedRef) (*os.File, uint64, memoryLabel, error) {
	var st syscall.Stat_t
	path := fmt.Sprintf("/proc/%d/fd/%d", s.pid, s.fd)
	if err := syscall.Stat(path, &st); err != nil {
		return nil, 0, memoryLabel{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Ino != s.inode {
		return nil, 0, memoryLabel{}, fmt.Errorf("%s is another file now", path)
	}
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, memoryLabel{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	if err := syscall.Fstat(fd, &st); err != nil || st.Ino != s.inode {
		return nil, 0, memoryLabel{}, fmt.Errorf("%s is another file now", path)
	}
	return openMemoryFile(int32(fd))
}

// share puts the bytes into a file in memory, if they are not, and maps the file at their addresses.
// It returns a new descriptor of the file. No operation that writes them executes meanwhile.
func (b *backing) share(l memoryLabel) (*os.File, error) {
	if b.file == nil {
		file, err := newMemoryFile(uint64(len(b.data)), l)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(copyUsed(file, b.data), mapFile(b.data, file)); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		patternMappings.Add(-int64(b.patterns))
		b.file, b.patterns = file, 0
	}
	fd, err := duplicate(b.file.Fd())
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "shared device memory"), nil
}

// copyUsed writes data to a new file, without parts that are zero: these take no memory there.
func copyUsed(file *os.File, data []byte) error {
	const step = 64 << 10
	zero := make([]byte, step)
	for off := 0; off < len(data); off += step {
		part := data[off:min(len(data), off+step)]
		if bytes.Equal(part, zero[:len(part)]) {
			continue
		}
		if _, err := file.WriteAt(part, int64(off)); err != nil {
			return err
		}
	}
	return nil
}

// mapShared maps the first n bytes of a file. The mapping lives on when the file is closed.
func mapShared(file *os.File, n uint64) (*backing, error) {
	data, err := syscall.Mmap(int(file.Fd()), 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &backing{data: data, unmap: func() { syscall.Munmap(data) }}, nil
}

// words returns the counts of an event, which are at the start of its page.
func (e *eventFile) words() (recorded, done *atomic.Uint64) {
	counts := (*[2]atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(e.page.data)))
	return &counts[0], &counts[1]
}
