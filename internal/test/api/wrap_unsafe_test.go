package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// owner is another library, which owns what is wrapped: it calls the innermost driver, so that no wrapper of Ferry sees it.
type owner struct {
	t    testing.TB
	d    cu.Driver
	ctx  cu.Context
	dev  cu.Device
	left int // what is not freed
}

func ownerOn(t testing.TB, g *ferry.GPU) *owner {
	t.Helper()
	return &owner{t: t, d: innermost(g), ctx: g.CUContext(), dev: g.CUDevice()}
}

// innermost is the driver of a GPU without wrappers.
func innermost(g *ferry.GPU) cu.Driver {
	d := g.Driver()
	for {
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok {
			return d
		}
		d = w.Unwrap()
	}
}

// freeing is a release of memory: it must be called once.
func (l *owner) freeing(free func() error) func() error {
	l.left++
	called := false
	return func() error {
		if called {
			l.t.Error("released twice")
			return nil
		}
		called = true
		l.left--
		err := free()
		if err != nil {
			l.t.Errorf("release: %v", err)
		}
		return err
	}
}

func (l *owner) device(n int) (p cu.DevicePtr, release func() error) {
	l.t.Helper()
	p = must(l.d.MemAlloc(l.ctx, uintptr(n)))(l.t)
	return p, l.freeing(func() error { return l.d.MemFree(l.ctx, p) })
}

func (l *owner) managed(n int) (p cu.DevicePtr, release func() error) {
	l.t.Helper()
	p = must(l.d.MemAllocManaged(l.ctx, uintptr(n), cu.MemAttachGlobal))(l.t)
	return p, l.freeing(func() error { return l.d.MemFree(l.ctx, p) })
}

func (l *owner) host(n int) (s []byte, release func() error) {
	l.t.Helper()
	p := must(l.d.MemHostAlloc(l.ctx, uintptr(n), cu.MemHostAllocPortable|cu.MemHostAllocDeviceMap))(l.t)
	return unsafe.Slice((*byte)(p), n), l.freeing(func() error { return l.d.MemFreeHost(l.ctx, p) })
}

func (l *owner) registered(n int) (s []byte, release func() error) {
	l.t.Helper()
	s = asBytes(make([]uint64, (n+7)/8))[:n]
	check(l.t, l.d.MemHostRegister(l.ctx, pointerTo(s), uintptr(n), cu.MemHostRegisterPortable|cu.MemHostRegisterDeviceMap))
	return s, l.freeing(func() error { return l.d.MemHostUnregister(l.ctx, pointerTo(s)) })
}

func (l *owner) stream() cu.Stream {
	l.t.Helper()
	return must(l.d.StreamCreate(l.ctx, cu.StreamNonBlocking))(l.t)
}

// block stops a stream of the library until open is called.
func (l *owner) block(s cu.Stream) (open func()) {
	l.t.Helper()
	c := make(chan struct{})
	check(l.t, l.d.LaunchHostFunc(l.ctx, s, func() { <-c }))
	return func() { close(c) }
}

// floats sees bytes as numbers.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// TestWrapOnly: a program that only wraps, without memory, streams and events of Ferry, copies,
// launches, runs graphs and pipelines. Nothing of the library is freed but by release.
func TestWrapOnly(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeManagedMemory, cu.DeviceAttributeHostRegisterSupported)
	for _, text := range []string{"eager", "lazy", "random:3"} {
		t.Run("schedule="+text, func(t *testing.T) {
			testWrapOnly(t, openSoft(t, "h200", must(softgpu.ParseSchedule(text))(t)))
		})
	}
	t.Run("device=default", func(t *testing.T) { testWrapOnly(t, openTest(t)) })
}

func testWrapOnly(t *testing.T, g *ferry.GPU) {
	const n = 3000
	l := ownerOn(t, g)
	stream, event := l.stream(), must(l.d.EventCreate(l.ctx, cu.EventDefault))(t)
	p, free := l.device(4 * n)
	d := must(ferry.WrapDevice[float32](g, p, n, free))(t)
	memory, free := l.host(4 * n)
	h := must(ferry.WrapHost(g, floats(memory), free))(t)
	memory, free = l.registered(4 * n)
	out := must(ferry.WrapHost(g, floats(memory), free))(t)
	p, free = l.managed(4 * n)
	m := must(ferry.WrapManaged[float32](g, p, n, free))(t)
	s, e := must(ferry.WrapStream(g, stream))(t), must(ferry.WrapEvent(g, event))(t)
	module, add := load(t, g, "vector_add")

	for i := range h.Slice() {
		h.Slice()[i], m.Slice()[i] = float32(i), 1
	}
	want := func(what string, got []float32, times, more float32) {
		t.Helper()
		for i := range got {
			if got[i] != times*float32(i)+more {
				t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], times*float32(i)+more)
			}
		}
	}
	check(t, ferry.Copy(s, d, h))
	check(t, s.Launch(add, ferry.Cover(n, 256), h, m, d, uint64(n)))
	check(t, ferry.Copy(s, out, d))
	check(t, s.Record(e))
	check(t, e.Wait(t.Context()))
	want("a launch", out.ReadSlice(), 1, 1)

	check(t, ferry.Fill(s, d, 0))
	var pairs []ferry.Pair[float32]
	for i := 0; i < n; i += 100 {
		pairs = append(pairs, ferry.Pair[float32]{Dst: d.Range(i, i+100), Src: h.Range(i, i+100)})
	}
	check(t, ferry.CopyAll(s, pairs))
	want("CopyAll", must(ferry.Download(d))(t), 1, 0)

	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(s.Launch(add, ferry.Cover(n, 256), d, m, d, uint64(n)), ferry.Copy(s, out, d))
	}))(t)
	check(t, graph.Launch(s))
	check(t, graph.Launch(s))
	want("a graph", out.ReadSlice(), 1, 2)

	increment := must(module.Kernel("increment"))(t)
	pipe := pipeline.Pipeline{GPU: g, In: []pipeline.End{h}, Out: []pipeline.End{out}, InPlace: true, Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
		return s.Launch(increment, ferry.Cover(c.Len, 256), c.In[0], uint64(c.Len))
	}}
	must(pipe.Run(t.Context()))(t)
	check(t, pipe.Close())
	want("a pipeline", out.ReadSlice(), 1, 1)

	if l.left != 4 {
		t.Errorf("%d of 4 are left before Close", l.left)
	}
	closeAll(t, d, out) // the graph has them
	if l.left != 4 {
		t.Errorf("%d of 4 are left while a graph has two", l.left)
	}
	closeAll(t, graph, h, m, s, e, module, d, h)
	if l.left != 0 {
		t.Errorf("%d are left after Close", l.left)
	}
	check(t, errors.Join(l.d.StreamQuery(l.ctx, stream), l.d.EventQuery(l.ctx, event))) // they are there
	check(t, errors.Join(l.d.StreamDestroy(l.ctx, stream), l.d.EventDestroy(l.ctx, event)))
}

