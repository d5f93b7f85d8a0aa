package softgpu

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// launch is a kernel with its arguments.
type launch struct {
	fn          *function
	grid, block cu.Dim3
	shared      uint32
	params      []byte
	units       float64 // part of the multiprocessors that it fills
}

// execution is one run of a launch and what it did.
type execution struct {
	view  *view
	pulse simt.Pulse
	stats simt.Stats
	real  time.Duration // that it ran on this computer
}

// LaunchKernel runs f at this point of the stream.
func (d *Driver) LaunchKernel(h cu.Context, fh cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, stream cu.Stream, params []byte) error {
	const what = "launch a kernel"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	before := c.printed.mark() // what this launch prints waits, unless it is waited for
	defer func() { c.printed.flushTo(before) }()
	defer d.mu.Unlock()
	d.host += d.prof.Calls.Launch.Value
	f, err := lookup[*function](d, uintptr(fh), what, "function")
	if err != nil {
		return err
	}
	if f.mod.ctx != c {
		return refuse(cu.ErrorInvalidHandle, "launch "+f.name, "the kernel was loaded in another context, of device %d", f.mod.ctx.dev.ordinal)
	}
	s, err := c.ownStream(stream, "launch "+f.name)
	if err != nil {
		return err
	}
	w, err := f.work(grid, block, sharedMemBytes, params)
	if err != nil {
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

// work checks a launch and makes its operation.
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
		return nil, refuse(cu.ErrorInvalidValue, what, "%d bytes of dynamic shared memory beside %d static ones: at most %d are allowed, or up to MAX_SHARED_MEMORY_PER_BLOCK_OPTIN in all, %d, after FuncSetAttribute",
			shared, f.kernel.SharedBytes, f.maxDynamic, dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin))
	}
	if len(params) != f.kernel.ParamBytes {
		code := cu.ErrorInvalidValue
		if len(params) > f.kernel.ParamBytes {
			code = cu.ErrorLaunchOutOfResources
		}
		return nil, refuse(code, what, "%d bytes of parameters were given, the kernel takes %d in %d parameters",
			len(params), f.kernel.ParamBytes, len(f.kernel.Params))
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
		return refuse(cu.ErrorInvalidValue, what, "a block of %d threads is over %d (%v)", threads, most, cu.DeviceAttributeMaxThreadsPerBlock)
	}
	if most := f.maxThreads(); threads > uint64(most) {
		return refuse(cu.ErrorInvalidValue, what, "a block of %d threads is over the kernel's own bound of %d (.maxntid)", threads, most)
	}
	if r := f.kernel.ReqBlock; r != [3]int{} && r != [3]int{int(block.X), int(block.Y), int(block.Z)} {
		return refuse(cu.ErrorInvalidValue, what, "a block of %dx%dx%d, the kernel demands %dx%dx%d (.reqntid)", block.X, block.Y, block.Z, r[0], r[1], r[2])
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
	d.mu.Unlock()
	began := time.Now()
	ctx, release := d.limited(o.ctx.run)
	defer release()
	stats, err := simt.Run(ctx, &simt.Launch{
		Kernel: l.fn.kernel,
		Grid:   l.grid, Block: l.block,
		SharedBytes:     int(l.shared),
		Params:          l.params,
		Memory:          v,
		Counters:        numCounters,
		Workers:         raceWorkers,
		Guarded:         v.ordinary,
		ClockHz:         float64(o.ctx.dev.attr(cu.DeviceAttributeClockRate)) * 1000,
		Latency:         o.ctx.drv.prof.Kernel.Latency.Value,
		Began:           uint64(clock),
		Resident:        l.resident(o.ctx.dev),
		Multiprocessors: o.ctx.dev.attr(cu.DeviceAttributeMultiprocessorCount),
		Printf:          o.ctx.printed.add,
		Pulse:           &x.pulse,
	})
	x.stats, x.real = stats, time.Since(began)
	d.mu.Lock()
	if o.stream != nil {
		o.stream.clock = clock + float64(stats.Nap)
	}
	d.mu.Unlock()
	if f, ok := errors.AsType[*cu.Fault](err); ok {
		if f.Addr != 0 || f.Bytes != 0 {
			f.Near = v.near(uint64(f.Addr))
		}
		return f
	}
	if stopped, ok := errors.AsType[*simt.Stopped](err); ok {
		return d.ended(l, stopped, x.real)
	}
	return err
}
