package ferry_test

import (
	"context"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// pinningDriver counts what a driver has registered, and how often it released a context.
type pinningDriver struct {
	cu.Driver
	registered, released atomic.Int64
	onRegister           atomic.Pointer[context.CancelFunc] // called after each registration
}

func (d *pinningDriver) Unwrap() cu.Driver { return d.Driver }

func (d *pinningDriver) MemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error {
	err := d.Driver.MemHostRegister(ctx, p, bytes, flags)
	if err == nil {
		d.registered.Add(1)
	}
	if cancel := d.onRegister.Load(); cancel != nil {
		(*cancel)()
	}
	return err
}

func (d *pinningDriver) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemHostUnregister(ctx, p)
	if err == nil {
		d.registered.Add(-1)
	}
	return err
}

func (d *pinningDriver) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.released.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}
