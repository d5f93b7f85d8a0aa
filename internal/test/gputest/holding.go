package gputest

import (
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Holding is a software GPU that seems to be hardware, and whose calls that free memory wait
// for the device and hold other calls of the context meanwhile, as those of an H200 do.
// Ferry does not see the driver within, because Holding has no Unwrap.
type Holding struct {
	cu.Driver
	held  sync.RWMutex
	calls atomic.Int64
}

// Calls returns how many calls were made that hold others, or that others hold.
func (d *Holding) Calls() int64 { return d.calls.Load() }

// BindThread implements cu.ThreadBinder. There is no current context, as on the software GPU.
func (d *Holding) BindThread(cu.Context) (func() error, error) {
	_, err := d.DriverGetVersion() // within a host function
	return func() error { return nil }, err
}

// WithContext implements cu.ThreadBinder.
func (d *Holding) WithContext(_ cu.Context, f func() error) error { return f() }

// alone makes a call that waits for the device, as the software GPU's own does.
func (d *Holding) alone(call func() error) error {
	if _, err := d.DriverGetVersion(); err != nil { // within a host function
		return err
	}
	d.calls.Add(1)
	d.held.Lock()
	defer d.held.Unlock()
	return call()
}

// beside makes a call that another one may hold.
func (d *Holding) beside(call func() error) error {
	d.calls.Add(1)
	d.held.RLock()
	defer d.held.RUnlock()
	return call()
}

func (d *Holding) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	return d.alone(func() error { return d.Driver.MemFree(ctx, p) })
}

func (d *Holding) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	return d.alone(func() error { return d.Driver.MemFreeHost(ctx, p) })
}

func (d *Holding) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	return d.alone(func() error { return d.Driver.MemHostUnregister(ctx, p) })
}

func (d *Holding) ModuleUnload(ctx cu.Context, m cu.Module) error {
	return d.alone(func() error { return d.Driver.ModuleUnload(ctx, m) })
}

func (d *Holding) StreamQuery(ctx cu.Context, s cu.Stream) error {
	return d.beside(func() error { return d.Driver.StreamQuery(ctx, s) })
}

func (d *Holding) EventQuery(ctx cu.Context, e cu.Event) error {
	return d.beside(func() error { return d.Driver.EventQuery(ctx, e) })
}

func (d *Holding) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	return d.beside(func() error { return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s) })
}

func (d *Holding) MemsetD8Async(ctx cu.Context, p cu.DevicePtr, value uint8, n uintptr, s cu.Stream) error {
	return d.beside(func() error { return d.Driver.MemsetD8Async(ctx, p, value, n, s) })
}
