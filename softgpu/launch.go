package softgpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/stdout"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// launch is a kernel with its arguments.
type launch struct {
	fn          *function
	grid, block cu.Dim3
	shared      uint32
	params      []byte
	cooperative bool
	cluster     cu.Dim3 // blocks of a cluster; zero for none
	units       float64 // fraction of the multiprocessors that it fills
}

// execution is one run of a launch, and its statistics.
type execution struct {
	view  *view
	pulse simt.Pulse
	stats simt.Stats
	real  time.Duration // real time that it ran on this computer
}

// LaunchKernel queues kernel fh in the stream.
func (d *Driver) LaunchKernel(h cu.Context, fh cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, stream cu.Stream, params []byte) error {
	return d.launchKernel(h, fh, &cu.LaunchConfig{Grid: grid, Block: block, SharedMemBytes: sharedMemBytes, Stream: stream}, params)
}

// launchKernel queues a kernel with the attributes of the launch.
func (d *Driver) launchKernel(h cu.Context, fh cu.Function, config *cu.LaunchConfig, params []byte) error {
	const what = "launch a kernel"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	before := c.printf.mark() // output of this launch stays in the buffer, unless the launch waits
	defer func() { c.printf.flushTo(before) }()
	defer d.mu.Unlock()
	d.spend(d.prof.Calls.Launch.Value)
	f, err := lookup[*function](d, uintptr(fh), what, "function")
	if err != nil {
		return err
	}
	if f.mod.ctx != c {
		return refuse(cu.ErrorInvalidHandle, "launch "+f.name, "the kernel was loaded in another context, of device %d", f.mod.ctx.dev.ordinal)
	}
	s, err := c.ownStream(config.Stream, "launch "+f.name)
	if err != nil {
		return err
	}
	w, err := f.work(config.Grid, config.Block, config.SharedMemBytes, params)
	if err != nil {
		return err
	}
	if err := w.launch.apply(config.Attrs); err != nil {
		return err
	}
	o, err := s.enqueue(w, w.what)
	if err != nil || o == nil {
		return err
	}
	if d.blocking {
		before = math.MaxUint64
		return s.await(o)
	}
	return nil
}

// work checks a launch and makes its work.
func (f *function) work(grid, block cu.Dim3, shared uint32, params []byte) (*work, error) {
	what := "launch " + f.name
	if f.kernel.Unsupported != nil {
		return nil, f.kernel.Unsupported
	}
	dev := f.mod.ctx.dev
	if err := f.checkShape(grid, block, what); err != nil {
		return nil, err
	}
	if int64(shared) > int64(f.maxDynamic) {
		return nil, refuse(cu.ErrorInvalidValue, what, "%d bytes of dynamic shared memory and %d static bytes: at most %d dynamic bytes are allowed; FuncSetAttribute raises that to MAX_SHARED_MEMORY_PER_BLOCK_OPTIN in all, %d",
			shared, f.kernel.SharedBytes, f.maxDynamic, dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin))
	}
	if len(params) != f.kernel.ParamBytes {
		code := cu.ErrorInvalidValue
		if len(params) > f.kernel.ParamBytes {
			code = cu.ErrorLaunchOutOfResources
		}
		return nil, refuse(code, what, "%d bytes of parameters, the kernel has %d in %d parameters",
			len(params), f.kernel.ParamBytes, len(f.kernel.Params))
	}
	if err := f.needHeap(what); err != nil {
		return nil, err
	}
	l := &launch{fn: f, grid: grid, block: block, shared: shared, params: bytes.Clone(params)}
	l.units = l.occupancy(dev)
	return &work{
		kind:   cu.GraphNodeTypeKernel,
		what:   "kernel " + f.name,
		engine: engineCompute,
		dev:    dev,
		run:    l.run,
		price:  l.price,
		launch: l,
	}, nil
}

