package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/softgpu"
)

// Spec is a launch. Program, Kernel, Grid and Block must be given.
type Spec struct {
	Program     *Program
	Kernel      string
	Grid, Block cu.Dim3
	Shared      int // bytes of dynamic shared memory
	Memory      Memory
	Seed        uint64        // for random data
	Args        []Arg         // in the order of the kernel's parameters
	LoadLimit   time.Duration // of loading the program into the device; 0 for none
	// Progress, if not nil, is called at the start of each phase.
	Progress func(phase string)
}

// run is the state of one run.
type run struct {
	g       *ferry.GPU
	spec    *Spec
	stream  *ferry.Stream
	kernel  *ferry.Kernel
	buffers []*buffer
	args    []any // for Launch
	closers []func() error
}

// Check finds errors that do not depend on a device: a missing kernel, arguments that do
// not fit it, missing files.
func (s *Spec) Check() error {
	f, err := s.Program.kernel(s.Kernel)
	if err != nil {
		return err
	}
	params, _ := f.ParamLayout()
	if err := Match(f.Name, params, s.Args); err != nil {
		return err
	}
	for i := range s.Args {
		if _, err := s.Args[i].Size(); err != nil {
			return err
		}
	}
	return nil
}

// Run launches a kernel on g and returns the result. If a kernel that is checked fails, there is
// a result beside the error, with the findings and without outputs. When ctx ends, Run returns at once. It
// does so with a [LoadLimitError] when Spec.LoadLimit ends.
// A kernel that still runs, and its memory, are then left until the process ends, because
// freeing the memory would wait for the kernel.
func Run(ctx context.Context, g *ferry.GPU, s *Spec) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	r := &run{g: g, spec: s}
	defer func() {
		if ctx.Err() == nil {
			r.close()
		}
	}()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	f, _ := s.Program.kernel(s.Kernel)
	result := &Result{
		Device: info.Of(g), Kernel: s.Kernel, Grid: s.Grid, Block: s.Block, Shared: s.Shared,
		Memory: s.Memory, Seed: s.Seed, Threads: s.Grid.Count() * s.Block.Count(), Warnings: typeWarnings(f, s.Args),
	}
	err := r.launch(ctx, result)
	if d := softgpu.Of(g.Driver()); d != nil {
		result.Checked, result.Findings, result.GaveUp = d.Checks(), d.Findings(), d.GaveUp()
	}
	switch {
	case err != nil && result.Checked && ctx.Err() == nil:
		return result, r.explain(err)
	case err != nil:
		return nil, r.explain(err)
	}
	r.phase("reading the outputs")
	for _, b := range r.buffers {
		if b.arg.Direction == In {
			continue
		}
		out, err := r.download(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("read %s back: %w", b.describe(), err)
		}
		result.Outputs = append(result.Outputs, out)
	}
	return result, nil
}

func (r *run) phase(name string) {
	if r.spec.Progress != nil {
		r.spec.Progress(name)
	}
}

// setUp loads the module and prepares all arguments.
func (r *run) setUp(ctx context.Context) error {
	r.phase("loading the kernel")
	module, err := within(ctx, r.spec.LoadLimit, r.spec.Program.File, func() (*ferry.Module, error) {
		return ferry.Load(r.g, []byte(r.spec.Program.Source), nil)
	})
	if late, isLate := errors.AsType[*LoadLimitError](err); isLate {
		return late
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", r.spec.Program.File, err)
	}
	r.closers = append(r.closers, module.Close)
	f, err := r.spec.Program.kernel(r.spec.Kernel)
	if err != nil {
		return err
	}
	if r.kernel, err = module.Kernel(f.Name); err != nil {
		return err
	}
	if r.stream, err = ferry.NewStream(r.g, nil); err != nil {
		return err
	}
	r.closers = append(r.closers, r.stream.Close)
	r.phase("preparing the arguments")
	for i := range r.spec.Args {
		a := &r.spec.Args[i]
		if a.Direction == Scalar {
			r.args = append(r.args, a.Value())
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.addBuffer(ctx, i, a)
		if err != nil {
			return fmt.Errorf("parameter %d, %s: %w", i, shorten(a.Text, 60), err)
		}
		r.args = append(r.args, b.memory)
	}
	return r.stream.Wait(ctx)
}

func (r *run) addBuffer(ctx context.Context, parameter int, a *Arg) (*buffer, error) {
	size, err := a.Size()
	if err != nil {
		return nil, err
	}
	b := &buffer{parameter: parameter, arg: a, size: size}
	if err := r.allocate(b); err != nil {
		return nil, err
	}
	r.buffers = append(r.buffers, b)
	r.closers = append(r.closers, b.close)
	return b, r.upload(ctx, b)
}

// launch runs the kernel between two events and measures its time.
func (r *run) launch(ctx context.Context, result *Result) error {
	before, err := ferry.NewEvent(r.g, nil)
	if err != nil {
		return err
	}
	defer before.Close()
	after, err := ferry.NewEvent(r.g, nil)
	if err != nil {
		return err
	}
	defer after.Close()
	if err := r.stream.Record(before); err != nil {
		return err
	}
	r.phase("running the kernel")
	config := ferry.LaunchConfig{Grid: r.spec.Grid, Block: r.spec.Block, SharedBytes: r.spec.Shared}
	start := time.Now()
	if err := r.stream.Launch(r.kernel, config, r.args...); err != nil {
		return err
	}
	if err := r.stream.Record(after); err != nil {
		return err
	}
	if err := r.stream.Wait(ctx); err != nil {
		return err
	}
	result.Wall = time.Since(start)
	result.DeviceTime, err = after.Since(before)
	return err
}

// close closes everything in reverse order. It ignores errors, because a wait has
// already returned them.
func (r *run) close() {
	for i := len(r.closers) - 1; i >= 0; i-- {
		_ = r.closers[i]()
	}
}
