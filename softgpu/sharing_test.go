package softgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// The cases of cutest run two processes. These tests run one, whose handles say that another one
// made them.

// needsSharing skips a test where the software GPU shares nothing.
func (r *rig) needsSharing() {
	r.t.Helper()
	if r.devices[0].attr(cu.DeviceAttributeIPCEventSupported) == 0 {
		r.t.Skip("this system or build shares no memory")
	}
}

// elsewhere returns a handle as if another process had made it.
func elsewhere[H ~[64]byte](h H) H {
	h[8] ^= 0xff
	return h
}

// openedAgain opens memory of this process as that of another.
func (r *rig) openedAgain(p cu.DevicePtr) cu.DevicePtr {
	r.t.Helper()
	r.needsSharing()
	h, err := r.IpcGetMemHandle(r.ctx, p)
	r.ok(err)
	q, err := r.IpcOpenMemHandle(r.ctx, elsewhere(h), cu.IpcMemLazyEnablePeerAccess)
	r.ok(err)
	return q
}

func (r *rig) fillWith(p cu.DevicePtr, data []byte) {
	r.t.Helper()
	r.ok(r.MemcpyHtoD(r.ctx, p, pointerTo(data), uintptr(len(data))))
}

// TestSharedMemory: opened memory is the memory of the handle and no other, before and after the
// sharing, with what was in it; it takes no memory of the device.
func TestSharedMemory(t *testing.T) {
	for _, schedule := range []Schedule{Eager, Lazy, Random} {
		for _, n := range []int{256, 64 << 10, 5<<20 + 4} {
			r := newRig(t, Options{Schedule: schedule})
			r.needsSharing()
			before, p, after := r.alloc(256), r.alloc(uintptr(n)), r.alloc(256)
			want := make([]byte, n)
			for i := range want {
				want[i] = byte(i*7 + i>>8)
			}
			r.fillWith(p, want)
			r.fillWith(before, make([]byte, 256))
			r.fillWith(after, make([]byte, 256))
			free, _, err := r.MemGetInfo(r.ctx)
			r.ok(err)
			q := r.openedAgain(p)
			if left, _, _ := r.MemGetInfo(r.ctx); left != free {
				t.Errorf("%v, %d bytes: %d bytes free with opened memory, %d before", schedule, n, left, free)
			}
			equal := func(what string, at cu.DevicePtr) {
				t.Helper()
				if got := r.contentsOf(at, n); string(got) != string(want) {
					t.Errorf("%v, %d bytes: %s is not what was written", schedule, n, what)
				}
			}
			equal("opened memory", q)
			r.ok(r.MemsetD8(r.ctx, q, 0x33, uintptr(n)))
			clear(want)
			for i := range want {
				want[i] = 0x33
			}
			equal("the memory", p)
			for _, beside := range []cu.DevicePtr{before, after} {
				if got := r.contentsOf(beside, 256); string(got) != string(make([]byte, 256)) {
					t.Errorf("%v, %d bytes: memory beside was written", schedule, n)
				}
			}
			r.ok(r.IpcCloseMemHandle(r.ctx, q))
			equal("the memory afterwards", p)
		}
	}
}

// TestHandlesTrustNothing: a handle that was changed in any byte but those of its number is refused or
// is of the same memory, and leaves nothing behind.
func TestHandlesTrustNothing(t *testing.T) {
	r := newRig(t, Options{})
	r.needsSharing()
	p := r.alloc(4096)
	good, err := r.IpcGetMemHandle(r.ctx, p)
	r.ok(err)
	good = elsewhere(good)
	word := func(i int, v uint64) cu.IpcMemHandle {
		h := good
		binary.LittleEndian.PutUint64(h[8*i:], v)
		return h
	}
	read := func(i int) uint64 { return binary.LittleEndian.Uint64(good[8*i:]) }
	const pid, inode, off, size = 2, 3, 4, 5
	for what, h := range map[string]cu.IpcMemHandle{
		"zeros": {}, "another kind": word(0, read(0)+1), "an event's": word(0, binary.LittleEndian.Uint64(sharedEvent[:])),
		"process 0": word(pid, read(pid)&0xffffffff), "a process that is none": word(pid, read(pid)|0x7ffffff0<<32),
		"another descriptor": word(pid, read(pid)&^0xffffffff), "a descriptor that is none": word(pid, read(pid)|0xffffff),
		"another file": word(inode, read(inode)+1), "behind the file": word(off, 1<<40), "an offset that wraps": word(off, ^uint64(0)-100),
		"no bytes": word(size, 0), "more than the file has": word(size, 1<<40), "bytes that wrap": word(size, ^uint64(0)),
	} {
		q, err := r.IpcOpenMemHandle(r.ctx, h, cu.IpcMemLazyEnablePeerAccess)
		if !errors.Is(err, cu.ErrorInvalidValue) && !errors.Is(err, cu.ErrorMapFailed) || q != 0 {
			t.Errorf("%s: address %#x, %v", what, q, err)
		}
	}
	if _, err := r.IpcOpenMemHandle(r.ctx, good, 0); !errors.Is(err, cu.ErrorInvalidValue) {
		t.Errorf("no flags: %v", err)
	}
	q, err := r.IpcOpenMemHandle(r.ctx, good, cu.IpcMemLazyEnablePeerAccess)
	r.ok(err)
	r.ok(r.IpcCloseMemHandle(r.ctx, q))
	r.ok(r.MemFree(r.ctx, p))
	if _, err := r.IpcOpenMemHandle(r.ctx, good, cu.IpcMemLazyEnablePeerAccess); !errors.Is(err, cu.ErrorMapFailed) {
		t.Errorf("the handle of freed memory: %v, want CUDA_ERROR_MAP_FAILED", err)
	}
}

