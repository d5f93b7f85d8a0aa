package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// predictor predicts times by running ways on software GPUs with a profile. It remembers
// what it ran. It is for one goroutine.
type predictor struct {
	prof  *profile.Profile
	work  int // see work
	moved int // see moved
	known map[question]prediction
}

// newPredictor returns a predictor whose runs are a part of the usual size.
func newPredictor(prof *profile.Profile, part int) *predictor {
	return &predictor{prof, work / part, moved / part, map[question]prediction{}}
}

// question is what a prediction answers.
type question struct {
	w way
	j Job
}

// prediction is a time with its terms.
type prediction struct {
	ns    float64
	terms []Term
	from  string // how it was computed from smaller runs, or ""
}

// work is how many words a kernel may read and write in one run. A larger job is predicted
// by a line through two smaller ones.
const work = 4 << 20

// farthest is how many times the larger size of a line a job may have. Beyond that, sizes
// are larger than work allows: a line from small sizes to large ones is not exact.
const farthest = 64

// moved is how many bytes the memory of a run may have. A larger pipeline is predicted by a
// line through two with fewer chunks, any other way by a line through two smaller sizes.
const moved = 256 << 20

// predict returns the predicted time of a way.
func (p *predictor) predict(ctx context.Context, w way, j Job) (prediction, error) {
	q := question{w, j}
	if known, ok := p.known[q]; ok {
		return known, nil
	}
	r, err := p.compute(ctx, w, j)
	if err == nil {
		p.known[q] = r
	}
	return r, err
}

// compute predicts a way by one run or, where that would take too long, by several.
func (p *predictor) compute(ctx context.Context, w way, j Job) (prediction, error) {
	large, huge := j.visits() > p.work, j.In+j.Out > p.moved
	switch {
	case w.path == Pipelined && huge && w.parts > 3*w.streams:
		return p.fewerChunks(ctx, w, j)
	case w.replaceable() && large:
		return p.delayed(ctx, w, j)
	case large && j.Reuse > 4:
		return p.fewerPasses(ctx, w, j)
	case w.path != Pipelined && huge, large && max(j.In, j.Out) > 1<<20 && j.Access.Kind != Table:
		return p.smaller(ctx, w, j)
	}
	return p.simulate(ctx, w, j)
}

// replaceable reports whether the kernel of a way uses device memory alone, so that one
// that lasts as long can stand for it.
func (w way) replaceable() bool {
	switch w.path {
	case Pipelined, Prefetched, EachTime:
		return true
	}
	return w.path == Copied && w.kind != Pinned
}

// visits is how many words the kernel of a job reads and writes.
func (j *Job) visits() int {
	each := j.reads()
	if j.delay > 0 {
		return 0
	}
	switch j.Access.Kind {
	case Table:
		each *= (j.threads(0) + blockThreads - 1) / blockThreads
	case Stencil:
		each *= j.Access.Number
	}
	return each*j.Reuse + j.Out/4
}

// delayed predicts a way with kernels that only last as long as the kernel, or that of a
// chunk, on device memory.
func (p *predictor) delayed(ctx context.Context, w way, j Job) (prediction, error) {
	parts := max(1, w.parts)
	alone, err := p.kernelAlone(ctx, j.part(0, parts))
	if err != nil {
		return prediction{}, err
	}
	least, err := p.kernelAlone(ctx, Job{In: 4, Reuse: 1, Access: Access{Kind: Stream}, Devices: 1, Threads: 1})
	j.delay = time.Duration(max(1000, alone-least)) * time.Duration(parts)
	if err != nil {
		return prediction{}, err
	}
	out, err := p.predict(ctx, w, j)
	if out.from == "" {
		out.from = "the kernel's time on device memory"
	}
	return out, err
}

// kernelAlone returns the time of the kernel on device memory in nanoseconds.
func (p *predictor) kernelAlone(ctx context.Context, j Job) (float64, error) {
	j.HostReads, j.Source, j.Devices = false, Slice, 1
	r, err := p.predict(ctx, way{kind: Pinned, path: Copied}, j)
	return float64(nsOf(r.terms, "kernel")), err
}

// fewerPasses predicts by a line through 2 and 4 passes.
func (p *predictor) fewerPasses(ctx context.Context, w way, j Job) (prediction, error) {
	few, more := j, j
	few.Reuse, more.Reuse = 2, 4
	return p.line(ctx, w, w, few, more, float64(j.Reuse-2)/2, "2 and 4 passes")
}

// smaller predicts by a line through two smaller sizes.
func (p *predictor) smaller(ctx context.Context, w way, j Job) (prediction, error) {
	parts := 2
	for part := j.part(0, parts); part.In+part.Out > p.moved || part.visits() > p.work && max(part.In, part.Out) > 1<<20; part = j.part(0, parts) {
		if parts >= farthest && part.visits() <= 8*p.work && part.In+part.Out <= p.moved {
			break
		}
		parts *= 2
	}
	more, few := j.part(0, parts), j.part(0, 2*parts)
	return p.line(ctx, w, w, few, more, float64(2*parts-1), fmt.Sprintf("%s and %s", sizes(&few), sizes(&more)))
}

