package softgpu

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

func TestAllocationLimits(t *testing.T) {
	r := newRig(t, Options{})
	_, err := r.MemAlloc(r.ctx, 0)
	r.want(cu.ErrorInvalidValue, err)
	for _, n := range []uintptr{1 << 40, ^uintptr(0), ^uintptr(0) - 511} {
		_, err = r.MemAlloc(r.ctx, n)
		r.want(cu.ErrorOutOfMemory, err)
		_, err = r.MemHostAlloc(r.ctx, n, 0)
		r.want(cu.ErrorOutOfMemory, err)
		_, err = r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
		r.want(cu.ErrorOutOfMemory, err)
	}
	free, total, err := r.MemGetInfo(r.ctx)
	r.ok(err)
	if total != 150109880320 || free >= total || free < total-(1<<30) {
		t.Errorf("free %d of %d", free, total)
	}
	p := r.alloc(5)
	if got, _, _ := r.MemGetInfo(r.ctx); got != free-(2<<20) {
		t.Errorf("a small allocation took %d", free-got)
	}
	if p%256 != 0 {
		t.Errorf("%#x is not aligned", p)
	}
	r.ok(r.MemFree(r.ctx, p))
	if got, _, _ := r.MemGetInfo(r.ctx); got != free {
		t.Errorf("free %d after all was freed, %d before", got, free)
	}
	r.ok(r.MemFree(r.ctx, 0))
}

func TestFreedAddressesAreNotReusedAtOnce(t *testing.T) {
	r := newRig(t, Options{})
	p := r.alloc(4096)
	r.ok(r.MemFree(r.ctx, p))
	err := r.MemFree(r.ctx, p)
	r.want(cu.ErrorInvalidValue, err)
	if !strings.Contains(err.Error(), "freed") {
		t.Errorf("%v does not say that the memory was freed", err)
	}
	for range 1000 {
		q := r.alloc(4096)
		if q == p {
			t.Fatal("the address was reused at once")
		}
		r.ok(r.MemFree(r.ctx, q))
	}
	if len(r.deferredUnmaps) != 0 || r.backedBytes > 3*slabSize {
		t.Errorf("%d deferred unmaps, %d bytes of real memory, although all is freed", len(r.deferredUnmaps), r.backedBytes)
	}
}

func TestCopyBounds(t *testing.T) {
	r := newRig(t, Options{})
	const n = 1000
	dev := r.alloc(n)
	hp, _ := r.pinned(n)
	host := make([]byte, 2*n)
	r.ok(r.MemcpyHtoD(r.ctx, dev, ptr(host), n))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, ptr(host), n+1))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev+1, ptr(host), n))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev-1, ptr(host), 1))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, 0x1234, ptr(host), 1))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, nil, 1))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, unsafe.Add(hp, 1), n))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, ptr(host), ^uintptr(0)))
	r.want(cu.ErrorInvalidValue, r.MemsetD8(r.ctx, dev, 0, n+1))
	r.want(cu.ErrorInvalidValue, r.MemsetD32(r.ctx, dev+2, 0, 1))
	r.want(cu.ErrorInvalidValue, r.MemsetD16(r.ctx, dev+1, 0, 1))
	r.want(cu.ErrorInvalidValue, r.MemsetD32(r.ctx, dev, 0, 1<<62))
	r.ok(r.MemcpyHtoD(r.ctx, 0x1234, nil, 0))
	r.ok(r.MemsetD8(r.ctx, dev, 0, 0))
}

func TestWildHostAddressIsAnError(t *testing.T) {
	if oneThread {
		t.Skip("an access to a wild address does not fault on this platform")
	}
	r := newRig(t, Options{})
	dev := r.alloc(1 << 20)
	wild := cu.DevicePtr(0x10_0000_0000)
	r.want(cu.ErrorInvalidValue, r.Memcpy(r.ctx, dev, wild, 100))
	r.want(cu.ErrorInvalidValue, r.Memcpy(r.ctx, wild, dev, 1<<20))
	r.ok(r.CtxSynchronize(r.ctx)) // the context still works
}