// TestSharingKeepsNothing: rounds of handles, and drivers that are not closed by anything, leave no
// descriptor, and no memory.
func TestSharingKeepsNothing(t *testing.T) {
	r := newRig(t, Options{})
	r.needsSharing()
	round := func() {
		p, q := r.alloc(4096), r.alloc(3<<20)
		for _, x := range []cu.DevicePtr{r.openedAgain(p), r.openedAgain(q)} {
			r.ok(r.IpcCloseMemHandle(r.ctx, x))
		}
		e, err := r.EventCreate(r.ctx, cu.EventInterprocess|cu.EventDisableTiming)
		r.ok(err)
		h, err := r.IpcGetEventHandle(r.ctx, e)
		r.ok(err)
		again, err := r.IpcOpenEventHandle(r.ctx, elsewhere(h))
		r.ok(err)
		r.ok(r.EventRecord(r.ctx, e, 0))
		r.ok(r.StreamWaitEvent(r.ctx, 0, again, 0))
		r.ok(r.EventDestroy(r.ctx, e))
		r.ok(r.EventDestroy(r.ctx, again))
		r.ok(r.CtxSynchronize(r.ctx))
		r.ok(r.MemFree(r.ctx, p))
		r.ok(r.MemFree(r.ctx, q))
	}
	round()
	files, backed, maps := countDescriptors(t), r.backedBytes, countMappings(t)
	for range 50 {
		round()
	}
	if n, m, b := countDescriptors(t), countMappings(t), r.backedBytes; n > files+1 || m > maps+20 || b > backed+slabSize {
		t.Errorf("%d descriptors, %d mappings, %d bytes after 50 rounds; %d, %d, %d after one", n, m, b, files, maps, backed)
	}
}

// TestSharedEvent: an event shows what was recorded last, by whichever process; a stream, and the
// host, wait for it, and a wait for a record that never ends stops at the limit of kernels.
func TestSharedEvent(t *testing.T) {
	for _, schedule := range []Schedule{Eager, Lazy, Random} {
		t.Run(fmt.Sprint(schedule), func(t *testing.T) {
			r, other := newRig(t, Options{Schedule: schedule}), newRig(t, Options{Schedule: schedule})
			r.needsSharing()
			e, err := r.EventCreate(r.ctx, cu.EventInterprocess|cu.EventDisableTiming)
			r.ok(err)
			h, err := r.IpcGetEventHandle(r.ctx, e)
			r.ok(err)
			f, err := other.IpcOpenEventHandle(other.ctx, elsewhere(h))
			r.ok(err)
			r.ok(other.EventQuery(other.ctx, f)) // never recorded
			release := make(chan struct{})
			s, waits := r.stream(cu.StreamNonBlocking), other.stream(cu.StreamNonBlocking)
			r.ok(r.LaunchHostFunc(r.ctx, s, func() { <-release }))
			r.ok(r.EventRecord(r.ctx, e, s))
			notReady := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, cu.ErrorNotReady) {
					t.Errorf("%s: %v, want CUDA_ERROR_NOT_READY", what, err)
				}
			}
			notReady("query here", r.EventQuery(r.ctx, e))
			notReady("query there", other.EventQuery(other.ctx, f))
			r.ok(other.StreamWaitEvent(other.ctx, waits, f, 0))
			notReady("a stream that waits", other.StreamQuery(other.ctx, waits))
			time.AfterFunc(20*time.Millisecond, func() { close(release) })
			r.ok(other.StreamSynchronize(other.ctx, waits))
			r.ok(other.EventSynchronize(other.ctx, f))
			r.ok(other.EventRecord(other.ctx, f, waits))
			r.ok(r.EventSynchronize(r.ctx, e))
			r.ok(r.EventQuery(r.ctx, e))
			r.ok(r.EventDestroy(r.ctx, e))
			r.ok(other.EventRecord(other.ctx, f, waits))
			r.ok(other.EventSynchronize(other.ctx, f))
		})
	}
}

