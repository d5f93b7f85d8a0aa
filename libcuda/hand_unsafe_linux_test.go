//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// TestCStructLayout compares sizes and offsets with those of the C header.
func TestCStructLayout(t *testing.T) {
	offsets := func(typ reflect.Type) []uintptr {
		at := []uintptr{typ.Size()}
		for f := range typ.Fields() {
			if f.Name != "_" {
				at = append(at, f.Offset)
			}
		}
		return at
	}
	if got, want := offsets(reflect.TypeFor[kernelNodeParams]()), []uintptr{72, 0, 8, 20, 32, 40, 48, 56, 64}; !slices.Equal(got, want) {
		t.Errorf("kernelNodeParams: size and offsets %d, want %d", got, want)
	}
	if got, want := offsets(reflect.TypeFor[launchConfig]()), []uintptr{56, 0, 12, 24, 32, 40, 48}; !slices.Equal(got, want) {
		t.Errorf("launchConfig: size and offsets %d, want %d", got, want)
	}
	if got, want := offsets(reflect.TypeFor[updateInfo]()), []uintptr{24, 0, 8, 16}; !slices.Equal(got, want) {
		t.Errorf("updateInfo: size and offsets %d, want %d", got, want)
	}
	if got, want := unsafe.Sizeof(pointerValues{}), uintptr(8*len(pointerAttributes)); got != want {
		t.Errorf("pointerValues has %d bytes, want %d", got, want)
	}
	if got, want := unsafe.Sizeof(launchParams{}), uintptr(48); got != want {
		t.Errorf("launchParams has %d bytes, want %d", got, want)
	}
}

func TestDeviceText(t *testing.T) {
	f, d := newFake(t)
	for symbol, want := range map[string]string{"cuDeviceGetName": "NVIDIA H200", "cuDeviceGetPCIBusId": "0000:19:00.0"} {
		f.on(symbol, func(a []uintptr) cu.Result {
			buf := unsafe.Slice(at[byte](a[0]), int(a[1]))
			for i := range buf {
				buf[i] = 'x' // what follows the end of the text is undefined
			}
			copy(buf, want+"\x00")
			return cu.Result(a[2]) // the device
		})
		var got string
		var err error
		if symbol == "cuDeviceGetName" {
			got, err = d.DeviceGetName(0)
		} else {
			got, err = d.DeviceGetPCIBusId(0)
		}
		if got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", symbol, got, err, want)
		}
	}
}

func TestZeroContext(t *testing.T) {
	f, d := newFake(t)
	if err := d.EventRecord(0, 1, 2); err != cu.ErrorInvalidContext {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_CONTEXT", err)
	}
	if err := d.CtxDestroy(0); err != cu.ErrorInvalidContext {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_CONTEXT", err)
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("called the driver: %v", calls)
	}
}

// TestCaptureModeExchange has C swap the mode, and then fail.
func TestCaptureModeExchange(t *testing.T) {
	f, d := newFake(t)
	mode := cu.StreamCaptureModeGlobal
	f.on("cuThreadExchangeStreamCaptureMode", func(a []uintptr) cu.Result {
		p := at[cu.StreamCaptureMode](a[0])
		if *p > cu.StreamCaptureModeRelaxed {
			return cu.ErrorInvalidValue
		}
		*p, mode = mode, *p
		return cu.Success
	})
	for _, c := range []struct {
		set, previous, now cu.StreamCaptureMode
		err                error
	}{
		{cu.StreamCaptureModeRelaxed, cu.StreamCaptureModeGlobal, cu.StreamCaptureModeRelaxed, nil},
		{cu.StreamCaptureModeThreadLocal, cu.StreamCaptureModeRelaxed, cu.StreamCaptureModeThreadLocal, nil},
		{7, 0, cu.StreamCaptureModeThreadLocal, cu.ErrorInvalidValue},
		{cu.StreamCaptureModeGlobal, cu.StreamCaptureModeThreadLocal, cu.StreamCaptureModeGlobal, nil},
	} {
		previous, err := d.ThreadExchangeStreamCaptureMode(c.set)
		if previous != c.previous || err != c.err || mode != c.now {
			t.Errorf("exchange to %d: previous %d, %v, now %d, want %d, %v, %d", c.set, previous, err, mode, c.previous, c.err, c.now)
		}
	}
	for _, call := range f.take() {
		if call.symbol != "cuThreadExchangeStreamCaptureMode" {
			t.Errorf("called %s, want no context and no other call", call.symbol)
		}
	}
	if got := f.asked["cuThreadExchangeStreamCaptureMode"]; got != 10010 {
		t.Errorf("asked for version %d, want 10010", got)
	}
}

