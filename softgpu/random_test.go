package softgpu

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// caller makes random calls, with handles that are good, stale or nonsense.
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
	cap    []cu.Stream // that capture
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

// tail is the young end of a list: what has a chance to be alive.
func tail[T any](x []T) []T { return x[max(0, len(x)-6):] }

// prime makes sure that there is something good of every kind.
func (c *caller) prime() {
	d := c.d
	c.ctxs, c.ptrs, c.hosts, c.strs, c.evs = tail(c.ctxs), tail(c.ptrs), tail(c.hosts), tail(c.strs), tail(c.evs)
	c.mods, c.funcs, c.graphs, c.execs, c.cap = tail(c.mods), tail(c.funcs), tail(c.graphs), tail(c.execs), tail(c.cap)
	dev := cu.Device(c.rng.IntN(2))
	ctx, err := d.DevicePrimaryCtxRetain(dev)
	if err != nil || d.CtxSynchronize(ctx) != nil && c.rng.IntN(2) == 0 {
		d.DevicePrimaryCtxReset(dev)
		ctx, _ = d.DevicePrimaryCtxRetain(dev)
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

func (c *caller) step() {
	d := c.d
	switch c.rng.IntN(52) {
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
	}
}

// TestRandomCalls makes calls that no program would: none may panic or hang, and
// all that was made is gone in the end.
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

func TestRandomCallsAtOnce(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		t.Run(s.String(), func(t *testing.T) {
			randomCalls(t, Options{Devices: 2, Schedule: s}, 4, 600)
		})
	}
}

func randomCalls(t *testing.T, opts Options, callers, steps int) {
	if raceBuild {
		t.Skip("the calls race for memory, and the race detector says so")
	}
	d, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
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
	if n := len(d.space.load()); n > 0 {
		t.Errorf("%d spans are left in the address table: %s", n, d.space.load()[0].words())
	}
	for _, dev := range d.devices {
		if dev.memory.small != 0 || dev.memory.large != 0 {
			t.Errorf("device %d: %d and %d bytes are charged for nothing", dev.ordinal, dev.memory.small, dev.memory.large)
		}
	}
	if len(d.held) > 0 || len(d.sim.running) > 0 && d.sim.running[0].ctx.open > 0 || len(d.graves) > 0 {
		t.Errorf("left: %d held, %d running, %d graves", len(d.held), len(d.sim.running), len(d.graves))
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