func TestMemsets(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		hp, host := r.pinned(4000)
		dp, err := r.MemHostGetDevicePointer(r.ctx, hp, 0)
		r.ok(err)
		r.ok(r.MemsetD32(r.ctx, dp, 0x40490fdb, 1000)) // a float, through page-locked memory
		if !bytes.Equal(host, bytes.Repeat([]byte{0xdb, 0x0f, 0x49, 0x40}, 1000)) {
			t.Error("MemsetD32 wrote other bytes")
		}
		r.ok(r.MemsetD16Async(r.ctx, dp+2, 0x1234, 1, 0))
		r.ok(r.MemsetD8Async(r.ctx, dp, 0xff, 1, 0))
		r.sync(0)
		if !bytes.Equal(host[:5], []byte{0xff, 0x0f, 0x34, 0x12, 0xdb}) {
			t.Errorf("got % x", host[:5])
		}
	})
}

func TestRegister(t *testing.T) {
	r := newRig(t, Options{})
	buf := make([]byte, 10000)
	p := ptr(buf)
	r.ok(r.MemHostRegister(r.ctx, p, 5000, 0))
	r.want(cu.ErrorHostMemoryAlreadyRegistered, r.MemHostRegister(r.ctx, p, 5000, 0))
	r.want(cu.ErrorHostMemoryAlreadyRegistered, r.MemHostRegister(r.ctx, unsafe.Add(p, 4999), 10, 0))
	r.ok(r.MemHostRegister(r.ctx, unsafe.Add(p, 5000), 5000, cu.MemHostRegisterReadOnly))
	r.want(cu.ErrorInvalidValue, r.MemHostUnregister(r.ctx, unsafe.Add(p, 1)))
	r.want(cu.ErrorInvalidValue, r.MemHostRegister(r.ctx, nil, 5, 0))
	r.want(cu.ErrorInvalidValue, r.MemHostRegister(r.ctx, p, 0, 0))
	r.want(cu.ErrorInvalidValue, r.MemFreeHost(r.ctx, p))
	dp, err := r.MemHostGetDevicePointer(r.ctx, unsafe.Add(p, 7), 0)
	r.ok(err)
	if uint64(dp) != uint64(uintptr(p))+7 {
		t.Errorf("device address %#x of %p+7", dp, p)
	}
	dev := r.alloc(10000)
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, p, 10000)) // across the end of a range
	r.ok(r.MemHostUnregister(r.ctx, p))
	r.ok(r.MemHostUnregister(r.ctx, unsafe.Add(p, 5000)))
	r.want(cu.ErrorHostMemoryNotRegistered, r.MemHostUnregister(r.ctx, p))
	r.ok(r.MemcpyHtoD(r.ctx, dev, p, 10000))
}

func TestOldDriver(t *testing.T) {
	r := newRig(t, Options{Profile: named(t, "fermi-c2050")})
	_, err := r.MemHostAlloc(r.ctx, 100, cu.MemHostAllocDeviceMap) // not mapped: made without CtxMapHost
	r.want(cu.ErrorInvalidValue, err)
	r.want(cu.ErrorNotSupported, r.MemHostRegister(r.ctx, ptr(make([]byte, 8)), 8, 0))
	_, err = r.MemAllocManaged(r.ctx, 100, cu.MemAttachGlobal)
	r.want(cu.ErrorNotSupported, err)
	_, err = r.MemAllocAsync(r.ctx, 100, 0)
	r.want(cu.ErrorNotSupported, err)
	r.want(cu.ErrorNotSupported, r.Memcpy(r.ctx, 1, 2, 3))

	c, err := r.CtxCreate(cu.CtxMapHost, 0)
	r.ok(err)
	p, err := r.MemHostAlloc(c, 100, cu.MemHostAllocDeviceMap)
	r.ok(err)
	dp, err := r.MemHostGetDevicePointer(c, p, 0)
	r.ok(err)
	if uint64(dp) == uint64(uintptr(p)) {
		t.Error("the device address is the host's without unified addressing")
	}
	r.ok(r.MemsetD8(c, dp+1, 5, 2))
	if b := unsafe.Slice((*byte)(p), 4); !bytes.Equal(b, []byte{0, 5, 5, 0}) {
		t.Errorf("got % x through the device address", b)
	}
	_, err = r.MemHostGetDevicePointer(r.ctx, p, 0) // another context, not portable
	r.want(cu.ErrorInvalidValue, err)
	plain, err := r.MemHostAlloc(c, 100, cu.MemHostAllocPortable)
	r.ok(err)
	_, err = r.MemHostGetDevicePointer(c, plain, 0)
	r.want(cu.ErrorInvalidValue, err)
	dev, err := r.MemAlloc(c, 100)
	r.ok(err)
	r.ok(r.MemcpyHtoD(c, dev, p, 100))
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(c, cu.DevicePtr(uintptr(p)), p, 1)) // a host address instead of a device address
	r.want(cu.ErrorInvalidValue, r.MemcpyHtoD(r.ctx, dev, p, 100))                // another context's memory
	r.ok(r.CtxDestroy(c))
}

