package main

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
)

// random returns a signal.
func random(n int) []complex64 {
	x := make([]complex64, n)
	for i := range x {
		x[i] = complex(2*rand.Float32()-1, 2*rand.Float32()-1)
	}
	return x
}

// roots returns the n-th roots of 1, the exponents negative.
func roots(n int) []complex128 {
	r := make([]complex128, n)
	for i := range r {
		r[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/float64(n))
	}
	return r
}

// dft returns the transform of a signal by its definition.
func dft(x []complex64, roots []complex128) []complex128 {
	y := make([]complex128, len(x))
	for k := range y {
		for j, v := range x {
			y[k] += complex128(v) * roots[j*k%len(x)]
		}
	}
	return y
}

// most is the largest relative error that compare accepts. One of float32 is 6e-8; it grows with the
// logarithm of n in a fast transform, and with its root in a plain sum. A single wrong element of
// 360 is an error of 5e-2.
const most = 1e-5

// compare compares spectra, and signals that were transformed forward and back, with what they must
// be.
func compare(signals, spectra, returned []complex64, n int) (e errorsOf, err error) {
	r := roots(n)
	for at := 0; at < len(signals); at += n {
		signal := signals[at : at+n]
		scaled := make([]complex128, n)
		for i, v := range signal {
			scaled[i] = complex128(v) * complex(float64(n), 0)
		}
		one := errorsOf{distance(spectra[at:at+n], dft(signal, r)), distance(returned[at:at+n], scaled)}
		if !(one.forward <= most && one.back <= most) { // also for NaN
			return one, fmt.Errorf("signal %d is off by %.1e forward, %.1e forward and back, want at most %.0e", at/n, one.forward, one.back, most)
		}
		_ = e.add(one, nil)
	}
	return e, nil
}

// distance returns the relative error of a vector.
func distance(got []complex64, want []complex128) float64 {
	var off, length float64
	for i, w := range want {
		d := complex128(got[i]) - w
		off += real(d)*real(d) + imag(d)*imag(d)
		length += real(w)*real(w) + imag(w)*imag(w)
	}
	return math.Sqrt(off / length)
}
