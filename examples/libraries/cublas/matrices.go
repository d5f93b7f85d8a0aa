package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// matrices are a, b and c of a product, with random numbers.
type matrices struct {
	m, n, k     int
	alpha, beta float32
	a, b, c     []float32
}

func newMatrices(m, n, k int) *matrices {
	x := &matrices{m: m, n: n, k: k, alpha: 1 + rand.Float32(), beta: -1 - rand.Float32(),
		a: make([]float32, m*k), b: make([]float32, k*n), c: make([]float32, m*n)}
	x.randomize()
	return x
}

// randomize gives the matrices other elements.
func (x *matrices) randomize() {
	randomize(x.a)
	randomize(x.b)
	randomize(x.c)
}

// compare compares a result with the product in float64. It returns the largest error as a fraction
// of what the rounding of float32 allows, and an error if that is more than 1.
//
// A sum of k products in any order is off by at most (k+2) roundings of the sum of their absolute
// values, and alpha and beta add two.
func (x *matrices) compare(got []float32) (worst float64, err error) {
	for i := range x.m {
		for j := range x.n {
			var sum, absolute float64
			for l := range x.k {
				p := float64(x.a[i*x.k+l]) * float64(x.b[l*x.n+j])
				sum, absolute = sum+p, absolute+math.Abs(p)
			}
			old, alpha, beta := float64(x.c[i*x.n+j]), float64(x.alpha), float64(x.beta)
			want := alpha*sum + beta*old
			allowed := 0x1p-24 * float64(x.k+4) * (math.Abs(alpha)*absolute + math.Abs(beta*old))
			off := math.Abs(float64(got[i*x.n+j])-want) / allowed
			if !(off <= 1) { // also for NaN
				return off, fmt.Errorf("row %d, column %d: got %v, want %v", i, j, got[i*x.n+j], want)
			}
			worst = max(worst, off)
		}
	}
	return worst, nil
}