// TestSharedEventNeverDone: a wait for a record of a process that has ended stops at the limit of
// kernels, and says so.
func TestSharedEventNeverDone(t *testing.T) {
	for _, host := range []bool{false, true} {
		r := newRig(t, Options{KernelLimit: 50 * time.Millisecond})
		r.needsSharing()
		e, err := r.EventCreate(r.ctx, cu.EventInterprocess|cu.EventDisableTiming)
		r.ok(err)
		r.Driver.mu.Lock()
		state, err := r.Driver.event(e, "test")
		r.ok(err)
		state.file.record() // by a process that ends before
		r.Driver.mu.Unlock()
		if host {
			err = r.EventSynchronize(r.ctx, e)
		} else {
			r.ok(r.StreamWaitEvent(r.ctx, 0, e, 0))
			err = r.StreamSynchronize(r.ctx, 0)
		}
		if !errors.Is(err, cu.ErrorLaunchTimeout) || !strings.Contains(fmt.Sprintf("%+v", err), "processes share") {
			t.Errorf("host %t: %v, want CUDA_ERROR_LAUNCH_TIMEOUT and why", host, err)
		}
	}
}

// TestSharedByGraph: a graph records and waits for events that processes share.
func TestSharedByGraph(t *testing.T) {
	r, other := newRig(t, Options{}), newRig(t, Options{})
	r.needsSharing()
	e, err := r.EventCreate(r.ctx, cu.EventInterprocess|cu.EventDisableTiming)
	r.ok(err)
	h, err := r.IpcGetEventHandle(r.ctx, e)
	r.ok(err)
	f, err := other.IpcOpenEventHandle(other.ctx, elsewhere(h))
	r.ok(err)
	s := r.stream(cu.StreamNonBlocking)
	r.ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeGlobal))
	release := make(chan struct{})
	r.ok(r.LaunchHostFunc(r.ctx, s, func() { <-release }))
	r.ok(r.EventRecordWithFlags(r.ctx, e, s, cu.EventRecordExternal))
	g, err := r.StreamEndCapture(r.ctx, s)
	r.ok(err)
	x, err := r.GraphInstantiate(r.ctx, g, 0)
	r.ok(err)
	r.ok(r.GraphLaunch(r.ctx, x, s))
	if err := other.EventQuery(other.ctx, f); !errors.Is(err, cu.ErrorNotReady) {
		t.Errorf("query of an event that a graph records: %v, want CUDA_ERROR_NOT_READY", err)
	}
	close(release)
	r.ok(other.EventSynchronize(other.ctx, f))
	runtime.KeepAlive(x)
}

// TestSharedPool: only memory of the pool that was imported is imported.
func TestSharedPool(t *testing.T) {
	r := newRig(t, Options{})
	r.needsSharing()
	pool := func() (cu.MemPool, cu.MemPool) {
		p, err := r.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, HandleTypes: 1})
		r.ok(err)
		fd, err := r.MemPoolExportToShareableHandle(p, cu.MemHandleTypePosixFileDescriptor, 0)
		r.ok(err)
		defer closeDescriptor(fd)
		q, err := r.MemPoolImportFromShareableHandle(fd, cu.MemHandleTypePosixFileDescriptor, 0)
		r.ok(err)
		return p, q
	}
	a, importedA := pool()
	_, importedB := pool()
	p, err := r.MemAllocFromPoolAsync(r.ctx, 1000, a, 0)
	r.ok(err)
	data, err := r.MemPoolExportPointer(p)
	r.ok(err)
	q, err := r.MemPoolImportPointer(importedA, &data)
	r.ok(err)
	r.ok(r.MemsetD8(r.ctx, q, 9, 1000))
	if got := r.contentsOf(p, 1000); string(got) != strings.Repeat("\x09", 1000) {
		t.Errorf("the memory is %v ..., want 9s", got[:8])
	}
	for what, imported := range map[string]cu.MemPool{"another pool": importedB, "a pool of this process": a} {
		if _, err := r.MemPoolImportPointer(imported, &data); !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v, want CUDA_ERROR_INVALID_VALUE", what, err)
		}
	}
	if same, err := r.MemPoolImportPointer(importedA, &data); same != q || err != nil {
		t.Errorf("imported again: address %#x, %v, want %#x", same, err, q)
	}
	for what, err := range map[string]error{
		"trim": r.MemPoolTrimTo(importedA, 0), "make it current": r.DeviceSetMemPool(0, importedA),
	} {
		if !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s an imported pool: %v, want CUDA_ERROR_INVALID_VALUE", what, err)
		}
	}
	r.ok(r.MemFreeAsync(r.ctx, q, 0))
	again, err := r.MemPoolImportPointer(importedA, &data)
	r.ok(err)
	r.ok(r.MemFree(r.ctx, again))
	r.ok(r.MemPoolDestroy(importedA))
	if got := r.contentsOf(p, 1000); string(got) != strings.Repeat("\x09", 1000) {
		t.Errorf("the memory is %v ... at the end, want 9s", got[:8])
	}
}

// countDescriptors returns how many files this process has open.
func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// countMappings returns how many mappings this process has.
func countMappings(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "\n")
}

func closeDescriptor(fd int32) { os.NewFile(uintptr(fd), "descriptor").Close() }