func TestPointerAttributes(t *testing.T) {
	r := newRig(t, Options{})
	dev := r.alloc(1000)
	hp, _ := r.pinned(1000)
	m, err := r.MemAllocManaged(r.ctx, 1000, cu.MemAttachGlobal)
	r.ok(err)
	a, err := r.PointerGetAttributes(r.ctx, dev+10)
	r.ok(err)
	if a.MemoryType != cu.MemoryTypeDevice || a.DevicePointer != dev+10 || a.HostPointer != nil ||
		a.RangeStart != dev || a.RangeSize != 1000 || a.IsManaged || a.Device != 0 || a.Context != r.ctx || !a.Mapped {
		t.Errorf("device memory: %+v", a)
	}
	b, err := r.PointerGetAttributes(r.ctx, cu.DevicePtr(uintptr(hp))+1)
	r.ok(err)
	if b.MemoryType != cu.MemoryTypeHost || b.HostPointer != unsafe.Add(hp, 1) || b.BufferID == a.BufferID || b.BufferID == 0 {
		t.Errorf("host memory: %+v", b)
	}
	c, err := r.PointerGetAttributes(r.ctx, m)
	r.ok(err)
	if !c.IsManaged || c.HostPointer == nil || c.DevicePointer != m {
		t.Errorf("managed memory: %+v", c)
	}
	x := 1
	u, err := r.PointerGetAttributes(r.ctx, cu.DevicePtr(uintptr(unsafe.Pointer(&x))))
	r.ok(err)
	if u.MemoryType != 0 || u.BufferID != 0 {
		t.Errorf("ordinary memory: %+v", u)
	}
	base, size, err := r.MemGetAddressRange(r.ctx, dev+999)
	if base != dev || size != 1000 || err != nil {
		t.Errorf("range %#x, %d, %v", base, size, err)
	}
	_, _, err = r.MemGetAddressRange(r.ctx, dev+1000)
	r.want(cu.ErrorNotFound, err)
}

func TestRectangles(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const w, h, depth = 30, 7, 3
		dev, pitch, err := r.MemAllocPitch(r.ctx, w, h*depth, 4)
		r.ok(err)
		if pitch%512 != 0 {
			t.Fatalf("pitch %d", pitch)
		}
		src := pattern(40*10*4, 1)
		r.ok(r.Memcpy3D(r.ctx, &cu.Memcpy3D{
			SrcMemoryType: cu.MemoryTypeHost, SrcHost: ptr(src), SrcPitch: 40, SrcHeight: 10, SrcXInBytes: 5, SrcY: 2, SrcZ: 1,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: pitch, DstHeight: h,
			WidthInBytes: w, Height: h, Depth: depth,
		}))
		got := make([]byte, w*h*depth)
		r.ok(r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{
			SrcMemoryType: cu.MemoryTypeUnified, SrcDevice: dev, SrcPitch: pitch,
			DstMemoryType: cu.MemoryTypeHost, DstHost: ptr(got), DstPitch: w,
			WidthInBytes: w, Height: h * depth,
		}, 0))
		r.sync(0)
		for z := range depth {
			for y := range h {
				from := (z+1)*400 + (y+2)*40 + 5
				if !bytes.Equal(got[(z*h+y)*w:][:w], src[from:from+w]) {
					t.Fatalf("row %d of layer %d differs", y, z)
				}
			}
		}
		bad := cu.Memcpy2D{
			SrcMemoryType: cu.MemoryTypeHost, SrcHost: ptr(src), SrcPitch: 10,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: dev, DstPitch: pitch, WidthInBytes: w, Height: 2}
		r.want(cu.ErrorInvalidValue, r.Memcpy2D(r.ctx, &bad))
		bad.SrcPitch, bad.Height = 30, h*depth+1
		r.want(cu.ErrorInvalidValue, r.Memcpy2D(r.ctx, &bad))
		bad.Height, bad.SrcMemoryType = 1, cu.MemoryTypeArray
		r.want(cu.ErrorNotSupported, r.Memcpy2D(r.ctx, &bad))
		bad.SrcMemoryType = 77
		r.want(cu.ErrorInvalidValue, r.Memcpy2D(r.ctx, &bad))
		r.want(cu.ErrorInvalidValue, r.Memcpy2D(r.ctx, nil))
	})
}

