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

// created returns memory that is created, mapped at p and known by its mapping alone.
func created(d cu.Driver, ctx cu.Context, p cu.DevicePtr, n uintptr) error {
	h, err := d.MemCreate(ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}}, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.MemMap(ctx, p, n, 0, h, 0), d.MemRelease(ctx, h))
}

// TestVirtualMemoryCounts: created memory counts in MemoryLimit until its last handle and its last
// mapping are gone, and one unmap ends all mappings in its range.
func TestVirtualMemoryCounts(t *testing.T) {
	const n = 2 << 20
	d, ctx := wrap(t, fault.Options{MemoryLimit: 2 * n})
	live := len(d.Live())
	p, err := d.MemAddressReserve(ctx, 4*n, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range uintptr(2) {
			if err := created(d, ctx, p+cu.DevicePtr(i*n), n); err != nil {
				t.Fatalf("round %d, memory %d: %v", round, i, err)
			}
		}
		if err := created(d, ctx, p+2*n, n); !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("round %d: above the limit: %v, want CUDA_ERROR_OUT_OF_MEMORY", round, err)
		}
		kept, err := d.MemRetainAllocationHandle(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.MemUnmap(ctx, p, 2*n); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(created(d, ctx, p, n), d.MemUnmap(ctx, p, n)); err != nil {
			t.Errorf("round %d: with room for one: %v", round, err)
		}
		if err := created(d, ctx, p, 2*n); !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("round %d: beside memory that a handle keeps: %v, want CUDA_ERROR_OUT_OF_MEMORY", round, err)
		}
		if err := d.MemRelease(ctx, kept); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.Live(); len(got) != live+1 {
		t.Errorf("live at the end: %v", got)
	}
}

// TestSharedThings: calls that share memory, events and pools, done and failed, leave nothing behind.
func TestSharedThings(t *testing.T) {
	for _, call := range []string{"cuMemPoolExportToShareableHandle", "cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer"} {
		for _, mode := range []fault.Mode{fault.Refused, fault.Done} {
			d, ctx := wrap(t, fault.Options{Call: call, Nth: 1, Mode: mode, Code: cu.ErrorOutOfMemory})
			files, live := descriptors(t), len(d.Live())
			for i := range 2 {
				err := sharePool(d, ctx)
				if errors.Is(err, cu.ErrorNotSupported) {
					t.Skip(err)
				}
				if want := i == 0; errors.Is(err, cu.ErrorOutOfMemory) != want || !want && err != nil {
					t.Errorf("%s, %v, time %d: %v", call, mode, i, err)
				}
			}
			if f, l := descriptors(t), d.Live(); f > files+1 || // that of the memory in which small allocations lie
				len(l) != live {
				t.Errorf("%s, %v: %d descriptors, before %d; live %v", call, mode, f, files, l)
			}
		}
	}
}

// TestOpenedMemory: memory and events of another process that are opened by a call which fails
// nevertheless are closed again.
func TestOpenedMemory(t *testing.T) {
	for _, call := range []string{"cuIpcOpenMemHandle", "cuIpcOpenEventHandle"} {
		d, ctx := wrap(t, fault.Options{Call: call, Nth: 1, Mode: fault.Done, Code: cu.ErrorOutOfMemory})
		p, err := d.MemAlloc(ctx, 4096)
		if err != nil {
			t.Fatal(err)
		}
		e, err := d.EventCreate(ctx, cu.EventDisableTiming|cu.EventInterprocess)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := d.IpcGetMemHandle(ctx, p)
		if errors.Is(err, cu.ErrorNotSupported) {
			t.Skip(err)
		}
		event, failed := d.IpcGetEventHandle(ctx, e)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		memory[8] ^= 0xff // as if another process had made them
		event[8] ^= 0xff
		live := d.Live()
		open := func() error {
			q, err := d.IpcOpenMemHandle(ctx, memory, cu.IpcMemLazyEnablePeerAccess)
			if err == nil {
				err = d.IpcCloseMemHandle(ctx, q)
			}
			again, failed := d.IpcOpenEventHandle(ctx, event)
			if failed == nil {
				failed = d.EventDestroy(ctx, again)
			}
			return errors.Join(err, failed)
		}
		if err := open(); !errors.Is(err, cu.ErrorOutOfMemory) {
			t.Errorf("%s: %v, want CUDA_ERROR_OUT_OF_MEMORY", call, err)
		}
		if err := open(); err != nil || len(d.Live()) != len(live) {
			t.Errorf("%s: the next time: %v, live %v", call, err, d.Live())
		}
	}
}

// sharePool shares memory of a pool with this process, and gives back what it got, whatever fails.
func sharePool(d cu.Driver, ctx cu.Context) (err error) {
	undo := func(f func() error) { err = errors.Join(err, f()) }
	defer undo(func() error { return d.CtxSynchronize(ctx) }) // which frees what was freed in a stream
	p, e := d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, HandleTypes: 1})
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemPoolDestroy(p) })
	fd, e := d.MemPoolExportToShareableHandle(p, cu.MemHandleTypePosixFileDescriptor, 0)
	if e != nil {
		return e
	}
	defer undo(os.NewFile(uintptr(fd), "").Close)
	q, e := d.MemPoolImportFromShareableHandle(fd, cu.MemHandleTypePosixFileDescriptor, 0)
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemPoolDestroy(q) })
	at, e := d.MemAllocFromPoolAsync(ctx, 100, p, 0)
	if e != nil {
		return e
	}
	defer undo(func() error { return d.MemFreeAsync(ctx, at, 0) })
	data, e := d.MemPoolExportPointer(at)
	if e != nil {
		return e
	}
	again, e := d.MemPoolImportPointer(q, &data)
	if e != nil {
		return e
	}
	return d.MemFree(ctx, again)
}
