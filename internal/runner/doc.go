// Package runner launches any kernel of a PTX file from outside of a Go
// program: it is what stands behind "ferry run".
//
// The grammar of the kernel's arguments lives here ([ParseArg], [ParseShape]),
// the values that they stand for, the launch itself ([Run]) and the two ways to
// show what came out ([Result.Text], [Result.JSON]). Flags and exit codes do
// not: those are the command's.
//
// An argument is a scalar, TYPE=VALUE, or a buffer, in:TYPE=DATA, out:TYPE=[N]
// or inout:TYPE=DATA, where DATA is a list of values, @FILE for raw
// little-endian bytes, iota[N], random[N] or [N] for N zeros. The types are
// u8..u64, s8..s64, b8..b64, f16, bf16, f32 and f64. What is wrong with an
// argument by itself is an error of ParseArg; what is wrong with it for this
// kernel, on this device, is an error of Run.
package runner