func TestSetCurrentFails(t *testing.T) {
	f, d := newFake(t)
	f.on("cuCtxSetCurrent", func([]uintptr) cu.Result { return cu.ErrorContextIsDestroyed })
	if err := d.EventRecord(5, 1, 2); err != cu.ErrorContextIsDestroyed {
		t.Errorf("error %v, want that of cuCtxSetCurrent", err)
	}
	for _, c := range f.take() {
		if c.symbol == "cuEventRecord" {
			t.Error("the call was made without its context")
		}
	}
}

// TestByHandle checks that a new driver gets no context for an operation on a stream,
// unless it refuses the call without one.
func TestByHandle(t *testing.T) {
	f, d := newFake(t)
	d.version = minByHandle
	launch := func(s cu.Stream) error { return d.LaunchKernel(7, 1, cu.Dim3{}, cu.Dim3{}, 0, s, []byte{1}) }
	calls := map[string]func(s cu.Stream) error{
		"cuEventRecord":     func(s cu.Stream) error { return d.EventRecord(7, 3, s) },
		"cuMemcpyHtoDAsync": func(s cu.Stream) error { return d.MemcpyHtoDAsync(7, 1, nil, 2, s) },
		"cuLaunchKernel":    launch,
	}
	made := func(symbols ...string) {
		t.Helper()
		var got []string
		for _, c := range f.take() {
			got = append(got, c.symbol)
			if c.symbol == "cuCtxSetCurrent" && c.args[0] != 7 {
				t.Errorf("context %d, want 7", c.args[0])
			}
		}
		if !slices.Equal(got, symbols) {
			t.Errorf("called %v, want %v", got, symbols)
		}
	}
	const set = "cuCtxSetCurrent"
	for symbol, call := range calls {
		for _, want := range [][]string{{set, symbol}, {symbol}} { // the second time the function is known
			if err := call(0x50); err != nil {
				t.Error(symbol, err)
			}
			made(want...)
		}
		for _, s := range []cu.Stream{0, cu.StreamLegacy, cu.StreamPerThread} { // every context has them
			if err := call(s); err != nil {
				t.Error(symbol, err)
			}
			made(set, symbol)
		}
		for _, r := range []cu.Result{cu.ErrorInvalidContext, cu.ErrorContextIsDestroyed, cu.ErrorInvalidHandle, cu.ErrorInvalidValue} {
			answers := []cu.Result{r, cu.Success}
			f.on(symbol, func([]uintptr) cu.Result {
				answer := answers[0]
				answers = answers[1:]
				return answer
			})
			if err := call(0x50); err != nil {
				t.Errorf("%s, first refused with %v: %v", symbol, r, err)
			}
			made(symbol, set, symbol)
		}
		f.on(symbol, func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
		if err := call(0x50); err != cu.ErrorInvalidValue {
			t.Errorf("%s: error %v, want the driver's", symbol, err)
		}
		made(symbol, set, symbol)
		f.on(symbol, func([]uintptr) cu.Result { return cu.ErrorIllegalAddress })
		if err := call(0x50); !errors.Is(err, cu.ErrorIllegalAddress) {
			t.Errorf("%s: error %v, want the driver's", symbol, err)
		}
		made(symbol)
		f.on(symbol, func([]uintptr) cu.Result { return cu.Success })
	}
	if err := d.EventRecord(0, 3, 0x50); err != cu.ErrorInvalidContext {
		t.Errorf("no context: error %v", err)
	}
	d.contexts.mark(7, true)
	if err := launch(0x50); err != cu.ErrorInvalidContext {
		t.Errorf("a destroyed context: error %v", err)
	}
	made()
}

// TestContextLifetime creates and destroys a context twice, with the same handle.
func TestContextLifetime(t *testing.T) {
	f, d := newFake(t)
	f.on("cuCtxCreate", func(a []uintptr) cu.Result {
		if a[1] != uintptr(cu.CtxMapHost) || int32(a[2]) != 3 {
			return cu.ErrorInvalidValue
		}
		store(a[0], cu.Context(0xc0))
		return cu.Success
	})
	for life := range 2 {
		ctx, err := d.CtxCreate(cu.CtxMapHost, 3)
		if ctx != 0xc0 || err != nil {
			t.Fatalf("context %#x, %v", ctx, err)
		}
		if calls := f.take(); len(calls) != 2 || calls[1].symbol != "cuCtxPopCurrent" {
			t.Errorf("calls %v, want cuCtxCreate and cuCtxPopCurrent", calls)
		}
		if err := d.CtxSynchronize(ctx); err != nil {
			t.Errorf("life %d: %v", life, err)
		}
		f.on("cuCtxDestroy", func([]uintptr) cu.Result { return cu.ErrorUnknown })
		if err := d.CtxDestroy(ctx); err != cu.ErrorUnknown {
			t.Errorf("error %v, want the driver's", err)
		}
		if err := d.CtxSynchronize(ctx); err != nil {
			t.Errorf("life %d, not destroyed: %v", life, err)
		}
		f.on("cuCtxDestroy", func(a []uintptr) cu.Result { return cu.Result(a[0] - 0xc0) })
		if err := d.CtxDestroy(ctx); err != nil {
			t.Fatal(err)
		}
		f.take()
		for _, err := range []error{d.CtxSynchronize(ctx), d.CtxDestroy(ctx), d.MemFree(ctx, 1)} {
			if err != cu.ErrorInvalidContext {
				t.Errorf("life %d, destroyed: error %v, want CUDA_ERROR_INVALID_CONTEXT", life, err)
			}
		}
		if calls := f.take(); len(calls) != 0 {
			t.Errorf("called the driver with a destroyed context: %v", calls)
		}
	}
	// The driver decides about a context that was not created here.
	f.on("cuCtxDestroy", func([]uintptr) cu.Result { return cu.ErrorInvalidContext })
	if err := d.CtxDestroy(0xd0); err != cu.ErrorInvalidContext {
		t.Error(err)
	}
	if err := d.CtxSynchronize(0xd0); err != nil {
		t.Errorf("a primary context is refused after a failed destroy: %v", err)
	}
}

func TestPointerAttributes(t *testing.T) {
	f, d := newFake(t)
	known := map[uint32]uint64{1: 0xc1, 2: 2, 3: 0x7f00, 4: 0, 7: 99, 8: 1, 9: 3, 11: 0x7000, 12: 4096, 13: 1}
	f.on("cuPointerGetAttributes", func(a []uintptr) cu.Result {
		if a[3] != 0x7f00 {
			return cu.Success // an unknown address: all attributes stay zero
		}
		for i := range a[0] {
			store(*at[uintptr](a[2] + i*8), known[*at[uint32](a[1] + i*4)])
		}
		return cu.Success
	})
	got, err := d.PointerGetAttributes(1, 0x7f00)
	want := cu.PointerAttributes{Context: 0xc1, MemoryType: cu.MemoryTypeDevice, DevicePointer: 0x7f00, Device: 3,
		IsManaged: true, RangeStart: 0x7000, RangeSize: 4096, Mapped: true, BufferID: 99}
	if got != want || err != nil {
		t.Errorf("attributes %+v, %v, want %+v", got, err, want)
	}
	got, err = d.PointerGetAttributes(1, 0x1234)
	if want := (cu.PointerAttributes{Device: cu.InvalidDevice}); got != want || err != nil {
		t.Errorf("attributes of an unknown address %+v, %v, want %+v", got, err, want)
	}
}

func TestRangeAndPoolAttributes(t *testing.T) {
	f, d := newFake(t)
	f.on("cuMemRangeGetAttribute", func(a []uintptr) cu.Result {
		copy(unsafe.Slice(at[int32](a[0]), int(a[1]/4)), []int32{4, -2, -1})
		return cu.Result(a[2] - uintptr(cu.MemRangeAttributeAccessedBy))
	})
	data := []int32{7, 7, 7, 7}
	if err := d.MemRangeGetAttribute(1, data[:3], cu.MemRangeAttributeAccessedBy, 0x1000, 64); err != nil {
		t.Fatal(err)
	}
	if want := []int32{4, -2, -1, 7}; !slices.Equal(data, want) {
		t.Errorf("data %d, want %d", data, want)
	}
	if err := d.MemRangeGetAttribute(1, nil, cu.MemRangeAttributeReadMostly, 0x1000, 64); err != cu.ErrorInvalidValue {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_VALUE", err)
	}
	var pool uint64
	f.on("cuMemPoolSetAttribute", func(a []uintptr) cu.Result { pool = *at[uint64](a[2]); return cu.Success })
	f.on("cuMemPoolGetAttribute", func(a []uintptr) cu.Result { store(a[2], uint32(pool)); return cu.Success })
	if err := d.MemPoolSetAttribute(2, cu.MemPoolAttrReleaseThreshold, 1<<40+5); err != nil || pool != 1<<40+5 {
		t.Errorf("set %#x, %v", pool, err)
	}
	if got, err := d.MemPoolGetAttribute(2, cu.MemPoolAttrReuseAllowOpportunistic); got != 5 || err != nil {
		t.Errorf("32-bit attribute %d, %v, want 5", got, err)
	}
}

// TestGraphMemAttribute checks that the driver gets the address of the value.
func TestGraphMemAttribute(t *testing.T) {
	f, d := newFake(t)
	var got []uint64
	f.on("cuDeviceSetGraphMemAttribute", func(a []uintptr) cu.Result {
		got = append(got, uint64(a[0]), uint64(a[1]), *at[uint64](a[2]))
		return cu.Success
	})
	if err := d.DeviceSetGraphMemAttribute(2, cu.GraphMemAttrReservedMemHigh, 1<<40+7); err != nil || !slices.Equal(got, []uint64{2, 3, 1<<40 + 7}) {
		t.Errorf("%v, %v; want device 2, attribute 3 and the value", got, err)
	}
}

// TestPoolAccess checks that the driver gets the list and its length, and no address for nil.
func TestPoolAccess(t *testing.T) {
	f, d := newFake(t)
	var got []cu.MemAccessDesc
	nothing := false
	f.on("cuMemPoolSetAccess", func(a []uintptr) cu.Result {
		if nothing = a[1] == 0; !nothing {
			got = slices.Clone(unsafe.Slice(at[cu.MemAccessDesc](a[1]), int(a[2])))
		}
		return cu.Result(a[0] - 2)
	})
	want := []cu.MemAccessDesc{
		{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: 3}, Flags: cu.MemAccessProtReadWrite},
		{Location: cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: -1}, Flags: cu.MemAccessProtRead},
	}
	if err := d.MemPoolSetAccess(2, want); err != nil || !slices.Equal(got, want) {
		t.Errorf("the driver got %+v, %v, want %+v", got, err, want)
	}
	if err := d.MemPoolSetAccess(3, nil); err != cu.ErrorInvalidValue || !nothing {
		t.Errorf("nil: error %v, no address %v", err, nothing)
	}
}

