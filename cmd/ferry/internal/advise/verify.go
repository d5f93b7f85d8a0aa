package advise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
)

// Verification says how the advice compares with measurements.
type Verification struct {
	Device   string  `json:"device"`   // on which it was measured
	Emulated bool    `json:"emulated"` // by the software GPU: the times are predictions, too
	Samples  int     `json:"samples"`  // of each alternative at least; medians are shown
	Best     Choice  `json:"best"`     // the fastest measured one
	Ratio    float64 `json:"ratio"`    // the advised one's time to that
	Kind     float64 `json:"kind_ratio"`
	Holds    bool    `json:"holds"` // the advised kind is at most 5 % slower
}

// tolerance is by how much the advised kind may be slower than the best measured one.
const tolerance = 1.05

// Samples and times of a verification on hardware.
const (
	warmSteps    = 3
	leastSamples = 5
	mostSamples  = 21
	budgetEach   = 60 * time.Millisecond
	warmUpTime   = 300 * time.Millisecond
	warmUpBytes  = 4 << 20
)

// Verify measures the alternatives of a report on g, and adds the measured times to it.
func Verify(ctx context.Context, g *ferry.GPU, r *Report, progress func(done, total int, what string)) (err error) {
	labs, err := labsOf(g, r.job.Devices)
	defer func() {
		for _, l := range labs {
			err = errors.Join(err, l.close(0))
			if l.g != g {
				err = errors.Join(err, l.g.Close())
			}
		}
	}()
	if err == nil && !g.Emulated() {
		err = warmUp(ctx, labs)
	}
	if err != nil {
		return fmt.Errorf("verify on %s: %w", g, err)
	}
	v := &Verification{Device: g.String(), Emulated: g.Emulated()}
	samples, err := measure(ctx, labs, r, progress)
	if err != nil {
		return fmt.Errorf("verify on %s: %w", g, err)
	}
	for i, all := range samples {
		slices.Sort(all)
		ns := int64(all[len(all)/2])
		r.Alternatives[i].Measured = &ns
		if i == 0 || len(all) < v.Samples {
			v.Samples = len(all)
		}
	}
	v.judge(r)
	r.Verified = v
	return nil
}

// judge compares the advised way and kind with the best measured one.
func (v *Verification) judge(r *Report) {
	best, kind := &r.Alternatives[0], *r.Alternatives[0].Measured
	for i := range r.Alternatives {
		a := &r.Alternatives[i]
		if *a.Measured < *best.Measured {
			best = a
		}
		if a.Kind == r.Best.Kind {
			kind = min(kind, *a.Measured)
		}
	}
	v.Best = best.Choice
	v.Ratio = float64(*r.Alternatives[0].Measured) / float64(max(1, *best.Measured))
	v.Kind = float64(kind) / float64(max(1, *best.Measured))
	v.Holds = v.Ratio <= tolerance
}

// labsOf prepares n devices, the first of which is g.
func labsOf(g *ferry.GPU, n int) (labs []*lab, err error) {
	for i := range n {
		device := g
		if i > 0 {
			if device, err = ferry.OpenDriver(g.Driver(), i); err != nil {
				return labs, fmt.Errorf("device %d of %d: %w", i, n, err)
			}
		}
		l, err := newLab(device)
		if err != nil {
			return labs, err
		}
		labs = append(labs, l)
	}
	return labs, nil
}

// warmUp keeps the devices busy until their clock rates are constant.
func warmUp(ctx context.Context, labs []*lab) (err error) {
	j := Job{In: warmUpBytes, Out: warmUpBytes, Reuse: 8, Access: Access{Kind: Stream}}
	all, err := trials(labs, way{kind: Pinned, path: Copied}, &j)
	for began := time.Now(); err == nil && time.Since(began) < warmUpTime; {
		_, err = run(ctx, all)
	}
	for _, t := range all {
		err = errors.Join(err, t.close())
	}
	return err
}

// measure takes samples of all alternatives, each in two turns, in random order: the speed
// of a host varies from second to second.
func measure(ctx context.Context, labs []*lab, r *Report, progress func(done, total int, what string)) ([][]time.Duration, error) {
	samples := make([][]time.Duration, len(r.Alternatives))
	turns := 2
	if labs[0].g.Emulated() {
		turns = 1
	}
	for turn := range turns {
		for n, i := range rand.New(rand.NewPCG(uint64(turn), 0)).Perm(len(samples)) {
			if progress != nil {
				progress(turn*len(samples)+n, turns*len(samples), fmt.Sprintf("measuring %v", r.Alternatives[i].way))
			}
			some, err := measureWay(ctx, labs, r.Alternatives[i].way, &r.job, turns)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], some...)
		}
	}
	return samples, nil
}

// measureWay takes the samples of a way in one turn. turns is the number of all turns.
func measureWay(ctx context.Context, labs []*lab, w way, j *Job, turns int) (samples []time.Duration, err error) {
	all, err := trials(labs, w, j)
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.close())
		}
	}()
	warm, least, most := warmSteps, (leastSamples+turns-1)/turns, (mostSamples+turns-1)/turns
	if labs[0].g.Emulated() { // a virtual clock has no noise
		warm, least, most = 4, 1, 1
		if w.leastRounds() == 1 {
			warm = 0
		}
	}
	began := time.Now()
	for i := 0; err == nil && (len(samples) < least || len(samples) < most && time.Since(began) < budgetEach); i++ {
		if err = ctx.Err(); err != nil {
			return nil, err
		}
		var took time.Duration
		if took, err = run(ctx, all); i >= warm {
			samples = append(samples, took)
		}
	}
	return samples, err
}
