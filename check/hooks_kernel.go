package check

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/vclock"
)

// stalePointer is an argument of a kernel that points into memory that was freed.
type stalePointer struct {
	op *operation
	m  *memory
	at uint64
}

// mostStale bounds the stale pointers that are remembered.
const mostStale = 64

// kernel says that the call queues a kernel. Words of its parameters that are addresses of
// memory are uses of all of it.
func (c *call) kernel(ctx cu.Context, stream cu.Stream, params []byte) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	c.lane = d.orders.lane(ctx, stream)
	d.launches++
	if d.perCall {
		c.after = waitsForItself
	}
	for off := 0; off+8 <= len(params); off += 8 {
		at := binary.LittleEndian.Uint64(params[off:])
		if at < 4096 {
			continue
		}
		m, x := d.memories.find(at)
		if m == nil {
			c.stale(at)
			continue
		}
		a := c.uses(m)
		if a == nil {
			c.usedGone(m, x, uses)
			c.accesses = append(c.accesses, access{m: m, x: flat(m.base, m.end-m.base), mode: uses})
			c.signals = c.signals || m.kind.onHost() || m.kind == managed
			a = &c.accesses[len(c.accesses)-1]
		}
		a.args = append(a.args, x)
	}
}

// uses returns the kernel's use of the memory, nil if it has no address of it.
func (c *call) uses(m *memory) *access {
	for i := range c.accesses {
		if c.accesses[i].m == m {
			return &c.accesses[i]
		}
	}
	return nil
}

// stale remembers a pointer into memory that was freed, in case that a kernel faults.
func (c *call) stale(at uint64) {
	m := c.d.memories.gone(at)
	if m == nil || m.kind.onHost() {
		return
	}
	if len(c.d.stale) >= mostStale {
		c.d.stale = c.d.stale[1:]
		c.d.gaveUp(gaveUpStale, 1)
	}
	c.d.stale = append(c.d.stale, stalePointer{&operation{call: c.name, site: c.site, lane: c.lane}, m, at})
}

// faulted reports the stale pointers of kernels when one has used an address that is not
// valid. The caller holds mu.
func (d *Driver) faulted() {
	for _, s := range d.stale {
		d.usedAfterFree(&access{op: s.op, m: s.m, x: flat(s.at, 0), mode: uses})
	}
	d.stale = nil
}

func (c *call) beforeLaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, stream cu.Stream, params []byte) {
	c.kernel(ctx, stream, params)
}

func (c *call) beforeLaunchKernelEx(ctx cu.Context, config *cu.LaunchConfig, f cu.Function, params []byte) {
	if config != nil {
		c.kernel(ctx, config.Stream, params)
	}
}

// LaunchHostFunc checks cuLaunchHostFunc; see [cu.Streams]. When fn runs, the operations before
// it in its stream are done, and the host knows that.
func (d *Driver) LaunchHostFunc(ctx cu.Context, stream cu.Stream, fn func()) error {
	c := d.begin("cuLaunchHostFunc", ctx, stream, 0)
	defer c.panicked()
	if fn == nil {
		return c.end(d.inner.LaunchHostFunc(ctx, stream, fn))
	}
	d.mu.Lock()
	c.lane = d.orders.lane(ctx, stream)
	var reached vclock.Clock
	captured := c.lane.capture != nil
	if captured {
		c.signals = true // fn can tell the host what a launch has done
	} else {
		reached = d.orders.reach(c.lane)
		d.inHost.queued.Add(1)
	}
	d.mu.Unlock()
	err := d.inner.LaunchHostFunc(ctx, stream, func() {
		if !captured {
			defer d.inHost.queued.Add(-1)
		}
		d.mu.Lock()
		d.learns(&c, reached)
		d.mu.Unlock()
		d.inHost.run(fn)
	})
	if err != nil && !captured {
		d.inHost.queued.Add(-1)
	}
	return c.end(err)
}

// writesValue says that the call queues a write of a word. Kernels and the host may wait for
// the value, so the write does not conflict with other uses of the word, apart from its free.
func (c *call) writesValue(ctx cu.Context, stream cu.Stream, dst cu.DevicePtr, bytes uint64) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane, c.signals = c.d.orders.lane(ctx, stream), true
	m := c.use(flat(uint64(dst), bytes), uses, false)
	c.shows = m != nil && (m.kind.onHost() || m.kind == managed)
}

// waitsForValue says that the call queues a wait for a word. The host and other work may write the
// word, so the wait does not conflict with other uses of it, apart from its free.
func (c *call) waitsForValue(ctx cu.Context, stream cu.Stream, addr cu.DevicePtr, bytes uint64) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.lane, c.forValue = c.d.orders.lane(ctx, stream), true
	c.use(flat(uint64(addr), bytes), uses, false)
}

func (c *call) beforeStreamWaitValue32(ctx cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint32, flags cu.StreamWaitValueFlags) {
	c.waitsForValue(ctx, stream, addr, 4)
}

func (c *call) beforeStreamWaitValue64(ctx cu.Context, stream cu.Stream, addr cu.DevicePtr, value uint64, flags cu.StreamWaitValueFlags) {
	c.waitsForValue(ctx, stream, addr, 8)
}

func (c *call) beforeStreamWriteValue32(ctx cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint32, flags cu.StreamWriteValueFlags) {
	c.writesValue(ctx, stream, dst, 4)
}

func (c *call) beforeStreamWriteValue64(ctx cu.Context, stream cu.Stream, dst cu.DevicePtr, value uint64, flags cu.StreamWriteValueFlags) {
	c.writesValue(ctx, stream, dst, 8)
}
