//go:build amd64 || arm64

package softgpu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// created makes memory that can be shared.
func (r *rig) created(n uintptr) cu.MemHandle {
	r.t.Helper()
	h, err := r.MemCreate(r.ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, RequestedHandleTypes: cu.MemHandleTypePosixFileDescriptor,
		Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}}, 0)
	r.ok(err)
	return h
}

// mapped maps memory at new addresses that device 0 can use, and releases the handle.
func (r *rig) mapped(n uintptr, h cu.MemHandle) cu.DevicePtr {
	r.t.Helper()
	p, err := r.MemAddressReserve(r.ctx, n, 0, 0, 0)
	r.ok(err)
	r.ok(r.MemMap(r.ctx, p, n, 0, h, 0))
	r.ok(r.MemRelease(r.ctx, h))
	r.ok(r.MemSetAccess(r.ctx, p, n, []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}, Flags: cu.MemAccessProtReadWrite}}))
	return p
}

func (r *rig) unmap(p cu.DevicePtr, n uintptr) {
	r.t.Helper()
	r.ok(r.MemUnmap(r.ctx, p, n))
	r.ok(r.MemAddressFree(r.ctx, p, n))
}

func (r *rig) exported(h cu.MemHandle) int32 {
	r.t.Helper()
	fd, err := r.MemExportToShareableHandle(r.ctx, h, cu.MemHandleTypePosixFileDescriptor, 0)
	r.ok(err)
	return fd
}

func (r *rig) imported(fd int32) (cu.MemHandle, error) {
	return r.MemImportFromShareableHandle(r.ctx, fd, cu.MemHandleTypePosixFileDescriptor)
}

// descriptors returns how many descriptors the process has.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// memfd returns a file in memory with contents and seals.
func memfd(t *testing.T, size int64, end []byte, seals uintptr) int32 {
	t.Helper()
	name := []byte("any\x00")
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), allowSealing|closeOnExec, 0)
	if errno != 0 {
		t.Skip(errno)
	}
	file := os.NewFile(fd, "memory")
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if len(end) > 0 {
		if _, err := file.WriteAt(end, size-int64(len(end))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, addSeals, seals); errno != 0 {
		t.Fatal(errno)
	}
	return int32(file.Fd())
}

// TestImportTrustsNothing: only sealed memory of a device of this machine is imported, whatever
// else a descriptor is, and a refused one leaves no descriptor behind.
func TestImportTrustsNothing(t *testing.T) {
	r := newRig(t, Options{})
	const n, sealed = 2 << 20, sealSeal | sealShrink | sealGrow
	label := r.devices[0].label()
	size := int64(n + len(label))
	other := label
	other[20] ^= 1
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	r.ok(err)
	defer file.Close()
	r.ok(file.Truncate(size))
	_, err = file.WriteAt(label[:], n)
	r.ok(err)
	folder, err := os.Open(t.TempDir())
	r.ok(err)
	defer folder.Close()
	from, to, err := os.Pipe()
	r.ok(err)
	defer from.Close()
	defer to.Close()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	r.ok(err)
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	readOnly, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", memfd(t, size, label[:], sealed)))
	r.ok(err)
	defer readOnly.Close()
	for _, k := range []struct {
		name string
		fd   int32
		want cu.Result
		text string
	}{
		{"memory that is open for reading alone", int32(readOnly.Fd()), cu.ErrorUnknown, "reading and writing"},
		{"none", -1, cu.ErrorUnknown, "fstat"},
		{"closed", 1 << 20, cu.ErrorUnknown, "bad file descriptor"},
		{"a file with the right label", int32(file.Fd()), cu.ErrorUnknown, "ordinary file"},
		{"a folder", int32(folder.Fd()), cu.ErrorUnknown, "directory"},
		{"a pipe", int32(from.Fd()), cu.ErrorUnknown, "pipe"},
		{"a socket", int32(pair[0]), cu.ErrorUnknown, "socket"},
		{"memory that can shrink", memfd(t, size, label[:], sealSeal|sealGrow), cu.ErrorUnknown, "not sealed"},
		{"memory that cannot be written", memfd(t, size, label[:], sealed|sealWrite), cu.ErrorUnknown, "not sealed"},
		{"memory without a label", memfd(t, size, nil, sealed), cu.ErrorUnknown, "no memory of a software GPU"},
		{"memory that is shorter than a label", memfd(t, 8, nil, sealed), cu.ErrorUnknown, "8 bytes"},
		{"a label alone", memfd(t, int64(len(label)), label[:], sealed), cu.ErrorUnknown, "file of 0 bytes"},
		{"a part of a granule", memfd(t, size+4096, label[:], sealed), cu.ErrorUnknown, "no memory of a software GPU"},
		{"memory of another device", memfd(t, size, other[:], sealed), cu.ErrorNotSupported, "does not have"},
	} {
		before, handles := descriptors(t), len(r.handles)
		_, err := r.imported(k.fd)
		if r.want(k.want, err); !strings.Contains(err.Error(), k.text) {
			t.Errorf("%s: %v, want %q in it", k.name, err, k.text)
		}
		if got := descriptors(t); got > before || len(r.handles) != handles {
			t.Errorf("%s: %d descriptors and %d handles, before %d and %d", k.name, got, len(r.handles), before, handles)
		}
	}
	good := memfd(t, size, label[:], sealed) // as another process would make it
	h, err := r.imported(good)
	r.ok(err)
	r.want(cu.ErrorNotSupported, func() error {
		p, err := r.MemAddressReserve(r.ctx, 2*n, 0, 0, 0)
		r.ok(err)
		return r.MemMap(r.ctx, p, 2*n, 0, h, 0)
	}())
	r.unmap(r.mapped(n, h), n)
}

