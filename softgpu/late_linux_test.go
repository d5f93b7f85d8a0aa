package softgpu

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

const lostBytes = 64 << 10

// lost registers memory and then takes it away: it unmaps it, protects it, or truncates its
// file.
func (r *rig) lost(how string) (cu.HostPtr, cu.DevicePtr) {
	r.t.Helper()
	const access, private = syscall.PROT_READ | syscall.PROT_WRITE, syscall.MAP_PRIVATE | syscall.MAP_ANON
	fd, flags := -1, private
	var file *os.File
	if how == "truncated" {
		var err error
		file, err = os.CreateTemp("/dev/shm", "lost") // a file on a disk cannot be registered for writing
		if err != nil {
			r.t.Skip(err)
		}
		os.Remove(file.Name())
		r.t.Cleanup(func() { file.Close() })
		r.ok(file.Truncate(lostBytes))
		fd, flags = int(file.Fd()), syscall.MAP_SHARED
	}
	b, err := syscall.Mmap(fd, 0, lostBytes, access, flags)
	r.ok(err)
	p := ptr(b)
	r.ok(r.MemHostRegister(r.ctx, p, lostBytes, cu.MemHostRegisterDeviceMap))
	at, err := r.MemHostGetDevicePointer(r.ctx, p, 0)
	r.ok(err)
	r.t.Cleanup(func() { r.MemHostUnregister(r.ctx, p) })
	switch how {
	case "truncated":
		r.ok(file.Truncate(0))
	case "protected":
		r.ok(syscall.Mprotect(b, syscall.PROT_NONE))
	default:
		// Nothing else may get the addresses during the test.
		r.ok(syscall.Munmap(b))
		again, _, errno := syscall.Syscall6(syscall.SYS_MMAP, uintptr(addressOf(p)), lostBytes, syscall.PROT_NONE, private, ^uintptr(0), 0)
		if errno != 0 || uint64(again) != addressOf(p) {
			r.t.Skip("another thread has mapped the addresses")
		}
	}
	return p, at
}

// lateOps are operations that use lost memory p, at the device address at, and device memory d.
var lateOps = []struct {
	name string // as its error must begin
	do   func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error
}{
	{"copy 65536 bytes host to device", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.MemcpyHtoDAsync(r.ctx, d, p, lostBytes, s)
	}},
	{"copy 65536 bytes device to host", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.MemcpyDtoHAsync(r.ctx, p, d, lostBytes, s)
	}},
	{"copy 65536 bytes between addresses", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.MemcpyAsync(r.ctx, at, d, lostBytes, s)
	}},
	{"copy 4096 bytes between addresses", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.MemcpyBatchAsync(r.ctx, []cu.DevicePtr{d}, []cu.DevicePtr{at}, []uintptr{4096}, s)
	}},
	{"copy a rectangle", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeHost, SrcHost: p, SrcPitch: 128, DstMemoryType: cu.MemoryTypeDevice,
			DstDevice: d, DstPitch: 256, WidthInBytes: 100, Height: 40}, s)
	}},
	{"copy a 3D rectangle", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.Memcpy3DAsync(r.ctx, &cu.Memcpy3D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: d, SrcPitch: 128, SrcHeight: 8, DstMemoryType: cu.MemoryTypeHost,
			DstHost: p, DstPitch: 256, DstHeight: 8, WidthInBytes: 100, Height: 8, Depth: 4}, s)
	}},
	{"fill 64.0 KiB", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.MemsetD32Async(r.ctx, at, 3, lostBytes/4, s)
	}},
	{"write a value of 4 bytes", func(r *rig, s cu.Stream, p cu.HostPtr, at, d cu.DevicePtr) error {
		return r.StreamWriteValue32(r.ctx, s, at, 3, 0)
	}},
}