// checkShape compares grid and block with the device's attributes.
func (f *function) checkShape(grid, block cu.Dim3, what string) error {
	dev := f.mod.ctx.dev
	for _, x := range []struct {
		name string
		n    uint32
		most cu.DeviceAttribute
	}{
		{"block x", block.X, cu.DeviceAttributeMaxBlockDimX},
		{"block y", block.Y, cu.DeviceAttributeMaxBlockDimY},
		{"block z", block.Z, cu.DeviceAttributeMaxBlockDimZ},
		{"grid x", grid.X, cu.DeviceAttributeMaxGridDimX},
		{"grid y", grid.Y, cu.DeviceAttributeMaxGridDimY},
		{"grid z", grid.Z, cu.DeviceAttributeMaxGridDimZ},
	} {
		if most := dev.attr(x.most); x.n == 0 || int64(x.n) > int64(most) {
			return refuse(cu.ErrorInvalidValue, what, "%s is %d, must be 1 to %d (%v)", x.name, x.n, most, x.most)
		}
	}
	threads := block.Count()
	if most := dev.attr(cu.DeviceAttributeMaxThreadsPerBlock); threads > uint64(most) {
		return refuse(cu.ErrorInvalidValue, what, "a block of %d threads, must be at most %d (%v)", threads, most, cu.DeviceAttributeMaxThreadsPerBlock)
	}
	if most := f.maxThreads(); threads > uint64(most) {
		return refuse(cu.ErrorInvalidValue, what, "a block of %d threads, the kernel allows at most %d (.maxntid)", threads, most)
	}
	if r := f.kernel.ReqBlock; r != [3]int{} && r != [3]int{int(block.X), int(block.Y), int(block.Z)} {
		return refuse(cu.ErrorInvalidValue, what, "a block of %dx%dx%d, the kernel requires %dx%dx%d (.reqntid)", block.X, block.Y, block.Z, r[0], r[1], r[2])
	}
	return nil
}

// run executes the launch.
func (l *launch) run(o *op) error {
	d := o.ctx.drv
	v := newView(o)
	v.raceWatch(o)
	defer v.raceEnd()
	d.mu.Lock()
	x := &execution{view: v}
	o.kernel = x
	clock := o.arrive
	if o.stream != nil {
		clock = max(clock, o.stream.clock)
	}
	reserved := d.deviceBytes
	stack := o.ctx.limits[cu.LimitStackSize]
	d.mu.Unlock()
	if l.cooperative {
		v.workspace = newWorkspace()
	}
	began := time.Now()
	ctx, release := d.withKernelLimit(o.ctx.kernelCtx)
	defer release()
	ctx, unwatch := d.withMemory(ctx, reserved)
	defer unwatch()
	stats, err := simt.Run(ctx, &simt.Launch{
		Kernel: l.fn.kernel,
		Grid:   l.grid, Block: l.block,
		SharedBytes:     int(l.shared),
		Params:          l.params,
		Memory:          v,
		Counters:        kernelcost.NumCounters,
		Workers:         raceWorkers,
		Guarded:         true, // the program can unmap what it has registered
		ClockHz:         float64(o.ctx.dev.attr(cu.DeviceAttributeClockRate)) * 1000,
		Latency:         o.ctx.drv.prof.Kernel.Latency.Value,
		Began:           uint64(clock),
		Model:           l.on(o.ctx.dev).Model(),
		Resident:        l.on(o.ctx.dev).Resident(),
		Multiprocessors: o.ctx.dev.attr(cu.DeviceAttributeMultiprocessorCount),
		Cooperative:     l.cooperative,
		Cluster:         l.cluster,
		Workspace:       v.workspaceAddress(),
		Printf:          o.ctx.printf.add,
		Heap:            v.heap,
		Pulse:           &x.pulse,
		StackBytes:      int(stack),
		Shuffle:         d.shuffle(o),
		Check:           d.races,
		Written:         d.values.finder(),
		Between:         d.launches.Between(o.track),
		Mapped:          v.mapped(o),
	})
	l.report(o, v, stats.Findings)
	d.found.gaveUp(gaveUpIntervals, stats.GaveUp.Intervals)
	d.found.gaveUp(gaveUpWords, stats.GaveUp.Words)
	if err == nil {
		o.endLaunch(stats.Touched)
	}
	x.stats, x.real = stats, time.Since(began)
	d.mu.Lock()
	if o.stream != nil {
		o.stream.clock = clock + float64(stats.Nap)
	}
	d.mu.Unlock()
	if f, ok := errors.AsType[*cu.Fault](err); ok {
		if (f.Addr != 0 || f.Bytes != 0) && !simt.Windowed(uint64(f.Addr)) {
			f.Near = v.near(uint64(f.Addr))
		}
		if x, ok := d.space.find(uint64(f.Addr)); ok && f.Op == "" && x.region.kind.onHost() { // the system refused the access
			f.Why = x.region.gone()
		}
		return f
	}
	if stopped, ok := errors.AsType[*simt.Stopped](err); ok {
		return d.stoppedError(l, stopped, &stats, x.real)
	}
	return err
}

