package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// DevicePrimaryCtxRetain takes a reference to the primary context.
func (d *Driver) DevicePrimaryCtxRetain(h cu.Device) (cu.Context, error) {
	return deviceCall(d, h, "retain the primary context", func(dev *device) (cu.Context, error) {
		if dev.fault != nil {
			return 0, dev.fault
		}
		if dev.primary == nil {
			dev.beginPrimary()
		}
		dev.primaryRefs++
		return dev.primary.handle, nil
	})
}

// beginPrimary makes the primary context, with the handle that it had before.
func (dev *device) beginPrimary() {
	d := dev.drv
	c := d.newContext(dev, dev.primaryFlags)
	c.primary = true
	if dev.primaryHandle == 0 {
		dev.primaryHandle = cu.Context(d.newHandle(c))
	}
	c.handle = dev.primaryHandle
	d.handles[uintptr(c.handle)] = c
	dev.primary = c
}

// DevicePrimaryCtxRelease drops a reference; the last one destroys the context.
// References outlive a reset.
func (d *Driver) DevicePrimaryCtxRelease(h cu.Device) error {
	_, err := deviceCall(d, h, "release the primary context", func(dev *device) (int, error) {
		if dev.primaryRefs == 0 {
			return 0, refuse(cu.ErrorInvalidContext, "release the primary context", "nobody holds it")
		}
		dev.primaryRefs--
		if dev.primaryRefs == 0 {
			dev.endPrimary()
		}
		return 0, nil
	})
	return err
}

// endPrimary destroys the primary context if there is one.
func (dev *device) endPrimary() {
	c := dev.primary
	dev.primary = nil
	if c != nil {
		c.destroy()
	}
}

// DevicePrimaryCtxSetFlags sets the flags, of an active context too. Under
// unified addressing mapping is on by itself, and its flag refused.
func (d *Driver) DevicePrimaryCtxSetFlags(h cu.Device, flags cu.CtxFlags) error {
	const what = "set flags of the primary context"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		if err := checkFlags(flags, what); err != nil {
			return 0, err
		}
		if d.uva && flags&cu.CtxMapHost != 0 {
			return 0, refuse(cu.ErrorInvalidValue, what, "CtxMapHost is not for the primary context of a device with unified addressing, which maps host memory without it")
		}
		if dev.primary != nil && !d.uva && (dev.primary.flags^flags)&cu.CtxMapHost != 0 {
			return 0, refuse(cu.ErrorPrimaryContextActive, what, "mapping host memory is decided when the context is made")
		}
		dev.primaryFlags = flags
		if dev.primary != nil {
			dev.primary.flags = flags
		}
		return 0, nil
	})
	return err
}

// DevicePrimaryCtxGetState reads flags and whether the context is active.
func (d *Driver) DevicePrimaryCtxGetState(h cu.Device) (cu.CtxFlags, int32, error) {
	var active int32
	flags, err := deviceCall(d, h, "read the primary context's state", func(dev *device) (cu.CtxFlags, error) {
		if dev.primary != nil {
			active = 1
		}
		return dev.primaryFlags, nil
	})
	return flags, active, err
}

// DevicePrimaryCtxReset destroys the primary context whoever holds it.
func (d *Driver) DevicePrimaryCtxReset(h cu.Device) error {
	_, err := deviceCall(d, h, "reset the primary context", func(dev *device) (int, error) {
		dev.endPrimary()
		return 0, nil
	})
	return err
}

// CtxCreate makes a context.
func (d *Driver) CtxCreate(flags cu.CtxFlags, h cu.Device) (cu.Context, error) {
	const what = "create a context"
	return deviceCall(d, h, what, func(dev *device) (cu.Context, error) {
		if err := checkFlags(flags, what); err != nil {
			return 0, err
		}
		if dev.fault != nil {
			return 0, dev.fault
		}
		c := d.newContext(dev, flags)
		c.handle = cu.Context(d.newHandle(c))
		return c.handle, nil
	})
}

