package grid

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

// Options are the options of [Measure]. The zero value means all cases.
type Options struct {
	// Set is the set of cases.
	Set Set
	// Only, if not nil, selects cases of the set.
	Only func(Case) bool
	// Quick selects a few sizes of each kind ([Case.Quick]), and takes fewer samples on
	// hardware: at most 14 in two passes.
	Quick bool
	// Budget is the time for each case. Measure takes at least three samples on hardware,
	// even if that takes longer. Zero means 80 ms, or 16 ms with Quick.
	Budget time.Duration
	// Limit is the time for all cases. No turn of a case begins after it, except the first
	// one. The cases of [Case.Quick] come first then. Zero means no limit.
	Limit time.Duration
	// Progress, if not nil, is called before each turn of a case.
	Progress func(done, total int, next Case)
}

// Measure measures the cases on g. It is safe for concurrent use, but other work on the
// device changes the times. With an error it returns the results so far.
func Measure(ctx context.Context, g *ferry.GPU, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	r, err := newRig(g)
	if err == nil && o.Set == Patterns {
		err = r.load(patternsPTX, patternKernels)
	}
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", g, err)
	}
	m := &measurement{rig: r, o: o, samples: map[Case][]float64{}, skipped: map[Case]string{}}
	out := &Result{Schema: Schema, Device: info.Of(g), Predicted: g.Emulated(), Machine: machineOf(g), Mode: o.mode()}
	if out.Predicted && o.Set == Patterns {
		out.Marked = markedFamilies()
	}
	cases := m.choose()
	if !g.Emulated() && len(cases) > 0 {
		if err := r.warmUp(); err != nil {
			return out, fmt.Errorf("measure %s: warm up: %w", g, err)
		}
	}
	err = m.passes(ctx, cases)
	for _, c := range cases {
		switch {
		case len(m.samples[c]) > 0:
			out.Points = append(out.Points, point(c, m.samples[c]))
		case m.late && m.skipped[c] == "":
			out.LeftOut = append(out.LeftOut, c)
		}
	}
	out.Skipped = m.skips()
	if err != nil {
		return out, fmt.Errorf("measure %s: %w", g, err)
	}
	return out, nil
}

// The modes of a result.
const (
	modeFull  = "full"
	modeQuick = "quick"
)

func (o *Options) mode() string {
	if o.Quick {
		return modeQuick
	}
	return modeFull
}

// turn is one of the turns in which a case is measured.
type turn struct {
	Case
	of int // number of turns of the case
}

func kindOf(c Case) kind {
	for _, s := range []Set{Operations, Patterns} {
		for _, k := range s.kinds() {
			if k.name == c.Kind {
				return k
			}
		}
	}
	return kind{}
}

// warmTime is how long hardware is kept busy before the first sample, until its clock rates
// are constant.
const warmTime = 300 * time.Millisecond

func (r *rig) warmUp() error {
	t, err := kernelComputes(r, 1024)
	for began := time.Now(); err == nil && time.Since(began) < warmTime; {
		err = t.step()
	}
	if failed := r.release(); err == nil {
		err = failed
	}
	return err
}

// measure takes the samples of one turn.
func (r *rig) measure(ctx context.Context, t turn, o *Options) ([]float64, error) {
	x, err := kindOf(t.Case).make(r, t.Size)
	if err == nil {
		err = r.sync()
	}
	var samples []float64
	if err == nil {
		samples, err = r.sample(ctx, x, t.of, o)
	}
	if failed := r.release(); err == nil {
		err = failed
	}
	return samples, err
}

func point(c Case, samples []float64) Point {
	slices.Sort(samples)
	at := func(percent int) float64 { return samples[max((percent*len(samples)+99)/100, 1)-1] }
	return Point{Case: c, Median: at(50), P5: at(5), P95: at(95), Samples: len(samples)}
}

// sample takes the samples of a trial in one turn. turns is the number of all turns. A
// virtual clock has no noise.
// After a first round, which includes the costs of first use, one sample is enough.
func (r *rig) sample(ctx context.Context, t trial, turns int, o *Options) ([]float64, error) {
	budget, all := o.Budget, 25
	if budget == 0 {
		budget = 80 * time.Millisecond
	}
	if o.Quick {
		all = 14
		if o.Budget == 0 {
			budget = 16 * time.Millisecond
		}
	}
	budget /= time.Duration(turns)
	warm, least, most := 2, (3+turns-1)/turns, (all+turns-1)/turns
	if r.emulated != nil {
		warm, least, most = 1, 1, 1
	}
	var samples []float64
	began := time.Now()
	for i := 0; len(samples) < most && (len(samples) < least || time.Since(began) < budget); i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		took, err := r.once(t)
		if err != nil {
			return nil, err
		}
		if i >= warm {
			samples = append(samples, float64(took))
		}
	}
	return samples, nil
}

// once takes one sample.
func (r *rig) once(t trial) (time.Duration, error) {
	if t.prepare != nil {
		if err := t.prepare(); err != nil {
			return 0, fmt.Errorf("prepare: %w", err)
		}
	}
	took, err := r.time(t)
	if err == nil && t.after != nil {
		err = t.after()
	}
	return took, err
}

// time runs the step of a trial and returns its time.
func (r *rig) time(t trial) (time.Duration, error) {
	if t.events {
		return r.timeByEvents(t.step)
	}
	began := r.g.Now()
	err := t.step()
	return r.g.Now() - began, err
}

// timeByEvents returns the time from an event before what submit submits to one after it.
func (r *rig) timeByEvents(submit func() error) (time.Duration, error) {
	if err := r.d.EventRecord(r.ctx, r.event, r.stream); err != nil {
		return 0, err
	}
	if err := submit(); err != nil {
		return 0, err
	}
	if err := r.d.EventRecord(r.ctx, r.stop, r.stream); err != nil {
		return 0, err
	}
	if err := r.sync(); err != nil {
		return 0, err
	}
	ms, err := r.d.EventElapsedTime(r.ctx, r.event, r.stop)
	return time.Duration(math.Round(float64(ms) * 1e6)), err
}
