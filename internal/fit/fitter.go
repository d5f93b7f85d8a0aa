package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/bench/grid"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// fitter moves the numbers of p.
type fitter struct {
	p        *profile.Profile
	measured map[grid.Case]float64 // ns
	only     string                // the beginning of the paths to fit
}

// predict is what the software GPU says of the measured cases that want wants.
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
	r, err := grid.Measure(ctx, g, &grid.Options{Only: func(c grid.Case) bool {
		_, known := f.measured[c]
		return known && want(c)
	}})
	if err != nil {
		return nil, err
	}
	out := map[grid.Case]float64{}
	for _, x := range r.Points {
		out[x.Case] = x.Median
	}
	return out, f.predictSteps(ctx, g, want, out)
}

// off is how far predictions of some kinds are off: the mean of |ln(predicted /
// measured)| of each kind, summed over the kinds.
func (f *fitter) off(ctx context.Context, n *number) (float64, error) {
	got, err := f.predict(ctx, func(c grid.Case) bool { return n.min <= c.Size && c.Size <= n.max && slices.Contains(n.kinds, c.Kind) })
	if err != nil {
		return 0, err
	}
	sum, count := map[string]float64{}, map[string]float64{}
	for c, ns := range got {
		sum[c.Kind] += math.Abs(math.Log(max(ns, 1) / f.measured[c]))
		count[c.Kind]++
	}
	total := 0.0
	for _, k := range n.kinds {
		if count[k] > 0 {
			total += sum[k] / count[k]
		}
	}
	return total, nil
}

// round goes through all numbers and curves once.
func (f *fitter) round(ctx context.Context, round int) error {
	step := math.Pow(0.5, float64(round)) // later rounds take smaller steps
	for i := range numbers {
		if !strings.HasPrefix(numbers[i].path, f.only) {
			continue
		}
		if err := f.search(ctx, &numbers[i], step); err != nil {
			return err
		}
	}
	for i := range curves {
		if !strings.HasPrefix(curves[i].path, f.only) {
			continue
		}
		if err := f.follow(ctx, &curves[i]); err != nil {
			return err
		}
	}
	return nil
}

// search moves one number to the best of some multiples of it, then of some nearer.
func (f *fitter) search(ctx context.Context, n *number, step float64) error {
	x := n.in(f.p)
	if x.Value == 0 {
		x.Value = n.start
	}
	x.Source = fitSource
	best, err := f.off(ctx, n)
	if err != nil {
		return err
	}
	before, was := x.Value, best
	for _, width := range []float64{1.2, 0.35, 0.1, 0.03} {
		width *= step
		centre := x.Value
		for _, k := range []float64{-2, -1, 1, 2} {
			value := centre * math.Exp(k*width)
			keep := x.Value
			x.Value = value
			got, err := f.off(ctx, n)
			if err != nil {
				return err
			}
			if got < best-1e-6 {
				best = got
			} else {
				x.Value = keep
			}
		}
	}
	x.Value = significant(x.Value)
	fmt.Fprintf(os.Stderr, "%-40s %12.5g -> %12.5g   off %.4f -> %.4f\n", n.path, before, x.Value, was, best)
	return nil
}

// follow moves a curve at the sizes measured by what its kind is off there.
func (f *fitter) follow(ctx context.Context, c *curve) error {
	got, err := f.predict(ctx, func(x grid.Case) bool { return x.Kind == c.kind })
	if err != nil {
		return err
	}
	var sizes []int
	for x := range got {
		sizes = append(sizes, x.Size)
	}
	slices.Sort(sizes)
	at := c.in(f.p)
	var points []profile.Point
	for _, n := range sizes {
		x := grid.Case{Kind: c.kind, Size: n}
		per := float64(max(1, c.times))
		n *= max(1, c.bytes)
		ns := max(0, at.Ns(float64(n))+(f.measured[x]-got[x])/per)
		if last := len(points) - 1; last >= 0 {
			ns = max(ns, points[last].Ns) // it rises
		}
		points = append(points, profile.Point{Bytes: float64(n), Ns: significant(ns)})
	}
	*at = profile.Curve{Points: points, Source: fitSource}
	fmt.Fprintf(os.Stderr, "%-40s %d points\n", c.path, len(points))
	return nil
}

// significant rounds to four digits: no measurement has more.
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
