package softgpu

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// pendingCase is a call that waits for work, or may do so. prepare makes what the call needs.
type pendingCase struct {
	name    string // of the call; further words say what is special
	prepare func(r *rig) (call func() error)
	again   cu.Result // what the call returns when it is made once more: it has done its work
}

// pendingCases has every call of cu.Driver that can wait for the work of a stream which is not
// its own.
var pendingCases = []pendingCase{
	{"MemFree", func(r *rig) func() error {
		p := r.alloc(64)
		return func() error { return r.MemFree(r.ctx, p) }
	}, cu.ErrorInvalidValue},
	{"MemFree of managed memory", func(r *rig) func() error {
		p, err := r.MemAllocManaged(r.ctx, 64, cu.MemAttachGlobal)
		r.ok(err)
		return func() error { return r.MemFree(r.ctx, p) }
	}, cu.ErrorInvalidValue},
	{"MemFree in another context", func(r *rig) func() error {
		p, other := r.alloc(64), r.another()
		return func() error { return r.MemFree(other, p) }
	}, cu.ErrorInvalidValue},
	{"MemFree of memory in stream order", func(r *rig) func() error {
		p, err := r.MemAllocAsync(r.ctx, 64, 0)
		r.ok(err)
		return func() error { return r.MemFree(r.ctx, p) }
	}, cu.ErrorInvalidValue},
	{"MemUnmap in another context", func(r *rig) func() error {
		if !virtualMemory {
			r.t.Skip("this system has no virtual memory")
		}
		p, err := r.MemAddressReserve(r.ctx, granularity, 0, 0, 0)
		r.ok(err)
		h, err := r.MemCreate(r.ctx, granularity, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: cu.MemLocation{Type: cu.MemLocationTypeDevice}}, 0)
		r.ok(err)
		r.ok(r.MemMap(r.ctx, p, granularity, 0, h, 0))
		other := r.another()
		return func() error { return r.MemUnmap(other, p, granularity) }
	}, cu.Success}, // a hole is unmapped, too
	{"IpcCloseMemHandle", func(r *rig) func() error {
		p := r.openedAgain(r.alloc(64))
		return func() error { return r.IpcCloseMemHandle(r.ctx, p) }
	}, cu.ErrorInvalidValue},
	{"MemFreeHost", func(r *rig) func() error {
		p, _ := r.pinned(64)
		return func() error { return r.MemFreeHost(r.ctx, p) }
	}, cu.ErrorInvalidValue},
	{"MemFreeHost of another context", func(r *rig) func() error {
		other := r.another()
		p, err := r.MemHostAlloc(other, 64, cu.MemHostAllocPortable)
		r.ok(err)
		return func() error { return r.MemFreeHost(other, p) }
	}, cu.ErrorInvalidValue},
	{"MemHostUnregister", func(r *rig) func() error {
		p := ptr(make([]byte, 4096))
		r.ok(r.MemHostRegister(r.ctx, p, 4096, cu.MemHostRegisterPortable))
		return func() error { return r.MemHostUnregister(r.ctx, p) }
	}, cu.ErrorHostMemoryNotRegistered},
	{"ModuleUnload", func(r *rig) func() error {
		m := r.module(r.ctx)
		return func() error { return r.ModuleUnload(r.ctx, m) }
	}, cu.ErrorInvalidHandle},
	{"ModuleLoadData", func(r *rig) func() error {
		return func() error { _, err := r.ModuleLoadData(r.ctx, []byte(testPTX)); return err }
	}, 0},
	{"ModuleLoadDataEx", func(r *rig) func() error {
		return func() error { _, _, err := r.ModuleLoadDataEx(r.ctx, []byte(testPTX), nil); return err }
	}, 0},
	{"CtxSetLimit", func(r *rig) func() error {
		return func() error { return r.CtxSetLimit(r.ctx, cu.LimitStackSize, 4096) }
	}, 0},
	{"CtxSynchronize of another context", func(r *rig) func() error {
		other := r.another()
		return func() error { return r.CtxSynchronize(other) }
	}, 0},
	{"CtxDestroy of another context", func(r *rig) func() error {
		other := r.another()
		return func() error { return r.CtxDestroy(other) }
	}, cu.ErrorInvalidContext},
	{"DevicePrimaryCtxRelease", func(r *rig) func() error {
		for range 2 { // for two calls
			_, err := r.DevicePrimaryCtxRetain(0)
			r.ok(err)
		}
		return func() error { return r.DevicePrimaryCtxRelease(0) }
	}, 0},
	{"DevicePrimaryCtxReset of another device", func(r *rig) func() error {
		return func() error { return r.DevicePrimaryCtxReset(1) }
	}, 0},
	{"StreamSynchronize of another stream", func(r *rig) func() error {
		s := r.stream(cu.StreamNonBlocking)
		return func() error { return r.StreamSynchronize(r.ctx, s) }
	}, 0},
	{"StreamSynchronize of the default stream", func(r *rig) func() error {
		return func() error { return r.StreamSynchronize(r.ctx, 0) }
	}, 0},
	{"StreamQuery of another stream", func(r *rig) func() error {
		s := r.stream(cu.StreamNonBlocking)
		return func() error { return r.StreamQuery(r.ctx, s) }
	}, 0},
	{"StreamQuery of the default stream", func(r *rig) func() error {
		return func() error { return untilReady(func() error { return r.StreamQuery(r.ctx, 0) }) }
	}, 0},
	{"StreamDestroy of another stream", func(r *rig) func() error {
		s := r.stream(0)
		return func() error { return r.StreamDestroy(r.ctx, s) }
	}, cu.ErrorInvalidHandle},
	{"EventSynchronize", func(r *rig) func() error {
		e := r.event()
		return func() error {
			return errors.Join(r.EventRecord(r.ctx, e, 0), r.EventSynchronize(r.ctx, e))
		}
	}, 0},
	{"EventQuery", func(r *rig) func() error {
		e := r.event()
		return func() error {
			return errors.Join(r.EventRecord(r.ctx, e, 0), untilReady(func() error { return r.EventQuery(r.ctx, e) }))
		}
	}, 0},
	{"EventElapsedTime", func(r *rig) func() error {
		from, to := r.event(), r.event()
		return func() error {
			return errors.Join(r.EventRecord(r.ctx, from, 0), r.EventRecord(r.ctx, to, 0),
				untilReady(func() error { _, err := r.EventElapsedTime(r.ctx, from, to); return err }))
		}
	}, 0},
	{"EventDestroy", func(r *rig) func() error {
		e := r.event()
		r.ok(r.EventRecord(r.ctx, e, 0))
		return func() error { return r.EventDestroy(r.ctx, e) }
	}, cu.ErrorInvalidHandle},
	{"MemPoolTrimTo", func(r *rig) func() error {
		p := r.newPool(0)
		return func() error { return r.MemPoolTrimTo(p, 0) }
	}, 0},
	{"MemPoolDestroy", func(r *rig) func() error {
		p := r.newPool(0)
		return func() error { return r.MemPoolDestroy(p) }
	}, cu.ErrorInvalidHandle},
	{"MemFreeAsync", func(r *rig) func() error {
		p := r.alloc(64)
		return func() error { return r.MemFreeAsync(r.ctx, p, 0) }
	}, cu.ErrorInvalidValue},
	{"GraphDestroy", func(r *rig) func() error {
		g := r.capturing(func(s cu.Stream) {})
		return func() error { return r.GraphDestroy(g) }
	}, cu.ErrorInvalidValue},
	{"GraphExecDestroy", func(r *rig) func() error {
		x, err := r.GraphInstantiate(r.ctx, r.capturing(func(s cu.Stream) {}), 0)
		r.ok(err)
		return func() error { return r.GraphExecDestroy(x) }
	}, cu.ErrorInvalidValue},
	copying("Memcpy", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error { return r.Memcpy(r.ctx, a, b, 64) }),
	copying("MemcpyHtoD", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error { return r.MemcpyHtoD(r.ctx, a, h, 64) }),
	copying("MemcpyDtoH", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error { return r.MemcpyDtoH(r.ctx, h, a, 64) }),
	copying("MemcpyDtoD", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error { return r.MemcpyDtoD(r.ctx, a, b, 64) }),
	copying("MemcpyPeer", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.MemcpyPeer(r.ctx, a, r.ctx, b, r.ctx, 64)
	}),
	copying("Memcpy2D", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.Memcpy2D(r.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: a, DstMemoryType: cu.MemoryTypeHost, DstHost: h, WidthInBytes: 8, Height: 1})
	}),
	copying("Memcpy3D", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.Memcpy3D(r.ctx, &cu.Memcpy3D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: a, DstMemoryType: cu.MemoryTypeHost, DstHost: h, WidthInBytes: 8, Height: 1, Depth: 1})
	}),
	copying("MemcpyHtoDAsync", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.MemcpyHtoDAsync(r.ctx, a, h, 64, 0)
	}),
	copying("MemcpyDtoHAsync", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.MemcpyDtoHAsync(r.ctx, h, a, 64, 0)
	}),
	copying("MemcpyAsync", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.MemcpyAsync(r.ctx, addressIn(h), a, 64, 0)
	}),
	copying("Memcpy2DAsync", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.Memcpy2DAsync(r.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: a, DstMemoryType: cu.MemoryTypeHost, DstHost: h, WidthInBytes: 8, Height: 1}, 0)
	}),
	copying("Memcpy3DAsync", func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error {
		return r.Memcpy3DAsync(r.ctx, &cu.Memcpy3D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: a, DstMemoryType: cu.MemoryTypeHost, DstHost: h, WidthInBytes: 8, Height: 1, Depth: 1}, 0)
	}),
	filling("MemsetD8", func(r *rig, p cu.DevicePtr) error { return r.MemsetD8(r.ctx, p, 1, 8) }),
	filling("MemsetD16", func(r *rig, p cu.DevicePtr) error { return r.MemsetD16(r.ctx, p, 1, 8) }),
	filling("MemsetD32", func(r *rig, p cu.DevicePtr) error { return r.MemsetD32(r.ctx, p, 1, 8) }),
	{"LaunchKernel", func(r *rig) func() error {
		f, p := r.function("store"), r.alloc(4)
		return func() error { return r.LaunchKernel(r.ctx, f, one, one, 0, 0, params(p, uint32(1))) }
	}, 0},
	{"LaunchKernelEx", func(r *rig) func() error {
		f, p := r.function("store"), r.alloc(4)
		return func() error {
			return r.LaunchKernelEx(r.ctx, &cu.LaunchConfig{Grid: one, Block: one}, f, params(p, uint32(1)))
		}
	}, 0},
}