// TestVirtualMemory checks the arguments and results of the calls about virtual memory that are
// written by hand: the widths that C reads and writes, and that no other type of handle reaches C,
// which would write more than a descriptor.
func TestVirtualMemory(t *testing.T) {
	f, d := newFake(t)
	var got []cu.MemAccessDesc
	f.on("cuMemSetAccess", func(a []uintptr) cu.Result {
		if a[0] != 0xffff_0000_0020_0000 || a[1] != 1<<40 {
			return cu.ErrorNotFound
		}
		got = slices.Clone(unsafe.Slice(at[cu.MemAccessDesc](a[2]), int(a[3])))
		return cu.Success
	})
	want := []cu.MemAccessDesc{{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: 3}, Flags: cu.MemAccessProtRead}, {Location: cu.MemLocation{Type: 1, ID: 7}, Flags: 3}}
	if err := d.MemSetAccess(1, 0xffff_0000_0020_0000, 1<<40, want); err != nil || !slices.Equal(got, want) {
		t.Errorf("the driver got %+v, %v, want %+v", got, err, want)
	}
	f.on("cuMemGetAccess", func(a []uintptr) cu.Result {
		if *at[cu.MemLocation](a[1]) != want[0].Location || a[2] != 0x77 {
			return cu.ErrorNotFound
		}
		store(a[0], uint64(cu.MemAccessProtReadWrite))
		return cu.Success
	})
	if got, err := d.MemGetAccess(1, &want[0].Location, 0x77); got != cu.MemAccessProtReadWrite || err != nil {
		t.Errorf("access %v, %v", got, err)
	}
	props := cu.MemAllocationProp{Type: 1, RequestedHandleTypes: 1, Location: want[0].Location, CompressionType: 1, GPUDirectRDMACapable: 1, Usage: 2}
	f.on("cuMemGetAllocationPropertiesFromHandle", func(a []uintptr) cu.Result { store(a[0], props); return cu.Result(a[1] - 9) })
	if got, err := d.MemGetAllocationPropertiesFromHandle(1, 9); got != props || err != nil {
		t.Errorf("properties %+v, %v, want %+v", got, err, props)
	}
	f.on("cuMemExportToShareableHandle", func(a []uintptr) cu.Result {
		store(a[0], [1]int32{17})
		return cu.Result(a[1] - 9 + a[2] - 1 + a[3] - 5)
	})
	if got, err := d.MemExportToShareableHandle(1, 9, cu.MemHandleTypePosixFileDescriptor, 5); got != 17 || err != nil {
		t.Errorf("descriptor %d, %v", got, err)
	}
	f.on("cuMemImportFromShareableHandle", func(a []uintptr) cu.Result {
		store(a[0], uint64(1)<<40+8)
		return cu.Result(a[1] - 17 + a[2] - 1)
	})
	if got, err := d.MemImportFromShareableHandle(1, 17, cu.MemHandleTypePosixFileDescriptor); got != 1<<40+8 || err != nil {
		t.Errorf("handle %#x, %v", got, err)
	}
	f.take()
	for _, typ := range []cu.MemAllocationHandleType{0, cu.MemHandleTypeWin32, cu.MemHandleTypeFabric, 3} {
		if _, err := d.MemExportToShareableHandle(1, 9, typ, 0); err != cu.ErrorNotSupported {
			t.Errorf("export by type %d: %v, want CUDA_ERROR_NOT_SUPPORTED", typ, err)
		}
		if _, err := d.MemImportFromShareableHandle(1, 17, typ); err != cu.ErrorNotSupported {
			t.Errorf("import by type %d: %v, want CUDA_ERROR_NOT_SUPPORTED", typ, err)
		}
	}
	if calls := f.take(); len(calls) > 0 {
		t.Errorf("the driver got %+v", calls)
	}
}