// errLimit stops a kernel that ran for too long.
var errLimit = errors.New("time limit of kernels")

// Interrupt stops the kernels that run and the work of the virtual clock, within
// milliseconds, and every later kernel. As after any fault the devices are lost: calls fail with a [cu.Fault]
// that wraps ErrorLaunchTimeout and cause, and says where the kernel was. A nil
// cause stands for [context.Canceled]. Only the first interrupt counts.
//
// Programs and tests use it to stop; it may be called at any time. A GPU has no
// such call: there the process must end. To end only a wait, use the context of
// the wait.
func (d *Driver) Interrupt(cause error) { d.cancelKernels(cause) }

// withKernelLimit adds the time limit of a kernel that starts now to ctx.
func (d *Driver) withKernelLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if d.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d.limit, errLimit)
}

// stoppedError returns the error of a kernel that was stopped: a fault that
// loses the devices. If its context was destroyed, no call can report the
// error, and no device is lost.
func (d *Driver) stoppedError(l *launch, s *simt.Stopped, stats *simt.Stats, ran time.Duration) error {
	if s.Cause == errDestroyed {
		return s
	}
	f := &cu.Fault{Kernel: l.fn.name}
	if s.Where != nil {
		f = s.Where
	}
	f.Result = cu.ErrorLaunchTimeout
	ran = ran.Round(time.Millisecond)
	switch s.Cause {
	case errLimit:
		f.Why = fmt.Sprintf("it was stopped after %v, longer than the limit of %v: correct it, launch less, or raise Options.KernelLimit or %s", ran, d.limit, LimitVariable)
	case errNoMemory:
		f.Result = cu.ErrorOutOfMemory
		f.Why = fmt.Sprintf("it was stopped after %v: device memory that it wrote first left less than %s of this computer's memory free: use less, or free some", ran, size(kernelMargin))
	default:
		f.Cause = s.Cause
		f.Why = fmt.Sprintf("it was interrupted after %v: %v", ran, s.Cause)
	}
	if w := stats.Stale; w != nil {
		f.Why += fmt.Sprintf("; %s in PTX line %d did not see that mapped memory has changed: a weak load in a loop need not, but ld.volatile, ld.relaxed.sys and ld.acquire.sys do", w.Op, w.Line)
	}
	return f
}

// hostFuncs records which goroutines run host functions now, so that a driver
// call from inside a host function is recognised.
type hostFuncs struct {
	count atomic.Int64
	ids   sync.Map // goroutine number -> nil
}

// inside reports whether the calling goroutine runs a host function. It costs
// nothing while none runs.
func (h *hostFuncs) inside() bool {
	if h.count.Load() == 0 {
		return false
	}
	_, in := h.ids.Load(goid())
	return in
}

// call runs fn as a host function and turns a panic into an error.
func (h *hostFuncs) call(fn func()) error {
	id := goid()
	h.add(id)
	defer h.remove(id)
	return protect(fn)
}

// add records that a goroutine runs a host function, until remove.
func (h *hostFuncs) add(id uint64) {
	h.ids.Store(id, nil)
	h.count.Add(1)
}

func (h *hostFuncs) remove(id uint64) {
	h.count.Add(-1)
	h.ids.Delete(id)
}