// TestWrapRefused: what cannot be wrapped is an error with what the driver says it is, and its
// release is not called.
func TestWrapRefused(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeManagedMemory)
	g := openSoft(t, "h200", softgpu.Eager)
	l := ownerOn(t, g)
	device, freeDevice := l.device(1000)
	managed, freeManaged := l.managed(1000)
	host, freeHost := l.host(1000)
	gone, free := l.device(1000)
	check(t, free())
	goneHost, free := l.registered(1000)
	check(t, free())
	context := must(l.d.CtxCreate(0, l.dev))(t)
	foreign := must(l.d.MemAlloc(context, 1000))(t)
	pinned := must(ferry.AllocHost[byte](g, 1000, nil))(t)
	never := func() error { t.Error("release was called"); return nil }
	for what, c := range map[string]struct {
		err   error
		parts []string
	}{
		"freed":                 {last(ferry.WrapDevice[byte](g, gone, 1000, never)), []string{"memory that it does not know", "before it is freed"}},
		"ended registration":    {last(ferry.WrapHost(g, goneHost, never)), []string{"memory that it does not know", "Register"}},
		"pageable":              {last(ferry.WrapHost(g, make([]byte, 100), never)), []string{"wrap 100 bytes of page-locked memory on soft:h200", "does not know", "Register"}},
		"pageable as managed":   {last(ferry.WrapManaged[byte](g, deviceAddress(pointerTo(make([]byte, 100))), 100, never)), []string{"does not know"}},
		"too short":             {last(ferry.WrapDevice[byte](g, device, 1001, never)), []string{"wrap 1001 bytes of device memory", "device memory of device 0 (1000 bytes", "1000 bytes of it are there", "needs 1001 bytes"}},
		"too short from inside": {last(ferry.WrapDevice[byte](g, device+10, 991, never)), []string{"990 bytes of it are there"}},
		"short host memory":     {last(ferry.WrapHost(g, unsafe.Slice(&host[0], 1001), never)), []string{"page-locked memory of device 0 (1000 bytes", "1000 bytes of it"}},
		"short managed memory":  {last(ferry.WrapManaged[uint32](g, managed, 251, never)), []string{"managed memory of device 0", "needs 1004 bytes"}},
		"host as device":        {last(ferry.WrapDevice[byte](g, deviceAddress(pointerTo(host)), 100, never)), []string{"page-locked memory of device 0", "use WrapHost"}},
		"managed as device":     {last(ferry.WrapDevice[byte](g, managed, 100, never)), []string{"managed memory", "use WrapManaged"}},
		"device as managed":     {last(ferry.WrapManaged[byte](g, device, 100, never)), []string{"device memory", "use WrapDevice"}},
		"managed as host":       {last(ferry.WrapHost(g, unsafe.Slice((*byte)(hostPointer(managed)), 100), never)), []string{"managed memory", "use WrapManaged"}},
		"another context":       {last(ferry.WrapDevice[byte](g, foreign, 100, never)), []string{"belongs to context", "primary context"}},
		"no address":            {last(ferry.WrapDevice[byte](g, 0, 100, never)), []string{"no address given"}},
		"odd address":           {last(ferry.WrapDevice[uint32](g, device+2, 10, never)), []string{"alignment of uint32"}},
		"wrapping size":         {last(ferry.WrapDevice[uint64](g, ^cu.DevicePtr(7), 1<<40, never)), []string{"more than an address can count"}},
		"negative":              {last(ferry.WrapDevice[byte](g, device, -1, never)), []string{"negative"}},
		"bool":                  {last(ferry.WrapDevice[bool](g, device, 1, never)), []string{"wrap device memory", "bool"}},
		"pointers":              {last(ferry.WrapHost(g, make([]*int, 1), never)), []string{"Go pointers"}},
		"Ferry's own":           {last(ferry.WrapHost(g, pinned.Slice()[10:20], never)), []string{"page-locked buffer", "needs no wrap", "Range, or View"}},
		"nil GPU":               {last(ferry.WrapDevice[byte](nil, device, 1, never)), []string{"no GPU given"}},
	} {
		wantError(t, c.err, cu.ErrorInvalidValue, c.parts...)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	check(t, errors.Join(l.d.CtxDestroy(context), freeDevice(), freeManaged(), freeHost()))
	closeAll(t, pinned)
}

