//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// TestHandlesByValue: C gets all 64 bytes of a handle as its compiler passes such a struct, the flags
// where it looks for them, and the context.
func TestHandlesByValue(t *testing.T) {
	f, d := newFake(t)
	var want [64]byte
	for i := range want {
		want[i] = byte(3*i + 1)
	}
	handle := func(a []uintptr) (h [64]byte, flags uintptr) {
		if runtime.GOARCH == "arm64" {
			return *at[[64]byte](a[1]), a[2]
		}
		return *(*[64]byte)(unsafe.Pointer(&a[6])), a[1]
	}
	f.on("cuIpcOpenMemHandle", func(a []uintptr) cu.Result {
		h, flags := handle(a)
		if h != want || uint32(flags) != 1 {
			t.Errorf("handle % x, flags %d, want % x, 1", h, uint32(flags), want)
		}
		store(a[0], uint64(0x7f00_1234_5678))
		return cu.Success
	})
	f.on("cuIpcOpenEventHandle", func(a []uintptr) cu.Result {
		if h, _ := handle(a); h != want {
			t.Errorf("handle % x, want % x", h, want)
		}
		store(a[0], uint64(0x55))
		return cu.Success
	})
	if p, err := d.IpcOpenMemHandle(7, want, cu.IpcMemLazyEnablePeerAccess); p != 0x7f00_1234_5678 || err != nil {
		t.Errorf("address %#x, %v", p, err)
	}
	if e, err := d.IpcOpenEventHandle(7, want); e != 0x55 || err != nil {
		t.Errorf("event %#x, %v", e, err)
	}
	var order []string
	for _, c := range f.take() {
		order = append(order, c.symbol)
		if c.symbol == "cuCtxPushCurrent" && c.args[0] != 7 {
			t.Errorf("context %d, want 7", c.args[0])
		}
	}
	if want := []string{"cuCtxPushCurrent", "cuIpcOpenMemHandle", "cuCtxPopCurrent", "cuCtxPushCurrent", "cuIpcOpenEventHandle", "cuCtxPopCurrent"}; !slices.Equal(order, want) {
		t.Errorf("called %v, want %v", order, want)
	}
	f.on("cuIpcOpenMemHandle", func([]uintptr) cu.Result { return cu.ErrorMapFailed })
	if _, err := d.IpcOpenMemHandle(7, want, 1); err != cu.ErrorMapFailed {
		t.Errorf("error %v, want CUDA_ERROR_MAP_FAILED", err)
	}
	f.take()
	if _, err := d.IpcOpenMemHandle(0, want, 1); err != cu.ErrorInvalidContext || len(f.take()) > 0 {
		t.Errorf("without a context: %v, want CUDA_ERROR_INVALID_CONTEXT before any call", err)
	}
}

// TestDescriptors: the widths and places of what C gets and writes for a descriptor, other types do
// not reach C, and that of a pool is closed when the process starts a program.
func TestDescriptors(t *testing.T) {
	f, d := newFake(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	made := func() int {
		fd, err := syscall.Dup(int(null.Fd())) // without FD_CLOEXEC, as from C
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	check := func(what string, fd int32, err error) (flags uintptr) {
		t.Helper()
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if err != nil || fd < 3 || errno != 0 {
			t.Errorf("%s: descriptor %d, %v, %v", what, fd, err, errno)
		}
		syscall.Close(int(fd))
		return flags
	}
	f.on("cuMemGetHandleForAddressRange", func(a []uintptr) cu.Result {
		if !slices.Equal(a[1:5], []uintptr{1 << 40, 1 << 33, 1, 5}) {
			return cu.ErrorNotFound
		}
		store(a[0], int32(made()))
		return cu.Success
	})
	fd, err := d.MemGetHandleForAddressRange(1, 1<<40, 1<<33, cu.MemRangeHandleTypeDMABufFD, 5)
	check("range", fd, err)
	f.on("cuMemPoolExportToShareableHandle", func(a []uintptr) cu.Result {
		store(a[0], int32(made()))
		return cu.Result(a[1] - 9 + a[2] - 1 + a[3] - 5)
	})
	fd, err = d.MemPoolExportToShareableHandle(9, cu.MemHandleTypePosixFileDescriptor, 5)
	if flags := check("pool", fd, err); flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor of a pool has flags %d, want FD_CLOEXEC", flags)
	}
	f.on("cuMemPoolImportFromShareableHandle", func(a []uintptr) cu.Result {
		store(a[0], uint64(1)<<40+8)
		return cu.Result(a[1] - 17 + a[2] - 1 + a[3] - 6)
	})
	if got, err := d.MemPoolImportFromShareableHandle(17, cu.MemHandleTypePosixFileDescriptor, 6); got != 1<<40+8 || err != nil {
		t.Errorf("pool %#x, %v", got, err)
	}
	f.take()
	for _, typ := range []cu.MemAllocationHandleType{0, cu.MemHandleTypeFabric, 3} {
		_, errRange := d.MemGetHandleForAddressRange(1, 1<<40, 1<<33, cu.MemRangeHandleType(typ)&^1, 0)
		_, errExport := d.MemPoolExportToShareableHandle(9, typ, 0)
		_, errImport := d.MemPoolImportFromShareableHandle(17, typ, 0)
		if errRange != cu.ErrorNotSupported || errExport != cu.ErrorNotSupported || errImport != cu.ErrorNotSupported {
			t.Errorf("type %d: %v, %v, %v, want CUDA_ERROR_NOT_SUPPORTED", typ, errRange, errExport, errImport)
		}
	}
	if calls := f.take(); len(calls) > 0 {
		t.Errorf("the driver got %+v", calls)
	}
}
