package softgpu

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// caller makes random calls, with valid, stale and invalid handles.
type caller struct {
	d      *Driver
	rng    *rand.Rand
	ctxs   []cu.Context
	ptrs   []cu.DevicePtr
	hosts  []cu.HostPtr
	strs   []cu.Stream
	evs    []cu.Event
	mods   []cu.Module
	funcs  []cu.Function
	graphs []cu.Graph
	execs  []cu.GraphExec
	nodes  []cu.GraphNode
	plain  []byte
	cap    []cu.Stream // those that capture
	pools  []cu.MemPool
}

func pick[T any](c *caller, from []T, nonsense ...T) T {
	all := len(from) + len(nonsense)
	if all == 0 {
		var zero T
		return zero
	}
	if i := c.rng.IntN(all); i < len(from) {
		return from[i]
	} else {
		return nonsense[i-len(from)]
	}
}

func keep[T any](list *[]T, x T, err error) {
	if err == nil {
		*list = append(*list, x)
	}
}

func (c *caller) ctx() cu.Context { return pick(c, c.ctxs, 0) }
func (c *caller) ptr() cu.DevicePtr {
	return pick(c, c.ptrs, 0, 1<<48+12345) + cu.DevicePtr(c.rng.IntN(3))
}
func (c *caller) host() cu.HostPtr  { return pick(c, c.hosts, nil, ptr(c.plain)) }
func (c *caller) stream() cu.Stream { return pick(c, c.strs, 0, 1, 2, 0x999) }
func (c *caller) event() cu.Event   { return pick(c, c.evs, 0, 5) }
func (c *caller) n() uintptr        { return uintptr(c.rng.IntN(5000)) }
func (c *caller) dim() cu.Dim3 {
	return cu.Dim3{X: uint32(c.rng.IntN(70)), Y: uint32(1 + c.rng.IntN(2)), Z: 1}
}

// newest returns the last elements of a list, which are probably alive.
func newest[T any](x []T) []T { return x[max(0, len(x)-6):] }

// prime makes sure that there is something valid of every kind.
func (c *caller) prime() {
	d := c.d
	c.ctxs, c.ptrs, c.hosts, c.strs, c.evs = newest(c.ctxs), newest(c.ptrs), newest(c.hosts), newest(c.strs), newest(c.evs)
	c.mods, c.funcs, c.graphs, c.execs, c.cap = newest(c.mods), newest(c.funcs), newest(c.graphs), newest(c.execs), newest(c.cap)
	c.pools, c.nodes = newest(c.pools), newest(c.nodes)
	dev := cu.Device(c.rng.IntN(2))
	ctx, err := d.DevicePrimaryCtxRetain(dev)
	if err != nil || d.CtxSynchronize(ctx) != nil && c.rng.IntN(2) == 0 {
		d.DevicePrimaryCtxReset(dev)
		d.revive()
		ctx, _ = d.DevicePrimaryCtxRetain(dev)
	}
	if pool, err := d.DeviceGetMemPool(dev); err == nil {
		c.pools = append(c.pools, pool)
	}
	c.ctxs = append(c.ctxs, ctx, ctx, ctx, ctx)
	for range 4 {
		x, err := d.MemAlloc(ctx, 20000)
		keep(&c.ptrs, x, err)
		s, err := d.StreamCreate(ctx, cu.StreamFlags(c.rng.IntN(2)))
		keep(&c.strs, s, err)
		e, err := d.EventCreate(ctx, 0)
		keep(&c.evs, e, err)
		h, err := d.MemHostAlloc(ctx, 20000, 0)
		keep(&c.hosts, h, err)
		keep(&c.ptrs, cu.DevicePtr(uintptr(h)), err)
	}
	m, err := d.ModuleLoadData(ctx, []byte(testPTX))
	keep(&c.mods, m, err)
	for _, name := range []string{"store", "iota"} {
		f, err := d.ModuleGetFunction(ctx, m, name)
		keep(&c.funcs, f, err)
	}
}

