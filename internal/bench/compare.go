package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/info"
)

// The bounds of the exponents that [Compare] takes.
const (
	MinExponent = 0
	MaxExponent = 30
)

// Hardware is busy with vectors of 2^warmExponent floats for warmTime before the
// first sample.
const (
	warmExponent = 20
	warmTime     = 300 * time.Millisecond
)

// Options says what [Compare] measures. The zero value is 2^10 to 2^22 floats.
type Options struct {
	// Min and Max are the exponents of the sizes; both zero means 10 and 22.
	Min, Max int
	// Seed makes the order of the kinds and the inputs.
	Seed uint64
	// Budget is the time for all samples; it is overrun where three samples of
	// every kind take longer. Zero means 20 seconds.
	Budget time.Duration
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
	return full, nil
}

// Compare measures the vector addition of 2^Min to 2^Max floats with the
// vectors in every kind of memory that g has. Results that are wrong make an
// error, and the comparison as far as it got is returned with it. It is safe
// for concurrent use, but measures what else runs on the device, too.
func Compare(ctx context.Context, g *ferry.GPU, o *Options) (*Comparison, error) {
	opts, err := o.complete()
	if err != nil {
		return nil, err
	}
	b, err := newBench(g)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	defer b.close()
	b.order, b.seed = rand.New(rand.NewPCG(opts.Seed, 0)), uint32(opts.Seed)
	c := &Comparison{Device: info.Of(g)}
	if !g.Emulated() {
		if err := b.warmUp(ctx, 1<<min(opts.Max, warmExponent), warmTime); err != nil {
			return c, fmt.Errorf("compare: warm up %s: %w", g, err)
		}
	}
	began := time.Now()
	var wrong error
	for e := opts.Min; e <= opts.Max; e++ {
		if opts.Progress != nil {
			opts.Progress(e-opts.Min, opts.Max-opts.Min+1, 1<<e)
		}
		left := max(opts.Budget-time.Since(began), 0) / time.Duration(opts.Max-e+1)
		row, err := b.size(ctx, 1<<e, left)
		if row != nil {
			c.Rows = append(c.Rows, *row)
		}
		if err != nil && errors.Is(err, errWrong) {
			wrong = errors.Join(wrong, err)
			continue
		}
		if err != nil {
			return c, fmt.Errorf("compare 2^%d floats on %s: %w", e, g, err)
		}
	}
	return c, wrong
}

// errWrong is what results that are not the sums of the inputs wrap.
var errWrong = errors.New("wrong result")

// plan is how many samples to take.
type plan struct {
	warm        int           // rounds before the first sample
	least, most int           // samples of each kind
	budget      time.Duration // after which least is enough
}

// planFor knows that a virtual clock has no noise: after a first round, which
// brings what only the first use costs, one sample says it all. A second is
// taken where it is cheap, so that a clock that does vary would show.
func planFor(emulated bool, n int, budget time.Duration) plan {
	switch {
	case emulated && n > 1<<16:
		return plan{warm: 1, least: 1, most: 1}
	case emulated:
		return plan{warm: 1, least: 2, most: 2}
	}
	return plan{warm: 3, least: 3, most: 30, budget: budget}
}

// enough says whether a kind needs no more samples: there are most, or ten that
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
	return n >= 10 && summarize(append([]time.Duration(nil), samples...)).steady()
}
