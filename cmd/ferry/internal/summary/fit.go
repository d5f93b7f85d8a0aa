package summary

import (
	"math"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// Fit is the straight line T = A + V/B through the times of a kind, where V is the size. Each
// time counts by its relative error. The errors are standard errors.
type Fit struct {
	A      float64 `json:"a_ns"` // the time that every operation takes
	AError float64 `json:"a_error_ns"`
	B      float64 `json:"b_per_s"` // units of the size in a second; 0 if the time grows by less than its error
	BError float64 `json:"b_error_per_s"`
	Sizes  int     `json:"sizes"`
	// Worst is the largest relative distance of a time from the line: far from 0 for times
	// that follow no straight line.
	Worst float64 `json:"worst"`
}

// fit returns the line through the times of points, or nil for fewer than three sizes. An
// operation moves the size of its point several times.
func fit(points []grid.Point, times int) *Fit {
	var s, sx, sy, sxx, sxy float64
	for _, p := range points {
		x, y := float64(times*p.Size), max(p.Median, 1)
		w := 1 / (y * y)
		s, sx, sy, sxx, sxy = s+w, sx+w*x, sy+w*y, sxx+w*x*x, sxy+w*x*y
	}
	n := len(points)
	d := s*sxx - sx*sx
	if n < 3 || d <= 0 {
		return nil
	}
	slope := (s*sxy - sx*sy) / d
	f := &Fit{A: (sy - slope*sx) / s, Sizes: n}
	var rest float64
	for _, p := range points {
		y := max(p.Median, 1)
		off := math.Abs(f.A+slope*float64(times*p.Size)-y) / y
		rest += off * off
		f.Worst = max(f.Worst, off)
	}
	rest /= float64(n - 2)
	f.AError = math.Sqrt(rest * sxx / d)
	if slopeError := math.Sqrt(rest * s / d); slope > slopeError && slope > 0 {
		f.B, f.BError = 1e9/slope, 1e9/slope*slopeError/slope
	}
	f.round()
	return f
}

// round rounds the numbers to what times of a tenth of a nanosecond can tell.
func (f *Fit) round() {
	for _, v := range []*float64{&f.A, &f.AError} {
		*v = math.Round(*v*10) / 10
	}
	f.B, f.BError = math.Round(f.B), math.Round(f.BError)
	f.Worst = math.Round(f.Worst*1e3) / 1e3
}
