package grid

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// orderKinds are many small operations in some order. A step ends with a wait for all. The
// size is the number of operations of the kind's name.
var orderKinds = []kind{
	{"host functions between kernels", "functions", []int{1, 4, 10, 32}, hostFunctions},
	{"host functions in a row", "functions", []int{1, 10, 32}, hostFunctionsInARow},
	{"host functions between copies of 4 KiB", "functions", []int{4, 16}, hostFunctionsBetweenCopies},
	{"kernels in a chain over 2 streams", "kernels", []int{4, 20, 64}, func(r *rig, n int) (trial, error) { return chain(r, n, 2) }},
	{"kernels in a chain over 4 streams", "kernels", []int{20, 64}, func(r *rig, n int) (trial, error) { return chain(r, n, 4) }},
	{"copies of 4 KiB in and kernels in turns", "turns", []int{10, 50}, func(r *rig, n int) (trial, error) { return turns(r, n, 4*kib, false) }},
	{"copies of 4 KiB in, kernels and copies out in turns", "turns", []int{1, 10, 50}, func(r *rig, n int) (trial, error) { return turns(r, n, 4*kib, true) }},
	{"copies of 64 KiB in, kernels and copies out in turns", "turns", []int{10, 50}, func(r *rig, n int) (trial, error) { return turns(r, n, 64*kib, true) }},
	{"copies of 4 KiB in one stream", "copies", []int{16, 64}, func(r *rig, n int) (trial, error) { return manyCopies(r, n, 1, false) }},
	{"copies of 4 KiB over 4 streams", "copies", []int{16, 64}, func(r *rig, n int) (trial, error) { return manyCopies(r, n, 4, false) }},
	{"copies of 4 KiB in and out in turns", "copies", []int{16, 64}, func(r *rig, n int) (trial, error) { return manyCopies(r, n, 1, true) }},
	{"4 bytes in and a wait, each", "copies", []int{1, 8}, func(r *rig, n int) (trial, error) { return fourBytes(r, n, true) }},
	{"4 bytes out and a wait, each", "copies", []int{1, 8}, func(r *rig, n int) (trial, error) { return fourBytes(r, n, false) }},
}

// empty is a kernel that does nothing.
func empty() job { return job{"nothing", 1, 32, pack(uint32(0))} }

// then submits operations and waits for the rig's stream.
func (r *rig) then(submit func() error) trial {
	return trial{step: func() error {
		if err := submit(); err != nil {
			return err
		}
		return r.sync()
	}}
}

// repeat runs n times what is given, in turns.
func repeat(n int, all ...func() error) error {
	for range n {
		for _, f := range all {
			if err := f(); err != nil {
				return err
			}
		}
	}
	return nil
}

// The next methods return functions that submit one operation to the rig's stream.

func (r *rig) kernelOf(j job) func() error { return func() error { return r.submit(j, r.stream) } }

func (r *rig) hostFunction() func() error {
	return func() error { return r.d.LaunchHostFunc(r.ctx, r.stream, func() {}) }
}

func (r *rig) copyIn(to cu.DevicePtr, from cu.HostPtr, n int) func() error {
	return func() error { return r.d.MemcpyHtoDAsync(r.ctx, to, from, uintptr(n), r.stream) }
}

func (r *rig) copyOut(to cu.HostPtr, from cu.DevicePtr, n int) func() error {
	return func() error { return r.d.MemcpyDtoHAsync(r.ctx, to, from, uintptr(n), r.stream) }
}

// pair allocates n bytes of page-locked and of device memory.
func (r *rig) pair(n int) (cu.HostPtr, cu.DevicePtr, error) {
	host, err := r.pinned(n, 0)
	if err != nil {
		return nil, 0, err
	}
	dev, err := r.device(n)
	return host, dev, err
}

func hostFunctions(r *rig, n int) (trial, error) {
	return r.then(func() error { return repeat(n, r.kernelOf(empty()), r.hostFunction()) }), nil
}

