package bench

import (
	"context"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// experiment is one kind of memory at one size.
type experiment struct {
	kind Kind
	// prepare writes the inputs of a seed and poisons c wherever it will appear.
	// When it returns, the device is idle.
	prepare func(ctx context.Context, seed uint32) error
	// step is what is timed.
	step func(ctx context.Context) error
	// result is c as the CPU has it.
	result func(ctx context.Context) ([]float32, error)
}

// vectors are the three of one kind of memory.
type vectors[M any] struct{ a, b, c M }

// lab is the memory for all experiments of one size.
type lab struct {
	*bench
	n           int
	shape       ferry.LaunchConfig
	experiments []experiment
	undo        closers

	device  vectors[*ferry.Device[float32]]
	pinned  vectors[*ferry.Host[float32]]
	managed vectors[*ferry.Managed[float32]]
}

// newLab allocates, and finds out which kinds the device has.
func (b *bench) newLab(n int) (*lab, error) {
	l := &lab{bench: b, n: n, shape: b.g.Grid((n + floatsPerThread - 1) / floatsPerThread)}
	if err := l.build(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lab) build() error {
	var err error
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
	return nil
}

// allocate makes three vectors that l closes.
func allocate[M interface{ Close() error }](l *lab, one func() (M, error)) (v vectors[M], err error) {
	for _, m := range []*M{&v.a, &v.b, &v.c} {
		if *m, err = one(); l.undo.later(err, (*m).Close) != nil {
			return v, err
		}
	}
	return v, nil
}

// close frees what was allocated. What is still in use after an error is freed
// when the device is done with it.
func (l *lab) close() { _ = l.undo.close() }

func (l *lab) add(x experiment) { l.experiments = append(l.experiments, x) }

// has asks the device for an ability.
func (l *lab) has(attribute cu.DeviceAttribute) (bool, error) {
	v, err := l.g.Attribute(attribute)
	return v != 0, err
}

// launch queues the addition.
func (l *lab) launch(a, b, c ferry.Memory[float32]) error {
	return l.stream.Launch(l.bench.add, l.shape, a, b, c, uint64(l.n))
}

// poisonDevice overwrites c on the device.
func (l *lab) poisonDevice(ctx context.Context) error {
	if err := ferry.Fill(l.stream, l.device.c, poisonValue()); err != nil {
		return err
	}
	return l.stream.Wait(ctx)
}

// hostResult is the result of an experiment that ends in page-locked memory.
func hostResult(c *ferry.Host[float32]) func(context.Context) ([]float32, error) {
	return func(context.Context) ([]float32, error) { return c.Slice(), nil }
}
