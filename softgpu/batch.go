package softgpu

import "github.com/ferrygpu/ferry/cu"

// Submit makes the calls of b one by one; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) { return b.Do(d, ctx) }

// MemcpyBatchAsync makes the copies one after the other, one of the orders that
// are allowed; see [cu.Copies].
func (d *Driver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	if len(dsts) == 0 || len(dsts) != len(srcs) || len(dsts) != len(sizes) || stream == 0 || stream == cu.StreamLegacy {
		return cu.ErrorInvalidValue
	}
	for i := range dsts {
		if err := d.MemcpyAsync(ctx, dsts[i], srcs[i], sizes[i], stream); err != nil {
			return err
		}
	}
	return nil
}
