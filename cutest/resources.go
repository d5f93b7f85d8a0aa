package cutest

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// folder makes a temporary folder, which is removed at the end.
func (c *trial) folder() string {
	dir, err := os.MkdirTemp("", "cutest")
	c.ok(err, "temporary folder")
	c.cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// page is the page size of the host, in which memory is page-locked.
const page = 4096

// newContext creates a context on the case's device and destroys it at the end.
func (c *trial) newContext(flags cu.CtxFlags) cu.Context { return c.newContextOn(c.dev, flags) }

func (c *trial) newContextOn(dev cu.Device, flags cu.CtxFlags) cu.Context {
	c.step("the creation of a context")
	ctx, err := c.d.CtxCreate(flags, dev)
	c.ok(err, "create a context")
	c.cleanup(func() {
		delete(c.suite.programs, ctx)
		_ = c.d.CtxDestroy(ctx) // the case may have destroyed it already
	})
	return ctx
}

// hostMem is page-locked memory.
type hostMem struct {
	p   cu.HostPtr
	b   []byte       // the same memory as a slice
	dev cu.DevicePtr // the address for kernels; 0 if not mapped
}

// pinned allocates page-locked memory with fresh bytes. With MemHostAllocDeviceMap
// among the flags it has a device address.
func (c *trial) pinned(n int, flags cu.MemHostAllocFlags) hostMem {
	p, err := c.d.MemHostAlloc(c.ctx, uintptr(n), flags)
	c.ok(err, "allocate page-locked memory")
	ctx := c.ctx
	c.cleanup(func() { c.cleanupError("free page-locked memory", c.d.MemFreeHost(ctx, p)) })
	m := hostMem{p: p, b: hostBytes(p, n)}
	if flags&cu.MemHostAllocDeviceMap != 0 {
		m.dev, err = c.d.MemHostGetDevicePointer(ctx, p, 0)
		c.ok(err, "device address of mapped memory")
	}
	c.scramble(m.b)
	return m
}

// mapped allocates page-locked memory that kernels can use. The case skips if the device
// has none.
func (c *trial) mapped(n int) hostMem {
	if c.attr(cu.DeviceAttributeCanMapHostMemory) == 0 {
		c.skip("the device lacks canMapHostMemory")
	}
	return c.pinned(n, cu.MemHostAllocDeviceMap|cu.MemHostAllocPortable)
}

// cleanupError records a clean-up that failed. After a fault nothing can be freed, and a
// destroyed context has freed its memory; such errors are ignored here.
func (c *trial) cleanupError(what string, err error) {
	if err != nil && !isCode(err, cu.ErrorInvalidContext) && !isCode(err, cu.ErrorContextIsDestroyed) && !stickyError(err) {
		c.fail("clean-up: %s: %v", what, err)
	}
}

// pageable allocates page-aligned memory on the Go heap with fresh bytes.
func (c *trial) pageable(n int) []byte {
	raw := make([]byte, n+page)
	skip := int(-uintptr(addressOf(raw)) % page)
	b := raw[skip : skip+n : skip+n]
	c.scramble(b)
	c.cleanup(func() { runtime.KeepAlive(raw) })
	return b
}

// device allocates device memory and fills it with fresh bytes.
func (c *trial) device(n int) cu.DevicePtr { return c.deviceIn(c.ctx, n) }

func (c *trial) deviceIn(ctx cu.Context, n int) cu.DevicePtr {
	p, err := c.d.MemAlloc(ctx, uintptr(n))
	c.ok(err, "allocate device memory")
	c.cleanup(func() { c.cleanupError("free device memory", c.d.MemFree(ctx, p)) })
	c.ok(c.d.MemcpyHtoD(ctx, p, pointerTo(c.random(n)), uintptr(n)), "fill device memory")
	c.step("the fill of device memory; a gate must be held only after it")
	c.ok(c.d.CtxSynchronize(ctx), "fill device memory")
	return p
}

// managed allocates managed memory with fresh bytes. The slice is the same memory.
func (c *trial) managed(n int, flags cu.MemAttachFlags) (cu.DevicePtr, []byte) {
	p, err := c.d.MemAllocManaged(c.ctx, uintptr(n), flags)
	c.ok(err, "allocate managed memory")
	ctx := c.ctx
	c.cleanup(func() { c.cleanupError("free managed memory", c.d.MemFree(ctx, p)) })
	b := hostBytes(hostPointer(p), n)
	c.touch(b)
	c.scramble(b)
	return p, b
}

// touch announces to an emulated driver that the host is about to use managed memory.
func (c *trial) touch(b []byte) {
	if e := cu.AsEmulated(c.d); e != nil {
		c.ok(e.HostAccess(pointerTo(b), uintptr(len(b)), true), "use of managed memory by the host")
	}
}

func (c *trial) stream(flags cu.StreamFlags) cu.Stream { return c.streamIn(c.ctx, flags) }

func (c *trial) streamIn(ctx cu.Context, flags cu.StreamFlags) cu.Stream {
	s, err := c.d.StreamCreate(ctx, flags)
	c.ok(err, "create a stream")
	c.cleanup(func() { c.cleanupError("destroy a stream", c.d.StreamDestroy(ctx, s)) })
	return s
}

func (c *trial) event(flags cu.EventFlags) cu.Event { return c.eventIn(c.ctx, flags) }

func (c *trial) eventIn(ctx cu.Context, flags cu.EventFlags) cu.Event {
	e, err := c.d.EventCreate(ctx, flags)
	c.ok(err, "create an event")
	c.cleanup(func() { c.cleanupError("destroy an event", c.d.EventDestroy(ctx, e)) })
	return e
}

// up copies to the device and waits.
func (c *trial) up(dst cu.DevicePtr, src []byte) {
	c.ok(c.d.MemcpyHtoD(c.ctx, dst, pointerTo(src), uintptr(len(src))), "copy to the device")
	c.ok(c.d.CtxSynchronize(c.ctx), "wait for a copy to the device")
}

// down waits for all work and returns n bytes of device memory.
func (c *trial) down(src cu.DevicePtr, n int) []byte { return c.downIn(c.ctx, src, n) }

func (c *trial) downIn(ctx cu.Context, src cu.DevicePtr, n int) []byte {
	c.step("the end of all work")
	c.ok(c.d.CtxSynchronize(ctx), "wait for the context")
	b := c.random(n)
	c.ok(c.d.MemcpyDtoH(ctx, pointerTo(b), src, uintptr(n)), "copy from the device")
	return b
}

func (c *trial) sync(s cu.Stream) {
	c.step("the end of a stream's work")
	c.ok(c.d.StreamSynchronize(c.ctx, s), "synchronize a stream")
}

func (c *trial) syncAll() {
	c.step("the end of all work")
	c.ok(c.d.CtxSynchronize(c.ctx), "synchronize the context")
}

// gate blocks streams: a kernel in each spins until the gate is opened.
type gate struct {
	c   *trial
	mem hostMem // word 0 is 1 when open, word 1 when a kernel has started
}

func (c *trial) gate() *gate {
	g := &gate{c, c.mapped(8)}
	storeWord(g.mem.b, 0, 0)
	storeWord(g.mem.b, 4, 0)
	c.mu.Lock()
	c.gates = append(c.gates, g)
	c.mu.Unlock()
	c.kernel("gate")
	return g
}

// hold launches a kernel that keeps the stream busy until the gate is opened.
func (g *gate) hold(s cu.Stream) {
	g.c.launch(s, "gate", 1, g.mem.dev, g.mem.dev+4)
}

// running waits until the kernel of hold runs. It queries the stream meanwhile, because
// a driver may start work only when the stream is asked.
func (g *gate) running(s cu.Stream) {
	g.c.until("the start of a kernel", func() bool {
		_ = g.c.d.StreamQuery(g.c.ctx, s)
		return loadWord(g.mem.b, 4) == 1
	})
}

func (g *gate) open() { storeWord(g.mem.b, 0, 1) }

func (c *trial) openGates() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.gates {
		g.open()
	}
	c.gates = nil
}