// TestWrapEmpty: a buffer without elements has no memory, and its release is called.
func TestWrapEmpty(t *testing.T) {
	g := openTest(t)
	called := 0
	release := func() error { called++; return nil }
	d, h := must(ferry.WrapDevice[float32](g, 0, 0, release))(t), must(ferry.WrapHost[float32](g, nil, release))(t)
	m := must(ferry.WrapManaged[float32](g, 0, 0, release))(t)
	if d.Len()+h.Len()+m.Len() != 0 || called != 0 {
		t.Errorf("%d elements, %d releases before Close", d.Len()+h.Len()+m.Len(), called)
	}
	closeAll(t, d, h, m, d)
	if called != 3 {
		t.Errorf("release was called %d times, want 3", called)
	}
}

// TestWrapLacking: without unified addressing the driver does not know whose an address is.
func TestWrapLacking(t *testing.T) {
	i := slices.IndexFunc(gputest.Machines(), func(m gputest.Machine) bool { return m.Name == "no-uva" })
	g := openDriver(t, must(softgpu.Open(softgpu.Options{Profile: gputest.Machines()[i].Profile(t)}))(t))
	_, err := ferry.WrapDevice[byte](g, 4096, 1, nil)
	wantError(t, err, cu.ErrorNotSupported, "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING", "Pageable")
}

// TestWrapOtherDevice: memory and streams of another device are refused, and page-locked memory
// of another GPU's context is not.
func TestWrapOtherDevice(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		l := ownerOn(t, b)
		device, freeDevice := l.device(1000)
		_, err := ferry.WrapDevice[byte](a, device, 1000, nil)
		wantError(t, err, cu.ErrorInvalidValue, fmt.Sprintf("device memory of device %d", b.CUDevice()), "wrap it on the GPU of that device")
		stream := l.stream()
		_, err = ferry.WrapStream(a, stream)
		wantError(t, err, cu.ErrorInvalidValue, "the stream belongs to context", "primary context")
		memory, freeHost := l.host(1000)
		h := must(ferry.WrapHost(a, memory, nil))(t)
		d, s := must(ferry.Alloc[byte](a, 1000))(t), must(ferry.NewStream(a, nil))(t)
		fillRandom(memory)
		check(t, ferry.Copy(s, d, h))
		wantBytes(t, must(ferry.Download(d))(t), memory)
		closeAll(t, h, d, s)
		check(t, errors.Join(freeDevice(), freeHost(), l.d.StreamDestroy(l.ctx, stream)))
	})
}

// closedDriver is a driver whose memory has no address for kernels.
type closedDriver struct{ cu.Driver }

func (d closedDriver) PointerGetAttributes(ctx cu.Context, p cu.DevicePtr) (cu.PointerAttributes, error) {
	about, err := d.Driver.PointerGetAttributes(ctx, p)
	about.DevicePointer = 0
	return about, err
}

// TestWrapClosed: memory to which the device has no access is refused.
func TestWrapClosed(t *testing.T) {
	g := openDriver(t, closedDriver{softDriver(t, "h200", 1, softgpu.Eager)})
	l := ownerOn(t, g)
	p, free := l.device(100)
	wantError(t, last(ferry.WrapDevice[byte](g, p, 100, nil)), cu.ErrorInvalidValue, "no address in kernels", "cuMemPoolSetAccess")
	check(t, free())
}

// TestWrapPool: memory of a library's pool belongs to no context. The device decides, and the access
// of another GPU is that of the pool.
func TestWrapPool(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeMemoryPoolsSupported)
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		l := ownerOn(t, a)
		pool := must(l.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(l.dev)}))(t)
		stream := l.stream()
		p := must(l.d.MemAllocFromPoolAsync(l.ctx, 4000, pool, stream))(t)
		check(t, l.d.StreamSynchronize(l.ctx, stream))
		d := must(ferry.WrapDevice[float32](a, p, 1000, func() error { return l.d.MemFreeAsync(l.ctx, p, stream) }))(t)
		_, err := ferry.WrapDevice[float32](b, p, 1000, nil)
		wantError(t, err, cu.ErrorInvalidValue, "wrap it on the GPU of that device")
		if can := must(b.CanAccessPeer(a))(t); can {
			s := must(ferry.NewStream(b, nil))(t)
			module, k := load(t, b, "increment")
			check(t, b.EnablePeer(a))
			wantError(t, s.Launch(k, ferry.Cover(1000, 256), d, uint64(1000)), cu.ErrorPeerAccessNotEnabled, "wrapped device buffer", "another GPU")
			check(t, l.d.MemPoolSetAccess(pool, []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(b.CUDevice())}, Flags: cu.MemAccessProtReadWrite}}))
			check(t, s.Launch(k, ferry.Cover(1000, 256), d, uint64(1000)))
			check(t, s.Wait(t.Context()))
			closeAll(t, s, module)
		}
		closeAll(t, d)
		check(t, errors.Join(l.d.StreamSynchronize(l.ctx, stream), l.d.MemPoolDestroy(pool), l.d.StreamDestroy(l.ctx, stream)))
	})
}