func TestTwoDevices(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	c1, err := r.DevicePrimaryCtxRetain(1)
	r.ok(err)
	a := r.alloc(5000)
	b, err := r.MemAlloc(c1, 5000)
	r.ok(err)
	want := pattern(5000, 9)
	got := make([]byte, 5000)
	r.ok(r.MemcpyHtoD(r.ctx, a, ptr(want), 5000))
	r.ok(r.MemcpyPeer(r.ctx, b, c1, a, r.ctx, 5000))
	r.ok(r.MemcpyDtoH(c1, ptr(got), b, 5000))
	if !bytes.Equal(got, want) {
		t.Error("peer copy changed the bytes")
	}
	can, err := r.DeviceCanAccessPeer(0, 1)
	if can != 1 || err != nil {
		t.Errorf("can access %d, %v", can, err)
	}
	r.ok(r.CtxEnablePeerAccess(r.ctx, c1, 0))
	r.want(cu.ErrorPeerAccessAlreadyEnabled, r.CtxEnablePeerAccess(r.ctx, c1, 0))
	r.ok(r.CtxDisablePeerAccess(r.ctx, c1))
	r.want(cu.ErrorPeerAccessNotEnabled, r.CtxDisablePeerAccess(r.ctx, c1))
	s1, err := r.StreamCreate(c1, 0)
	r.ok(err)
	r.want(cu.ErrorInvalidHandle, r.LaunchHostFunc(r.ctx, s1, func() {}))
	r.want(cu.ErrorInvalidHandle, r.EventRecord(r.ctx, r.event(), s1))
	r.ok(r.StreamWaitEvent(r.ctx, s1, r.event(), 0))
}

