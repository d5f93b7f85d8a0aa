package fault_test

import (
	"errors"
	"os"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
)

// shareOnce makes memory, exports and imports it, maps it, and gives back what it got, whatever
// fails.
func shareOnce(d cu.Driver, ctx cu.Context) (err error) {
	const n = 2 << 20
	undo := func(f func() error) { err = errors.Join(err, f()) }
	p, e := d.MemAddressReserve(ctx, n, 0, 0, 0)
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemAddressFree(ctx, p, n) })
	h, e := d.MemCreate(ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, RequestedHandleTypes: cu.MemHandleTypePosixFileDescriptor,
		Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}}, 0)
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemRelease(ctx, h) })
	fd, e := d.MemExportToShareableHandle(ctx, h, cu.MemHandleTypePosixFileDescriptor, 0)
	if e != nil {
		return e
	}
	defer undo(os.NewFile(uintptr(fd), "").Close)
	again, e := d.MemImportFromShareableHandle(ctx, fd, cu.MemHandleTypePosixFileDescriptor)
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemRelease(ctx, again) })
	if e := d.MemMap(ctx, p, n, 0, again, 0); e != nil {
		return e
	}
	defer undo(func() error { return d.MemUnmap(ctx, p, n) })
	third, e := d.MemRetainAllocationHandle(ctx, p)
	if e != nil {
		return e
	}
	return d.MemRelease(ctx, third)
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// TestVirtualMemory: a call about virtual memory that is done and fails leaves nothing behind, and
// one that is refused does nothing.
func TestVirtualMemory(t *testing.T) {
	for _, call := range []string{"cuMemAddressReserve", "cuMemCreate", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle", "cuMemMap", "cuMemRetainAllocationHandle"} {
		for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
			d, ctx := wrap(t, fault.Options{Call: call, Nth: 1, Mode: mode, Code: cu.ErrorOutOfMemory})
			before, files, live := used(t, d, ctx), descriptors(t), len(d.Live())
			if err := shareOnce(d, ctx); !errors.Is(err, cu.ErrorOutOfMemory) {
				t.Errorf("%s, %v: error %v", call, mode, err)
			}
			if n, f, l := used(t, d, ctx), descriptors(t), len(d.Live()); n != before || f > files || l != live {
				t.Errorf("%s, %v: %d bytes in use, before %d; %d descriptors, before %d; live %v", call, mode, n, before, f, files, d.Live())
			}
			if err := shareOnce(d, ctx); err != nil {
				t.Errorf("%s, %v: the next time: %v", call, mode, err)
			}
		}
	}
}