// fewerChunks predicts by a line through fewer chunks of the same size.
func (p *predictor) fewerChunks(ctx context.Context, w way, j Job) (prediction, error) {
	less, least := w, w
	less.parts, least.parts = 3*w.streams, 2*w.streams
	some := func(parts int) Job {
		part := j.part(0, w.parts)
		part.In, part.Out = part.In*parts, part.Out*parts
		part.Kernel, part.delay = part.Kernel*time.Duration(parts), part.delay*time.Duration(parts)
		return part
	}
	return p.line(ctx, least, less, some(least.parts), some(less.parts), float64(w.parts-least.parts)/float64(w.streams),
		fmt.Sprintf("%d and %d chunks", least.parts, less.parts))
}

// sizes describes the sizes of a job.
func sizes(j *Job) string {
	switch {
	case j.In == 0:
		return sizeText(j.Out)
	case j.Out == 0 || j.Out == j.In:
		return sizeText(j.In)
	}
	return sizeText(j.In) + " to " + sizeText(j.Out)
}

// line predicts by a straight line through two jobs. The point is times their distance from
// the first job.
func (p *predictor) line(ctx context.Context, w1, w2 way, few, more Job, times float64, what string) (prediction, error) {
	a, err := p.predict(ctx, w1, few)
	if err != nil {
		return a, err
	}
	b, err := p.predict(ctx, w2, more)
	if err != nil {
		return b, err
	}
	out := prediction{from: "a line through " + what}
	names := slices.Clone(a.terms)
	for _, t := range b.terms {
		names = addTerm(names, Term{t.Name, 0, t.Source})
	}
	for _, t := range names {
		x, y := float64(nsOf(a.terms, t.Name)), float64(nsOf(b.terms, t.Name))
		ns := math.Round(max(0, x+(y-x)*times))
		out.terms = addTerm(out.terms, Term{t.Name, int64(ns), t.Source})
		out.ns += ns
	}
	return out, nil
}

// simulate runs a way on new devices, which nothing before has changed.
func (p *predictor) simulate(ctx context.Context, w way, j Job) (out prediction, err error) {
	d, err := softgpu.Open(softgpu.Options{Profile: p.prof, Devices: j.Devices, Schedule: softgpu.Eager, Context: ctx})
	if err != nil {
		return out, err
	}
	var labs []*lab
	defer func() {
		for _, l := range labs {
			err = errors.Join(err, l.close(0), l.g.Close())
		}
	}()
	for i := range j.Devices {
		l, err := openLab(d, i)
		if err != nil {
			return out, err
		}
		labs = append(labs, l)
	}
	warm := Job{In: min(j.In, 4096), Out: min(j.Out, 4096), Reuse: 1, Access: Access{Kind: Stream}, Devices: j.Devices, Source: j.Source}
	if _, err := p.sample(ctx, d, labs, way{w.kind, w.path, min(w.parts, 2), w.streams}, warm, 1); err != nil {
		return out, err
	}
	return p.sample(ctx, d, labs, w, j, mostRounds)
}

// leastRounds and mostRounds are how many steps a way makes on a software GPU until two
// have nearly the same time: the staging ring grows, and managed pages have places.
func (w way) leastRounds() int {
	if w.kind == Pageable || w.kind == Managed {
		return 3
	}
	return 1
}

const mostRounds = 8

func openLab(d cu.Driver, ordinal int) (*lab, error) {
	g, err := ferry.OpenDriver(d, ordinal)
	if err != nil {
		return nil, err
	}
	l, err := newLab(g)
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return l, nil
}

// trials prepares a way on several devices, which share the data.
func trials(labs []*lab, w way, j *Job) (all []*trial, err error) {
	for i, l := range labs {
		part := j.part(i, len(labs))
		t, err := l.trial(w, &part)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// sample runs a way until its time is constant, but no more than most times. It returns the
// last time with its terms.
func (p *predictor) sample(ctx context.Context, d *softgpu.Driver, labs []*lab, w way, j Job, most int) (out prediction, err error) {
	all, err := trials(labs, w, &j)
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.close())
		}
	}()
	if err != nil {
		return out, err
	}
	for i := 0; i < most; i++ {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		r := &recorder{}
		d.Observe(r)
		took, err := run(ctx, all)
		d.Observe(nil)
		if err != nil {
			return out, err
		}
		before := out.ns
		out = prediction{ns: float64(took), terms: p.terms(all, r, took)}
		if i+1 >= w.leastRounds() && (w.leastRounds() == 1 || math.Abs(out.ns-before) < 0.01*before) {
			break
		}
	}
	return out, nil
}

// terms returns the terms of a run.
func (p *predictor) terms(all []*trial, r *recorder, took time.Duration) []Term {
	began := all[0].began
	terms := timeline(r.spans, began, began+took)
	var reads time.Duration
	for _, t := range all {
		reads += t.reads
	}
	return take(terms, termReturn, termReads, "run", int64(reads))
}
