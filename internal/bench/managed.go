package bench

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// wordsPerPage is a page of the host, 4 KiB, in floats.
const wordsPerPage = 4096 / 4

// addManaged has one set of vectors for both managed kinds: prepare writes all
// of them, so that every page is with the CPU when a step begins.
func (l *lab) addManaged() error {
	if can, err := l.has(cu.DeviceAttributeManagedMemory); err != nil || !can {
		return err
	}
	var err error
	l.managed, err = allocate(l, func() (*ferry.Managed[float32], error) { return ferry.AllocManaged[float32](l.g, l.n, nil) })
	if err != nil {
		return err
	}
	l.add(l.managedExperiment(Managed, l.faultStep))
	if can, err := l.has(cu.DeviceAttributeConcurrentManagedAccess); err != nil || !can {
		return err // without it there is no prefetch
	}
	l.add(l.managedExperiment(ManagedPrefetched, l.prefetchStep))
	return nil
}

func (l *lab) managedExperiment(kind Kind, step func(context.Context) error) experiment {
	v := l.managed
	return experiment{
		kind: kind,
		prepare: func(_ context.Context, seed uint32) error {
			writeInputs(v.a.Slice(), v.b.Slice(), seed)
			poison(v.c.Slice())
			return nil
		},
		step:   step,
		result: func(context.Context) ([]float32, error) { return v.c.ReadSlice(), nil },
	}
}

// faultStep moves pages as they are touched, by the kernel and then by the CPU.
func (l *lab) faultStep(ctx context.Context) error {
	v := l.managed
	if err := l.launch(v.a, v.b, v.c); err != nil {
		return err
	}
	if err := l.stream.Wait(ctx); err != nil {
		return err
	}
	l.touched = touch(v.c.ReadSlice())
	return nil
}

// touch reads a word of each page.
func touch(c []float32) (sum float32) {
	for i := 0; i < len(c); i += wordsPerPage {
		sum += c[i]
	}
	return sum
}

// prefetchStep moves all pages before they are touched.
func (l *lab) prefetchStep(ctx context.Context) error {
	v := l.managed
	for _, m := range []*ferry.Managed[float32]{v.a, v.b, v.c} {
		if err := m.Prefetch(l.stream, l.g.Device()); err != nil {
			return err
		}
	}
	if err := l.launch(v.a, v.b, v.c); err != nil {
		return err
	}
	if err := v.c.Prefetch(l.stream, cu.CPUDevice); err != nil {
		return err
	}
	return l.stream.Wait(ctx)
}
