package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/info"
	"github.com/ferrygpu/ferry/kernels"
)

// The bounds of the exponents that [Compare] accepts.
const (
	MinExponent = 0
	MaxExponent = 30
	MaxReuse    = 1000 // launches on the same inputs
)

// Hardware is warmed up for warmTime before the first sample, with vectors of
// 2^warmExponent floats.
const (
	warmExponent = 20
	warmTime     = 300 * time.Millisecond
)

// Options are the options of [Compare]. The zero value means 2^10 to 2^22 floats.
type Options struct {
	// Min and Max are the exponents of the sizes. If both are zero, they are 10 and 22.
	Min, Max int
	// Seed determines the order of the kinds and the inputs.
	Seed uint64
	// Budget is the time for all samples. Compare takes at least three samples of every
	// kind, even if that takes longer. Zero means 20 seconds.
	Budget time.Duration
	// Reuse is how often the kernel is launched on the same inputs, one comparison for
	// each number above 1. A comparison with one launch is always made.
	Reuse []int
	// Rates says to measure the link, and the kernel of [ZeroCopy] between two events.
	Rates bool
	// Kernel takes the place of the vector addition. Nil means vector addition.
	Kernel *OwnKernel
	// Progress, if not nil, is called before each size: done of total sizes are
	// complete, elements are next.
	Progress func(done, total, elements int)
}

func (o *Options) complete() (Options, error) {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Min == 0 && full.Max == 0 {
		full.Min, full.Max = 10, 22
	}
	if full.Budget == 0 {
		full.Budget = 20 * time.Second
	}
	if full.Min < MinExponent || full.Max > MaxExponent || full.Min > full.Max {
		return full, fmt.Errorf("compare: sizes from 2^%d to 2^%d: want %d <= min <= max <= %d", full.Min, full.Max, MinExponent, MaxExponent)
	}
	for _, n := range full.Reuse {
		if n < 1 || n > MaxReuse {
			return full, fmt.Errorf("compare: a reuse of %d: want 1 to %d", n, MaxReuse)
		}
	}
	full.Reuse = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(full.Reuse))), func(n int) bool { return n == 1 })
	return full, nil
}

// sizes returns how many sizes are measured, at each reuse.
func (o *Options) sizes() int { return (o.Max - o.Min + 1) * (1 + len(o.Reuse)) }

// Compare measures the vector addition of 2^Min to 2^Max floats with the vectors in every
// kind of memory that g has. If a result is wrong, it returns an error together with the
// comparison so far. Compare is safe for concurrent use, but other work on the device
// changes the times.
func Compare(ctx context.Context, g *ferry.GPU, o *Options) (*Comparison, error) {
	opts, err := o.complete()
	if err != nil {
		return nil, err
	}
	b, err := newComparer(g, opts.Kernel)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	defer b.close()
	b.order, b.seed = rand.New(rand.NewPCG(opts.Seed, 0)), uint32(opts.Seed)
	c := &Comparison{Device: info.Of(g), Kernel: opts.Kernel}
	if !g.Emulated() {
		if err := b.warmUp(ctx, 1<<min(opts.Max, warmExponent), warmTime); err != nil {
			return c, fmt.Errorf("compare: warm up %s: %w", g, err)
		}
	}
	run := &course{comparer: b, o: &opts, began: time.Now()}
	var wrong error
	for _, times := range append([]int{1}, opts.Reuse...) {
		rows, err := run.rows(ctx, times)
		if times == 1 {
			c.Rows = rows
		} else {
			c.Reuse = append(c.Reuse, Reuse{times, rows})
		}
		if err != nil && !errors.Is(err, errWrong) {
			return c, fmt.Errorf("compare on %s: %w", g, err)
		}
		wrong = errors.Join(wrong, err)
	}
	if opts.Rates {
		if c.Link, err = b.measureLink(ctx); err != nil {
			return c, fmt.Errorf("compare: measure the link of %s: %w", g, err)
		}
	}
	return c, wrong
}

// course is the progress of [Compare].
type course struct {
	*comparer
	o     *Options
	began time.Time
	done  int // sizes
}

// rows measures all sizes with a number of launches on the same inputs. It goes on after
// wrong results.
func (r *course) rows(ctx context.Context, times int) (rows []Row, wrong error) {
	o := r.o
	r.times, r.rates = times, o.Rates && times == 1
	for e := o.Min; e <= o.Max; e++ {
		if o.Progress != nil {
			o.Progress(r.done, o.sizes(), 1<<e)
		}
		left := max(o.Budget-time.Since(r.began), 0) / time.Duration(o.sizes()-r.done)
		row, err := r.size(ctx, 1<<e, left)
		if row != nil {
			rows = append(rows, *row)
		}
		if err != nil && !errors.Is(err, errWrong) {
			return rows, fmt.Errorf("2^%d floats: %w", e, err)
		}
		wrong = errors.Join(wrong, err)
		r.done++
	}
	return rows, wrong
}

// errWrong is in the error for results that are not the sums of the inputs.
var errWrong = errors.New("wrong result")