// TestAtomicCapabilities: the lists reach the driver, and its answer comes back.
func TestAtomicCapabilities(t *testing.T) {
	f, d := newFake(t)
	var devices []uintptr
	for symbol, n := range map[string]int{"cuDeviceGetHostAtomicCapabilities": 1, "cuDeviceGetP2PAtomicCapabilities": 2} {
		f.on(symbol, func(a []uintptr) cu.Result {
			if a[2] == 0 {
				return cu.ErrorInvalidValue
			}
			out, in := unsafe.Slice(at[uint32](a[0]), int(a[2])), unsafe.Slice(at[uint32](a[1]), int(a[2]))
			for i, operation := range in {
				out[i] = 100 + operation
			}
			devices = slices.Clone(a[3 : 3+n])
			return cu.Success
		})
	}
	operations, want := []cu.AtomicOperation{cu.AtomicFloatAdd, cu.AtomicIntegerAdd, cu.AtomicXor}, []cu.AtomicCapabilities{110, 100, 107}
	if got, err := d.DeviceGetHostAtomicCapabilities(operations, 3); err != nil || !slices.Equal(got, want) || !slices.Equal(devices, []uintptr{3}) {
		t.Errorf("host: %v, %v of device %v; want %v", got, err, devices, want)
	}
	if got, err := d.DeviceGetP2PAtomicCapabilities(operations, 4, 5); err != nil || !slices.Equal(got, want) || !slices.Equal(devices, []uintptr{4, 5}) {
		t.Errorf("peers: %v, %v of devices %v; want %v", got, err, devices, want)
	}
	if got, err := d.DeviceGetHostAtomicCapabilities(nil, 3); err != cu.ErrorInvalidValue || got != nil {
		t.Errorf("no operations: %v, %v", got, err)
	}
}

