// Package fit finds the coefficients of the special function unit from its results.
//
// A result bounds the sum that it was cut from. All results of one interval bound the sums
// of one row, and Row finds coefficients whose sums are within all bounds. They need not
// be those of the hardware, but they give the same result at each point.
package fit

import "github.com/ferrygpu/ferry/softgpu/internal/sfu"

// Point bounds the sum of a row at X, a number of 17 bits.
type Point struct {
	X         uint32
	Low, High int64
}

// Coefficients are searched from -limit to limit.
const (
	limit1 = 1 << 24
	limit2 = 1 << 20
)

// rounds is how often Row adds points to those that it looks at.
const rounds = 200

// Row returns coefficients whose sums are within the bounds of all points, or false if
// none were found.
//
// It looks at few points at first, and adds those that the coefficients for these violate
// the most. The violation is a convex function of C1 and C2, so that two nested searches
// find its minimum.
func Row(points []Point) (sfu.Row, bool) {
	if len(points) == 0 {
		return sfu.Row{}, false
	}
	active := []Point{points[0], points[len(points)/3], points[len(points)*2/3], points[len(points)-1]}
	for range rounds {
		c1, c2, ok := solve(active)
		if !ok {
			return sfu.Row{}, false
		}
		low, high := extremes(points, c1, c2)
		from, to := offset(&points[low], c1, c2, true), offset(&points[high], c1, c2, false)
		if from <= to {
			return sfu.Row{C0: from + (to-from)/2, C1: int32(c1), C2: int32(c2)}, true
		}
		active = append(active, points[low], points[high])
	}
	return sfu.Row{}, false
}

// offset returns the least or the largest C0 that is right at a point.
func offset(p *Point, c1, c2 int64, low bool) int64 {
	bound := p.High
	if low {
		bound = p.Low
	}
	return bound - c1*int64(p.X) - c2*int64(sfu.Square(p.X))
}

// extremes returns the points that demand the largest and the smallest C0.
func extremes(points []Point, c1, c2 int64) (low, high int) {
	var most, least int64
	for i := range points {
		rest := c1*int64(points[i].X) + c2*int64(sfu.Square(points[i].X))
		if l := points[i].Low - rest; i == 0 || l > most {
			most, low = l, i
		}
		if h := points[i].High - rest; i == 0 || h < least {
			least, high = h, i
		}
	}
	return low, high
}

// violation returns by how much the points contradict each other: up to 0 if a C0 is right
// at all of them.
func violation(points []Point, c1, c2 int64) int64 {
	low, high := extremes(points, c1, c2)
	return offset(&points[low], c1, c2, true) - offset(&points[high], c1, c2, false)
}

// finer is the number of steps from one coefficient to the next in the search that ignores
// that they are integers. Only then is the least violation over all C1 convex in C2.
const finer = 64

// around is how far from the result of that search integers are tried.
const around = 128

// solve returns C1 and C2 for which some C0 is right at all points.
func solve(points []Point) (c1, c2 int64, ok bool) {
	scaled := make([]Point, len(points))
	for i, p := range points {
		scaled[i] = Point{p.X, p.Low * finer, p.High * finer}
	}
	best, _ := minimum(-limit2*finer, limit2*finer, func(c2 int64) int64 {
		_, v := minimum(-limit1*finer, limit1*finer, func(c1 int64) int64 { return violation(scaled, c1, c2) })
		return v
	})
	for d := range int64(around) {
		for _, c2 := range []int64{best/finer - d, best/finer + d} {
			c1, v := minimum(-limit1, limit1, func(c1 int64) int64 { return violation(points, c1, c2) })
			if v <= 0 {
				return c1, c2, true
			}
		}
	}
	return 0, 0, false
}

// minimum returns where a convex function is least, and its value there. It compares
// distant places, so that a function that is convex but for small steps is near its least.
func minimum(low, high int64, f func(int64) int64) (int64, int64) {
	for high-low > 2 {
		third := (high - low) / 3
		if f(low+third) <= f(high-third) {
			high -= third
		} else {
			low += third
		}
	}
	at, least := low, f(low)
	for x := low + 1; x <= high; x++ {
		if v := f(x); v < least {
			at, least = x, v
		}
	}
	return at, least
}
