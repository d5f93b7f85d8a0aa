package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// floatsPerThread is how many floats a thread adds at a time.
const floatsPerThread = 4

// bench is the device, and what all sizes have in common.
type bench struct {
	g      *ferry.GPU
	stream *ferry.Stream
	module *ferry.Module
	add    *ferry.Kernel
	order  *rand.Rand
	seed   uint32 // of the last inputs

	touched float32 // keeps reads of memory from being optimised away
}

func newBench(g *ferry.GPU) (*bench, error) {
	b := &bench{g: g}
	var err error
	if b.stream, err = ferry.NewStream(g, nil); err != nil {
		return nil, err
	}
	if b.module, err = ferry.Load(g, []byte(kernels.PTX)); err != nil {
		b.close()
		return nil, err
	}
	if b.add, err = b.module.Kernel("vector_add"); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	b.module.Close()
	b.stream.Close()
}

// size measures all kinds with vectors of n floats, in rounds of random order.
func (b *bench) size(ctx context.Context, n int, budget time.Duration) (*Row, error) {
	lab, err := b.newLab(n)
	if err != nil {
		return nil, err
	}
	defer lab.close()
	p := planFor(b.g.Emulated(), n, budget)
	samples := make([][]time.Duration, kindCount)
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

// warmUp keeps the device and this processor busy until their clocks are steady.
func (b *bench) warmUp(ctx context.Context, n int, atLeast time.Duration) error {
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

// sample runs one step of x on inputs that no step has seen, and verifies it.
func (b *bench) sample(ctx context.Context, x *experiment) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b.seed++
	if err := x.prepare(ctx, b.seed); err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	// A wait that can be cancelled goes through another goroutine: its waking
	// would be measured. Ctrl-C is seen between samples.
	steady := context.WithoutCancel(ctx)
	start := b.g.Now()
	if err := x.step(steady); err != nil {
		return 0, err
	}
	took := b.g.Now() - start
	c, err := x.result(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the result: %w", err)
	}
	if err := verify(c, b.seed); err != nil {
		return 0, fmt.Errorf("%w: %w", errWrong, err)
	}
	return took, nil
}