// wantLate fails unless err is the error of one operation that failed later: with its name,
// its code, the memory and the cause, and without a kernel.
func (r *rig) wantLate(err error, name string, code cu.Result, words ...string) {
	r.t.Helper()
	failed, ok := errors.AsType[*cu.OperationError](err)
	if !ok || failed.Result != code || !errors.Is(err, code) || !strings.HasPrefix(failed.Operation, name) {
		r.t.Errorf("%s: got %v, want an OperationError of it with %s", name, err, code.Name())
		return
	}
	if text := err.Error(); strings.Contains(text, "kernel") || strings.Contains(text, "thread") || !strings.HasPrefix(text, name) {
		r.t.Errorf("%s: the text is %q", name, text)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.t.Errorf("%s: %v does not say %q", name, err, w)
		}
	}
}

// usable fails unless the context works, and no error is left.
func (r *rig) usable() {
	r.t.Helper()
	r.ok(r.CtxSynchronize(r.ctx))
	hp, host := r.pinned(4)
	d := r.alloc(4)
	s := r.stream(0)
	r.ok(r.run(r.function("store"), 1, 1, s, d, uint32(0x01020304)))
	r.ok(r.MemcpyDtoHAsync(r.ctx, hp, d, 4, s))
	r.sync(s)
	if host[0] != 4 || host[3] != 1 {
		r.t.Errorf("the context does not work any more: got %v", host[:4])
	}
}

// TestLostMemory: an operation whose registered memory has gone names itself and the memory,
// keeps its code, and loses nothing: in a stream and in a graph, told once, by the wait for its
// stream or context, or by a copy of its stream that waits.
func TestLostMemory(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		cause := []string{"registered host range", "unmapped or protected", "its file was truncated", "MemHostUnregister"}
		for _, how := range []string{"unmapped", "protected", "truncated"} {
			for _, op := range lateOps {
				p, at := r.lost(how)
				s, d := r.stream(cu.StreamNonBlocking), r.alloc(lostBytes)
				r.ok(op.do(r, s, p, at, d))
				e := r.event()
				r.ok(r.EventRecord(r.ctx, e, s))
				r.ok(r.EventSynchronize(r.ctx, e))
				r.ok(r.StreamSynchronize(r.ctx, r.stream(cu.StreamNonBlocking))) // another stream does not tell it
				r.wantLate(r.StreamSynchronize(r.ctx, s), op.name, cu.ErrorInvalidValue, cause...)
				r.sync(s)

				g := r.capturing(func(s cu.Stream) { r.ok(op.do(r, s, p, at, d)) })
				x, err := r.GraphInstantiate(r.ctx, g, 0)
				r.ok(err)
				r.ok(r.GraphLaunch(r.ctx, x, s))
				r.wantLate(r.CtxSynchronize(r.ctx), op.name, cu.ErrorInvalidValue, cause...)

				r.ok(op.do(r, s, p, at, d))
				r.ok(r.StreamDestroy(r.ctx, s))
				r.wantLate(r.CtxSynchronize(r.ctx), op.name, cu.ErrorInvalidValue)
				r.usable()
			}
		}
	})
}

// TestLostMemoryInSync: a call that waits for its own operation returns the same error itself.
// A copy that waits in the same stream also returns what failed before it.
func TestLostMemoryInSync(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p, at := r.lost("unmapped")
		d := r.alloc(lostBytes)
		r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, d, p, lostBytes))
		r.want(cu.ErrorInvalidValue, r.MemcpyDtoH(r.ctx, p, d, lostBytes))
		r.want(cu.ErrorInvalidValue, r.MemsetD8(r.ctx, at, 1, 100))
		r.usable()
		s, back := r.stream(cu.StreamDefault), make([]byte, lostBytes)
		r.ok(r.MemcpyHtoDAsync(r.ctx, d, p, lostBytes, s))
		r.wantLate(r.MemcpyDtoH(r.ctx, ptr(back), d, lostBytes), "copy 65536 bytes host to device", cu.ErrorInvalidValue)
		r.usable()
		s = r.stream(cu.StreamNonBlocking)
		r.ok(r.MemcpyHtoDAsync(r.ctx, d, p, lostBytes, s))
		r.ok(r.MemcpyDtoH(r.ctx, ptr(back), r.alloc(lostBytes), lostBytes)) // the legacy stream does not wait for s
		r.wantLate(r.StreamSynchronize(r.ctx, s), "copy 65536 bytes host to device", cu.ErrorInvalidValue)
	})
}