func hostFunctionsInARow(r *rig, n int) (trial, error) {
	return r.then(func() error { return repeat(n, r.hostFunction()) }), nil
}

func hostFunctionsBetweenCopies(r *rig, n int) (trial, error) {
	host, dev, err := r.pair(4 * kib)
	return r.then(func() error { return repeat(n, r.copyIn(dev, host, 4*kib), r.hostFunction()) }), err
}

// streams returns n streams. The first is the rig's.
func (r *rig) streams(n int) (all []cu.Stream, err error) {
	all = []cu.Stream{r.stream}
	for len(all) < n {
		s, err := r.d.StreamCreate(r.ctx, cu.StreamNonBlocking)
		if err != nil {
			return nil, err
		}
		r.onRelease(func() error { return r.d.StreamDestroy(r.ctx, s) })
		all = append(all, s)
	}
	return all, nil
}

// orders returns n events without times.
func (r *rig) orders(n int) (all []cu.Event, err error) {
	for range n {
		e, err := r.d.EventCreate(r.ctx, cu.EventDisableTiming)
		if err != nil {
			return nil, err
		}
		r.onRelease(func() error { return r.d.EventDestroy(r.ctx, e) })
		all = append(all, e)
	}
	return all, nil
}

// after lets later work of a stream wait for the work of another.
func (r *rig) after(later, first cu.Stream, e cu.Event) error {
	if err := r.d.EventRecord(r.ctx, e, first); err != nil {
		return err
	}
	return r.d.StreamWaitEvent(r.ctx, later, e, 0)
}

// chain launches n empty kernels, each in the next stream after the kernel before.
func chain(r *rig, n, over int) (trial, error) {
	streams, err := r.streams(over)
	if err != nil {
		return trial{}, err
	}
	events, err := r.orders(n)
	return trial{step: func() error {
		for i := range n {
			if i > 0 {
				if err := r.after(streams[i%over], streams[(i-1)%over], events[i]); err != nil {
					return err
				}
			}
			if err := r.submit(empty(), streams[i%over]); err != nil {
				return err
			}
		}
		return r.d.StreamSynchronize(r.ctx, streams[(n-1)%over])
	}}, err
}

// turns copies in, launches a kernel on the data and, if out is set, copies out.
func turns(r *rig, n, bytes int, out bool) (trial, error) {
	host, dev, err := r.pair(bytes)
	all := []func() error{r.copyIn(dev, host, bytes), r.kernelOf(job{"change", blocksFor(bytes / 4), threads, pack(dev, uint64(bytes/4))})}
	if out {
		all = append(all, r.copyOut(host, dev, bytes))
	}
	return r.then(func() error { return repeat(n, all...) }), err
}

// manyCopies copies 4 KiB n times, in or in both directions, over some streams.
func manyCopies(r *rig, n, over int, both bool) (trial, error) {
	host, dev, err := r.pair(n * 4 * kib)
	if err != nil {
		return trial{}, err
	}
	streams, err := r.streams(over)
	return trial{step: func() error {
		for i := range n {
			at, h := dev+cu.DevicePtr(i*4*kib), pointer(bytesOf(host, n*4*kib)[i*4*kib:])
			s, err := streams[i%over], error(nil)
			if both && i%2 == 1 {
				err = r.d.MemcpyDtoHAsync(r.ctx, h, at, 4*kib, s)
			} else {
				err = r.d.MemcpyHtoDAsync(r.ctx, at, h, 4*kib, s)
			}
			if err != nil {
				return err
			}
		}
		return r.syncAll(streams)
	}}, err
}

