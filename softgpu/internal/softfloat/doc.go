// Package softfloat is the floating-point arithmetic of an NVIDIA GPU in software,
// bit for bit as an H200 computes it.
//
// The file format.go has the binary formats (f16, bf16, tf32, f32 and the 8-bit
// formats) with their encoding and rounding. The file arith.go has add, sub, mul, fma,
// div and sqrt in every rounding direction. The file mode.go applies the modifiers of
// an instruction (.ftz, .sat, .relu) to a result. Others have min and max (minmax.go),
// conversions (convert.go), approximations (approx.go) and the sums of tensor cores
// (tensor.go).
//
// The package works on single numbers. It knows no instruction, register or thread:
// package simt has the instructions, and the loops over the lanes of a warp.
package softfloat
