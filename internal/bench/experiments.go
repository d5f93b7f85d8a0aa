package bench

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// addPageable copies ordinary slices by the driver's own synchronous calls, on
// the default stream, which orders them with the kernel.
func (l *lab) addPageable() {
	v := vectors[[]float32]{make([]float32, l.n), make([]float32, l.n), make([]float32, l.n)}
	l.add(experiment{
		kind: Pageable,
		prepare: func(ctx context.Context, seed uint32) error {
			writeInputs(v.a, v.b, seed)
			poison(v.c)
			return l.poisonDevice(ctx)
		},
		step:   func(context.Context) error { return l.pageableStep(v) },
		result: func(context.Context) ([]float32, error) { return v.c, nil },
	})
}

func (l *lab) pageableStep(v vectors[[]float32]) error {
	if err := copyIn(l.g, l.device.a, v.a); err != nil {
		return err
	}
	if err := copyIn(l.g, l.device.b, v.b); err != nil {
		return err
	}
	s := ferry.DefaultStream(l.g)
	if err := s.Launch(l.bench.add, l.shape, l.device.a, l.device.b, l.device.c, uint64(l.n)); err != nil {
		return err
	}
	return copyOut(l.g, v.c, l.device.c)
}

// addCopied queues both copies in, the kernel and the copy out.
func (l *lab) addCopied(kind Kind, v vectors[*ferry.Host[float32]]) {
	l.add(experiment{
		kind: kind,
		prepare: func(ctx context.Context, seed uint32) error {
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(v.c.Slice())
			return l.poisonDevice(ctx)
		},
		step: func(ctx context.Context) error {
			if err := ferry.Copy(l.stream, l.device.a, v.a); err != nil {
				return err
			}
			if err := ferry.Copy(l.stream, l.device.b, v.b); err != nil {
				return err
			}
			if err := l.launch(l.device.a, l.device.b, l.device.c); err != nil {
				return err
			}
			return l.copyOutAndWait(ctx, v.c)
		},
		result: hostResult(v.c),
	})
}

func (l *lab) copyOutAndWait(ctx context.Context, c *ferry.Host[float32]) error {
	if err := ferry.Copy(l.stream, c, l.device.c); err != nil {
		return err
	}
	return l.stream.Wait(ctx)
}

// addWriteCombined has its inputs in write-combined memory; the CPU reads c, so
// that is ordinary pinned memory.
func (l *lab) addWriteCombined() error {
	v := vectors[*ferry.Host[float32]]{c: l.pinned.c}
	for _, m := range []**ferry.Host[float32]{&v.a, &v.b} {
		var err error
		if *m, err = ferry.AllocHost[float32](l.g, l.n, &ferry.HostOptions{WriteCombined: true}); l.undo.later(err, (*m).Close) != nil {
			return err
		}
	}
	l.addCopied(WriteCombined, v)
	return nil
}

// addMapped lets the kernel reach over the link, for all three vectors and for
// the inputs alone.
func (l *lab) addMapped() error {
	if can, err := l.has(cu.DeviceAttributeCanMapHostMemory); err != nil || !can {
		return err
	}
	v, err := allocate(l, func() (*ferry.Host[float32], error) {
		return ferry.AllocHost[float32](l.g, l.n, &ferry.HostOptions{Mapped: true})
	})
	if err != nil {
		return err
	}
	l.add(experiment{
		kind: ZeroCopy,
		prepare: func(_ context.Context, seed uint32) error {
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(v.c.Slice())
			return nil
		},
		step: func(ctx context.Context) error {
			if err := l.launch(v.a, v.b, v.c); err != nil {
				return err
			}
			return l.stream.Wait(ctx)
		},
		result: hostResult(v.c),
	})
	l.add(experiment{
		kind: ZeroCopyIn,
		prepare: func(ctx context.Context, seed uint32) error {
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(l.pinned.c.Slice())
			return l.poisonDevice(ctx)
		},
		step: func(ctx context.Context) error {
			if err := l.launch(v.a, v.b, l.device.c); err != nil {
				return err
			}
			return l.copyOutAndWait(ctx, l.pinned.c)
		},
		result: hostResult(l.pinned.c),
	})
	return nil
}

// addKernel has the vectors on the device before the step begins.
func (l *lab) addKernel() {
	l.add(experiment{
		kind: KernelAlone,
		prepare: func(ctx context.Context, seed uint32) error {
			v := l.pinned
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(v.c.Slice())
			if err := ferry.Copy(l.stream, l.device.a, v.a); err != nil {
				return err
			}
			if err := ferry.Copy(l.stream, l.device.b, v.b); err != nil {
				return err
			}
			return l.poisonDevice(ctx)
		},
		step: func(ctx context.Context) error {
			if err := l.launch(l.device.a, l.device.b, l.device.c); err != nil {
				return err
			}
			return l.stream.Wait(ctx)
		},
		result: func(ctx context.Context) ([]float32, error) {
			if err := l.copyOutAndWait(ctx, l.pinned.c); err != nil {
				return nil, err
			}
			return l.pinned.c.Slice(), nil
		},
	})
}