// TestWrapMapped: memory at reserved addresses is wrapped where it is mapped and open to the device, also
// over several mappings, and refused where it has a hole.
func TestWrapMapped(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeVirtualMemoryManagementSupported)
	g := openTest(t)
	l := ownerOn(t, g)
	at := cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(l.dev)}
	props := cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: at}
	n := must(l.d.MemGetAllocationGranularity(l.ctx, &props, cu.MemAllocGranularityMinimum))(t)
	p := must(l.d.MemAddressReserve(l.ctx, 4*n, 0, 0, 0))(t)
	for i := range uintptr(3) {
		h := must(l.d.MemCreate(l.ctx, n, &props, 0))(t)
		check(t, l.d.MemMap(l.ctx, p+cu.DevicePtr(i*n), n, 0, h, 0))
		check(t, l.d.MemRelease(l.ctx, h))
	}
	check(t, l.d.MemSetAccess(l.ctx, p, 2*n, []cu.MemAccessDesc{{Location: at, Flags: cu.MemAccessProtReadWrite}}))
	for _, k := range []struct{ first, n uintptr }{{0, 3 * n}, {n, n + 1}, {2 * n, 1}, {3 * n, 1}, {n - 1, 3*n + 1}} {
		_, err := ferry.WrapDevice[byte](g, p+cu.DevicePtr(k.first), int(k.n), nil)
		wantError(t, err, cu.ErrorInvalidValue, "wrap")
	}
	d := must(ferry.WrapDevice[byte](g, p+1, int(2*n-1), nil))(t)
	s := must(ferry.NewStream(g, nil))(t)
	check(t, ferry.Fill(s, d, 7))
	check(t, s.Wait(t.Context()))
	if got := must(ferry.Download(d))(t); got[0] != 7 || got[2*n-2] != 7 {
		t.Errorf("%d and %d, want 7 in both mappings", got[0], got[2*n-2])
	}
	closeAll(t, d, s)
	check(t, errors.Join(l.d.MemUnmap(l.ctx, p, 4*n), l.d.MemAddressFree(l.ctx, p, 4*n)))
}

// wraps make a buffer of each kind of wrapped memory.
var wraps = []struct {
	name string
	make func(l *owner, g *ferry.GPU, n int, free func(release func() error) func() error) bytesMemory
}{
	{"device", func(l *owner, g *ferry.GPU, n int, free func(func() error) func() error) bytesMemory {
		p, release := l.device(n)
		d := must(ferry.WrapDevice[byte](g, p, n, free(release)))(l.t)
		return bytesMemory{Memory: d, close: d.Close}
	}},
	{"page-locked", func(l *owner, g *ferry.GPU, n int, free func(func() error) func() error) bytesMemory {
		s, release := l.host(n)
		return hostBytes(must(ferry.WrapHost(g, s, free(release)))(l.t))
	}},
	{"registered", func(l *owner, g *ferry.GPU, n int, free func(func() error) func() error) bytesMemory {
		s, release := l.registered(n)
		return hostBytes(must(ferry.WrapHost(g, s, free(release)))(l.t))
	}},
	{"managed", func(l *owner, g *ferry.GPU, n int, free func(func() error) func() error) bytesMemory {
		p, release := l.managed(n)
		m := must(ferry.WrapManaged[byte](g, p, n, free(release)))(l.t)
		return bytesMemory{Memory: m, slice: m.Slice, close: m.Close}
	}},
}

// asItIs calls release as it is.
func asItIs(release func() error) func() error { return release }

// onWraps runs a test for each kind of wrapped memory, each on a GPU of its own.
func onWraps(t *testing.T, test func(t *testing.T, g *ferry.GPU, l *owner, wrap func(n int, free func(func() error) func() error) bytesMemory)) {
	gputest.Needs(t, cu.DeviceAttributeManagedMemory, cu.DeviceAttributeHostRegisterSupported)
	for _, kind := range wraps {
		t.Run(kind.name, func(t *testing.T) {
			d := softDriver(t, "h200", 1, softgpu.Lazy)
			g := must(ferry.OpenDriver(d, 0))(t)
			l := ownerOn(t, g)
			test(t, g, l, func(n int, free func(func() error) func() error) bytesMemory {
				return kind.make(l, g, n, free)
			})
			if l.left != 0 {
				t.Errorf("%d memories were not released", l.left)
			}
			closeAll(t, g)
		})
	}
}

// TestWrapRelease: release is called once, when the buffer is closed and nothing is in flight on
// it. A nil release leaves the memory as it is.
func TestWrapRelease(t *testing.T) {
	onWraps(t, func(t *testing.T, g *ferry.GPU, l *owner, wrap func(int, func(func() error) func() error) bytesMemory) {
		m := wrap(1000, asItIs)
		if text := fmt.Sprint(m.Memory); !strings.HasPrefix(text, "wrapped ") || !strings.Contains(text, "buffer 1 (1000 uint8, 1000 bytes) on soft:h200") {
			t.Errorf("it is called %q", text)
		}
		s := must(ferry.NewStream(g, nil))(t)
		d := must(ferry.Alloc[byte](g, 1000))(t)
		open := gate(t, s)
		check(t, ferry.Copy(s, m.Memory, ferry.Memory[byte](d)))
		waits(t, "Close", func() {
			if l.left != 1 {
				t.Error("released in flight")
			}
			open()
		}, func() { check(t, m.close()) })
		if l.left != 0 {
			t.Error("not released")
		}
		check(t, m.close())
		wantError(t, ferry.Copy(s, m.Memory, ferry.Memory[byte](d)), ferry.ErrClosed, "wrapped")
		var kept func() error
		keep := wrap(1000, func(release func() error) func() error { kept = release; return nil })
		check(t, errors.Join(keep.close(), keep.close()))
		if l.left != 1 {
			t.Error("memory of a nil release is gone")
		}
		check(t, kept())
		closeAll(t, d, s)
	})
}

