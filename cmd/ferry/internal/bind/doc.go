// Package bind writes Go code that launches kernels with typed arguments. It implements
// "ferry bind".
//
// [Generate] compiles a CUDA source, or takes PTX, and finds the signature of each kernel.
// The compiler is asked for all types, so that typedefs, macros and templates need no rules
// here. A C++ compiler writes the types of a function into its mangled name. So a second
// compilation has a probe appended to the source: empty kernels whose parameters are
// templates of the wanted types, sizes and offsets. Their names in the PTX are the answer,
// whichever compiler it was. See probe.go.
//
// The text of the source gives what the compiler does not tell: names of parameters and of
// fields, comments, and the signature as it was written. See scan.go. A construct that the
// scanner does not understand costs names and comments, never types.
//
// [Check] compares generated code with its source, and says what differs.
package bind
