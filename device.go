package ferry

import (
	"context"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Device is a buffer in the GPU's memory. It is safe for concurrent use.
type Device[T any] struct{ region }

// Alloc takes memory for n elements on the GPU (cuMemAlloc), aligned to 256
// bytes and not cleared. Zero elements are a valid, empty buffer. T is any type
// without Go pointers. An error wraps cu.ErrorOutOfMemory, with what is free, or
// cu.ErrorInvalidValue.
func Alloc[T any](g *GPU, n int) (*Device[T], error) {
	a, err := newAllocation[T](g, deviceMemory, n)
	if err != nil {
		return nil, err
	}
	if a.bytes > 0 {
		if a.dev, err = g.driver.MemAlloc(g.ctx, a.bytes); err != nil {
			return nil, a.fail("allocate", err, g.room(a.bytes, err))
		}
	}
	a.start()
	return &Device[T]{a.whole()}, nil
}

// room says how much memory the device has, for a request that was too large.
func (g *GPU) room(bytes uintptr, err error) string {
	if !errors.Is(err, cu.ErrorOutOfMemory) {
		return ""
	}
	free, total, err := g.driver.MemGetInfo(g.ctx)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s are free", sizeText(free), sizeText(total))
	if bytes > total {
		return text + ": the request is larger than the device"
	}
	return text + ": close buffers, or work in parts"
}

// Len is the number of elements.
func (d *Device[T]) Len() int { return d.where(nil).len() }

// Bytes is the size in bytes.
func (d *Device[T]) Bytes() int { return d.where(nil).size() }

// Pointer is the address in kernels; 0 for an empty buffer.
func (d *Device[T]) Pointer() cu.DevicePtr { return d.where(nil).pointer() }

// Range is elements i to j-1, of the same memory: what is in flight on a range is
// in flight on the buffer. It needs no Close and is good until the buffer's. A
// range that does not exist is one whose every use is an error.
func (d *Device[T]) Range(i, j int) *Device[T] { return &Device[T]{d.where(nil).sub(i, j)} }

// Wait waits until nothing is in flight on the buffer. See [Host.Wait].
func (d *Device[T]) Wait(ctx context.Context) error { return d.where(nil).ready(ctx, writes) }

// Close waits for what is in flight on the buffer and frees it (cuMemFree).
// Within a host function it is freed soon afterwards. Close of a range does
// nothing; of a closed or nil buffer, too.
func (d *Device[T]) Close() error { return d.where(nil).close() }

func (d *Device[T]) where(*T) *region {
	if d == nil {
		return nil
	}
	return &d.region
}