// TestWrapReleaseLate: release is called by the last Close that matters: of the buffer after that of
// the GPU, with the context alive; of a graph; of a host function, on another goroutine; by a
// CopyFrom that has lent the buffer; and by the second Close if the first could not wait.
func TestWrapReleaseLate(t *testing.T) {
	onWraps(t, func(t *testing.T, g *ferry.GPU, l *owner, wrap func(int, func(func() error) func() error) bytesMemory) {
		s := must(ferry.NewStream(g, nil))(t)
		captured := wrap(1000, asItIs)
		graph := must(s.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, captured.Memory, 1) }))(t)
		check(t, captured.close())
		if l.left != 1 {
			t.Fatal("released while a graph has it")
		}
		check(t, errors.Join(graph.Launch(s), graph.Close()))
		if l.left != 0 {
			t.Fatal("Close of the graph has not released it")
		}
		inFunc, done := wrap(1000, asItIs), make(chan struct{})
		inFunc2 := wrap(1000, func(release func() error) func() error {
			return func() error { defer close(done); return release() } // the driver would refuse it in the host function
		})
		check(t, s.HostFunc(func() { check(t, inFunc2.close()) }))
		check(t, s.Wait(t.Context()))
		ends(t, "release", func() { <-done })
		check(t, inFunc.close())
		lent := wrap(1000, asItIs)
		must(ferry.CopyFrom(t.Context(), s, lent.Memory, closingReader{lent.close, bytes.NewReader(make([]byte, 1000))}))(t)
		if l.left != 0 {
			t.Error("CopyFrom has not released what its reader closed")
		}
		after := wrap(1000, asItIs)
		check(t, errors.Join(s.Close(), g.Close()))
		if l.left != 1 {
			t.Error("released by Close of the GPU, although the buffer is open")
		}
		check(t, after.close())
	})
}

// closingReader closes what it fills.
type closingReader struct {
	close func() error
	*bytes.Reader
}

func (r closingReader) Read(p []byte) (int, error) {
	if err := r.close(); err != nil && !errors.Is(err, cu.ErrorNotReady) {
		return 0, err
	}
	return r.Reader.Read(p)
}

// TestWrapCloseAgain: a Close that could not wait calls no release. Another Close does, once.
func TestWrapCloseAgain(t *testing.T) {
	for _, shared := range []bool{false, true} {
		soft := newHookDriver(softDriver(t, "h200", 1, softgpu.Eager))
		g := must(ferry.OpenDriver(soft, 0))(t)
		l := ownerOn(t, g)
		l.d = soft.Driver
		p, free := l.device(1000)
		d := must(ferry.WrapDevice[byte](g, p, 1000, free))(t)
		used, s := d, must(ferry.NewStream(g, nil))(t)
		if shared { // the wait for another buffer of the same bytes fails
			used = must(ferry.WrapDevice[byte](g, p, 1000, nil))(t)
		}
		check(t, ferry.Fill(s, used, 1))
		failed := func() error { return cu.ErrorUnknown }
		var again func() error
		again = func() error { soft.during("StreamSynchronize", again); return failed() }
		soft.during("StreamSynchronize", again)
		wantError(t, d.Close(), cu.ErrorUnknown, "close wrapped device buffer 1", "closed again")
		if l.left != 1 {
			t.Fatalf("shared %t: released, although its work may run", shared)
		}
		soft.during("StreamSynchronize", func() error { return nil })
		check(t, errors.Join(d.Close(), d.Close()))
		if l.left != 0 {
			t.Errorf("shared %t: not released", shared)
		}
		closeAll(t, s, g)
	}
}

// TestWrapReleaseFails: an error of release is returned by Close, which does not call it again. A
// panic reaches the caller, Goexit ends it, and nothing stays in use. release may call Ferry.
func TestWrapReleaseFails(t *testing.T) {
	planted := errors.New("planted")
	for name, end := range map[string]func() error{"error": func() error { return planted }, "panic": func() error { panic(planted) },
		"Goexit": func() error { runtime.Goexit(); return nil }} {
		for _, in := range []string{"Close", "Close of a graph"} {
			t.Run(name+"/"+in, func(t *testing.T) {
				inner := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{})
				g := must(ferry.OpenDriver(inner, 0))(t)
				l := ownerOn(t, g)
				p, free := l.device(1000)
				other, freeOther := l.device(1000)
				s := must(ferry.NewStream(g, nil))(t)
				d := must(ferry.WrapDevice[byte](g, p, 1000, func() error { return errors.Join(free(), end()) }))(t)
				also := must(ferry.WrapDevice[byte](g, other, 1000, freeOther))(t)
				closing := d.Close
				if in != "Close" {
					graph := must(s.Capture(func(s *ferry.Stream) error { return errors.Join(ferry.Fill(s, d, 1), ferry.Fill(s, also, 1)) }))(t)
					closeAll(t, d, also)
					closing = graph.Close
				}
				returned, value, err := endOf(t, in, func() (int64, error) { return 0, closing() })
				if returned != (name == "error") || (value == any(planted)) != (name == "panic") || errors.Is(err, planted) != returned {
					t.Errorf("returned %t, error %v, panic of %v", returned, err, value)
				}
				if err != nil && strings.Contains(err.Error(), "closed again") {
					t.Errorf("the error proposes another Close: %v", err)
				}
				closeAll(t, d, also)
				if l.left != 0 {
					t.Errorf("%d are not released", l.left)
				}
				ends(t, "Close of the GPU", func() { closeAll(t, s, g) })
				if live := inner.Live(); len(live) > 0 {
					t.Errorf("left %v", live)
				}
			})
		}
	}
}

