package libcuda

import "github.com/ferrygpu/ferry/cu"

// CurrentContext returns the context that is current in the calling thread.
func (d *Driver) CurrentContext() (cu.Context, error) { return d.currentContext() }

// SetCurrentContext does what other code in the thread may do.
func (d *Driver) SetCurrentContext(ctx cu.Context) error { return d.setCurrent(ctx) }
