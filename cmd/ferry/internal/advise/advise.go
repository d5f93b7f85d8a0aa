package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// fallbackProfile predicts for hardware that no shipped profile describes.
const fallbackProfile = "h200"

// Options are the options of [For] beside the job. The zero value is valid.
type Options struct {
	// NoFlips leaves out where the choice changes, which takes most of the time.
	NoFlips bool
	// Progress, if not nil, is called before each part of the work.
	Progress func(done, total int, what string)
}

// For returns advice for a job on g. The times are those of software GPUs with the profile
// of g, or of the machine that g is.
func For(ctx context.Context, g *ferry.GPU, j Job, o *Options) (*Report, error) {
	if err := j.Check(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	progress := o.Progress
	if progress == nil {
		progress = func(int, int, string) {}
	}
	prof, note, err := machine(g)
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	r := &Report{Schema: Schema, Device: g.String(), Profile: prof.Name, Predicted: true, Job: j.json(), Flips: []Flip{}, Notes: []string{}, job: j}
	if note != "" {
		r.Notes = append(r.Notes, note)
	}
	p := newPredictor(prof, 1)
	if err := r.compare(ctx, g, p, progress); err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	if !o.NoFlips {
		progress(2, 4, "looking for what changes the choice")
		if r.Flips, err = flips(ctx, g, newPredictor(prof, 4), r); err != nil {
			return nil, fmt.Errorf("advise: %w", err)
		}
	}
	r.Go, err = code(r.Alternatives[0].way, &j)
	return r, err
}

// machine returns the profile that stands for a device, and a remark if it is that of
// another machine.
func machine(g *ferry.GPU) (*profile.Profile, string, error) {
	if s := softgpu.Of(g.Driver()); s != nil {
		return s.Machine(), "", nil
	}
	if p := profile.ForDevice(g.Name()); p != nil {
		return p, "", nil
	}
	p, err := profile.Named(fallbackProfile)
	return p, fmt.Sprintf("no profile describes %s: the predictions are for %s", g.Name(), fallbackProfile), err
}

// compare fills in the alternatives, the best first.
func (r *Report) compare(ctx context.Context, g *ferry.GPU, p *predictor, progress func(int, int, string)) error {
	ways, left, err := candidates(g, &r.job)
	if err != nil {
		return err
	}
	r.Notes = append(r.Notes, left...)
	for i, w := range ways {
		progress(0, 4, fmt.Sprintf("predicting %d of %d: %v", i+1, len(ways), w))
		if err := r.add(ctx, p, w); err != nil {
			return err
		}
	}
	progress(1, 4, "searching chunks and streams")
	for _, w := range ways {
		if w.path != Copied || w.kind == Pageable || !r.job.Access.divides() {
			continue
		}
		best, tried, err := search(ctx, p, w.kind, r.job)
		if err == nil && best.parts > 0 {
			err = p.settle(ctx, best, r.job)
		}
		if err == nil && best.parts > 0 {
			err = r.add(ctx, p, best)
		}
		if err != nil {
			return err
		}
		if tried > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d combinations of chunks and streams were tried in %s memory", tried, w.kind))
		}
	}
	slices.SortStableFunc(r.Alternatives, func(a, b Alternative) int { return cmp.Compare(a.Predicted, b.Predicted) })
	r.preferPlain()
	r.Best = r.Alternatives[0].Choice
	if err := r.split(ctx, p); err != nil {
		return err
	}
	for i := range r.Alternatives {
		r.Alternatives[i].Why = r.why(&r.Alternatives[i])
	}
	r.remark()
	return nil
}

// preferPlain puts zero-copy in memory that the CPU can also read before write-combined
// memory, if that is not faster.
func (r *Report) preferPlain() {
	for i, a := range r.Alternatives {
		if a.way.kind != WriteCombined {
			continue
		}
		k := slices.IndexFunc(r.Alternatives, func(b Alternative) bool { return b.way == way{kind: ZeroCopy, path: Mapped} })
		if k > i && float64(r.Alternatives[k].Predicted) < equal*float64(a.Predicted) {
			plain := r.Alternatives[k]
			r.Alternatives = slices.Insert(slices.Delete(r.Alternatives, k, k+1), i, plain)
		}
		return
	}
}

// equal is the ratio of times below which none is faster.
const equal = 1.005

// add predicts a way and adds it to the alternatives.
func (r *Report) add(ctx context.Context, p *predictor, w way) error {
	x, err := p.predict(ctx, w, r.job)
	if err != nil {
		return err
	}
	c := Choice{Kind: w.kind, Path: w.path, ChunkBytes: w.chunk(&r.job), Streams: max(1, w.streams), Predicted: int64(x.ns)}
	r.Alternatives = append(r.Alternatives, Alternative{Choice: c, Terms: x.terms, Extrapolated: x.from, way: w})
	return nil
}

// split divides the kernels that use host memory or managed memory: what they take on
// device memory, and the rest, which is the link's or that of moving pages.
func (r *Report) split(ctx context.Context, p *predictor) error {
	alone, err := p.kernelAlone(ctx, r.job)
	if err != nil {
		return err
	}
	for i := range r.Alternatives {
		a := &r.Alternatives[i]
		name := termLink
		switch {
		case a.way.path == OnDemand:
			name = termPages
		case a.way.kind == Managed || !a.way.inPlace() && !a.way.outPlace():
			continue
		}
		a.Terms = slices.Clone(a.Terms)
		a.Terms = take(a.Terms, "kernel", name, "run", nsOf(a.Terms, "kernel")-int64(alone))
		a.Terms = slices.DeleteFunc(a.Terms, func(t Term) bool { return t.Ns == 0 })
	}
	return nil
}

// number formats a number without an exponent, with four digits if it is small.
func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// remark adds what else to know about the best.
func (r *Report) remark() {
	if r.job.Rate > 0 {
		most := 1e9 / float64(max(1, r.Best.Predicted))
		text := fmt.Sprintf("%s calls a second keep the best busy for %.3g %% of the time", number(r.job.Rate), 100*r.job.Rate/most)
		if r.job.Rate > most {
			text = fmt.Sprintf("%s calls a second are too many: the best makes %s", number(r.job.Rate), number(most))
		}
		r.Notes = append(r.Notes, text)
	}
	if r.job.Devices > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("each of %d devices has an equal part and a link of its own", r.job.Devices))
	}
	if r.job.Source == File {
		r.Notes = append(r.Notes, "reading the file into this memory is not in the times")
	}
	for _, a := range r.Alternatives {
		if a.Extrapolated != "" {
			r.Notes = append(r.Notes, "times with ~ are extrapolated from smaller runs")
			break
		}
	}
}