// TestWrapReleaseCalls: release calls Ferry, also Close of the same buffer and of the GPU.
func TestWrapReleaseCalls(t *testing.T) {
	g := must(ferry.OpenDriver(softDriver(t, "h200", 1, softgpu.Eager), 0))(t)
	l := ownerOn(t, g)
	p, free := l.device(1000)
	var d *ferry.Device[byte]
	d = must(ferry.WrapDevice[byte](g, p, 1000, func() error {
		own, err := ferry.Upload(g, []byte("own"))
		return errors.Join(err, own.Close(), d.Close(), g.Wait(context.Background()), g.Close(), free())
	}))(t)
	ends(t, "Close", func() { check(t, d.Close()) })
	if l.left != 0 {
		t.Error("not released")
	}
	wantError(t, last(ferry.Alloc[byte](g, 1)), ferry.ErrClosed)
}

// TestWrapTwice: two wraps of the same bytes are in flight together: the host and release wait for
// operations on either. A copy between them that overlaps is refused.
func TestWrapTwice(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	l := ownerOn(t, g)
	s := must(ferry.NewStream(g, nil))(t)
	memory, free := l.host(1000)
	whole, part := must(ferry.WrapHost(g, memory, free))(t), must(ferry.WrapHost(g, memory[100:600], nil))(t)
	d := must(ferry.Alloc[byte](g, 1000))(t)
	open := gate(t, s)
	check(t, ferry.Copy(s, part, d.Range(0, 500)))
	if done := sliceError(whole.Range(600, 1000).Slice); done != nil { // other bytes
		t.Error(done)
	}
	waits(t, "Slice of the other wrap", open, func() { whole.Slice() })
	open = gate(t, s)
	check(t, ferry.Copy(s, d, whole))
	check(t, sliceError(part.ReadSlice))
	waits(t, "Slice of the part", open, func() { part.Slice() })
	wantError(t, ferry.Copy(s, whole.Range(0, 500), part), cu.ErrorInvalidValue, "overlap")
	open = gate(t, s)
	check(t, ferry.Copy(s, part, d.Range(0, 500)))
	waits(t, "release", func() {
		if l.left != 1 {
			t.Error("released while another wrap is in flight")
		}
		open()
	}, func() { check(t, whole.Close()) })
	if l.left != 0 {
		t.Error("not released")
	}
	closeAll(t, part)

	p, free := l.device(1000)
	one, two := must(ferry.WrapDevice[byte](g, p, 1000, free))(t), must(ferry.WrapDevice[byte](g, p+1, 999, nil))(t)
	wantError(t, ferry.Copy(s, one.Range(0, 999), two), cu.ErrorInvalidValue, "overlap")
	open = gate(t, s)
	check(t, ferry.Fill(s, two, 1))
	waits(t, "Wait of the other wrap", open, func() { check(t, one.Wait(t.Context())) })
	open = gate(t, s)
	check(t, ferry.Fill(s, two, 1))
	waits(t, "release of device memory", open, func() { check(t, one.Close()) })
	closeAll(t, two, d, s)
	again := must(ferry.Alloc[byte](g, 1000))(t) // perhaps at the same address
	check(t, again.Wait(t.Context()))
	closeAll(t, again)
}

// TestWrapPageable: a pageable slice of wrapped memory is a range of the buffer: its copy is in
// flight on it. After Close it is memory that only the driver knows.
func TestWrapPageable(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	g := openSoft(t, "h200", softgpu.Lazy)
	l := ownerOn(t, g)
	s := must(ferry.NewStream(g, nil))(t)
	memory, free := l.host(1000)
	h := must(ferry.WrapHost(g, memory, nil))(t)
	want := make([]byte, 1000)
	fillRandom(want)
	d := must(ferry.Upload(g, want))(t)
	open := gate(t, s)
	check(t, ferry.Copy(s, ferry.Pageable(memory[10:20]), d.Range(10, 20)))
	waits(t, "Slice", open, func() { h.Slice() })
	wantBytes(t, memory[10:20], want[10:20])
	wantError(t, last(ferry.Register(g, memory, nil)), cu.ErrorInvalidValue, "wrapped page-locked buffer", "needs no registration")
	check(t, h.Close())
	check(t, ferry.Copy(s, ferry.Pageable(memory), d))
	wantBytes(t, memory, want)
	check(t, free())
	closeAll(t, d, s)
}

// TestRegisterForeign: Register of memory that another library page-locked says what to do instead.
func TestRegisterForeign(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	g := openTest(t)
	l := ownerOn(t, g)
	for what, lock := range map[string]func(int) ([]byte, func() error){"allocated": l.host, "registered": l.registered} {
		memory, free := lock(8192)
		_, err := ferry.Register(g, memory, nil)
		if err == nil || !strings.Contains(err.Error(), "another library page-locked it: use WrapHost") {
			t.Errorf("%s: %v", what, err)
		}
		h := must(ferry.WrapHost(g, memory, free))(t)
		closeAll(t, h)
	}
	memory := must(ferry.Register(g, make([]byte, 8192), nil))(t) // ordinary memory again
	closeAll(t, memory)
}