// TestManagedPlaces: places arrive by value, and lists with their lengths. Lists whose lengths differ
// do not reach the driver.
func TestManagedPlaces(t *testing.T) {
	f, d := newFake(t)
	at := cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: -2}
	const inRegister = 0xfffffffe_00000003
	if err := d.MemPrefetchAsyncV2(1, 0x1000, 64, at, 5, 6); err != nil {
		t.Error(err)
	}
	if err := d.MemAdviseV2(1, 0x1000, 64, cu.MemAdviseSetAccessedBy, at); err != nil {
		t.Error(err)
	}
	dptrs, sizes := []cu.DevicePtr{0x1000, 0x2000}, []uintptr{64, 65}
	places, firsts := []cu.MemLocation{at}, []uintptr{0}
	if err := d.MemPrefetchBatchAsync(1, dptrs, sizes, places, firsts, 7, 8); err != nil {
		t.Error(err)
	}
	if err := d.MemDiscardAndPrefetchBatchAsync(1, dptrs, sizes, places, firsts, 7, 8); err != nil {
		t.Error(err)
	}
	if err := d.MemDiscardBatchAsync(1, dptrs, sizes, 7, 8); err != nil {
		t.Error(err)
	}
	d1, s1 := uintptr(unsafe.Pointer(&dptrs[0])), uintptr(unsafe.Pointer(&sizes[0]))
	p1, f1 := uintptr(unsafe.Pointer(&places[0])), uintptr(unsafe.Pointer(&firsts[0]))
	want := map[string][]uintptr{
		"cuMemPrefetchAsync": {0x1000, 64, inRegister, 5, 6}, "cuMemAdvise": {0x1000, 64, 5, inRegister},
		"cuMemPrefetchBatchAsync": {d1, s1, 2, p1, f1, 1, 7, 8}, "cuMemDiscardAndPrefetchBatchAsync": {d1, s1, 2, p1, f1, 1, 7, 8}, "cuMemDiscardBatchAsync": {d1, s1, 2, 7, 8},
	}
	for _, c := range f.take() {
		if w, ok := want[c.symbol]; ok && !slices.Equal(c.args[:len(w)], w) {
			t.Errorf("%s got %#x, want %#x", c.symbol, c.args[:len(w)], w)
		}
		delete(want, c.symbol)
	}
	if len(want) > 0 || f.asked["cuMemPrefetchAsync"] != 12020 || f.asked["cuMemAdvise"] != 12020 {
		t.Errorf("not called: %v; asked for %v", want, f.asked)
	}
	for _, err := range []error{d.MemDiscardBatchAsync(1, dptrs, sizes[:1], 0, 8), d.MemPrefetchBatchAsync(1, dptrs[:1], sizes, places, firsts, 0, 8), d.MemPrefetchBatchAsync(1, dptrs, sizes, places, nil, 0, 8)} {
		if err != cu.ErrorInvalidValue {
			t.Errorf("lists of different lengths: %v", err)
		}
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("called the driver: %v", calls)
	}
}