// protect runs fn and turns a panic into an error.
func protect(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &cu.HostPanic{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// errGoexit returns the error of a host function that ended its goroutine.
func errGoexit(what string) error {
	return &cu.HostPanic{Value: "runtime.Goexit was called in a " + what}
}

func insideHostFunc(what string) error {
	return refuse(cu.ErrorNotPermitted, what, "a host function must not call the driver")
}

// LaunchHostFunc queues fn in the stream. It runs on a goroutine of the
// driver's.
func (d *Driver) LaunchHostFunc(h cu.Context, stream cu.Stream, fn func()) error {
	const what = "queue a host function"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if fn == nil {
		return refuse(cu.ErrorInvalidValue, what, "the function is nil")
	}
	s, err := c.ownStream(stream, what)
	if err != nil {
		return err
	}
	_, err = s.enqueue(&work{
		kind:   cu.GraphNodeTypeHost,
		what:   "host function",
		engine: engineHost,
		run: func(o *op) error {
			o.ctx.printf.flush()
			d.launches.HostSees(o.track)
			defer d.launches.FollowsHost(o.track)
			return o.raceHostFunc(&d.hostFuncs, fn)
		},
		price: func(o *op) cost { return cost{ns: o.ctx.hostFunctionNs(o.start)} },
	}, what)
	return err
}

// hostFunctionNs returns the time of a host function that starts now. The driver's thread
// sleeps until it has one to call. It is still awake for a function that follows another.
func (c *contextState) hostFunctionNs(now float64) float64 {
	queue := &c.drv.prof.Queue
	ns := orElse(queue.HostFunction, queue.Sync)
	const rounding = 0.01 // absorbs the rounding of summed times
	if c.hostEnd == 0 || now > c.hostEnd+queue.Gap.Value+rounding {
		ns += queue.HostWake.Value
	}
	c.hostEnd = now + ns
	return ns
}

// printfBuffer holds the output of a context's kernels that was not written
// yet. As on hardware it is a circular buffer of CU_LIMIT_PRINTF_FIFO_SIZE
// bytes, in which new output replaces the oldest. It is written to the standard
// output when the context is synchronized, and at the start of the next launch.
// Other calls also write it; see the callers of flush. Hardware counts the
// arguments and a header for each call, this buffer counts the text. It is safe
// for concurrent use.
type printfBuffer struct {
	bytes   atomic.Int64 // total length of lines
	writing sync.Mutex   // locked before mu

	mu    sync.Mutex
	limit int
	lines []string
	calls uint64 // number of printf calls so far; the last of lines belongs to the last call
}

func (p *printfBuffer) setLimit(n uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = int(min(n, 1<<30))
	p.drop(p.limit)
}

// add appends the output of one printf call. If it is longer than the limit,
// only its end is kept.
func (p *printfBuffer) add(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = s[max(0, len(s)-p.limit):]
	p.drop(p.limit - len(s))
	p.lines = append(p.lines, s)
	p.calls++
	p.bytes.Add(int64(len(s)))
}

// drop removes the oldest lines until at most n bytes are left. The caller
// holds mu.
func (p *printfBuffer) drop(n int) {
	first := 0
	for p.bytes.Load() > int64(n) {
		p.bytes.Add(-int64(len(p.lines[first])))
		first++
	}
	clear(p.lines[:first])
	p.lines = p.lines[first:]
}

// flush writes the buffer to the standard output. The caller must not hold the
// driver's lock, because the reader of the standard output may be slow.
func (p *printfBuffer) flush() { p.flushTo(math.MaxUint64) }

// mark returns the current end of the output, for flushTo.
func (p *printfBuffer) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// flushTo writes the output up to a mark.
func (p *printfBuffer) flushTo(mark uint64) {
	if p.bytes.Load() == 0 {
		return
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	first := p.calls - uint64(len(p.lines))
	n := min(max(mark, first)-first, uint64(len(p.lines)))
	text := strings.Join(p.lines[:n], "")
	clear(p.lines[:n])
	p.lines = p.lines[n:]
	p.bytes.Add(-int64(len(text)))
	p.mu.Unlock()
	stdout.Write(text)
}
