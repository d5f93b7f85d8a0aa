package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// Quality says how well a profile predicts the cases that it was not calibrated to: the
// median of the relative errors.
type Quality struct {
	Base   string  // the profile from which the calibration began
	Before float64 // with that profile
	After  float64
	Cases  int
}

// largest is the size of the largest case that is used. Larger ones take long to predict.
const largest = 16 << 20

// Make returns the document of a profile with a name for the machine of a result. The
// profile base has what the result says nothing about.
func Make(ctx context.Context, name string, base *Base, r *grid.Result) ([]byte, *Quality, error) {
	c := &calibration{doc: base.doc, measured: map[grid.Case]float64{}}
	for _, p := range r.Points {
		if small(p.Case) && p.Median > 0 {
			c.measured[p.Case] = p.Median
		}
	}
	if len(c.measured) == 0 {
		return nil, nil, fmt.Errorf("make the profile %s: no single operation up to 16 MiB was measured", name)
	}
	c.doc.describe(name, base, r)
	q := &Quality{Base: base.Name}
	before, err := c.predict(ctx, everything)
	if err != nil {
		return nil, nil, fmt.Errorf("make the profile %s: %w", name, err)
	}
	q.Before, q.Cases = c.quality(before)
	c.moveNumbers(before)
	between, err := c.predict(ctx, grid.Case.Fits)
	if err == nil {
		c.moveCurves(between)
		between, err = c.predict(ctx, everything)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make the profile %s: %w", name, err)
	}
	q.After, _ = c.quality(between)
	text, err := c.doc.text()
	return text, q, err
}

// small reports whether a case is used.
func small(c grid.Case) bool {
	return c.Size <= largest && (c.Kind != "kernel computes" || c.Size <= 256)
}

func everything(grid.Case) bool { return true }

// calibration is a profile that is being calibrated.
type calibration struct {
	doc      *doc
	measured map[grid.Case]float64 // ns
}

// predict returns the times that the profile predicts for the measured cases that want
// accepts.
func (c *calibration) predict(ctx context.Context, want func(grid.Case) bool) (map[grid.Case]float64, error) {
	text, err := c.doc.text()
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(text)
	if err != nil {
		return nil, err
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p})
	if err != nil {
		return nil, err
	}
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	r, err := grid.Measure(ctx, g, &grid.Options{Only: func(x grid.Case) bool { return c.measured[x] > 0 && want(x) }})
	if err != nil {
		return nil, err
	}
	out := map[grid.Case]float64{}
	for _, x := range r.Points {
		out[x.Case] = x.Median
	}
	return out, nil
}

// quality returns the median error of predictions of the cases for tests, and their number.
func (c *calibration) quality(predicted map[grid.Case]float64) (float64, int) {
	var off []float64
	for x, ns := range predicted {
		if !x.Fits() {
			off = append(off, math.Abs(ns/c.measured[x]-1))
		}
	}
	if len(off) == 0 {
		return 0, 0
	}
	slices.Sort(off)
	return off[len(off)/2], len(off)
}

// moveNumbers moves the numbers by the errors of predictions.
func (c *calibration) moveNumbers(predicted map[grid.Case]float64) {
	for _, n := range numbers {
		x, ok := c.largestOf(n.kind, predicted)
		if !ok {
			continue
		}
		ratio := c.ratio(x, predicted)
		for _, path := range n.paths {
			c.doc.moveNumber(path, func(old float64) float64 {
				switch n.how {
				case perUnit:
					return max(0, old+(c.measured[x]-predicted[x])/float64(x.Size))
				case asRate:
					return old / ratio
				}
				return old * ratio
			})
		}
	}
}

// ratio returns how much longer the measured time is than the predicted one, from the
// smallest case of the kind to its largest, x. What every case takes does not count then.
func (c *calibration) ratio(x grid.Case, predicted map[grid.Case]float64) float64 {
	measured, expected := c.measured[x], predicted[x]
	least := x
	for y := range predicted {
		if y.Kind == x.Kind && y.Fits() && y.Size < least.Size {
			least = y
		}
	}
	if m, e := measured-c.measured[least], expected-predicted[least]; m > 0.1*measured && e > 0.1*expected {
		measured, expected = m, e
	}
	return clamp(measured/max(expected, 1), 10)
}

// largestOf returns the largest predicted case of a kind that is for fitting.
func (c *calibration) largestOf(kind string, predicted map[grid.Case]float64) (found grid.Case, ok bool) {
	for x := range predicted {
		if x.Kind == kind && x.Fits() && x.Size >= found.Size {
			found, ok = x, true
		}
	}
	return found, ok
}

// moveCurves moves the curves by the errors of predictions.
func (c *calibration) moveCurves(predicted map[grid.Case]float64) {
	for _, k := range curves {
		old, ok := c.doc.curve(k.path)
		if !ok {
			continue
		}
		var moves []move
		for _, of := range k.kinds {
			for x, ns := range predicted {
				if x.Kind != of.kind || !x.Fits() {
					continue
				}
				bytes := float64(x.Size * of.times)
				was := old.Ns(bytes)
				moves = append(moves, move{bytes, was, was + c.measured[x] - ns})
			}
		}
		if len(moves) > 0 {
			c.doc.setCurve(k.path, moved(old, moves))
		}
	}
}

// clamp limits a ratio to a factor and its inverse.
func clamp(ratio, most float64) float64 { return min(max(ratio, 1/most), most) }