// copying is the case of a copy between device memory and ordinary host memory.
func copying(name string, do func(r *rig, a, b cu.DevicePtr, h cu.HostPtr) error) pendingCase {
	return pendingCase{name, func(r *rig) func() error {
		a, b, h := r.alloc(64), r.alloc(64), ptr(make([]byte, 64))
		r.ok(r.MemsetD8(r.ctx, a, 1, 64))
		r.ok(r.MemsetD8(r.ctx, b, 1, 64))
		return func() error { return do(r, a, b, h) }
	}, 0}
}

// filling is the case of a fill of page-locked memory, which waits.
func filling(name string, do func(r *rig, p cu.DevicePtr) error) pendingCase {
	return pendingCase{name, func(r *rig) func() error {
		h, _ := r.pinned(64)
		return func() error { return do(r, addressIn(h)) }
	}, 0}
}

// addressIn returns the address that the device has for host memory.
func addressIn(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(addressOf(p)) }

// another makes a context.
func (r *rig) another() cu.Context {
	r.t.Helper()
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	return c
}

// untilReady calls f until the work is done that it asks about.
func untilReady(f func() error) error {
	for {
		if err := f(); !errors.Is(err, cu.ErrorNotReady) {
			return err
		}
	}
}

// neverWait are the calls that wait for no work, as a program sees it.
const neverWait = `Init DriverGetVersion DeviceGetCount DeviceGet DeviceGetName DeviceGetPCIBusId DeviceGetUuid DeviceTotalMem
	DeviceGetAttribute DeviceCanAccessPeer DeviceGetP2PAttribute DeviceGetHostAtomicCapabilities
	DeviceGetP2PAtomicCapabilities DevicePrimaryCtxRetain DevicePrimaryCtxSetFlags DevicePrimaryCtxGetState CtxCreate
	CtxGetFlags CtxGetDevice CtxGetStreamPriorityRange CtxGetLimit CtxEnablePeerAccess CtxDisablePeerAccess MemAlloc MemAllocPitch
	MemGetInfo MemGetAddressRange MemHostAlloc MemHostGetDevicePointer MemHostGetFlags MemHostRegister PointerGetAttributes
	MemAddressReserve MemAddressFree MemCreate MemRelease MemMap MemSetAccess MemGetAccess MemGetAllocationGranularity
	MemGetAllocationPropertiesFromHandle MemRetainAllocationHandle MemExportToShareableHandle MemImportFromShareableHandle
	MemAllocManaged MemPrefetchAsync MemPrefetchAsyncV2 MemPrefetchBatchAsync MemDiscardBatchAsync MemDiscardAndPrefetchBatchAsync
	MemAdvise MemAdviseV2 MemRangeGetAttribute StreamAttachMemAsync MemAllocAsync MemAllocFromPoolAsync
	DeviceGetDefaultMemPool DeviceGetMemPool DeviceSetMemPool MemPoolCreate MemPoolGetAttribute MemPoolSetAttribute MemPoolSetAccess
	MemPoolGetAccess MemPoolExportToShareableHandle MemPoolImportFromShareableHandle MemPoolExportPointer MemPoolImportPointer
	IpcGetEventHandle IpcOpenEventHandle IpcGetMemHandle IpcOpenMemHandle MemGetHandleForAddressRange
	MemGetDefaultMemPool MemGetMemPool MemSetMemPool DeviceGetGraphMemAttribute DeviceSetGraphMemAttribute DeviceGraphMemTrim
	MemcpyDtoDAsync MemcpyPeerAsync MemcpyBatchAsync MemsetD8Async MemsetD16Async MemsetD32Async StreamCreate
	StreamCreateWithPriority StreamWaitEvent StreamGetPriority StreamGetFlags StreamGetCtx StreamGetId LaunchHostFunc
	StreamWriteValue32 StreamWriteValue64 StreamWaitValue32 StreamWaitValue64
	StreamBeginCapture StreamEndCapture StreamIsCapturing ThreadExchangeStreamCaptureMode
	EventCreate EventRecord EventRecordWithFlags ModuleGetFunction ModuleGetGlobal FuncGetAttribute FuncSetAttribute FuncGetParamInfo
	FuncSetCacheConfig OccupancyMaxActiveBlocksPerMultiprocessor OccupancyMaxPotentialBlockSize OccupancyAvailableDynamicSMemPerBlock
	LinkCreate LinkAddData LinkComplete LinkDestroy GraphInstantiate GraphLaunch GraphGetNodes GraphNodeGetType GraphExecUpdate
	GraphExecKernelNodeSetParams Submit`

