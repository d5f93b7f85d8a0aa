package softgpu

import "github.com/ferrygpu/ferry/cu"

// Submit makes the calls of b one by one; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) { return b.Do(d, ctx) }