// TestSealed: who has a descriptor of device memory cannot change its size.
func TestSealed(t *testing.T) {
	r := newRig(t, Options{})
	const n = 2 << 20
	h := r.created(n)
	file := os.NewFile(uintptr(r.exported(h)), "memory")
	defer file.Close()
	for _, size := range []int64{0, n, 4 * n} {
		if err := file.Truncate(size); err == nil {
			t.Errorf("truncated to %d bytes", size)
		}
	}
	if flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_GETFD, 0); flags&syscall.FD_CLOEXEC == 0 {
		t.Error("programs that this one starts inherit the descriptor")
	}
	p := r.mapped(n, h)
	r.ok(r.MemsetD8(r.ctx, p, 5, n))
	if b := r.contentsOf(p, n); len(bytes.Trim(b, "\x05")) > 0 {
		t.Error("the memory has other bytes")
	}
	r.unmap(p, n)
}

// TestTwoDrivers: two software GPUs, as of two processes, share the bytes of a descriptor. One of
// another profile refuses it.
func TestTwoDrivers(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const n = 4 << 20
		other := newRig(t, Options{Schedule: r.schedule, Seed: 7, Devices: 2})
		h := r.created(n)
		fd := r.exported(h)
		p := r.mapped(n, h)
		again, err := other.imported(fd)
		other.ok(err)
		stranger := newRig(t, Options{Profile: named(t, "a100")})
		_, err = stranger.imported(fd)
		stranger.want(cu.ErrorNotSupported, err)
		r.ok(syscall.Close(int(fd)))
		q := other.mapped(n, again)
		store, load := r.function("store"), other.function("store")
		for i, at := range []uintptr{0, n - 4} {
			r.launch1(store, p+cu.DevicePtr(at), uint32(77+i))
			if got := other.contentsOf(q+cu.DevicePtr(at), 4); got[0] != byte(77+i) {
				t.Errorf("at %d the second driver reads %d, want %d", at, got[0], 77+i)
			}
			other.launch1(load, q+cu.DevicePtr(at), uint32(99+i))
			if got := r.contentsOf(p+cu.DevicePtr(at), 4); got[0] != byte(99+i) {
				t.Errorf("at %d the first driver reads %d, want %d", at, got[0], 99+i)
			}
		}
		r.unmap(p, n)
		if got := other.contentsOf(q, 4); got[0] != 99 {
			t.Errorf("after the first driver has freed it the second one reads %d", got[0])
		}
		other.unmap(q, n)
	})
}

// launch1 runs a kernel with one thread, and waits.
func (r *rig) launch1(f cu.Function, p cu.DevicePtr, v uint32) {
	r.t.Helper()
	one := cu.Dim3{X: 1, Y: 1, Z: 1}
	r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(p, v)))
	r.ok(r.CtxSynchronize(r.ctx))
}

