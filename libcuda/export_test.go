package libcuda

import "github.com/ferrygpu/ferry/cu"

// CurrentContext returns the context that is current in the calling thread.
func (d *Driver) CurrentContext() (cu.Context, error) { return d.currentContext() }

// SetCurrentContext does what other code in the thread may do.
func (d *Driver) SetCurrentContext(ctx cu.Context) error {
	return d.call3(procCtxSetCurrent, uintptr(ctx), 0, 0)
}

// PushCurrentContext and PopCurrentContext do what other code in the thread may do.
func (d *Driver) PushCurrentContext(ctx cu.Context) error        { return d.pushCurrent(ctx) }
func (d *Driver) PopCurrentContext() (ctx cu.Context, err error) { return d.popCurrent() }