// revive clears the fault of a driver that lost its devices.
func (d *Driver) revive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loss = loss{}
}

func (c *caller) pool() cu.MemPool { return pick(c, c.pools, 0, 0x77) }

func (c *caller) step() {
	d := c.d
	switch c.rng.IntN(64) {
	case 0:
		x, err := d.CtxCreate(cu.CtxFlags(c.rng.IntN(64)), cu.Device(c.rng.IntN(3)))
		keep(&c.ctxs, x, err)
	case 1:
		if c.rng.IntN(4) == 0 {
			d.CtxDestroy(c.ctx())
		}
	case 2:
		x, err := d.DevicePrimaryCtxRetain(cu.Device(c.rng.IntN(3)))
		keep(&c.ctxs, x, err)
	case 3:
		d.DevicePrimaryCtxRelease(cu.Device(c.rng.IntN(3)))
	case 4, 5:
		x, err := d.MemAlloc(c.ctx(), c.n())
		keep(&c.ptrs, x, err)
	case 6:
		d.MemFree(c.ctx(), c.ptr())
	case 7, 8:
		x, err := d.MemHostAlloc(c.ctx(), c.n(), cu.MemHostAllocFlags(c.rng.IntN(9)))
		keep(&c.hosts, x, err)
		keep(&c.ptrs, cu.DevicePtr(uintptr(x)), err)
	case 9:
		d.MemHostGetDevicePointer(c.ctx(), c.host(), uint32(c.rng.IntN(2)))
	case 10:
		x, err := d.MemAllocManaged(c.ctx(), c.n(), cu.MemAttachFlags(c.rng.IntN(5)))
		keep(&c.ptrs, x, err)
	case 11, 12:
		x, err := d.StreamCreateWithPriority(c.ctx(), cu.StreamFlags(c.rng.IntN(3)), int32(c.rng.IntN(9)-6))
		keep(&c.strs, x, err)
	case 13:
		d.StreamDestroy(c.ctx(), c.stream())
	case 14:
		d.StreamQuery(c.ctx(), c.stream())
	case 15:
		d.StreamSynchronize(c.ctx(), c.stream())
	case 16:
		x, err := d.EventCreate(c.ctx(), cu.EventFlags(c.rng.IntN(8)))
		keep(&c.evs, x, err)
	case 17, 18:
		d.EventRecordWithFlags(c.ctx(), c.event(), c.stream(), cu.EventRecordFlags(c.rng.IntN(2)))
	case 19, 20:
		d.StreamWaitEvent(c.ctx(), c.stream(), c.event(), cu.EventWaitFlags(c.rng.IntN(2)))
	case 21:
		d.EventSynchronize(c.ctx(), c.event())
	case 22:
		d.EventElapsedTime(c.ctx(), c.event(), c.event())
	case 23:
		d.EventDestroy(c.ctx(), c.event())
	case 24:
		x, err := d.ModuleLoadData(c.ctx(), []byte(testPTX))
		keep(&c.mods, x, err)
	case 25:
		x, err := d.ModuleGetFunction(c.ctx(), pick(c, c.mods, 0), pick(c, []string{"store", "iota", "small", "none"}))
		keep(&c.funcs, x, err)
	case 26:
		if c.rng.IntN(4) == 0 {
			d.ModuleUnload(c.ctx(), pick(c, c.mods, 0))
		}
	case 27, 28, 29:
		d.LaunchKernel(c.ctx(), pick(c, c.funcs, 0), c.dim(), c.dim(), uint32(c.rng.IntN(100)), c.stream(), params(c.ptr(), uint32(7))[:8+4*c.rng.IntN(2)])
	case 30, 31:
		d.MemcpyHtoDAsync(c.ctx(), c.ptr(), c.host(), c.n(), c.stream())
	case 32, 33:
		d.MemcpyDtoHAsync(c.ctx(), c.host(), c.ptr(), c.n(), c.stream())
	case 34:
		d.MemcpyAsync(c.ctx(), c.ptr(), c.ptr(), c.n()%64, c.stream())
	case 35:
		d.MemcpyPeer(c.ctx(), c.ptr(), c.ctx(), c.ptr(), c.ctx(), c.n())
	case 36:
		d.MemsetD32Async(c.ctx(), c.ptr(), 1, c.n(), c.stream())
	case 37:
		d.Memcpy2DAsync(c.ctx(), &cu.Memcpy2D{SrcMemoryType: cu.MemoryType(c.rng.IntN(3)), SrcDevice: c.ptr(), SrcHost: c.host(), SrcPitch: c.n() / 8,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: c.ptr(), DstPitch: c.n() / 8, WidthInBytes: c.n() / 32, Height: c.n() / 500}, c.stream())
	case 38:
		d.LaunchHostFunc(c.ctx(), c.stream(), func() { d.MemGetInfo(0) })
	case 39:
		s := c.stream()
		if d.StreamBeginCapture(c.ctx(), s, cu.StreamCaptureMode(c.rng.IntN(3))) == nil {
			c.cap = append(c.cap, s)
		}
		runtime.LockOSThread()
		d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureMode(c.rng.IntN(4)))
		d.StreamQuery(c.ctx(), c.stream())
		runtime.UnlockOSThread()
	case 40, 41:
		x, err := d.StreamEndCapture(c.ctx(), pick(c, c.cap, c.stream()))
		keep(&c.graphs, x, err)
		nodes, _ := d.GraphGetNodes(x)
		c.nodes = append(c.nodes, nodes...)
	case 42:
		x, err := d.GraphInstantiate(c.ctx(), pick(c, c.graphs, 0), 0)
		keep(&c.execs, x, err)
	case 43:
		d.GraphLaunch(c.ctx(), pick(c, c.execs, 0), c.stream())
	case 44:
		d.GraphExecUpdate(c.ctx(), pick(c, c.execs, 0), pick(c, c.graphs, 0))
		d.GraphExecKernelNodeSetParams(c.ctx(), pick(c, c.execs, 0), pick(c, c.nodes, 0), pick(c, c.funcs, 0), c.dim(), c.dim(), 0, params(c.ptr()))
	case 45:
		x, err := d.MemAllocAsync(c.ctx(), c.n(), c.stream())
		keep(&c.ptrs, x, err)
	case 46:
		d.MemFreeAsync(c.ctx(), c.ptr(), c.stream())
	case 48:
		d.MemcpyHtoD(c.ctx(), c.ptr(), c.host(), c.n())
	case 49:
		d.MemcpyDtoH(c.ctx(), c.host(), c.ptr(), c.n())
	case 50:
		d.MemcpyDtoDAsync(c.ctx(), c.ptr(), c.ptr(), c.n(), c.stream())
		d.CtxEnablePeerAccess(c.ctx(), c.ctx(), 0)
		d.EventQuery(c.ctx(), c.event())
	case 51:
		p := make([]byte, 1+c.n())
		d.MemHostRegister(c.ctx(), ptr(p), uintptr(len(p)), cu.MemHostRegisterFlags(c.rng.IntN(16)))
		d.MemcpyHtoDAsync(c.ctx(), c.ptr(), ptr(p), c.n()%uintptr(len(p)), c.stream())
		d.MemHostUnregister(c.ctx(), ptr(p))
	case 47:
		d.MemPrefetchAsync(c.ctx(), c.ptr(), c.n(), cu.Device(c.rng.IntN(4)-2), c.stream())
		d.MemAdvise(c.ctx(), c.ptr(), c.n(), cu.MemAdvice(c.rng.IntN(8)), cu.Device(c.rng.IntN(4)-2))
		d.PointerGetAttributes(c.ctx(), c.ptr())
		d.GraphDestroy(pick(c, c.graphs, 0))
		d.GraphExecDestroy(pick(c, c.execs, 0))
		d.CtxSynchronize(c.ctx())
	case 52:
		x, err := d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice,
			LocationID: int32(c.rng.IntN(4) - 1), MaxSize: c.n() * 100})
		keep(&c.pools, x, err)
	case 53:
		d.MemPoolDestroy(c.pool())
		d.MemPoolTrimTo(c.pool(), c.n()*10000)
	case 54:
		d.MemPoolSetAttribute(c.pool(), cu.MemPoolAttribute(c.rng.IntN(10)), c.rng.Uint64()>>c.rng.IntN(64))
		d.MemPoolGetAttribute(c.pool(), cu.MemPoolAttribute(c.rng.IntN(10)))
		d.DeviceSetMemPool(cu.Device(c.rng.IntN(3)), c.pool())
	case 55, 56:
		x, err := d.MemAllocFromPoolAsync(c.ctx(), c.n(), c.pool(), c.stream())
		keep(&c.ptrs, x, err)
	case 57: // a whole graph that allocates, fills and maybe frees, launched and updated
		c.recordedPool()
	case 58:
		d.GraphNodeGetType(pick(c, c.nodes, 0))
		d.GraphGetNodes(pick(c, c.graphs, 0))
		d.MemHostGetFlags(c.ctx(), c.host())
		d.FuncSetAttribute(c.ctx(), pick(c, c.funcs, 0), cu.FunctionAttribute(c.rng.IntN(12)), int32(c.n()))
		d.FuncGetAttribute(c.ctx(), cu.FunctionAttribute(c.rng.IntN(12)), pick(c, c.funcs, 0))
	case 59:
		d.StreamAttachMemAsync(c.ctx(), c.stream(), c.ptr(), 0, cu.MemAttachFlags(c.rng.IntN(6)))
		d.HostAccess(c.host(), c.n(), c.rng.IntN(2) == 0)
		d.MemRangeGetAttribute(c.ctx(), make([]int32, c.rng.IntN(3)), cu.MemRangeAttribute(c.rng.IntN(6)), c.ptr(), c.n())
	case 60:
		d.MemcpyPeerAsync(c.ctx(), c.ptr(), c.ctx(), c.ptr(), c.ctx(), c.n(), c.stream())
		d.MemsetD16(c.ctx(), c.ptr(), 3, c.n())
		d.StreamWriteValue32(c.ctx(), c.stream(), c.ptr()&^3, 5, cu.StreamWriteValueFlags(c.rng.IntN(6)/4))
		d.StreamWriteValue64(c.ctx(), c.stream(), c.ptr()&^3, 6, 0)
		d.StreamWaitValue64(c.ctx(), c.stream(), c.ptr()&^3, 0, cu.StreamWaitValueFlags(c.rng.Uint32()|4))
	case 61:
		d.CtxSetLimit(c.ctx(), cu.Limit(c.rng.IntN(4)), c.n())
		d.CtxGetLimit(c.ctx(), cu.Limit(c.rng.IntN(4)))
		d.DevicePrimaryCtxSetFlags(cu.Device(c.rng.IntN(3)), cu.CtxFlags(c.rng.IntN(64)))
	case 62:
		d.Memcpy3DAsync(c.ctx(), &cu.Memcpy3D{SrcMemoryType: cu.MemoryType(c.rng.IntN(5)), SrcDevice: c.ptr(), SrcHost: c.host(), SrcPitch: c.n() / 8, SrcHeight: c.n() / 900,
			DstMemoryType: cu.MemoryTypeDevice, DstDevice: c.ptr(), DstPitch: c.n() / 8, WidthInBytes: c.n() / 64, Height: c.n() / 900, Depth: c.n() / 1000}, c.stream())
	case 63:
		d.MemcpyHtoDAsync(c.ctx(), c.ptr(), ptr(c.plain), c.n(), c.stream())
		d.MemcpyDtoHAsync(c.ctx(), ptr(c.plain), c.ptr(), c.n(), c.stream())
		d.EventSynchronize(c.ctx(), c.event())
	}
}