// TestStreamAttachMem checks that only the three known flags reach the driver.
func TestStreamAttachMem(t *testing.T) {
	f, d := newFake(t)
	f.on("cuStreamAttachMemAsync", func(a []uintptr) cu.Result {
		if want := []uintptr{2, 0x1000, 64, uintptr(cu.MemAttachHost)}; !slices.Equal(a[:4], want) {
			t.Errorf("arguments %#x, want %#x", a[:4], want)
		}
		return cu.Success
	})
	if err := d.StreamAttachMemAsync(1, 2, 0x1000, 64, cu.MemAttachHost); err != nil {
		t.Error(err)
	}
	f.take()
	for _, flags := range []cu.MemAttachFlags{0, cu.MemAttachGlobal | cu.MemAttachHost, 8} {
		if err := d.StreamAttachMemAsync(1, 2, 0x1000, 64, flags); err != cu.ErrorInvalidValue {
			t.Errorf("flags %d: error %v, want CUDA_ERROR_INVALID_VALUE", flags, err)
		}
	}
	if calls := f.take(); len(calls) != 0 {
		t.Errorf("called %v with unknown flags", calls)
	}
}

func TestMemcpyBatch(t *testing.T) {
	f, d := newFake(t)
	dsts, srcs, sizes := []cu.DevicePtr{0x100, 0x200}, []cu.DevicePtr{0x300, 0x400}, []uintptr{16, 32}
	f.on("cuMemcpyBatchAsync", func(a []uintptr) cu.Result {
		n := int(a[3])
		if got := unsafe.Slice(at[cu.DevicePtr](a[0]), n); !slices.Equal(got, dsts) {
			t.Errorf("destinations %#x, want %#x", got, dsts)
		}
		if got := unsafe.Slice(at[cu.DevicePtr](a[1]), n); !slices.Equal(got, srcs) {
			t.Errorf("sources %#x, want %#x", got, srcs)
		}
		if got := unsafe.Slice(at[uintptr](a[2]), n); !slices.Equal(got, sizes) {
			t.Errorf("sizes %d, want %d", got, sizes)
		}
		if order, first := at[memcpyAttributes](a[4]).srcAccessOrder, *at[uintptr](a[5]); order != inStreamOrder || first != 0 || a[6] != 1 {
			t.Errorf("order %d from copy %d, %d attributes, want %d from 0, 1", order, first, a[6], inStreamOrder)
		}
		if a[7] == 0 || a[8] != 9 {
			t.Errorf("failed copy at %#x, stream %d, want an address and 9", a[7], a[8])
		}
		return cu.Success
	})
	if err := d.MemcpyBatchAsync(1, dsts, srcs, sizes, 9); err != nil {
		t.Error(err)
	}
	if err := d.MemcpyBatchAsync(1, dsts, srcs, sizes[:1], 9); err != cu.ErrorInvalidValue {
		t.Errorf("lists of different lengths: error %v, want CUDA_ERROR_INVALID_VALUE", err)
	}
}

