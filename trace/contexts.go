package trace

import "github.com/ferrygpu/ferry/cu"

// contextUse counts the references that the program holds to a context.
type contextUse struct {
	dev     cu.Device
	uses    int
	created bool // by CtxCreate: not a primary context
}

// nameDevice adds the row of a device, once.
func (d *Driver) nameDevice(dev cu.Device, name string) {
	d.mu.Lock()
	before := d.named[dev]
	d.named[dev] = true
	d.mu.Unlock()
	if !before {
		d.rec.addDevice(int(dev), d.id, name, d.nodeOf(dev))
	}
}

// findName adds the row of a device whose name the program has not asked for.
func (d *Driver) findName(dev cu.Device) {
	d.mu.Lock()
	known := d.named[dev]
	d.mu.Unlock()
	if known {
		return
	}
	if name, err := d.inner.DeviceGetName(dev); err == nil {
		d.nameDevice(dev, name)
	}
}

// retain counts a reference to a context. The recording needs the name of its device.
func (d *Driver) retain(ctx cu.Context, dev cu.Device, created bool) {
	d.findName(dev)
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.contexts[ctx]
	if u == nil {
		u = &contextUse{dev: dev, created: created}
		d.contexts[ctx] = u
	}
	u.uses++
}

// primary returns the primary context of a device that the program has retained, 0 for
// none.
func (d *Driver) primary(dev cu.Device) cu.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ctx, u := range d.contexts {
		if u.dev == dev && !u.created {
			return ctx
		}
	}
	return 0
}

// release drops a reference to a context, before the driver does. The last one ends the
// measurements in it.
func (d *Driver) release(ctx cu.Context) {
	d.mu.Lock()
	u := d.contexts[ctx]
	last := u != nil && u.uses <= 1
	if u != nil {
		u.uses--
	}
	d.mu.Unlock()
	if last {
		d.drop(ctx)
	}
}

// drop ends the measurements in a context that is about to be destroyed.
func (d *Driver) drop(ctx cu.Context) {
	if d.timer != nil {
		d.timer.finish(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contexts, ctx)
}

// device returns the device of a context.
func (d *Driver) device(ctx cu.Context) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u := d.contexts[ctx]; u != nil {
		return int(u.dev)
	}
	return 0
}
