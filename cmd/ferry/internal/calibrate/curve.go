package calibrate

import (
	"cmp"
	"math"
	"slices"

	"github.com/ferrygpu/ferry/profile"
)

// move is what a curve should be at a number of bytes, and what it was.
type move struct{ bytes, was, want float64 }

// mostMove is the largest factor by which a curve moves.
const mostMove = 20

// ratio returns the factor of the move. A curve that was nearly 0 does not move by it.
func (m move) ratio() float64 {
	if m.was < 1 {
		return 1
	}
	return clamp(max(m.want, 0)/m.was, mostMove)
}

// moved returns a curve multiplied by the ratios of moves. Between two moves the ratio
// changes with the logarithm of the bytes. Moves at one size count by their mean.
func moved(old profile.Curve, moves []move) profile.Curve {
	slices.SortFunc(moves, func(a, b move) int { return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.want, b.want)) })
	var at, ratio []float64
	for i := 0; i < len(moves); {
		sum, n := 0.0, 0
		for ; i+n < len(moves) && moves[i+n].bytes == moves[i].bytes; n++ {
			sum += math.Log(moves[i+n].ratio())
		}
		at, ratio = append(at, math.Log(max(moves[i].bytes, 1))), append(ratio, sum/float64(n))
		i += n
	}
	out := profile.Curve{Source: source}
	for _, bytes := range sizes(old, moves) {
		ns := old.Ns(bytes) * math.Exp(interpolate(at, ratio, math.Log(max(bytes, 1))))
		if n := len(out.Points); n > 0 {
			ns = max(ns, out.Points[n-1].Ns) // curves rise
		}
		out.Points = append(out.Points, profile.Point{Bytes: bytes, Ns: math.Round(ns*10) / 10})
	}
	return out
}

// sizes returns the bytes at which a moved curve has points: those of the old one and of the
// moves.
func sizes(old profile.Curve, moves []move) (all []float64) {
	for _, p := range old.Points {
		all = append(all, p.Bytes)
	}
	for _, m := range moves {
		all = append(all, m.bytes)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// interpolate returns y at a point between others. Before the first and after the last it is
// theirs.
func interpolate(xs, ys []float64, x float64) float64 {
	i, exact := slices.BinarySearch(xs, x)
	switch {
	case exact:
		return ys[i]
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[i-1]
	}
	return ys[i-1] + (x-xs[i-1])/(xs[i]-xs[i-1])*(ys[i]-ys[i-1])
}
