package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// fitter fits the numbers of p.
type fitter struct {
	p        *profile.Profile
	measured map[grid.Case]float64 // ns
	only     string                // only paths with this prefix are fitted
	log      func(format string, args ...any)

	// near says that the fit starts from the values in p and moves only those that the
	// measured cases depend on. Otherwise it starts from the values in this package.
	near   bool
	source string             // of the fitted values
	spans  map[grid.Case]span // of the runs; only for a fit that starts near its end
	moved  map[string]bool    // paths
}

// anew fits all numbers and curves, from the start of every fit.
func (f *fitter) anew(ctx context.Context, rounds int) error {
	f.source = fitSource
	f.reset()
	return f.rounds(ctx, rounds)
}

func (f *fitter) rounds(ctx context.Context, n int) error {
	for range n {
		if err := f.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reset sets p to the start of every fit.
func (f *fitter) reset() {
	for i := range groups {
		for _, n := range groups[i].numbers {
			if f.wants(n.path) {
				*n.in(f.p) = profile.Number{Value: n.start, Source: f.source}
			}
		}
	}
	for i := range curves {
		if c := &curves[i]; f.wants(c.path) {
			*c.in(f.p) = profile.Curve{Points: []profile.Point{{}}, Source: f.source}
		}
	}
}

func (f *fitter) wants(path string) bool { return strings.HasPrefix(path, f.only) }

// curvePoints is how many sizes must be measured to move a curve of a profile.
const curvePoints = 3

// has reports whether enough sizes were measured of the cases that want accepts. A fit
// that starts anew does not ask, because it has nothing else to keep.
func (f *fitter) has(want func(grid.Case) bool, sizes int) bool {
	if !f.near {
		return true
	}
	found := map[int]bool{}
	for c := range f.measured {
		if want(c) {
			found[c.Size] = true
		}
	}
	return len(found) >= sizes
}

// A fit that starts near its end moves a group or curve only if the measured times clearly
// differ from the predicted ones. Runs on one machine often differ by 25 %, so a
// prediction has no error while it is within noise of the range of the runs. The error that
// remains must fall by worth. Without this, a fit to two runs on machine d had errors of
// 8.0 and 31 % on the third (median and 90th percentile). The profile that it started from
// has 6.5 and 24 %.
const (
	noise = 1.25 // factor by which the range of the runs is widened
	worth = 0.05
)

// span is the range of the medians of the runs, in ns.
type span struct{ low, high float64 }

// clear returns the error of predictions beyond the noise, as a mean over kinds.
func (f *fitter) clear(got map[grid.Case]float64) float64 {
	sum, count := map[string]float64{}, map[string]float64{}
	for _, c := range sorted(got) {
		r := f.spans[c]
		e := max(math.Log(got[c]/(r.high*noise)), math.Log(r.low/noise/max(got[c], 1)), 0)
		sum[c.Kind] += e
		count[c.Kind]++
	}
	total := 0.0
	for _, kind := range slices.Sorted(maps.Keys(sum)) {
		total += sum[kind] / count[kind]
	}
	return total / float64(max(1, len(sum)))
}

// sorted returns the cases of times in a fixed order, because sums of floats depend on it.
func sorted(times map[grid.Case]float64) []grid.Case {
	return slices.SortedFunc(maps.Keys(times), func(a, b grid.Case) int { return strings.Compare(a.String(), b.String()) })
}

// begin gives the numbers of a group that p lacks their starts, and notes that the group
// is moved. It returns the numbers as they were.
func (g *group) begin(f *fitter) (kept []profile.Number) {
	for _, n := range g.numbers {
		x := n.in(f.p)
		kept = append(kept, *x)
		if !f.near {
			continue
		}
		if x.Source == "" || n.rate && x.Value <= 0 {
			x.Value = n.start
		}
		x.Source, f.moved[n.path] = f.source, true
	}
	return kept
}

// restore undoes begin and what moved the group since.
func (g *group) restore(f *fitter, kept []profile.Number) {
	for i, n := range g.numbers {
		*n.in(f.p) = kept[i]
		delete(f.moved, n.path)
	}
}

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

// round moves all curves and numbers once. A fit that starts near its end moves the
// numbers first, because curves take up the errors that are left.
func (f *fitter) round(ctx context.Context) error {
	if f.near {
		return errors.Join(f.searchAll(ctx), f.followAll(ctx))
	}
	return errors.Join(f.followAll(ctx), f.searchAll(ctx))
}

// followAll moves all curves.
func (f *fitter) followAll(ctx context.Context) error {
	for i := range curves {
		if f.wants(curves[i].path) && f.has(curves[i].wants, curvePoints) {
			if err := f.follow(ctx, &curves[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchAll moves all groups of numbers.
func (f *fitter) searchAll(ctx context.Context) error {
	for i := range groups {
		if f.wants(groups[i].numbers[0].path) && f.has(groups[i].wants, 1) {
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
	began, before, first := time.Now(), g.format(f.p), -1.0
	kept := g.begin(f)
	clear := 0.0
	if f.near {
		got, err := f.predict(ctx, g.wants)
		if err != nil {
			return err
		}
		if clear = f.clear(got); clear < worth {
			g.restore(f, kept)
			return nil
		}
	}
	for range 3 {
		l, err := f.linearize(ctx, g)
		if err != nil {
			return err
		}
		if first < 0 {
			first = l.misfit(l.at)
		}
		better, err := f.step(ctx, g, l)
		if err != nil {
			return err
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
	f.log("%.0f s: error %.4f -> %.4f  %s -> %s", time.Since(began).Seconds(), first, l.with(got).misfit(l.at), before, g.format(f.p))
	if f.near && clear-f.clear(got) < worth {
		g.restore(f, kept)
	}
	return nil
}

// step moves a group to the minimum of its straight lines, or less far, and reports whether
// that is better.
func (f *fitter) step(ctx context.Context, g *group, l *lines) (better bool, err error) {
	best, from := l.misfit(l.at), l.at
	to := l.minimum()
	for range 4 {
		g.set(f.p, to)
		got, err := f.predict(ctx, g.wants)
		if err != nil {
			return false, err
		}
		if l.with(got).misfit(l.at) < best-1e-4 {
			return true, nil
		}
		for i := range to {
			to[i] = (to[i] + from[i]) / 2
		}
		g.set(f.p, from)
	}
	return false, nil
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
		n.in(p).Value = profile.Nearest(n.path, significant(v))
	}
}

// bounds returns the least and the largest value of a number that a profile may have, in the form
// in which it is searched.
func (n *number) bounds() (least, most float64) {
	low, high := profile.Nearest(n.path, 0), profile.Nearest(n.path, math.Inf(1))
	if !n.rate {
		return low, high
	}
	low = profile.Nearest(n.path, math.SmallestNonzeroFloat64) // 0 has no inverse
	return max(0.05*n.start, n.start/high*n.start), n.start / low * n.start
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
			if step != 0 { // at its largest value a number has no slope
				slope[k] = (there[c] - got[c]) / step
			}
		}
		l.slopes = append(l.slopes, slope)
	}
	return l, nil
}

// with returns a copy of l with other predictions.
func (l *lines) with(got map[grid.Case]float64) *lines {
	out := *l
	out.ns = nil
	out.cases = sorted(got)
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
				least, most := n.bounds()
				to[i] = min(max(least, at[i]+by), most)
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
	kept, bandwidth := *at, f.p.Kernel.Bandwidth
	before, err := f.judge(ctx, c)
	if err != nil {
		return err
	}
	if f.near && before < worth {
		return nil
	}
	raw, err := f.shifted(ctx, c)
	if err != nil || f.near && len(raw) < curvePoints { // the machine of the profile lacks these kinds
		return err
	}
	*at = profile.Curve{Points: rising(raw, c.zero), Source: f.source}
	if at == &f.p.Kernel.Memory { // concurrent kernels share the bandwidth of its last point
		last := at.Points[len(at.Points)-1]
		f.p.Kernel.Bandwidth = profile.Number{Value: profile.Nearest(bandwidthPath, significant(last.Bytes/last.Ns*1e9)), Source: f.source}
	}
	after, err := f.judge(ctx, c)
	if err != nil {
		return err
	}
	f.log("%-40s %d points: error %.4f -> %.4f", c.path, len(at.Points), before, after)
	if !f.near {
		return nil
	}
	if before-after < worth {
		*at, f.p.Kernel.Bandwidth = kept, bandwidth
		return nil
	}
	f.moved[c.path] = true
	f.moved[bandwidthPath] = f.moved[bandwidthPath] || at == &f.p.Kernel.Memory
	return nil
}

// judge returns the clear error of the cases that a curve matters for: those by which it is
// moved and, for a curve of kernels, all kernels. A fit that starts anew does not ask.
func (f *fitter) judge(ctx context.Context, c *curve) (float64, error) {
	if !f.near {
		return 0, nil
	}
	got, err := f.predict(ctx, func(x grid.Case) bool {
		return c.wants(x) || strings.HasPrefix(c.path, "kernel.") && strings.HasPrefix(x.Kind, "kernel ") && x.Size <= judgedBytes
	})
	if err != nil {
		return 0, err
	}
	return f.clear(got), nil
}

// judgedBytes is the size of the largest other kernels by which a curve is judged. Larger
// ones take long to run in software.
const judgedBytes = 16 * mib

// shifted returns the points of a curve, moved by the errors of its kinds.
func (f *fitter) shifted(ctx context.Context, c *curve) (raw []profile.Point, err error) {
	at := c.in(f.p)
	for _, k := range c.kinds {
		got, err := f.predict(ctx, func(x grid.Case) bool { return k.wants(c, x) })
		if err != nil {
			return nil, err
		}
		for x, ns := range got {
			n := float64(x.Size * max(1, k.bytes))
			raw = append(raw, profile.Point{Bytes: n, Ns: at.Ns(n) + (f.measured[x]-ns)/float64(max(1, k.times))})
		}
	}
	slices.SortFunc(raw, func(a, b profile.Point) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Ns, b.Ns))
	})
	return raw, nil
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