// TestShareLoop: sharing again and again, with a kernel on a page at each end, takes no more
// descriptors, mappings, handles or memory.
func TestShareLoop(t *testing.T) {
	r := newRig(t, Options{})
	rounds := 300
	if os.Getenv("FERRY_FULL") == "1" {
		rounds = 10000
	}
	const n = 4 << 20
	store := r.function("store")
	share := func(i int) {
		h := r.created(n)
		fd := r.exported(h)
		again, err := r.imported(fd)
		r.ok(err)
		r.ok(syscall.Close(int(fd)))
		p, q := r.mapped(n, h), r.mapped(n, again)
		r.launch1(store, p, uint32(i))
		r.launch1(store, q+n-4, ^uint32(i))
		if a, b := r.contentsOf(q, 4), r.contentsOf(p+n-4, 4); a[0] != byte(i) || b[0] != ^byte(i) {
			t.Fatalf("round %d: read %x and %x", i, a, b)
		}
		r.unmap(p, n)
		r.unmap(q, n)
	}
	share(0)
	free := func() uintptr { n, _, err := r.MemGetInfo(r.ctx); r.ok(err); return n }
	fds, maps, handles, left, backed, addresses := descriptors(t), mappings(t), len(r.handles), free(), r.backedBytes, virtualBytes(t)
	for i := range rounds {
		share(i)
	}
	if got := descriptors(t); got > fds {
		t.Errorf("%d descriptors, before %d", got, fds)
	}
	if got := mappings(t); got > maps+20 {
		t.Errorf("%d mappings, before %d", got, maps)
	}
	if got := virtualBytes(t); got > addresses+64<<20 && !raceBuild {
		t.Errorf("%d bytes of addresses, before %d", got, addresses)
	}
	if got := free(); len(r.handles) != handles || got != left || r.backedBytes != backed {
		t.Errorf("%d handles, %d bytes free, %d backed; before %d, %d, %d", len(r.handles), got, r.backedBytes, handles, left, backed)
	}
}

// TestUnmapWaitsForNothing: work that was queued before MemUnmap and executes afterwards finds an illegal
// address, as on hardware.
func TestUnmapWaitsForNothing(t *testing.T) {
	const n = 2 << 20
	r := newRig(t, Options{Schedule: Lazy})
	s, err := r.StreamCreate(r.ctx, cu.StreamNonBlocking)
	r.ok(err)
	p := r.mapped(n, r.created(n))
	r.ok(r.MemsetD8Async(r.ctx, p, 7, n, s))
	r.ok(r.MemUnmap(r.ctx, p, n))
	r.want(cu.ErrorIllegalAddress, r.StreamSynchronize(r.ctx, s))
}

// TestUnmapBesideWork: memory that one goroutine maps and unmaps while others use it gives them
// errors, and never ends the process. A copy that finds its memory gone loses the device, as a
// kernel would.
func TestUnmapBesideWork(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		lost, done := 0, new(atomic.Int64)
		for range 8 {
			if newRig(t, Options{Schedule: r.schedule, Seed: 7}).unmapBesideWork(done) {
				lost++
			}
		}
		t.Logf("lost in %d of 8 runs, %d calls of the users succeeded", lost, done.Load())
		if done.Load() == 0 {
			t.Error("nothing that used the memory has ever succeeded")
		}
	})
}