// plan decides how many samples to take.
type plan struct {
	warm        int           // rounds before the first sample
	least, most int           // samples of each kind
	budget      time.Duration // after this time, least samples are enough
}

// planFor returns the plan for n elements. A virtual clock has no noise. After a first
// round, which includes the costs of first use, one sample is enough. A second one is
// taken for small sizes, so that a clock that does vary is noticed.
func planFor(emulated bool, n int, budget time.Duration) plan {
	switch {
	case emulated && n > 1<<16:
		return plan{warm: 1, least: 1, most: 1}
	case emulated:
		return plan{warm: 1, least: 2, most: 2}
	}
	return plan{warm: 3, least: 3, most: 30, budget: budget}
}

// enough reports whether a kind needs no more samples: it has the most, or ten that
// agree, or the time is over.
func (p plan) enough(samples []time.Duration, elapsed time.Duration) bool {
	n := len(samples)
	switch {
	case n >= p.most:
		return true
	case n < p.least:
		return false
	case elapsed > p.budget:
		return true
	}
	return n >= 10 && summarize(append([]time.Duration(nil), samples...)).stable()
}

// floatsPerThread is how many floats a thread adds at a time.
const floatsPerThread = 4

// comparer has the device and the objects that all sizes share.
type comparer struct {
	g      *ferry.GPU
	stream *ferry.Stream
	module *ferry.Module
	add    *ferry.Kernel
	own    *OwnKernel // nil for the vector addition
	order  *rand.Rand
	seed   uint32 // of the last inputs
	times  int    // launches on the same inputs
	rates  bool   // also measure the kernel of ZeroCopy

	touched float32 // keeps the compiler from removing reads of memory
}

func newComparer(g *ferry.GPU, own *OwnKernel) (*comparer, error) {
	b := &comparer{g: g, own: own, times: 1}
	image, name := []byte(kernels.PTX), "vector_add"
	if own != nil {
		image, name = own.image, own.Name
	}
	var err error
	if b.stream, err = ferry.NewStream(g, nil); err != nil {
		return nil, err
	}
	if b.module, err = ferry.Load(g, image, nil); err != nil {
		b.close()
		return nil, err
	}
	if b.add, err = b.module.Kernel(name); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *comparer) close() {
	b.module.Close()
	b.stream.Close()
}

// size measures all kinds with vectors of n floats, in rounds of random order.
func (b *comparer) size(ctx context.Context, n int, budget time.Duration) (*Row, error) {
	lab, err := b.newLab(n)
	if err != nil {
		return nil, err
	}
	defer lab.close()
	p := planFor(b.g.Emulated(), n, budget)
	samples := make([][]time.Duration, pointCount)
	began := time.Now()
	for round := 0; ; round++ {
		warming := round < p.warm && (round == 0 || time.Since(began) < budget/5)
		measured := false
		for _, i := range b.order.Perm(len(lab.experiments)) {
			x := &lab.experiments[i]
			if !warming && p.enough(samples[x.kind], time.Since(began)) {
				continue
			}
			took, err := b.sample(ctx, x)
			if err != nil {
				return row(n, samples, false), fmt.Errorf("%s, 2^%d floats: %w", x.kind, (&Row{Elements: n}).exponent(), err)
			}
			measured = true
			if !warming {
				samples[x.kind] = append(samples[x.kind], took)
			}
		}
		if !measured && !warming {
			return row(n, samples, true), nil
		}
	}
}

// warmUp keeps the device and this processor busy until their clock rates are constant.
func (b *comparer) warmUp(ctx context.Context, n int, atLeast time.Duration) error {
	lab, err := b.newLab(n)
	if err != nil {
		return err
	}
	defer lab.close()
	for began := time.Now(); time.Since(began) < atLeast; {
		for i := range lab.experiments {
			if _, err := b.sample(ctx, &lab.experiments[i]); err != nil {
				return fmt.Errorf("%s, %d floats: %w", lab.experiments[i].kind, n, err)
			}
		}
	}
	return nil
}

func row(n int, samples [][]time.Duration, verified bool) *Row {
	r := &Row{Elements: n, Verified: verified}
	for k, s := range samples {
		if len(s) > 0 {
			p := summarize(s)
			r.Points[k] = &p
		}
	}
	return r
}

// sample runs one step of x on new inputs and verifies the result.
func (b *comparer) sample(ctx context.Context, x *experiment) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b.seed++
	if err := x.prepare(ctx, b.seed); err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	// A wait that can be cancelled uses another goroutine. The time to wake it would be
	// measured, so cancellation is only checked between samples.
	uncancelled := context.WithoutCancel(ctx)
	start := b.g.Now()
	err := x.step(uncancelled)
	if err != nil {
		return 0, err
	}
	took := b.g.Now() - start
	if x.took != nil {
		if took, err = x.took(); err != nil {
			return 0, err
		}
	}
	c, err := x.result(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the result: %w", err)
	}
	if err := x.verify(ctx, c, b.seed); err != nil {
		return 0, fmt.Errorf("%w: %w", errWrong, err)
	}
	return took, nil
}