// TestLateErrorsAreAll: of several operations that failed, and a host function, all are told.
func TestLateErrorsAreAll(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		p, at := r.lost("unmapped")
		s, d := r.stream(0), r.alloc(lostBytes)
		r.ok(r.MemcpyHtoDAsync(r.ctx, d, p, lostBytes, s))
		r.ok(r.LaunchHostFunc(r.ctx, s, func() { panic("planned") }))
		r.ok(r.MemsetD8Async(r.ctx, at, 1, 100, s))
		err := r.StreamSynchronize(r.ctx, s)
		for _, want := range []string{"copy 65536 bytes host to device: CUDA_ERROR_INVALID_VALUE", "planned", "fill 100 bytes: CUDA_ERROR_INVALID_VALUE"} {
			if err == nil || strings.Count(err.Error(), want) != 1 {
				t.Errorf("got %v, want %q once", err, want)
			}
		}
		r.usable()
	})
}

// TestKernelOfLostMemory: a kernel that uses registered memory which has gone faults, as with
// any address that is not mapped. The process goes on.
func TestKernelOfLostMemory(t *testing.T) {
	for _, how := range []string{"unmapped", "truncated"} {
		r := newRig(t, Options{})
		_, at := r.lost(how)
		r.ok(r.run(r.function("store"), 1, 1, 0, at, uint32(1)))
		err := r.CtxSynchronize(r.ctx)
		fault, ok := errors.AsType[*cu.Fault](err)
		if !ok || fault.Result != cu.ErrorIllegalAddress || fault.Kernel != "store" || !strings.Contains(err.Error(), "unmapped or protected after its registration") {
			t.Errorf("%s: got %v", how, err)
		}
	}
}

// TestLateFill: a fill for which this computer has too little memory names itself, and the
// context stays usable.
func TestLateFill(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "h200")})
	const n = 96 << 20
	d := r.alloc(n)
	r.freeMemory = func() uint64 { return 100 << 20 }
	r.ok(r.MemsetD8(r.ctx, d, 1, n))
	r.wantLate(r.CtxSynchronize(r.ctx), "fill 96.0 MiB", cu.ErrorOutOfMemory, "100.0 MiB are free")
	r.freeMemory = func() uint64 { return 1 << 30 }
	r.usable()
	r.ok(r.MemsetD8(r.ctx, d, 1, n))
	r.ok(r.CtxSynchronize(r.ctx))
}

// TestFaultWithoutKernel: a copy of memory that was freed in its stream faults as on hardware,
// and is told by its name.
func TestFaultWithoutKernel(t *testing.T) {
	r := newRig(t, Options{})
	s := r.stream(0)
	d, err := r.MemAllocAsync(r.ctx, 64, s)
	r.ok(err)
	hp, _ := r.pinned(64)
	g := r.capturing(func(s cu.Stream) { r.ok(r.MemcpyDtoHAsync(r.ctx, hp, d, 64, s)) })
	x, err := r.GraphInstantiate(r.ctx, g, 0)
	r.ok(err)
	r.ok(r.MemFreeAsync(r.ctx, d, s))
	r.ok(r.GraphLaunch(r.ctx, x, s))
	err = r.StreamSynchronize(r.ctx, s)
	r.want(cu.ErrorIllegalAddress, err)
	text := err.Error()
	if strings.Contains(text, "kernel") || strings.Contains(text, "thread") || !strings.HasPrefix(text, "copy 64 bytes device to host: CUDA_ERROR_ILLEGAL_ADDRESS: access of 64 bytes at 0x") {
		t.Errorf("got %q", text)
	}
	if text = r.CtxSynchronize(r.ctx).Error(); !strings.Contains(text, "lost the context (copy 64 bytes device to host)") {
		t.Errorf("later: %q", text)
	}
}