// recordedPool captures allocations and frees, and launches the graph.
func (c *caller) recordedPool() {
	d, ctx, s := c.d, c.ctx(), c.stream()
	if d.StreamBeginCapture(ctx, s, cu.StreamCaptureModeRelaxed) != nil {
		return
	}
	p, err := d.MemAllocFromPoolAsync(ctx, 1+c.n(), c.pool(), s)
	if err != nil {
		p, err = d.MemAllocAsync(ctx, 1+c.n(), s)
	}
	keep(&c.ptrs, p, err)
	d.MemsetD8Async(ctx, p, 1, 1, s)
	d.LaunchHostFunc(ctx, s, func() {})
	if c.rng.IntN(3) > 0 {
		d.MemFreeAsync(ctx, p, s)
	}
	g, err := d.StreamEndCapture(ctx, s)
	keep(&c.graphs, g, err)
	for range c.rng.IntN(3) {
		x, err := d.GraphInstantiate(ctx, g, 0)
		keep(&c.execs, x, err)
		d.GraphLaunch(ctx, x, s)
		d.GraphExecUpdate(ctx, x, pick(c, c.graphs, 0))
	}
	if c.rng.IntN(2) == 0 {
		d.GraphDestroy(g)
	}
}

// Invalid calls must not panic or hang, and everything is freed in the end.
func TestRandomCalls(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		for _, prof := range []string{"h200", "fermi-c2050"} {
			for seed := range uint64(6) {
				t.Run(fmt.Sprintf("%v/%s/%d", s, prof, seed), func(t *testing.T) {
					randomCalls(t, Options{Profile: named(t, prof), Devices: 2, Schedule: s, Seed: seed}, 1, 1500)
				})
			}
		}
	}
}

