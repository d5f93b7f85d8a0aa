package virtual

import (
	"errors"
	"io/fs"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Export returns a descriptor of the memory, with a name for messages. The memory has grown once.
func (m *Memory) Export(name string) (*os.File, error) {
	h, err := m.d.MemRetainAllocationHandle(m.ctx, m.Base)
	if err != nil {
		return nil, err
	}
	fd, err := m.d.MemExportToShareableHandle(m.ctx, h, cu.MemHandleTypePosixFileDescriptor, 0)
	released := m.release(h)
	if err != nil {
		return nil, refusal.Join(err, released)
	}
	f := os.NewFile(uintptr(fd), name)
	if released != nil {
		return nil, refusal.Join(released, f.Close())
	}
	return f, nil
}

// MayBe refuses a file that is no memory of a GPU, or too small for a number of bytes. It asks the
// system alone. What is no file with a size, and of no other kind either, is left to the driver.
func MayBe(f *os.File, bytes uintptr) error {
	if f == nil || *f == (os.File{}) {
		return refusal.Invalid("no descriptor given (nil)")
	}
	info, err := f.Stat()
	if err != nil {
		return refusal.Invalid("the descriptor cannot be used: %v", err)
	}
	switch mode := info.Mode(); {
	case mode&(fs.ModeDir|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeSymlink) != 0:
		return refusal.Invalid("the descriptor is no memory of a GPU: its mode is %v", mode)
	case mode.IsRegular() && info.Size() > 0 && uint64(info.Size()) < uint64(bytes): // a file without a type has none
		return refusal.Invalid("the descriptor has %d bytes, and the elements have %d", info.Size(), bytes)
	}
	return nil
}

// Import maps the memory of a file at all of the reserved addresses, where nothing is mapped yet. The
// driver maps memory as a whole only, and so refuses memory of another size.
func (m *Memory) Import(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return refusal.Invalid("the descriptor cannot be used: %v", err)
	}
	var h cu.MemHandle
	var imported error
	err = raw.Control(func(fd uintptr) {
		h, imported = m.d.MemImportFromShareableHandle(m.ctx, int32(fd), cu.MemHandleTypePosixFileDescriptor)
	})
	if err != nil {
		return refusal.Invalid("the descriptor cannot be used: %v", err)
	}
	if errors.Is(imported, cu.ErrorUnknown) { // what the driver says of any other descriptor
		return refusal.Invalid("the descriptor is no memory of a GPU that the driver can import (%v)", imported)
	}
	if imported != nil {
		return imported
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.imported = true
	return m.attach(h, m.reserved)
}