// TestWrapStream: work of the library in a wrapped stream is waited for. Close does not destroy the
// stream, and what was queued in it is still waited for.
func TestWrapStream(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy} {
		testWrapStream(t, openSoft(t, "h200", schedule))
		testWrapStream(t, openDriver(t, &gputest.Holding{Driver: softDriver(t, "h200", 1, schedule)}))
	}
	testWrapStream(t, openTest(t))
}

func testWrapStream(t *testing.T, g *ferry.GPU) {
	l := ownerOn(t, g)
	stream := must(l.d.StreamCreateWithPriority(l.ctx, cu.StreamNonBlocking, -1))(t)
	s := must(ferry.WrapStream(g, stream))(t)
	if got := s.String(); !strings.HasPrefix(got, "wrapped stream 1 of ") {
		t.Errorf("it is called %q", got)
	}
	h, d := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	fillRandom(h.Slice())
	if done := must(s.Done())(t); !done {
		t.Error("a stream without work is not done")
	}
	open := l.block(stream)
	if done := must(s.Done())(t); done {
		t.Error("Done, although the library's work is not")
	}
	waits(t, "Stream.Wait", open, func() { check(t, s.Wait(t.Context())) })
	open = l.block(stream)
	check(t, ferry.Copy(s, d, h))
	waits(t, "Slice", open, func() { h.Slice() })
	wantBytes(t, must(ferry.Download(d))(t), h.Slice())
	open = l.block(stream)
	waits(t, "GPU.Wait", open, func() { check(t, g.Wait(t.Context())) })
	open = l.block(stream)
	clear(h.Slice())
	check(t, ferry.Copy(s, h, d))
	check(t, errors.Join(s.Close(), s.Close()))
	wantError(t, ferry.Copy(s, h, d), ferry.ErrClosed, "wrapped stream 1")
	wantError(t, l.d.StreamQuery(l.ctx, stream), cu.ErrorNotReady) // it is there
	waits(t, "Slice after Close of the stream", open, func() { h.Slice() })
	wantBytes(t, must(ferry.Download(d))(t), h.Slice())
	check(t, l.d.StreamDestroy(l.ctx, stream))
	closeAll(t, h, d)
}

// TestWrapStreamDestroyed: the library destroys its stream right after Close. The work of the stream
// still ends, and memory in flight on it is waited for.
func TestWrapStreamDestroyed(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	l := ownerOn(t, g)
	stream := l.stream()
	s := must(ferry.WrapStream(g, stream))(t)
	h, d := must(ferry.AllocHost[byte](g, 1000, nil))(t), must(ferry.Alloc[byte](g, 1000))(t)
	fillRandom(h.Slice())
	open := l.block(stream)
	check(t, ferry.Copy(s, d, h))
	check(t, errors.Join(s.Close(), l.d.StreamDestroy(l.ctx, stream)))
	waits(t, "Slice", open, func() { h.Slice() })
	wantBytes(t, must(ferry.Download(d))(t), h.Slice())
	check(t, s.Wait(t.Context()))
	closeAll(t, h, d)
}

