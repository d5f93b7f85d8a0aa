package libcuda

import "unsafe"

// list is the steps.
func (c *crossing) list() []step { return unsafe.Slice(c.steps, c.n) }
