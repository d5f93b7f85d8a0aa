// Package bigmath computes the functions of math.h with math/big. Each result has at least
// 110 correct bits, so that it can judge functions in double precision. The arguments are
// finite and in the function's domain, with at most 53 bits unless a comment says otherwise.
//
// The methods are the plain ones: power series after a reduction of the argument,
// Stirling's series, continued fractions. Speed is a few microseconds a call.
package bigmath