// TestWrapStreamInUse: Close of a wrapped stream says that a call of another goroutine still uses it,
// because the library would destroy it then. Another Close returns nil when that call has ended.
func TestWrapStreamInUse(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	l := ownerOn(t, g)
	stream := l.stream()
	s := must(ferry.WrapStream(g, stream))(t)
	inside, leave, left := make(chan bool), make(chan bool), make(chan error)
	go func() {
		left <- s.External(func(cu.Stream) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	for range 2 {
		wantError(t, s.Close(), cu.ErrorNotReady, "still uses it")
	}
	close(leave)
	check(t, <-left)
	check(t, errors.Join(s.Close(), l.d.StreamDestroy(l.ctx, stream)))
}

// TestWrapStreamExclusive: where the host must not touch managed memory while a kernel runs, it waits
// for the library's work in a wrapped stream, too, of which Ferry has seen nothing.
func TestWrapStreamExclusive(t *testing.T) {
	i := slices.IndexFunc(gputest.Machines(), func(m gputest.Machine) bool { return m.Name == "no-concurrent-managed" })
	g := openDriver(t, must(softgpu.Open(softgpu.Options{Profile: gputest.Machines()[i].Profile(t)}))(t))
	l := ownerOn(t, g)
	stream := l.stream()
	m := must(ferry.AllocManaged[byte](g, 100, nil))(t)
	for _, handle := range []cu.Stream{cu.StreamLegacy, stream} {
		s := must(ferry.WrapStream(g, handle))(t)
		open := l.block(handle)
		waits(t, fmt.Sprintf("Slice beside %v", s), open, func() { m.Slice() })
		closeAll(t, s)
	}
	closeAll(t, m)
	check(t, l.d.StreamDestroy(l.ctx, stream))
}

// TestWrapStreamRefused: what is no stream of the GPU is refused.
func TestWrapStreamRefused(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	l := ownerOn(t, g)
	gone := l.stream()
	check(t, l.d.StreamDestroy(l.ctx, gone))
	_, err := ferry.WrapStream(g, gone)
	wantError(t, err, cu.ErrorInvalidHandle, "wrap a stream on soft:h200")
	_, err = ferry.WrapStream(g, cu.StreamPerThread)
	wantError(t, err, cu.ErrorInvalidValue, "another stream in each thread")
	for _, handle := range []cu.Stream{0, cu.StreamLegacy} {
		s := must(ferry.WrapStream(g, handle))(t)
		if s != g.DefaultStream() {
			t.Errorf("the stream of handle %d is %v", handle, s)
		}
		check(t, s.Close())
	}
	open := l.block(cu.StreamLegacy)
	if done := must(g.DefaultStream().Done())(t); done {
		t.Error("the default stream is done, although the library's work is not")
	}
	open()
	check(t, g.DefaultStream().Wait(t.Context()))
	other := must(l.d.CtxCreate(0, l.dev))(t)
	foreign := must(l.d.StreamCreate(other, 0))(t)
	_, err = ferry.WrapStream(g, foreign)
	wantError(t, err, cu.ErrorInvalidValue, "the stream belongs to context")
	stream := l.stream()
	check(t, l.d.StreamBeginCapture(l.ctx, stream, cu.StreamCaptureModeRelaxed))
	_, err = ferry.WrapStream(g, stream)
	wantError(t, err, cu.ErrorStreamCaptureUnsupported, "wrap it after the capture")
	graph := must(l.d.StreamEndCapture(l.ctx, stream))(t)
	check(t, errors.Join(l.d.GraphDestroy(graph), l.d.StreamDestroy(l.ctx, stream), l.d.StreamDestroy(other, foreign), l.d.CtxDestroy(other)))
}

// TestWrapEvent: a wrapped event stands for what the library recorded, and later for what Ferry did.
// Close does not destroy it. A question about it leaves captures of other threads as they are.
func TestWrapEvent(t *testing.T) {
	for _, g := range []*ferry.GPU{openSoft(t, "h200", softgpu.Lazy), openDriver(t, &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Lazy)}), openTest(t)} {
		l := ownerOn(t, g)
		stream := l.stream()
		event, first := must(l.d.EventCreate(l.ctx, cu.EventDefault))(t), must(l.d.EventCreate(l.ctx, cu.EventDefault))(t)
		check(t, l.d.EventRecord(l.ctx, first, stream))
		open := l.block(stream)
		check(t, l.d.EventRecord(l.ctx, event, stream))
		e, begin := must(ferry.WrapEvent(g, event))(t), must(ferry.WrapEvent(g, first))(t)
		if got := e.String(); !strings.HasPrefix(got, "a wrapped event of ") {
			t.Errorf("it is called %q", got)
		}
		if done := must(e.Done())(t); done {
			t.Error("the event is done, and the library's work is not")
		}
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		check(t, s.WaitEvent(e))
		if done := must(s.Done())(t); done {
			t.Error("a stream that waits for the event is done")
		}
		waits(t, "Event.Wait", open, func() { check(t, e.Wait(t.Context())) })
		check(t, s.Wait(t.Context()))
		if took := must(e.Since(begin))(t); took < 0 {
			t.Errorf("%v from the first event to the second", took)
		}
		open = gate(t, s)
		check(t, s.Record(e))
		open2 := l.block(stream)
		check(t, l.d.EventRecord(l.ctx, event, stream)) // again
		open()
		check(t, s.Wait(t.Context()))
		if done := must(e.Done())(t); done {
			t.Error("the event is done, which the library has recorded last")
		}
		waits(t, "Event.Wait again", open2, func() { check(t, e.Wait(t.Context())) })
		closeAll(t, e, begin, s)
		check(t, errors.Join(l.d.EventQuery(l.ctx, event), l.d.StreamDestroy(l.ctx, stream), l.d.EventDestroy(l.ctx, event), l.d.EventDestroy(l.ctx, first)))
	}
	g := openSoft(t, "h200", softgpu.Eager)
	l := ownerOn(t, g)
	event := must(l.d.EventCreate(l.ctx, cu.EventDisableTiming))(t)
	stream := l.stream()
	check(t, l.d.StreamBeginCapture(l.ctx, stream, cu.StreamCaptureModeGlobal))
	untimed := must(ferry.WrapEvent(g, event))(t)
	graph := must(l.d.StreamEndCapture(l.ctx, stream))(t)
	wantError(t, last(untimed.Since(untimed)), cu.ErrorInvalidHandle)
	closeAll(t, untimed)
	check(t, errors.Join(l.d.GraphDestroy(graph), l.d.StreamDestroy(l.ctx, stream), l.d.EventDestroy(l.ctx, event)))
	for what, handle := range map[string]cu.Event{"dead": event, "none": 0} {
		_, err := ferry.WrapEvent(g, handle)
		wantError(t, err, cu.ErrorInvalidHandle, "wrap an event on soft:h200")
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

// TestWrapLeak: a wrapped buffer, stream or event that was lost is reported.
func TestWrapLeak(t *testing.T) {
	reports := make(chan string, 100)
	ferry.OnLeak(func(text string) { reports <- text })
	defer ferry.OnLeak(nil)
	g := must(ferry.OpenDriver(softDriver(t, "h200", 1, softgpu.Eager), 0))(t)
	l := ownerOn(t, g)
	p, _ := l.device(1000)
	must(ferry.WrapDevice[byte](g, p, 1000, nil))(t)
	wantReport(t, reports, "wrapped device buffer 1")
	must(ferry.WrapStream(g, l.stream()))(t)
	wantReport(t, reports, "wrapped stream 1")
	runtime.KeepAlive(g)
}