// TestPendingPanicCoversAll: each call of cu.Driver is tried with a pending panic, or listed as
// one that does not wait.
func TestPendingPanicCoversAll(t *testing.T) {
	known := map[string]bool{}
	for _, name := range strings.Fields(neverWait) {
		known[name] = true
	}
	for _, c := range pendingCases {
		name, _, _ := strings.Cut(c.name, " ")
		known[name] = true
	}
	calls := reflect.TypeFor[cu.Driver]()
	for i := range calls.NumMethod() {
		if name := calls.Method(i).Name; !known[name] {
			t.Errorf("%s is missing: add a case if it can wait for work, else list it in neverWait", name)
		}
		delete(known, calls.Method(i).Name)
	}
	for name := range known {
		t.Errorf("%s is no call of cu.Driver", name)
	}
}

// TestPendingPanic: while no call has returned the panic of a host function, calls that wait for
// the work of other streams, or for all work, do their own work and return nil. The panic reaches
// the next wait for its stream, once.
func TestPendingPanic(t *testing.T) {
	for _, c := range pendingCases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FERRY_LAUNCH_BLOCKING", "1") // so that launches wait
			for _, schedule := range []Schedule{Eager, Lazy, Random} {
				r := newRig(t, Options{Schedule: schedule, Seed: 7, Devices: 2})
				s := r.stream(0)
				call := c.prepare(r)
				r.panics(s, schedule)
				if err := call(); err != nil {
					t.Errorf("%v: the call returns %v, want nil", schedule, err)
				}
				if err := call(); !errors.Is(err, c.again) && (err != nil || c.again != 0) {
					t.Errorf("%v: the second call returns %v, want %s", schedule, err, c.again.Name())
				}
				r.wantPanic("the wait for the stream", r.StreamSynchronize(r.ctx, s))
				r.sync(s)
				r.ok(r.CtxSynchronize(r.ctx))
			}
		})
	}
}