func TestModuleLog(t *testing.T) {
	f, d := newFake(t)
	image := []byte(".version 6.3")
	fail, info := "", ""
	f.on("cuModuleLoadDataEx", func(a []uintptr) cu.Result {
		if got := text(a[1]); got != string(image) {
			t.Errorf("image %q", got)
		}
		names := unsafe.Slice(at[uint32](a[3]), int(a[2]))
		values := unsafe.Slice(at[uintptr](a[4]), int(a[2]))
		for i, name := range names {
			log := map[uint32]string{3: info, 5: fail}[name]
			if log != "" {
				copy(unsafe.Slice(at[byte](values[i]), int(values[i+1])), log)
			}
		}
		if fail+info == "" {
			store(a[0], cu.Module(0x40))
			return cu.Success
		}
		return cu.ErrorInvalidPTX
	})
	if module, err := d.ModuleLoadData(1, image); module != 0x40 || err != nil {
		t.Errorf("module %#x, %v", module, err)
	}
	fail = "ptxas application ptx input, line 4; fatal: Parsing error near 'ad'\nsecond\n"
	_, err := d.ModuleLoadData(1, image)
	if jit, ok := errors.AsType[*cu.JITError](err); !ok || jit.Log != fail || !errors.Is(err, cu.ErrorInvalidPTX) {
		t.Errorf("error %+v, want the log", err)
	}
	fail, info = "", "only information"
	_, err = d.ModuleLoadData(1, image)
	if jit, ok := errors.AsType[*cu.JITError](err); !ok || jit.Log != info {
		t.Errorf("error %+v, want the information log", err)
	}
	info = ""
	f.on("cuModuleLoadDataEx", func([]uintptr) cu.Result { return cu.ErrorNoBinaryForGPU })
	if _, err = d.ModuleLoadData(1, image); err != cu.ErrorNoBinaryForGPU {
		t.Errorf("error %+v, want the result alone", err)
	}
	if _, err = d.ModuleLoadData(1, nil); err != cu.ErrorInvalidImage {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_IMAGE", err)
	}
}

// launched reads the parameters in an extra array, as the driver does.
func launched(t *testing.T, extra uintptr) []byte {
	t.Helper()
	if extra == 0 {
		return nil
	}
	words := unsafe.Slice(at[uintptr](extra), 5)
	if words[0] != 1 || words[2] != 2 || words[4] != 0 {
		t.Fatalf("extra is %#x", words)
	}
	return bytes.Clone(unsafe.Slice(at[byte](words[1]), int(*at[uintptr](words[3]))))
}

