// Package runner launches any kernel of a PTX file with arguments that are given as text.
// It implements "ferry run".
//
// It has the grammar of the kernel's arguments ([ParseArg], [ParseShape]), their values,
// the launch ([Run]) and two forms of the result ([Result.Text], [Result.JSON]). Flags and
// exit codes belong to the command.
//
// An argument is a scalar, TYPE=VALUE, or a buffer, in:TYPE=DATA, out:TYPE=[N] or
// inout:TYPE=DATA. DATA is a list of values, @FILE for raw little-endian bytes,
// iota[N], random[N] or [N] for N zeros. The types are u8..u64, s8..s64, b8..b64, f16,
// bf16, f32 and f64. ParseArg reports errors in an argument alone. Run reports
// arguments that do not fit the kernel or the device.
package runner