// panics lets a host function of a stream panic. Under the schedule eager it has panicked when
// panics returns. Under the others it may do so when a call waits for it.
func (r *rig) panics(s cu.Stream, schedule Schedule) {
	r.t.Helper()
	panicked := make(chan struct{})
	r.ok(r.LaunchHostFunc(r.ctx, s, func() { defer close(panicked); panic("planted") }))
	if schedule == Eager {
		<-panicked
	}
}

// wantPanic checks that a call returned the panic of r.panics.
func (r *rig) wantPanic(what string, err error) {
	r.t.Helper()
	if p, ok := errors.AsType[*cu.HostPanic](err); !ok || p.Value != "planted" {
		r.t.Errorf("%s returns %v, want the panic", what, err)
	}
}

// TestPanicReachesOwnWait: the calls that wait for one stream, or say that they wait for all of
// the context, return a panic, and once.
func TestPanicReachesOwnWait(t *testing.T) {
	waits := map[string]func(r *rig, ctx cu.Context, s cu.Stream) error{
		"StreamSynchronize": func(r *rig, ctx cu.Context, s cu.Stream) error { return r.StreamSynchronize(ctx, s) },
		"StreamQuery": func(r *rig, ctx cu.Context, s cu.Stream) error {
			return untilReady(func() error { return r.StreamQuery(ctx, s) })
		},
		"CtxSynchronize": func(r *rig, ctx cu.Context, s cu.Stream) error { return r.CtxSynchronize(ctx) },
		"CtxDestroy":     func(r *rig, ctx cu.Context, s cu.Stream) error { return r.CtxDestroy(ctx) },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, r *rig) {
				in := &rig{r.Driver, t, r.another()}
				s := in.stream(cu.StreamNonBlocking)
				in.panics(s, Lazy)
				in.wantPanic(name, wait(in, in.ctx, s))
				if name != "CtxDestroy" {
					in.ok(in.CtxSynchronize(in.ctx))
					in.ok(in.CtxDestroy(in.ctx))
				}
				r.ok(r.CtxSynchronize(r.ctx))
			})
		})
	}
}