// unmapBesideWork reports whether the device was lost. It counts the calls that used the memory with
// success, if the device was not lost meanwhile.
func (r *rig) unmapBesideWork(done *atomic.Int64) (lost bool) {
	const n, rounds = 2 << 20, 40
	p, err := r.MemAddressReserve(r.ctx, 2*n, 0, 0, 0)
	r.ok(err)
	stop := make(chan struct{})
	var users sync.WaitGroup
	for i := range 2 {
		users.Go(func() {
			s, err := r.StreamCreate(r.ctx, cu.StreamNonBlocking)
			for b := make([]byte, n); err == nil; {
				select {
				case <-stop:
					return
				default:
				}
				for call, err := range []error{
					r.MemsetD8Async(r.ctx, p, uint8(i), 2*n, s),
					r.MemcpyDtoHAsync(r.ctx, ptr(b), p+n/2, n, s),
					r.StreamSynchronize(r.ctx, s),
				} {
					if err == nil && call < 2 {
						done.Add(1)
					}
					if err != nil && strings.Contains(err.Error(), "host address") {
						r.t.Errorf("an operation that executes lost its pages: %v", err)
					}
				}
			}
		})
	}
	for i := range rounds {
		before := done.Load()
		used := func() { // lets the users use the memory, in some rounds
			for range i % 4 * 7 {
				if done.Load() > before {
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
		if lost = r.mapAndUnmap(p, n, used) != nil; lost {
			break
		}
	}
	close(stop)
	users.Wait()
	return lost
}

// mapAndUnmap maps two memories beside each other, calls a function, and unmaps them.
func (r *rig) mapAndUnmap(p cu.DevicePtr, n uintptr, meanwhile func()) error {
	open := []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}, Flags: cu.MemAccessProtReadWrite}}
	for i := range uintptr(2) {
		h, err := r.MemCreate(r.ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}}, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(r.MemMap(r.ctx, p+cu.DevicePtr(i*n), n, 0, h, 0), r.MemRelease(r.ctx, h)); err != nil {
			return err
		}
	}
	err := r.MemSetAccess(r.ctx, p, 2*n, open)
	meanwhile()
	for i := range uintptr(2) {
		err = errors.Join(err, r.MemUnmap(r.ctx, p+cu.DevicePtr(i*n), n))
	}
	return err
}

// TestCreatedContents: created memory holds the pattern of the schedule, as other new memory does,
// and imported memory what it holds.
func TestCreatedContents(t *testing.T) {
	r := newRig(t, Options{Schedule: Lazy})
	const n = 34 << 20
	h := r.created(n)
	fd := r.exported(h)
	p := r.mapped(n, h)
	if b := r.contentsOf(p, n); !isLazy(b) {
		t.Error("created memory lacks the pattern")
	}
	const large = 200 << 20
	q := r.mapped(large, r.created(large))
	if b := r.contentsOf(q, patternBytes); !isLazy(b) {
		t.Error("large created memory lacks the pattern at its start")
	}
	if b := r.contentsOf(q+large-patternBytes, patternBytes); !isLazy(b) {
		t.Error("large created memory lacks the pattern at its end")
	}
	r.unmap(q, large)
	r.ok(r.MemsetD8(r.ctx, p, 3, n))
	r.ok(r.CtxSynchronize(r.ctx))
	again, err := r.imported(fd)
	r.ok(err)
	r.ok(syscall.Close(int(fd)))
	if b := r.contentsOf(r.mapped(n, again), n); len(bytes.Trim(b, "\x03")) > 0 {
		t.Error("imported memory has other bytes")
	}
}

// TestReservedAddresses: reservations never overlap, keep a gap, follow hints that are free, and
// use holes when the addresses behind the last one are used up.
func TestReservedAddresses(t *testing.T) {
	sample.SkipRace(t)
	r := newRig(t, Options{})
	rng := rand.New(rand.NewPCG(3, 4))
	sizes := map[cu.DevicePtr]uintptr{}
	reserve := func(n, align uintptr, hint cu.DevicePtr) (cu.DevicePtr, error) {
		p, err := r.MemAddressReserve(r.ctx, n, align, hint, 0)
		if err == nil {
			sizes[p] = n
		}
		return p, err
	}
	full := 0
	for range 3000 {
		n := uintptr(1+rng.IntN(1<<20)) * 4096 << rng.IntN(10)
		align := uintptr(1) << (12 + rng.IntN(20))
		p, err := reserve(n, align, 0)
		switch {
		case err != nil:
			r.want(cu.ErrorOutOfMemory, err)
			full++
		case uint64(p)%uint64(align) != 0 || uint64(p) < reservedBase || uint64(p)+uint64(n) > reservedEnd:
			t.Fatalf("%d bytes aligned to %d are at %#x", n, align, uint64(p))
		}
		for p, n := range sizes {
			if rng.IntN(4) == 0 {
				r.ok(r.MemAddressFree(r.ctx, p, n))
				delete(sizes, p)
			}
			break
		}
	}
	if full == 0 || len(sizes) < 20 {
		t.Errorf("%d refusals, %d reservations: the addresses were never used up", full, len(sizes))
	}
	var all []cu.DevicePtr
	for p := range sizes {
		all = append(all, p)
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i-1]+cu.DevicePtr(sizes[all[i-1]])+granularity > all[i] {
			t.Fatalf("%#x and %#x have no gap", all[i-1], all[i])
		}
	}
	last := all[len(all)-1]
	hint := last - cu.DevicePtr(uint64(last)%granularity)
	if p, err := reserve(granularity, 0, hint); err == nil && p == hint {
		t.Errorf("a hint inside another reservation is followed: %#x", p)
	}
	r.ok(r.MemAddressFree(r.ctx, last, sizes[last]))
	delete(sizes, last)
	if p, err := reserve(granularity, 0, hint); err != nil || p != hint {
		t.Errorf("a free hint gives %#x, %v, want %#x", p, err, hint)
	}
}