// CtxDestroy destroys a created context, and waits for kernels of others that
// run on the device.
func (d *Driver) CtxDestroy(h cu.Context) error {
	const what = "destroy a context"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return err
	}
	if c.primary {
		return refuse(cu.ErrorInvalidContext, what, "this is the primary context of device %d: release it", c.dev.ordinal)
	}
	c.destroy()
	return nil
}

// CtxSynchronize waits until all work of the context is done.
func (d *Driver) CtxSynchronize(h cu.Context) error {
	const what = "synchronize the context"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer c.printed.flush()
	defer d.mu.Unlock()
	if err := c.mustNotCapture(what); err != nil {
		return err
	}
	return c.sync()
}

// CtxGetFlags reads the flags as they were given.
func (d *Driver) CtxGetFlags(h cu.Context) (cu.CtxFlags, error) {
	c, err := d.enterLost(h, "read the context's flags")
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	return c.flags, nil
}

// CtxGetDevice is the device of the context.
func (d *Driver) CtxGetDevice(h cu.Context) (cu.Device, error) {
	c, err := d.enter(h, "read the context's device")
	if err != nil {
		return cu.InvalidDevice, err
	}
	defer d.mu.Unlock()
	return cu.Device(c.dev.ordinal), nil
}

// CtxGetStreamPriorityRange is the profile's.
func (d *Driver) CtxGetStreamPriorityRange(h cu.Context) (least, greatest int32, err error) {
	if _, err := d.enter(h, "read the range of priorities"); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	return int32(d.prof.Priority.Least.Value), int32(d.prof.Priority.Greatest.Value), nil
}

// CtxGetLimit reads a limit.
func (d *Driver) CtxGetLimit(h cu.Context, limit cu.Limit) (uintptr, error) {
	const what = "read a limit"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	v, ok := c.limits[limit]
	if !ok {
		return 0, refuse(cu.ErrorInvalidValue, what, "limit %d is not known", limit)
	}
	return v, nil
}

// CtxSetLimit asks for a limit. The software GPU keeps the number, bounds what
// kernels print by it, and gives them the stack that they need. Like hardware it waits for the context's work
// when the stack is set.
func (d *Driver) CtxSetLimit(h cu.Context, limit cu.Limit, value uintptr) error {
	const what = "set a limit"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if _, ok := c.limits[limit]; !ok {
		return refuse(cu.ErrorInvalidValue, what, "limit %d is not known", limit)
	}
	if limit == cu.LimitStackSize && value > 512<<10 {
		return refuse(cu.ErrorInvalidValue, what, "a stack of %s is more than 512 KiB a thread", size(uint64(value)))
	}
	if limit == cu.LimitStackSize {
		if err := c.settle(what); err != nil {
			return err
		}
	}
	c.limits[limit] = uintptr(roundUp(uint64(value), 16))
	if limit == cu.LimitPrintfFIFOSize {
		c.printed.setLimit(c.limits[limit])
	}
	return nil
}

// CtxEnablePeerAccess lets kernels of h use memory of peer.
func (d *Driver) CtxEnablePeerAccess(h, peer cu.Context, flags uint32) error {
	const what = "enable peer access"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.context(peer, what)
	switch {
	case err != nil:
		return err
	case flags != 0:
		return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	case p == c:
		return refuse(cu.ErrorPeerAccessUnsupported, what, "a context is no peer of itself")
	case p.dev == c.dev || !d.peerAccess():
		return refuse(cu.ErrorPeerAccessUnsupported, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	case c.peers[p]:
		return refuse(cu.ErrorPeerAccessAlreadyEnabled, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	}
	c.peers[p] = true
	return nil
}

// CtxDisablePeerAccess takes that back.
func (d *Driver) CtxDisablePeerAccess(h, peer cu.Context) error {
	const what = "disable peer access"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.context(peer, what)
	if err != nil {
		return err
	}
	if !c.peers[p] {
		return refuse(cu.ErrorPeerAccessNotEnabled, what, "device %d to device %d", c.dev.ordinal, p.dev.ordinal)
	}
	delete(c.peers, p)
	return nil
}
