package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bench/grid"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// fitter fits the numbers of p.
type fitter struct {
	p        *profile.Profile
	measured map[grid.Case]float64 // ns
	only     string                // only paths with this prefix are fitted
}

// reset sets p to the start of every fit.
func (f *fitter) reset() {
	for i := range groups {
		for _, n := range groups[i].numbers {
			if f.wants(n.path) {
				*n.in(f.p) = profile.Number{Value: n.start, Source: fitSource}
			}
		}
	}
	for i := range curves {
		if c := &curves[i]; f.wants(c.path) {
			*c.in(f.p) = profile.Curve{Points: []profile.Point{{}}, Source: fitSource}
		}
	}
}

func (f *fitter) wants(path string) bool { return strings.HasPrefix(path, f.only) }

// predict returns the software GPU's predictions of the measured cases that want
// accepts.
func (f *fitter) predict(ctx context.Context, want func(grid.Case) bool) (map[grid.Case]float64, error) {
	d, err := softgpu.Open(softgpu.Options{Profile: f.p})
	if err != nil {
		return nil, err
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	out := map[grid.Case]float64{}
	for _, set := range []grid.Set{grid.Operations, grid.Patterns} {
		r, err := grid.Measure(ctx, g, &grid.Options{Set: set, Only: func(c grid.Case) bool {
			_, known := f.measured[c]
			return known && want(c)
		}})
		if err != nil {
			return nil, err
		}
		for _, x := range r.Points {
			out[x.Case] = x.Median
		}
	}
	return out, f.predictSteps(ctx, g, want, out)
}

// round moves all curves and numbers once.
func (f *fitter) round(ctx context.Context) error {
	for i := range curves {
		if f.wants(curves[i].path) {
			if err := f.follow(ctx, &curves[i]); err != nil {
				return err
			}
		}
	}
	for i := range groups {
		if f.wants(groups[i].numbers[0].path) {
			if err := f.search(ctx, &groups[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// search moves the numbers of a group together. A prediction is nearly linear in each of
// them, or in its inverse if it is a rate. So each number is changed a little to find the
// slope of every case. Then all numbers move to where the error of the straight lines is
// smallest, and the software GPU predicts the times there. If its error is larger than
// before, the step is halved.
func (f *fitter) search(ctx context.Context, g *group) error {
	began, before, first := time.Now(), "", -1.0
	for range 3 {
		l, err := f.linearize(ctx, g)
		if err != nil {
			return err
		}
		if first < 0 {
			before, first = g.format(f.p), l.misfit(l.at)
		}
		best, from := l.misfit(l.at), l.at
		to, better := l.minimum(), false
		for range 4 {
			g.set(f.p, to)
			got, err := f.predict(ctx, g.wants)
			if err != nil {
				return err
			}
			if better = l.with(got).misfit(l.at) < best-1e-4; better {
				break
			}
			for i := range to {
				to[i] = (to[i] + from[i]) / 2
			}
			g.set(f.p, from)
		}
		if !better {
			break
		}
	}
	got, err := f.predict(ctx, g.wants)
	if err != nil {
		return err
	}
	l := &lines{g: g, measured: f.measured, at: g.get(f.p)}
	fmt.Fprintf(os.Stderr, "%.0f s: error %.4f -> %.4f  %s -> %s\n", time.Since(began).Seconds(), first, l.with(got).misfit(l.at), before, g.format(f.p))
	return nil
}

// get returns the numbers in the form in which they are searched. A rate is replaced by
// its inverse times the square of its start, which is equal to the rate at the start.
func (g *group) get(p *profile.Profile) []float64 {
	out := make([]float64, len(g.numbers))
	for i, n := range g.numbers {
		out[i] = n.in(p).Value
		if n.rate {
			out[i] = n.start / out[i] * n.start
		}
	}
	return out
}

func (g *group) set(p *profile.Profile, at []float64) {
	for i, n := range g.numbers {
		v := at[i]
		if n.rate {
			v = n.start / v * n.start
		}
		n.in(p).Value = significant(v)
	}
}

func (g *group) format(p *profile.Profile) string {
	var b strings.Builder
	for _, n := range g.numbers {
		fmt.Fprintf(&b, " %s %.4g", n.path[strings.LastIndex(n.path, ".")+1:], n.in(p).Value)
	}
	return b.String()
}

// lines are linear approximations of the predictions of a group's cases.
type lines struct {
	g        *group
	measured map[grid.Case]float64
	at       []float64 // the numbers for which ns and slopes hold
	cases    []grid.Case
	ns       []float64   // by case
	slopes   [][]float64 // by number, by case
}

func (f *fitter) linearize(ctx context.Context, g *group) (*lines, error) {
	at := g.get(f.p)
	l := &lines{g: g, measured: f.measured, at: at}
	got, err := f.predict(ctx, g.wants)
	if err != nil {
		return nil, err
	}
	l = l.with(got)
	for i, n := range g.numbers {
		step := 0.1 * max(at[i], 0.1*n.start)
		moved := slices.Clone(at)
		moved[i] += step
		g.set(f.p, moved)
		step = g.get(f.p)[i] - at[i] // set has rounded the number
		there, err := f.predict(ctx, g.wants)
		g.set(f.p, at)
		if err != nil {
			return nil, err
		}
		slope := make([]float64, len(l.cases))
		for k, c := range l.cases {
			slope[k] = (there[c] - got[c]) / step
		}
		l.slopes = append(l.slopes, slope)
	}
	return l, nil
}

// with returns a copy of l with other predictions.
func (l *lines) with(got map[grid.Case]float64) *lines {
	out := *l
	out.cases, out.ns = nil, nil
	for c := range got {
		out.cases = append(out.cases, c)
	}
	slices.SortFunc(out.cases, func(a, b grid.Case) int { return strings.Compare(a.String(), b.String()) })
	for _, c := range out.cases {
		out.ns = append(out.ns, got[c])
	}
	return &out
}

// misfit returns the error of the predictions with other numbers: the mean over the
// kinds of the mean of |ln(predicted / measured)| over a kind's cases.
func (l *lines) misfit(at []float64) float64 {
	sum, count := map[string]float64{}, map[string]float64{}
	for k, c := range l.cases {
		ns := l.ns[k]
		for i := range l.slopes {
			ns += l.slopes[i][k] * (at[i] - l.at[i])
		}
		sum[c.Kind] += math.Abs(math.Log(max(ns, 1) / l.measured[c]))
		count[c.Kind]++
	}
	total, kinds := 0.0, 0.0
	for _, k := range l.g.kinds { // in a fixed order, because sums of floats depend on it
		if count[k] > 0 {
			total += sum[k] / count[k]
			kinds++
		}
	}
	return total / max(1, kinds)
}

// minimum returns the numbers with the smallest misfit. It tries changes of one number
// and of two numbers at once, by ever smaller steps.
func (l *lines) minimum() []float64 {
	at := slices.Clone(l.at)
	best := l.misfit(at)
	try := func(width float64, which ...int) {
		for signs := range 1 << len(which) {
			to := slices.Clone(at)
			for k, i := range which {
				n := l.g.numbers[i]
				by := width * max(at[i], 0.05*n.start)
				if signs>>k&1 != 0 {
					by = -by
				}
				least := 0.0
				if n.rate {
					least = 0.05 * n.start
				}
				to[i] = max(least, at[i]+by)
			}
			if e := l.misfit(to); e < best-1e-7 {
				at, best = to, e
			}
		}
	}
	for width := 1.0; width > 0.002; width *= 0.6 {
		for range 4 {
			for i := range at {
				try(width, i)
				for k := range i {
					try(width, i, k)
				}
			}
		}
	}
	return at
}

// follow moves a curve at each measured size by the error of its kinds there, then makes
// it rise.
func (f *fitter) follow(ctx context.Context, c *curve) error {
	at := c.in(f.p)
	var raw []profile.Point
	for _, k := range c.kinds {
		got, err := f.predict(ctx, func(x grid.Case) bool { return x.Kind == k.name && (c.max == 0 || x.Size <= c.max) })
		if err != nil {
			return err
		}
		for x, ns := range got {
			n := float64(x.Size * max(1, k.bytes))
			raw = append(raw, profile.Point{Bytes: n, Ns: at.Ns(n) + (f.measured[x]-ns)/float64(max(1, k.times))})
		}
	}
	slices.SortFunc(raw, func(a, b profile.Point) int {
		if a.Bytes != b.Bytes {
			return int(math.Copysign(1, a.Bytes-b.Bytes))
		}
		return int(math.Copysign(1, a.Ns-b.Ns))
	})
	*at = profile.Curve{Points: rising(raw, c.zero), Source: fitSource}
	if at == &f.p.Kernel.Memory { // concurrent kernels share the bandwidth of its last point
		last := at.Points[len(at.Points)-1]
		f.p.Kernel.Bandwidth = profile.Number{Value: significant(last.Bytes / last.Ns * 1e9), Source: fitSource}
	}
	fmt.Fprintf(os.Stderr, "%-40s %d points\n", c.path, len(at.Points))
	return nil
}

// rising returns the rising curve that is nearest to the points. It replaces points at
// one size by their mean, and also neighbours that fall. If zero is set, the curve begins
// with 0 ns for 0 bytes.
func rising(raw []profile.Point, zero bool) []profile.Point {
	type pool struct{ first, last, sum, count float64 }
	var pools []pool
	for _, p := range raw {
		pools = append(pools, pool{p.Bytes, p.Bytes, p.Ns, 1})
		for k := len(pools) - 1; k > 0; k-- {
			a, b := pools[k-1], pools[k]
			if a.last != b.first && a.sum/a.count <= b.sum/b.count {
				break
			}
			pools = append(pools[:k-1], pool{a.first, b.last, a.sum + b.sum, a.count + b.count})
		}
	}
	var out []profile.Point
	if zero {
		out = append(out, profile.Point{})
	}
	for _, p := range pools {
		ns := significant(max(0, p.sum/p.count))
		out = append(out, profile.Point{Bytes: p.first, Ns: ns})
		if p.last != p.first {
			out = append(out, profile.Point{Bytes: p.last, Ns: ns})
		}
	}
	return out
}

// significant rounds to four digits, because no measurement has more.
func significant(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit < 1 {
		inverse := math.Round(1 / unit)
		return math.Round(v*inverse) / inverse
	}
	return math.Round(v/unit) * unit
}
