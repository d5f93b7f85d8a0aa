package main

import (
	"fmt"
	"math"
	"math/big"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

// fit is the problem of a polynomial that is near a function.
type fit struct {
	name   string
	lo, hi float64
	// at returns the function at z, and the factor that turns a difference of the
	// polynomial from it into an error of the whole result.
	at func(z *big.Float) (value, weight *big.Float)
	// bits32 and bits64 demand an error of at most 2^-bits; 0 means no polynomial of that type.
	bits32, bits64 int
	doc            string
}

// samples is the number of points at which an error is computed.
const samples = 1000

// grid has samples of a fit.
type grid struct{ z, value, weight []*big.Float }

func (f *fit) grid() *grid {
	g := &grid{}
	for i := range samples {
		x := (1 - math.Cos(math.Pi*(float64(i)+0.5)/samples)) / 2
		z := b.Num(f.lo + (f.hi-f.lo)*x)
		value, weight := f.at(z)
		g.z, g.value, g.weight = append(g.z, z), append(g.value, value), append(g.weight, b.Abs(weight))
	}
	return g
}

// least returns the polynomial of fewest terms whose error is at most 2^-bits.
func (g *grid) least(bits int) ([]*big.Float, float64, error) {
	for n := 2; n < 40; n++ {
		c, err := g.remez(n)
		if err <= math.Ldexp(1, -bits) {
			return c, err, nil
		}
	}
	return nil, 0, fmt.Errorf("no polynomial of 40 terms reaches 2^-%d", bits)
}

// remez returns the coefficients of the polynomial of n terms with the least largest
// error, and the error. It exchanges all n+1 points in each round.
func (g *grid) remez(n int) (c []*big.Float, worst float64) {
	points := make([]int, n+1)
	for i := range points {
		x := (1 - math.Cos(math.Pi*float64(i)/float64(n))) / 2
		points[i] = int(math.Round(math.Acos(1-2*x) / math.Pi * (samples - 1)))
	}
	for range 30 {
		c = g.solve(points, n)
		errors := g.errors(c)
		next := extrema(errors, n+1)
		worst = 0
		for _, e := range errors {
			worst = max(worst, math.Abs(e))
		}
		least := worst
		for _, p := range next {
			least = min(least, math.Abs(errors[p]))
		}
		if len(next) < n+1 || least > 0.98*worst {
			return c, worst
		}
		points = next
	}
	return c, worst
}

// errors returns the weighted errors of a polynomial on the grid.
func (g *grid) errors(c []*big.Float) []float64 {
	e := make([]float64, len(g.z))
	for i, z := range g.z {
		e[i] = b.Float(b.Mul(b.Sub(horner(c, z), g.value[i]), g.weight[i]))
	}
	return e
}

func horner(c []*big.Float, z *big.Float) *big.Float {
	y := b.Num(0)
	for i := len(c) - 1; i >= 0; i-- {
		y = b.Add(b.Mul(y, z), c[i])
	}
	return y
}

// extrema returns n points with the largest errors of alternating signs.
func extrema(e []float64, n int) (points []int) {
	for i := range e {
		last := len(points) - 1
		switch {
		case last < 0 || math.Signbit(e[i]) != math.Signbit(e[points[last]]):
			points = append(points, i)
		case math.Abs(e[i]) > math.Abs(e[points[last]]):
			points[last] = i
		}
	}
	for len(points) > n { // drop the smaller end
		if math.Abs(e[points[0]]) < math.Abs(e[points[len(points)-1]]) {
			points = points[1:]
		} else {
			points = points[:len(points)-1]
		}
	}
	return points
}

// solve finds the polynomial whose errors at the points are equal with alternating signs.
func (g *grid) solve(points []int, n int) []*big.Float {
	m := make([][]*big.Float, n+1)
	for i, p := range points {
		row := make([]*big.Float, n+2)
		power := b.Num(1)
		for j := range n {
			row[j] = power
			power = b.Mul(power, g.z[p])
		}
		row[n] = b.Quo(b.Num(1-2*float64(i%2)), g.weight[p])
		row[n+1] = g.value[p]
		m[i] = row
	}
	return gauss(m)[:n]
}

// gauss solves a system of linear equations. The last column is the right side.
func gauss(m [][]*big.Float) []*big.Float {
	n := len(m)
	for col := range n {
		best := col
		for r := col; r < n; r++ {
			if b.Abs(m[r][col]).Cmp(b.Abs(m[best][col])) > 0 {
				best = r
			}
		}
		m[col], m[best] = m[best], m[col]
		for r := col + 1; r < n; r++ {
			f := b.Quo(m[r][col], m[col][col])
			for k := col; k <= n; k++ {
				m[r][k] = b.Sub(m[r][k], b.Mul(f, m[col][k]))
			}
		}
	}
	x := make([]*big.Float, n)
	for i := n - 1; i >= 0; i-- {
		sum := m[i][n]
		for k := i + 1; k < n; k++ {
			sum = b.Sub(sum, b.Mul(m[i][k], x[k]))
		}
		x[i] = b.Quo(sum, m[i][i])
	}
	return x
}