func (r *rig) syncAll(streams []cu.Stream) error {
	for _, s := range streams {
		if err := r.d.StreamSynchronize(r.ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// fourBytes copies 4 bytes n times and waits after each copy.
func fourBytes(r *rig, n int, in bool) (trial, error) {
	host, dev, err := r.pair(4)
	one := r.copyOut(host, dev, 4)
	if in {
		one = r.copyIn(dev, host, 4)
	}
	return trial{step: func() error { return repeat(n, one, r.sync) }}, err
}

// graphKinds are launches of a graph and the wait for its end. The graph is captured. The
// size is the number of operations of the kind's name.
var graphKinds = slices.Concat(
	[]kind{
		{"graph of copies, kernels and copies out", "turns", []int{1, 8, 32}, graphOfTurns},
		{"graph of two branches of kernels", "kernels each", []int{4, 16}, func(r *rig, n int) (trial, error) { return graphOfBranches(r, n, false) }},
		{"graph of a branch of kernels and one of copies", "operations each", []int{4, 16}, func(r *rig, n int) (trial, error) { return graphOfBranches(r, n, true) }},
		{"graph of host functions and kernels", "functions", []int{1, 8}, func(r *rig, n int) (trial, error) {
			return r.graph(func() error { return repeat(n, r.kernelOf(empty()), r.hostFunction()) })
		}},
		{"graph of fills and kernels", "turns", []int{1, 8}, graphOfFills},
	},
)

// graph captures what submit submits to the rig's stream. The step launches it.
func (r *rig) graph(submit func() error) (trial, error) {
	if err := r.d.StreamBeginCapture(r.ctx, r.stream, cu.StreamCaptureModeRelaxed); err != nil {
		return trial{}, err
	}
	if err := submit(); err != nil {
		return trial{}, err
	}
	graph, err := r.d.StreamEndCapture(r.ctx, r.stream)
	if err != nil {
		return trial{}, err
	}
	r.onRelease(func() error { return r.d.GraphDestroy(graph) })
	x, err := r.d.GraphInstantiate(r.ctx, graph, 0)
	if err != nil {
		return trial{}, err
	}
	r.onRelease(func() error { return r.d.GraphExecDestroy(x) })
	return r.then(func() error { return r.d.GraphLaunch(r.ctx, x, r.stream) }), nil
}

func graphOfTurns(r *rig, n int) (trial, error) {
	const bytes = 64 * kib
	host, dev, err := r.pair(bytes)
	if err != nil {
		return trial{}, err
	}
	change := r.kernelOf(job{"change", blocksFor(bytes / 4), threads, pack(dev, uint64(bytes/4))})
	return r.graph(func() error { return repeat(n, r.copyIn(dev, host, bytes), change, r.copyOut(host, dev, bytes)) })
}

// graphOfBranches has a branch of n kernels, and another one of n kernels or copies in.
func graphOfBranches(r *rig, n int, copies bool) (trial, error) {
	const bytes = 64 * kib
	host, dev, err := r.pair(bytes)
	if err != nil {
		return trial{}, err
	}
	streams, err := r.streams(2)
	if err != nil {
		return trial{}, err
	}
	events, err := r.orders(2)
	if err != nil {
		return trial{}, err
	}
	other := func() error { return r.submit(empty(), streams[1]) }
	if copies {
		other = func() error { return r.d.MemcpyHtoDAsync(r.ctx, dev, host, bytes, streams[1]) }
	}
	return r.graph(func() error {
		if err := r.after(streams[1], streams[0], events[0]); err != nil {
			return err
		}
		if err := repeat(n, r.kernelOf(empty()), other); err != nil {
			return err
		}
		return r.after(streams[0], streams[1], events[1])
	})
}

func graphOfFills(r *rig, n int) (trial, error) {
	const bytes = 64 * kib
	dev, err := r.device(bytes)
	if err != nil {
		return trial{}, err
	}
	change := r.kernelOf(job{"change", blocksFor(bytes / 4), threads, pack(dev, uint64(bytes/4))})
	return r.graph(func() error {
		return repeat(n, func() error { return r.d.MemsetD8Async(r.ctx, dev, 3, bytes, r.stream) }, change)
	})
}
