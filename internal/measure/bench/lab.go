package bench

import (
	"context"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// experiment is one kind of memory at one size.
type experiment struct {
	kind Kind
	// prepare writes the inputs of a seed and poisons c in all memory where it will be
	// written. When it returns, the device is idle.
	prepare func(ctx context.Context, seed uint32) error
	// step is the part that is timed.
	step func(ctx context.Context) error
	// took returns the time of the step. Nil means the time from its submission to its end.
	took func() (time.Duration, error)
	// result returns c in memory of the CPU.
	result func(ctx context.Context) ([]float32, error)
	// verify checks a result for the inputs of a seed.
	verify func(ctx context.Context, c []float32, seed uint32) error
}

// vectors are the vectors a, b and c in one kind of memory.
type vectors[M any] struct{ a, b, c M }

// lab has the memory and the experiments of one size.
type lab struct {
	*comparer
	n           int
	config      ferry.LaunchConfig
	experiments []experiment
	undo        closers

	verify  func(ctx context.Context, c []float32, seed uint32) error
	device  vectors[*ferry.Device[float32]]
	pinned  vectors[*ferry.Host[float32]]
	managed vectors[*ferry.Managed[float32]]
}

// newLab allocates memory and creates an experiment for each kind that the device has.
func (b *comparer) newLab(n int) (*lab, error) {
	l := &lab{comparer: b, n: n, config: b.g.GridStride((n + floatsPerThread - 1) / floatsPerThread)}
	l.verify = func(_ context.Context, c []float32, seed uint32) error { return verify(c, seed) }
	if err := l.build(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) build() error {
	var err error
	if l.own != nil {
		if err := l.useOwn(); err != nil {
			return err
		}
	}
	if l.device, err = allocate(l, func() (*ferry.Device[float32], error) { return ferry.Alloc[float32](l.g, l.n) }); err != nil {
		return err
	}
	if l.pinned, err = allocate(l, func() (*ferry.Host[float32], error) { return ferry.AllocHost[float32](l.g, l.n, nil) }); err != nil {
		return err
	}
	l.addPageable()
	l.addCopied(Pinned, l.pinned)
	if err := l.addWriteCombined(); err != nil {
		return err
	}
	if err := l.addMapped(); err != nil {
		return err
	}
	if err := l.addManaged(); err != nil {
		return err
	}
	l.addKernel()
	return l.addPageableInKernels()
}

// allocate allocates three vectors, which l closes.
func allocate[M interface{ Close() error }](l *lab, one func() (M, error)) (v vectors[M], err error) {
	for _, m := range []*M{&v.a, &v.b, &v.c} {
		if *m, err = one(); l.undo.add(err, (*m).Close) != nil {
			return v, err
		}
	}
	return v, nil
}

// close frees the memory. Memory that is still in use after an error is freed when the
// device is done with it.
func (l *lab) close() { _ = l.undo.close() }

func (l *lab) add(x experiment) {
	x.verify = l.verify
	l.experiments = append(l.experiments, x)
}

// has reports whether a device attribute is not zero.
func (l *lab) has(attribute cu.DeviceAttribute) (bool, error) {
	v, err := l.g.Attribute(attribute)
	return v != 0, err
}

// launch queues the kernel on the lab's stream, as often as the inputs are used. Each vector
// is memory, or the address of memory.
func (l *lab) launch(a, b, c any) error { return l.launchOn(l.stream, a, b, c) }

func (l *lab) launchOn(s *ferry.Stream, a, b, c any) error {
	for range l.times {
		if err := s.Launch(l.comparer.add, l.config, a, b, c, l.count()); err != nil {
			return err
		}
	}
	return nil
}

// count returns the number of elements, with the type of the kernel's parameter.
func (l *lab) count() any {
	if l.own != nil && l.own.narrow {
		return uint32(l.n)
	}
	return uint64(l.n)
}

// poisonDevice overwrites c on the device.
func (l *lab) poisonDevice(ctx context.Context) error {
	if err := ferry.Fill(l.stream, l.device.c, poisonValue()); err != nil {
		return err
	}
	return l.stream.Wait(ctx)
}

// hostResult returns the result of an experiment that ends in page-locked memory.
func hostResult(c *ferry.Host[float32]) func(context.Context) ([]float32, error) {
	return func(context.Context) ([]float32, error) { return c.Slice(), nil }
}

// addPageable adds an experiment that copies slices with the driver's own synchronous
// calls. They use the default stream, which orders them with the kernel.
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
	s := l.g.DefaultStream()
	if err := l.launchOn(s, l.device.a, l.device.b, l.device.c); err != nil {
		return err
	}
	return copyOut(l.g, v.c, l.device.c)
}

// addCopied adds an experiment that submits both copies in, the kernel and the copy out.
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

// addWriteCombined adds an experiment with the inputs in write-combined memory. c is in
// normal pinned memory, because the CPU reads it.
func (l *lab) addWriteCombined() error {
	v := vectors[*ferry.Host[float32]]{c: l.pinned.c}
	for _, m := range []**ferry.Host[float32]{&v.a, &v.b} {
		var err error
		if *m, err = ferry.AllocHost[float32](l.g, l.n, &ferry.HostOptions{WriteCombined: true}); l.undo.add(err, (*m).Close) != nil {
			return err
		}
	}
	l.addCopied(WriteCombined, v)
	return nil
}

// addMapped adds two experiments in which the kernel accesses memory over the link: all
// three vectors, and only the inputs.
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
	if err := l.addZeroCopyKernel(v); err != nil {
		return err
	}
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

// addKernel adds an experiment with the vectors on the device before the step begins.
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

// wordsPerPage is the number of floats in a page of the host, 4 KiB.
const wordsPerPage = 4096 / 4

// addManaged adds the experiments with managed memory. Both use the same vectors. prepare
// writes all of them, so that every page is on the host when a step begins.
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
		return err // prefetching needs the attribute
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

// faultStep moves pages when they are touched, by the kernel and then by the CPU.
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
		if err := m.Prefetch(l.stream, l.g.CUDevice()); err != nil {
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