func TestManagedCallsAndAdvice(t *testing.T) {
	r := newRig(t, Options{})
	m, err := r.MemAllocManaged(r.ctx, 1<<20, cu.MemAttachGlobal)
	r.ok(err)
	_, err = r.MemAllocManaged(r.ctx, 1<<20, cu.MemAttachSingle)
	r.want(cu.ErrorInvalidValue, err)
	read := func(a cu.MemRangeAttribute, n int, off, size uintptr) []int32 {
		t.Helper()
		out := make([]int32, n)
		r.ok(r.MemRangeGetAttribute(r.ctx, out, a, m+cu.DevicePtr(off), size))
		return out
	}
	r.ok(r.MemAdvise(r.ctx, m, 8192, cu.MemAdviseSetReadMostly, 0))
	if v := read(cu.MemRangeAttributeReadMostly, 1, 0, 8192)[0]; v != 1 {
		t.Errorf("read-mostly %d", v)
	}
	if v := read(cu.MemRangeAttributeReadMostly, 1, 0, 8193)[0]; v != 0 {
		t.Errorf("read-mostly of a mixed range %d", v)
	}
	r.ok(r.MemAdvise(r.ctx, m, 1<<20, cu.MemAdviseSetPreferredLocation, cu.CPUDevice))
	r.ok(r.MemAdvise(r.ctx, m, 1<<20, cu.MemAdviseSetAccessedBy, 0))
	r.ok(r.MemAdvise(r.ctx, m, 1<<20, cu.MemAdviseSetAccessedBy, cu.CPUDevice))
	if v := read(cu.MemRangeAttributePreferredLocation, 1, 0, 1<<20)[0]; v != int32(cu.CPUDevice) {
		t.Errorf("preferred %d", v)
	}
	if v := read(cu.MemRangeAttributeAccessedBy, 3, 0, 1<<20); v[0] != 0 || v[1] != -1 || v[2] != -2 {
		t.Errorf("accessed by %v", v)
	}
	r.ok(r.MemPrefetchAsync(r.ctx, m, 1<<20, 0, 0))
	r.sync(0)
	if v := read(cu.MemRangeAttributeLastPrefetchLocation, 1, 0, 1<<20)[0]; v != 0 {
		t.Errorf("last prefetch %d", v)
	}
	r.want(cu.ErrorInvalidDevice, r.MemPrefetchAsync(r.ctx, m, 1<<20, 7, 0))
	r.want(cu.ErrorInvalidValue, r.MemPrefetchAsync(r.ctx, m, 1<<20+1, 0, 0))
	r.want(cu.ErrorInvalidValue, r.MemPrefetchAsync(r.ctx, r.alloc(10), 10, 0, 0))
	r.want(cu.ErrorInvalidValue, r.MemAdvise(r.ctx, m, 10, 99, 0))
	r.ok(r.StreamAttachMemAsync(r.ctx, r.stream(0), m, 0, cu.MemAttachSingle))
	r.want(cu.ErrorInvalidValue, r.StreamAttachMemAsync(r.ctx, r.stream(0), m, 100, cu.MemAttachGlobal))
	r.ok(r.MemFree(r.ctx, m))
}