func TestConcurrentRandomCalls(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		t.Run(s.String(), func(t *testing.T) {
			randomCalls(t, Options{Devices: 2, Schedule: s}, 4, 600)
		})
	}
}

func randomCalls(t *testing.T, opts Options, callers, steps int) {
	if raceBuild {
		t.Skip("the calls have data races, which the race detector reports")
	}
	d, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	d.reserveHost = reserveForGood
	d.Init(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				c := &caller{d: d, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i))), plain: make([]byte, 8192)}
				for i := range steps {
					if i%50 == 0 {
						c.prime()
					}
					c.step()
				}
			})
		}
		wg.Wait()
		for _, c := range d.contextsNow() {
			if d.CtxDestroy(c) != nil {
				for dev := range opts.Devices {
					d.DevicePrimaryCtxReset(cu.Device(dev))
				}
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the calls hang")
	}
	if left := slices.Collect(d.space.all()); len(left) > 0 {
		t.Errorf("%d ranges are left in the address table: %s", len(left), left[0].String())
	}
	for _, dev := range d.devices {
		if dev.memory.smallBytes != 0 || dev.memory.largeBytes != 0 {
			t.Errorf("device %d: %d and %d bytes are charged without an allocation", dev.ordinal, dev.memory.smallBytes, dev.memory.largeBytes)
		}
	}
	if len(d.unreleased) > 0 || len(d.sim.running) > 0 && d.sim.running[0].ctx.open > 0 || len(d.deferredUnmaps) > 0 {
		t.Errorf("left: %d unreleased ops, %d running ops, %d deferred unmaps", len(d.unreleased), len(d.sim.running), len(d.deferredUnmaps))
	}
}

func (d *Driver) contextsNow() (out []cu.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.contexts() {
		out = append(out, c.handle)
	}
	return out
}
