package libcuda_test

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// pinned returns page-locked memory as bytes.
func (g *gpu) pinned(n int, flags cu.MemHostAllocFlags) ([]byte, cu.HostPtr) {
	g.Helper()
	p, err := g.MemHostAlloc(g.ctx, uintptr(n), flags)
	g.must(err)
	g.cleanup(func() error { return g.MemFreeHost(g.ctx, p) })
	return unsafe.Slice((*byte)(p), n), p
}

func devicePtr(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

func TestGPUMemory(t *testing.T) {
	g := newGPU(t)
	_, err := g.MemAlloc(g.ctx, 0)
	g.want(err, cu.ErrorInvalidValue)
	_, err = g.MemAlloc(g.ctx, 1<<50)
	g.want(err, cu.ErrorOutOfMemory)
	g.want(g.MemFree(g.ctx, 0x1234), cu.ErrorInvalidValue)

	const size = 64 << 20
	before, total, err := g.MemGetInfo(g.ctx)
	g.must(err)
	p := g.alloc(size)
	after, _, err := g.MemGetInfo(g.ctx)
	g.must(err)
	if p%256 != 0 || after > before || before > total {
		t.Errorf("allocation at %#x, free %d before, %d after, of %d", p, before, after, total)
	}
	base, n, err := g.MemGetAddressRange(g.ctx, p+size/2+3)
	g.must(err)
	if base != p || n != size {
		t.Errorf("range %#x, %d bytes, want %#x, %d", base, n, p, size)
	}
	rows, pitch, err := g.MemAllocPitch(g.ctx, 100, 7, 4)
	g.must(err)
	if rows == 0 || pitch < 100 || pitch%4 != 0 {
		t.Errorf("pitch %d at %#x", pitch, rows)
	}
	g.must(g.MemFree(g.ctx, rows))
}

func TestGPUHostMemory(t *testing.T) {
	g := newGPU(t)
	const flags = cu.MemHostAllocPortable | cu.MemHostAllocDeviceMap
	host, p := g.pinned(1<<16, flags)
	got, err := g.MemHostGetFlags(g.ctx, p)
	g.must(err)
	if got&flags != flags {
		t.Errorf("flags %v, want %v", got, flags)
	}
	mapped, err := g.MemHostGetDevicePointer(g.ctx, p, 0)
	g.must(err)
	data := random(len(host))
	dst := g.alloc(len(host))
	copy(host, data)
	g.must(g.Memcpy(g.ctx, dst, mapped, uintptr(len(host))))
	g.same("copy from the mapped address", g.download(dst, len(host)), data)

	slice := make([]byte, 1<<20)
	var pin runtime.Pinner
	pin.Pin(&slice[0])
	defer pin.Unpin()
	g.must(g.MemHostRegister(g.ctx, cu.HostPtr(&slice[0]), uintptr(len(slice)), cu.MemHostRegisterPortable))
	g.want(g.MemHostRegister(g.ctx, cu.HostPtr(&slice[0]), uintptr(len(slice)), 0), cu.ErrorHostMemoryAlreadyRegistered)
	attributes, err := g.PointerGetAttributes(g.ctx, devicePtr(cu.HostPtr(&slice[100])))
	g.must(err)
	if attributes.MemoryType != cu.MemoryTypeHost {
		t.Errorf("registered memory: %+v", attributes)
	}
	g.must(g.MemHostUnregister(g.ctx, cu.HostPtr(&slice[0])))
	g.want(g.MemHostUnregister(g.ctx, cu.HostPtr(&slice[0])), cu.ErrorHostMemoryNotRegistered)
}

func TestGPUPointerAttributes(t *testing.T) {
	g := newGPU(t)
	device := g.alloc(1 << 20)
	host, hostPtr := g.pinned(1<<16, cu.MemHostAllocDeviceMap)
	managed, err := g.MemAllocManaged(g.ctx, 1<<16, cu.MemAttachGlobal)
	g.must(err)
	g.cleanup(func() error { return g.MemFree(g.ctx, managed) })

	a, err := g.PointerGetAttributes(g.ctx, device+100)
	g.must(err)
	if a.Context != g.ctx || a.MemoryType != cu.MemoryTypeDevice || a.DevicePointer != device+100 || a.HostPointer != nil ||
		a.Device != g.dev || a.IsManaged || a.RangeStart != device || a.RangeSize != 1<<20 || a.BufferID == 0 {
		t.Errorf("device memory at %#x: %+v", device, a)
	}
	b, err := g.PointerGetAttributes(g.ctx, devicePtr(hostPtr))
	g.must(err)
	if b.MemoryType != cu.MemoryTypeHost || b.HostPointer != hostPtr || b.IsManaged || b.BufferID == a.BufferID || b.RangeSize < uintptr(len(host)) {
		t.Errorf("host memory at %#x: %+v", uintptr(hostPtr), b)
	}
	c, err := g.PointerGetAttributes(g.ctx, managed)
	g.must(err)
	if !c.IsManaged || c.RangeStart != managed || c.RangeSize != 1<<16 {
		t.Errorf("managed memory at %#x: %+v", managed, c)
	}
	stack := make([]byte, 1<<20)
	d, err := g.PointerGetAttributes(g.ctx, devicePtr(cu.HostPtr(&stack[0])))
	g.must(err)
	if want := (cu.PointerAttributes{Device: cu.InvalidDevice}); d != want {
		t.Errorf("ordinary memory: %+v, want %+v", d, want)
	}
	t.Logf("device %+v; host %+v; managed %+v", a, b, c)
}

func TestGPUManagedMemory(t *testing.T) {
	g := newGPU(t)
	if can, err := g.DeviceGetAttribute(cu.DeviceAttributeManagedMemory, g.dev); err != nil || can == 0 {
		t.Skipf("no managed memory: %v", err)
	}
	const size = 4 << 20
	p, err := g.MemAllocManaged(g.ctx, size, cu.MemAttachGlobal)
	g.must(err)
	g.cleanup(func() error { return g.MemFree(g.ctx, p) })
	s := g.stream()
	host := unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), size)
	data := random(size)
	copy(host, data)
	g.same("device's view", g.download(p, size), data)

	g.must(g.StreamAttachMemAsync(g.ctx, s, p, 0, cu.MemAttachGlobal))
	g.must(g.StreamSynchronize(g.ctx, s))
	if can, err := g.DeviceGetAttribute(cu.DeviceAttributeConcurrentManagedAccess, g.dev); err != nil || can == 0 {
		t.Skipf("no concurrent managed access: %v", err)
	}
	ask := func(attribute cu.MemRangeAttribute, n int) []int32 {
		t.Helper()
		data := make([]int32, n)
		g.must(g.MemRangeGetAttribute(g.ctx, data, attribute, p, size))
		return data
	}
	for _, place := range []cu.Device{g.dev, cu.CPUDevice} {
		g.must(g.MemPrefetchAsync(g.ctx, p, size, place, s))
		g.must(g.StreamSynchronize(g.ctx, s))
		if got := ask(cu.MemRangeAttributeLastPrefetchLocation, 1)[0]; got != int32(place) {
			t.Errorf("last prefetch location %d, want %d", got, place)
		}
	}
	g.must(g.MemAdvise(g.ctx, p, size, cu.MemAdviseSetReadMostly, g.dev))
	if got := ask(cu.MemRangeAttributeReadMostly, 1)[0]; got != 1 {
		t.Errorf("read-mostly %d, want 1", got)
	}
	g.must(g.MemAdvise(g.ctx, p, size, cu.MemAdviseUnsetReadMostly, g.dev))
	if got := ask(cu.MemRangeAttributeReadMostly, 1)[0]; got != 0 {
		t.Errorf("read-mostly %d, want 0", got)
	}
	if got := ask(cu.MemRangeAttributePreferredLocation, 1)[0]; got != int32(cu.InvalidDevice) {
		t.Errorf("preferred location %d, want none", got)
	}
	g.must(g.MemAdvise(g.ctx, p, size, cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
	if got := ask(cu.MemRangeAttributePreferredLocation, 1)[0]; got != int32(cu.CPUDevice) {
		t.Errorf("preferred location %d, want the host", got)
	}
	g.must(g.MemAdvise(g.ctx, p, size, cu.MemAdviseSetAccessedBy, g.dev))
	if got := ask(cu.MemRangeAttributeAccessedBy, 3); got[0] != int32(g.dev) || got[1] != int32(cu.InvalidDevice) || got[2] != int32(cu.InvalidDevice) {
		t.Errorf("accessed by %d, want device %d alone", got, g.dev)
	}
	if !bytes.Equal(host, data) {
		t.Error("moving the pages changed the data")
	}
}

func TestGPUPools(t *testing.T) {
	g := newGPU(t)
	if can, err := g.DeviceGetAttribute(cu.DeviceAttributeMemoryPoolsSupported, g.dev); err != nil || can == 0 {
		t.Skipf("no memory pools: %v", err)
	}
	standard, err := g.DeviceGetDefaultMemPool(g.dev)
	g.must(err)
	pool, err := g.MemPoolCreate(&cu.MemPoolProps{
		AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(g.dev)})
	g.must(err)
	g.must(g.DeviceSetMemPool(g.dev, pool))
	current, err := g.DeviceGetMemPool(g.dev)
	g.must(err)
	if current != pool || pool == standard {
		t.Errorf("current pool %#x, want %#x, not %#x", current, pool, standard)
	}
	attribute := func(a cu.MemPoolAttribute) uint64 {
		t.Helper()
		v, err := g.MemPoolGetAttribute(pool, a)
		g.must(err)
		return v
	}
	g.must(g.MemPoolSetAttribute(pool, cu.MemPoolAttrReleaseThreshold, 1<<40))
	if got := attribute(cu.MemPoolAttrReleaseThreshold); got != 1<<40 {
		t.Errorf("threshold %d", got)
	}
	g.must(g.MemPoolSetAttribute(pool, cu.MemPoolAttrReuseAllowOpportunistic, 0))
	if got := attribute(cu.MemPoolAttrReuseAllowOpportunistic); got != 0 {
		t.Errorf("opportunistic reuse %d", got)
	}

	const size = 1 << 20
	s := g.stream()
	p, err := g.MemAllocAsync(g.ctx, size, s)
	g.must(err)
	q, err := g.MemAllocFromPoolAsync(g.ctx, size, pool, s)
	g.must(err)
	g.must(g.MemsetD8Async(g.ctx, p, 0x17, size, s))
	g.must(g.MemcpyDtoDAsync(g.ctx, q, p, size, s))
	g.must(g.StreamSynchronize(g.ctx, s))
	g.same("memory of the pool", g.download(q, size), bytes.Repeat([]byte{0x17}, size))
	if got := attribute(cu.MemPoolAttrUsedMemCurrent); got < 2*size {
		t.Errorf("%d bytes in use, want %d at least", got, 2*size)
	}
	g.must(g.MemFreeAsync(g.ctx, p, s))
	g.must(g.MemFreeAsync(g.ctx, q, s))
	g.must(g.StreamSynchronize(g.ctx, s))
	if used, kept := attribute(cu.MemPoolAttrUsedMemCurrent), attribute(cu.MemPoolAttrReservedMemCurrent); used != 0 || kept == 0 {
		t.Errorf("%d bytes in use, %d reserved, want 0 and more than 0", used, kept)
	}
	g.must(g.MemPoolTrimTo(pool, 0))
	if kept := attribute(cu.MemPoolAttrReservedMemCurrent); kept != 0 {
		t.Errorf("%d bytes reserved after the trim", kept)
	}
	g.must(g.DeviceSetMemPool(g.dev, standard))
	g.must(g.MemPoolDestroy(pool))
}
