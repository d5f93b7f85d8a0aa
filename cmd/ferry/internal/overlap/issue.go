package overlap

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// delayPTX is a kernel that runs for a number of clock cycles.
const delayPTX = `
.version 3.2
.target sm_20
.address_size 64

.visible .entry delay(.param .u64 cycles)
{
	.reg .pred %p<2>;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [cycles];
	mov.u64 %d3, %clock64;
spin:
	mov.u64 %d4, %clock64;
	sub.s64 %d4, %d4, %d3;
	setp.lt.u64 %p1, %d4, %d1;
	@%p1 bra spin;
	ret;
}
`

// work is the state of an experiment on a device.
type work struct {
	d       *trace.Driver
	ctx     cu.Context
	o       Options
	kernel  cu.Function
	cycles  uint64
	streams []cu.Stream
	in, out []cu.HostPtr
	on      []cu.DevicePtr
	undo    []func() error
}

// issue makes the experiment. Its operations follow the first skip operations of the
// recording, which warm the device up.
func issue(ctx context.Context, d *trace.Driver, device cu.Device, o Options) (skip int, err error) {
	w := &work{d: d, o: o}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.open(device); err != nil {
		return 0, err
	}
	for i, s := range w.streams { // the first use of memory and code takes longer on hardware
		if err := errors.Join(w.step(copyIn, i, s), w.step(kernel, i, s), w.step(copyOut, i, s)); err != nil {
			return 0, err
		}
		skip += kinds
	}
	if err := d.CtxSynchronize(w.ctx); err != nil {
		return 0, err
	}
	for _, x := range plan(o) {
		if err := w.step(x.kind, x.stream, w.streams[x.stream]); err != nil {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return skip, d.CtxSynchronize(w.ctx)
}

// Kinds of operations.
const (
	copyIn = iota
	kernel
	copyOut
	kinds
)

// step is one operation of the experiment.
type step struct{ kind, stream, chunk int }

// plan returns the operations in the order of issue.
func plan(o Options) (all []step) {
	for chunk := range max(1, o.Chunks) {
		for i := range o.Streams * kinds {
			if o.Order == Depth {
				all = append(all, step{i % kinds, i / kinds, chunk})
			} else {
				all = append(all, step{i / o.Streams, i % o.Streams, chunk})
			}
		}
	}
	return all
}

// open makes what the experiment needs.
func (w *work) open(device cu.Device) (err error) {
	d := w.d
	if err := d.Init(0); err != nil {
		return err
	}
	if w.ctx, err = d.CtxCreate(cu.CtxMapHost, device); err != nil {
		return err
	}
	w.after(func() error { return d.CtxDestroy(w.ctx) })
	module, err := d.ModuleLoadData(w.ctx, []byte(delayPTX))
	if err != nil {
		return err
	}
	if w.kernel, err = d.ModuleGetFunction(w.ctx, module, "delay"); err != nil {
		return err
	}
	rate, err := d.DeviceGetAttribute(cu.DeviceAttributeClockRate, device)
	if err != nil {
		return err
	}
	w.cycles = uint64(w.o.Kernel.Seconds() * float64(rate) * 1000)
	for range w.o.Streams {
		if err := w.addStream(); err != nil {
			return err
		}
	}
	return nil
}

// addStream makes a stream with its memory.
func (w *work) addStream() error {
	d, n := w.d, uintptr(w.o.Bytes)
	s, err := d.StreamCreate(w.ctx, cu.StreamNonBlocking)
	if err != nil {
		return err
	}
	w.after(func() error { return d.StreamDestroy(w.ctx, s) })
	on, err := d.MemAlloc(w.ctx, n)
	if err != nil {
		return err
	}
	w.after(func() error { return d.MemFree(w.ctx, on) })
	var host [2]cu.HostPtr
	for i := range host {
		p, err := d.MemHostAlloc(w.ctx, n, 0)
		if err != nil {
			return err
		}
		host[i] = p
		w.after(func() error { return d.MemFreeHost(w.ctx, p) })
	}
	w.streams, w.on, w.in, w.out = append(w.streams, s), append(w.on, on), append(w.in, host[0]), append(w.out, host[1])
	return nil
}

// after lets close call f.
func (w *work) after(f func() error) { w.undo = append(w.undo, f) }

func (w *work) close() (err error) {
	for _, f := range slices.Backward(w.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// step queues one operation on the memory of stream i.
func (w *work) step(kind, i int, s cu.Stream) error {
	n := uintptr(w.o.Bytes)
	switch kind {
	case copyIn:
		return w.d.MemcpyHtoDAsync(w.ctx, w.on[i], w.in[i], n, s)
	case kernel:
		one := cu.Dim3{X: 1, Y: 1, Z: 1}
		return w.d.LaunchKernel(w.ctx, w.kernel, one, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, s, binary.LittleEndian.AppendUint64(nil, w.cycles))
	}
	return w.d.MemcpyDtoHAsync(w.ctx, w.out[i], w.on[i], n, s)
}

// sorted returns the operations of the experiment in the order of issue.
func sorted(rec *trace.Recording, skip int, o Options) ([]trace.Operation, error) {
	ops := rec.Operations
	slices.SortFunc(ops, func(a, b trace.Operation) int { return cmp.Compare(a.ID, b.ID) })
	if want := skip + len(plan(o)); len(ops) != want {
		return nil, fmt.Errorf("the recording has %d operations, want %d", len(ops), want)
	}
	ops = ops[skip:]
	for i := range ops {
		if ops[i].Untimed != "" {
			return nil, fmt.Errorf("operation %d has no times: %s", i, ops[i].Untimed)
		}
	}
	return ops, nil
}
