package bench

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// addPageableInKernels adds an experiment in which the kernel reads and writes slices, if
// the device can. The slices must stay where they are, so they are pinned for Go's runtime.
func (l *lab) addPageableInKernels() error {
	if can, err := l.has(cu.DeviceAttributePageableMemoryAccess); err != nil || !can {
		return err
	}
	v := vectors[[]float32]{make([]float32, l.n), make([]float32, l.n), make([]float32, l.n)}
	var held runtime.Pinner
	for _, s := range [][]float32{v.a, v.b, v.c} {
		held.Pin(&s[0])
	}
	_ = l.undo.add(nil, func() error { held.Unpin(); return nil })
	l.add(experiment{
		kind: PageableInKernels,
		prepare: func(_ context.Context, seed uint32) error {
			writeInputs(v.a, v.b, seed)
			poison(v.c)
			return nil
		},
		step: func(ctx context.Context) error {
			if err := l.launch(addressOf(v.a), addressOf(v.b), addressOf(v.c)); err != nil {
				return err
			}
			return l.stream.Wait(ctx)
		},
		result: func(context.Context) ([]float32, error) { return v.c, nil },
	})
	return nil
}

// addZeroCopyKernel adds an experiment that times the kernel of [ZeroCopy] alone, if that
// was asked for.
func (l *lab) addZeroCopyKernel(v vectors[*ferry.Host[float32]]) error {
	if !l.rates {
		return nil
	}
	start, err := ferry.NewEvent(l.g, nil)
	if l.undo.add(err, start.Close) != nil {
		return err
	}
	end, err := ferry.NewEvent(l.g, nil)
	if l.undo.add(err, end.Close) != nil {
		return err
	}
	l.add(experiment{
		kind: ZeroCopyKernel,
		prepare: func(_ context.Context, seed uint32) error {
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(v.c.Slice())
			return nil
		},
		step: func(ctx context.Context) error {
			return errors.Join(l.stream.Record(start), l.launch(v.a, v.b, v.c), l.stream.Record(end), l.stream.Wait(ctx))
		},
		took:   func() (time.Duration, error) { return end.Since(start) },
		result: hostResult(v.c),
	})
	return nil
}

// Link is what copies of page-locked memory reach, in bytes per second.
type Link struct {
	In  float64 `json:"in_bytes_per_s"`
	Out float64 `json:"out_bytes_per_s"`
}

// linkBytes is the size of the copies that measure the link.
const linkBytes = 64 << 20

// measureLink measures a large copy in each direction, between two events: the fastest of
// three.
func (b *comparer) measureLink(ctx context.Context) (*Link, error) {
	var undo closers
	defer func() { _ = undo.close() }()
	host, err := ferry.AllocHost[byte](b.g, linkBytes, nil)
	if undo.add(err, host.Close) != nil {
		return nil, err
	}
	device, err := ferry.Alloc[byte](b.g, linkBytes)
	if undo.add(err, device.Close) != nil {
		return nil, err
	}
	in, err := b.fastest(ctx, func() error { return ferry.Copy(b.stream, device, host) })
	if err != nil {
		return nil, err
	}
	out, err := b.fastest(ctx, func() error { return ferry.Copy(b.stream, host, device) })
	if err != nil {
		return nil, err
	}
	return &Link{In: linkBytes / in.Seconds(), Out: linkBytes / out.Seconds()}, nil
}

// fastest returns the shortest of three times between an event before and one after work.
func (b *comparer) fastest(ctx context.Context, work func() error) (least time.Duration, err error) {
	start, err := ferry.NewEvent(b.g, nil)
	if err != nil {
		return 0, err
	}
	defer start.Close()
	end, err := ferry.NewEvent(b.g, nil)
	if err != nil {
		return 0, err
	}
	defer end.Close()
	for i := range 3 {
		if err := errors.Join(b.stream.Record(start), work(), b.stream.Record(end), b.stream.Wait(ctx)); err != nil {
			return 0, err
		}
		took, err := end.Since(start)
		if err != nil {
			return 0, err
		}
		if i == 0 || took < least {
			least = took
		}
	}
	return max(least, 1), nil
}
