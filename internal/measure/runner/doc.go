// Package runner launches any kernel of a PTX file with arguments that are given as text.
// It implements "ferry run".
//
// It has the grammar of the kernel's arguments ([ParseArg], [ParseShape]), their values,
// the launch ([Run]) and two forms of the result ([Result.Text], [Result.JSON]). Flags and
// exit codes belong to the command.
//
// Package kerneltest uses the same arguments, but launches kernels itself. The grammar is
// documented there and in "ferry help run". ParseArg reports errors in an argument alone.
// Match and Run report arguments that do not fit the kernel or the device.
package runner