// TestReservedText: errors say that addresses are reserved, and walks end at closed memory.
func TestReservedText(t *testing.T) {
	r := newRig(t, Options{})
	const n = 2 << 20
	p, err := r.MemAddressReserve(r.ctx, 4*n, 0, 0, 0)
	r.ok(err)
	h := r.created(n)
	r.ok(r.MemMap(r.ctx, p+n, n, 0, h, 0))
	w, err := r.Walk(r.ctx, p+n+8, Kernel, true)
	r.ok(err)
	if !strings.Contains(w.Fault, "MemSetAccess") {
		t.Errorf("a walk of closed memory ends with %q", w.Fault)
	}
	_, err = r.MemRetainAllocationHandle(r.ctx, p+8)
	if want := fmt.Sprintf("8 bytes into 8388608 bytes of reserved addresses at %#x, where no memory is mapped", uint64(p)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
	r.ok(r.LaunchKernel(r.ctx, r.function("store"), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, 0, params(p+12, uint32(1))))
	if err := r.CtxSynchronize(r.ctx); err == nil || !strings.Contains(err.Error(), "12 bytes into 8388608 bytes of reserved addresses") {
		t.Errorf("a kernel on reserved addresses: %v", err)
	}
}

// TestGaps: a reservation keeps a gap before the next one.
func TestGaps(t *testing.T) {
	r := newRig(t, Options{})
	var p [3]cu.DevicePtr
	for i := range p {
		var err error
		p[i], err = r.MemAddressReserve(r.ctx, granularity, 0, 0, 0)
		r.ok(err)
	}
	r.ok(r.MemAddressFree(r.ctx, p[1], granularity))
	n := uintptr(p[2] - p[1]) // up to the next reservation
	if q, err := r.MemAddressReserve(r.ctx, n, 0, p[1], 0); err != nil || q == p[1] {
		t.Errorf("%d bytes are at %#x, %v, right before %#x", n, q, err, p[2])
	}
	if q, err := r.MemAddressReserve(r.ctx, n-granularity, 0, p[1], 0); err != nil || q != p[1] {
		t.Errorf("%d bytes are at %#x, %v, want %#x", n-granularity, q, err, p[1])
	}
}

// TestMapBeforeThePagesAreGone: memory that is mapped while the pages of an earlier mapping are still
// there, for an operation that executes, stays when these go.
func TestMapBeforeThePagesAreGone(t *testing.T) {
	r := newRig(t, Options{})
	const n = 2 * granularity
	p := r.mapped(n, r.created(n))
	executing := func(by int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running += by
		r.runDeferredUnmaps()
	}
	executing(1)
	r.ok(r.MemUnmap(r.ctx, p, n))
	h := r.created(granularity)
	r.ok(r.MemMap(r.ctx, p+granularity, granularity, 0, h, 0))
	r.ok(r.MemRelease(r.ctx, h))
	r.ok(r.MemSetAccess(r.ctx, p+granularity, granularity, []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}, Flags: cu.MemAccessProtReadWrite}}))
	executing(-1)
	r.ok(r.MemsetD8(r.ctx, p+granularity, 7, granularity))
	if b := r.contentsOf(p+granularity, granularity); len(bytes.Trim(b, "\x07")) > 0 {
		t.Error("the memory has other bytes")
	}
	v := r.addresses.find(uint64(p))
	err := guard("look", nil, func() error { _ = append([]byte(nil), v.host.data[:1]...); return nil })
	if err == nil {
		t.Error("the pages of the first mapping are still there")
	}
}
