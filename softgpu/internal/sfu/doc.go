// Package sfu computes what the special function unit of an NVIDIA GPU computes, bit for
// bit: rcp, rsqrt, sqrt, lg2, ex2, sin, cos and tanh of an f32, and the upper words of rcp
// and rsqrt of an f64.
//
// The unit interpolates: the upper bits of an argument choose a row of coefficients, the
// next 17 bits are x in c0 + c1*x + c2*x*x. The sum is cut to the bits of the result. The
// rows are in tables.txt.
//
// The unit reads and returns denormals as zero. PTX instructions without .ftz scale their
// operands around it: that is in package softfloat. Package fit finds rows from results.
package sfu