func TestPools(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		s := r.stream(cu.StreamNonBlocking)
		p, err := r.DeviceGetDefaultMemPool(0)
		r.ok(err)
		read := func(a cu.MemPoolAttribute) uint64 {
			t.Helper()
			v, err := r.MemPoolGetAttribute(p, a)
			r.ok(err)
			return v
		}
		a, err := r.MemAllocAsync(r.ctx, 1<<20, s)
		r.ok(err)
		r.ok(r.MemsetD8Async(r.ctx, a, 7, 1<<20, s))
		if u := read(cu.MemPoolAttrUsedMemCurrent); u != 1<<20 {
			t.Errorf("used %d", u)
		}
		r.ok(r.MemFreeAsync(r.ctx, a, s))
		r.want(cu.ErrorInvalidValue, r.MemFreeAsync(r.ctx, a, s))
		r.sync(s)
		if u, v := read(cu.MemPoolAttrUsedMemCurrent), read(cu.MemPoolAttrReservedMemCurrent); u != 0 || v != 0 {
			t.Errorf("used %d, reserved %d after a synchronization", u, v)
		}
		r.ok(r.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, ^uint64(0)))
		b, err := r.MemAllocAsync(r.ctx, 100, s)
		r.ok(err)
		r.ok(r.MemFreeAsync(r.ctx, b, s))
		r.sync(s)
		if v := read(cu.MemPoolAttrReservedMemCurrent); v == 0 {
			t.Error("the threshold kept nothing")
		}
		r.ok(r.MemPoolTrimTo(p, 0))
		if v := read(cu.MemPoolAttrReservedMemCurrent); v != 0 {
			t.Errorf("reserved %d after a trim", v)
		}
		if h := read(cu.MemPoolAttrUsedMemHigh); h != 1<<20 {
			t.Errorf("high-water mark %d", h)
		}
		r.want(cu.ErrorInvalidValue, r.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 5))
		r.ok(r.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 0))
		r.want(cu.ErrorInvalidValue, r.MemPoolDestroy(p))
		plain := r.alloc(8) // MemFreeAsync also frees memory of MemAlloc
		r.ok(r.MemFreeAsync(r.ctx, plain, s))
		r.want(cu.ErrorInvalidValue, r.MemFreeAsync(r.ctx, plain, s))
		r.sync(s)
		r.want(cu.ErrorInvalidValue, r.MemFree(r.ctx, plain))
		pinned, _ := r.pinned(8)
		r.want(cu.ErrorInvalidValue, r.MemFreeAsync(r.ctx, cu.DevicePtr(uintptr(pinned)), s))
		if none, err := r.MemAllocAsync(r.ctx, 0, s); none != 0 || err != nil {
			t.Errorf("nothing is at %#x, %v", none, err)
		}

		// A stream reuses at once what it freed, and each use sees its own
		// bytes.
		host, got := r.pinned(8)
		x, err := r.MemAllocAsync(r.ctx, 4096, s)
		r.ok(err)
		r.ok(r.MemsetD8Async(r.ctx, x, 1, 4096, s))
		r.ok(r.MemcpyDtoHAsync(r.ctx, host, x, 1, s))
		r.ok(r.MemFreeAsync(r.ctx, x, s))
		y, err := r.MemAllocAsync(r.ctx, 4096, s)
		r.ok(err)
		z, err := r.MemAllocAsync(r.ctx, 4096, s)
		r.ok(err)
		if y != x || z == x {
			t.Errorf("after %#x was freed the stream got %#x and %#x", x, y, z)
		}
		r.ok(r.MemsetD8Async(r.ctx, y, 2, 4096, s))
		r.ok(r.MemcpyDtoHAsync(r.ctx, unsafe.Add(host, 1), y, 1, s))
		r.ok(r.MemFreeAsync(r.ctx, y, s))
		r.ok(r.MemFreeAsync(r.ctx, z, s))
		r.sync(s)
		if got[0] != 1 || got[1] != 2 {
			t.Errorf("copied %v", got[:2])
		}
		if u := read(cu.MemPoolAttrUsedMemCurrent); u != 0 {
			t.Errorf("used %d after all was freed", u)
		}
		r.want(cu.ErrorInvalidValue, r.MemFree(r.ctx, x))

		own, err := r.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, MaxSize: 1 << 20})
		r.ok(err)
		_, err = r.MemAllocFromPoolAsync(r.ctx, 2<<20, own, s)
		r.want(cu.ErrorOutOfMemory, err)
		c, err := r.MemAllocFromPoolAsync(r.ctx, 1000, own, s)
		r.ok(err)
		r.ok(r.MemPoolDestroy(own))
		r.want(cu.ErrorInvalidHandle, r.MemPoolTrimTo(own, 0))
		r.ok(r.MemFree(r.ctx, c))
	})
}

func TestStreamOrderedMemoryUsedTooEarly(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports the missing synchronization")
	}
	r := newRig(t, Options{Schedule: Lazy})
	a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	p, err := r.MemAllocAsync(r.ctx, 4096, a)
	r.ok(err)
	r.ok(r.MemsetD8Async(r.ctx, p, 1, 4096, b)) // b does not wait for a
	err = r.StreamSynchronize(r.ctx, b)
	r.want(cu.ErrorIllegalAddress, err)
	f, ok := errors.AsType[*cu.Fault](err)
	if !ok || f.Near == "" {
		t.Errorf("got %#v", err)
	}
	_, again := r.MemAlloc(r.ctx, 8)
	if !errors.Is(again, err) {
		t.Errorf("the error is not sticky: %v", again)
	}
}

func TestEmptyContextFreesAll(t *testing.T) {
	r := newRig(t, Options{})
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	free, _, _ := r.MemGetInfo(r.ctx)
	for range 10 {
		_, err = r.MemAlloc(c, 1<<20)
		r.ok(err)
		_, err = r.MemHostAlloc(c, 1<<20, 0)
		r.ok(err)
		_, err = r.MemAllocAsync(c, 1<<20, 0)
		r.ok(err)
	}
	r.ok(r.CtxDestroy(c))
	if got, _, _ := r.MemGetInfo(r.ctx); got < free-poolStep {
		t.Errorf("free %d, was %d", got, free)
	}
	if n := len(slices.Collect(r.space.all())); n != 0 {
		t.Errorf("%d ranges are left", n)
	}
}