// mustReturn fails unless f returns while the gate is closed.
func (c *trial) mustReturn(g *gate, what string, f func() error) {
	returned, err := c.returns(g, what, c.suite.times.returnLimit, f)
	c.check(returned, "%s waited for work that it must not wait for", what)
	c.ok(err, what)
}

// mustWait fails if f returns before the gate is opened.
func (c *trial) mustWait(g *gate, what string, f func() error) {
	returned, err := c.returns(g, what, blockedTime, f)
	c.check(!returned, "%s returned (%v) before the work that it must wait for", what, err)
	c.ok(err, what)
}

var errEnded = errors.New("the case failed inside the call")

// returns reports whether f returns within limit while the gate is closed. If it does
// not, returns opens the gate and waits for f.
func (c *trial) returns(g *gate, what string, limit time.Duration, f func() error) (bool, error) {
	c.step(what)
	done := make(chan error, 1)
	go func() {
		err := errEnded // if f does not return, because a failed case ends its goroutine
		defer func() { done <- err }()
		err = f()
	}()
	select {
	case err := <-done:
		return true, err
	case <-time.After(limit):
		g.open()
		return false, <-done
	}
}

// busy fails unless the stream has work that is not done.
func (c *trial) busy(s cu.Stream) {
	c.want(c.d.StreamQuery(c.ctx, s), "query of a busy stream", cu.ErrorNotReady)
}
