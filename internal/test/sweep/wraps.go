package sweep

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
)

// wraps uses memory, a stream and an event that the driver's user made without Ferry.
func wraps(ctx context.Context, g *ferry.GPU, b *base) error {
	d, c := g.Driver(), g.CUContext()
	h, err := wrapHost(g, d, c)
	h, ok := take(&b.user, h, err)
	if !ok {
		return nil
	}
	m, err := wrapManaged(g, d, c)
	if m, ok = take(&b.user, m, err); !ok {
		return nil
	}
	on, err := ferry.WrapDevice[float32](g, b.on.Pointer(), n, nil)
	if on, ok = take(&b.user, on, err); !ok {
		return nil
	}
	stream, err := d.StreamCreate(c, cu.StreamDefault)
	if err != nil {
		return err
	}
	b.frees = append(b.frees, func() error { return d.StreamDestroy(c, stream) })
	event, err := d.EventCreate(c, cu.EventDefault)
	if err != nil {
		return err
	}
	b.frees = append(b.frees, func() error { return d.EventDestroy(c, event) })
	s, err := ferry.WrapStream(g, stream)
	if err != nil {
		return err
	}
	b.frees = append(b.frees, func() (err error) { // others may wait for all streams of the GPU
		for tries := 0; tries < 100; tries++ {
			if err = s.Close(); !errors.Is(err, cu.ErrorNotReady) {
				break
			}
		}
		return err
	})
	e, err := ferry.WrapEvent(g, event)
	if e, ok = take(&b.user, e, err); !ok {
		return nil
	}
	return steps(
		func() error { return ferry.Copy(s, on, b.host) },
		func() error { return ferry.Copy(s, m, on) },
		func() error { return ferry.Copy(s, h, m) },
		func() error { return s.Record(e) },
		func() error { return e.Wait(ctx) },
		func() error {
			got, err := h.ReadSliceContext(ctx)
			if err != nil {
				return err
			}
			return same(got, 0)
		})
}

func wrapHost(g *ferry.GPU, d cu.Driver, c cu.Context) (*ferry.Host[float32], error) {
	p, err := d.MemHostAlloc(c, 4*n, cu.MemHostAllocPortable)
	if err != nil {
		return nil, err
	}
	free := func() error { return d.MemFreeHost(c, p) }
	h, err := ferry.WrapHost(g, address.Slice[float32](p, n), free)
	if err != nil {
		err = errors.Join(err, free())
	}
	return h, err
}

func wrapManaged(g *ferry.GPU, d cu.Driver, c cu.Context) (*ferry.Managed[float32], error) {
	p, err := d.MemAllocManaged(c, 4*n, cu.MemAttachGlobal)
	if err != nil {
		return nil, err
	}
	free := func() error { return d.MemFree(c, p) }
	m, err := ferry.WrapManaged[float32](g, p, n, free)
	if err != nil {
		err = errors.Join(err, free())
	}
	return m, err
}