func TestLaunchKernel(t *testing.T) {
	f, d := newFake(t)
	var got []byte
	var extra uintptr
	f.on("cuLaunchKernel", func(a []uintptr) cu.Result {
		for i, want := range []uintptr{0xf, 1, 2, 3, 4, 5, 6, 7, 8, 0} {
			if a[i] != want {
				t.Errorf("argument %d is %#x, want %#x", i, a[i], want)
			}
		}
		extra, got = a[10], launched(t, a[10])
		return cu.Success
	})
	f.on("cuGraphExecKernelNodeSetParams", func(a []uintptr) cu.Result {
		n := at[kernelNodeParams](a[2])
		if a[0] != 0xe || a[1] != 0xd || n.f != 0xf || n.grid != (cu.Dim3{X: 1, Y: 2, Z: 3}) || n.block != (cu.Dim3{X: 4, Y: 5, Z: 6}) || n.sharedMemBytes != 7 {
			t.Errorf("arguments %#x, %+v", a[:2], n)
		}
		got = launched(t, uintptr(unsafe.Pointer(n.extra)))
		return cu.Success
	})
	grid, block := cu.Dim3{X: 1, Y: 2, Z: 3}, cu.Dim3{X: 4, Y: 5, Z: 6}
	for _, params := range [][]byte{nil, {1, 2, 3}, bytes.Repeat([]byte{9}, 4000), {}} {
		if err := d.LaunchKernel(1, 0xf, grid, block, 7, 8, params); err != nil || !bytes.Equal(got, params) {
			t.Errorf("parameters %v, %v, want %v", got, err, params)
		}
		if (extra == 0) != (len(params) == 0) {
			t.Errorf("extra is %#x for %d bytes of parameters", extra, len(params))
		}
		if err := d.GraphExecKernelNodeSetParams(1, 0xe, 0xd, 0xf, grid, block, 7, params); err != nil || !bytes.Equal(got, params) {
			t.Errorf("parameters of the node %v, %v, want %v", got, err, params)
		}
	}
}

func TestGraphCalls(t *testing.T) {
	f, d := newFake(t)
	nodes := []cu.GraphNode{5, 6, 7}
	f.on("cuGraphGetNodes", func(a []uintptr) cu.Result {
		if a[1] != 0 {
			copy(unsafe.Slice(at[cu.GraphNode](a[1]), int(*at[uintptr](a[2]))), nodes)
		}
		store(a[2], uintptr(len(nodes)))
		return cu.Success
	})
	for _, want := range [][]cu.GraphNode{nodes, nil} {
		nodes = want
		if got, err := d.GraphGetNodes(1); !slices.Equal(got, want) || err != nil {
			t.Errorf("nodes %d, %v, want %d", got, err, want)
		}
	}
	f.on("cuGraphExecUpdate", func(a []uintptr) cu.Result {
		store(a[2], uint32(3))
		store(a[2]+8, cu.GraphNode(0x77))
		return cu.ErrorGraphExecUpdateFailure
	})
	err := d.GraphExecUpdate(1, 2, 3)
	if !errors.Is(err, cu.ErrorGraphExecUpdateFailure) || !strings.Contains(err.Error(), "another kind") || !strings.Contains(err.Error(), "0x77") {
		t.Errorf("error %v, want the reason and the node", err)
	}
}

func TestNamesReachC(t *testing.T) {
	f, d := newFake(t)
	f.on("cuModuleGetFunction", func(a []uintptr) cu.Result {
		if a[1] != 4 || text(a[2]) != "vector_add" {
			return cu.ErrorNotFound
		}
		store(a[0], cu.Function(8))
		return cu.Success
	})
	if got, err := d.ModuleGetFunction(1, 4, "vector_add"); got != 8 || err != nil {
		t.Errorf("function %d, %v", got, err)
	}
	if _, err := d.ModuleGetFunction(1, 4, "vector_ad"); err != cu.ErrorNotFound {
		t.Errorf("error %v, want CUDA_ERROR_NOT_FOUND", err)
	}
}

func TestNilStructs(t *testing.T) {
	_, d := newFake(t)
	_, poolErr := d.MemPoolCreate(nil)
	_, accessErr := d.MemPoolGetAccess(1, nil)
	_, mappedErr := d.MemGetAccess(1, nil, 2)
	_, createErr := d.MemCreate(1, 2, nil, 0)
	_, granularityErr := d.MemGetAllocationGranularity(1, nil, 0)
	for _, err := range []error{mappedErr, createErr, granularityErr, accessErr, d.Memcpy2D(1, nil), d.Memcpy2DAsync(1, nil, 2), d.Memcpy3D(1, nil), d.Memcpy3DAsync(1, nil, 2), poolErr} {
		if err != cu.ErrorInvalidValue {
			t.Errorf("error %v, want CUDA_ERROR_INVALID_VALUE", err)
		}
	}
}
